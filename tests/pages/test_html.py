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
def test_a_notebook_shows_all_its_checked_outputs(name):
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


def test_a_badge_of_several_claims_leads_to_all_of_them_and_back():
    found = ledger.read()
    for name in NOTEBOOKS:
        written = re.findall(r"\{claim\}`[^`]*,", (ROOT / f"{name}.md").read_text())
        lists = article(name).select(".claims")
        assert len(lists) == len(written)
        for unfolded in lists:
            badges = unfolded.select("[id^=claim-]")
            names = [badge["id"].removeprefix("claim-") for badge in badges]
            [common] = article(name).select(f"a[href='#{unfolded['id']}']")
            assert common.get_text().endswith(f": {', '.join(names)}")
            assert unfolded.find("a", string="fold")["href"] == f"#{common.parent['id']}"
            [paragraph] = [p for p in common.parents if p.parent is unfolded.parent]
            assert paragraph in unfolded.previous_siblings
            for claim, line in zip(names, unfolded.ul.find_all("li", recursive=False), strict=True):
                entry = found[claim].entry
                text = " ".join(line.get_text().split())
                for part in (claim, entry["statement"], entry["printed"], entry["rule"]):
                    assert " ".join(str(part).split()) in text


def test_no_place_on_a_page_has_the_name_of_another():
    for name in DOCUMENTS:
        names = [node["id"] for node in article(name).select("[id^=claim], [id^=behind-]")]
        assert len(names) == len(set(names)), name


def sentence_before(badge):
    """The text of a badge's sentence, up to the badge, without other badges."""
    paragraph = badge.find_parent(["p", "li", "td", "dd"])
    parts = []
    for node in paragraph.descendants:
        if node is badge:
            break
        if isinstance(node, str) and not node.find_parent(class_="claim"):
            parts.append(node)
    text = " ".join("".join(parts).split())
    return re.split(r"(?<=[.?!]) (?=[A-ZΑ-ω(])", text)[-1]


def named_by(badge):
    """The claims of a badge in a chapter's text: those that it names, or the one at its place."""
    names = badge.get_text().partition(": ")[2]
    return names.split(", ") if names else [badge.parent["id"].removeprefix("claim-")]


def test_a_sentence_whose_badge_is_open_says_that_it_does_not_decide():
    left_open = {name for name, one in ledger.read().items() if one.verdict is claims.Verdict.OPEN}
    seen, silent = set(), []
    for page in NOTEBOOKS:
        for badge in article(page).select("a.claim"):
            names = left_open & set(named_by(badge))
            if not names or badge.find_parent(class_="claims"):
                continue
            seen |= names
            if "not decide" not in sentence_before(badge):
                silent.append((page, *sorted(names)))
    assert silent == []
    assert seen == left_open


def test_the_page_of_verdicts_counts_them():
    counted = ledger.counts_by_kind(ledger.read().values())[claims.Kind.NETWORK]
    holding, every = counted[claims.Verdict.HOLDS], sum(counted.values())
    words = f"Of {every} statements that only networks can decide, {holding} replicate as stated."
    assert words in article("book/ledger").get_text()


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
