"""The pipeline on statistics whose answer is known, on null controls, and on a small network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr

from lwcore import measure as measuring
from lwcore.bounds import sample_complexity
from lwcore.cells import ConstGate, DiagGate
from lwcore.config import DiagnosticSettings
from lwcore.measure import infer, observe, significant
from lwcore.network import Network
from lwcore.stable import SymmetricStable
from lwcore.tasks import DelayedRegression, sample
from lwcore.transport import effective_rates, envelope
from tests.test_cells import make

LAGS = [1, 2, 4, 8, 16]
SETTINGS = DiagnosticSettings(sequences=400, lags=LAGS, ends=3, directions=2, budgets=[10, 100, 1000])


def holm_by_the_book(p, level):
    """Sort, walk up, stop at the first p-value above level/(number left)."""
    rejected = np.zeros(len(p), bool)
    for step, i in enumerate(np.argsort(p)):
        if p[i] > level / (len(p) - step):
            break
        rejected[i] = True
    return rejected


def planted(alpha, shifts, count, rng):
    """Observations with a known law: SαS noise of scale 1/2 around a known shift at each lag; rates that make f = 32, 16, 8, 4, 2."""
    law = SymmetricStable(alpha, 0.5)
    shape = (2, 2, 2, 1, len(LAGS), count)
    noise = law.sample(shape, rng)
    signal = np.zeros(shape)
    signal[:, 0] = np.asarray(shifts)[:, None]
    rate = np.repeat([[[16.0], [8.0], [4.0], [2.0], [1.0]]], 2, axis=2)
    return xr.Dataset(
        {
            "rate": (("order", "lag", "unit"), rate),
            "statistic": (("signs", "source", "direction", "order", "lag", "sequence"), signal + noise),
            "projection": (("source", "direction", "sequence"), 10 * law.sample((2, 2, count), rng)),
        },
        coords={"order": ["exact"], "lag": LAGS, "signs": ["transported", "printed"], "source": ["error", "noise"]},
    )


def test_significant_is_holms_procedure():
    from scipy import stats

    rng = np.random.default_rng(0)
    statistics = rng.standard_normal((4, 2, 5, 30)) + rng.uniform(-0.2, 1, (4, 2, 5, 1))
    ours = significant(statistics, 0.05)
    for one, decided in zip(statistics, ours, strict=True):
        p = stats.ttest_1samp(one.reshape(10, 30), 0, axis=1, alternative="greater").pvalue
        np.testing.assert_array_equal(decided.ravel(), holm_by_the_book(p, 0.05))
    assert ours.any()
    assert not ours.all()


@pytest.mark.parametrize("alpha", [1.2, 1.6, 2.0])
def test_false_detections_stay_below_the_level(alpha):
    """Family-wise error over 20 tests at 10 %, 1500 draws: at most the level plus four standard errors, for any tail."""
    draws = SymmetricStable(alpha).sample((1500, 2, 10, 60), np.random.default_rng(1))
    false = significant(draws, 0.1).any((1, 2)).mean()
    assert false <= 0.1 + 4 * np.sqrt(0.1 * 0.9 / 1500)


def test_planted_signal_gives_the_known_sample_complexity():
    shifts = [0.6, 0.5, 0.4, 0.3, 0.25]
    result = infer(planted(1.8, shifts, 20000, np.random.default_rng(2)), SETTINGS)
    assert result.detected.sel(source="error").all()
    np.testing.assert_allclose(result.envelope.sel(order="exact"), [32, 16, 8, 4, 2])
    needed = result.required.sel(source="error", signs="printed", order="exact", rule="tested").mean("direction")
    exact = sample_complexity(np.ones(5), np.array(shifts), 0.5, 1.8, 0.1, "mean")
    np.testing.assert_allclose(needed.sel(noise_definition="lag", rate_exponent="mean"), exact, rtol=0.3)
    ten_times_the_noise = sample_complexity(np.ones(5), np.array(shifts), 5.0, 1.8, 0.1, "mean")
    np.testing.assert_allclose(needed.sel(noise_definition="total", rate_exponent="mean"), ten_times_the_noise, rtol=0.5)
    windows = result.window.sel(source="error", signs="printed", order="exact", rule="tested", noise_definition="lag", rate_exponent="mean")
    expected = [
        max(
            [lag for lag, n in zip(LAGS, needed.sel(noise_definition="lag", rate_exponent="mean").values, strict=True) if n <= budget],
            default=0,
        )
        for budget in (10, 100, 1000)
    ]
    np.testing.assert_array_equal(windows.isel(direction=0), expected)


@pytest.mark.parametrize("factor", [1e-12, 1e6])
def test_rescaled_statistic_changes_nothing_but_its_unit(factor):
    observed = planted(1.7, [0.3, 0.2, 0.1, 0.0, -0.1], 500, np.random.default_rng(3))
    plain = infer(observed, SETTINGS)
    scaled = infer(observed.assign(statistic=factor * observed.statistic, projection=factor * observed.projection), SETTINGS)
    xr.testing.assert_equal(scaled.window, plain.window)
    xr.testing.assert_equal(scaled.detected, plain.detected)
    xr.testing.assert_allclose(scaled.required, plain.required, rtol=1e-9)
    xr.testing.assert_allclose(scaled.signal, factor * plain.signal, rtol=1e-9, atol=0)


def test_lag_that_carries_nothing_is_not_detected():
    """Rates that have underflowed to 0 leave a statistic that is 0 throughout."""
    observed = planted(1.7, [0.5, 0.4, 0.3, 0.2, 0.0], 500, np.random.default_rng(3))
    gone = observed.lag == 16
    result = infer(observed.assign(rate=observed.rate.where(~gone, 0.0), statistic=observed.statistic.where(~gone, 0.0)), SETTINGS)
    assert not result.detected.sel(lag=16).any()
    assert (result.required.sel(lag=16) == np.inf).all()
    assert np.isfinite(result.required.sel(lag=1, source="error", noise_definition="lag")).all()


def test_order_of_sequences_changes_nothing():
    observed = planted(1.7, [0.3, 0.2, 0.1, 0.0, -0.1], 500, np.random.default_rng(3))
    shuffled = observed.isel(sequence=np.random.default_rng(4).permutation(500))
    xr.testing.assert_allclose(infer(shuffled, SETTINGS), infer(observed, SETTINGS), rtol=1e-9)


def test_window_of_pure_noise_is_empty_when_tested():
    """200 nulls of 400 sequences at the 1 % level: a window in 1 % plus four standard errors; the plug-in rule finds one in most."""
    rng = np.random.default_rng(5)
    results = [infer(planted(1.6, [0.0] * 5, 400, rng), SETTINGS).window for _ in range(50)]
    null = xr.concat(results, "draw").sel(noise_definition="lag", rate_exponent="mean", budget=1000)
    any_direction = (null > 0).any("direction").stack(network=["draw", "signs", "source", "order"])
    assert any_direction.sel(rule="tested").mean() <= 0.01 + 4 * np.sqrt(0.01 * 0.99 / 200)
    assert any_direction.sel(rule="plug-in").mean() > 0.5


def small_network(kind=DiagGate):
    """A network, sequences and settings small enough to measure at once."""
    network = Network(make(kind, hidden_size=5), torch.Generator().manual_seed(1))
    task = DelayedRegression(20, [1, 3], [0.7, 0.5], 0.3, [1.0, 0.0, 0.0])
    settings = DiagnosticSettings(sequences=450, lags=[1, 3, 4], ends=3, directions=2, budgets=[100])
    return network, sample(task, 450, np.random.default_rng(0)), settings, [6, 12, 19]


def test_observed_rates_are_those_of_the_second_half():
    network, sequences, settings, ends = small_network()
    observed = observe(network, sequences, settings, ends, seed=1)
    trace = network.double().cell.trace(sequences.inputs[225:].double())
    for order in settings.orders:
        rates = effective_rates(trace, settings.lags, order, ends)
        np.testing.assert_allclose(observed.rate.sel(order=order), rates.abs().mean((0, 1)), rtol=1e-10)
        np.testing.assert_allclose(observed.negative.sel(order=order), (rates < 0).double().mean((0, 1, 3)), rtol=1e-10)
        np.testing.assert_allclose(infer(observed, settings).envelope.sel(order=order), envelope(rates), rtol=1e-10)


def test_batch_size_changes_nothing_but_rounding(monkeypatch):
    network, sequences, settings, ends = small_network()
    draws = torch.randn(450, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    handed_out = 0

    def same_noise(shape, **_):
        """Hand the null control's noise out sequence by sequence, so that it does not depend on how they are batched."""
        nonlocal handed_out
        handed_out += shape[0]
        return draws[handed_out - shape[0] : handed_out]

    directions = [measuring.random_direction(network.double().cell, torch.Generator().manual_seed(i)) for i in range(2)]
    results = []
    for batch in (64, 7):
        handed_out = 0
        given = iter(directions)
        monkeypatch.setattr(measuring, "BATCH", batch)
        monkeypatch.setattr(measuring, "random_direction", lambda *_, given=given: next(given))
        with monkeypatch.context() as patch:
            patch.setattr(torch, "randn", same_noise)
            results.append(observe(network, sequences, settings, ends, seed=1))
    xr.testing.assert_allclose(results[0], results[1], rtol=1e-9, atol=1e-12)


def test_transported_signs_make_the_mean_positive_where_printed_ones_do_not():
    """A strongly negative coupling turns first-order rates negative (the counterexample to Lemma 5.1), and T with signs of E[a] flips."""
    network, sequences, settings, ends = small_network(ConstGate)
    with torch.no_grad():
        network.cell.weight_hh.copy_(-2.0 * torch.eye(5))
    observed = observe(network, sequences, settings, ends, seed=1)
    assert observed.negative.sel(order="first", lag=3) > 0.5
    result = infer(observed, settings).sel(source="error", order="first", lag=3)
    z = (result.signal / result.signal_error).mean("direction")
    assert z.sel(signs="printed") < -3
    assert z.sel(signs="transported") > 3


def test_network_is_left_as_it_was():
    network, sequences, settings, ends = small_network()
    network = network.float()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    observe(network, sequences, settings, ends, seed=1)
    for name, value in network.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, before[name])
