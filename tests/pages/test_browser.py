"""What moves in the built pages, in a real browser: search, ledger, charts, hints; every request
that leaves this machine is refused."""

import numpy as np
import pytest
import yaml

from book import claims
from book.claims import ledger
from lwcore.detection import detection_threshold, rate_exponent, sample_complexity
from lwcore.inference import probes, required, windows
from lwcore.results import load
from lwcore.window import DecayLaw
from tests.built_book import BOOK, BROWSER, NO_BROWSER, ROOT

pytestmark = pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)
CLAIMS = {name: claim for name, claim in claims.registry().items() if claim.paper != "code"}


@pytest.fixture
def visit(tab, site):
    """Open pages of the book; the browser may complain of none."""
    tab.complaints.clear()

    def open_page(address, width=1280):
        tab.set_viewport_size({"width": width, "height": 800})
        tab.goto(site + address)
        # a browser that has all it needs asks for nothing, also while it is still at work: both
        tab.wait_for_load_state("networkidle")
        return tab

    yield open_page
    assert tab.complaints == []


def test_the_address_leads_to_the_first_page_and_search_works_without_a_network(visit):
    assert visit("index.html").url.endswith("book/intro.html")
    page = visit("search.html")
    fields = "article input[type=search]:visible, main input[type=search]:visible"
    page.locator(fields).first.fill("envelope")
    page.keyboard.press("Enter")
    page.locator("#search-results li a").first.wait_for()


def each(rows, name):
    """An attribute of each row that is shown."""
    shown = "rows.filter(row => !row.hidden)"
    return rows.evaluate_all(f"rows => {shown}.map(row => row.getAttribute('{name}'))")


def test_the_ledger_is_searched_and_filtered_in_the_page(visit):
    page = visit("book/ledger.html")
    rows = page.locator("#ledger tbody tr")
    assert set(each(rows, "id")) == CLAIMS.keys()
    page.get_by_role("combobox", name="Verdict").select_option("refuted")
    refuted = {
        name
        for name, outcome in ledger.read().items()
        if name in CLAIMS and outcome.verdict is claims.Verdict.REFUTED
    }
    assert set(each(rows, "id")) == refuted
    count = page.locator("#ledger-count").inner_text()
    assert count == f"{len(refuted)} of {len(CLAIMS)} claims"
    page.get_by_role("searchbox", name="Words").fill("added to what is complete without them")
    assert each(rows, "id") == ["gru-rates"]


def test_an_address_chooses_rows_of_the_ledger(visit):
    page = visit("book/ledger.html?kind=network&verdict=refuted")
    rows = page.locator("#ledger tbody tr")
    assert set(each(rows, "data-kind")) == {"network"}
    assert set(each(rows, "data-verdict")) == {"refuted"}
    rows = visit("book/ledger.html?verdict=contradicted").locator("#ledger tbody tr")
    contradicted = {name for name, outcome in ledger.read().items() if outcome.contradicted}
    assert set(each(rows, "id")) == contradicted
    page = visit("book/ledger.html#gradient-is-a-sum-over-lags")
    assert page.locator("#gradient-is-a-sum-over-lags details").get_attribute("open") is not None


def test_badges_unfold_what_measures_their_claims(visit):
    """Of one claim its cell; of several, by keyboard, each of them."""
    page = visit("notebooks/08_robust_averaging.html")
    cell = page.locator(".tag_claim:has-text('clipping-saves-sequences')")
    assert not cell.is_visible()
    page.locator("#claim-clipping-saves-sequences a").click()
    cell.wait_for()
    cell.get_by_role("link", name="fold").click()
    assert not cell.is_visible()
    page = visit("notebooks/B_scalar_gates.html")
    common = page.locator("a[href^='#behind-']").first
    unfolded = page.locator(common.get_attribute("href"))
    assert not unfolded.is_visible()
    common.focus()
    page.keyboard.press("Enter")
    unfolded.wait_for()


SET = """(chart, settings) => {
  for (const [name, value] of Object.entries(settings)) chart.view.signal(name, value);
  return chart.view.runAsync().then(() => null);
}"""
SIGNALS = "(chart, names) => names.map(name => chart.view.signal(name))"
# the points of a curve, from the view of a name
CURVE = """(chart, [name, fields]) => {
  const points = [];
  const look = mark => {
    if (mark.marktype === "line" && mark.name.startsWith(name)) points.push(...mark.items);
    for (const item of mark.items ?? []) look(item);
  };
  look(chart.view.scenegraph().root);
  return fields.map(field => points.map(point => point.datum[field]));
}"""


def drawn(chart, name, *fields):
    """Fields of the points of a curve; where it breaks, NaN."""
    return np.array(chart.evaluate(CURVE, [name, fields]), float)


def test_sliders_answer_to_keys_and_stay_where_a_chart_is_drawn_afresh(visit):
    page = visit("notebooks/05c_scaling_laws.html")
    chart = page.locator("#fig-explorer .chart")
    assert not chart.get_by_label("λ (exponential law)").is_visible()
    chart.get_by_label("decay of f").select_option("exponential")
    assert chart.get_by_label("λ (exponential law)").is_visible()
    chart.get_by_label("sequences, log₁₀ N").focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    reading = "document.querySelector('#fig-explorer .reading').textContent"
    page.wait_for_function(f"{reading}.includes('N = 10,000 ')")
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_function("document.querySelector('#fig-explorer svg').clientWidth < 390")
    assert chart.evaluate(SIGNALS, ["law", "log_budget"]) == ["exponential", 4]


def test_the_explorer_shows_what_the_package_computes(visit):
    chart = visit("notebooks/05c_scaling_laws.html").locator("#fig-explorer .chart")
    for law, slider, alpha, error, detector in (
        (DecayLaw("exponential", 1, 0.5), {"lambda": 0.5}, 1.25, 0.01, "mean"),
        (DecayLaw("power", 1, 3.0), {"beta": 3.0}, 1.1, 0.07, "paper_v2"),
        (DecayLaw("logarithmic", 1), {}, 1.35, 0.29, "likelihood"),
    ):
        how = {"alpha": alpha, "error": error, "detector": detector}
        chart.evaluate(SET, {"law": law.name, "log_noise": -1, "log_budget": 2} | slider | how)
        threshold = detection_threshold(100, 1, 0.1, **how)
        needed = sample_complexity(law.envelope(1), 1, 0.1, **how)
        expected = [rate_exponent(alpha, detector), threshold, needed]
        # C has ten digits
        found = chart.evaluate(SIGNALS, ["exponent", "threshold", "needed"])
        assert found == pytest.approx(expected, rel=1e-9 * expected[0])
        lag, envelope = drawn(chart, "envelope", "lag", "value")
        assert envelope == pytest.approx(law.envelope(lag), rel=1e-12)
        budget, window = drawn(chart, "growth", "budget", "window")
        exact = law.inverse(np.log(detection_threshold(budget, 1, 0.1, **how)))
        assert window == pytest.approx(exact, rel=1e-7)
        # from the first number on that sees a step, on a grid of 50 a decade
        assert budget[0] == pytest.approx(max(1, needed), rel=0.05)


def test_the_browser_of_results_shows_what_was_measured(visit):
    """Of a cell at the fourth look: medians over seeds and directions, by the mean."""
    run = load(ROOT / "book" / "results" / "small.nc")
    chart = visit("book/browse.html").locator("#fig-browse-small .chart")
    chart.evaluate(SET, {"model": "DiagGate", "look": 3, "estimate": 0, "noise": 1})
    of_cell = run.sel(model="DiagGate")
    how = {"noise": "whole", "detector": "mean"}
    needed = required(probes(of_cell, "gradient", "error"), **how).median(("seed", "probe"))
    null = probes(run, "gradient", "noise")
    longest = windows(null, **how).max(("model", "seed", "probe"))
    envelope = of_cell.envelope.sel(order="exact").median("seed")
    lag, value = drawn(chart, "envelope", "lag", "value")
    assert lag == pytest.approx(run.lag.values)
    assert value == pytest.approx(envelope.values, rel=5e-3)
    (shown,) = drawn(chart, "required", "needed")
    assert shown == pytest.approx(needed.where(needed < 1e10).values, rel=5e-3, nan_ok=True)
    (shown,) = drawn(chart, "control", "steps")
    assert shown == pytest.approx(longest.where(longest > 0).values, nan_ok=True)


def test_a_word_is_explained_to_those_who_point_at_it_or_tab_to_it(visit):
    page = visit("notebooks/05a_matched_statistic.html")
    word = page.locator("a.word", has_text="matched statistic").first
    shown = page.locator(".tooltip")
    word.hover()
    shown.wait_for()
    assert "One number for a sequence and a lag" in shown.inner_text()
    page.mouse.move(0, 0)
    shown.wait_for(state="detached")
    word.focus()
    shown.wait_for()


def test_an_old_address_leads_to_the_place_that_its_page_has_now(visit):
    moved = yaml.safe_load((ROOT / "_config.yml").read_text())["sphinx"]["config"]["redirects"]
    for new in moved.values():
        page, _, place = new.removeprefix("/").partition("#")
        assert not place or f'id="{place}"' in (BOOK / page).read_text()
    tab = visit("book/costs.html")
    tab.wait_for_url("**/book/browse.html#what-ran")
    tab.goto(tab.url.replace("browse.html#what-ran", "trust.html#edit-it"))
    tab.wait_for_url("**/book/browse.html#edit-it")
