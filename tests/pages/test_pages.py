"""Every page, visited once: formulas, weight, width on a telephone, complaints of the browser; and
the rules of accessibility, on a page of each kind."""

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from tests.built_book import BROWSER, DOCUMENTS, NO_BROWSER

pytestmark = pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)

PAGES = ["genindex", "search", "_modules/lwcore/transport", *DOCUMENTS]
HEAVIEST = 3_000_000  # bytes, unpacked: the ledger, some 260 claims; charts bring Vega as well
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 800}
# a first page, a chapter, one with a chart, one of a reader's own network; tables, terms, reference
KINDS = ["book/intro", "notebooks/03_bptt", "notebooks/05c_scaling_laws", "search"]
KINDS += ["notebooks/11_your_network", "book/equations", "book/notation", "book/api/index"]

# Formulas that were left as text, that MathJax could not read, or that hold a command it does not
# know (set in red).
UNRENDERED = r"""async () => {
  await window.MathJax?.startup?.promise;
  const article = document.querySelector("article") ?? document.body;
  const found = [...article.querySelectorAll(".math")].filter(e => !e.querySelector("mjx-container")).map(e => e.textContent);
  found.push(...[...document.querySelectorAll("mjx-merror, [data-mjx-error], mtext[mathcolor=red]")].map(e => e.textContent));
  const text = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  while (text.nextNode()) {
    const node = text.currentNode;
    if (/\\[([]/.test(node.data) && !node.parentElement.closest("pre, code, script, style, mjx-container")) found.push(node.data);
  }
  return found;
}"""
# Charts that do not fill their place, or have a control without a label.
POOR_CHARTS = """[...document.querySelectorAll(".chart")].filter(chart => {
  const [room, drawn] = [chart.clientWidth, chart.querySelector("svg")?.clientWidth];
  const labelled = [...chart.querySelectorAll("input, select")].every(control => control.labels.length);
  return !(0.6 * room < drawn && drawn <= room && labelled);
}).length"""
TOO_WIDE = "document.documentElement.scrollWidth > innerWidth"
WEIGHT = """[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .reduce((sum, entry) => sum + entry.decodedBodySize, 0)"""
# else colours fade into each other
AT_ONCE = "*, *::before, *::after { transition: none !important; animation: none !important }"
# Sections, entries of the reference and rows of a table are much alike: the first are enough, and
# axe, whose time grows with the square of their number, would read all of them for minutes.
FEWER = """document.querySelectorAll(
  "section section:nth-of-type(n+4):not(:has(.chart)), .cell ~ .cell .cell_input, dl.py ~ dl.py, section ~ section dl.py, tbody tr:nth-of-type(n+7), mjx-assistive-mml > *"
).forEach(alike => alike.remove())"""
DRESS = "theme => { document.documentElement.dataset.theme = theme; }"
RUN = "async options => (await axe.run(document, {resultTypes: ['violations'], ...options})).violations"
# the rules that a theme can break; nothing else changes with it
COLOURS = ["color-contrast", "link-in-text-block"]


def violations(page, **options):
    """Say which rules the page breaks, and where."""
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in page.evaluate(RUN, options)
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("name", PAGES)
def test_page(tab, site, name):
    tab.complaints.clear()
    tab.set_viewport_size(PHONE)
    tab.goto(f"{site}{name}.html")
    tab.add_style_tag(content=AT_ONCE)
    assert tab.evaluate(UNRENDERED) == []
    tab.wait_for_function(f"{POOR_CHARTS} === 0")
    has_charts = tab.locator(".chart").count() > 0
    assert has_charts or 0 < tab.evaluate(WEIGHT) <= HEAVIEST
    assert not tab.evaluate(TOO_WIDE)
    assert tab.complaints == []
    if name not in KINDS:
        return
    # last: axe asks for style sheets, also for some that are not there
    tab.evaluate(AXE_SCRIPT)
    tab.evaluate(FEWER)
    tab.set_viewport_size(WIDE)
    found = violations(tab)
    tab.evaluate(DRESS, "dark")
    assert found + violations(tab, runOnly=COLOURS) == []


def test_a_colour_that_cannot_be_read_is_found(tab, site):
    tab.goto(f"{site}search.html")
    tab.add_style_tag(content=f"{AT_ONCE} h1 {{ color: #aaaaaa !important }}")
    tab.evaluate(AXE_SCRIPT)
    assert "foreground color: #aaaaaa" in " ".join(violations(tab, runOnly=COLOURS))
