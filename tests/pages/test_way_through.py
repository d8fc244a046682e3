"""The way through the book, as it was built: a short sidebar in the order of the argument, folds
that say what they hold, old addresses that lead on."""

import re

import pytest

from tests.built_book import BROWSER, DOCUMENTS, NO_BROWSER, NOTEBOOKS, PARTS, article
from tests.built_book import page as built_page
from tests.pages.test_pages import AT_ONCE, PHONE, rules

MOST_ENTRIES, MOST_WORDS = 32, 5
ARGUMENT = [
    "notebooks/03_bptt",
    "notebooks/14_calibration",
    "notebooks/06_experiments",
    "notebooks/15_dose",
    "notebooks/09_prediction",
]


def entries(name):
    """Entries of a page's sidebar, by part: labels."""
    found = {}
    sidebar = built_page(name).select_one("nav.bd-docs-nav")
    for caption in sidebar.select("p.caption"):
        links = caption.find_next_sibling("ul").select("li > a")
        found[caption.get_text(strip=True)] = [link.get_text(" ", strip=True) for link in links]
    return found


def test_the_sidebar_has_few_short_entries_and_the_argument_alone_is_numbered():
    found = entries("book/intro")
    assert list(found) == list(PARTS)
    labels = [label for part in found.values() for label in part]
    way_out = "put a page under another, with `sections` in book/_toc.yml, or make two pages one"
    assert len(labels) <= MOST_ENTRIES, f"the sidebar has {len(labels)} entries: {way_out}"
    numbers = [label.partition(" ")[0] for label in found["The argument"]]
    assert numbers == ["1.", "2.", "3.", "4.", "5."]
    others = [label for part, those in found.items() if part != "The argument" for label in those]
    assert [label for label in others if re.match(r"[\d.]+\s", label)] == []
    names = [re.sub(r"^\d\. ", "", label) for label in labels]
    assert [name for name in names if len(name.split()) > MOST_WORDS] == []
    assert len(set(names)) == len(names)


def test_chapters_come_in_an_order_in_which_nothing_is_used_before_it_is_introduced():
    place = DOCUMENTS.index
    assert PARTS["The argument"][0] == DOCUMENTS[1]
    assert [name for name in PARTS["The argument"] if name in ARGUMENT] == ARGUMENT
    assert place("notebooks/14_calibration") < place("notebooks/06_experiments")
    assert place("notebooks/15_dose") < place("notebooks/09_prediction")
    after = place("notebooks/15_dose")
    registrations = ["book/registration", "book/registration_clock"]
    assert DOCUMENTS[after + 1 : after + 3] == registrations
    assert place("notebooks/09_prediction") < place("notebooks/11_your_network")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_title_is_what_the_sidebar_calls_the_page(name):
    title = article(name).find("h1")
    title = "".join(piece for piece in title.find_all(string=True) if piece != "#").strip()
    assert len(re.sub(r"^\d\. ", "", title).split()) <= MOST_WORDS
    if name != DOCUMENTS[0]:
        current = built_page(name).select("nav.bd-docs-nav li.current > a.current")
        assert current[-1].get_text(" ", strip=True) == title.replace("\xa0", " ")


def test_pages_under_a_chapter_show_where_the_reader_is_among_them():
    for name, below in (
        ("notebooks/15_dose", 2),
        ("book/registration_clock", 2),
        ("book/api/index", 6),
    ):
        opened = built_page(name).select("nav.bd-docs-nav li li > a")
        assert len(opened) >= below
        labels = [link.get_text(strip=True) for link in opened]
        assert [label for label in labels if re.match(r"\d", label)] == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_folded_code_says_what_it_holds_in_words_that_can_be_heard(name):
    for fold in article(name).select("details.hide > summary"):
        show, hide = (one.get_text(strip=True) for one in fold.select("p"))
        assert re.fullmatch(
            r"Show (imports|set-up|imports and set-up|code (of|that) .+|.* output.*)", show
        ), show
        assert hide == show.replace("Show", "Hide", 1)
        assert "aria-label" not in fold.attrs
    for kind in ("figure", "table"):
        for fold in article(name).select("details.above-input > summary"):
            if f"code of this {kind}" in fold.get_text():
                cell = fold.find_parent("div", class_="cell")
                below = cell.select_one(".cell_output")
                shown = (
                    below.select("img, svg, .chart") if kind == "figure" else below.select("table")
                )
                assert shown


needs_browser = pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)


@needs_browser
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("book/costs.html", "book/trust.html#what-it-costs"),
        ("book/costs.html#memory", "book/trust.html#memory"),
        ("book/report.html", "book/trust.html#what-ran"),
    ],
)
def test_an_old_address_leads_to_the_place_that_its_page_has_now(tab, site, old, new):
    tab.complaints.clear()
    tab.goto(site + old)
    tab.wait_for_url(site + new)
    place = new.partition("#")[2]
    assert tab.evaluate("id => document.getElementById(id) !== null", place)
    assert tab.complaints == []


@needs_browser
def test_folds_open_by_keyboard_and_what_they_hold_can_be_read_by_all(tab, site):
    tab.complaints.clear()
    tab.set_viewport_size(PHONE)
    tab.goto(f"{site}notebooks/14_calibration.html")
    tab.add_style_tag(content=AT_ONCE)
    fold = tab.locator("details.above-input").first
    code = fold.locator("pre")
    assert not code.is_visible()
    fold.locator("summary").focus()
    tab.keyboard.press("Enter")
    code.wait_for()
    assert "import numpy as np" in code.inner_text()
    tab.evaluate("document.querySelectorAll('details.hide').forEach(fold => fold.open = true)")
    # what is wider than the telephone scrolls, and is reached by the keyboard
    reached = "[...document.querySelectorAll('details pre')].every(e => e.scrollWidth <= e.clientWidth || e.tabIndex === 0)"
    wide = "[...document.querySelectorAll('details pre')].some(e => e.scrollWidth > e.clientWidth)"
    tab.wait_for_function(f"{wide} && {reached}")
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert tab.complaints == []
    # last: axe asks for style sheets that are not there
    assert rules(tab, {"light": set(), "dark": set()}) == []
