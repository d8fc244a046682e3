"""Prose: a result is computed beside its sentence or comes from a claim, what may be typed is a
setting; a thing has one name, a chapter its title. More: `settings_in_prose.toml`."""

import re
import tomllib

import pytest

from book import claims
from book.claims.claim import Kind
from tests.built_book import DOCUMENTS, NOTEBOOKS, ROOT

RESULTS = [
    "book/intro",
    "book/choose",
    *(name for name in NOTEBOOKS if re.match(r"notebooks/(0[6-9]|1\d|C)[a-z]?_", name)),
]
SETTINGS = tomllib.loads((ROOT / "tests/settings_in_prose.toml").read_text())

SMALL = "two|three|four|five|six|seven|eight|nine|ten"
WORDS = (
    r"eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|dozens?|hundreds?|thousands?|millions?|"
    r"billions?|hal(?:f|ves)|thirds?|quarters?|fifths?|sixths?|sevenths?|eighths?|ninths?|tenths?|twentieths?|hundredths?|thousandths?|"
    rf"twice|thrice|doubles?|doubled|halved|[a-z]+fold|per cent|orders of magnitude|factor of (?:{SMALL})|(?:{SMALL}) times"
)
NUMBER = re.compile(
    rf"(?<![\w.])(?:\d[\d,]*)?\.\d+|(?<![\w.])\d(?:[\d,]*\d)?|\b(?:{WORDS})\b", re.IGNORECASE
)
SYMBOL = re.compile(
    r"(?<![\w)])[A-Za-zα-ωΔΛ][\w̄]?(?:_\w+)? [=<>≤≥] [−-]?(?:[σ\d][\d.,]*)?(?:/\d[\d.,]*)?(?:, [\d.,]*\d)*(?: (?:and|or|to) [\d.,]*\d)?"
)
PLACE = re.compile(
    r"(?:Section|Lemma|lemma\}|Definition|Proposition|Theorem|Corollary|Remark|Appendix|Eqs?\.|Figs?\.|versions?|chapters?|lags?|seeds?|§)\s*"
    r"\(?\d[\d.,–]*\)?(?:(?:,| and| to| or|–)\s*\(?\d[\d.]*\)?)*",
    re.IGNORECASE,
)


def prose(name):
    """A page's text without code, formulas, addresses, computed numbers and references."""
    text = re.sub(r"(?s)\A---\n.*?\n?---\n", "", (ROOT / f"{name}.md").read_text())
    no = r"(?sm)^(`{3,})\{(code-cell|math)\}.*?^\1|^```python.*?^```|\]\([^)]*\)|`[^`]*`|\$[^$]*\$"
    return re.sub(r"(?m)^(?::[\w-]+:.*|\([\w-]+\)=)$", "", re.sub(no, "", text))


def typed(text):
    """A text's numbers but for places in a paper and values of symbols; 0, 1, 95 (%) are free."""
    found = NUMBER.findall(PLACE.sub("", SYMBOL.sub("", text)))
    return {one.lower() for one in found} - {"0", "1", "95"}


@pytest.mark.parametrize("name", RESULTS)
def test_no_result_is_typed(name):
    assert typed(prose(name)) == SETTINGS.get(name, {}).keys()


OPENING = re.compile(
    r"(?s)\*\*Question\.\*\* (.+?)\\\n\*\*Answer\.\*\* (.+?)\\\n\*\*How sure\.\*\* (.+?)\n\n"
)


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name.startswith("notebooks/")])
def test_a_chapter_opens_with_a_question_a_short_answer_and_what_would_change_it(name):
    text = re.sub(r"(\{[\w:]+\})`[^`]*`", "1", (ROOT / f"{name}.md").read_text())
    _, answer, sure = OPENING.search(text).groups()
    assert len(answer.split()) <= 60
    assert len(sure.split()) <= 55
    assert "What would change it: " in sure


@pytest.mark.parametrize("name", claims.registry())
def test_a_claim_calls_things_by_their_names_and_no_result_is_typed_in_a_counterexample(name):
    claim = claims.registry()[name]
    assert gone(claim.model_dump_json()) == []
    words = " ".join(re.sub(r"\{[^}]*\}", "", text) for text in (claim.counterexample, claim.fair))
    if claim.kind in (Kind.NETWORK, Kind.SIMULATION):
        assert typed(words) - SETTINGS["claims"].keys() == SETTINGS.get(name, {}).keys()
    else:  # whole numbers and fractions there are those of a formula
        assert {one for one in typed(words) if "." in one} == SETTINGS.get(name, {}).keys()


def gone(text):
    """Names in a text that nothing has any longer."""
    return re.findall("|".join(SETTINGS["gone"]), " ".join(text.split()))


@pytest.mark.parametrize("name", ["README", "CONTRIBUTING", *DOCUMENTS])
def test_one_thing_has_one_name(name):
    assert gone(prose(name)) == []
    assert not re.search(r"(?i)chapters?\s+\d", (ROOT / f"{name}.md").read_text())


def test_a_typed_result_would_be_found(tmp_path, monkeypatch):
    text = """---\n---\nIt is 0.73, by Lemma 5.1, in 1,024 cases, eleven of them, a million times, at
lag 16 for α = 1.5 and T = 64.\n\n```{code-cell} python\n0.5\n```\n
{measured}`x: 7` and $.2$, tenfold or three times as much, .5 and a third.\n"""
    (tmp_path / "page.md").write_text(text)
    monkeypatch.setattr("tests.test_prose.ROOT", tmp_path)
    found = {"0.73", "1,024", "eleven", "million", "tenfold", "three times", ".5", "third"}
    assert typed(prose("page")) == found
