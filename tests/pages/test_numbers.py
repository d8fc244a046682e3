"""The convention of numbers on the built pages: every bracket says what it is, shares are
percentages, no digit is finer than the bracket allows, and sentences say what an exponent does."""

import math
import re
from copy import copy

import pytest

from tests.built_book import DOCUMENTS, article

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")
POWER = r"10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+"
NUMERAL = rf"(?:[−-]?(?:\d[\d,]*(?:\.\d+)?×)?{POWER}|[−-]?\d[\d,]*(?:\.\d+)?)"
UNIT = r"(?: (?:%|times|points?|steps?|million))*(?: (?:longer|shorter|more|less))?"
# an interval and a range as they are printed, with what is before and in the bracket
INTERVAL = re.compile(rf"({NUMERAL}){UNIT} \[({NUMERAL}), ({NUMERAL})\]")
RANGE = re.compile(rf"({NUMERAL}){UNIT} \(range ({NUMERAL})(?:–| to )({NUMERAL})")
# a bracket with two ends behind a number, and no word for what they are
WITHOUT_KIND = re.compile(
    rf"{NUMERAL}(?:%|{UNIT}) ?\({NUMERAL} ?%? ?(?:–|to) ?{NUMERAL}(?: ?%)?\)|\d ± \d"
)
DECIMAL = rf"{NUMERAL}{UNIT} [(\[](?:range )?{NUMERAL}"
SHARE = re.compile(rf"share of (?=0\.\d)(?:{DECIMAL}|{NUMERAL})")
EXPONENT = re.compile(rf"(?:to the|as its|to a) power(?: of)? {NUMERAL}{UNIT} [(\[]")


def read(numeral):
    """Read a number as it is printed."""
    mantissa, ten, power = numeral.replace(",", "").rpartition("×")
    text = mantissa if ten else numeral.replace(",", "")
    if re.fullmatch(rf"[−-]?{POWER}", power):
        sign = -1 if power[0] in "−-" else 1
        exponent = int(power.lstrip("−-")[2:].translate(SUPERSCRIPTS))
        return (float(text.replace("−", "-")) if ten else sign) * 10.0**exponent
    return float(text.replace("−", "-"))


def place(numeral):
    """The power of ten of a printed number's last digit; of a whole one, of its last that is not
    0."""
    mantissa, times, power = numeral.replace(",", "").partition("×10")
    if not times and re.fullmatch(rf"[−-]?{POWER}", numeral):
        return int(numeral.lstrip("−-")[2:].translate(SUPERSCRIPTS))
    shift = int(power.translate(SUPERSCRIPTS)) if times else 0
    whole, _, decimals = mantissa.partition(".")
    if decimals:
        return shift - len(decimals)
    digits = whole.lstrip("−-")
    return shift + len(digits) - len(digits.rstrip("0")) if int(digits) else shift


def allowed(half):
    """The place of half a bracket's last digit: its first, or the next one if that is 1."""
    power = math.floor(math.log10(half) + 1e-9)
    return power - 1 if half / 10.0**power < 2 else power


def too_fine(value, low, high):
    """The numbers of a bracket, as printed, that have digits finer than half of it."""
    ends = read(low), read(high)
    half = abs(ends[1] - ends[0]) / 2
    if not half or all(place(one) >= 0 for one in (value, low, high)):
        return []  # whole numbers, and whole percentages, are no finer than what was counted
    found = []
    for text in (value, low, high):
        halves = [half]
        if min(ends) > 0 and ends[1] > 2.5 * ends[0]:  # on a logarithmic scale
            halves.append(abs(read(text)) * math.log(ends[1] / ends[0]) / 2)
        places = [allowed(one * 0.9) for one in halves]  # the ends were rounded themselves
        # an exponent has two decimals, and two digits are never too many
        mantissa = re.sub(r"×10.*|[^\d.]", "", text)
        if "." not in mantissa:
            mantissa = mantissa.rstrip("0")  # 690 has two
        digits = len(mantissa.replace(".", "").lstrip("0"))
        if place(text) < min(places) and digits > 2:
            found.append(text)
    return found


def faults(text):
    """What a text has against the convention, by rule."""
    brackets = [*INTERVAL.findall(text), *RANGE.findall(text)]
    return {
        "bracket without a kind": [found[0] for found in WITHOUT_KIND.finditer(text)],
        "share as a decimal": [found[0] for found in SHARE.finditer(text)],
        "digits finer than the bracket": [one for one in brackets if too_fine(*one)],
        "exponent in a sentence": [found[0] for found in EXPONENT.finditer(text)],
    }


def words(name):
    """The text of a page's article without code, formulas and lists of settings."""
    found = copy(article(name))
    for node in found.select(
        ".cell_input, .math, script, style, pre.literal-block, .highlight-python"
    ):
        if not node.find_parent(class_="cell_output"):
            node.decompose()
    return re.sub(r"[ \t\xa0]+", " ", found.get_text())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_numbers_follow_the_convention(name):
    assert {rule: found for rule, found in faults(words(name)).items() if found} == {}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("It is 0.52 (0.49 to 0.55) here.", "bracket without a kind"),
        ("It is 26 (26–27) here.", "bracket without a kind"),
        ("It is 22% (20% to 25%).", "bracket without a kind"),
        ("It is −16 (−32 to 0) steps.", "bracket without a kind"),
        ("It is 2.00 ± 0.03.", "bracket without a kind"),
        ("a share of 0.26 (range 0.19–0.30)", "share as a decimal"),
        ("a share of 0.35 [0.31, 0.39]", "share as a decimal"),
        ("It is 1.0385 [0.92, 1.20].", "digits finer than the bracket"),
        ("It is 2.013 times (range 1.402–2.518, five seeds).", "digits finer than the bracket"),
        ("the power −0.05 (range −0.65 to 0.23)", None),
        ("falls to the power −0.05 (range −0.65 to 0.23)", "exponent in a sentence"),
        ("It is 26 % (range 19–30 %, 25 networks).", None),
        ("It is 2.0 times [1.4, 2.5] and 62 of 68 (91 %).", None),
        ("It is 1,300 times [1,000, 1,900]; 0 of 20 (at most 17 %).", None),
        ("1,000 times (range 60 to 3×10¹¹), in Eqs. (34) to (36)", None),
        ("12 times (range 5–50, 25 networks)", None),
        ("16 steps shorter (range 0–32, eight seeds)", None),
    ],
)
def test_a_number_against_the_convention_would_be_found(text, rule):
    assert [name for name, found in faults(text).items() if found] == [rule] * bool(rule)
