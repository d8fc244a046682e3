"""The ledger: rules and verdicts, claims as data, and what a chapter's cell gives."""

import csv
import importlib
import json
import math
from types import SimpleNamespace

import nbformat
import pytest
from docutils import nodes
from docutils.utils import new_document
from ledger import ClaimRole, badge, fill_in, measured, reading_with
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
    assert estimate(2, (1, 3)) == Measured(2, 1, 3)
    assert estimate(0, (1, 3)) == Measured(0, 0, 3)
    assert share(7, 20)[:3] == pytest.approx(list(map(float, binomial(7, 20))), rel=1e-6)
    assert share(7, 20)[3:] == (0.95, 20, None)


@pytest.mark.parametrize(
    ("rule", "measured", "expected"),
    [
        ({"at_most": 1}, Measured(1, 0, 1), True),
        ({"at_most": 1}, Measured(1, 0, 1.1), None),
        ({"at_most": 1}, Measured(2, 1.1, 3), False),
        ({"at_least": 1}, Measured(2, 1, 3), True),
        ({"at_least": 1}, Measured(0, 0, 0.9), False),
        ({"at_least": 1, "at_most": 2}, Measured(1.5, 0.9, 1.6), None),
        ({"at_least": 1, "at_most": 2}, Measured(3, 2.5, math.inf), False),
        ({"at_most": 0}, over(range(1, 16), units=4), None),  # too little coverage
        ({"at_most": 0}, over(range(1, 16), units=5), False),
        ({"at_most": 0, "units": 6}, over(range(1, 16), units=5), None),  # a seed is missing
        ({"at_most": 0, "units": 6}, over(range(1, 16), units=6), False),
    ],
)
def test_a_rule_is_about_the_whole_interval(rule, measured, expected):
    assert Reading(quantity="q", unit="number", **rule).holds(measured) is expected


def test_the_first_reading_that_holds_gives_the_verdict():
    clauses = {"when": "if c"}, {"later": "d"}, {"instead": "e"}
    one = claim(reading(), *(reading(**clause) for clause in clauses))
    yes, no, open_ = exactly(0), exactly(1), Measured(0, -1, 1)
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
    ("wrong", "words"),
    [
        ({"readings": [reading(when="if c")]}, "takes it to the letter"),
        ({"readings": [reading(), reading(when="if c", part="for d")]}, "one clause at most"),
        ({"readings": [reading(at_least=1)]}, "a rule that something meets"),
        ({"readings": [reading(atmost=1)]}, "atmost"),
    ],
)
def test_a_claim_that_is_not_well_formed_is_refused(wrong, words):
    with pytest.raises((ValidationError, KeyError), match=words):
        claim(**wrong)


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


def test_numbers_that_do_not_fit_a_claim_and_a_damaged_ledger_are_refused(tmp_path):
    with pytest.raises(ValueError, match="name = 'nonsense': must be one of"):
        SIX.judge("nonsense", exactly(0))
    with pytest.raises(ValueError, match="2, one for each reading"):
        SIX.judge(NAME, exactly(0))
    with pytest.raises(FileNotFoundError, match="make book"):
        ledger.read(tmp_path / "ledger.json")
    (tmp_path / "ledger.json").write_text('[{"id": "nonsense"}]')
    with pytest.raises(ValueError, match="not a ledger"):
        ledger.read(tmp_path / "ledger.json")


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


def test_a_number_in_prose_is_that_of_the_reading_with_its_words():
    one = claim(reading(quantity="of all"), reading(when="for some", quantity="of some"))
    assert reading_with("of all", one) == 0
    assert reading_with("for some", one) == 1
    assert reading_with("", claim()) == 0
    longer = claim(reading(quantity="of all"), reading(when="late", quantity="of all, late"))
    assert reading_with("of all", longer) == 0
    for words in ("", "of none"):
        with pytest.raises(ValueError, match="readings have these words"):
            reading_with(words, one)
    with pytest.raises(ValueError, match="no such claim"):
        reading_with("of all", None)


def test_a_reading_prints_its_number_in_its_unit_with_its_bracket():
    cells = Reading.model_validate(reading(unit="share", bracket="range", over="cells"))
    assert cells.printed(over([0.2, 0.3, 0.4, 0.3], units=2)) == "30 % (range 20–40 %, four cells)"
    seeds = cells.model_copy(update={"over": "seeds"})
    assert seeds.printed(over([0.2, 0.3, 0.4, 0.3], units=2)) == "30 % (range 20–40 %, two seeds)"
    cases = Reading.model_validate(reading(unit="cases", at_most=0.05))
    assert cases.printed(share(17, 27), "prose") == "17 of 27 (63 %)"
    assert cases.rule == "≤ 5 %"
    failures = Reading.model_validate(reading(unit="cases", times=0.2, at_most=1))
    assert failures.printed(estimate(0, (0, 0.842), n=20)) == "0 of 20 (at most 17 %)"
    assert failures.rule == "≤ 20 %"
    rounding = Reading.model_validate(reading(unit="rounding", at_most=1e-10))
    assert rounding.printed(exactly(2.7e-15), "prose") == "to rounding"
    assert rounding.rule == "≤ 10⁻¹⁰"
    assert Reading(quantity="q", unit="number", at_least=-1e-8).rule == "≥ −10⁻⁸"
    power = Reading.model_validate(reading(unit="exponent", bracket="range", over="rows"))
    found = over([-0.65, -0.05, 0.23], units=6)
    assert power.printed(found, "thousandfold fall") == "0.20 to 89 times (three rows)"
    assert power.printed(found, "thousandfold fall, high") == "89"
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


def test_a_number_is_filled_in_as_its_reading_prints_it():
    numbers = over([-3.0, 4, 5], units=5), over([1.0, 2, 6], units=5)
    outcomes = {NAME: ledger.Outcome(SIX[NAME], numbers)}
    page = new_document("page")
    page.extend([measured(claim=NAME, reading=1, form=form) for form in ("prose", "value")])
    builder = SimpleNamespace(get_relative_uri=lambda *of: "ledger.html")
    fill_in(SimpleNamespace(env=SimpleNamespace(outcomes=outcomes), builder=builder), page, "page")
    texts = [node.astext() for node in page]
    assert texts == [SIX[NAME].readings[1].printed(numbers[1], form) for form in ("prose", "value")]
    assert texts[1] == "2"


def test_a_claim_whose_cell_failed_leaves_its_page_readable():
    page, name = new_document("page"), next(iter(REGISTRY))
    page.extend([badge(claims=[name]), measured(claim=name, reading=0)])
    builder = SimpleNamespace(get_relative_uri=lambda *of: "ledger.html")
    fill_in(SimpleNamespace(env=SimpleNamespace(outcomes={}), builder=builder), page, "page")
    assert [node.astext() for node in page] == ["not measured"] * 2


def claim_role(text, places):
    """Read a badge on a page, where some claims have their badges already."""
    said = []
    reporter = SimpleNamespace(error=lambda words, line: said.append(words))
    env = SimpleNamespace(docname="page", claim_places=dict(places))
    role = ClaimRole()
    settings = SimpleNamespace(env=env)
    role.inliner = SimpleNamespace(document=SimpleNamespace(settings=settings), reporter=reporter)
    role.lineno, role.text = 1, text
    return role.run()[0], said


def test_a_claim_has_one_badge_and_a_badge_claims_that_exist():
    first, second = list(REGISTRY)[:2]
    for text, places, wrong in (
        (f"{first}, {second}", {second: "other"}, f"{second!r}: it has a badge in other already"),
        (first, {first: "page"}, f"{first!r}: it has a badge in page already"),
        (f"{first}, {first}", {}, f"{first!r}: it has a badge in page already"),
        (f"{first}, secnd", {}, "'secnd': there is none of that name"),
        (f"{first},", {}, "'': there is none of that name"),
    ):
        assert claim_role(text, places) == ([], [f"claim {wrong}"])


def page_with_badges(outcomes, *badges):
    """Fill in a page whose first list item holds a paragraph with badges."""
    page = new_document("page")
    paragraph = nodes.paragraph("", "", *(badge(claims=list(names)) for names in badges))
    page += nodes.bullet_list("", nodes.list_item("", paragraph), nodes.list_item())
    builder = SimpleNamespace(get_relative_uri=lambda *of: "ledger.html")
    fill_in(SimpleNamespace(env=SimpleNamespace(outcomes=outcomes), builder=builder), page, "page")
    return page[0][0]


def judged(*decided):
    """Outcomes of the first claims with one reading that bounds from above, by name: whether each
    holds, or None for open."""
    numbers = {
        True: lambda bound: exactly(bound),
        False: lambda bound: exactly(bound + 1),
        None: lambda bound: estimate(bound, (bound - 1, bound + 1), n=9),
    }
    found = {}
    for name, one in REGISTRY.items():
        [*others, last] = one.readings
        if len(found) < len(decided) and not others and last.at_most is not None:
            measured_number = numbers[decided[len(found)]](last.at_most)
            found[name] = ledger.Outcome(one, (measured_number,), chapter="page")
    return found


def test_a_badge_says_the_verdict_of_its_claims_or_how_many_have_which():
    for decided, words, style in (
        ([True, True], "✓ holds", "claim-holds"),
        ([None, None, None], "○ open", "claim-open"),
        ([True, None, True], "2 hold · 1 open", "claim-several"),
        ([False, True], "1 holds · 1 refuted", "claim-several"),
        ([None, False, None, True], "1 holds · 1 refuted · 2 open", "claim-several"),
    ):
        outcomes = judged(*decided)
        paragraph, _ = page_with_badges(outcomes, outcomes)
        [link] = paragraph.findall(nodes.reference)
        # the names are part of the text, which is heard and not seen
        assert link.astext() == f"{words}: {', '.join(outcomes)}"
        assert link[-1]["classes"] == ["visually-hidden"]
        assert link["classes"] == ["claim", style]
