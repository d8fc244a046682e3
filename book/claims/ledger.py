"""The ledger: what chapters measured, and the verdicts that follow from the claims' rules."""

import csv
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from book.claims.claim import ENOUGH, Claim, Fact, Kind, Measured, Quoted, Verdict
from lwcore.signatures import require

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "_build" / "html" / "ledger.json"
MIME = "application/vnd.living-paper.claim+json"
CHAPTERS = sorted(Path(__file__).parent.glob("*.toml"))


class Claims(dict[str, Claim]):
    """The claims that a chapter discusses, by name, from its TOML file."""

    def __init__(self, path: str | Path) -> None:
        """Entries of a file, whose first lines say paper and kind of all that say nothing else."""
        entries = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        common = {name: entries.pop(name) for name in ("paper", "kind")}
        self.paper = common["paper"]
        claims = {name: {"id": name} | common | entry for name, entry in entries.items()}
        super().__init__({name: Claim.model_validate(one) for name, one in claims.items()})

    def judge(self, name: str, *numbers: Measured, **facts: float) -> None:
        """Give the numbers of a claim, one for each reading, and show the verdict.

        The ledger takes the numbers from the cell's output.
        """
        from IPython.display import display

        require("name", name, name in self, f"one of {', '.join(self)}")
        expected = len(self[name].readings)
        require("numbers", numbers, len(numbers) == expected, f"{expected}, one for each reading")
        for reading, one in zip(self[name].readings, numbers, strict=True):
            reading.require_bracket(one)
        found = Outcome(self[name], numbers, {key: float(fact) for key, fact in facts.items()})
        data = {"id": name, "measured": numbers, "facts": found.facts}
        display({MIME: data, "text/plain": in_full(found)}, raw=True)


@cache
def registry() -> dict[str, Claim]:
    """All claims by name, chapter by chapter: Livi's paper first, then the companion."""
    found: dict[str, Claim] = {}
    for claims in sorted(map(Claims, CHAPTERS), key=lambda one: one.paper == "cayci"):
        require("claims", set(found), not claims.keys() & found.keys(), "each in one file")
        found |= claims
    return found


@dataclass(frozen=True)
class Outcome:
    """What was measured of a claim, a number for each reading, and what follows from it.

    Facts are further numbers by name, for the claim's words; the chapter is a file of the book.
    """

    claim: Claim
    measured: tuple[Measured, ...]
    facts: Mapping[str, float] = field(default_factory=dict)
    chapter: str = ""

    @property
    def verdict(self) -> Verdict:
        """The verdict, by the claim's rules."""
        return self.claim.judge(self.measured)

    @property
    def counterexample(self) -> str:
        """The smallest case against the statement, with its numbers."""
        return self.claim.counterexample.format(*self._quoted, **self._facts)

    @property
    def fair(self) -> str:
        """The statement as its author could sign it, with its numbers."""
        return self.claim.fair.format(*self._quoted, **self._facts)

    @property
    def _facts(self) -> dict[str, Fact]:
        """The further numbers, for the claim's words."""
        return {name: Fact(number) for name, number in self.facts.items()}

    @property
    def _quoted(self) -> list[Quoted]:
        """What was measured, for the claim's words."""
        return [Quoted(*pair) for pair in zip(self.claim.readings, self.measured, strict=True)]

    @property
    def why(self) -> str:
        """Why nothing was decided, where nothing was."""
        if self.verdict is not Verdict.OPEN:
            return ""
        literal, one = self.claim.readings[0], self.measured[0]
        if literal.waits(one):
            return f"{one.n} of {literal.units} registered seeds are in, and all decide, or none."
        if one.covers < ENOUGH:
            sure = f"sure to cover the truth in {one.covers:.0%} of cases only"
            return f"the interval, over {one.n} seeds, is {sure}."
        if literal.holds(one) is None:
            holds = "for which it is true and others for which it is not"
            return f"the interval of the measurement holds numbers {holds}."
        return (
            "the paper reports it of its own networks, which are not at hand; ours, in their "
            "place, do otherwise."
        )

    @property
    def entry(self) -> dict[str, Any]:
        """All that is known of the claim, as the ledger's JSON has it."""
        claim, telling = self.claim, self.claim.telling(self.measured)
        readings = [
            {
                "clause": reading.condition,
                "gives": reading.gives,
                "quantity": reading.quantity,
                "unit": reading.unit,
                "bracket": reading.bracket,
                "over": reading.over,
                "printed": reading.printed(one),
                "rule": reading.rule,
                "holds": reading.holds(one),
                **one._asdict(),
            }
            for reading, one in zip(claim.readings, self.measured, strict=True)
        ]
        return {
            **{"id": claim.id, "paper": claim.paper, "kind": claim.kind, "where": claim.place},
            **{"statement": claim.says, "verdict": self.verdict},
            **{name: readings[telling][name] for name in ("clause", "quantity", "unit")},
            **{name: readings[telling][name] for name in ("bracket", "over", "printed", "rule")},
            **{name: readings[telling][name] for name in ("value", "low", "high", "covers", "n")},
            **{"chapter": self.chapter, "open_because": self.why, "fixed": claim.fixed},
            **{"counterexample": self.counterexample, "fair": self.fair, "seen": claim.seen},
            **{"facts": dict(self.facts), "readings": readings},
        }


def gathered(notebook: NotebookNode, chapter: str) -> Iterable[Outcome]:
    """What an executed chapter measured."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    for data in (output["data"][MIME] for output in outputs if MIME in output.get("data", ())):
        numbers = tuple(Measured(*one) for one in data["measured"])
        yield Outcome(registry()[data["id"]], numbers, data["facts"], chapter)


def counts(found: Iterable[Outcome]) -> dict[Verdict, int]:
    """The number of claims for every verdict, also where it is 0."""
    verdicts = [outcome.verdict for outcome in found]
    return {verdict: verdicts.count(verdict) for verdict in Verdict}


def counts_by_kind(found: Iterable[Outcome]) -> dict[Kind, dict[Verdict, int]]:
    """`counts` of what the papers say, kind by kind."""
    of_papers = [outcome for outcome in found if outcome.claim.counted]
    return {kind: counts(one for one in of_papers if one.claim.kind is kind) for kind in Kind}


def readings_in_words(outcome: Outcome) -> list[str]:
    """Say of each reading of a claim what was measured, what it must be and what follows."""
    lines = []
    for reading, one in zip(outcome.claim.readings, outcome.measured, strict=True):
        says = {True: "holds", False: "fails", None: "open"}[reading.holds(one)]
        way = "instead: " * (reading.gives is Verdict.REFUTED) + (reading.condition or "as stated")
        number = f"{reading.printed(one)}, must be {reading.rule}"
        lines.append(f"{way}: {reading.quantity}: {number}: {says}")
    return lines


def in_full(outcome: Outcome) -> str:
    """All there is to say of a claim, as plain text."""
    claim, found = outcome.claim, outcome.entry
    lines = [f"{claim.id}: {outcome.verdict} ({claim.kind})", f"  {claim.place}: {claim.says}"]
    lines += [f"  {line}" for line in readings_in_words(outcome)]
    more = {
        "open because": "open_because",
        "settled by the configuration": "fixed",
        "smallest counterexample": "counterexample",
        "could be put as": "fair",
        "changed after a number had been seen": "seen",
    }
    return "\n".join(
        lines + [f"  {label}: {found[name]}" for label, name in more.items() if found[name]]
    )


def write(found: Iterable[Outcome], folder: Path) -> None:
    """Store the ledger as ``ledger.json`` and, a row a claim, as ``ledger.csv``."""
    entries = [outcome.entry for outcome in found]
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    (folder / "ledger.json").write_text(text + "\n", encoding="utf-8")
    columns = [name for name in entries[0] if name not in ("facts", "readings")]
    with (folder / "ledger.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, columns, extrasaction="ignore")
        rows.writeheader()
        rows.writerows(entries)


def read(path: Path = BUILT) -> dict[str, Outcome]:
    """The ledger of the last build, by name."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no ledger; `make book` measures it.")
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        fields = Measured._fields
        found = [
            Outcome(
                registry()[one["id"]],
                tuple(Measured(*map(reading.get, fields)) for reading in one["readings"]),
                one["facts"],
                one["chapter"],
            )
            for one in entries
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a ledger of claims ({error!r}).") from error
    return {outcome.claim.id: outcome for outcome in found}
