"""Every page, visited once: formulas, rules of accessibility, weight, width on a telephone,
requests, complaints of the browser."""

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from tests.built_book import BROWSER, DOCUMENTS, NO_BROWSER

pytestmark = pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)

PAGES = ["genindex", "search", "_modules/lwcore/transport", *DOCUMENTS]
HEAVIEST = 2_750_000  # bytes, unpacked; a page with charts brings Vega as well
# wide enough for both sidebars, and for none
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 800}

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


COMPLETE = """async () => {
  await window.MathJax?.startup?.promise;
  await document.fonts.ready;
}"""
CHARTS = {"notebooks/05c_scaling_laws": 1, "notebooks/B_scalar_gates": 1, "book/browse": 2}
# Charts that fill their place, with a label at every control and something said below.
CHARTS_THAT_FIT = """[...document.querySelectorAll(".chart")].filter(chart => {
  const [room, drawn] = [chart.clientWidth, chart.querySelector("svg")?.clientWidth];
  const labelled = [...chart.querySelectorAll("input, select")].every(control => control.labels.length);
  return 0.6 * room < drawn && drawn <= room && labelled && [...chart.querySelectorAll(".reading")].every(e => e.textContent.length >= 20);
}).length"""
FIGURES_THAT_SCROLL = "[...document.querySelectorAll('figure')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.id)"
DRAWN = "[...document.querySelectorAll('.chart')].every(chart => chart.view)"
WEIGHT = """[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .reduce((sum, entry) => sum + entry.decodedBodySize, 0)"""
RUN = "async ([part, options]) => (await axe.run(part ?? document, options)).violations"
# else colours fade into each other
AT_ONCE = "*, *::before, *::after { transition: none !important; animation: none !important }"
DRESS = "theme => { document.documentElement.dataset.theme = theme; }"
# The theme makes what scrolls reachable by keyboard, a moment after the width has changed
REACHED = "[...document.querySelectorAll('pre, .cell_output > .output')].every(e => e.scrollWidth <= e.clientWidth || e.tabIndex === 0)"

# Contrast takes axe two milliseconds for each element with text, and a page has thousands that look
# alike. One of each kind is enough: of the same colours, tags and classes, also of all around it.
SAMPLED = "[data-sampled]"
SAMPLE = """() => {
  const kinds = new Map([[null, ""]]), seen = new Set();
  const kind = element => {
    if (!kinds.has(element)) {
      const style = getComputedStyle(element), own = [style.color, style.backgroundColor];
      kinds.set(element, [kind(element.parentElement), element.tagName, element.className, own].join());
    }
    return kinds.get(element);
  };
  document.querySelectorAll("[data-sampled]").forEach(element => delete element.dataset.sampled);
  for (const element of document.body.querySelectorAll("*")) {
    const words = [...element.childNodes].filter(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!words.length && !["INPUT", "SELECT"].includes(element.tagName) || !element.checkVisibility()) continue;
    const alone = element.textContent.trim().length === 1;  // it may be an icon: axe gives no verdict on it
    if (!seen.has(kind(element) + alone)) element.dataset.sampled = "";
    seen.add(kind(element) + alone);
  }
  return seen.size;
}"""
# the rules that a theme can break; nothing else changes with it
COLOURS = ["color-contrast", "link-in-text-block"]


def show(tab, address):
    """Open a page, wide, and wait for all that belongs to it."""
    tab.set_viewport_size(WIDE)
    tab.goto(address)
    tab.add_style_tag(content=AT_ONCE)
    tab.evaluate(COMPLETE)
    tab.wait_for_function(DRAWN)
    tab.evaluate(AXE_SCRIPT)


def violations(page, part=None, **options):
    """Say which rules the page breaks, and where."""
    found = page.evaluate(RUN, [part, {"resultTypes": ["violations"], **options}])
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]


def rules(page, *themes):
    """Say which rules the page breaks: those about colours in some themes, by an element of each
    kind."""
    found = violations(page, rules={rule: {"enabled": False} for rule in COLOURS})
    for theme in themes:
        page.evaluate(DRESS, theme)
        assert page.evaluate(SAMPLE) > 3
        found += violations(page, SAMPLED, runOnly=COLOURS)
    return found


def resize(tab, size):
    """Change the window's size, and wait until the page has followed."""
    tab.set_viewport_size(size)
    tab.wait_for_function(DRAWN)
    tab.wait_for_function(REACHED)


@pytest.mark.parametrize("name", PAGES)
def test_page(tab, site, name):
    tab.complaints.clear()
    show(tab, f"{site}{name}.html")
    charts = CHARTS.get(name, 0)
    assert tab.evaluate(UNRENDERED) == []
    assert charts or 0 < tab.evaluate(WEIGHT) <= HEAVIEST
    assert tab.evaluate(CHARTS_THAT_FIT) == charts
    resize(tab, PHONE)
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert tab.evaluate(FIGURES_THAT_SCROLL) == []
    tab.wait_for_function(f"{CHARTS_THAT_FIT} === {charts}")
    assert tab.complaints == []
    # last in each width: axe asks for style sheets that are not there
    found = rules(tab)
    resize(tab, WIDE)
    assert found + rules(tab, "light", "dark") == []


def test_a_colour_that_cannot_be_read_is_found_wherever_it_stands(tab, site):
    show(tab, f"{site}notebooks/03_bptt.html")
    faint = {".highlight .k": "#999999", "p em": "#aaaaaa", "th": "#bbbbbb", "li a": "#cccccc"}
    for kind, colour in faint.items():
        tab.add_style_tag(content=f"{kind} {{ color: {colour} !important }}")
    found = " ".join(rules(tab, "light"))
    assert [colour for colour in faint.values() if f"foreground color: {colour}" not in found] == []
