"""What moves in the built pages, in a real browser: search, ledger, charts, hints; every request
that leaves this machine is refused."""

import numpy as np
import pytest
import yaml

from book import claims
from book.claims import ledger
from lwcore.detection import detection_threshold
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


def test_the_ledger_is_sorted_searched_and_filtered_in_the_page(visit):
    page = visit("book/ledger.html")
    rows = page.locator("#ledger tbody tr")
    assert rows.count() == len(CLAIMS)
    chosen = page.get_by_role("combobox", name="Verdict")
    chosen.select_option("refuted")
    assert {row.get_attribute("id") for row in rows.all()} == {
        name
        for name, outcome in ledger.read().items()
        if name in CLAIMS and outcome.verdict is claims.Verdict.REFUTED
    }
    search = page.locator("#ledger_wrapper input[type=search]")
    search.fill("added to what is complete without them")
    assert [row.get_attribute("id") for row in rows.all()] == ["gru-rates"]
    search.fill("")
    chosen.select_option("")
    heading = page.locator("#ledger").get_by_role("columnheader", name="Verdict")
    heading.get_by_role("button").focus()
    page.keyboard.press("Enter")
    verdicts = [row.get_attribute("data-verdict").upper() for row in rows.all()]
    assert heading.get_attribute("aria-sort") == "ascending"
    assert verdicts == sorted(verdicts, key=list(claims.Verdict.__members__).index)


def test_an_address_chooses_rows_of_the_ledger(visit):
    page = visit("book/ledger.html?kind=network&verdict=refuted")
    rows = page.locator("#ledger tbody tr").all()
    shown = {(row.get_attribute("data-kind"), row.get_attribute("data-verdict")) for row in rows}
    assert shown == {("network", "refuted")}
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


def test_sliders_move_the_drawing_to_the_numbers_of_the_package(visit):
    page = visit("notebooks/05c_scaling_laws.html")
    chart = page.locator("#fig-explorer .chart")
    reading = chart.get_by_role("status")

    def press(label, times):
        chart.get_by_label(label).focus()
        for _ in range(times):
            page.keyboard.press("ArrowRight")
        chart.evaluate("chart => chart.view.runAsync().then(() => null)")

    def compare(decay, alpha, n_sequences):
        signals = "chart => ['threshold', 'window'].map(name => chart.view.signal(name))"
        exact = detection_threshold(n_sequences, 1, 1, alpha)
        reach = decay.inverse(np.log(exact))
        assert chart.evaluate(signals) == pytest.approx([exact, reach], rel=1e-8)

    compare(DecayLaw("power", 1, 1), 1.5, 1e3)
    press("tail index α", 4)
    compare(DecayLaw("power", 1, 1), 1.7, 1e3)
    chart.get_by_label("decay of f").select_option("exponential")
    assert chart.get_by_label("λ (exponential law)").is_visible()
    press("sequences, log₁₀ N", 10)
    page.wait_for_function(
        "document.querySelector('#fig-explorer .reading').textContent.includes('N = 10,000 ')"
    )
    assert f"p = {1.7 / 0.7:.3g}" in reading.inner_text()

    # drawn afresh, with the sliders where they were
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_function("document.querySelector('#fig-explorer svg').clientWidth < 390")
    compare(DecayLaw("exponential", 1, 0.9), 1.7, 1e4)


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
    tab.wait_for_url("**/book/browse.html#what-it-costs")
    tab.goto(tab.url.replace("browse.html#what-it-costs", "trust.html#edit-it"))
    tab.wait_for_url("**/book/browse.html#edit-it")
