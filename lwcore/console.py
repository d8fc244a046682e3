"""What commands say: the two streams, and how a command ends that was given something wrong, failed, or was interrupted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

import typer
from pydantic import BaseModel, ValidationError
from rich.console import Console

from lwcore import entry
from lwcore.config import Config, Sweep, Variant

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def fail(message: str) -> NoReturn:
    """Print an error and end with status 2.

    Args:
        message: What is wrong.

    Raises:
        Exit: Always.
    """
    err.print(message, style="red", markup=False)
    raise typer.Exit(2)


@contextmanager
def explained(name: str, kind: type[Config] | type[Sweep] = Config) -> Iterator[None]:
    """End with what is wrong with settings.

    Args:
        name: Where they stand.
        kind: What they are settings of.

    Yields:
        Nothing.
    """
    try:
        yield
    except ValidationError as error:
        fail(
            "\n".join(
                f"{name}: {'.'.join(map(str, e['loc'])) or 'configuration'}: {e['msg']}{_given(e['input'])}"
                + (_meant(e["loc"], kind) if e["type"] == "extra_forbidden" else "")
                for e in error.errors()
            )
        )
    except (OSError, ValueError) as error:
        fail(str(error))


def _given(value: object) -> str:
    """Quote a bad value; a whole section would bury the message."""
    return "" if isinstance(value, dict) else f" (given: {value!r})"


def _meant(loc: tuple[int | str, ...], kind: type[BaseModel]) -> str:
    """Suggest settings of nearly the name of an unknown one, in its section or else in any, or of a name near it in its section."""
    *within, key = map(str, loc)
    section = "".join(f"{part}." for part in within)
    names = [f"{section}{field}" for field in Variant.model_fields] if loc[0] == "axes" else [*_names(kind), *_names(Config)]
    last = {name: name.rpartition(".")[2] for name in names}
    here = {field: [section + field] for name, field in last.items() if name == section + field}
    anywhere = {field: [name for name in last if last[name] == field] for field in last.values()}
    for known, cutoff in ((here, 0.85), (anywhere, 0.85), (here, 0.6)):
        if near := get_close_matches(key, known, n=1, cutoff=cutoff):
            return f"; did you mean {' or '.join(known[near[0]])}?"
    return ""


def _names(kind: type[BaseModel], section: str = "") -> Iterator[str]:
    """Name all settings, as in ``task.length``."""
    for key, field in kind.model_fields.items():
        yield f"{section}{key}"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _names(field.annotation, f"{section}{key}.")


@contextmanager
def failing(*kinds: type[Exception]) -> Iterator[None]:
    """End with the words of an error.

    Args:
        *kinds: Errors whose words are for the reader.

    Yields:
        Nothing.

    Raises:
        Exit: If there was one.
    """
    try:
        yield
    except typer.Exit:  # a `RuntimeError`, and said already
        raise
    except kinds as error:
        fail(str(error) or type(error).__name__)


@contextmanager
def interruptible(words: str) -> Iterator[None]:
    """End some work, when it is interrupted, with a word.

    Args:
        words: What to say.

    Yields:
        Nothing.

    Raises:
        Exit: If it was interrupted.
    """
    entry.interruptible()
    try:
        yield
    except KeyboardInterrupt:
        err.print(words, markup=False)
        raise typer.Exit(entry.INTERRUPTED) from None


@contextmanager
def computing(path: Path, resume: bool) -> Iterator[None]:
    """Say in words what goes wrong while a result is computed, and how to go on.

    Args:
        path: Where it is to be stored.
        resume: Whether what an earlier run has left is used.

    Yields:
        Nothing.

    Raises:
        Exit: If anything went wrong.
    """
    way_on = _way_on(path, resume)
    before = warnings.showwarning
    warnings.showwarning = lambda message, *_, **__: err.print(str(message), style="yellow", markup=False)
    told = (ValueError, ImportError, ArithmeticError, RuntimeError, MemoryError)
    with interruptible(f"Interrupted. {way_on}"), failing(*told):
        try:
            yield
        except OSError as error:
            fail(str(error) if isinstance(error, FileExistsError) else f"{error}. What was finished is kept. {way_on}")
        finally:
            warnings.showwarning = before


def _way_on(path: Path, resume: bool) -> str:
    """Say what the same command does next time."""
    if resume:
        return f"The same command goes on from here; unfinished work is in {path.parent}."
    if path.exists():
        return f"With --no-resume the same command starts anew; without it, it gives the result that is in {path} already."
    return f"With --no-resume the same command starts anew; without it, it goes on from here; unfinished work is in {path.parent}."
