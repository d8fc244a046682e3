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
from enum import StrEnum
from typing import Any, NamedTuple

from lwcore.signatures import floats, require

_WIDE = 3.0  # ends of a bracket that are this many times each other: a logarithmic scale
_UNSAFE = 30.0  # beyond it a sentence has no middle of a range of factors, but its safe end
_ROUNDING = 1e-6  # the most that rounding leaves of an identity
_LARGE = 10_000.0  # from here on a power of ten
_SMALL = 0.001  # below it, too
_COUNTED = 100  # trials up to which a share is a count
_FINE = 300  # trials above which a share below 10 % has a decimal
_MOST = 3  # places behind the first digit that even the narrowest bracket gives
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


class Unit(StrEnum):
    """What a number counts or measures."""

    SHARE = "share"  #: a part of a whole, printed as a percentage
    CASES = "cases"  #: the share of counted trials in which something happened
    HITS = "hits"  #: the number of counted trials in which something happened
    POINTS = "points"  #: a difference of two shares
    FACTOR = "factor"  #: one thing over another
    EXPONENT = "exponent"  #: a power, or a slope between logarithms
    COUNT = "count"  #: whole things, as sequences or networks
    STEPS = "steps"  #: time steps, or steps of training
    CORRELATION = "correlation"  #: between −1 and 1
    NUMBER = "number"  #: R², anything without a unit
    ROUNDING = "rounding"  #: what is left of an identity


class Bracket(StrEnum):
    """What the two ends beside a value are."""

    NONE = "none"  #: there are none, as of a maximum or an exact number
    INTERVAL = "interval"  #: of 95 %
    RANGE = "range"  #: least and largest


class Numbers(NamedTuple):
    """A value with the two ends of its bracket."""

    value: float
    low: float
    high: float


_SHARES = (Unit.SHARE, Unit.CASES)
_IN_PER_CENT = (*_SHARES, Unit.POINTS)
_WHOLE = (Unit.COUNT, Unit.STEPS)
_NEVER_LOGARITHMIC = (*_IN_PER_CENT, Unit.EXPONENT, Unit.CORRELATION)
_FORMS = ("prose", "ends", "table", "value", "low", "high")


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
        low: The lower end of the bracket, `high` the upper; without ends the number is alone.
        unit: One of `Unit`. A share is given as a fraction and printed in per cent.
        bracket: One of `Bracket`: what the ends are.
        over: What a range is over, in the plural ("networks"), of which there are `count`.
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
    value = _single("value", value)
    lower = value if low is None else _single("low", low)
    upper = value if high is None else _single("high", high)
    numbers = Numbers(value, lower, upper)
    if lower > upper:
        raise ValueError(f"low, high = {low}, {high}: must be in order.")
    if form not in _FORMS:
        raise ValueError(f"form = {form!r}: must be one of {', '.join(_FORMS)}.")
    unit = Unit(unit)
    bracket = Bracket(bracket)
    is_one_of_three = form in ("value", "low", "high")
    if is_one_of_three or lower == upper or any(map(math.isnan, numbers)):
        bracket = Bracket.NONE
    noun = over.removesuffix("s") if count == 1 else over
    group = over if not over or count is None else f"{number_word(count)} {noun}"
    number = _Number(numbers, unit, bracket, group, trials, () if is_one_of_three else limits)
    if math.isnan(value):
        return "–"
    if is_one_of_three:
        return number.text(getattr(numbers, form))
    if unit is Unit.CASES and trials is not None:
        return number.cases(trials, form)
    if unit is Unit.HITS and trials is not None:
        return f"{value:,.0f} of {trials:,}"
    if unit is Unit.ROUNDING and form != "table" and 0 < abs(value) <= _ROUNDING:
        return "to rounding"
    if direction is not None:
        return number.directed(*direction)
    if bracket is Bracket.NONE:
        is_twice = unit is Unit.FACTOR and form != "table" and value == 2
        return "twice" if is_twice else number.with_unit(number.text(value))
    if value == lower == 0 and unit not in (Unit.POINTS, Unit.EXPONENT):
        most = _outward(upper * number.per_cent, 1)
        return f"0{number.sign} (at most {most}{number.sign}{number.comma_and_group})"
    is_range_of_factors = unit is Unit.FACTOR and bracket is Bracket.RANGE
    if is_range_of_factors and form != "table" and number.spans_much:
        return number.both_ends() if form == "ends" else number.safe_end()
    return number.with_unit(number.text(value)) + number.bracketed(lower, upper)


def number_word(count: int) -> str:
    """Write a whole number up to ten as a word, a larger one in digits, zero as "no"."""
    return _WORDS[count] if count < len(_WORDS) else f"{count:,}"


def _single(name: str, value: Any) -> float:
    """Return a number that was given, of whatever type, as a float."""
    array = floats(name, value)
    require(name, value, array.ndim == 0, "one number")
    return float(array)


class _Number:
    """A number that is being printed, with its ends, its unit and what they are over.

    `place` says at which power of ten a number is rounded, the methods after it what is written
    around the digits. `printed` chooses among these.
    """

    def __init__(
        self,
        numbers: Numbers,
        unit: Unit,
        bracket: Bracket,
        group: str,
        trials: int | None,
        limits: tuple[float, ...],
    ) -> None:
        """Take what is printed; `group` is what a range is over, "25 networks"."""
        self.numbers = numbers
        self.unit = unit
        self.bracket = bracket
        self.group = group
        self.trials = trials
        self.limits = limits
        self.has_bracket = bracket is not Bracket.NONE
        self.per_cent = 100.0 if unit in _IN_PER_CENT else 1.0
        self.sign = " %" if unit in _SHARES else ""
        self.comma_and_group = f", {group}" if group else ""

    @property
    def spans_much(self) -> bool:
        """Whether the ends are more than a factor of 30 from each other, or on both sides of 0.

        The middle of such a range says little in a sentence.
        """
        return self.numbers.low <= 0 or self.numbers.high > _UNSAFE * self.numbers.low

    # Which digits are printed

    def text(self, number: float) -> str:
        """Print one of the three numbers, to the place that the bracket gives it.

        A share next to 0 or 100 % is not printed as one of these: "below 1", "over 99".
        """
        if not math.isfinite(number):
            return _not_finite(number)
        size = number * self.per_cent
        place = self.place(number)
        is_lone_share = self.unit is Unit.SHARE and not self.has_bracket
        if is_lone_share and 0 < size < 100 and _rounded(size, place) in (0.0, 100.0):
            return "below 1" if size < 50 else "over 99"
        return _whole(size, place) if self.unit in _WHOLE else _digits(size, place)

    def place(self, number: float) -> int:
        """Return the power of ten of the last digit that is printed.

        Half the bracket gets one significant digit, two if the first is 1. On the logarithmic scale
        half a bracket is a share of the number itself, so that each number has its own place.
        """
        if not self.has_bracket:
            return self.place_alone(number)
        _, low, high = self.numbers
        if math.isinf(low) or math.isinf(high):
            place = _place_of_two(number * self.per_cent)
        elif self.is_logarithmic:
            width = math.log(high) - math.log(low)
            place = _place_of(abs(number) * width / 2)
            place = min(place, _power(number))  # one digit at least
        else:
            half = (high - low) / 2
            largest = max(abs(one) for one in self.numbers if math.isfinite(one))
            place = _place_of(half * self.per_cent)
            place = max(place, _power(largest * self.per_cent) - _MOST)
        return self.bounded(place, number)

    @property
    def is_logarithmic(self) -> bool:
        """Whether half the bracket is taken on the logarithmic scale."""
        _, low, high = self.numbers
        return low > 0 and high > _WIDE * low and self.unit not in _NEVER_LOGARITHMIC

    def place_alone(self, number: float) -> int:
        """Return the place without a bracket: two digits, more where these hide a limit.

        What was to be below 0.05 and is 0.0496 is printed so, not as "0.05".
        """
        size = number * self.per_cent
        if size == round(size) and abs(size) < _LARGE:
            return 0
        place = _place_of_two(size)
        if self.unit in _SHARES:
            place = max(place, 0)
        last = place - 7
        while place > last and not self.is_told_from_limits(size, place):
            place -= 1
        return place

    def is_told_from_limits(self, size: float, place: int) -> bool:
        """Tell whether what is printed is on the same side of every limit as the number."""
        rounded = _rounded(size, place)
        for limit in self.limits:
            if not math.isfinite(limit):
                continue
            bound = limit * self.per_cent
            if (rounded < bound) != (size < bound) or (rounded > bound) != (size > bound):
                return False
        return True

    def bounded(self, place: int, number: float) -> int:
        """Bound a place by what the unit asks for: whole per cent, two decimals of an exponent."""
        if self.unit in _SHARES:
            least = -1 if self.has_a_decimal else 0
            return max(min(place, 0), least)
        if self.unit is Unit.POINTS:
            return max(min(place, 0), -1)
        if self.unit is Unit.EXPONENT:
            return max(min(place, _place_of_two(number)), -2)
        if self.unit not in _WHOLE:
            return place
        if self.bracket is Bracket.RANGE and place <= 2:
            # these were observed, and 128 steps are no 130; but what was averaged keeps its place
            are_whole = all(math.isinf(one) or one == round(one) for one in self.numbers)
            return 0 if are_whole or place >= 0 else place
        return min(place, _power(number) - 1) if place >= 0 else place

    @property
    def has_a_decimal(self) -> bool:
        """Whether a share is small and known well: from many trials, or by its interval."""
        half = (self.numbers.high - self.numbers.low) / 2
        has_many_trials = (self.trials or 0) > _FINE
        has_narrow_interval = self.bracket is Bracket.INTERVAL and half < 0.01
        return abs(self.numbers.value) < 0.1 and (has_many_trials or has_narrow_interval)

    # What is written around them

    def with_unit(self, text: str) -> str:
        """Put the unit behind a number: "26 %", "1 step", "2 times", or nothing."""
        if self.unit in _SHARES:
            return text + self.sign
        if self.unit is Unit.FACTOR:
            is_alone = text == "1" and not self.has_bracket
            return f"{'1.0' if is_alone else text} times"
        if self.unit not in (Unit.POINTS, Unit.STEPS):
            return text
        word = self.unit.removesuffix("s") if text in ("1", "−1") else self.unit
        return f"{text} {word}"

    def bracketed(self, low: float, high: float) -> str:
        """Print two ends in the bracket, and what it is over: "(range 19–30 %, 25 networks)".

        An interval whose ends read like the value says nothing and is left out; a range whose ends
        read alike becomes "(all 25 networks)".
        """
        lower = self.text(low)
        upper = self.text(high)
        if self.bracket is Bracket.INTERVAL:
            says_nothing = lower == upper == self.text(self.numbers.value)
            return "" if says_nothing else f" [{lower}, {upper}]"
        if lower == upper:
            return f" (all {self.group})" if self.group else ""
        are_plain = set(lower + upper) <= set("0123456789,.")
        joint = "–" if are_plain else " to "
        return f" (range {lower}{joint}{upper}{self.sign}{self.comma_and_group})"

    def cases(self, trials: int, form: str) -> str:
        """Print a share of trials: counted, where these are few.

        "62 of 68 (91 %)" up to a hundred trials, "91 %" above. Where all or no trials hit, a share
        is no news: what counts is its other end, "0 of 20 (at most 17 %)".
        """
        hits = round(self.numbers.value * trials)
        counted = f"{hits:,} of {trials:,}"
        has_interval = self.bracket is Bracket.INTERVAL
        if hits == 0 and has_interval:
            return f"{counted} (at most {_outward(100 * self.numbers.high, 1)} %)"
        if hits == trials and has_interval:
            return f"{counted} (at least {_outward(100 * self.numbers.low, -1)} %)"
        if hits in (0, trials):
            return counted
        share = self.with_unit(self.text(self.numbers.value))
        interval = self.bracketed(*self.numbers[1:]) if has_interval else ""
        if trials > _COUNTED:
            return share + interval
        return f"{counted} ({share})" if form != "table" else f"{counted} ({share}{interval})"

    def safe_end(self) -> str:
        """Print the end of a range of factors that is nearest to 1: "at least 58 times".

        Where 1 is between the ends, neither is safe, and both are printed.
        """
        _, low, high = self.numbers
        group = f" ({self.group})" if self.group else ""
        if low > 1:
            return f"at least {_outward(low, -1)} times{group}"
        if low >= 0 and high < 1:
            return f"at most {_outward(high, 1)} times{group}"
        return self.both_ends()

    def both_ends(self) -> str:
        """Print a range of factors whose middle says little: "0.50 to 87 times"."""
        _, low, high = self.numbers
        group = f" ({self.group})" if self.group else ""
        return f"{_two(low)} to {_two(high)} times{group}"

    def directed(self, more: str, less: str) -> str:
        """Print a difference, with a word for its sign instead of the sign.

        "16 steps shorter (range 0–32)": where both ends have the sign of the value, one word does
        for all three; else each end has its own.
        """
        value, low, high = self.numbers
        size = self.text(abs(value))
        shown = self.with_unit(size)
        is_zero = not size.strip("0.")
        if not is_zero:
            shown += f" {more if value >= 0 else less}"
        if not self.has_bracket:
            return shown
        is_one_sided = low >= 0 if value >= 0 else high <= 0
        if is_one_sided:
            least, most = sorted((abs(low), abs(high)))
            return shown + self.bracketed(least, most)
        lower = f"{self.text(abs(low))} {less if low < 0 else more}"
        upper = f"{self.text(abs(high))} {less if high < 0 else more}"
        if self.bracket is Bracket.INTERVAL:
            return f"{shown} [{lower}, {upper}]"
        return f"{shown} (range {lower} to {upper}{self.comma_and_group})"


def _not_finite(number: float) -> str:
    """Return a sign for an infinite number, a dash for none."""
    if math.isnan(number):
        return "–"
    return "∞" if number > 0 else "−∞"


def _exponent(number: float, decimals: int) -> int:
    """Return the power of ten of a number's first digit, after rounding to some decimals of it."""
    return int(f"{abs(number):.{decimals}e}".partition("e")[2])


def _power(number: float) -> int:
    """Return the power of ten of a number's first digit: 2 for 128, −1 for 0.3, 0 for 0."""
    return _exponent(number, 12)


def _place_of(half: float) -> int:
    """Return the place of half a bracket's last digit: of the first, or the next if that is 1."""
    first_digit = f"{half:.6e}"[0]
    return _exponent(half, 6) - (first_digit == "1")


def _place_of_two(number: float) -> int:
    """Return the power of ten of a number's second digit."""
    return _exponent(number, 1) - 1


def _rounded(number: float, place: int) -> float:
    """Round a number to a power of ten; never to −0."""
    return round(number, -place) + 0.0


def _digits(number: float, place: int) -> str:
    """Print a number, rounded to a power of ten; large and small ones as powers."""
    rounded = _rounded(number, place)
    if rounded == 0:
        return f"{0:.{-place}f}" if -_MOST <= place < 0 else "0"
    if abs(rounded) >= _LARGE or abs(rounded) < _SMALL:
        return _as_power(rounded, place)
    decimals = max(0, -place)
    return f"{rounded:,.{decimals}f}".replace("-", "−")


def _whole(number: float, place: int) -> str:
    """Print a count, in words from a million on: "640", "12,000", "1.5 million"."""
    rounded = _rounded(number, place)
    size = abs(rounded)
    if size < _LARGE or size >= 1e9:
        return _digits(number, place)
    if size < 1e6:
        return f"{rounded:,.0f}".replace("-", "−")
    decimals = 1 if place < 6 and size < 1e7 else 0
    millions = f"{rounded / 1e6:.{decimals}f}".removesuffix(".0")
    return f"{millions} million".replace("-", "−")


def _as_power(number: float, place: int) -> str:
    """Print a large or small number: ``10⁵``, ``3×10⁻⁴``."""
    decimals = min(max(_power(number) - place, 0), _MOST)
    mantissa, _, exponent = f"{number:.{decimals}e}".partition("e")
    mantissa = mantissa.removesuffix(".0").replace("-", "−")
    ten = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    if mantissa in ("1", "−1"):
        return mantissa.replace("1", ten)
    return f"{mantissa}×{ten}"


def _two(number: float) -> str:
    """Print a number with two digits; a whole one below 100 with as many as it has."""
    if not math.isfinite(number):
        return _not_finite(number)
    is_short = number == round(number) and abs(number) < 100
    return _digits(number, 0 if is_short else _place_of_two(number))


def _outward(number: float, way: int) -> str:
    """Print a bound with two digits, rounded up (1) or down (−1), so that it stays one."""
    if not math.isfinite(number):
        return _not_finite(number)
    place = _power(number) - 1
    unit = 10.0**place
    steps = number / unit
    nearest = round(steps)
    if not math.isclose(steps, nearest, rel_tol=1e-9):
        nearest = math.ceil(steps) if way > 0 else math.floor(steps)
    return _digits(nearest * unit, place)


def legible(text: str) -> str:
    """Return a text that standard output can write; of other signs it has the numbers."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def write_legibly(stream: Any) -> None:
    """Let a stream write any text, with the numbers of those signs that it lacks."""
    if hasattr(stream, "reconfigure"):  # not of a notebook, whose pages have all signs
        stream.reconfigure(errors="backslashreplace")
