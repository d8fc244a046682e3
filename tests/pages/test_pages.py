"""Every page, visited once: formulas, rules of accessibility, weight, width on a telephone,
requests, complaints of the browser."""

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from tests.built_book import BROWSER, DOCUMENTS, NO_BROWSER

pytestmark = pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)

PAGES = ["genindex", "search", "_modules/lwcore/transport", *DOCUMENTS]
HEAVIEST = 2_800_000  # bytes, unpacked: the ledger, some 250 claims; charts bring Vega as well
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

# Axe takes its time with every element, and most are alike: the words of code, the signs of
# formulas. One of each kind is enough, and once in the book: of the same tag, class, colour, size
# and weight, beside the same colour, on the same surface. A surface is what is behind an element:
# all backgrounds around it, and all around it that is placed apart from the text. `MARK` marks
# those with text of which no page before had one.
MARK = """([theme, judged]) => {
  document.documentElement.dataset.theme = theme;
  const digest = words => {
    let [a, b] = [1, 2];
    for (const sign of words) {
      a = Math.imul(a ^ sign.codePointAt(), 2654435761);
      b = Math.imul(b ^ sign.codePointAt() ^ a >>> 15, 1597334677);
    }
    return (a >>> 0) * 2 ** 20 + (b >>> 12);
  };
  const surfaces = new Map([[null, 0]]), seen = new Set();
  const surface = element => {
    if (!surfaces.has(element)) {
      const style = getComputedStyle(element), below = surface(element.parentElement);
      const own = [style.backgroundColor, style.backgroundImage, style.opacity, style.position].join();
      const plain = /^rgba\\(0, 0, 0, 0\\),none,1,(static|relative)$/.test(own);
      surfaces.set(element, plain ? below : digest([below, element.tagName, element.className, own].join()));
    }
    return surfaces.get(element);
  };
  const kind = element => {
    const style = getComputedStyle(element), beside = getComputedStyle(element.parentElement).color;
    const font = [style.fontSize, style.fontWeight, style.textDecorationLine];
    return digest([surface(element), element.tagName, element.className, style.color, font, beside].join());
  };
  const done = new Set(judged);
  for (const element of document.body.querySelectorAll("*")) {
    const words = [...element.childNodes].filter(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!words.length && !["INPUT", "SELECT"].includes(element.tagName) || !element.checkVisibility()) continue;
    const alone = element.textContent.trim().length === 1;  // it may be an icon: axe gives no verdict on it
    const found = 2 * kind(element) + alone;
    if (!seen.has(found) && !done.has(found)) element.setAttribute(`data-in-${theme}`, "");
    seen.add(found);
  }
  return [...seen];
}"""
# What is not marked, and has a class and nothing else that a rule could be about, becomes plain
# text; formulas keep their size and what is read aloud.
THIN = """() => {
  const marked = "[data-in-light], [data-in-dark]";
  const formulas = [...document.querySelectorAll("mjx-math[aria-hidden]")].filter(e => !e.querySelector(marked));
  const sizes = formulas.map(formula => formula.getBoundingClientRect());
  for (const [k, formula] of formulas.entries()) {
    formula.replaceChildren();
    Object.assign(formula.style, {display: "inline-block", width: `${sizes[k].width}px`, height: `${sizes[k].height}px`});
  }
  for (const spoken of document.querySelectorAll("mjx-assistive-mml")) {
    if (!spoken.querySelector(marked)) spoken.textContent = spoken.textContent;
  }
  for (const element of document.querySelectorAll("span[class], em[class], code[class]")) {
    if (element.attributes.length === 1) element.replaceWith(...element.childNodes);
  }
  document.body.normalize();
}"""
# Colours are judged where nothing else is in the way: what holds none of the marked is not shown.
ALONE = """alone => {
  const marked = [...document.querySelectorAll("[data-in-light], [data-in-dark]")];
  const kept = new Set(marked.flatMap(element => [element, ...element.querySelectorAll("*")]));
  for (let element of marked) while (element = element.parentElement) kept.add(element);
  for (const element of document.body.querySelectorAll("*")) {
    element.toggleAttribute("data-hidden", alone && !kept.has(element));
  }
}"""
HIDDEN = "[data-hidden] { display: none !important }"
# the rules that a theme can break; nothing else changes with it
COLOURS = ["color-contrast", "link-in-text-block"]
OTHERS = {"rules": {rule: {"enabled": False} for rule in COLOURS}}


def show(tab, address, size=WIDE):
    """Open a page, and wait for all that belongs to it."""
    tab.set_viewport_size(size)
    tab.goto(address)
    tab.add_style_tag(content=AT_ONCE)
    tab.evaluate(COMPLETE)
    tab.wait_for_function(DRAWN)


def violations(page, part=None, **options):
    """Say which rules the page breaks, and where."""
    found = page.evaluate(RUN, [part, {"resultTypes": ["violations"], **options}])
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]


def rules(page, judged):
    """Say which rules the page breaks: those about colours by an element of each kind, in each
    theme, that is not among the kinds of element judged in it before.

    The page holds less afterwards: what is like something else has become plain text.
    """
    kinds = {theme: page.evaluate(MARK, [theme, [*judged[theme]]]) for theme in judged}
    page.evaluate(THIN)
    page.evaluate(AXE_SCRIPT)
    found = violations(page, **OTHERS)
    page.add_style_tag(content=HIDDEN)
    page.evaluate(ALONE, True)
    for theme in judged:
        assert len(kinds[theme]) > 3
        page.evaluate(DRESS, theme)
        if set(kinds[theme]) - judged[theme]:
            found += violations(page, f"[data-in-{theme}]", runOnly=COLOURS)
        judged[theme].update(kinds[theme])
    page.evaluate(ALONE, False)
    return found


def resize(tab, size):
    """Change the window's size, and wait until the page has followed."""
    tab.set_viewport_size(size)
    tab.wait_for_function(DRAWN)
    tab.wait_for_function(REACHED)


@pytest.fixture(scope="module")
def judged():
    """What has been judged on the pages before."""
    return {"light": set(), "dark": set()}


@pytest.mark.parametrize("name", PAGES)
def test_page(tab, site, judged, name):
    tab.complaints.clear()
    show(tab, f"{site}{name}.html", PHONE)
    tab.wait_for_function(REACHED)
    charts = CHARTS.get(name, 0)
    assert tab.evaluate(UNRENDERED) == []
    assert charts or 0 < tab.evaluate(WEIGHT) <= HEAVIEST
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert tab.evaluate(FIGURES_THAT_SCROLL) == []
    tab.wait_for_function(f"{CHARTS_THAT_FIT} === {charts}")
    resize(tab, WIDE)
    tab.wait_for_function(f"{CHARTS_THAT_FIT} === {charts}")
    assert tab.complaints == []
    # last in each width: axe asks for style sheets, which are the same in both, also for some that
    # are not there
    found = rules(tab, judged)
    resize(tab, PHONE)
    assert found + violations(tab, preload=False, **OTHERS) == []


def test_a_colour_that_cannot_be_read_is_found_wherever_it_stands(tab, site):
    show(tab, f"{site}notebooks/03_bptt.html")
    faint = {".highlight .k": "#999999", "p em": "#aaaaaa", "th": "#bbbbbb", "li a": "#cccccc"}
    for kind, colour in faint.items():
        tab.add_style_tag(content=f"{kind} {{ color: {colour} !important }}")
    found = " ".join(rules(tab, {"light": set()}))
    assert [colour for colour in faint.values() if f"foreground color: {colour}" not in found] == []
