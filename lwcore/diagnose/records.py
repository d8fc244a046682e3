"""Records of what a reader's objects held: each says what has changed, and puts it back."""

from __future__ import annotations

import functools
import io
import itertools
import operator
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lwcore.diagnose.tensors import dense

CONTAINERS = (OrderedDict, dict, list, set, deque)
NOTHING: Any = object()  # what a name stands for that is not there
_IN_MEMORY = (io.StringIO, io.BytesIO)
_FILES = (io.FileIO, io.BufferedReader, io.TextIOWrapper)
_INSIDE = ("_parameters", "_buffers", "_modules")  # which PyTorch leaves out of names


class KeptNumbers(NamedTuple):
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
        elif was.dtype.hasobject:
            is_same_object = map(operator.is_, now.ravel().tolist(), was.ravel().tolist())
            return [] if all(is_same_object) else [self.name]
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


class KeptBytes(NamedTuple):
    """A `bytearray`, or an array of Python's own, and a copy of what it held."""

    name: str
    held: Any
    was: Any

    def changes(self) -> list[str]:
        """Return its name if it holds something else now."""
        return [] if bytes(self.held) == bytes(self.was) else [self.name]

    def restore(self) -> None:
        """Put the bytes back."""
        if self.changes():
            self.held[:] = self.was


class KeptEntries(NamedTuple):
    """A dictionary, list or set, or the attributes of an object, and what it held.

    A reader's own kind of container may make something at each look, or refuse to be written to.
    So entries are read and put back by the methods of Python's container behind it.
    """

    name: str
    held: Any
    was: Any  # a plain dictionary or list

    def changes(self) -> list[str]:
        """Return the names of entries that are others now."""
        now = entries_of(self.held)
        was = self.was
        if isinstance(was, dict):
            return _changed_names(self.name, now, was)
        same = len(now) == len(was)
        if same and not isinstance(self.held, set):
            same = all(one is other for one, other in zip(now, was, strict=True))
        return [] if same else [self.name]

    def restore(self) -> None:
        """Put the entries back."""
        held = self.held
        was = self.was
        kind: Any = container_of(held)
        if kind is list:
            list.__setitem__(held, slice(None), was)
        elif kind is deque:
            deque.clear(held)
            deque.extend(held, was)
        elif kind is set:
            set.intersection_update(held, was)
            set.update(held, was)
        else:
            if [*entries_of(held)] != [*was]:  # else never empty, for who looks from another thread
                kind.clear(held)
            for key, value in was.items():
                kind.__setitem__(held, key, value)


def container_of(value: Any) -> type:
    """Return Python's own kind of container that a container is."""
    return next(kind for kind in CONTAINERS if isinstance(value, kind))


def entries_of(value: Any) -> Any:
    """Return the entries of a container as a plain dictionary or list, in their order."""
    kind: Any = container_of(value)
    if issubclass(kind, dict):
        return {key: dict.get(value, key) for key in kind.__iter__(value)}
    return [*kind.__iter__(value)]


class KeptVariables(NamedTuple):
    """Some variables of a module, and what they were: `NOTHING` where there was none."""

    name: str
    held: dict[str, Any]
    was: dict[str, Any]

    def changes(self) -> list[str]:
        """Return the names of those that are others now."""
        now = {key: self.held.get(key, NOTHING) for key in self.was}
        return _changed_names(self.name, now, self.was)

    def restore(self) -> None:
        """Put them back, and delete those that are new."""
        for key, value in self.was.items():
            if value is NOTHING:
                self.held.pop(key, None)
            elif self.held.get(key, NOTHING) is not value:
                self.held[key] = value


class KeptClass(NamedTuple):
    """A class, and its attributes, but for what Python itself notes there."""

    name: str
    held: type
    was: dict[str, Any]

    def changes(self) -> list[str]:
        """Return the names of those that are others now."""
        return _changed_names(self.name, attributes_of_class(self.held), self.was)

    def restore(self) -> None:
        """Put them back, and delete those that are new."""
        now = attributes_of_class(self.held)
        for key in now:
            if key not in self.was:
                type.__delattr__(self.held, key)
        for key, value in self.was.items():
            if now.get(key, NOTHING) is not value:
                type.__setattr__(self.held, key, value)


def attributes_of_class(held: type) -> dict[str, Any]:
    """Return what a reader has written in a class: its functions, and names without underscores.

    Of names with two underscores at either end some are Python's own, and may not be written.
    """
    found = {}
    for key, part in vars(held).items():
        if not key.startswith("__") or isinstance(part, types.FunctionType):
            found[key] = part
    return found


class KeptSlot(NamedTuple):
    """An attribute that stands in no dictionary, as in a slot, and what it was, or `NOTHING`."""

    name: str
    held: Any
    slot: Any  # what reads and writes it, by Python's protocol of descriptors
    was: Any

    @classmethod
    def of(cls, name: str, held: Any, slot: Any) -> KeptSlot:
        """Keep what an object has there."""
        return cls(name, held, slot, _read_slot(held, slot))

    def changes(self) -> list[str]:
        """Return its name if it is another one now."""
        return [] if is_same(_read_slot(self.held, self.slot), self.was) else [self.name]

    def restore(self) -> None:
        """Write what it was."""
        if _read_slot(self.held, self.slot) is self.was:
            return
        if self.was is NOTHING:
            self.slot.__delete__(self.held)
        else:
            self.slot.__set__(self.held, self.was)


def _read_slot(held: Any, slot: Any) -> Any:
    """Return what an object has in a slot."""
    try:
        return slot.__get__(held)
    except (AttributeError, ValueError):  # of an object, or of a variable around a function
        return NOTHING


class KeptState(NamedTuple):
    """The state of an object that only its own methods read and write, as of random numbers."""

    write: Callable[[Any], Any]
    was: Any

    def restore(self) -> None:
        """Write what it was."""
        self.write(self.was)


def state_of(value: Any) -> KeptState | None:
    """Keep the state of a generator of random numbers, a text in memory, or a file that is read."""
    if isinstance(value, np.random.Generator):
        bits = value.bit_generator
        return KeptState(functools.partial(setattr, bits, "state"), bits.state)
    if isinstance(value, torch.Generator | np.random.RandomState):
        return KeptState(value.set_state, value.get_state())
    if type(value).__module__ == "random" and hasattr(value, "setstate"):
        return KeptState(value.setstate, value.getstate())
    try:
        if isinstance(value, _IN_MEMORY):
            return KeptState(functools.partial(_rewrite, value), value.__getstate__())
        if isinstance(value, _FILES) and value.seekable() and not value.writable():
            return KeptState(functools.partial(_seek, value), value.tell())
    except (OSError, ValueError):  # closed, or read line by line just now
        pass
    return None


def _rewrite(file: Any, state: Any) -> None:
    """Put back what a text or bytes in memory held."""
    if not file.closed and file.__getstate__() != state:
        file.__setstate__(state)


def _seek(file: Any, place: int) -> None:
    """Go back to where a file was read."""
    if not file.closed:
        file.seek(place)


Record = KeptNumbers | KeptBytes | KeptEntries | KeptVariables | KeptClass | KeptSlot


def is_same(now: Any, was: Any) -> bool:
    """Say whether a value is the one that it was: a counter, whether it is at the same number."""
    if type(now) is itertools.count and type(was) is itertools.count:
        return repr(now) == repr(was)
    return now is was


def _changed_names(name: str, now: dict[str, Any], was: dict[str, Any]) -> list[str]:
    """Return the names of entries that are others now."""
    changed = []
    for key in {**was, **now}:
        if not is_same(now.get(key, NOTHING), was.get(key, NOTHING)):
            changed.append(dotted(name, key))
    return changed


def dotted(name: str, key: Any) -> str:
    """Return the name of what an object holds, as PyTorch writes it."""
    if key in _INSIDE:
        return name
    return f"{name}.{key}" if name else str(key)
