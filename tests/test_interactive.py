"""The formulas that charts compute in a page give the numbers of the package; Vega itself evaluates
them here, without a browser."""

from __future__ import annotations

from functools import cache

import altair as alt
import numpy as np
import pytest

from book import charts as interactive
from lwcore.detection import detection_threshold, rate_exponent, sample_complexity
from lwcore.results import load
from lwcore.window import DecayLaw
from tests.built_book import ROOT
from tests.vega import drawn, signals, svg

pytestmark = pytest.mark.slow


CHARTS = {
    "window_explorer": cache(interactive.window_explorer),  # which takes two seconds to make
    "gate_explorer": interactive.gate_explorer,
    "results_browser": lambda: interactive.results_browser(
        load(ROOT / "book" / "results" / "quick.nc")
    ),
}


SETTINGS = [  # law, its parameter, log₁₀ noise, α, ε, rate, log₁₀ N
    ("exponential", 0.5, -1, 1.05, 0.01, "mean", 8),
    ("exponential", 0.995, 1, 2.0, 0.4, "optimal", 0),
    ("power", 3.0, -0.35, 1.1, 0.07, "paper_v2", 2.2),
    ("logarithmic", None, -1, 1.35, 0.29, "optimal", 1.9),
    ("power", 1.0, 1, 1.5, 0.1, "mean", 1),  # no window
]


def at(name, decay, log_noise, alpha, error, rate, log_n):
    """A decay law, and the sliders that choose it and the rest."""
    decay = (
        {"exponential": 0.9, "power": 1.0, "logarithmic": float("nan")}[name]
        if decay is None
        else decay
    )
    sliders = {
        "law": name,
        "log_noise": log_noise,
        "alpha": alpha,
        "error": error,
        "rate": rate,
        "log_budget": log_n,
    }
    sliders |= {"exponential": {"lambda": decay}, "power": {"beta": decay}, "logarithmic": {}}[name]
    return DecayLaw(name, 1, decay), sliders


@pytest.mark.parametrize(
    ("name", "decay", "log_noise", "alpha", "error", "rate", "log_n"), SETTINGS
)
def test_explorer_computes_what_the_package_does(name, decay, log_noise, alpha, error, rate, log_n):
    law, sliders = at(name, decay, log_noise, alpha, error, rate, log_n)
    threshold = detection_threshold(10.0**log_n, 1, 10**log_noise, alpha, error, rate)
    expected = {
        "exponent": rate_exponent(alpha, rate),
        "constant": detection_threshold(1, 1, 1, alpha, error, rate),
        "threshold": threshold,
        "needed": sample_complexity(law.envelope(1), 1, 10**log_noise, alpha, error, rate),
        "window": law.inverse(np.log(threshold)),
    }
    steepness = (
        law.amplitude / threshold
        if name == "logarithmic"
        else max(rate_exponent(alpha, rate), 1 / law.decay)
    )
    assert signals(CHARTS["window_explorer"](), expected, **sliders) == pytest.approx(
        [float(v) for v in expected.values()], rel=1e-9 * max(1, steepness)
    )  # C has ten digits


@pytest.mark.parametrize(
    ("name", "decay", "log_noise", "alpha", "error", "rate", "log_n"), SETTINGS[2:]
)
def test_explorer_draws_what_the_package_computes(
    name, decay, log_noise, alpha, error, rate, log_n
):
    law, sliders = at(name, decay, log_noise, alpha, error, rate, log_n)
    chart = CHARTS["window_explorer"]()
    lag, envelope = np.array(drawn(chart, "envelope", ["lag", "value"], **sliders), float)
    assert envelope == pytest.approx(law.envelope(lag), rel=1e-12)
    budget, window = np.array(
        drawn(chart, "growth", ["budget", "window"], **sliders) or [[], []], float
    )
    exact = (
        law.inverse(np.log(detection_threshold(budget, 1, 10**log_noise, alpha, error, rate)))
        if budget.size
        else budget
    )
    assert window == pytest.approx(exact, rel=1e-7)
    assert (budget.size > 0) == (
        sample_complexity(law.envelope(1), 1, 10**log_noise, alpha, error, rate) <= 1e8
    )


@pytest.mark.parametrize("name", CHARTS)
def test_chart_is_complete(name):
    spec = CHARTS[name]().to_dict()
    assert len(spec["description"]) > 40
    assert svg(spec).count("<path") > 3
    bound = [parameter["bind"] for parameter in spec.get("params", []) if "bind" in parameter]
    assert all(len(bind["name"]) > 4 for bind in bound)


def test_every_public_function_is_tried():
    assert set(interactive.__all__) == {*CHARTS, "use_book_style"}


def test_a_chart_goes_into_a_page_as_one_inert_element():
    before = alt.renderers.active
    interactive.use_book_style()
    try:
        bundle = CHARTS["window_explorer"]()._repr_mimebundle_()
    finally:
        alt.renderers.enable(before)
    assert bundle["text/html"].startswith(
        '<div class="chart" role="group" aria-label="Two panels that follow'
    )
    assert "http" not in bundle["text/html"].replace(alt.SCHEMA_URL, "")
    assert bundle["text/html"].count("</script>") == 1
    assert any("vegalite" in kind for kind in bundle)
