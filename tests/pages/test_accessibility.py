"""Every page by the rules of axe-core: wide in both themes, and on a telephone; and what a page weighs."""

import re

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from tests.built_book import BROWSER, DOCUMENTS, NO_BROWSER

pytestmark = pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)

PAGES = ["genindex.html", "search.html", *(f"{name}.html" for name in DOCUMENTS)]
HEAVIEST = 2_500_000  # bytes, unpacked; a page with charts brings Vega as well
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 800}  # wide enough for both sidebars, and for none

COMPLETE = """async () => {
  await window.MathJax?.startup?.promise;
  await document.fonts.ready;
}"""
DRAWN = "[...document.querySelectorAll('.chart')].every(chart => chart.view)"
WEIGHT = """[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .reduce((sum, entry) => sum + entry.decodedBodySize, 0)"""
RUN = "async ([part, options]) => (await axe.run(part ?? document, options)).violations"
AT_ONCE = "*, *::before, *::after { transition: none !important; animation: none !important }"  # else colours fade into each other
DRESS = "theme => { document.documentElement.dataset.theme = theme; }"
# The theme makes boxes that scroll fit for the keyboard, a moment after the window has changed.
REACHED = "[...document.querySelectorAll('pre')].every(pre => pre.scrollWidth <= pre.clientWidth || pre.tabIndex === 0)"

# Contrast takes axe two milliseconds for each element with text, and a page has thousands that look alike. One of each look is enough:
# same colour, size, weight and decoration of the text, on the same backgrounds of all around it, in boxes that are placed in the same way.
COLOURS = ["color-contrast", "link-in-text-block"]  # the rules that a theme can break; nothing else changes with it
SAMPLED = "[data-sampled]"
SAMPLE = """() => {
  const grounds = new Map([[null, ""]]), looks = new Set();
  const ground = element => {
    if (!grounds.has(element)) {
      const style = getComputedStyle(element);
      const own = [style.backgroundColor, style.backgroundImage, style.opacity, style.filter, style.visibility].join();
      const placed = style.position === "static" ? "" : `${style.position} ${element.tagName} ${element.className}`;
      grounds.set(element, `${ground(element.parentElement)}|${own}|${placed}`.replace("|rgba(0, 0, 0, 0),none,1,none,visible|", ""));
    }
    return grounds.get(element);
  };
  document.querySelectorAll("[data-sampled]").forEach(element => delete element.dataset.sampled);
  for (const element of document.body.querySelectorAll("*")) {
    const words = [...element.childNodes].map(node => node.nodeType === Node.TEXT_NODE ? node.data.trim() : "").join("");
    if (!words && !["INPUT", "SELECT"].includes(element.tagName) || !element.checkVisibility()) continue;
    const style = getComputedStyle(element), around = getComputedStyle(element.parentElement);
    const text = [style.color, style.fontSize, style.fontWeight, style.textShadow, style.textDecorationLine, style.borderBottomStyle];
    const link = element.closest("a") ? `link in ${around.color}, ${around.fontWeight}` : "";
    const alone = words.length === 1;  // a single sign may be an icon: axe gives no verdict on it
    const look = [...text, alone, link, element.tagName === "A" ? element.parentElement.tagName : "", ground(element)].join();
    if (!looks.has(look)) element.dataset.sampled = "";
    looks.add(look);
  }
  return looks.size;
}"""


@pytest.fixture(scope="module")
def tab(browser):
    """One tab for all pages."""
    tab = browser.new_page(viewport=WIDE)
    yield tab
    tab.close()


@pytest.fixture(scope="module", params=PAGES)
def page(tab, site, request):
    """A page of the book with all that belongs to it."""
    tab.set_viewport_size(WIDE)
    tab.goto(site + request.param)
    tab.add_style_tag(content=AT_ONCE)
    tab.evaluate(COMPLETE)
    tab.wait_for_function(DRAWN)
    tab.evaluate(AXE_SCRIPT)
    return tab


def violations(page, part=None, **options):
    """Say which rules the page breaks, and where."""
    found = page.evaluate(RUN, [part, {"resultTypes": ["violations"], **options}])
    return [f"{rule['id']}: {node['target']} {node['failureSummary']}" for rule in found for node in rule["nodes"]]


def colours(page, theme):
    """Say which rules about colours an element of any look breaks in a theme."""
    page.evaluate(DRESS, theme)
    assert page.evaluate(SAMPLE) > 3
    return violations(page, SAMPLED, runOnly=COLOURS)


def test_weight(page):
    assert page.locator(".chart").count() or 0 < page.evaluate(WEIGHT) <= HEAVIEST


@pytest.mark.parametrize(("size", "themes"), [(WIDE, ["dark", "light"]), (PHONE, ["light"])], ids=["wide", "phone"])
def test_no_rule_is_broken(page, size, themes):
    page.set_viewport_size(size)
    page.wait_for_function(DRAWN)
    page.wait_for_function(REACHED)
    assert violations(page, rules={rule: {"enabled": False} for rule in COLOURS}) == []
    for theme in themes:
        assert colours(page, theme) == []


def test_a_colour_that_cannot_be_read_is_found_wherever_it_stands(tab, site):
    tab.set_viewport_size(WIDE)
    tab.goto(f"{site}notebooks/05b_detection.html")
    faint = {".highlight .k": "#999", "p em": "#aaa", "th": "#bbb", "li a": "#ccc"}
    tab.add_style_tag(content=AT_ONCE + "".join(f"{kind} {{ color: {colour} !important }}" for kind, colour in faint.items()))
    tab.evaluate(COMPLETE)
    tab.evaluate(AXE_SCRIPT)

    def pairs(found):
        return {re.search(r"foreground color: \S+ background color: \S+ font size: [^,]*", one.replace(",", ""))[0] for one in found}

    every = pairs(violations(tab, runOnly=["color-contrast"]))
    assert len(every) >= 3
    tab.evaluate(SAMPLE)
    assert pairs(violations(tab, SAMPLED, runOnly=["color-contrast"])) == every
