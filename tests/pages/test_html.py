"""The built pages as files: figures can be heard as well as seen, outputs are there, and nothing
failed while the book was built."""

import re
from html import unescape
from urllib.parse import unquote

import pytest

from book import claims
from book.claims import ledger
from tests.built_book import BOOK, DOCUMENTS, NOTEBOOKS, ROOT, article, cells


@pytest.mark.parametrize("name", DOCUMENTS)
def test_nothing_failed_and_every_image_has_an_alternative_text(name):
    page = article(name)
    assert page.select(".traceback, .output.stderr, .system-message") == []
    assert "Traceback (most recent call last)" not in page.get_text()
    alternatives = {image["src"]: image.get("alt", "") for image in page.find_all("img")}
    # without one, Sphinx writes the file's name
    silent = [source for source, text in alternatives.items() if " " not in text.strip()]
    assert silent == [], f"{name}.md: pictures without an alternative text; the build says the line"


def test_every_link_within_the_book_leads_somewhere():
    # the theme leaves its templates among the static files
    written = [path for path in BOOK.rglob("*.html") if "_static" not in path.parts]
    pages = {path.resolve(): path.read_text() for path in written}
    places = {
        path: {unescape(name) for name in re.findall(r'\s(?:id|name)="([^"]+)"', text)}
        for path, text in pages.items()
    }
    dead = set()
    for page, text in pages.items():
        tags = "".join(re.findall(r"<(?:a|link|script|img)\s[^>]*>", text))
        for link in set(re.findall(r'\s(?:href|src)="([^"]*)"', tags)):
            file, _, place = unescape(link).partition("#")
            target = (page.parent / unquote(file.partition("?")[0])).resolve() if file else page
            known = places.get(target, {unquote(place)}) | {""}
            leads = target.exists() and unquote(place) in known
            if not leads and not re.match(r"[a-z]+:", file):
                dead.add(f"{page.relative_to(BOOK.resolve())}: {link}")
    assert dead == set()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_shows_all_its_figures_and_checked_outputs(name):
    captioned = ["figure" in cell.metadata.get("mystnb", {}) for cell in cells(name)]
    assert len(article(name).select(".cell_output figcaption")) == sum(captioned)
    tags = [set(cell.metadata.get("tags", [])) for cell in cells(name)]
    checked = [one for one in tags if "nbval-check-output" in one and "remove-cell" not in one]
    assert len(article(name).select(".cell.tag_nbval-check-output .cell_output")) == len(checked)


def test_badges_rows_of_the_ledger_and_what_measures_them_lead_to_each_other():
    rows = {row["id"]: row for row in article("book/ledger").select("tr[id]")}
    found, places = ledger.read(), {}
    for name in DOCUMENTS:
        for badge in article(name).select("[id^=claim-]"):
            claim = badge["id"].removeprefix("claim-")
            assert claim not in places
            places[claim] = name
            here = found[claim].chapter == name
            assert badge.get_text()[0] == rows[claim].select_one("span.claim").get_text()[0]
            assert badge.a["href"].endswith(f"#measured-{claim}" if here else f"#{claim}")
            back = f"{name.split('/')[-1]}.html#{'measured' if here else 'claim'}-{claim}"
            assert rows[claim].select("td")[3].a["href"].endswith(back)
            if here:
                [measured] = article(name).find_all(id=f"measured-{claim}")
                around = [measured, *measured.parents]
                [cell] = [node for node in around if "tag_claim" in node.get("class", ())]
                assert cell.find("a", href=re.compile(f"#{claim}$"))
                assert cell.find("a", href=re.compile("^#claim-"))
                assert claim in cell.select_one(".cell_output").get_text()
    assert places.keys() == rows.keys() == claims.registry().keys()


def test_a_refuted_claim_says_what_does_hold():
    for name, outcome in ledger.read().items():
        if outcome.verdict in (claims.Verdict.REFUTED, claims.Verdict.MISPRINT):
            assert all((outcome.counterexample, outcome.fair)), name
        if outcome.verdict is claims.Verdict.REFUTED:
            pairs = zip(outcome.claim.readings, outcome.measured, strict=True)
            held = [reading.holds(one) for reading, one in pairs if reading.instead]
            assert True in held, name
            assert False not in held, name  # one of too few seeds may stay open


def test_notebooks_are_in_the_table_of_contents():
    notebooks = {path.relative_to(ROOT).with_suffix("") for path in ROOT.glob("notebooks/*.md")}
    missing = {path.as_posix() for path in notebooks} - set(NOTEBOOKS)
    assert missing == set(), f"book/_toc.yml has no line for {missing}"
