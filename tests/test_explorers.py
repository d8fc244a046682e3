"""The explorer of gates draws the numbers of the package, and the browser those of the run."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
import xarray as xr
from scipy import optimize, special, stats

from book import charts as interactive
from lwcore.detection import detection_threshold, sample_complexity
from lwcore.inference import OPTIMISER, probes, required, windows
from lwcore.results import load
from lwcore.window import learnability_window, mixture_envelope, time_scales
from tests.built_book import ROOT
from tests.vega import drawn, signals

pytestmark = pytest.mark.slow

GATES = [  # gate, spread, log₁₀ noise, α, rate, log₁₀ N
    (0.005, 1.5, -0.5, 1.9, "optimal", 2.4),  # the slowest to find
    (0.005, 2, -1, 2, "paper_v2", 8),
    (0.95, 0.1, 1, 1.05, "mean", 2),  # no window
]

# A chart takes a second to make.
gate_explorer = cache(interactive.gate_explorer)


@pytest.mark.parametrize(("gate", "spread", "log_noise", "alpha", "rate", "log_n"), GATES)
def test_gates_give_time_scales_envelope_and_window(gate, spread, log_noise, alpha, rate, log_n):
    sliders = {
        "gate": gate,
        "spread": spread,
        "log_noise": log_noise,
        "alpha": alpha,
        "rate": rate,
        "log_budget": log_n,
    }
    chart = gate_explorer()
    gates, tau = np.array(drawn(chart, "neurons", ["gate", "time_scale"], **sliders), float)
    assert special.logit(gates) == pytest.approx(
        stats.norm(special.logit(gate), spread or 1e-12).ppf((np.arange(32) + 0.5) / 32), abs=1e-9
    )
    retained = (1 - gates) ** np.arange(1, 9)[:, None]
    assert tau == pytest.approx(time_scales(np.arange(1, 9), retained), rel=1e-6)

    def per_neuron(lags):
        return mixture_envelope(np.atleast_1d(lags), tau) / 32

    law = (10**log_noise, alpha, 0.1, rate)
    lag, envelope = np.array(drawn(chart, "envelope", ["lag", "value"], **sliders), float)
    assert envelope == pytest.approx(per_neuron(lag), rel=1e-9)
    reached, needed = np.array(
        drawn(chart, "growth", ["window", "budget"], **sliders) or [[], []], float
    )
    assert (needed.size == 0) == (gate == 0.95 and alpha == 1.05 and rate == "mean")
    if needed.size:  # C has ten digits, and p is up to 21
        assert needed == pytest.approx(
            sample_complexity(per_neuron(reached), 1, *law), rel=1e-8 * 21
        )

    threshold = detection_threshold(10**log_n, 1, *law)
    found = signals(chart, ["threshold", "window", "needed"], **sliders)
    assert found[0] == pytest.approx(threshold, rel=1e-9)
    assert found[2] == pytest.approx(sample_complexity(per_neuron(1), 1, *law)[0], rel=1e-8 * 21)
    if per_neuron(1) < threshold:
        assert found[1] == 0
        return
    assert found[1] == pytest.approx(
        optimize.brentq(lambda x: per_neuron(x)[0] - threshold, 1, 1e6, xtol=1e-9, rtol=1e-12),
        rel=1e-7,
    )
    whole = np.arange(1, int(found[1]) + 3)
    assert (
        int(found[1])
        == learnability_window(whole, sample_complexity(per_neuron(whole), 1, *law), [10**log_n])[0]
    )


@pytest.fixture(scope="module")
def run():
    return load(ROOT / "book" / "results" / "quick.nc")


@pytest.fixture(scope="module")
def browser(run):
    return interactive.results_browser(run)


def chosen(run, view, source="error"):
    own = probes(run, view, source)
    return xr.Dataset({"required": required(own, **OPTIMISER), "window": windows(own, **OPTIMISER)})


@pytest.mark.parametrize(
    ("seed", "look", "view", "order"),
    [("1001", 0, "zeroth", "zeroth"), ("median", 3, "gradient", "exact")],
)
def test_browser_shows_what_was_measured(run, browser, seed, look, view, order):
    choices = {"model": "DiagGate", "seed": seed, "look": look, "noise": 1, "estimate": 1, "at": 3}
    one = chosen(run, view).sel(model="DiagGate")
    envelope = run.envelope.sel(model="DiagGate", order=order)
    if seed == "median":
        one, envelope = one.median(("seed", "probe")).expand_dims("probe"), envelope.median("seed")
    else:
        one, envelope = one.sel(seed=int(seed)), envelope.sel(seed=int(seed))

    def numbers(column):
        return [np.nan if value == "null" else float(value) for value in column]

    lag, value = drawn(browser, "envelope", ["lag", "value"], **choices)
    assert numbers(lag) == run.lag.values.tolist()
    assert numbers(value) == pytest.approx(envelope.values, rel=5e-3)
    needed = one.required.transpose("probe", "lag")
    assert numbers(drawn(browser, "required", ["needed"], **choices)[0]) == pytest.approx(
        needed.where(needed < 1e10).values.ravel(), rel=5e-3, nan_ok=True
    )
    window = one.window.transpose("probe", "budget")
    direction, budget, steps = map(
        numbers, drawn(browser, "window", ["direction", "budget", "steps"], **choices)
    )
    assert direction == np.repeat(np.arange(len(window.probe)), len(window.budget)).tolist()
    assert budget == np.tile(window.budget, len(window.probe)).tolist()
    assert steps == pytest.approx(window.where(window > 0).values.ravel(), rel=5e-3, nan_ok=True)
    words = ", ".join(
        f"DiagGate {steps:g}" if steps else "DiagGate none"
        for steps in window.isel(budget=3).values
    )
    assert set(drawn(browser, "reading", ["reading"], **choices)[0]) == {
        f"Window at N = 64, in steps: {words}."
    }
    null = drawn(browser, "control", ["steps"], **choices)[0]
    assert numbers(null) == pytest.approx(
        [
            n or np.nan
            for n in chosen(run, view, "noise").window.max(("model", "seed", "probe")).values
        ],
        nan_ok=True,
    )


def test_browser_shows_all_cells_at_once(run, browser):
    assert set(drawn(browser, "envelope", ["model"])[0]) == set(run.model.values)
    one = interactive.results_browser(run.isel(seed=[0])).to_dict()
    (seeds,) = [
        parameter["bind"]["options"] for parameter in one["params"] if parameter["name"] == "seed"
    ]
    assert seeds == ["212"]


def test_browser_refuses_what_has_no_windows():
    with pytest.raises(ValueError, match="of a run, with envelope, signal and scale"):
        interactive.results_browser(load(ROOT / "book" / "results" / "spectra.nc"))


def test_runs_weigh_little():
    charts = [
        interactive.results_browser(load(ROOT / "book" / "results" / f"{name}.nc"))
        for name in ("small", "paper-v2")
    ]
    assert (
        sum(len(json.dumps(chart.to_dict(), separators=(",", ":"))) for chart in charts) < 400_000
    )
