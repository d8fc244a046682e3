"""The ledger: rules and verdicts, what is on record against what is measured now, and the papers'
statements against the registry."""

from __future__ import annotations

import importlib
import json
import math
import re

import numpy as np
import pytest
from ledger import reading_with
from scipy import stats

from book import claims
from book.claims import record
from book.claims.claim import (
    Chapter,
    Kind,
    Measured,
    Rule,
    Verdict,
    as_mended,
    as_stated,
    at_least,
    at_most,
    estimate,
    exactly,
    in_later_versions,
    in_part,
    over,
    rather,
    share,
    when,
    within,
)

REGISTRY = claims.registry()
RUNS = claims.Runs(record.FOLDER)
QUICK = [name for name, claim in REGISTRY.items() if not claim.slow]
ROUNDING = 1e-8  # below this a number is rounding, and differs from machine to machine


def chapter_with(*readings, **more):
    """The one claim of a new chapter, whose check returns what it is given."""
    chapter = Chapter("livi", Kind.THEOREM)
    chapter.claim("x", "Eq. (1)", "Something.", *readings, **more)(lambda: exactly(0))
    return chapter.claims[0]


@pytest.mark.parametrize("numbers", [(math.nan, 0, 1), (0, 1, 2), (0, -2, -1), (0, math.nan, 1)])
def test_a_measurement_is_a_number_inside_its_interval(numbers):
    with pytest.raises(ValueError, match="inside its interval"):
        Measured(*numbers)


def test_measurements_of_several_kinds():
    assert over([3, 1, 2]) == Measured(2, 1, 3)
    assert estimate(2, (1, 3)) == Measured(2, 1, 3)
    assert estimate(0, (1, 3)) == Measured(0, 0, 3)
    found = share(7, 20)
    assert found.value == 0.35
    np.testing.assert_allclose(
        [found.low, found.high],
        [stats.beta.ppf(0.025, 7, 14), stats.beta.ppf(0.975, 8, 13)],
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    ("rule", "measured", "expected"),
    [
        (at_most(1), Measured(1, 0, 1), True),
        (at_most(1), Measured(1, 0, 1.1), None),
        (at_most(1), Measured(2, 1.1, 3), False),
        (at_least(1), Measured(2, 1, 3), True),
        (at_least(1), Measured(0, 0, 0.9), False),
        (within(1, 2), Measured(1.5, 0.9, 1.6), None),
        (within(1, 2), Measured(1.5, 1, 2), True),
        (within(1, 2), Measured(3, 2.5, math.inf), False),
    ],
)
def test_a_rule_is_about_the_whole_interval(rule, measured, expected):
    assert rule.holds(measured) is expected


def test_the_first_reading_that_holds_gives_the_verdict():
    claim = chapter_with(
        as_stated("q", at_most(0)),
        when("if c", "q", at_most(0)),
        in_later_versions("d", "q", at_most(0)),
        rather("e", "q", at_most(0)),
    )
    yes, no, open_ = exactly(0), exactly(1), Measured(0, -1, 1)
    assert claim.judge([yes, no, no, yes]) is Verdict.HOLDS
    assert claim.judge([no, yes, yes, yes]) is Verdict.CONDITION
    assert claim.judge([open_, no, yes, yes]) is Verdict.LATER
    assert claim.judge([no, no, no, yes]) is Verdict.REFUTED
    assert claim.judge([no, no, open_, yes]) is Verdict.REFUTED
    assert claim.judge([open_, no, no, yes]) is Verdict.OPEN
    claim = chapter_with(
        as_stated("q", at_most(0)),
        as_mended("c", "q", at_most(0)),
        in_part("for d", "q", at_most(0)),
    )
    assert claim.judge([no, yes, yes]) is Verdict.MISPRINT
    assert claim.judge([no, no, yes]) is Verdict.PART
    assert claim.judge([no, open_, no]) is Verdict.REFUTED


def test_an_interval_of_little_coverage_gives_no_verdict(tmp_path):
    claim = chapter_with(as_stated("q", at_most(0)))
    wide = estimate(-1, (-2, -0.5), covers=0.75)
    assert claim.judge([estimate(-1, (-2, -0.5))]) is Verdict.HOLDS
    assert claim.judge([wide]) is Verdict.OPEN
    assert claim.judge([estimate(1, (0.5, 2), covers=0.75)]) is Verdict.OPEN
    record.record([record.Outcome(claim, (wide,), 0.0)], tmp_path)
    again = record.outcomes([claim], tmp_path)["x"]
    assert again.measured == (wide,)
    assert "75%" in again.why


def test_what_is_not_a_papers_is_not_counted():
    for paper, kind in (
        ("livi", Kind.THEOREM),
        ("cayci", Kind.NETWORK),
        ("code", Kind.NETWORK),
        ("ours", Kind.NETWORK),
    ):
        claim = chapter_with(as_stated("q", at_most(0)), paper=paper, kind=kind)
        found = record.counts_by_kind({"x": record.Outcome(claim, (exactly(0),), 0.0)})
        assert sum(sum(row.values()) for row in found.values()) == (paper in ("livi", "cayci"))
        assert found[kind][Verdict.HOLDS] == (paper in ("livi", "cayci"))


def test_what_the_paper_reports_of_its_own_networks_is_not_refuted_by_ours():
    claim = chapter_with(as_stated("q", at_most(0)), rather("e", "q", at_least(1)), reported=True)
    assert claim.judge([exactly(1), exactly(1)]) is Verdict.OPEN
    assert claim.judge([exactly(0), exactly(1)]) is Verdict.HOLDS
    assert claim.judge([Measured(0, -1, 1), exactly(1)]) is Verdict.OPEN


def test_a_claim_may_be_ours():
    assert chapter_with(as_stated("q", at_most(0)), paper="ours").paper == "ours"


def test_a_claim_begins_with_what_the_paper_says():
    with pytest.raises(ValueError, match="first reading"):
        chapter_with(when("if c", "q", at_most(0)))
    with pytest.raises(ValueError, match="2 readings"):
        chapter_with(as_stated("q", at_most(0)), when("if c", "q", at_most(0))).measure(RUNS)


def test_what_was_measured_is_stored_and_judged_when_read(tmp_path):
    claim = chapter_with(as_stated("q", at_most(0)))
    with pytest.raises(FileNotFoundError, match="no ledger"):
        record.outcomes([claim], tmp_path)
    record.record([record.measure(claim, RUNS)], tmp_path)
    assert record.outcomes([claim], tmp_path)["x"].verdict is Verdict.HOLDS
    text = (tmp_path / record.NAME).read_text()
    # numbers are on record, verdicts are not
    assert not any(verdict in text for verdict in Verdict)
    entries = json.loads(text)
    entries["claims"]["x"]["measured"] = [[1, 1, 1]]
    (tmp_path / record.NAME).write_text(json.dumps(entries))
    assert record.outcomes([claim], tmp_path)["x"].verdict is Verdict.REFUTED
    with pytest.raises(ValueError, match="has not been measured as it reads now"):
        record.outcomes(
            [chapter_with(as_stated("q", at_most(0)), when("if c", "q", at_most(0)))], tmp_path
        )
    (tmp_path / record.NAME).write_text("{")
    with pytest.raises(ValueError, match="not a ledger"):
        record.outcomes([claim], tmp_path)


def test_the_numbers_in_a_claims_words_are_computed(tmp_path):
    chapter = Chapter("livi", Kind.THEOREM)
    words = {
        "counterexample": "Here it is {0}, at most {0.high:.1f}, there {far:.2g}.",
        "fair": "It is {{0}}, not {0.value:.0%}.",
    }
    chapter.claim("x", "Eq. (1)", "Something.", as_stated("q", at_most(0)), **words)(
        lambda: (Measured(2, 1, 3), {"far": 0.125})
    )
    record.record([record.measure(chapter.claims[0], RUNS)], tmp_path)
    outcome = record.outcomes(chapter.claims, tmp_path)["x"]
    assert outcome.counterexample == "Here it is 2 (1 to 3), at most 3.0, there 0.12."
    assert outcome.fair == "It is {0}, not 200%."
    assert outcome.counterexample in record.in_full(outcome)


def test_the_ledger_has_a_row_for_each_claim():
    assert len(claims.ledger()) == len(REGISTRY)


def test_a_claim_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="id = 'nonsense'"):
        claims.check("nonsense")


def test_a_number_in_prose_is_that_of_the_reading_with_its_words():
    readings = (as_stated("share of all", Rule()), when("for some", "share of some", Rule()))
    one, other = (
        claims.Claim("x", "livi", Kind.THEOREM, "Eq. (1)", "It is.", order, lambda: None)
        for order in (readings, readings[::-1])
    )
    assert reading_with("of all", one) == reading_with("for some", other) == 0
    assert reading_with("for some", one) == reading_with("of all", other) == 1
    for words in ("", "share", "of none"):
        with pytest.raises(ValueError, match="readings have these words"):
            reading_with(words, one)
    with pytest.raises(ValueError, match="no such claim"):
        reading_with("of all", None)
    assert (
        reading_with(
            "",
            claims.Claim(
                "x", "livi", Kind.THEOREM, "Eq. (1)", "It is.", readings[:1], lambda: None
            ),
        )
        == 0
    )


@pytest.mark.parametrize("name", REGISTRY)
def test_a_claim_is_complete(name):
    claim = REGISTRY[name]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert claim.says.endswith(".")
    assert claim.place
    assert claim.readings
    for reading in claim.readings:
        assert reading.rule != Rule()  # a rule that allows everything could not fail
        assert bool(reading.condition) == (reading.gives is not Verdict.HOLDS)
    for path in claim.code:
        module, _, attribute = path.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), path


@pytest.mark.parametrize("name", REGISTRY)
def test_a_refuted_claim_says_what_does_hold(name):
    outcome = record.outcomes([REGISTRY[name]])[name]
    claim, words = outcome.claim, (outcome.counterexample, outcome.fair)
    if outcome.verdict in (Verdict.REFUTED, Verdict.MISPRINT):
        assert all(words)
    if outcome.verdict is Verdict.REFUTED:
        held = [
            reading.rule.holds(one)
            for reading, one in zip(claim.readings, outcome.measured, strict=True)
            if reading.gives is Verdict.REFUTED
        ]
        assert any(held), "nothing is measured to hold instead"
        assert all(held), "what is said to hold instead does not"


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_quick_claim_measured_now_is_as_recorded(name):
    claim = REGISTRY[name]
    was = record.outcomes([claim])[name]
    now = record.measure(claim, RUNS)
    assert now.verdict == was.verdict
    assert now.facts == pytest.approx(was.facts, rel=1e-2, abs=ROUNDING)
    for reading, before, after in zip(claim.readings, was.measured, now.measured, strict=True):
        assert reading.rule.holds(before) == reading.rule.holds(after), reading.quantity
        numbers = np.array([[one.value, one.low, one.high] for one in (before, after)])
        if np.abs(numbers).max() > ROUNDING:
            np.testing.assert_allclose(numbers[1], numbers[0], rtol=1e-2, err_msg=reading.quantity)


def test_nothing_else_is_on_record():
    assert set(json.loads((record.FOLDER / record.NAME).read_text())["claims"]) == set(REGISTRY)
