"""What a reader's model, loss and data held, so that it can be put back.

All that is reached from them is kept: tensors, arrays, containers, attributes of modules and of
objects that the reader has written, generators of random numbers, and what their hooks and
functions write to. Of data only attributes, containers and generators: they may be large.
"""

from __future__ import annotations

import ast
import dis
import functools
import itertools
import sys
import sysconfig
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import data as torch_data

from lwcore.diagnose.tensors import dense
from lwcore.signatures import require

_LOADERS = (torch_data.DataLoader, torch_data.Dataset, torch_data.Sampler)
_METHODS = types.MethodType | types.BuiltinMethodType  # as `list.append` of some list
_OF_ITERATORS = ("builtins", "itertools")  # modules of generators, cycles, counters and the like
_MANY = 4096  # entries of a container, above which these are not looked at one by one
_CONTAINERS = (OrderedDict, dict, list, set, deque)
_INSIDE = ("_parameters", "_buffers", "_modules")  # which PyTorch leaves out of names


class _KeptNumbers(NamedTuple):
    """A tensor or array, and a copy of what it held."""

    name: str
    held: Any
    was: Any

    def changes(self) -> list[str]:
        """Return its name if it holds something else now; NaN is NaN."""
        now, was = self.held, self.was
        if now.shape != was.shape:
            return [self.name]
        if isinstance(now, Tensor):
            now, was = dense(now.detach()), dense(was)
        same = (now == was) | ((now != now) & (was != was))
        return [] if bool(same.all()) else [self.name]

    def restore(self) -> None:
        """Put the numbers back."""
        if not self.changes():
            return
        if isinstance(self.held, Tensor) and self.held.shape != self.was.shape:
            self.held.data = self.was
        elif isinstance(self.held, Tensor):
            self.held.data.copy_(self.was)
        else:
            self.held[...] = self.was


class _KeptEntries(NamedTuple):
    """A dictionary, list or set, or the attributes of an object, and what it held.

    A reader's own kind of container may make something at each look, or refuse to be written to.
    So entries are read and put back by the methods of Python's container behind it.
    """

    name: str
    held: Any
    was: Any  # a plain dictionary or list

    def changes(self) -> list[str]:
        """Return the names of entries that are others now."""
        now = _entries(self.held)
        was = self.was
        if isinstance(was, dict):
            missing = object()
            changed = []
            for key in {**was, **now}:
                if not _is_same(now.get(key, missing), was.get(key, missing)):
                    changed.append(_dotted(self.name, key))
            return changed
        same = len(now) == len(was)
        if same and not isinstance(self.held, set):
            same = all(one is other for one, other in zip(now, was, strict=True))
        return [] if same else [self.name]

    def restore(self) -> None:
        """Put the entries back."""
        held = self.held
        was = self.was
        kind: Any = _container(held)
        if kind is list:
            list.__setitem__(held, slice(None), was)
        elif kind is deque:
            deque.clear(held)
            deque.extend(held, was)
        elif kind is set:
            set.intersection_update(held, was)
            set.update(held, was)
        else:
            if [*_entries(held)] != [*was]:  # else never empty, for who looks from another thread
                kind.clear(held)
            for key, value in was.items():
                kind.__setitem__(held, key, value)


def _container(value: Any) -> type:
    """Return Python's own kind of container that a container is."""
    return next(kind for kind in _CONTAINERS if isinstance(value, kind))


def _entries(value: Any) -> Any:
    """Return the entries of a container as a plain dictionary or list, in their order."""
    kind: Any = _container(value)
    if issubclass(kind, dict):
        return {key: dict.get(value, key) for key in kind.__iter__(value)}
    return [*kind.__iter__(value)]


class _KeptValue(NamedTuple):
    """What is read and written by a function: a variable, or the state of a generator."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    was: Any

    def changes(self) -> list[str]:
        """Return its name if it is another one now."""
        return [] if _is_same(self.read(), self.was) else [self.name]

    def restore(self) -> None:
        """Write what it was."""
        if self.read() is not self.was:
            self.write(self.was)


def _is_same(now: Any, was: Any) -> bool:
    """Say whether a value is the one that it was: a counter, whether it is at the same number."""
    if type(now) is itertools.count and type(was) is itertools.count:
        return repr(now) == repr(was)
    return now is was


class Kept:
    """What some objects of a reader's held, and all that is reached from them."""

    def __init__(self, *roots: Any, copies: bool = True) -> None:
        """Keep it; with `copies` also the numbers in tensors and arrays."""
        self.copies = copies
        self.kept: list[_KeptNumbers | _KeptEntries | _KeptValue] = []
        self.generators: list[_KeptValue] = []
        self.counters: dict[int, Any] = {}  # copies, by the id of what they stand for
        self.iterators: list[str] = []  # of Python's own, which cannot be put back
        seen: dict[int, Any] = {}  # alive, so that no other has its id
        waiting = [("", root) for root in roots]
        while waiting:
            name, value = waiting.pop()
            if id(value) not in seen:
                seen[id(value)] = value
                waiting += self._keep(name, value)

    def changed(self) -> list[str]:
        """Return the names of what is no longer what it was."""
        return [name for one in self.kept for name in one.changes()]

    def restore(self) -> None:
        """Put back what has changed."""
        with torch.no_grad():
            for one in [*self.kept, *self.generators]:
                one.restore()

    def _keep(self, name: str, value: Any) -> list[tuple[str, Any]]:
        """Keep what one object holds, and return what is reached from it."""
        if isinstance(value, Tensor):
            if self.copies:
                self.kept.append(_KeptNumbers(name, value, value.detach().clone()))
            if not value.is_leaf:
                return [(name, value._backward_hooks)]
            read = functools.partial(getattr, value, "grad")
            write = functools.partial(setattr, value, "grad")
            self.kept.append(_KeptValue(f"{name}.grad", read, write, value.grad))
            return [(name, value._backward_hooks), (f"{name}.grad", value.grad)]
        if isinstance(value, np.ndarray):
            is_fixed = value.dtype.hasobject or not value.flags.writeable
            if self.copies and not is_fixed and not isinstance(value, np.memmap):
                self.kept.append(_KeptNumbers(name, value, value.copy()))
            return []
        if isinstance(value, _CONTAINERS):
            return self._keep_entries(name, value)
        if isinstance(value, tuple | functools.partial | _METHODS):
            return [(name, part) for part in _parts(value)]
        if isinstance(value, types.FunctionType):
            return self._keep_variables(name, value)
        if isinstance(value, type):
            return self._keep_class(name, value)
        is_iterator = isinstance(value, Iterator) and type(value).__module__ in _OF_ITERATORS
        if is_iterator and id(value) not in self.counters:
            self.iterators.append(f"{name} ({type(value).__name__})")
        state = _random_state(name, value)
        if state is not None:
            self.generators.append(state)
        elif isinstance(value, (nn.Module, *_LOADERS)) or _is_own(type(value).__module__):
            own = vars(value) if hasattr(value, "__dict__") else {}
            reached = [*self._keep_entries(name, own), (name, type(value))]
            return [*reached, *self._keep_slots(name, value)]
        return []

    def _keep_entries(self, name: str, value: Any) -> list[tuple[str, Any]]:
        """Keep the entries of a container."""
        was = _entries(value)
        self.kept.append(_KeptEntries(name, value, was))
        if len(was) > _MANY:
            return []
        if isinstance(was, dict):
            kind: Any = _container(value)
            for key, part in was.items():
                if type(part) is itertools.count:
                    kind.__setitem__(value, key, self._stand_in(part))
            return [(_dotted(name, key), part) for key, part in was.items()]
        return [(name, part) for part in was]

    def _keep_slots(self, name: str, value: Any) -> list[tuple[str, Any]]:
        """Keep the attributes of an object that has them in slots."""
        reached = []
        for kind in type(value).__mro__:
            for slot in vars(kind).values():
                if isinstance(slot, types.MemberDescriptorType) and hasattr(value, slot.__name__):
                    read = functools.partial(getattr, value, slot.__name__, None)
                    write = functools.partial(object.__setattr__, value, slot.__name__)
                    part = read()
                    self.kept.append(_KeptValue(_dotted(name, slot.__name__), read, write, part))
                    reached.append((_dotted(name, slot.__name__), part))
        return reached

    def _keep_variables(self, name: str, function: Any) -> list[tuple[str, Any]]:
        """Keep variables of a function that are not local; of readers' own, global ones, too."""
        reached = [(name, function.__defaults__), (name, function.__kwdefaults__)]
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:  # not yet assigned
                continue
            write = functools.partial(setattr, cell, "cell_contents")
            read = functools.partial(getattr, cell, "cell_contents")
            self._keep_variable(name, read, write, value)
            reached.append((name, value))
        if not _is_own(function.__module__):
            return reached
        variables = function.__globals__
        for key in _globals_in(function.__code__):
            if key in variables:
                read = functools.partial(variables.get, key)
                write = functools.partial(variables.__setitem__, key)
                self._keep_variable(key, read, write, variables[key])
                reached.append((key, variables[key]))
        return reached

    def _keep_class(self, name: str, value: type) -> list[tuple[str, Any]]:
        """Keep the attributes of a class that a reader has written."""
        if not _is_own(value.__module__):
            return []
        reached: list[tuple[str, Any]] = [(name, base) for base in value.__bases__]
        for key, part in vars(value).items():
            if not key.startswith("__") or isinstance(part, types.FunctionType):
                read = functools.partial(vars(value).get, key)
                write = functools.partial(setattr, value, key)
                self._keep_variable(_dotted(name, key), read, write, part)
                reached.append((_dotted(name, key), part))
        return reached

    def _keep_variable(
        self, name: str, read: Callable[[], Any], write: Callable[[Any], Any], value: Any
    ) -> None:
        """Keep what a variable is."""
        self.kept.append(_KeptValue(name, read, write, value))
        if type(value) is itertools.count:
            write(self._stand_in(value))

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
    """Return what a tuple, a partial function or a method is made of."""
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, _METHODS):
        return [value.__self__, getattr(value, "__func__", None)]
    return [*value]


def _random_state(name: str, value: Any) -> _KeptValue | None:
    """Return the state of a generator of random numbers, Python's, NumPy's or PyTorch's."""
    if isinstance(value, np.random.Generator):
        bits = value.bit_generator
        write = functools.partial(setattr, bits, "state")
        return _KeptValue(name, lambda: None, write, bits.state)
    if isinstance(value, torch.Generator | np.random.RandomState):
        return _KeptValue(name, lambda: None, value.set_state, value.get_state())
    if type(value).__module__ == "random" and hasattr(value, "setstate"):
        return _KeptValue(name, lambda: None, value.setstate, value.getstate())
    return None


def _is_own(module: str | None) -> bool:
    """Say whether a module is a reader's own: neither installed, nor Python's, nor of this one."""
    if module == "__main__":
        return True
    if module is None or module.partition(".")[0] == "lwcore":
        return False
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is None or path.startswith(sysconfig.get_path("stdlib")):
        return False
    top = getattr(sys.modules.get(module.partition(".")[0]), "__file__", None) or path
    file = Path(top)
    folder = file.parent.parent if file.stem == "__init__" else file.parent
    return not _is_installation(folder)


@functools.cache
def _is_installation(folder: Path) -> bool:
    """Say whether packages are installed in a folder, as in site-packages."""
    if folder.name in ("site-packages", "dist-packages"):
        return True
    return any(folder.glob("*.dist-info"))


def _globals_in(code: types.CodeType) -> set[str]:
    """Return the names of the global variables that a function uses."""
    steps = dis.get_instructions(code)
    names = {str(step.argval) for step in steps if step.opname.endswith("_GLOBAL")}
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            names |= _globals_in(part)
    return names


def _dotted(name: str, key: Any) -> str:
    """Return the name of what an object holds, as PyTorch writes it."""
    if key in _INSIDE:
        return name
    return f"{name}.{key}" if name else str(key)


@contextmanager
def kept_as_it_was(*roots: Any, copies: bool = True) -> Iterator[Kept]:
    """Put back in the end what some objects of a reader's held."""
    kept = Kept(*roots, copies=copies)
    try:
        words = "none that goes on for good: hold a whole number, and take what is at its place"
        is_safe = not (copies and kept.iterators)
        require("an iterator of model, head or loss", ", ".join(kept.iterators), is_safe, words)
        yield kept
    finally:
        kept.restore()
