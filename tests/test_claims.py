"""The ledger: rules and verdicts, claims as data, and what a chapter's cell gives."""

import csv
import importlib
import json
import math

import nbformat
import pytest
from pydantic import ValidationError

from book import claims
from book.claims import Measured, Verdict, estimate, exactly, ledger, over, share, throughout
from book.claims.claim import Claim, Reading
from lwcore.stats import binomial

REGISTRY = claims.registry()
SIX = ledger.Claims(ledger.ROOT / "book" / "claims" / "06_experiments.toml")
NAME = "diagonal-gate-sees-furthest-in-the-gradient"


def reading(**how):
    """Build a reading of which every number up to 0 is allowed, unless something else is said."""
    return {"quantity": "q", "at_most": 0, "unit": "number", "bracket": "interval"} | how


def claim(*readings, **more):
    """Build a claim."""
    common = {"id": "x", "paper": "livi", "kind": "theorem", "place": "Eq. (1)", "says": "It is."}
    return Claim.model_validate(common | {"readings": readings or [reading()]} | more)


def test_a_measurement_is_a_number_with_an_interval():
    for value, *interval in ((math.nan, 0, 1), (0, math.nan, 1), (0, 0, math.nan)):
        with pytest.raises(ValueError, match="no number with an interval"):
            estimate(value, interval)
    assert throughout([3, 1, 2]) == Measured(2, 1, 3, covers=1, n=3, cases=3)
    assert over([3, 1, 2, 2], units=2) == Measured(2, 1, 3, covers=0.5, n=2, cases=4)
    assert estimate(0, (1, 3)) == Measured(0, 0, 3)
    assert share(7, 20)[:3] == pytest.approx(list(map(float, binomial(7, 20))), rel=1e-6)
    assert share(7, 20)[3:] == (0.95, 20, None)


@pytest.mark.parametrize(
    ("rule", "measured", "expected"),
    [
        ({"at_most": 1}, Measured(1, 0, 1), True),
        ({"at_most": 1}, Measured(1, 0, 1.1), None),
        ({"at_most": 1}, Measured(2, 1.1, 3), False),
        ({"at_least": 1, "at_most": 2}, Measured(1.5, 0.9, 1.6), None),
        ({"at_most": 0}, over(range(1, 16), units=4), None),  # too little coverage
        ({"at_most": 0}, over(range(1, 16), units=5), False),
        ({"at_most": 0, "units": 6}, over(range(1, 16), units=5), None),  # a seed is missing
    ],
)
def test_a_rule_is_about_the_whole_interval(rule, measured, expected):
    assert Reading(quantity="q", unit="number", **rule).holds(measured) is expected


def test_the_first_reading_that_holds_gives_the_verdict():
    clauses = {"when": "if c"}, {"later": "d"}, {"instead": "e"}
    one = claim(reading(), *(reading(**clause) for clause in clauses))
    yes = exactly(0)
    no = exactly(1)
    open_ = Measured(0, -1, 1)
    assert one.judge([yes, no, no, yes]) is Verdict.HOLDS
    assert one.judge([no, yes, yes, yes]) is Verdict.CONDITION
    assert one.judge([open_, no, yes, yes]) is Verdict.LATER
    assert one.judge([no, no, open_, yes]) is Verdict.REFUTED
    assert one.judge([open_, no, no, yes]) is Verdict.OPEN
    one = claim(reading(), reading(mended="c"), reading(part="for d"))
    assert one.judge([no, yes, yes]) is Verdict.MISPRINT
    assert one.judge([no, no, yes]) is Verdict.PART
    one = claim(reading(), reading(instead="e"), reported=True)  # of the paper's own networks
    assert one.judge([no, yes]) is Verdict.OPEN
    assert one.judge([yes, yes]) is Verdict.HOLDS


@pytest.mark.parametrize(
    ("readings", "words"),
    [
        ([reading(when="if c")], "takes it to the letter"),
        ([reading(), reading(when="if c", part="for d")], "one clause at most"),
        ([reading(at_least=1)], "a rule that something meets"),
    ],
)
def test_a_claim_that_is_not_well_formed_is_refused(readings, words):
    with pytest.raises(ValidationError, match=words):
        claim(*readings)


def test_a_cell_gives_numbers_which_the_ledger_gathers_and_judges(tmp_path, monkeypatch):
    numbers = over([-3, 4, 5], units=5), over([1, 2, 6], units=5)
    facts = {"diagonal": 1, "constant": 2, "shared": 3}
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    SIX.judge(NAME, *numbers, **facts)
    [data] = json.loads(json.dumps(shown))
    assert f"{NAME}: true in a part" in data["text/plain"]
    cell = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("display_data", data)])
    [found] = ledger.gathered(nbformat.v4.new_notebook(cells=[cell]), "notebooks/x")
    assert found.measured == numbers
    assert (found.verdict, found.chapter) == (Verdict.PART, "notebooks/x")
    assert "1 steps in DiagGate, 2 in ConstGate" in found.counterexample
    ledger.write([found], tmp_path)
    assert ledger.read(tmp_path / "ledger.json") == {NAME: found}
    [row] = csv.DictReader((tmp_path / "ledger.csv").read_text(encoding="utf-8").splitlines())
    assert (row["verdict"], row["n"], row["low"]) == (Verdict.PART, "5", "1.0")


def test_the_numbers_in_a_claims_words_are_computed():
    words = {
        "counterexample": "Here it is {0}, at most {0.high:.1f}, there {far:.2g}.",
        "fair": "It is {{0}}, not {0.value:.0%}.",
    }
    outcome = ledger.Outcome(claim(**words), (Measured(2, 1, 3),), {"far": 0.125})
    assert outcome.counterexample == "Here it is 2.0 [1.0, 3.0], at most 3.0, there 0.12."
    assert outcome.fair == "It is {0}, not 200 %."
    outcome = ledger.Outcome(claim(), (over([-2, -1, -0.5], units=3),))
    assert "3 seeds" in outcome.why
    assert "75%" in outcome.why


def test_a_reading_prints_its_number_in_its_unit_with_its_bracket():
    power = Reading.model_validate(reading(unit="exponent", bracket="range", over="rows"))
    found = over([-0.65, -0.05, 0.23], units=6)
    assert power.printed(found, "thousandfold fall") == "0.20 to 89 times (three rows)"
    power.require_bracket(found)
    with pytest.raises(ValueError, match="must be what its cell gives, an interval"):
        power.require_bracket(share(1, 4))


def test_claims_can_fail_and_name_code_that_exists():
    for name, one in REGISTRY.items():
        for each in one.readings:  # a rule that allows everything could not fail
            assert math.isfinite(each.at_least) or math.isfinite(each.at_most), name
        for path in one.code:
            module, _, attribute = path.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), path
