"""The ledger on disk: what the checks measured last, from which the verdicts are computed whenever
they are read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pandas as pd
import xarray as xr

from book.claims.claim import ENOUGH, Claim, Facts, Kind, Measured, Verdict
from lwcore.results import environment, load, write_atomically

# recorded runs and the ledger lie in the repository, not in the package
FOLDER = Path(__file__).parents[2] / "book" / "results"
NAME = "claims.json"


@dataclass(frozen=True)
class Outcome:
    """What a claim's check measured, and what follows from it.

    Attributes:
        claim: The claim.
        measured: A measurement for each reading.
        seconds: What the check took.
        facts: Further numbers by name, for the claim's words.
    """

    claim: Claim
    measured: tuple[Measured, ...]
    seconds: float
    facts: Facts = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """The verdict, by the claim's rules."""
        return self.claim.judge(self.measured)

    @property
    def counterexample(self) -> str:
        """The smallest case against the statement, with its numbers."""
        return self.claim.counterexample.format(*self.measured, **self.facts)

    @property
    def fair(self) -> str:
        """The statement as its author could sign it, with its numbers."""
        return self.claim.fair.format(*self.measured, **self.facts)

    @property
    def why(self) -> str:
        """Why nothing was decided, where nothing was."""
        if self.verdict is not Verdict.OPEN:
            return ""
        if self.measured[0].covers < ENOUGH:
            return f"the interval of the measurement is sure to cover the truth in {self.measured[0].covers:.0%} of cases only."
        if self.claim.readings[0].rule.holds(self.measured[0]) is None:
            return "the interval of the measurement holds numbers for which it is true and others for which it is not."
        return "the paper reports it of its own networks, which are not at hand; ours, in their place, do otherwise."


@dataclass
class Runs:
    """Recorded runs by name, each read once.

    Attributes:
        folder: Where their files lie.
        read: Those read so far.
    """

    folder: Path
    read: dict[str, xr.Dataset] = field(default_factory=dict)

    def __getitem__(self, name: str) -> xr.Dataset:
        """Give a run's dataset."""
        if name not in self.read:
            self.read[name] = load(self.folder / f"{name}.nc")
        return self.read[name]


def measure(claim: Claim, runs: Runs) -> Outcome:
    """Run a claim's check on recorded runs, and say what it took."""
    start = time.perf_counter()
    measured, facts = claim.measure(runs)
    return Outcome(claim, measured, time.perf_counter() - start, facts)


def record(outcomes: Iterable[Outcome], folder: Path = FOLDER) -> None:
    """Store measurements in the ledger's folder, beside those of claims that were not measured
    anew."""
    entries = _entries(folder) if (folder / NAME).exists() else {}
    made_by = _made_by()
    for outcome in outcomes:
        numbers = [
            [one.value, one.low, one.high] + [one.covers] * (one.covers != 0.95)
            for one in outcome.measured
        ]
        facts = {"facts": outcome.facts} if outcome.facts else {}
        entries[outcome.claim.id] = {
            "measured": numbers,
            **facts,
            "seconds": round(outcome.seconds, 2),
            "revision": made_by["revision"],
        }
    whole = {
        "versions": made_by["versions"],
        "machine": made_by["machine"],
        "claims": dict(sorted(entries.items())),
    }
    write_atomically(
        folder / NAME, lambda part: part.write_text(json.dumps(whole, indent=1) + "\n")
    )


def outcomes(claims: Iterable[Claim], folder: Path = FOLDER) -> Mapping[str, Outcome]:
    """Read what was measured last.

    Args:
        claims: The claims wanted.
        folder: Where the ledger lies.

    Returns:
        Outcomes by the claims' names, in their order.

    Raises:
        ValueError: If a claim was never measured, or has other readings now than when it was.
    """
    entries = _entries(folder)
    found = {}
    for claim in claims:
        entry = entries.get(claim.id, {"measured": [], "seconds": 0.0})
        if len(entry["measured"]) != len(claim.readings):
            raise ValueError(
                f"claim {claim.id!r} has not been measured as it reads now: run `lw claims --run "
                f"--id {claim.id}`."
            )
        measured = tuple(Measured(*numbers) for numbers in entry["measured"])
        found[claim.id] = Outcome(claim, measured, entry["seconds"], entry.get("facts", {}))
    return found


def table(found: Mapping[str, Outcome]) -> pd.DataFrame:
    """Write outcomes as a table, one row a claim.

    Args:
        found: Outcomes by name.

    Returns:
        Rows by name; columns ``paper``, ``kind``, ``place``, ``claim``, ``condition``,
        ``quantity``, ``rule``, ``measured``, ``verdict`` and ``seconds``. Condition, quantity, rule
        and measurement are those of the reading that gave the verdict.
    """
    return pd.DataFrame(
        [_row(outcome) for outcome in found.values()], index=pd.Index(found, name="id")
    )


def counts(found: Mapping[str, Outcome]) -> dict[Verdict, int]:
    """Count the verdicts: the number of claims for every one, also where it is 0."""
    verdicts = [outcome.verdict for outcome in found.values()]
    return {verdict: verdicts.count(verdict) for verdict in Verdict}


def counts_by_kind(found: Mapping[str, Outcome]) -> dict[Kind, dict[Verdict, int]]:
    """Count the verdicts on what the papers say, kind by kind; rows on code, and our own, are left
    out."""
    of_papers = {name: outcome for name, outcome in found.items() if outcome.claim.counted}
    return {
        kind: counts({name: one for name, one in of_papers.items() if one.claim.kind is kind})
        for kind in Kind
    }


def in_full(outcome: Outcome) -> str:
    """Write all there is to say of a claim, as plain text."""
    claim = outcome.claim
    lines = [
        f"{claim.id}: {outcome.verdict} ({claim.kind}; {outcome.seconds:g} s)",
        f"  {claim.place}: {claim.says}",
    ]
    for reading, one in zip(claim.readings, outcome.measured, strict=True):
        says = {True: "holds", False: "fails", None: "open"}[reading.rule.holds(one)]
        way = "instead: " * (reading.gives is Verdict.REFUTED) + (reading.condition or "as stated")
        lines.append(f"  {way}: {reading.quantity}: {one}, must be {reading.rule}: {says}")
    more = {
        "open because": outcome.why,
        "settled by the configuration": claim.fixed,
        "smallest counterexample": outcome.counterexample,
        "could be put as": outcome.fair,
        "changed after a number had been seen": claim.seen,
        "code": ", ".join(claim.code),
    }
    return "\n".join(lines + [f"  {label}: {text}" for label, text in more.items() if text])


@cache
def _made_by() -> dict[str, str]:
    """Say what measures here, once: the first record written changes the checkout."""
    return environment()


def _row(outcome: Outcome) -> dict[str, object]:
    """One row of the table."""
    claim, position = outcome.claim, outcome.claim.telling(outcome.measured)
    reading = claim.readings[position]
    return {
        "paper": claim.paper,
        "kind": str(claim.kind),
        "place": claim.place,
        "claim": claim.says,
        "condition": outcome.why or reading.condition,
        "quantity": reading.quantity,
        "rule": str(reading.rule),
        "measured": str(outcome.measured[position]),
        "verdict": str(outcome.verdict),
        "seconds": outcome.seconds,
    }


def _entries(folder: Path) -> dict[str, dict]:
    """Read the recorded entries, or say why that cannot be done."""
    path = folder / NAME
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no ledger has been recorded there; `lw claims --run` records one."
        )
    try:
        return dict(json.loads(path.read_text())["claims"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a ledger of claims ({error}).") from error
