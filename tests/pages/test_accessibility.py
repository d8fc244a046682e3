"""Every page by the rules of axe-core in both themes, and what a page weighs."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.built_book import BROWSER, DOCUMENTS, NO_BROWSER

pytestmark = pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)

PAGES = ["genindex.html", "search.html", *(f"{name}.html" for name in DOCUMENTS)]
HEAVIEST = 2_500_000  # bytes, unpacked; a page with charts brings Vega as well
HEAVIER = {  # fall short: their figures draw more than others
    "notebooks/06_experiments.html": 4_000_000,  # fifteen, one of them with 69,000 corners
    "notebooks/07_gru_lstm.html": 2_900_000,  # nine, one of them with 1,900 lines
}

COMPLETE = """async () => {
  await window.MathJax?.startup?.promise;
  await document.fonts.ready;
}"""
DRAWN = "[...document.querySelectorAll('.chart')].every(chart => chart.view)"
WEIGHT = """[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .reduce((sum, entry) => sum + entry.decodedBodySize, 0)"""
DARKEN = """async () => {
  document.documentElement.dataset.theme = "dark";
  await Promise.all(document.getAnimations().map(animation => animation.finished));  // colours fade into each other
}"""
COLOURS = ["color-contrast", "link-in-text-block"]  # the rules that a theme can break; nothing else changes with it


@pytest.fixture(scope="module")
def tab(browser):
    """One tab for all pages, wide enough for both sidebars."""
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    yield tab
    tab.close()


@pytest.fixture(scope="module", params=PAGES)
def page(tab, site, request):
    """A page of the book with all that belongs to it."""
    tab.goto(site + request.param)
    tab.evaluate(COMPLETE)
    tab.wait_for_function(DRAWN)
    return tab


def violations(page, **options):
    """Say which rules the page breaks, and where."""
    found = Axe().run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    return [f"{rule['id']}: {node['target']} {node['failureSummary']}" for rule in found for node in rule["nodes"]]


def test_weight(page, site):
    allowed = HEAVIER.get(page.url.removeprefix(site), HEAVIEST)
    assert page.locator(".chart").count() or 0 < page.evaluate(WEIGHT) <= allowed


def test_no_rule_is_broken_in_either_theme(page):
    assert violations(page) == []
    page.evaluate(DARKEN)
    assert violations(page, runOnly=COLOURS) == []
