"""Prose: a result is computed beside its sentence or comes from a claim, a decimal that is typed is
a setting; a thing has one name, a chapter its title. More: `book/settings_in_prose.toml`."""

import re
import tomllib

import pytest
import typed_decimals
from typed_decimals import prose, typed

from book import claims
from tests.built_book import DOCUMENTS, NOTEBOOKS, ROOT

SETTINGS = tomllib.loads(typed_decimals.SETTINGS.read_text())
CHECKED = [name for name in DOCUMENTS if typed_decimals.is_checked(name)]


def text_of(name):
    """A page as it is written."""
    return (ROOT / f"{name}.md").read_text()


@pytest.mark.parametrize("name", CHECKED)
def test_a_typed_decimal_is_a_setting_and_a_setting_is_typed(name):
    found = typed(prose(text_of(name)))
    allowed = typed_decimals.settings(name)
    wrong = [
        f"{name}.md:{line}: {typed_decimals.advice(number, name)}"
        for line, number in found
        if number not in allowed
    ]
    assert not wrong, "\n".join(wrong)
    gone = sorted(allowed.keys() - {number for _, number in found})
    assert not gone, f'{typed_decimals.SETTINGS.name}, ["{name}"]: {gone} is no longer typed there'


def test_settings_are_those_of_pages_that_are_checked_and_of_claims():
    assert SETTINGS.keys() - {"gone"} <= {*CHECKED, *claims.registry()}
    assert all("." in number for name in SETTINGS if name != "gone" for number in SETTINGS[name])


OPENING = re.compile(
    r"(?s)\*\*Question\.\*\* (.+?)\\\n\*\*Answer\.\*\* (.+?)\\\n\*\*How sure\.\*\* (.+?)\n\n"
)


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name.startswith("notebooks/")])
def test_a_chapter_opens_with_a_question_a_short_answer_and_what_would_change_it(name):
    text = re.sub(r"(\{[\w:]+\})`[^`]*`", "1", text_of(name))
    opening = OPENING.search(text)
    assert opening, (
        f"{name}.md opens with three lines: **Question.** …\\ **Answer.** …\\ **How sure.** … The "
        "first two end with a backslash, and an empty line follows the third."
    )
    _, answer, sure = opening.groups()
    assert len(answer.split()) <= 60, f"{name}.md: the answer has more than 60 words"
    assert len(sure.split()) <= 55, f"{name}.md: “How sure” has more than 55 words"
    missing = f"{name}.md: “How sure” ends with what would change it: “What would change it: …”"
    assert "What would change it: " in sure, missing


@pytest.mark.parametrize("name", claims.registry())
def test_a_claim_calls_things_by_their_names_and_no_result_is_typed_in_a_counterexample(name):
    claim = claims.registry()[name]
    assert gone(claim.model_dump_json()) == []
    words = " ".join(re.sub(r"\{[^}]*\}", "", text) for text in (claim.counterexample, claim.fair))
    found = {number for _, number in typed(words)}
    assert found == SETTINGS.get(name, {}).keys(), (
        f"decimals in `counterexample` and `fair` of the claim {name} are settings, and say what "
        f'they are in {typed_decimals.SETTINGS.name}, under ["{name}"]; results are {{0}}, {{1}}, …'
    )


def gone(text):
    """Names in a text that nothing has any longer."""
    return re.findall("|".join(SETTINGS["gone"]), " ".join(text.split()))


@pytest.mark.parametrize("name", ["README", "CONTRIBUTING", *DOCUMENTS])
def test_one_thing_has_one_name(name):
    assert gone(prose(text_of(name))) == []
    assert not re.search(r"(?i)chapters?\s+\d", text_of(name))


def test_a_typed_result_is_found_in_its_line():
    text = """---
title: 0.1
---
It is 0.73, by Lemmas 5.1 and 5.2, in 1,024 cases, at lag 16 for α = 1.5 and T = 64.

```{code-cell} python
0.5
```

{measured}`x: 7` and $.2$, three times as much,
.5 and 1,000.25 of `0.3`.
"""
    assert typed(prose(text)) == [(4, "0.73"), (11, ".5"), (11, "1,000.25")]


@pytest.mark.parametrize(
    ("page", "is_checked"),
    [
        ("book/intro", True),
        ("book/edit", False),
        ("notebooks/05a_matched_statistic", False),
        ("notebooks/15_dose", True),
        ("notebooks/a_chapter_of_mine", True),
    ],
)
def test_a_new_chapter_is_checked_whatever_its_name(page, is_checked):
    assert typed_decimals.is_checked(page) is is_checked
