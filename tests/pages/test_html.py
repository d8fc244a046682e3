"""The built pages as files: figures can be heard as well as seen, outputs are there, and nothing
failed while the book was built."""

import re
from html import unescape
from urllib.parse import unquote

import jupytext
import pytest

from book import claims
from book.claims import ledger
from tests.built_book import BOOK, DOCUMENTS, NOTEBOOKS, ROOT, article
from tests.built_book import page as built_page


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_image_has_an_alternative_text(name):
    alternatives = {image["src"]: image.get("alt", "") for image in article(name).find_all("img")}
    # without one, Sphinx writes the file's name
    assert [source for source, text in alternatives.items() if " " not in text.strip()] == []


def test_every_link_within_the_book_leads_somewhere():
    pages = {path.resolve(): path.read_text() for path in BOOK.rglob("*.html")}
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
            leads = target.exists() and (
                target not in places or unquote(place) in places[target] | {""}
            )
            if not leads and not re.match(r"[a-z]+:", file):
                dead.add(f"{page.relative_to(BOOK.resolve())}: {link}")
    assert dead == set()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_nothing_failed(name):
    page = article(name)
    assert page.select(".traceback, .output.stderr, .system-message") == []
    assert "Traceback (most recent call last)" not in page.get_text()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_shows_its_outputs(name):
    page = article(name)
    assert page.select(".cell_output")
    tags = [cell.metadata.get("tags", []) for cell in jupytext.read(ROOT / f"{name}.md").cells]
    checked = [
        those for those in tags if "nbval-check-output" in those and "remove-cell" not in those
    ]
    assert len(page.select(".cell.tag_nbval-check-output .cell_output")) == len(checked)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_figure_of_a_notebook_has_a_caption(name):
    figures = [
        (image["src"], image.find_parent("figure"))
        for image in article(name).select(".cell_output img")
    ]
    assert [
        source
        for source, figure in figures
        if not (figure and figure.select_one("figcaption .caption-text"))
    ] == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_chart_has_a_caption_a_number_and_a_name(name):
    charts = [(chart, chart.find_parent("figure")) for chart in article(name).select(".chart")]
    assert all(len(chart["aria-label"]) > 40 for chart, _ in charts)
    assert all(
        figure
        and figure.select_one("figcaption .caption-text")
        and figure.select_one(".caption-number")
        for _, figure in charts
    )
    assert len({chart["aria-label"] for chart, _ in charts}) == len(charts)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_vega_comes_with_charts_alone(name):
    page = built_page(name)
    scripts = [script["src"] for script in page.select("script[src]")]
    assert any("_static/vega-lite-" in source for source in scripts) == bool(page.select(".chart"))


def test_badges_rows_of_the_ledger_and_what_measures_them_lead_to_each_other():
    rows = {row["id"]: row for row in article("book/ledger").select("tr[id]")}
    found, badges = ledger.read(), {}
    for name in DOCUMENTS:
        for badge in article(name).select("[id^=claim-]"):
            claim = badge["id"].removeprefix("claim-")
            sign = rows[claim].select_one("span.claim").get_text()[0]
            assert badge.get_text()[0] == sign
            leads_to = badge.find("a")["href"]
            if found[claim].chapter == name:
                assert leads_to == f"#measured-{claim}"
                [cell] = article(name).select(f"#measured-{claim}")
                cell = (
                    cell
                    if "tag_claim" in cell.get("class", ())
                    else cell.find_parent(class_="tag_claim")
                )
                assert cell.find("a", href=re.compile(f"#{claim}$"))
                assert cell.find("a", href=re.compile("^#claim-"))
                assert claim in cell.select_one(".cell_output").get_text()
            else:
                assert leads_to.endswith(f"#{claim}")
            badges.setdefault(claim, []).append(name)
    assert badges.keys() == rows.keys() == claims.registry().keys()
    for claim, places in badges.items():
        [page] = places
        leads_back = rows[claim].select("td")[3].find("a")["href"]
        kind = "measured" if found[claim].chapter == page else "claim"
        assert leads_back.endswith(f"{page.split('/')[-1]}.html#{kind}-{claim}")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_claims_cell_that_prepares_another_stands_before_it(name):
    for cell in article(name).select(".tag_claim"):
        if not cell.select_one(".claim-links"):
            assert "tag_claim" in cell.find_next_sibling()["class"]


def test_the_landing_page_counts_the_verdicts():
    rows = article(DOCUMENTS[0]).select(".tally tbody tr")
    found = ledger.counts_by_kind(ledger.read().values())
    shown = [[int(cell.get_text().replace("–", "0")) for cell in row.select("td")] for row in rows]
    columns = [[*counted.values(), sum(counted.values())] for counted in found.values()]
    assert shown == [list(row) for row in zip(*columns, strict=True)]
    holding, of_networks = columns[-1][0], columns[-1][-1]
    assert (
        f"Of {of_networks} statements that only networks can decide, {holding} replicate"
        in article(DOCUMENTS[0]).get_text()
    )


@pytest.mark.parametrize("name", claims.registry())
def test_a_refuted_claim_says_what_does_hold(name):
    outcome = ledger.read()[name]
    claim, words = outcome.claim, (outcome.counterexample, outcome.fair)
    if outcome.verdict in (claims.Verdict.REFUTED, claims.Verdict.MISPRINT):
        assert all(words)
    if outcome.verdict is claims.Verdict.REFUTED:
        pairs = zip(claim.readings, outcome.measured, strict=True)
        held = [reading.holds(one) for reading, one in pairs if reading.instead]
        assert held, "nothing is measured to hold instead"
        assert all(held), "what is said to hold instead does not"


def test_notebooks_are_in_the_table_of_contents():
    assert {
        path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.glob("notebooks/*.md")
    } <= set(NOTEBOOKS)
