"""What moves in the built pages, in a real browser: search, ledger, charts, hints; every request
that leaves this machine is refused."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special

from book import claims
from book.claims import ledger
from lwcore.detection import detection_threshold, sample_complexity
from lwcore.inference import LETTER, probes, windows
from lwcore.results import load
from lwcore.window import DecayLaw, learnability_window, mixture_envelope
from tests.built_book import BOOK, BROWSER, NO_BROWSER, ROOT

pytestmark = pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)


@pytest.fixture
def visit(browser, site):
    """Open pages of the book; keep what the browser complains about."""
    context = browser.new_context()
    seen = SimpleNamespace(page=context.new_page(), complaints=[], outside=[])

    def refuse_outside(route):
        if route.request.url.startswith(site):
            route.continue_()
        else:
            seen.outside.append(route.request.url)
            route.abort()

    def open_page(address, width=1280):
        seen.page.set_viewport_size({"width": width, "height": 800})
        seen.page.goto(site + address, wait_until="networkidle")
        return seen

    context.route("**/*", refuse_outside)
    seen.page.on(
        "console",
        lambda message: (
            message.type in ("error", "warning") and seen.complaints.append(message.text)
        ),
    )
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    seen.page.on(
        "response",
        lambda response: (
            response.status >= 400 and seen.complaints.append(f"{response.status} {response.url}")
        ),
    )
    yield open_page
    context.close()


def test_the_address_of_the_site_leads_to_its_first_page(visit):
    seen = visit("index.html")
    assert seen.page.url.endswith("book/intro.html")
    assert (seen.complaints, seen.outside) == ([], [])


def test_search_works_without_a_network(visit):
    seen = visit("search.html")
    seen.page.locator(
        "article input[type=search]:visible, main input[type=search]:visible"
    ).first.fill("envelope")
    seen.page.keyboard.press("Enter")
    seen.page.locator("#search-results li a").first.wait_for()
    assert seen.outside == []
    assert seen.complaints == []


def test_the_ledger_is_sorted_searched_and_filtered_in_the_page(visit):
    seen = visit("book/ledger.html")
    rows, info = seen.page.locator("#ledger tbody tr"), seen.page.locator(".dt-info")
    registry = {name: claim for name, claim in claims.registry().items() if claim.paper != "code"}
    assert rows.count() == len(registry)
    assert info.inner_text() == f"{len(registry)} claims"
    refuted = [
        name
        for name, outcome in ledger.read().items()
        if name in registry and outcome.verdict is claims.Verdict.REFUTED
    ]
    chosen = seen.page.get_by_role("combobox", name="Verdict")
    chosen.select_option("refuted")
    assert {row.get_attribute("id") for row in rows.all()} == set(refuted)
    search = seen.page.locator("#ledger_wrapper input[type=search]")
    search.fill("added to what is complete without them")
    assert [row.get_attribute("id") for row in rows.all()] == ["gru-rates"]
    search.fill("")
    chosen.select_option("")
    heading = seen.page.locator("#ledger").get_by_role("columnheader", name="Verdict")
    heading.get_by_role("button").focus()
    seen.page.keyboard.press("Enter")
    verdicts = [row.get_attribute("data-verdict").upper() for row in rows.all()]
    assert heading.get_attribute("aria-sort") == "ascending"
    assert verdicts == sorted(verdicts, key=list(claims.Verdict.__members__).index)
    assert seen.complaints == []


def test_a_badge_unfolds_the_cell_that_measures_its_claim(visit):
    seen = visit("notebooks/08_robust_averaging.html")
    for name in ("clipping-saves-sequences", "clipping-raises-alpha"):
        cell = seen.page.locator(f".tag_claim:has-text('{name}')")
        assert not cell.is_visible()
        seen.page.locator(f"#claim-{name} a").click()
        cell.wait_for()
        assert "must be" in cell.inner_text()
        cell.get_by_role("link", name="fold").click()
        assert not cell.is_visible()
    assert seen.complaints == []


def test_an_address_chooses_rows_of_the_ledger(visit):
    page = visit("book/ledger.html?kind=network&verdict=refuted").page
    rows = page.locator("#ledger tbody tr").all()
    assert {
        (row.get_attribute("data-kind"), row.get_attribute("data-verdict")) for row in rows
    } == {("network", "refuted")}
    page = visit("book/ledger.html#gradient-is-a-sum-over-lags").page
    assert page.locator("#gradient-is-a-sum-over-lags details").get_attribute("open") is not None


def test_the_ledger_works_when_the_book_is_opened_from_its_folder(browser):
    page = browser.new_page()
    page.goto((BOOK / "book" / "ledger.html").as_uri())
    assert (
        page.locator(".dt-info").inner_text()
        == f"{sum(claim.paper != 'code' for claim in claims.registry().values())} claims"
    )
    page.close()


def test_sliders_move_the_drawing_to_the_numbers_of_the_package(visit):
    seen = visit("notebooks/05c_scaling_laws.html")
    chart = seen.page.locator("#fig-explorer .chart")
    slider, law = chart.get_by_label("tail index α"), chart.get_by_label("decay of f")
    budget, reading = chart.get_by_label("sequences, log₁₀ N"), chart.get_by_role("status")

    def compare(decay, alpha, n_sequences):
        drawn = (
            chart.evaluate(f"chart => chart.view.signal('{name}')")
            for name in ("threshold", "window")
        )
        exact = detection_threshold(n_sequences, 1, 1, alpha)
        assert tuple(drawn) == pytest.approx((exact, decay.inverse(np.log(exact))), rel=1e-8)

    compare(DecayLaw("power", 1, 1), 1.5, 1e3)
    before, said = chart.locator("svg").inner_html(), reading.inner_text()
    slider.focus()
    for _ in range(4):
        seen.page.keyboard.press("ArrowRight")
    seen.page.wait_for_function(
        "said => document.querySelector('#fig-explorer .reading').textContent !== said", arg=said
    )
    assert chart.locator("svg").inner_html() != before
    compare(DecayLaw("power", 1, 1), 1.7, 1e3)
    decays = [chart.get_by_label(name) for name in ("λ (exponential law)", "β (power law)")]
    assert [decay.is_visible() for decay in decays] == [False, True]
    law.select_option("exponential")
    assert [decay.is_visible() for decay in decays] == [True, False]
    budget.focus()
    for _ in range(10):
        seen.page.keyboard.press("ArrowRight")
    chart.evaluate("chart => chart.view.runAsync().then(() => null)")
    compare(DecayLaw("exponential", 1, 0.9), 1.7, 1e4)
    assert "N = 10,000" in reading.inner_text()

    # drawn afresh, with the sliders where they were
    seen.page.set_viewport_size({"width": 390, "height": 800})
    seen.page.wait_for_function("document.querySelector('#fig-explorer svg').clientWidth < 390")
    compare(DecayLaw("exponential", 1, 0.9), 1.7, 1e4)
    assert slider.input_value() == "1.7"
    assert seen.complaints == []
    assert seen.outside == []


def test_a_word_is_explained_to_those_who_point_at_it_or_tab_to_it(visit):
    seen = visit("notebooks/05a_matched_statistic.html")
    word = seen.page.locator("a.word", has_text="matched statistic").first
    shown = seen.page.locator(".tooltip")
    word.hover()
    shown.wait_for()
    assert "One number for a sequence and a lag" in shown.inner_text()
    seen.page.mouse.move(0, 0)
    shown.wait_for(state="detached")
    word.focus()
    shown.wait_for()
    assert seen.complaints == []


def explorer(seen, name):
    """A chart, what it says, and a way to press a key on one of its controls some times and wait
    until it says something else."""
    chart = seen.page.locator(f"#{name} .chart")
    reading = chart.get_by_role("status")
    seen.page.wait_for_function(f"document.querySelector('#{name} .reading')?.textContent")

    def press(label, key, times=1):
        said = reading.inner_text()
        chart.get_by_label(label).and_(chart.locator("input, select")).focus()
        for _ in range(times):
            seen.page.keyboard.press(key)
        seen.page.wait_for_function(
            f"said => document.querySelector('#{name} .reading').textContent !== said", arg=said
        )
        chart.evaluate("chart => chart.view.runAsync().then(() => null)")

    return chart, reading, press


def test_keys_move_gates_to_the_window_of_the_package(visit):
    seen = visit("notebooks/B_scalar_gates.html")
    chart, reading, press = explorer(seen, "fig-gates")
    press("gate s, median neuron", "ArrowLeft", 10)  # 0.15
    press("spread of its log-odds", "ArrowRight", 3)  # 1.3
    press("sequences, log₁₀ N", "ArrowRight", 20)  # 5
    gates = special.expit(special.logit(0.15) + 1.3 * special.ndtri((np.arange(32) + 0.5) / 32))
    tau = -1 / np.log1p(-gates)
    assert 1 / np.array(chart.evaluate("chart => chart.view.signal('rates')")) == pytest.approx(tau)
    lags = np.arange(1, 1000)
    exact = learnability_window(
        lags, sample_complexity(mixture_envelope(lags, tau) / 32, 1, 1, 1.5), [1e5]
    )[0]
    drawn = chart.evaluate("chart => chart.view.signal('window')")
    assert int(drawn) == exact
    assert f"window {drawn:.4g} steps" in reading.inner_text()
    assert (seen.complaints, seen.outside) == ([], [])


def test_keys_browse_a_recorded_run(visit):
    seen = visit("book/browse.html", 390)
    _, reading, press = explorer(seen, "fig-browse-small")
    run = load(ROOT / "book" / "results" / "small.nc")
    zeroth = probes(run, "zeroth", "error")
    whole = windows(zeroth, 1024, **LETTER)
    said = ", ".join(
        f"{model} {float(whole.sel(model=model).median()):g}" for model in run.model.values
    )
    assert reading.inner_text() == f"Window at N = 1,024, in steps: {said}."
    press("way to N(ℓ)", "ArrowUp")  # paper_v2
    press("sequences N", "ArrowUp", 3)  # 128
    press("cells", "ArrowDown", 3)  # DiagGate
    press("networks", "ArrowDown", 2)  # the second seed
    both = windows(zeroth, 128, rate="paper_v2").sel(model="DiagGate").isel(seed=1).values
    assert (
        reading.inner_text()
        == f"Window at N = 128, in steps: {', '.join(f'DiagGate {steps}' for steps in both)}."
    )
    assert (seen.complaints, seen.outside) == ([], [])
