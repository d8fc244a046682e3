"""What a reader's objects held is put back, wherever Python lets them note something."""

from __future__ import annotations

import argparse
import collections
import contextlib
import contextvars
import functools
import io
import math
import queue
import threading
import types
import weakref
from array import array
from functools import lru_cache
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn

from lwcore.diagnose.kept import kept_as_it_was
from tests import networks
from tests.test_diagnose_nothing_changes import Meter, Slotted, diagnosed, planted


@lru_cache
def remembered():
    """A function whose attributes are written to."""


class Fresh:
    """A class without attributes."""


class Tallied(dict):
    """A dictionary with an attribute."""

    n = 0


class Getter:
    """An object whose property notes that it was read."""

    reads: list[int] = []  # noqa: RUF012

    @property
    def value(self):
        self.reads.append(1)
        return 0


LOCAL = threading.local()
CONTEXT = contextvars.ContextVar("calls", default=0)
WEAK = weakref.WeakKeyDictionary()
OWNER = Fresh()


def counted(function):
    """Count the calls of a function, as an attribute of it."""

    @functools.wraps(function)
    def call(*args):
        call.calls = getattr(call, "calls", 0) + 1
        return function(*args)

    return call


@counted
def doubled(number):
    return 2 * number


def note_in_variables():
    """Write to what functions find by their names."""
    global NEW
    NEW = 1
    remembered.calls = 1
    Fresh.total = getattr(Fresh, "total", 0) + 1
    LOCAL.n = 1
    WEAK[OWNER] = 1
    doubled(1)
    networks.calls = 1


def variables():
    """Return what `note_in_variables` has noted."""
    notes = getattr(remembered, "calls", 0), getattr(Fresh, "total", 0), getattr(LOCAL, "n", 0)
    others = len(WEAK), getattr(doubled, "calls", 0), getattr(networks, "calls", 0)
    return "NEW" in globals(), notes, others


def file_of(path):
    """Open a file to be read."""
    path.write_text("one\ntwo\n")
    return path.open()


def around():
    """Return a function that assigns a variable which is not assigned yet."""

    def assign():
        nonlocal value
        value = 1

    def is_assigned():
        try:
            return value
        except NameError:
            return False

    assign.is_assigned = is_assigned
    if OWNER is None:
        value = 0
    return assign


HELD = {
    "namespace": (lambda _: types.SimpleNamespace(n=0), lambda held: vars(held).update(n=1, m=2)),
    "arguments": (lambda _: argparse.Namespace(), lambda held: setattr(held, "n", 1)),
    "user dict": (lambda _: collections.UserDict(a=[]), lambda held: held["a"].append(1)),
    "user list": (lambda _: collections.UserList(), lambda held: held.append(1)),
    "chain map": (lambda _: collections.ChainMap({}, {}), lambda held: held.update(n=1)),
    "queue": (lambda _: queue.Queue(), lambda held: held.put(1)),
    "heap": (lambda _: queue.PriorityQueue(), lambda held: held.put(1)),
    "array": (lambda _: array("d", [math.nan]), lambda held: held.append(1.0)),
    "objects": (lambda _: np.array([[], 1], object), lambda held: held[0].append(1)),
    "object": (lambda _: np.array([[], 1], object), lambda held: held.__setitem__(1, 2)),
    "bytes": (lambda _: bytearray(b"a"), lambda held: held.extend(b"b")),
    "view": (lambda _: memoryview(bytearray(b"a")), lambda held: held.__setitem__(0, 1)),
    "text": (lambda _: io.StringIO("a"), lambda held: held.write("bc")),
    "binary": (lambda _: io.BytesIO(b"a"), lambda held: held.read()),
    "file": (lambda folder: file_of(folder / "a"), lambda held: held.read()),
    "mock": (lambda _: Mock(), lambda held: held(1)),
    "attribute of a dictionary": (lambda _: Tallied(), lambda held: setattr(held, "n", 1)),
    "attribute of a tensor": (lambda _: torch.zeros(1), lambda held: setattr(held, "calls", 1)),
    "frozen set": (lambda _: frozenset([Meter()]), lambda held: [one.update() for one in held]),
    "proxy": (
        lambda _: types.MappingProxyType({"a": []}),
        lambda held: held["a"].append(1),
    ),
    "weak reference": (lambda _: weakref.ref(OWNER), lambda held: setattr(held(), "n", 1)),
    "unset variable of a closure": (lambda _: around(), lambda held: held()),
    "property": (lambda _: Getter(), lambda held: held.value),
    "empty slot": (lambda _: object.__new__(Slotted), lambda held: setattr(held, "numbers", 1)),
    "optimizer": (
        lambda _: torch.optim.Adam([nn.Parameter(torch.ones(2))]),
        lambda held: held.param_groups[0].update(lr=1.0),
    ),
    "variables": (lambda _: note_in_variables, lambda held: held()),
}


def described(held):
    """Return all that an object of these holds, as one text."""
    own = [getattr(held, "__dict__", {})] if type(held).__module__ != "unittest.mock" else []
    if isinstance(held, io.IOBase):
        own += [held.tell(), getattr(held, "getvalue", list)()]
    if isinstance(held, frozenset):
        own += [vars(one) for one in held]
    if isinstance(held, memoryview):
        own.append(bytes(held))
    if isinstance(held, weakref.ref):
        own.append(vars(held()))
    if isinstance(held, queue.Queue):
        own.append([*held.queue])
    if isinstance(held, Mock):
        own += [held.call_count, held.mock_calls]
    if "is_assigned" in getattr(held, "__dict__", {}):
        own.append(held.is_assigned())
    if isinstance(held, Slotted):
        own.append(hasattr(held, "numbers"))
    return repr((own, repr(held), Getter.reads, variables()))


@pytest.mark.parametrize("kind", HELD)
def test_what_python_has_to_note_in_is_put_back(kind, tmp_path):
    make, write = HELD[kind]
    model = nn.Module()
    model.held = make(tmp_path)
    before = described(model.held)
    with kept_as_it_was(model):
        write(model.held)
        assert described(model.held) != before
    assert described(model.held) == before
    getattr(model.held, "close", list)()


def test_a_function_and_what_its_cache_remembers_stay_together():
    """A list that is filled as a cache is, and emptied alone, would never be filled again."""
    made = []

    @lru_cache
    def table(size):
        made.append(size)
        return size

    with kept_as_it_was(table):
        table(3)
    assert (made, table.cache_info().currsize) == ([3], 1)


@contextlib.contextmanager
def timed():
    """Do nothing around a function."""
    yield


@timed()
def around_which_is_a_generator(x):
    """A function that makes a generator of its own at each call."""
    return x


def test_a_decorator_made_of_a_context_is_no_iterator_that_goes_on():
    with kept_as_it_was(around_which_is_a_generator) as kept:
        assert kept.iterators == []


class Everywhere(nn.Module):
    """A GRU that notes its calls in all objects of Python's."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.rnn, self.head = nn.GRU(1, 4, batch_first=True), nn.Linear(4, 1)
        self.state, self.log, self.sizes = types.SimpleNamespace(n=0), io.StringIO(), array("l")

    def forward(self, x):
        self.state.n += 1
        self.log.write("called ")
        self.sizes.append(len(x))
        CONTEXT.set(CONTEXT.get() + 1)
        note_in_variables()
        return self.head(self.rnn(x)[0])


def test_a_diagnosis_leaves_no_note_of_its_passes():
    model, seen = Everywhere(), []
    hook = nn.modules.module.register_module_forward_hook(lambda *_: seen.append(1))
    try:
        diagnosed(model, planted())
    finally:
        hook.remove()
    assert (model.state.n, model.log.getvalue(), len(model.sizes)) == (0, "", 0)
    assert (CONTEXT.get(), seen) == (0, [])
    assert variables() == (False, (0, 0, 0), (0, 0, 0))
