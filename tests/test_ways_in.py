"""The ways into the book."""

import re

from tests.built_book import ROOT


def test_the_code_has_every_name_that_the_page_of_notation_gives_it():
    page = (ROOT / "book" / "notation.md").read_text()
    places = re.findall(r"^\| .* \| (.*)$", page, re.MULTILINE)
    places += re.findall(r"^  In the code (.*)$", page, re.MULTILINE)
    names = set()
    for place in places:
        for code in re.findall(r"`([^`]+)`", re.sub(r"\{(?:doc|ref)\}`[^`]*`", "", place)):
            names |= set(re.findall(r"\b[A-Za-z_]\w+", code))
    modules = [*ROOT.glob("lwcore/**/*.py"), *ROOT.glob("book/chapters/*.py")]
    source = "".join(path.read_text() + path.stem for path in modules)
    assert len(names) > 20
    assert [name for name in names if not re.search(rf"\b{name}\b", source)] == []
