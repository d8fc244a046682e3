"""What a reader's model, loss and data held, so that it can be put back.

All that is reached from them is kept: tensors, arrays, containers, attributes of modules, of
objects that the reader has written and of those of Python's library, generators of random numbers,
and what their hooks and functions write to. Of data, which may be large, no long arrays.

Not kept is what objects of installed libraries hold, beside PyTorch's modules, optimizers and
loaders; nor files that are written, logs, caches of functions, threads and processes.
"""

from __future__ import annotations

import ast
import dis
import functools
import itertools
import types
import weakref
from array import array
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as nn_module
from torch.utils import data as torch_data

from lwcore.diagnose.ownership import is_of_library, is_own
from lwcore.diagnose.records import (
    CONTAINERS,
    NOTHING,
    KeptBytes,
    KeptClass,
    KeptEntries,
    KeptNumbers,
    KeptSlot,
    KeptState,
    KeptVariables,
    Record,
    attributes_of_class,
    container_of,
    dotted,
    entries_of,
    state_of,
)
from lwcore.signatures import require

_OF_TORCH = (
    nn.Module,
    torch.optim.Optimizer,
    torch_data.DataLoader,
    torch_data.Dataset,
    torch_data.Sampler,
)
_CACHED = type(functools.cache(len))
_PLAIN = (int, float, complex, str, bytes, bool, type(None))  # which never change
_METHODS = types.MethodType | types.BuiltinMethodType  # as `list.append` of some list
_OF_ITERATORS = ("builtins", "itertools")  # modules of generators, cycles, counters and the like
_MANY = 4096  # entries of a container, above which these are not looked at one by one


class Kept:
    """What some objects of a reader's held, and all that is reached from them."""

    def __init__(self, *roots: Any, copies: bool = True) -> None:
        """Keep it; with `copies` also the numbers in long tensors and arrays."""
        self.copies = copies
        self.kept: list[Record] = []
        self.states: list[KeptState] = []
        self.counters: dict[int, Any] = {}  # copies, by the id of what they stand for
        self.iterators: list[str] = []  # of Python's own, which cannot be put back
        seen: dict[int, Any] = {}  # alive, so that no other has its id
        waiting = [("", root) for root in roots]
        while waiting:
            name, value = waiting.pop()
            if type(value) in _PLAIN or id(value) in seen:
                continue
            seen[id(value)] = value
            waiting += self._keep(name, value)

    def changed(self) -> list[str]:
        """Return the names of what is no longer what it was."""
        return [name for record in self.kept for name in record.changes()]

    def restore(self) -> None:
        """Put back what has changed."""
        with torch.no_grad():
            for record in [*self.kept, *self.states]:
                record.restore()

    def _keep(self, name: str, value: Any) -> list[tuple[str, Any]]:
        """Keep what one object holds, and return what is reached from it."""
        if isinstance(value, Tensor):
            return self._keep_tensor(name, value)
        if isinstance(value, types.ModuleType):
            return []  # its variables are kept where a function names them
        if isinstance(value, types.FunctionType):
            return self._keep_function(name, value)
        if isinstance(value, type):
            return self._keep_class(name, value)
        if isinstance(value, _CACHED):
            self._keep_entries(name, vars(value))
            return []  # what was noted as its cache was filled is not noted again: both stay
        if isinstance(value, np.ndarray):
            is_fixed = not value.flags.writeable or isinstance(value, np.memmap)
            if not is_fixed and self._copies(value.size):
                self.kept.append(KeptNumbers(name, value, value.copy()))
        elif isinstance(value, array | bytearray) and self._copies(len(value)):
            self.kept.append(KeptBytes(name, value, value[:]))
        reached = [(name, part) for part in _parts(value)]
        if isinstance(value, CONTAINERS):
            reached += self._keep_entries(name, value)
        is_iterator = isinstance(value, Iterator) and type(value).__module__ in _OF_ITERATORS
        if is_iterator and id(value) not in self.counters:
            self.iterators.append(f"{name} ({type(value).__name__})")
        state = state_of(value)
        if state is not None:
            self.states.append(state)
        if isinstance(value, _OF_TORCH) or _has_open_attributes(type(value)):
            reached += self._keep_attributes(name, value)
        return reached

    def _copies(self, size: int) -> bool:
        """Say whether so many numbers are copied."""
        return self.copies or size <= _MANY

    def _keep_tensor(self, name: str, value: Tensor) -> list[tuple[str, Any]]:
        """Keep the numbers of a tensor, its gradient, hooks and attributes."""
        is_plain = value.layout is torch.strided and not value.is_meta
        if self.copies or (is_plain and value.numel() <= _MANY):
            self.kept.append(KeptNumbers(name, value, value.detach().clone()))
        reached = [(name, value._backward_hooks)]
        if value.is_leaf:
            gradient = KeptSlot.of(f"{name}.grad", value, Tensor.grad)
            self.kept.append(gradient)
            reached.append((f"{name}.grad", gradient.was))
            reached += self._keep_entries(name, vars(value))
        return reached

    def _keep_entries(self, name: str, value: Any) -> list[tuple[str, Any]]:
        """Keep the entries of a container."""
        was = entries_of(value)
        self.kept.append(KeptEntries(name, value, was))
        if len(was) > _MANY:
            return []
        if isinstance(was, dict):
            kind: Any = container_of(value)
            for key, part in was.items():
                if type(part) is itertools.count:
                    kind.__setitem__(value, key, self._stand_in(part))
            return [(dotted(name, key), part) for key, part in was.items()]
        return [(name, part) for part in was]

    def _keep_attributes(self, name: str, value: Any) -> list[tuple[str, Any]]:
        """Keep the attributes of an object, those that it has in slots, and those of its class."""
        kind = type(value)
        reached: list[tuple[str, Any]] = [(name, kind)]
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            reached += self._keep_entries(name, own)
        for base in kind.__mro__:
            for key, slot in vars(base).items():
                if isinstance(slot, types.MemberDescriptorType) and "__slots__" in vars(base):
                    record = KeptSlot.of(dotted(name, key), value, slot)
                    self.kept.append(record)
                    reached.append((record.name, record.was))
        return reached

    def _keep_function(self, name: str, function: Any) -> list[tuple[str, Any]]:
        """Keep variables of a function that are not local; of readers' own, global ones, too."""
        reached = [(name, function.__defaults__), (name, function.__kwdefaults__)]
        for cell in function.__closure__ or ():
            record = KeptSlot.of(name, cell, types.CellType.cell_contents)
            self.kept.append(record)
            reached.append((name, record.was))
            if type(record.was) is itertools.count:
                cell.cell_contents = self._stand_in(record.was)
        if is_own(function.__module__):
            reached += self._keep_entries(name, vars(function))
            reached += self._keep_variables(function)
        return reached

    def _keep_variables(self, function: Any) -> list[tuple[str, Any]]:
        """Keep global variables that a function uses, and those of other modules of the reader's.

        Of these, as of ``settings.calls``, which it reaches by names behind a dot.
        """
        names, attributes = _names_in(function.__code__)
        reached = []
        seen = set()
        waiting = [("", function.__globals__, names)]
        while waiting:
            name, variables, keys = waiting.pop()
            if id(variables) in seen:
                continue
            seen.add(id(variables))
            was = {key: variables.get(key, NOTHING) for key in keys}
            self.kept.append(KeptVariables(name, variables, was))
            for key, value in was.items():
                if isinstance(value, types.ModuleType):
                    if is_own(value.__name__):
                        waiting.append((dotted(name, key), vars(value), attributes))
                elif value is not NOTHING:
                    reached.append((dotted(name, key), value))
                    if type(value) is itertools.count:
                        variables[key] = self._stand_in(value)
        return reached

    def _keep_class(self, name: str, value: type) -> list[tuple[str, Any]]:
        """Keep the attributes of a class that a reader has written."""
        if not is_own(value.__module__):
            return []
        was = attributes_of_class(value)
        self.kept.append(KeptClass(name, value, was))
        reached: list[tuple[str, Any]] = [(name, base) for base in (type(value), *value.__bases__)]
        for key, part in was.items():
            reached.append((dotted(name, key), part))
            if type(part) is itertools.count:
                type.__setattr__(value, key, self._stand_in(part))
        return reached

    def _stand_in(self, counter: Any) -> Any:
        """Return a copy that stands for a counter of `itertools`, which cannot be set back."""
        if id(counter) not in self.counters:
            copied = _counter_like(counter)
            self.counters |= {id(counter): copied, id(copied): copied}
        return self.counters[id(counter)]


def _counter_like(counter: Any) -> Any:
    """Return a counter at the same number, with the same step, as its text tells them."""
    try:
        told = ast.literal_eval(repr(counter).removeprefix("count"))
    except ValueError:  # of fractions, say
        return counter
    return itertools.count(*told) if isinstance(told, tuple) else itertools.count(told)


def _parts(value: Any) -> list[Any]:
    """Return what an object that cannot be written to is made of."""
    if isinstance(value, tuple | frozenset):
        return [*value]
    if isinstance(value, types.MappingProxyType):
        return [*value.values()]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, _METHODS):
        return [value.__self__, getattr(value, "__func__", None)]
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    if isinstance(value, weakref.ref):
        return [value()]
    if isinstance(value, memoryview):
        return [value.obj]
    if isinstance(value, defaultdict):
        return [value.default_factory]
    if isinstance(value, np.ndarray) and value.dtype == object and value.size <= _MANY:
        return [*value.flat]
    return []


def _has_open_attributes(kind: type) -> bool:
    """Say whether attributes of an object are the reader's: its own class, or one of Python's."""
    return is_own(kind.__module__) or is_of_library(kind.__module__)


def _names_in(code: types.CodeType) -> tuple[set[str], set[str]]:
    """Return the names of the global variables that a function uses, and those behind a dot."""
    names = set()
    attributes = set()
    for step in dis.get_instructions(code):
        if step.opname.endswith("_GLOBAL"):
            names.add(str(step.argval))
        elif step.opname.endswith(("_ATTR", "_METHOD")):
            attributes.add(str(step.argval))
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            inner_names, inner_attributes = _names_in(part)
            names |= inner_names
            attributes |= inner_attributes
    return names, attributes


def _hooks_of_all() -> list[dict[Any, Any]]:
    """Return the hooks that PyTorch calls for every module."""
    hooks = []
    for key, value in vars(nn_module).items():
        if key.startswith("_global_") and isinstance(value, dict):
            hooks.append(value)
    return hooks


@contextmanager
def kept_as_it_was(*roots: Any, copies: bool = True) -> Iterator[Kept]:
    """Put back in the end what some objects of a reader's held."""
    hooks = _hooks_of_all() if copies else []
    kept = Kept(*roots, *hooks, copies=copies)
    try:
        words = "none that goes on for good: hold a whole number, and take what is at its place"
        is_safe = not (copies and kept.iterators)
        require("an iterator of model, head or loss", ", ".join(kept.iterators), is_safe, words)
        yield kept
    finally:
        kept.restore()
