"""What a claim is: a statement in our words, and rules, fixed beforehand, that give the verdict.

Statements are data, in the TOML files beside this module, one for each part of the papers.
"""

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lwcore.stats import binomial, most_covered

ENOUGH = 0.9  # an interval of less coverage, as that over three seeds with 75 %, gives no verdict


class Kind(StrEnum):
    """What stands behind a claim: how it could have come out otherwise."""

    IDENTITY = "identity or definition"
    THEOREM = "theorem or formula"
    SIMULATION = "simulation"
    NETWORK = "network experiment"


class Verdict(StrEnum):
    """What a claim's measurements say of it."""

    HOLDS = "holds"
    CONDITION = "holds under a stated condition"
    LATER = "holds in later versions only"
    MISPRINT = "misprint: holds once mended"
    PART = "true in a part found afterwards"
    REFUTED = "refuted as stated"
    OPEN = "open"


class Measured(NamedTuple):
    """A number and the interval that its uncertainty leaves.

    The interval is of 95 %, or the whole range over networks or cases, as the reading says. Where
    it covers less than `ENOUGH`, no rule is decided by it.
    """

    value: float
    low: float
    high: float
    covers: float = 0.95
    n: int | None = None  # independent units, or cases; None where there is nothing to count

    def __str__(self) -> str:
        """``0.982 (0.975 to 0.990)`` or ``−122,000``, the number alone if its interval is a point."""
        rounded = (f"{float(f'{number:.3g}'):,.15g}" for number in self[:3])
        value, low, high = (digits.replace("-", "−") for digits in rounded)
        return value if self.low == self.high else f"{value} ({low} to {high})"


def exactly(value: float, n: int | None = None) -> Measured:
    """A number that nothing but rounding or a fixed set of cases stands behind."""
    return estimate(value, (value, value), covers=1, n=n)


def throughout(values: Iterable[float]) -> Measured:
    """Numbers of a fixed set of cases, all of it: their median, between the least and the largest."""
    numbers = np.asarray(list(values), dtype=np.float64)
    return estimate(np.median(numbers), (numbers.min(), numbers.max()), covers=1, n=numbers.size)


def over(values: Iterable[float], units: int) -> Measured:
    """Several networks' numbers: their median, between the least and the largest.

    The range is as sure as that over the independent units behind it, which are seeds: all networks
    of a seed share its task, sequences and initial weights.
    """
    return throughout(values)._replace(covers=most_covered(units), n=units)


def share(hits: int, of: int) -> Measured:
    """A share of independent trials, with Clopper and Pearson's 95 % interval."""
    value, *ends = binomial(int(hits), int(of))
    return estimate(value, ends, n=int(of))


def estimate(
    value: float, interval: Sequence[float], covers: float = 0.95, n: int | None = None
) -> Measured:
    """An estimate with an interval that comes from elsewhere: a bootstrap, a fit."""
    number, (low, high) = float(value), map(float, interval)
    if math.isnan(number) or not low <= high:
        raise ValueError(f"measured: {value} ({low} to {high}) is no number with an interval.")
    return Measured(number, min(low, number), max(high, number), covers, n)


_FIELDS = ConfigDict(frozen=True, extra="forbid")


class Reading(BaseModel):
    """One way to take a claim: what is measured, and what the number must be, ends included.

    At most one of the five clauses says how a reading departs from the statement's letter.
    """

    model_config = _FIELDS
    when: str = Field(default="", description="A condition that the text does not name.")
    later: str = Field(default="", description="What a later version of the paper has instead.")
    mended: str = Field(default="", description="A slip of print or of a factor, mended.")
    part: str = Field(default="", description="A part, chosen after the data had been seen.")
    instead: str = Field(default="", description="What holds instead; no verdict hangs on it.")
    quantity: str = Field(description="What is measured, its unit, what its interval is over.")
    at_least: float = -math.inf
    at_most: float = math.inf
    units: int = Field(default=0, description="Seeds that were registered; fewer decide nothing.")

    @model_validator(mode="after")
    def _one_clause(self) -> Self:
        if sum(map(bool, self._clauses.values())) > 1 or not self.at_least <= self.at_most:
            raise ValueError("a reading has one clause at most, and a rule that something meets")
        return self

    @property
    def _clauses(self) -> dict[Verdict, str]:
        return {
            Verdict.CONDITION: self.when,
            Verdict.LATER: self.later,
            Verdict.MISPRINT: self.mended,
            Verdict.PART: self.part,
            Verdict.REFUTED: self.instead,
        }

    @property
    def gives(self) -> Verdict:
        """The verdict if this is the first reading that holds; refuted for what holds instead."""
        return next((one for one, clause in self._clauses.items() if clause), Verdict.HOLDS)

    @property
    def condition(self) -> str:
        """The clause; empty where the statement is taken to the letter."""
        return "".join(self._clauses.values())

    @property
    def rule(self) -> str:
        """What the number must be, with inequality signs."""
        if math.isinf(self.at_least):
            return f"≤ {self.at_most:g}"
        low, high = self.at_least, self.at_most
        return f"≥ {low:g}" if math.isinf(high) else f"{low:g} to {high:g}"

    def waits(self, measured: Measured) -> bool:
        """Whether some of the registered seeds are missing."""
        return measured.n is not None and measured.n < self.units

    def holds(self, measured: Measured) -> bool | None:
        """Whether the rule allows the whole interval, or none of it; None for neither."""
        if measured.covers < ENOUGH or self.waits(measured):
            return None
        if self.at_least <= measured.low and measured.high <= self.at_most:
            return True
        return False if measured.high < self.at_least or self.at_most < measured.low else None


def _kind(name: Any) -> Kind:
    return Kind[str(name).upper()]


class Claim(BaseModel):
    """A statement of a paper, and the readings of it that are measured, the literal one first.

    Numbers in `counterexample` and `fair` are computed: ``{0}`` is the first reading's measurement,
    ``{0.low:.2g}`` its lower end, ``{name:.2g}`` a number measured beside them.
    """

    model_config = _FIELDS
    id: str = Field(description="Its name in the ledger.")
    paper: Literal["livi", "cayci", "code", "ours"] = Field(
        description="Whose: of Livi's public code, or ours, are counted for or against no paper."
    )
    kind: Annotated[Kind, BeforeValidator(_kind)] = Field(description="What stands behind it.")
    place: str = Field(description="Where the paper says it, and the version if they differ.")
    says: str = Field(description="The statement, one sentence in our words.")
    readings: tuple[Reading, ...] = Field(min_length=1)
    code: tuple[str, ...] = Field(default=(), description="Functions that it is about.")
    counterexample: str = Field(default="", description="The smallest case against it.")
    fair: str = Field(default="", description="The statement as its author could sign it.")
    seen: str = Field(default="", description="Rules changed after a number had been seen.")
    fixed: str = Field(default="", description="What the configuration alone settles.")
    reported: bool = Field(
        default=False, description="Of the paper's own networks, about which ours decide nothing."
    )

    @model_validator(mode="after")
    def _literal_first(self) -> Self:
        if self.readings[0].condition:
            raise ValueError(f"claim {self.id!r}: the first reading takes it to the letter")
        return self

    @property
    def counted(self) -> bool:
        """Whether it is counted for or against a paper."""
        return self.paper in ("livi", "cayci")

    def judge(self, measured: Sequence[Measured]) -> Verdict:
        """The verdict of the first reading of the statement that holds.

        A literal reading that its measurement leaves open, with no other that holds, is open; one
        that fails is refuted, unless it reports what the paper's own networks did.
        """
        position = self.telling(measured)
        holds = self.readings[position].holds(measured[position])
        if holds:
            return self.readings[position].gives
        return Verdict.OPEN if holds is None or self.reported else Verdict.REFUTED

    def telling(self, measured: Sequence[Measured]) -> int:
        """The place of the reading that gives the verdict: the first that holds, or the literal."""
        for position, (reading, one) in enumerate(zip(self.readings, measured, strict=True)):
            if reading.gives is not Verdict.REFUTED and reading.holds(one):
                return position
        return 0
