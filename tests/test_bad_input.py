"""Bad input: every public function refuses it at the door, by name, before any work is done.

The tables stand in `tests/bad_inputs`, one for each layer; a row is a function, one of its
arguments, a bad value for it, and the error that must come. `test_every_public_function_has_a_row`
holds them against the package.
"""

from __future__ import annotations

import ast
import re
import signal

import pandas as pd
import pytest
import torch
from package_source import definitions, modules

from lwcore import arguments, tensors
from lwcore.labelled import array_with, dataset_with
from tests.bad_inputs import companion, gradient, labelled, theory
from tests.bad_inputs.commands import COMMANDS
from tests.bad_inputs.counted import DOORS, RECORD, counted
from tests.bad_inputs.reasons import MODULES, NAMES
from tests.bad_inputs.rows import (
    Argument,
    Bad,
    Door,
    Row,
    array,
    generator,
    integer,
    lags,
    object_of,
    real,
    rows,
    tensor,
    word,
)

ROWS = {door.name: [] for door in DOORS}
for row in rows(DOORS):
    ROWS[row.door.name].append(row)

SECONDS = 10  # against hanging, not a speed: a door answers in milliseconds


@pytest.fixture(autouse=True)
def empty_folder(tmp_path_factory, monkeypatch):
    """Work in an empty folder, which must still be empty in the end, and never for long."""

    def too_long(*_):
        raise TimeoutError(f"no answer within {SECONDS} s")

    folder = tmp_path_factory.getbasetemp() / "bad_input"
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    before = signal.signal(signal.SIGALRM, too_long)
    yield folder
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    assert list(folder.iterdir()) == []


def answer(row: Row) -> str:
    """Say what is wrong with the answer to a bad call: nothing, if the row's error comes and names
    argument, value and what is allowed."""
    signal.alarm(SECONDS)
    try:
        returned = row.call()
    except Exception as error:
        message, argument = str(error), row.door.called.get(row.argument, row.argument)
        if type(error) is not row.bad.error:
            return f"{row.label}: {type(error).__name__} in the place of {row.bad.error.__name__}: {message}"
        wanted = {
            "the argument": rf"(^|\W){argument}\b",
            "the value": row.bad.shown,
            "what is allowed": r"\b(must|should)\b|do not (fit|broadcast)|permitted|required|there is no\b",
        }
        missing = [what for what, pattern in wanted.items() if not re.search(pattern, message)]
        return f"{row.label}: {', '.join(missing)} not in: {message}" if missing else ""
    finally:
        signal.alarm(0)
    return f"{row.label}: no error, but {returned!r:.80}"


@pytest.mark.parametrize("name", ROWS)
def test_bad_values_are_refused_by_name(name):
    assert [found for found in map(answer, ROWS[name]) if found] == []


CHECKS = {
    "real": Door(lambda x: arguments.real_in("x", x, "(1, 2]"), x=real(1.5, "(1, 2]")),
    "integer": Door(lambda x: arguments.integer_in("x", x, 1, 3), x=integer(2, 1, 3)),
    "word": Door(lambda x: arguments.one_of("x", x, ["mean"]), x=word("mean")),
    "array": Door(
        lambda x: arguments.finite_array("x", x, ndim=1),
        x=array([1.0, 2.0]).also(Bad(1.0, ValueError, r"\(\)")),
    ),
    "lags": Door(lambda x: arguments.lag_list("x", x, 5), x=lags([1, 2], 5)),
    "generator": Door(lambda x: arguments.generator("x", x), x=generator()),
    "object": Door(lambda x: arguments.instance_of("x", x, Door), x=object_of(DOORS[0], Door)),
    "tensor": Door(
        lambda x: tensors.finite("x", x, (None, 2)), x=tensor(torch.ones(3, 2), (3,), (3, 1))
    ),
    "dataset": Door(lambda x: dataset_with("x", x, "rate"), x=labelled.results()),
    "labelled array": Door(lambda x: array_with("x", x, "lag"), x=labelled.labelled("lag")),
}


@pytest.mark.parametrize("kind", CHECKS)
def test_a_check_refuses_all_that_its_kind_knows(kind):
    """Doors are tried with one or two of these values each."""
    door = CHECKS[kind]
    assert [
        found for found in (answer(Row(door, "x", bad)) for bad in door.arguments["x"].bad) if found
    ] == []
    door.call()


def test_there_are_rows_enough_and_no_door_is_without():
    assert sum(map(len, ROWS.values())) >= 150
    assert [name for name, of_door in ROWS.items() if not of_door] == []


def test_the_book_counts_them():
    """Recorded anew by ``python -m tests.bad_inputs.counted``."""
    pd.testing.assert_frame_equal(pd.read_csv(RECORD, index_col="layer"), counted())


def test_the_good_arguments_are_good():
    """A row whose other arguments were bad, too, would prove nothing: doors that answer at once are
    called as they stand."""
    for door in [*theory.DOORS, *gradient.DOORS, *companion.DOORS]:
        door.call()


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda x: x, "no error, but 7"),
        (lambda x: {}[x], "KeyError in the place of ValueError"),
        (lambda x: [].index(x), "the argument, what is allowed not in"),
        (lambda x: arguments.real_in("x", x, "(1, 2]"), ""),
    ],
)
def test_a_wrong_answer_is_seen(function, found):
    said = answer(Row(Door(function, x=Argument(2)), "x", Bad(7, ValueError, "7")))
    assert found in said
    assert bool(found) == bool(said)


def takes_arguments(definition):
    """Whether somebody can hand it something wrong: not a record that the package fills, a
    property, or a method without arguments."""
    node = definition.node
    if isinstance(node, ast.ClassDef):
        return any(getattr(part, "name", "") in ("__init__", "__post_init__") for part in node.body)
    names = [
        argument.arg
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    ]
    return (
        [name for name in names if name not in ("self", "cls")] != []
        or node.args.vararg is not None
        or node.args.kwarg is not None
    )


def public_functions():
    """Names of all public functions, classes and methods that take arguments, by where they are
    defined, as the tables name them."""
    for module in modules():
        for definition in definitions(module):
            if takes_arguments(definition):
                yield ".".join(
                    [
                        module,
                        *definition.name.rsplit(".", 2 if definition.kind == "method" else 1)[1:],
                    ]
                )


def test_every_public_function_has_a_row_or_a_reason():
    public = set(public_functions())
    rowless = public - set(ROWS) - COMMANDS.keys()
    assert (
        sorted(
            name
            for name in rowless - set(NAMES)
            if not any(re.fullmatch(pattern, name) for pattern in MODULES)
        )
        == []
    )
    assert sorted(set(NAMES) - public) == []  # no reason outlives its function
    assert sorted(set(NAMES) - rowless) == []
