"""Every page, visited once: formulas, rules of accessibility, weight, width on a telephone,
requests, complaints of the browser.

In the dark theme and on a telephone the rules are held against as few pages as show every kind of
element that any page shows.
"""

import re

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from tests.built_book import BOOK, BROWSER, DOCUMENTS, NO_BROWSER

pytestmark = pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)

PAGES = ["genindex", "search", "_modules/lwcore/transport", *DOCUMENTS]
HEAVIEST = 2_500_000  # bytes, unpacked; a page with charts brings Vega as well
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
CHARTS = {
    "notebooks/05c_scaling_laws": 1,
    "notebooks/B_scalar_gates": 1,
    "book/browse": 2,
}
# Charts that fill their place, with a label at every control and something said below.
CHARTS_THAT_FIT = """[...document.querySelectorAll(".chart")].filter(chart => {
  const [room, drawn] = [chart.clientWidth, chart.querySelector("svg")?.clientWidth];
  const labelled = [...chart.querySelectorAll("input, select")].every(control => control.labels.length);
  return 0.6 * room < drawn && drawn <= room && labelled && [...chart.querySelectorAll(".reading")].every(e => e.textContent.length >= 20);
}).length"""
DRAWN = "[...document.querySelectorAll('.chart')].every(chart => chart.view)"
WEIGHT = """[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .reduce((sum, entry) => sum + entry.decodedBodySize, 0)"""
RUN = "async ([part, options]) => (await axe.run(part ?? document, options)).violations"
# else colours fade into each other
AT_ONCE = "*, *::before, *::after { transition: none !important; animation: none !important }"
DRESS = "theme => { document.documentElement.dataset.theme = theme; }"
# The theme makes boxes that scroll fit for the keyboard, a moment after the window has changed.
# the theme makes what scrolls reachable by keyboard, a moment after the width has changed
REACHED = "[...document.querySelectorAll('pre, .cell_output > .output')].every(e => e.scrollWidth <= e.clientWidth || e.tabIndex === 0)"

# Contrast takes axe two milliseconds for each element with text, and a page has thousands that look
# alike. One of each look is enough: same colour, size, weight and decoration of the text, on the
# same backgrounds of all around it, in boxes that are placed in the same way. no style depends on
# these; any page with code shows the signs of code
PASSING = re.compile(r"\d|^toctree|^current|^[a-z]{1,2}$")
# the rules that a theme can break; nothing else changes with it
COLOURS = ["color-contrast", "link-in-text-block"]
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
def tab(browser, site):
    """One tab for all pages; what leaves this machine is refused, and listed with what the browser
    complains about."""
    context = browser.new_context(viewport=WIDE)
    tab = context.new_page()
    tab.complaints = []

    def refuse_outside(route):
        if route.request.url.startswith(site):
            route.continue_()
        else:
            tab.complaints.append(f"asks for {route.request.url}")
            route.abort()

    context.route("**/*", refuse_outside)
    tab.on(
        "console",
        lambda message: (
            message.type in ("error", "warning") and tab.complaints.append(message.text)
        ),
    )
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.on(
        "response",
        lambda response: (
            response.status >= 400 and tab.complaints.append(f"{response.status} {response.url}")
        ),
    )
    yield tab
    context.close()


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


def colours(page, theme):
    """Say which rules about colours an element of any look breaks in a theme."""
    page.evaluate(DRESS, theme)
    assert page.evaluate(SAMPLE) > 3
    return violations(page, SAMPLED, runOnly=COLOURS)


def resize(tab, size):
    """Change the window's size, and wait until the page has followed."""
    tab.set_viewport_size(size)
    tab.wait_for_function(DRAWN)
    tab.wait_for_function(REACHED)


def rules(tab, *themes):
    """Say which rules the page breaks, in some themes."""
    return violations(tab, rules={rule: {"enabled": False} for rule in COLOURS}) + [
        one for theme in themes for one in colours(tab, theme)
    ]


def showing_everything():
    """Choose pages that show, between them, every kind of element with every class that any page
    shows, the richest first."""
    kinds = {}
    for name in filter(lambda name: (BOOK / f"{name}.html").exists(), PAGES):
        elements = re.findall(r'<(\w+)[^>]*? class="([^"]*)"', (BOOK / f"{name}.html").read_text())
        kinds[name] = {
            (tag, word)
            for tag, words in elements
            for word in words.split()
            if not PASSING.search(word)
        }
    wanted = set().union(*kinds.values())
    while wanted:
        richest = max(kinds, key=lambda name: len(kinds[name] & wanted))
        wanted -= kinds[richest]
        yield richest


RICHEST = set(showing_everything())


@pytest.mark.parametrize("name", PAGES)
def test_page(tab, site, name):
    tab.complaints.clear()
    show(tab, f"{site}{name}.html")
    charts = CHARTS.get(name, 0)
    assert tab.evaluate(UNRENDERED) == []
    assert charts or 0 < tab.evaluate(WEIGHT) <= HEAVIEST
    assert tab.evaluate(CHARTS_THAT_FIT) == charts
    resize(tab, PHONE)
    assert (
        tab.evaluate("Math.max(document.body.scrollWidth, document.documentElement.scrollWidth)")
        <= PHONE["width"]
    )
    tab.wait_for_function(f"{CHARTS_THAT_FIT} === {charts}")
    assert tab.complaints == []
    # last in each width: axe asks for style sheets that are not there
    found = rules(tab, "light") if name in RICHEST else []
    resize(tab, WIDE)
    assert found + rules(tab, "light", *(["dark"] if name in RICHEST else [])) == []


def test_a_colour_that_cannot_be_read_is_found_wherever_it_stands(tab, site):
    show(tab, f"{site}book/trust.html")
    faint = {".highlight .k": "#999", "p em": "#aaa", "th": "#bbb", "li a": "#ccc"}
    tab.add_style_tag(
        content=AT_ONCE
        + "".join(f"{kind} {{ color: {colour} !important }}" for kind, colour in faint.items())
    )

    def pairs(found):
        return {
            re.search(
                r"foreground color: \S+ background color: \S+ font size: [^,]*",
                one.replace(",", ""),
            )[0]
            for one in found
        }

    every = pairs(violations(tab, runOnly=["color-contrast"]))
    assert len(every) >= 3
    tab.evaluate(SAMPLE)
    assert pairs(violations(tab, SAMPLED, runOnly=["color-contrast"])) == every
