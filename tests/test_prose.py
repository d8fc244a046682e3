"""A decimal that is typed in prose is a setting; a result is computed beside its sentence or comes
from a claim. What an editor looks at besides, `make prose` lists."""

import re
import subprocess
import sys
import tomllib

import pytest
import typed_decimals
from typed_decimals import prose, typed

from book import claims
from tests.built_book import DOCUMENTS, ROOT

SETTINGS = tomllib.loads(typed_decimals.SETTINGS.read_text())
CHECKED = [name for name in DOCUMENTS if typed_decimals.is_checked(name)]


@pytest.mark.parametrize("name", CHECKED)
def test_a_typed_decimal_is_a_setting_and_a_setting_is_typed(name):
    found = typed(prose((ROOT / f"{name}.md").read_text()))
    allowed = typed_decimals.settings(name)
    wrong = [
        f"{name}.md:{line}: {typed_decimals.advice(number, name)}"
        for line, number in found
        if number not in allowed
    ]
    assert not wrong, "\n".join(wrong)
    assert allowed.keys() <= {number for _, number in found}, typed_decimals.SETTINGS.name


def test_a_decimal_in_a_counterexample_is_a_setting():
    for name, claim in claims.registry().items():
        texts = (claim.counterexample, claim.fair)
        words = " ".join(re.sub(r"\{[^}]*\}", "", text) for text in texts)
        found = {number for _, number in typed(words)}
        assert found == SETTINGS.get(name, {}).keys(), name
    assert SETTINGS.keys() - {"gone"} <= {*CHECKED, *claims.registry()}
    assert all("." in number for name in SETTINGS if name != "gone" for number in SETTINGS[name])


OPENING = re.compile(
    r"(?s)\*\*Question\.\*\* (.+?)\\\n\*\*Answer\.\*\* (.+?)\\\n\*\*How sure\.\*\* (.+?)\n\n"
)


WITH_A_BOX = [name for name in NOTEBOOKS if name.startswith("notebooks/")]


@pytest.mark.parametrize("name", WITH_A_BOX)
def test_a_chapter_opens_with_a_question_a_short_answer_and_what_would_change_it(name):
    text = re.sub(r"(\{[\w:]+\})`[^`]*`", "1", text_of(name))
    opening = OPENING.search(text)
    assert opening, (
        f"{name}.md opens with three lines: **Question.** …\\ **Answer.** …\\ **How sure.** … The "
        "first two end with a backslash, and an empty line follows the third."
    )
    _, answer, sure = opening.groups()
    assert len(answer.split()) <= 45, f"{name}.md: the answer has more than 45 words"
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
    assert list(numbers_without_a_chapter(text_of(name))) == []


BADGE = re.compile(r"\{claim\}`[^`]*`")
ROW_OF_BADGES = re.compile(rf"{BADGE.pattern}(?:[\W_]*{BADGE.pattern})+")
FENCED = re.compile(r"(?ms)\A---\n.*?\n---\n|^(`{3,}).*?^\1`*$|^\$\$.*?\$\$$")
PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*|#>]|\d+\.)\s)")
BEHIND_A_STOP = re.compile(rf"([.?!][)*\"”]*)((?:\s+{BADGE.pattern})+)")
END_OF_SENTENCE = re.compile(
    r"(?<!Eq\.)(?<!Eqs\.)(?<!Fig\.)(?<!e\.g\.)(?<=[.?!])[)*\"”]*\s+(?=[A-ZΑ-ω(*$`\[{])"
)


def sentences(text):
    """Split a page into sentences; a badge behind a stop belongs to the sentence before it."""
    text = FENCED.sub("\n\n", text)
    # behind a formula in lines of its own a sentence goes on with a small letter
    text = re.sub(r"\n\s*\n(?=[a-z])", " ", text)
    text = BEHIND_A_STOP.sub(r"\2\1", text)
    for paragraph in PARAGRAPH.split(text):
        yield from END_OF_SENTENCE.split(paragraph)


def crowded(text):
    """List the sentences with more than one badge, and the rows of badges."""
    listed = [sentence for sentence in sentences(text) if len(BADGE.findall(sentence)) > 1]
    rows = [found[0] for found in ROW_OF_BADGES.finditer(FENCED.sub("\n\n", text))]
    return [" ".join(found.split()) for found in listed + rows]


@pytest.mark.parametrize("name", ["README", *DOCUMENTS])
def test_a_sentence_has_one_badge_at_most_and_badges_stand_in_no_row(name):
    found = crowded(text_of(name))
    assert found == [], f"{name}.md: name the claims in one badge, {{claim}}`first, second`"


def test_a_sentence_ends_behind_its_badge():
    text = """---
title: A
---
It holds. {claim}`a` (By Eq. (3) it does {claim}`b`.) It does not.
{claim}`c` `small` is small {claim}`d`: see

```{math}
x {claim}`e` y.
```

- and larger {claim}`f, g`.
- One {claim}`h`? No {claim}`i`.
"""
    found = [BADGE.findall(sentence) for sentence in sentences(text)]
    alone = ["a", "b", "c", "d", "f, g", "h", "i"]
    assert [badges for badges in found if badges] == [[f"{{claim}}`{name}`"] for name in alone]
    assert crowded(text) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("It rises {claim}`a`, and falls {claim}`b`.", 1),
        ("By Eqs. (1) {claim}`a` and (2) {claim}`b`.", 1),
        ("It rises {claim}`a`:\n\n```{math}\nx\n```\n\nand falls {claim}`b`.", 1),
        ("- It rises. {claim}`a` {claim}`b`", 2),
        ("It rises {claim}`a`.\n{claim}`b` It falls.", 2),
        ("(It rises {claim}`a`.) ({claim}`b`: it falls.)", 1),
        ("It rises {claim}`a`.\n\n{claim}`b`", 1),
    ],
)
def test_crowded_badges_are_found(text, number):
    assert len(crowded(text)) == number


def numbers_without_a_chapter(text):
    """Numbers of chapters that are typed, but for links to the chapter of the argument that has
    the number: {doc}`Chapter 2 </notebooks/14_calibration>`."""

    def is_right(link):
        number, target = int(link[1]), link[2].rpartition("/")[2]
        return number <= len(NUMBERED) and NUMBERED[number - 1].rpartition("/")[2] == target

    links = r"\{doc\}`[Cc]hapter (\d+) <([^>`]+)>`"
    text = re.sub(links, lambda link: "" if is_right(link) else link[0], text)
    yield from re.findall(r"(?i)chapters?\s+\d+", text)


def test_a_chapter_has_the_number_that_a_link_to_it_says():
    right = "{doc}`Chapter 2 </notebooks/14_calibration>`, {doc}`chapter 1 <03_bptt>`"
    wrong = "{doc}`Chapter 3 </notebooks/14_calibration>`, {doc}`Chapter 6 <05b_detection>`"
    assert list(numbers_without_a_chapter(right)) == []
    found = list(numbers_without_a_chapter(f"{wrong}, in chapter 4 and Chapters 2 and 3"))
    assert found == ["Chapter 3", "Chapter 6", "chapter 4", "Chapters 2"]


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


def test_prose_warns_and_never_fails():
    done = subprocess.run(
        [sys.executable, "-m", "book.prose"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
