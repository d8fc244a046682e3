"""How a number is printed: its unit, its bracket, and no more digits than the bracket allows.

Square brackets hold a 95 % interval and nothing else; a range is in round brackets, behind the
word. Half the bracket gets one significant digit (two if the first is 1), and the value goes to the
same place; a number without a bracket has two digits. Where the ends of a bracket are several times
each other, half of it is taken on the logarithmic scale, and each number has a place of its own.

Whatever prints a measured number calls `printed`: the ledger, prose, tables, figures, `diagnose`.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from lwcore.signatures import ArgumentError, floats, require

_WIDE = 3.0  # ends of a bracket that are this many times each other: a logarithmic scale
_UNSAFE = 30.0  # beyond it a sentence has no middle of a range of factors, but its safe end
_ROUNDING = 1e-6  # the most that rounding leaves of an identity
_LARGE, _SMALL = 10_000.0, 0.001  # from here on a power of ten
_COUNTED = 100  # trials up to which a share is a count
_FINE = 300  # trials above which a share below 10 % has a decimal
_POWERS_OF_TEN = 300  # up to which they are floats with all their digits
_LARGEST_SHARE = 1e300  # beyond it a percentage may be no float
_MOST = 3  # places behind the first digit that even the narrowest bracket gives
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


class Unit(StrEnum):
    """What a number counts or measures."""

    SHARE = "share"  # a part of a whole, printed as a percentage
    CASES = "cases"  # the share of counted trials in which something happened
    HITS = "hits"  # the number of counted trials in which something happened
    POINTS = "points"  # a difference of two shares
    FACTOR = "factor"  # one thing over another
    EXPONENT = "exponent"  # a power, or a slope between logarithms
    COUNT = "count"  # whole things: sequences, networks
    STEPS = "steps"  # time steps, or steps of training
    CORRELATION = "correlation"  # between −1 and 1
    NUMBER = "number"  # R², anything without a unit
    ROUNDING = "rounding"  # what is left of an identity


class Bracket(StrEnum):
    """What the two ends beside a value are."""

    NONE = "none"  # there are none: a maximum, an exact number
    INTERVAL = "interval"  # of 95 %
    RANGE = "range"  # least and largest
    CHANCE = "chance"  # the value, less and more what chance stays below in 95 % of cases


class Numbers(NamedTuple):
    """A value with the two ends of its bracket."""

    value: float
    low: float
    high: float


_PERCENT = (Unit.SHARE, Unit.CASES, Unit.POINTS)
_WHOLE = (Unit.COUNT, Unit.STEPS)
_ONE_SCALE = (*_PERCENT, Unit.EXPONENT, Unit.CORRELATION)


def printed(
    value: float,
    low: float | None = None,
    high: float | None = None,
    *,
    unit: str = Unit.NUMBER,
    bracket: str = Bracket.INTERVAL,
    over: str = "",
    count: int | None = None,
    trials: int | None = None,
    direction: tuple[str, str] | None = None,
    form: str = "table",
    limits: tuple[float, ...] = (),
) -> str:
    """Print a number in its unit, with its bracket if it has one.

    In a sentence (`form` "prose") a range of factors that spans more than a factor of 30 becomes
    its safe end (or, in the form "ends", both), and what rounding leaves becomes words. The forms
    "value", "low" and "high" give one of the three numbers alone, where the sentence says which.

    Args:
        low: The lower end of the bracket; without ends the number is alone.
        high: The upper end.
        unit: One of `Unit`. A share is given as a fraction and printed in per cent.
        bracket: One of `Bracket`: what the ends are.
        over: What a range is over, in the plural ("networks").
        count: How many these are.
        trials: The number of trials behind a share; up to 100 the count comes first.
        direction: The words for a positive and a negative difference ("longer", "shorter").
        form: "table", "prose", "ends", "value", "low" or "high".
        limits: What a number without a bracket is held against: it gets as many digits as tell it
            from these.

    Examples:
        >>> printed(0.256, 0.189, 0.303, unit="share", bracket="range", over="networks", count=25)
        '26 % (range 19–30 %, 25 networks)'
        >>> printed(2.013, 1.402, 2.518, unit="factor")
        '2.0 times [1.4, 2.5]'
        >>> printed(62 / 68, unit="cases", trials=68)
        '62 of 68 (91 %)'
        >>> printed(-16, -32, 0, unit="steps", bracket="range", direction=("longer", "shorter"))
        '16 steps shorter (range 0–32)'
    """
    value = _plain("value", value)
    lower = value if low is None else _plain("low", low)
    upper = value if high is None else _plain("high", high)
    numbers = Numbers(value, lower, upper)
    if lower > upper:
        raise ValueError(f"low, high = {low}, {high}: must be in order.")
    measured_in = _member(Unit, "unit", unit)
    kind_of_bracket = _member(Bracket, "bracket", bracket)
    differ = lower != upper and not any(map(math.isnan, numbers))
    ends = kind_of_bracket if differ else Bracket.NONE
    one = _Number(numbers, measured_in, ends, over, count, trials, limits)
    if one.unit in _PERCENT:
        for name, number in (("value", value), ("low", lower), ("high", upper)):
            holds = math.isinf(number) or not abs(number) > _LARGEST_SHARE
            require(name, number, holds, f"{_LARGEST_SHARE:g} at most, as a part of a whole")
    if math.isnan(value):
        return "–"
    if form in ("value", "low", "high"):
        return one.without_bracket.text(getattr(numbers, form))
    if form not in ("prose", "ends", "table"):
        allowed = "prose, ends, table, value, low, high"
        raise ValueError(f"form = {form!r}: must be one of {allowed}.")
    in_prose = form != "table"
    if one.unit in (Unit.CASES, Unit.HITS) and trials is not None:
        require("value", value, math.isfinite(value), "finite, of counted trials")
    if one.unit is Unit.CASES and trials is not None:
        return one.cases(in_prose)
    if one.unit is Unit.HITS and trials is not None:
        return f"{value:,.0f} of {trials:,}"
    if one.unit is Unit.ROUNDING and in_prose and 0 < abs(value) <= _ROUNDING:
        return "to rounding"
    if ends is Bracket.CHANCE:
        return one.beside_chance
    if direction is not None:
        return one.directed(direction)
    if ends is Bracket.NONE:
        return one.alone(in_prose)
    if value == numbers.low == 0 and one.unit not in (Unit.POINTS, Unit.EXPONENT):
        return one.none_at_all
    if one.unit is Unit.FACTOR and ends is Bracket.RANGE and in_prose and one.spans_much:
        return one.both_ends if form == "ends" else one.safe_end
    return one.with_unit(one.text(value)) + one.bracketed()


def consequence(exponent: Numbers, change: float = 1000.0) -> Numbers:
    """Compute what a power law does: the factor that follows when its base changes by a factor.

    Examples:
        >>> consequence(Numbers(0.5, 0.25, 1.0), change=100.0)
        Numbers(value=10.0, low=3.1622776601683795, high=100.0)
    """
    value, one, other = (_to_the_power(change, power) for power in exponent)
    return Numbers(value, min(one, other), max(one, other))


def _to_the_power(change: float, power: float) -> float:
    """Return what becomes of a change, infinite where that is beyond a float."""
    try:
        return float(change**power)
    except OverflowError:
        return math.inf


def number_word(count: int) -> str:
    """Write a whole number up to ten as a word, a larger one in digits."""
    return _WORDS[count] if 0 <= count < len(_WORDS) else f"{count:,}"


def _plain(name: str, value: Any) -> float:
    """Return a number that was given, of whatever type, as a float."""
    number = floats(name, value)
    require(name, value, number.ndim == 0, "one number")
    return float(number)


_Kind = TypeVar("_Kind", bound=StrEnum)


def _member(kinds: type[_Kind], name: str, value: str) -> _Kind:
    """Return one of some words; refuse another by name."""
    try:
        return kinds(value)
    except ValueError:
        allowed = ", ".join(kinds)
    raise ArgumentError(f"{name} = {str(value)!r}: must be one of {allowed}.")


@dataclass(frozen=True)
class _Number:
    """A number that is being printed."""

    numbers: Numbers
    unit: Unit
    ends: Bracket
    over: str
    count: int | None
    trials: int | None
    limits: tuple[float, ...]

    @property
    def has_bracket(self) -> bool:
        """Whether there are two ends that differ."""
        return self.ends is not Bracket.NONE

    @property
    def without_bracket(self) -> _Number:
        """The number for one that is printed alone, and has two digits."""
        return replace(self, ends=Bracket.NONE, limits=())

    @property
    def spans_much(self) -> bool:
        """Whether the ends are more than a factor of 30 from each other."""
        return self.numbers.low <= 0 or self.numbers.high > _UNSAFE * self.numbers.low

    @property
    def per_cent(self) -> float:
        """What a number is multiplied by before it is printed."""
        return 100.0 if self.unit in _PERCENT else 1.0

    def text(self, number: float) -> str:
        """One of the three numbers, to the place that the bracket gives it."""
        if not math.isfinite(number):
            return _not_finite(number)
        size = number * self.per_cent
        if self.unit is Unit.SHARE and self.is_nearly_a_limit(size):
            return "below 1" if size < 50 else "over 99"
        if self.unit in _WHOLE:
            return _whole(size, self.place(number))
        return _digits(size, self.place(number))

    def is_nearly_a_limit(self, size: float) -> bool:
        """Whether a share that is neither 0 nor 100 % would be printed so."""
        rounded = _rounded(size, self.place(size / self.per_cent))
        return 0 < size < 100 and rounded in (0.0, 100.0) and not self.has_bracket

    def place(self, number: float) -> int:
        """The power of ten of the last digit that is printed."""
        if not self.has_bracket:
            return self.place_alone(number)
        if math.isinf(self.numbers.low) or math.isinf(self.numbers.high):
            place = _place_of_two(number * self.per_cent)
        elif self.is_logarithmic:
            _, low, high = self.numbers
            ratio = high / low
            width = math.log(high) - math.log(low) if math.isinf(ratio) else math.log(ratio)
            place = _place_of(abs(number) * width / 2)
            place = min(place, _power(number))  # one digit at least
        else:
            half = self.numbers.high / 2 - self.numbers.low / 2  # their difference may be no float
            finite = [abs(one) for one in self.numbers if math.isfinite(one)]
            largest = max(finite) * self.per_cent
            place = max(_place_of(half * self.per_cent), _power(largest) - _MOST)
        return self.bounded(place, number)

    @property
    def is_logarithmic(self) -> bool:
        """Whether half the bracket is taken on the logarithmic scale."""
        _, low, high = self.numbers
        same_sign = low > 0 or high < 0
        far = same_sign and max(low / high, high / low) > _WIDE
        return far and low > 0 and self.unit not in _ONE_SCALE

    def place_alone(self, number: float) -> int:
        """The place of a number without a bracket: two digits, more where a limit asks for them."""
        size = number * self.per_cent
        if size == round(size) and abs(size) < _LARGE:
            return 0
        place = _place_of_two(size)
        if self.unit in (Unit.SHARE, Unit.CASES):
            place = max(place, 0)
        last = place - 7
        while place > last and not self.is_told_from_limits(size, place):
            place -= 1
        return place

    def is_told_from_limits(self, size: float, place: int) -> bool:
        """Whether what is printed is on the same side of every limit as the number."""
        rounded = _rounded(size, place)
        limits = [limit * self.per_cent for limit in self.limits if math.isfinite(limit)]
        return all(
            (rounded < limit) == (size < limit) and (rounded > limit) == (size > limit)
            for limit in limits
        )

    def bounded(self, place: int, number: float) -> int:
        """A place within what the unit asks for: whole per cent, two decimals of an exponent."""
        if self.unit in (Unit.SHARE, Unit.CASES):
            return max(min(place, 0), -1 if self.has_a_decimal else 0)
        if self.unit is Unit.POINTS:
            return max(min(place, 0), -1)
        if self.unit is Unit.EXPONENT:
            return max(min(place, _place_of_two(number)), -2)
        if self.unit in _WHOLE and self.ends is Bracket.RANGE and place <= 2:
            # these were observed, and 128 steps are no 130; but what was averaged keeps its place
            return 0 if self.are_whole or place >= 0 else place
        if self.unit in _WHOLE and place >= 0:
            return min(place, _power(number) - 1)
        return place

    @property
    def are_whole(self) -> bool:
        """Whether all three numbers are whole."""
        return all(math.isinf(one) or one == round(one) for one in self.numbers)

    @property
    def has_a_decimal(self) -> bool:
        """Whether a share is small and known well: from many trials, or by its interval."""
        half = (self.numbers.high - self.numbers.low) / 2
        known = (self.trials or 0) > _FINE or (self.ends is Bracket.INTERVAL and half < 0.01)
        return abs(self.numbers.value) < 0.1 and known

    def with_unit(self, text: str) -> str:
        """A number and its unit."""
        if self.unit in (Unit.SHARE, Unit.CASES):
            return f"{text} %"
        words = {Unit.POINTS: "points", Unit.FACTOR: "times", Unit.STEPS: "steps"}
        word = words.get(self.unit)
        if self.unit is Unit.FACTOR and text == "1" and not self.has_bracket:
            text = "1.0"
        if word and text in ("1", "−1") and self.unit is not Unit.FACTOR:
            word = word.removesuffix("s")
        return f"{text} {word}" if word else text

    def alone(self, in_prose: bool) -> str:
        """A number without a bracket."""
        if self.unit is Unit.FACTOR and in_prose and self.numbers.value == 2:
            return "twice"
        return self.with_unit(self.text(self.numbers.value))

    def bracketed(self, texts: tuple[str, str] | None = None) -> str:
        """The bracket, and what it is over."""
        low, high = texts or (self.text(self.numbers.low), self.text(self.numbers.high))
        if self.ends is Bracket.INTERVAL:
            same = low == high == self.text(self.numbers.value)
            return "" if same else f" [{low}, {high}]"
        group = self.group
        if low == high:
            return f" (all {group})" if group else ""
        joint = "–" if set(low + high) <= set("0123456789,.") else " to "
        sign = " %" if self.unit in (Unit.SHARE, Unit.CASES) else ""
        return f" (range {low}{joint}{high}{sign}{', ' + group if group else ''})"

    @property
    def group(self) -> str:
        """What a range is over, and how many these are."""
        if not self.over or self.count is None:
            return self.over
        noun = self.over.removesuffix("s") if self.count == 1 else self.over
        return f"{number_word(self.count)} {noun}"

    def cases(self, in_prose: bool) -> str:
        """A share of trials: counted, where these are few."""
        trials = self.trials or 0
        hits = round(self.numbers.value * trials)
        counted = f"{hits:,} of {trials:,}"
        has_interval = self.ends is Bracket.INTERVAL
        if hits == 0 and has_interval:
            return f"{counted} (at most {_outward(100 * self.numbers.high, 1)} %)"
        if hits == trials and has_interval:
            return f"{counted} (at least {_outward(100 * self.numbers.low, -1)} %)"
        if hits in (0, trials):
            return counted
        share = f"{self.text(self.numbers.value)} %"
        bracket = self.bracketed() if has_interval else ""
        if trials > _COUNTED:
            return share + bracket
        return f"{counted} ({share})" if in_prose else f"{counted} ({share}{bracket})"

    @property
    def beside_chance(self) -> str:
        """A number, and how far chance leads."""
        value, low, high = self.numbers
        farthest = max(high - value, value - low)
        return f"{_two(value)}; chance stays below {_two(farthest)}"

    @property
    def none_at_all(self) -> str:
        """Zero, and what it may be at the most."""
        sign = " %" if self.unit in (Unit.SHARE, Unit.CASES) else ""
        most = _outward(self.numbers.high * self.per_cent, 1)
        return f"0{sign} (at most {most}{sign}{', ' + self.group if self.group else ''})"

    @property
    def safe_end(self) -> str:
        """The end of a range of factors that is nearest to 1, or both where 1 is between them."""
        _, low, high = self.numbers
        group = f" ({self.group})" if self.group else ""
        if low > 1:
            return f"at least {_outward(low, -1)} times{group}"
        if low >= 0 and high < 1:
            return f"at most {_outward(high, 1)} times{group}"
        return self.both_ends

    @property
    def both_ends(self) -> str:
        """A range of factors whose middle says little."""
        _, low, high = self.numbers
        group = f" ({self.group})" if self.group else ""
        return f"{_two(low)} to {_two(high)} times{group}"

    def directed(self, direction: tuple[str, str]) -> str:
        """A difference, with a word for its sign."""
        more, less = direction
        value, low, high = self.numbers
        word = more if value >= 0 else less
        size = self.text(abs(value))
        shown = self.with_unit(size) + (f" {word}" if size.strip("0.") else "")
        if not self.has_bracket:
            return shown
        one_sided = low >= 0 if value >= 0 else high <= 0
        if one_sided:
            least, most = sorted((abs(low), abs(high)))
            return shown + self.bracketed((self.text(least), self.text(most)))
        parts = [f"{self.text(abs(end))} {less if end < 0 else more}" for end in (low, high)]
        if self.ends is Bracket.INTERVAL:
            return f"{shown} [{parts[0]}, {parts[1]}]"
        group = f", {self.group}" if self.group else ""
        return f"{shown} (range {parts[0]} to {parts[1]}{group})"


def _not_finite(number: float) -> str:
    """A sign for an infinite number, a dash for none."""
    if math.isnan(number):
        return "–"
    return "∞" if number > 0 else "−∞"


def _power(number: float) -> int:
    """The power of ten of a number's first digit; 0 for 0."""
    return int(f"{abs(number):.12e}".partition("e")[2])


def _place_of(half: float) -> int:
    """The power of ten of half a bracket's last digit: the first one, or the next if that is 1."""
    half = min(half, sys.float_info.max)
    mantissa, _, power = f"{half:.6e}".partition("e")
    return int(power) - 1 if mantissa.startswith("1") else int(power)


def _place_of_two(number: float) -> int:
    """The power of ten of a number's second digit."""
    return int(f"{abs(number):.1e}".partition("e")[2]) - 1


def _rounded(number: float, place: int) -> float:
    """A number rounded to a power of ten; never −0."""
    try:
        return round(number, -place) + 0.0
    except OverflowError:  # upwards, beyond any float
        return number


def _digits(number: float, place: int) -> str:
    """A number, rounded to a power of ten, with separators; large and small ones as powers."""
    rounded = _rounded(number, place)
    if rounded == 0:
        return f"{0:.{-place}f}" if -_MOST <= place < 0 else "0"
    if abs(rounded) >= _LARGE or abs(rounded) < _SMALL:
        return _as_power(rounded, place)
    text = f"{rounded:,.{max(0, -place)}f}"
    return text.replace("-", "−")


def _whole(number: float, place: int) -> str:
    """A count, in words from a million on."""
    rounded = _rounded(number, place)
    if abs(rounded) < _LARGE or abs(rounded) >= 1e9:
        return _digits(number, place)
    if abs(rounded) < 1e6:
        return f"{rounded:,.0f}".replace("-", "−")
    decimals = 1 if place < 6 and abs(rounded) < 1e7 else 0
    millions = f"{rounded / 1e6:.{decimals}f}".removesuffix(".0")
    return f"{millions} million".replace("-", "−")


def _as_power(number: float, place: int) -> str:
    """A large or small number: ``10⁵``, ``3×10⁻⁴``."""
    power = _power(number)
    decimals = min(max(power - place, 0), _MOST)
    if abs(power) < _POWERS_OF_TEN:
        mantissa = f"{number / 10.0**power:.{decimals}f}".removesuffix(".0")
    else:
        mantissa, _, exponent = f"{number:.{decimals}e}".partition("e")
        mantissa, power = mantissa.removesuffix(".0"), int(exponent)
    ten = "10" + str(power).translate(_SUPERSCRIPTS)
    if mantissa in ("1", "-1"):
        return ten if mantissa == "1" else f"−{ten}"
    return f"{mantissa}×{ten}".replace("-", "−")


def _two(number: float) -> str:
    """A number with two digits; a whole one below 100 with as many as it has."""
    if not math.isfinite(number):
        return _not_finite(number)
    if number == round(number) and abs(number) < 100:
        return _digits(number, 0)
    return _digits(number, _place_of_two(number))


def _outward(number: float, way: int) -> str:
    """A bound with two digits, rounded up (1) or down (−1), so that it stays one."""
    if not math.isfinite(number):
        return _not_finite(number)
    place = _power(number) - 1
    unit = 10.0**place
    if unit == 0 or abs(number) > sys.float_info.max / 10:  # at the ends of the range of a float
        return _digits(number, place)
    steps = number / unit
    near = round(steps)
    if math.isclose(steps, near, rel_tol=1e-9):
        return _digits(near * unit, place)
    return _digits((math.ceil(steps) if way > 0 else math.floor(steps)) * unit, place)
