"""The pipeline on statistics whose answer is known, on null controls, and on a small network."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
import xarray as xr
from scipy import stats

from lwcore import measure as measuring
from lwcore import stable
from lwcore.config import Config, DiagnosticSettings
from lwcore.detection import sample_complexity
from lwcore.gradient import (
    alignment,
    immediate_sensitivity,
    lag_gradients,
    matched_statistic,
    random_direction,
)
from lwcore.inference import (
    LETTER,
    NOISES,
    RATES,
    RULES,
    config_of,
    detected,
    deviation,
    required,
    significant,
    summary,
    windows,
)
from lwcore.measure import observe
from lwcore.network import Network
from lwcore.stable import SymmetricStable
from lwcore.tasks import DelayedRegression, sample
from lwcore.transport import effective_rates, envelope
from lwcore.window import time_scales
from tests.networks import make

LAGS = [1, 2, 4, 8, 16]
SETTINGS = DiagnosticSettings(
    sequences=400, lags=LAGS, ends=3, directions=2, budgets=[10, 100, 1000]
)
RUN = Config.named("quick").but(diagnostics=SETTINGS.model_dump())


def holm_by_the_book(p, level):
    """Sort, walk up, stop at the first p-value above level/(number left)."""
    rejected = np.zeros(len(p), bool)
    for step, i in enumerate(np.argsort(p)):
        if p[i] > level / (len(p) - step):
            break
        rejected[i] = True
    return rejected


def planted(alpha, shifts, count, rng):
    """Observations of a known law: SαS noise of scale 1/2 around a known shift at each lag, and 10
    times that in the whole gradient.

    Four probes, two that see the paper's statistic at zeroth order, with f = 32, 16, 8, 4, 2, and
    two that have no envelope.
    """
    law = SymmetricStable(alpha, 0.5)
    noise = law.sample((2, 4, len(LAGS), count), rng)
    signal = np.zeros_like(noise)
    signal[0] = np.asarray(shifts)[:, None]
    dims = ("source", "probe", "lag", "sequence")
    return xr.Dataset(
        {
            "envelope": (("order", "lag"), [[32.0, 16.0, 8.0, 4.0, 2.0]]),
            "statistic": (dims, signal + noise),
            "projection": (dims, 10 * law.sample(noise.shape, rng)),
        },
        coords={
            "order": ["zeroth"],
            "lag": LAGS,
            "source": ["error", "noise"],
            "view": ("probe", ["zeroth", "zeroth", "gradient", "gradient"]),
        },
    )


def kept(observed):
    """What is kept of one number a sequence, as a run keeps it."""
    return (
        summary(observed)
        .assign(envelope=observed.envelope)
        .assign_attrs(configuration=RUN.model_dump_json())
    )


def decided(statistics, level):
    count = statistics.shape[-1]
    return significant(statistics.mean(-1), deviation(statistics) / np.sqrt(count), count, level)


def test_significant_is_holms_procedure():
    rng = np.random.default_rng(0)
    shift = np.linspace(0, 0.7, 10).reshape(2, 5, 1)
    statistics = rng.standard_normal((40, 2, 5, 30)) + shift
    ours = decided(statistics, 0.05)
    more_than_bonferroni = 0
    for one, found in zip(statistics, ours, strict=True):
        p = stats.ttest_1samp(one.reshape(10, 30), 0, axis=1, alternative="greater").pvalue
        np.testing.assert_array_equal(found.ravel(), holm_by_the_book(p, 0.05))
        more_than_bonferroni += int((found.ravel() != (p <= 0.005)).any())
    assert more_than_bonferroni > 3, "these data cannot tell Holm's procedure from Bonferroni's"


def test_each_network_is_tested_with_its_own_number_of_sequences():
    mean, error = np.full((2, 1, 3), 2.5), np.ones((2, 1, 3))
    np.testing.assert_array_equal(significant(mean, error, [5, 500], 0.05)[:, 0, 0], [False, True])
    one = kept(planted(1.8, [0.05] * 5, 400, np.random.default_rng(1)))
    networks = xr.concat([one, one.assign(n_measured=3)], "network")
    assert detected(networks, 0.05).sel(source="error").any(("probe", "lag")).values.tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize("factor", [1e-300, 1e-162, 1e200])
def test_significance_does_not_depend_on_the_unit(factor):
    statistics = np.random.default_rng(0).standard_normal((200, 1, 3, 50)) + np.array(
        [[[0.0], [0.3], [0.6]]]
    )
    np.testing.assert_array_equal(decided(factor * statistics, 0.05), decided(statistics, 0.05))


@pytest.mark.parametrize("alpha", [1.2, 1.6, 2.0])
def test_false_detections_stay_below_the_level(alpha):
    """Family-wise error over 20 tests at 10 %, 1500 draws: at most the level plus four standard
    errors, for any tail."""
    draws = SymmetricStable(alpha).sample((1500, 2, 10, 60), np.random.default_rng(1))
    false = decided(draws, 0.1).any((1, 2)).mean()
    assert false <= 0.1 + 4 * np.sqrt(0.1 * 0.9 / 1500)


def test_a_family_is_the_probes_and_lags_of_a_view():
    """p = 0.02 is below 0.05 over the two lags of its view, and above 0.05 over the four of
    both."""
    p = xr.DataArray(
        [[0.02, 0.9], [0.9, 0.9]], {"view": ("probe", ["zeroth", "gradient"])}, ["probe", "lag"]
    )
    result = xr.Dataset(
        {
            "signal": p.copy(data=stats.norm.isf(p)),
            "signal_error": xr.ones_like(p),
            "n_measured": 10**6,
        }
    )
    assert detected(result, 0.05).values.tolist() == [[True, False], [False, False]]
    assert not significant(result.signal, result.signal_error, 10**6, 0.05).any()


def test_planted_signal_gives_the_known_sample_complexity():
    shifts = np.array([0.6, 0.5, 0.4, 0.3, 0.25])
    result = kept(planted(1.8, shifts, 20000, np.random.default_rng(2)))
    assert detected(result).sel(source="error").all()
    for rate in ("mean", "optimal", "paper_v2"):
        for noise, scale in (("own", 0.5), ("whole", 5.0)):
            expected = sample_complexity(1.0, shifts, scale, 1.8, 0.1, rate)
            needed = required(result, rate=rate, noise=noise).sel(source="error").mean("probe")
            np.testing.assert_allclose(needed, expected, rtol=0.5)
    assert 2.0 < float(result.exponent.sel(source="error").median()) < 2.6, (
        "means of an α = 1.8 law concentrate with p = 2.25"
    )


def test_gaussian_noise_has_the_textbook_sample_complexity():
    """N = (z s/Δ)², and means concentrate with p = 2."""
    shifts = np.array([0.6, 0.5, 0.4, 0.3, 0.25])
    result = kept(planted(2.0, shifts, 20000, np.random.default_rng(2)))
    variance = 2 * 0.5**2
    needed = required(result, rate="variance").sel(source="error").mean("probe")
    np.testing.assert_allclose(needed, 1.2815515655446004**2 * variance / shifts**2, rtol=0.1)
    assert float(result.exponent.sel(source="error").median()) == pytest.approx(2, abs=0.15)


def test_what_is_kept_is_what_numpy_says_of_the_numbers():
    observed = planted(1.8, [0.6, 0.5, 0.4, 0.3, 0.25], 400, np.random.default_rng(2))
    result, x = kept(observed), observed.statistic.values
    np.testing.assert_allclose(result.signal, x.mean(-1))
    np.testing.assert_allclose(result.signal_error, x.std(-1, ddof=1) / 20)
    np.testing.assert_allclose(result.deviation.sel(noise="own"), x.std(-1, ddof=1))
    np.testing.assert_allclose(
        result.deviation.sel(noise="whole"), observed.projection.values.std(-1, ddof=1)
    )
    fitted = stable.fit(x[0, :2].reshape(-1, 400).T)
    np.testing.assert_allclose(
        result.scale.sel(noise="own", source="error").values[:2].ravel(), fitted.scale
    )
    assert float(result.alpha.sel(noise="own", source="error")[1]) == np.median(fitted.alpha)
    blocks = x.reshape(*x.shape[:-1], -1, 16).mean(-1)
    ratio = np.subtract(*np.quantile(blocks, [0.75, 0.25], -1)) / np.subtract(
        *np.quantile(x, [0.75, 0.25], -1)
    )
    np.testing.assert_allclose(result.exponent.sel(noise="own"), -np.log(16) / np.log(ratio))


def test_letter_of_v2_counts_the_envelope_twice():
    result = kept(planted(1.8, [0.6, 0.5, 0.4, 0.3, 0.25], 2000, np.random.default_rng(2)))
    once, letter = (
        required(result, rule="plug-in", **how).sel(source="error")
        for how in ({"rate": "paper_v2"}, LETTER)
    )
    alpha = float(result.alpha.sel(source="error", noise="own").isel(probe=0))
    np.testing.assert_allclose(
        (once / letter).isel(probe=0), np.array([32.0, 16, 8, 4, 2]) ** alpha, rtol=1e-9
    )
    assert (letter.isel(probe=[2, 3]) == np.inf).all(), "a view without an envelope"


def test_windows_are_read_off_the_required_numbers():
    result = (
        kept(planted(1.8, [0.6, 0.5, 0.4, 0.3, 0.25], 20000, np.random.default_rng(2)))
        .sel(source="error")
        .isel(probe=[0])
    )
    needed = required(result, noise="whole").squeeze("probe").values
    for budget in SETTINGS.budgets:
        seen = [lag for lag, n in zip(LAGS, needed, strict=True) if n <= budget]
        unseen = [lag for lag, n in zip(LAGS, needed, strict=True) if n > budget]
        expected = {"supremum": max(seen, default=0)}
        expected["first_passage"] = max(
            [lag for lag in seen if lag < min(unseen, default=99)], default=0
        )
        for definition, steps in expected.items():
            found = windows(result, noise="whole", definition=definition)
            assert (
                found.sel(budget=budget)
                == steps
                == windows(result, budget, noise="whole", definition=definition)
            )


def test_settings_of_the_decision_are_used():
    result = kept(planted(1.8, [0.3, 0.2, 0.1, 0.05, 0.02], 400, np.random.default_rng(2)))
    at = {"source": "error", "lag": 1}
    assert (
        required(result, rule="plug-in", error=0.01).sel(at)
        > required(result, rule="plug-in").sel(at)
    ).all()
    xr.testing.assert_equal(required(result, error=0.1, level=0.01), required(result))
    strict = required(result, level=1e-9)
    assert np.isinf(strict).sum() > np.isinf(required(result)).sum()
    assert not np.isinf(strict.where(detected(result, 1e-9), drop=True)).any()


@pytest.mark.parametrize("factor", [1e-12, 1e6, 1e-170])
def test_rescaled_statistic_changes_nothing_but_its_unit(factor):
    observed = planted(1.7, [0.3, 0.2, 0.1, 0.0, -0.1], 500, np.random.default_rng(3))
    plain = kept(observed)
    scaled = kept(
        observed.assign(
            statistic=factor * observed.statistic, projection=factor * observed.projection
        )
    )
    for rate in RATES:  # v2 to the letter multiplies a number with a unit by f, which keeps its own
        xr.testing.assert_equal(windows(scaled, rate=rate), windows(plain, rate=rate))
        xr.testing.assert_allclose(
            required(scaled, rate=rate), required(plain, rate=rate), rtol=1e-9
        )
    xr.testing.assert_equal(detected(scaled), detected(plain))
    xr.testing.assert_allclose(scaled.signal, factor * plain.signal, rtol=1e-9, atol=0)
    xr.testing.assert_allclose(scaled.signal_error, factor * plain.signal_error, rtol=1e-9, atol=0)


def test_lag_that_carries_nothing_is_not_detected():
    """Rates that have underflowed to 0 leave a statistic that is 0 throughout."""
    observed = planted(1.7, [0.5, 0.4, 0.3, 0.2, 0.0], 500, np.random.default_rng(3))
    gone = observed.lag == 16
    result = kept(observed.assign(statistic=observed.statistic.where(~gone, 0.0)))
    assert not detected(result).sel(lag=16).any()
    assert (required(result, rule="plug-in").sel(lag=16) == np.inf).all()
    assert np.isfinite(required(result).sel(lag=1, source="error")).all()


def test_network_that_carries_nothing_at_all_has_no_window():
    """Saturated gates, say, or a readout of zeros: every number is 0, no law can be fitted, and
    nothing is detected."""
    observed = planted(1.7, [0.5, 0.4, 0.3, 0.2, 0.1], 300, np.random.default_rng(3))
    result = kept(
        observed.assign(statistic=0 * observed.statistic, projection=0 * observed.projection)
    )
    assert all(
        (windows(result, rule=rule, noise=noise) == 0).all() for rule in RULES for noise in NOISES
    )


def test_order_of_sequences_changes_nothing():
    observed = planted(1.7, [0.3, 0.2, 0.1, 0.0, -0.1], 500, np.random.default_rng(3))
    shuffled = kept(observed.isel(sequence=np.random.default_rng(4).permutation(500)))
    # blocks are cut in order
    xr.testing.assert_allclose(
        shuffled.drop_vars("exponent"), kept(observed).drop_vars("exponent"), rtol=1e-9
    )


@pytest.mark.slow
def test_window_of_pure_noise_is_empty_when_tested():
    """100 nulls of 400 sequences at the 1 % level: a window in 1 % plus four standard errors; the
    plug-in rule finds one in most."""
    rng = np.random.default_rng(5)
    nulls = xr.concat(
        [kept(planted(1.6, [0.0] * 5, 400, rng)) for _ in range(25)], "draw", data_vars="all"
    )
    share = {
        rule: (windows(nulls, 1000, rule=rule) > 0).groupby("view").any("probe").mean()
        for rule in RULES
    }
    assert share["tested"] <= 0.01 + 4 * np.sqrt(0.01 * 0.99 / 100)
    assert share["plug-in"] > 0.5


def test_a_run_is_read_with_its_configuration_and_a_sweep_with_that_of_its_first_point():
    result = kept(planted(1.8, [0.3, 0.2, 0.1, 0.05, 0.02], 400, np.random.default_rng(2)))
    assert config_of(result) == RUN
    sweep = Config.named("single-lag-start")
    first = next(iter(sweep.points().values()))
    assert config_of(result.assign_attrs(configuration=sweep.model_dump_json())) == first


def small_network(kind="DiagGate"):
    """A network, sequences and settings small enough to measure at once."""
    network = Network(make(kind, hidden_size=5), torch.Generator().manual_seed(1))
    task = DelayedRegression(20, [1, 3], [0.7, 0.5], 0.3, [1.0, 0.0, 0.0])
    settings = DiagnosticSettings(
        sequences=450, lags=[1, 3, 4], ends=3, directions=2, budgets=[100]
    )
    return network, sample(task, 450, np.random.default_rng(0)), settings


@pytest.mark.parametrize("available", [1, 2, 7, 33])
def test_compared_end_points_are_distinct_and_spread_evenly(available):
    for count in range(1, available + 1):
        chosen = measuring._spread_out(list(range(10, 10 + available)), count)
        assert len(set(chosen)) == count
        assert chosen[-1] == 9 + available
        gaps = {after - before for before, after in pairwise(chosen)}
        assert not gaps or max(gaps) - min(gaps) <= 1


def test_observed_rates_are_those_of_the_second_half():
    network, sequences, settings = small_network()
    observed = observe(network, sequences, settings, seed=1)
    trace = network.double().cell.trace(sequences.inputs[225:].double())
    for order in settings.orders:
        # three of the end points 4..19, evenly spaced
        rates = effective_rates(trace, settings.lags, order, [9, 14, 19])
        np.testing.assert_allclose(
            observed.rate.sel(order=order), rates.abs().mean((0, 1)), rtol=1e-10
        )
        np.testing.assert_allclose(
            observed.negative.sel(order=order), (rates < 0).double().mean((0, 1, 3)), rtol=1e-10
        )
        np.testing.assert_allclose(observed.envelope.sel(order=order), envelope(rates), rtol=1e-10)
        np.testing.assert_allclose(
            observed.time_scale.sel(order=order),
            time_scales(settings.lags, rates.abs().mean((0, 1)).numpy()),
        )


def test_whole_view_is_the_gradient_taken_apart_by_lag():
    """Along a random direction the lag's part and the whole gradient, per sequence, against
    autograd and `lag_gradients`."""
    network, sequences, settings = small_network()
    observed = observe(network, sequences, settings, seed=1)
    network = network.double()
    inputs, targets = sequences.inputs[225:].double(), sequences.targets[225:].double()
    direction = random_direction(network.cell, torch.Generator().manual_seed(1))
    whole = observed.isel(probe=int(np.flatnonzero(observed.view == "whole")[0]))
    names = list(dict(network.cell.named_parameters()))
    for n in (0, 100, 224):
        for source, error in (("error", None), ("target", -targets[n : n + 1])):
            states = network.cell(inputs[n : n + 1])
            residual = (
                (network.readout(states) - targets[n : n + 1])
                if error is None
                else error + 0 * states.sum()
            )
            delta = network.loss_gradients(residual.detach())
            delta[:, :4] = 0  # end points 4..19 leave room for the longest lag
            pulled = torch.autograd.grad(
                (states * delta / 16).sum(), list(network.cell.parameters())
            )
            along = sum((g * direction[k]).sum() for g, k in zip(pulled, names, strict=True))
            np.testing.assert_allclose(
                whole.projection.sel(source=source).isel(lag=0, sequence=n), along.item(), rtol=1e-9
            )
            parts = lag_gradients(network.cell.trace(inputs[n : n + 1]), delta / 16, settings.lags)
            expected = np.array(
                [sum((parts[k][i] * direction[k]).sum() for k in names).item() for i in range(3)]
            )
            ours = whole.statistic.sel(source=source).isel(sequence=n).values
            # the sign is that of the other half's mean
            np.testing.assert_allclose(np.abs(ours), np.abs(expected), rtol=1e-9)


def test_paper_views_are_the_matched_statistic():
    network, sequences, settings = small_network()
    observed = observe(network, sequences, settings, seed=1)
    network = network.double()
    w = random_direction(network.cell, torch.Generator().manual_seed(1))
    ends = range(4, 20)

    def aligned(part):
        trace = network.cell.trace(sequences.inputs[part].double())
        delta = network.loss_gradients(
            network.residual(trace.outputs, sequences.targets[part].double())
        )
        return trace, alignment(delta, immediate_sensitivity(trace, w), settings.lags, ends)

    signs = aligned(slice(0, 225))[1].mean((0, 1)).sign()
    trace, second = aligned(slice(225, 450))
    for view in ("zeroth", "first"):
        expected = matched_statistic(
            effective_rates(trace, settings.lags, view, ends), second, signs
        )
        probe = int(np.flatnonzero(observed.view == view)[0])
        np.testing.assert_allclose(
            observed.statistic.sel(source="error").isel(probe=probe), expected.t(), rtol=1e-9
        )


def test_null_control_is_noise_of_the_errors_size_and_has_no_mean():
    """Signs taken from the very sequences they are applied to would give T a positive mean out of
    noise."""
    network, sequences, settings = small_network()
    z = []
    for seed in range(12):
        observed = observe(network, sequences, settings, seed=seed)
        null = observed.statistic.sel(source="noise")
        z.append((null.mean("sequence") / null.std("sequence", ddof=1) * np.sqrt(225)).values)
    z = np.array(z)
    # 12 draws × 3 lags: at the most three standard errors of a mean of 12 independent ones
    by_probe = z.mean((0, 2))
    assert (np.abs(by_probe) < 3 / np.sqrt(12)).all(), by_probe
    ratio = (
        observed.projection.sel(source="noise").std()
        / observed.projection.sel(source="error").std()
    )
    assert 0.3 < float(ratio) < 3


def test_batch_size_changes_nothing_but_rounding(monkeypatch):
    network, sequences, settings = small_network()
    draws = torch.randn(450, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    directions = [
        random_direction(network.double().cell, torch.Generator().manual_seed(i)) for i in range(2)
    ]
    results = []
    for batch in (64, 7):
        handed_out = 0

        def same_noise(shape, **_):
            """Hand the null control's noise out sequence by sequence, so that it does not depend on
            how they are batched."""
            nonlocal handed_out
            handed_out += shape[0]
            return draws[handed_out - shape[0] : handed_out]

        given = iter(directions)
        with monkeypatch.context() as patch:
            patch.setattr(measuring, "BATCH", batch)
            patch.setattr(measuring, "random_direction", lambda *_, given=given: next(given))
            patch.setattr(torch, "randn", same_noise)
            results.append(observe(network, sequences, settings, seed=1))
    xr.testing.assert_allclose(results[0], results[1], rtol=1e-9, atol=1e-12)


def test_printed_signs_give_a_negative_mean_where_rates_are_negative():
    """A strongly negative coupling makes first-order rates negative, the counterexample to Lemma
    5.1, and with them the mean of T."""
    network, sequences, settings = small_network("ConstGate")
    with torch.no_grad():
        network.cell.weight_hh.copy_(-2.0 * torch.eye(5))
    observed = observe(network, sequences, settings, seed=1)
    assert observed.negative.sel(order="first", lag=3) > 0.5
    result = summary(observed).sel(source="error", lag=3)
    z = result.signal / result.signal_error
    assert (z.isel(probe=np.flatnonzero(result.view == "first")) < -3).all()
    assert (z.isel(probe=np.flatnonzero(result.view == "zeroth")) > 3).all()


def test_network_is_left_as_it_was():
    network, sequences, settings = small_network()
    network = network.float()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    observe(network, sequences, settings, seed=1)
    for name, value in network.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, before[name])
