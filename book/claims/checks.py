"""Checks that have not moved into their chapters yet, and their numbers on record."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import xarray as xr

from book.claims.claim import Measured
from book.claims.ledger import ROOT, Outcome, registry
from lwcore.results import load, write_atomically

FOLDER = ROOT / "book" / "results"
NAME = "claims.json"
Facts = dict[str, float]
CHECKS: dict[str, Callable[..., Any]] = {}


def measures(name: str) -> Callable[[Any], Any]:
    """Register the function below as the check of a claim."""

    def register(check: Any) -> Any:
        CHECKS[name] = check
        return check

    return register


class Runs(dict[str, xr.Dataset]):
    """Recorded runs by name, each read once."""

    def __missing__(self, name: str) -> xr.Dataset:
        """Read a run."""
        return self.setdefault(name, load(FOLDER / f"{name}.nc"))


def checks() -> dict[str, Callable[..., Any]]:
    """All checks by name."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        importlib.import_module(f"book.claims.{path.stem}")
    return CHECKS


def measure(name: str, runs: Runs) -> Outcome:
    """Run a check."""
    check = checks()[name]
    given = check(runs) if "runs" in inspect.signature(check).parameters else check()
    found = (given,) if isinstance(given, Measured) else given
    numbers = tuple(one for one in found if isinstance(one, Measured))
    facts = {k: float(v) for one in found if isinstance(one, dict) for k, v in one.items()}
    if len(numbers) != len(registry()[name].readings):
        raise ValueError(f"claim {name!r}: {len(numbers)} numbers for its readings")
    return Outcome(registry()[name], numbers, facts)


def record(outcomes: Iterable[Outcome], folder: Path = FOLDER) -> None:
    """Put measurements on record."""
    whole = json.loads((folder / NAME).read_text())
    for outcome in outcomes:
        numbers = [[*one[:3]] + [one.covers] * (one.covers != 0.95) for one in outcome.measured]
        facts = {"facts": dict(outcome.facts)} if outcome.facts else {}
        whole["claims"][outcome.claim.id] = {"measured": numbers, **facts}
    text = json.dumps(whole, indent=1) + "\n"
    write_atomically(folder / NAME, lambda part: part.write_text(text))


def recorded() -> dict[str, Outcome]:
    """What is on record."""
    entries = json.loads((FOLDER / NAME).read_text())["claims"]
    return {
        name: Outcome(
            registry()[name],
            tuple(Measured(*one) for one in entry["measured"]),
            entry.get("facts", {}),
        )
        for name, entry in entries.items()
    }
