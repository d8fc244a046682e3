"""What a claim is: a statement in our words, a check that measures, and a rule, fixed beforehand,
that gives the verdict."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeVar

import numpy as np
from scipy import stats

Paper = Literal["livi", "cayci", "code", "ours"]
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


@dataclass(frozen=True)
class Measured:
    """A measured number and the interval that its uncertainty leaves: 95 %, or the whole range over
    networks, as the reading says.

    Attributes:
        value: The number.
        low: Lower end, at most the value.
        high: Upper end, at least the value; equal to the lower where nothing is left to chance.
        covers: The coverage that can be promised for the interval; below `ENOUGH` no rule is
            decided by it.
    """

    value: float
    low: float
    high: float
    covers: float = 0.95

    def __post_init__(self) -> None:
        """Refuse what is no number, or outside its interval."""
        if not self.low <= self.value <= self.high:  # false for NaN, too
            raise ValueError(
                f"Measured({self.value}, {self.low}, {self.high}): the value must be a number "
                "inside its interval."
            )

    def __str__(self) -> str:
        """Write it the way the pages show it: ``0.982 (0.975 to 0.990)``, or the number alone where
        its interval is a point."""
        value, low, high = (f"{number:.3g}" for number in (self.value, self.low, self.high))
        return value if self.low == self.high else f"{value} ({low} to {high})"


def exactly(value: float) -> Measured:
    """A number that nothing but rounding or a fixed set of cases stands behind: its interval is a
    point."""
    return Measured(float(value), float(value), float(value))


def over(values: Iterable[float]) -> Measured:
    """Several networks' numbers: their median, between the least and the largest. A rule holds if
    it holds for every one."""
    numbers = np.asarray(list(values), dtype=np.float64)
    return Measured(float(np.median(numbers)), float(numbers.min()), float(numbers.max()))


def share(hits: int, of: int) -> Measured:
    """A share of independent trials, those in which it happened, with Clopper and Pearson's 95 %
    interval."""
    ends = stats.binomtest(int(hits), int(of)).proportion_ci(0.95)
    return Measured(hits / of, float(ends.low), float(ends.high))


def estimate(value: float, interval: Sequence[float], covers: float = 0.95) -> Measured:
    """An estimate with an interval that comes from elsewhere, its lower and upper end: a bootstrap,
    a fit."""
    low, high = map(float, interval)
    return Measured(float(value), min(low, float(value)), max(high, float(value)), covers)


@dataclass(frozen=True)
class Rule:
    """The numbers under which a reading holds, both ends included.

    Attributes:
        low: Least number allowed.
        high: Largest number allowed.
    """

    low: float = -math.inf
    high: float = math.inf

    def holds(self, measured: Measured) -> bool | None:
        """Judge a measurement: True if its whole interval is allowed, False if none is, None if
        neither or if it covers too little."""
        if measured.covers < ENOUGH:
            return None
        if self.low <= measured.low and measured.high <= self.high:
            return True
        if measured.high < self.low or self.high < measured.low:
            return False
        return None

    def __str__(self) -> str:
        """Say it with inequality signs."""
        if math.isinf(self.low):
            return f"≤ {self.high:g}"
        return f"≥ {self.low:g}" if math.isinf(self.high) else f"{self.low:g} to {self.high:g}"


def at_most(limit: float) -> Rule:
    """Allow numbers up to a limit."""
    return Rule(high=limit)


def at_least(limit: float) -> Rule:
    """Allow numbers from a limit on."""
    return Rule(low=limit)


def within(low: float, high: float) -> Rule:
    """Allow numbers between two ends, both included."""
    return Rule(low, high)


@dataclass(frozen=True)
class Reading:
    """One way to take a claim.

    Attributes:
        gives: The verdict if this is the first reading that holds; `Verdict.REFUTED` for what holds
            instead of the statement.
        condition: What is read into the statement, mended in it, or holds instead of it; empty
            where it is taken as it stands.
        quantity: What is measured, in words, with its unit and what its interval is over.
        rule: What the measurement must be.
    """

    gives: Verdict
    condition: str
    quantity: str
    rule: Rule


def as_stated(quantity: str, rule: Rule) -> Reading:
    """Take the claim as it stands."""
    return Reading(Verdict.HOLDS, "", quantity, rule)


def when(condition: str, quantity: str, rule: Rule) -> Reading:
    """Take the claim under a condition that its text does not name, a clause that starts with "if",
    "for" or the like."""
    return Reading(Verdict.CONDITION, condition, quantity, rule)


def in_later_versions(change: str, quantity: str, rule: Rule) -> Reading:
    """Take the claim as a later version of the paper has it, which says the change."""
    return Reading(Verdict.LATER, change, quantity, rule)


def as_mended(change: str, quantity: str, rule: Rule) -> Reading:
    """Take the claim with a slip of print or of a factor mended, a clause that says what stands in
    the place of what."""
    return Reading(Verdict.MISPRINT, change, quantity, rule)


def in_part(part: str, quantity: str, rule: Rule) -> Reading:
    """Take the claim for a part of the cases, chosen after the data had been seen: a clause that
    starts with "for", "in" or the like."""
    return Reading(Verdict.PART, part, quantity, rule)


def rather(instead: str, quantity: str, rule: Rule) -> Reading:
    """Measure what holds instead of a statement that does not, a clause. It leaves the verdict as
    it is."""
    return Reading(Verdict.REFUTED, instead, quantity, rule)


Facts = dict[str, float]
Check = Callable[..., Measured | tuple[Measured, ...] | tuple[Measured | Facts, ...]]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and how it is checked.

    Attributes:
        id: Its name in the ledger, in ``{claim}`` and on the command line.
        paper: ``"livi"`` or ``"cayci"``; ``"code"`` for what Livi's public code does and the paper
            does not say, ``"ours"`` for what neither says and this book measures beside it. These
            two are counted for or against no paper.
        kind: What stands behind it.
        place: Where the paper says it: equation, lemma, figure or section, and the version if they
            differ.
        says: The statement, one sentence in our words.
        readings: The ways to take it, at least one, the literal one first.
        check: Measures: one `Measured` for each reading, in their order, and behind them, if the
            words below need more numbers, these in a dictionary. Its argument `runs`, if it has
            one, gives recorded runs by name.
        code: Functions of the package that the check is about, with their modules.
        counterexample: The smallest case against the statement, if there is one. Its numbers are
            computed: ``{0}`` is the first reading's measurement, ``{0.low:.2g}`` its lower end,
            ``{name:.2g}`` a number that the check gives beside its measurements.
        fair: The statement as its author could sign it, if it does not hold as it stands; with
            numbers as in `counterexample`.
        seen: What of its rules or readings was changed after a number had been seen, if anything
            was.
        slow: Whether the check takes longer than the tests may.
        reported: Whether the paper reports it of its own networks, which are not at hand: where
            ours differ, that is no refutation.
        fixed: What of the measurement the configuration alone settles, before any network is
            trained; empty where it settles nothing.
    """

    id: str
    paper: Paper
    kind: Kind
    place: str
    says: str
    readings: tuple[Reading, ...]
    check: Check
    code: tuple[str, ...] = ()
    counterexample: str = ""
    fair: str = ""
    seen: str = ""
    slow: bool = False
    reported: bool = False
    fixed: str = ""

    @property
    def counted(self) -> bool:
        """Whether it is counted for or against a paper."""
        return self.paper in ("livi", "cayci")

    @property
    def needs_runs(self) -> bool:
        """Whether the check reads recorded runs."""
        return "runs" in inspect.signature(self.check).parameters

    def measure(self, runs: Any) -> tuple[tuple[Measured, ...], Facts]:
        """Run the check.

        Args:
            runs: Recorded runs by name.

        Returns:
            A measurement for each reading, and further numbers by name.

        Raises:
            ValueError: If the check gives another number of measurements than the claim has
                readings.
        """
        given = self.check(runs) if self.needs_runs else self.check()
        found = (given,) if isinstance(given, Measured) else given
        measured = tuple(one for one in found if isinstance(one, Measured))
        if len(measured) != len(self.readings):
            raise ValueError(
                f"claim {self.id!r}: {len(measured)} measurements for {len(self.readings)} "
                "readings."
            )
        return measured, {
            name: float(number)
            for one in found
            if isinstance(one, dict)
            for name, number in one.items()
        }

    def judge(self, measured: Sequence[Measured]) -> Verdict:
        """Turn measurements into the verdict: that of the first reading of the statement that
        holds.

        A literal reading that its measurement leaves open, with no other that holds, is open; one
        that fails is refuted, unless it reports what the paper's own networks did: those are not at
        hand, and ours decide nothing about them. What is measured to hold instead has no say.

        Args:
            measured: A measurement for each reading.

        Returns:
            The verdict.
        """
        position = self.telling(measured)
        reading, holds = (
            self.readings[position],
            self.readings[position].rule.holds(measured[position]),
        )
        if holds:
            return reading.gives
        return Verdict.OPEN if holds is None or self.reported else Verdict.REFUTED

    def telling(self, measured: Sequence[Measured]) -> int:
        """Find the place of the reading that gives the verdict: the first that holds, or else the
        literal one."""
        for position, (reading, one) in enumerate(zip(self.readings, measured, strict=True)):
            if reading.gives is not Verdict.REFUTED and reading.rule.holds(one):
                return position
        return 0


C = TypeVar("C", bound=Check)


@dataclass
class Chapter:
    """The claims of one part of a paper, in the order in which they are written down.

    Attributes:
        paper: ``"livi"`` or ``"cayci"``.
        kind: What stands behind its claims, unless one says otherwise.
        claims: The claims so far.
    """

    paper: Paper
    kind: Kind
    claims: list[Claim] = field(default_factory=list)

    def claim(
        self, id: str, place: str, says: str, *readings: Reading, **more: Any
    ) -> Callable[[C], C]:
        """Register the function below as the check of a claim.

        Args:
            id: As in `Claim`.
            place: As in `Claim`.
            says: As in `Claim`.
            *readings: As in `Claim`; at least one, the literal one first.
            **more: Further attributes of `Claim`; ``code`` may be one name or several in a tuple,
                ``paper`` and ``kind`` others than the chapter's.

        Returns:
            A decorator that leaves the function as it is.

        Raises:
            ValueError: If there are no readings, or the first is not the literal one.
        """
        if not readings or readings[0].gives is not Verdict.HOLDS:
            raise ValueError(f"claim {id!r}: the first reading must be as_stated(…).")

        def register(check: C) -> C:
            code, paper, kind = (
                more.pop("code", ()),
                more.pop("paper", self.paper),
                more.pop("kind", self.kind),
            )
            self.claims.append(
                Claim(
                    id,
                    paper,
                    kind,
                    place,
                    says,
                    readings,
                    check,
                    code=(code,) if isinstance(code, str) else tuple(code),
                    **more,
                )
            )
            return check

        return register
