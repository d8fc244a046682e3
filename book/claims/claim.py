"""What a claim is: a statement in our words, and rules, fixed beforehand, that give the verdict.

Statements are data, in the TOML files beside this module, one for each part of the papers.
"""

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lwcore.printing import Bracket, Numbers, Unit, printed
from lwcore.stats import binomial, most_covered

ENOUGH = 0.9  # an interval of less coverage, as that over three seeds with 75 %, gives no verdict
# What a sentence can ask for in the place of an exponent: by how much the base changes.
CHANGES = {"tenfold": 10.0, "thousandfold": 1e3, "tenfold fall": 0.1, "thousandfold fall": 1e-3}
ALONE = ("value", "low", "high")  # one of the three numbers
FORMS = ["prose", "table", *ALONE, *CHANGES]
for _change in CHANGES:
    FORMS += [f"{_change}, {_number}" for _number in ALONE]


def consequence(exponent: Numbers, change: float) -> Numbers:
    """Compute what a power law does: the factor that follows when its base changes by a factor."""
    value, *ends = [change**power for power in exponent]
    return Numbers(value, *sorted(ends))


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
    LATER = "corrected in later versions"
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
    cases: int | None = None  # numbers of a range; None for an interval


def exactly(value: float, n: int | None = None) -> Measured:
    """Give a number that nothing but rounding or a fixed set of cases stands behind."""
    return estimate(value, (value, value), covers=1, n=n)


def throughout(values: Iterable[float]) -> Measured:
    """Take a fixed set of cases, all of it: the median, between the least and the largest."""
    numbers = np.asarray(list(values), dtype=np.float64)
    ends = (numbers.min(), numbers.max())
    median = estimate(np.median(numbers), ends, covers=1, n=numbers.size)
    return median._replace(cases=numbers.size)


def over(values: Iterable[float], units: int) -> Measured:
    """Take several networks' numbers: the median, between the least and the largest.

    The range is as sure as that over the independent units behind it, which are seeds: all networks
    of a seed share its task, sequences and initial weights.
    """
    return throughout(values)._replace(covers=most_covered(units), n=units)


def share(hits: int, of: int) -> Measured:
    """Take a share of independent trials, with Clopper and Pearson's 95 % interval."""
    value, *ends = binomial(int(hits), int(of))
    return estimate(value, ends, n=int(of))


def estimate(
    value: float, interval: Sequence[float], covers: float = 0.95, n: int | None = None
) -> Measured:
    """Take an estimate with an interval that comes from elsewhere: a bootstrap, a fit.

    Args:
        covers: The chance with which the interval holds the truth.
        n: Number of independent units.
    """
    number = float(value)
    low, high = map(float, interval)
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
    quantity: str = Field(description="What is measured.")
    unit: Unit = Field(description="What the number counts or measures.")
    bracket: Bracket = Field(default=Bracket.NONE, description="What its two ends are.")
    over: str = Field(default="", description="What a range is over, in the plural.")
    times: float = Field(default=1, description="What it is multiplied by to be in its unit.")
    direction: tuple[str, str] | None = Field(
        default=None, description="Words for a positive and a negative difference."
    )
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
        for verdict, clause in self._clauses.items():
            if clause:
                return verdict
        return Verdict.HOLDS

    @property
    def condition(self) -> str:
        """The clause; empty where the statement is taken to the letter."""
        return "".join(self._clauses.values())

    @property
    def rule(self) -> str:
        """What the number must be, with inequality signs."""
        low = self._limit(self.at_least)
        high = self._limit(self.at_most)
        sign = " %" if self.unit in (Unit.SHARE, Unit.CASES) else ""
        if math.isinf(self.at_least):
            return f"≤ {high}{sign}"
        if math.isinf(self.at_most):
            return f"≥ {low}{sign}"
        return f"{low} to {high}{sign}"

    def _limit(self, limit: float) -> str:
        """Print a limit as it was written, in the unit that the number is printed in."""
        per_cent = self.unit in (Unit.SHARE, Unit.CASES, Unit.POINTS)
        size = limit * self.times * (100 if per_cent else 1)
        mantissa, _, power = f"{size:g}".partition("e")
        mantissa = mantissa.replace("-", "−")
        if not power:
            return mantissa
        power_of_ten = printed(10.0 ** int(power))
        if mantissa in ("1", "−1"):
            return mantissa.removesuffix("1") + power_of_ten
        return f"{mantissa}×{power_of_ten}"

    def printed(self, measured: Measured, form: str = "table") -> str:
        """Print what was measured, in its unit and with its bracket; see `printing.printed`.

        Besides its forms there are those of `CHANGES`, which say what an exponent does:
        "thousandfold fall", and "thousandfold fall, value" for the value alone.
        """
        unit = self.unit
        numbers = Numbers(
            self.times * measured.value,
            self.times * measured.low,
            self.times * measured.high,
        )
        change, _, rest = form.partition(", ")
        if change in CHANGES:
            if unit is not Unit.EXPONENT:
                raise ValueError(f"form = {form!r}: must be of an exponent, not of a {unit}.")
            unit = Unit.FACTOR
            form = rest or "ends"
            numbers = consequence(numbers, CHANGES[change])
        count = measured.n if self.over == "seeds" else measured.cases
        return printed(
            *numbers,
            unit=unit,
            bracket=self.bracket,
            over=self.over,
            count=count,
            trials=measured.n,
            direction=self.direction,
            form=form,
            limits=(self.times * self.at_least, self.times * self.at_most),
        )

    def require_bracket(self, measured: Measured) -> None:
        """Refuse a measurement whose two ends are not what the reading says of its bracket."""
        if measured.low == measured.high:
            return
        was_range = measured.cases is not None
        is_range = self.bracket is Bracket.RANGE
        if self.bracket is Bracket.NONE or is_range != was_range:
            was = "a range" if was_range else "an interval"
            raise ValueError(
                f"bracket = {self.bracket.value!r} of the reading {self.quantity!r}: must be what "
                f"its cell gives, {was} from {measured.low} to {measured.high}"
            )

    def waits(self, measured: Measured) -> bool:
        """Tell whether some of the registered seeds are missing."""
        return measured.n is not None and measured.n < self.units

    def holds(self, measured: Measured) -> bool | None:
        """Tell whether the rule allows the whole interval, or none of it; None for neither."""
        if measured.covers < ENOUGH or self.waits(measured):
            return None
        if self.at_least <= measured.low and measured.high <= self.at_most:
            return True
        if measured.high < self.at_least or self.at_most < measured.low:
            return False
        return None


def _kind(name: Any) -> Kind:
    """Read a kind by the name that stands in the files of claims."""
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
        """Find the reading that gives the verdict: the first that holds, or the literal.

        Returns its place among the readings.
        """
        for position, (reading, number) in enumerate(zip(self.readings, measured, strict=True)):
            if reading.gives is not Verdict.REFUTED and reading.holds(number):
                return position
        return 0


class Fact(float):
    """A number in a claim's words, printed with a minus sign and a space before the per cent."""

    def __format__(self, form: str) -> str:
        """Print as a float prints; two digits if nothing else is asked for."""
        if not form:
            return printed(self)
        return super().__format__(form).replace("-", "−").replace("%", " %")


class Quoted:
    """A measurement in a claim's words: ``{0}`` is printed as the reading says.

    ``{0:high}`` and the other forms of `Reading.printed` work, too, as ``{0.high:.2g}`` does.
    """

    def __init__(self, reading: Reading, measured: Measured) -> None:
        """Keep both."""
        self.reading = reading
        self.measured = measured

    def __getattr__(self, name: str) -> Any:
        """Give a field of the measurement, with the way in which a fact is printed."""
        field = getattr(self.measured, name)
        return field if field is None or callable(field) else Fact(field)

    def __format__(self, form: str) -> str:
        """Print the number as the reading says."""
        return self.reading.printed(self.measured, form or "prose")
