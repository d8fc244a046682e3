"""How numbers are printed: the convention case by case, and what holds for all numbers."""

import itertools
import math
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lwcore.printing import Bracket, Unit, printed

RANGE = {"bracket": "range"}


@pytest.mark.parametrize(
    ("numbers", "options", "expected"),
    [
        # a share is a percentage, whole; with a decimal only where small and well known
        ((0.256, 0.189, 0.303), {"unit": "share", **RANGE}, "26 % (range 19–30 %)"),
        # counts come first for few trials; nothing and all have a bound
        ((62 / 68, 0.82, 0.97), {"unit": "cases", "trials": 68}, "62 of 68 (91 % [82, 97])"),
        ((0.0, 0.0, 0.16843), {"unit": "cases", "trials": 20}, "0 of 20 (at most 17 %)"),
        # half the bracket has one digit, or two from a 1 on
        ((2.013, 1.402, 2.518), {"unit": "factor"}, "2.0 times [1.4, 2.5]"),
        # each number has a place of its own where the ends are several times each other
        ((12.0, 5.4, 53.9), {"unit": "factor", **RANGE}, "12 times (range 5–50)"),
        # an exponent has two decimals
        ((-0.0496, -0.647, 0.234), {"unit": "exponent", **RANGE}, "−0.05 (range −0.65 to 0.23)"),
        # factors: words, powers of ten, the safe end
        ((2.0,), {"unit": "factor", "form": "prose"}, "twice"),
        ((1059.0, 57.5, 2.8e11), {"unit": "factor", **RANGE}, "1,000 times (range 60 to 3×10¹¹)"),
        # a difference has a word for its sign
        ((5, -3, 64), {"unit": "steps", **RANGE, "direction": ("longer", "shorter"),
                       "over": "seeds", "count": 8},
         "5 steps longer (range 3 shorter to 64 longer, eight seeds)"),
        # what is left of an identity, chance, what a range is over
        ((2.68e-15,), {"unit": "rounding"}, "2.7×10⁻¹⁵"),
        # neither infinite nor missing
        ((20.0, 10.0, math.inf), {"unit": "count", **RANGE}, "20 (range 10 to ∞)"),
        # one number alone, and digits that tell it from a limit
        ((0.256, 0.189, 0.303), {"unit": "share", **RANGE, "form": "value"}, "26"),
        ((1.0004,), {"limits": (1.0,)}, "1.0004"),
        # the boundaries of the convention, on both sides
        ((3, 2, 6), {}, "3 [2, 6]"),  # three times each other: one place for all
        ((3, 2, 7), {}, "3.0 [2.0, 7]"),  # more: each number has its own
        ((20, 18.5, 21.5), {}, "20.0 [18.5, 21.5]"),  # half is 1.5
        ((1.23456, 1.23455, 1.23457), {}, "1.235"),
        ((0.0, -4e-5, 4e-5), {}, "0 [−4×10⁻⁵, 4×10⁻⁵]"),
        ((0.005,), {}, "0.0050"),
        ((0.0005,), {}, "5×10⁻⁴"),
        ((0.5, 0.4, 0.6), {"unit": "cases", "trials": 100}, "50 of 100 (50 % [40, 60])"),
        ((0.5, 0.4, 0.6), {"unit": "cases", "trials": 102}, "50 % [40, 60]"),
        ((1.0, 0.83157, 1.0), {"unit": "cases", "trials": 20}, "20 of 20 (at least 83 %)"),
        ((1.0, 0.29, 1.0), {"unit": "cases", "trials": 3}, "3 of 3 (at least 29 %)"),
        ((1.0,), {"unit": "cases", "trials": 20}, "20 of 20"),
        ((0.05, 0.038, 0.062), {"unit": "share", "trials": 301}, "5.0 % [3.8, 6.2]"),
        ((0.05, 0.038, 0.062), {"unit": "share", "trials": 300}, "5 % [4, 6]"),
        ((0.05, 0.042, 0.058), {"unit": "share"}, "5.0 % [4.2, 5.8]"),
        ((0.0, 0.0, 0.123), {"unit": "share"}, "0 % (at most 13 %)"),
        ((1.004,), {"unit": "share"}, "100 %"),
        ((0.998,), {"unit": "share"}, "over 99 %"),
        ((0.0, 0.0, 0.05), {"unit": "points"}, "0 points [0, 5]"),
        ((0.05, 0.0496, 0.0504), {"unit": "points"}, "5.0 points"),
        ((1.0,), {"unit": "factor"}, "1.0 times"),
        ((2.0,), {"unit": "factor"}, "2 times"),
        ((5, 1.6, 40), {"unit": "factor", **RANGE, "form": "prose"}, "5 times (range 2–40)"),
        ((10, 1, 87), {"unit": "factor", **RANGE, "form": "prose"}, "1 to 87 times"),
        ((0.1, 0.01, 1), {"unit": "factor", **RANGE, "form": "prose"}, "0.010 to 1 times"),
        ((0.1, 0.01, 0.512), {"unit": "factor", **RANGE, "form": "prose"}, "at most 0.52 times"),
        ((10, 0.5, 256), {"unit": "factor", **RANGE, "form": "prose"}, "0.50 to 260 times"),
        ((128, 64, 200), {"unit": "count"}, "130 [64, 200]"),
        ((128, 64, 180), {"unit": "count", **RANGE}, "128 (range 64–180)"),
        ((12345, 8000, 20000), {"unit": "count", **RANGE}, "12,000 (range 8,000–20,000)"),
        ((12.5, 11.0, 14.5), {"unit": "steps", **RANGE}, "12.5 steps (range 11.0–14.5)"),
        ((-20.0, -math.inf, -10.0), {"unit": "count", **RANGE}, "−20 (range −∞ to −10)"),
        ((-1.0,), {"unit": "steps"}, "−1 step"),
        ((2e9,), {"unit": "count"}, "2×10⁹"),
        ((-16, -32, 0), {"unit": "steps", **RANGE, "direction": ("longer", "shorter")},
         "16 steps shorter (range 0–32)"),
        ((5, 3, 9), {**RANGE, "over": "networks", "count": 1}, "5 (range 3–9, one network)"),
        ((7, 7, 7.0001), {**RANGE, "over": "networks", "count": 25}, "7.000 (all 25 networks)"),
        ((1e-5,), {"unit": "rounding", "form": "prose"}, "10⁻⁵"),
        ((1e-6,), {"unit": "rounding", "form": "prose"}, "to rounding"),
        ((0.0,), {"unit": "rounding", "form": "prose"}, "0"),
    ],
)  # fmt: skip
def test_the_convention_case_by_case(numbers, options, expected):
    assert printed(*map(float, numbers), **options) == expected


SIZES = st.floats(1e-9, 1e12) | st.floats(-1e12, -1e-9) | st.just(0.0) | st.just(-0.0)
TRIPLES = st.tuples(SIZES, SIZES, SIZES).map(lambda ends: (sorted(ends)[1], *sorted(ends)[::2]))
NUMERAL = re.compile(r"−?(?:\d[\d,.]*×)?10[⁰¹²³⁴-⁹⁻]+|−?\d[\d,]*(?:\.\d+)?")
DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


def read(text):
    """Read a printed number."""
    text = text.replace(",", "").replace("−", "-")
    mantissa, ten, power = text.partition("×10")
    if not ten and text.lstrip("-").startswith("10") and text[-1] in "⁰¹²³⁴⁵⁶⁷⁸⁹":
        sign = -1 if text.startswith("-") else 1
        return sign * 10.0 ** int(text.lstrip("-")[2:].translate(DIGITS))
    return float(mantissa) * (10.0 ** int(power.translate(DIGITS)) if ten else 1)


@given(TRIPLES)
def test_what_is_printed_of_an_interval_is_near_it(triple):
    """Each number is off by at most a tenth of half the bracket, taken on either scale."""
    value, low, high = triple
    assume(high - low > 1e-3 * max(abs(low), abs(high)))  # `_MOST` digits are enough
    assume(not value == low == 0)
    texts = NUMERAL.findall(printed(value, low, high))
    assert len(texts) == 3
    half = (high - low) / 2
    for number, text in zip(triple, texts, strict=True):
        scales = [half]
        if low > 0 and high > 3 * low:
            scales = [number * math.log(high / low)]
        tolerance = 0.51 * max(scales)
        assert read(text) == pytest.approx(number, abs=tolerance, rel=0.5 if low > 0 else 1e-9)


@given(st.floats(1e-6, 1e6), st.floats(31, 1e6))
def test_the_safe_end_of_a_wide_range_of_factors_is_safe(low, ratio):
    high = low * ratio
    middle = math.sqrt(low * high)
    text = printed(middle, low, high, unit="factor", bracket="range", form="prose")
    if low > 1:
        assert text.startswith("at least")
        assert read(NUMERAL.search(text)[0]) <= low * (1 + 1e-9)
    elif high < 1:
        assert text.startswith("at most")
        assert read(NUMERAL.search(text)[0]) >= high * (1 - 1e-9)
    else:
        assert " to " in text


@given(st.floats(1e-5, 1e5), st.floats(1e-5, 1e5))
def test_a_number_that_fails_a_limit_is_printed_beyond_it(number, limit):
    assume(abs(number / limit - 1) > 1e-6)
    shown = read(NUMERAL.search(printed(number, limits=(limit,)))[0])
    assert (shown < limit) == (number < limit) or shown == limit == pytest.approx(number, rel=1e-4)


ENDS = [0.0, 1e-300, 0.5, 1e300, math.inf]


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("bracket", Bracket)
def test_every_number_is_printed_in_every_form(unit, bracket):
    """Whatever its size: no intermediate leaves the range of a float."""
    ends = sorted(ENDS + [-end for end in ENDS])
    for low, high in itertools.combinations_with_replacement(ends, 2):
        for form in ("table", "prose", "ends", "value", "low", "high"):
            how = {"unit": unit, "bracket": bracket, "form": form, "over": "x"}
            assert printed(low, low, high, **how)
