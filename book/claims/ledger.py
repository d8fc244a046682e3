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

from book.claims.claim import ENOUGH, Claim, Fact, Kind, Measured, Quoted, Reading, Verdict
from lwcore.signatures import require

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "_build" / "html" / "ledger.json"
MIME = "application/vnd.living-paper.claim+json"
CHAPTERS = sorted(Path(__file__).parent.glob("*.toml"))


class Claims(dict[str, Claim]):
    """The claims that a chapter discusses, by name, from its TOML file."""

    def __init__(self, path: str | Path) -> None:
        """Read a file, whose first lines say paper and kind of all that say nothing else."""
        super().__init__()
        try:
            entries = tomllib.loads(Path(path).read_text(encoding="utf-8"))
            common = {name: entries.pop(name) for name in ("paper", "kind")}
            self.paper = common["paper"]
            for name, entry in entries.items():
                self[name] = Claim.model_validate({"id": name} | common | entry)
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path}: {error!r}") from error

    def judge(self, name: str, *numbers: Measured, **facts: float) -> None:
        """Give the numbers of a claim, one for each reading, and show the verdict.

        The ledger takes the numbers from the cell's output.
        """
        from IPython.display import display

        require("name", name, name in self, f"one of {', '.join(self)}")
        expected = len(self[name].readings)
        require("numbers", numbers, len(numbers) == expected, f"{expected}, one for each reading")
        for reading, number in zip(self[name].readings, numbers, strict=True):
            reading.require_bracket(number)
        as_floats = {key: float(fact) for key, fact in facts.items()}
        outcome = Outcome(self[name], numbers, as_floats)
        data = {"id": name, "measured": numbers, "facts": as_floats}
        display({MIME: data, "text/plain": in_full(outcome)}, raw=True)


@cache
def registry() -> dict[str, Claim]:
    """Read all claims by name, chapter by chapter: Livi's paper first, then the companion."""
    by_name: dict[str, Claim] = {}
    in_order = sorted(map(Claims, CHAPTERS), key=lambda claims: claims.paper == "cayci")
    for claims in in_order:
        require("claims", set(by_name), not claims.keys() & by_name.keys(), "each in one file")
        by_name |= claims
    return by_name


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
        return [Quoted(reading, number) for reading, number in self.pairs]

    @property
    def pairs(self) -> list[tuple[Reading, Measured]]:
        """Each reading of the claim, with its number."""
        return list(zip(self.claim.readings, self.measured, strict=True))

    def printed(self, position: int, form: str = "table") -> str:
        """Print what was measured for the reading at a place among the claim's."""
        reading, number = self.pairs[position]
        return reading.printed(number, form)

    @property
    def why(self) -> str:
        """Why nothing was decided, where nothing was."""
        if self.verdict is not Verdict.OPEN:
            return ""
        if self.contradicted:
            return "it is of the paper's own networks, which are not at hand; ours contradict it."
        literal, number = self.pairs[0]
        if literal.waits(number):
            return (
                f"{number.n} of {literal.units} registered seeds are in, and all decide, or none."
            )
        if number.covers < ENOUGH:
            return (
                f"the interval, over {number.n} seeds, is sure to cover the truth in "
                f"{number.covers:.0%} of cases only."
            )
        return "the interval holds numbers for which it is true and others for which it is not."

    @property
    def contradicted(self) -> bool:
        """Whether our networks do otherwise, which leaves what the paper reports open."""
        literal, number = self.pairs[0]
        return self.verdict is Verdict.OPEN and literal.holds(number) is False

    @property
    def remarks(self) -> dict[str, str]:
        """What there is to say of the claim besides its readings."""
        said = {
            "Why it is open": self.why,
            "Settled by the configuration alone": self.claim.fixed,
            "Smallest counterexample": self.counterexample,
            "It could be put as": self.fair,
            "Changed after a number had been seen": self.claim.seen,
        }
        return {label: text for label, text in said.items() if text}

    @property
    def entry(self) -> dict[str, Any]:
        """All that is known of the claim, as the ledger's JSON has it."""
        claim = self.claim
        readings = []
        for reading, number in self.pairs:
            about_reading = {
                "clause": reading.condition,
                "gives": reading.gives,
                "quantity": reading.quantity,
                "unit": reading.unit,
                "bracket": reading.bracket,
                "over": reading.over,
                "printed": reading.printed(number),
                "rule": reading.rule,
                "holds": reading.holds(number),
            }
            readings.append(about_reading | number._asdict())
        telling = readings[claim.telling(self.measured)]
        of_telling = ("clause", "quantity", "unit", "bracket", "over", "printed", "rule")
        of_number = ("value", "low", "high", "covers", "n")
        return {
            "id": claim.id,
            "paper": claim.paper,
            "kind": claim.kind,
            "where": claim.place,
            "statement": claim.says,
            "verdict": self.verdict,
            **{name: telling[name] for name in (*of_telling, *of_number)},
            "chapter": self.chapter,
            "open_because": self.why,
            "fixed": claim.fixed,
            "counterexample": self.counterexample,
            "fair": self.fair,
            "seen": claim.seen,
            "facts": dict(self.facts),
            "readings": readings,
        }


def gathered(notebook: NotebookNode, chapter: str) -> Iterable[Outcome]:
    """Gather what an executed chapter measured, from the outputs of its cells."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {}).get(MIME)
            if data is not None:
                numbers = tuple(Measured(*number) for number in data["measured"])
                yield Outcome(registry()[data["id"]], numbers, data["facts"], chapter)


def counts(outcomes: Iterable[Outcome]) -> dict[Verdict, int]:
    """Count the claims with each verdict, also where it is 0."""
    verdicts = [outcome.verdict for outcome in outcomes]
    return {verdict: verdicts.count(verdict) for verdict in Verdict}


def counts_by_kind(outcomes: Iterable[Outcome]) -> dict[Kind, dict[Verdict, int]]:
    """Count verdicts of what the papers say, kind by kind."""
    by_kind: dict[Kind, list[Outcome]] = {kind: [] for kind in Kind}
    for outcome in outcomes:
        if outcome.claim.counted:
            by_kind[outcome.claim.kind].append(outcome)
    return {kind: counts(of_kind) for kind, of_kind in by_kind.items()}


def readings_in_words(outcome: Outcome) -> list[str]:
    """Say of each reading of a claim what was measured, what it must be and what follows."""
    lines = []
    for reading, number in outcome.pairs:
        says = {True: "holds", False: "fails", None: "open"}[reading.holds(number)]
        clause = reading.condition or "as stated"
        if reading.gives is Verdict.REFUTED:
            clause = f"instead: {clause}"
        printed = reading.printed(number)
        lines.append(f"{clause}: {reading.quantity}: {printed}, must be {reading.rule}: {says}")
    return lines


def in_full(outcome: Outcome) -> str:
    """Say all there is to say of a claim, as plain text."""
    claim = outcome.claim
    lines = [f"{claim.id}: {outcome.verdict} ({claim.kind})", f"  {claim.place}: {claim.says}"]
    lines += [f"  {line}" for line in readings_in_words(outcome)]
    lines += [f"  {label}: {remark}" for label, remark in outcome.remarks.items()]
    return "\n".join(lines)


def write(outcomes: Iterable[Outcome], folder: Path) -> None:
    """Store the ledger as ``ledger.json`` and, a row a claim, as ``ledger.csv``."""
    entries = [outcome.entry for outcome in outcomes]
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    (folder / "ledger.json").write_text(text + "\n", encoding="utf-8")
    columns = [name for name in entries[0] if name not in ("facts", "readings")]
    with (folder / "ledger.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.DictWriter(file, columns, extrasaction="ignore")
        rows.writeheader()
        rows.writerows(entries)


def read(path: Path = BUILT) -> dict[str, Outcome]:
    """Read the ledger of the last build, by name."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no ledger; `make book` measures it.")
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(entries, list):
            raise TypeError("it must be a list")
        return {entry["id"]: _outcome_of(entry) for entry in entries}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a ledger of claims ({error!r}).") from error


def _outcome_of(entry: Mapping[str, Any]) -> Outcome:
    """Make an outcome of its entry in the ledger's JSON."""
    numbers = []
    for reading in entry["readings"]:
        numbers.append(Measured(*map(reading.get, Measured._fields)))
    claim = registry()[entry["id"]]
    return Outcome(claim, tuple(numbers), entry["facts"], entry["chapter"])
