"""The pipeline on statistics whose answer is known, on null controls, and on a small network."""

import copy

import numpy as np
import pytest
import torch
import xarray as xr
from scipy import stats

from lwcore import gradient, inference, stable
from lwcore.detection import sample_complexity
from lwcore.experiment import measure as measuring
from lwcore.experiment.config import Config, DiagnosticSettings
from lwcore.experiment.measure import observe
from lwcore.inference import detected, required, signal_and_noise, significant, windows
from lwcore.network import Network
from lwcore.stable import SymmetricStable
from lwcore.stats import holm
from lwcore.tasks import DelayedRegression, sample
from lwcore.transport import effective_rates, envelope
from lwcore.window import time_scales
from tests.networks import flat, make

LAGS = [1, 2, 4, 8, 16]
SHIFTS = np.array([0.6, 0.5, 0.4, 0.3, 0.25])
SETTINGS = DiagnosticSettings(
    sequences=400, lags=LAGS, ends=3, directions=2, budgets=[10, 100, 1000]
)
RUN = Config.named("quick").replace(diagnostics=SETTINGS.model_dump())


def planted(alpha, shifts, count, seed=2):
    """Observations of a known law: SαS noise of scale 1/2 around a known shift at each lag, and 10
    times that in the whole gradient.

    Four probes, two that see the paper's statistic at zeroth order, with f = 32, 16, 8, 4, 2, and
    two that have no envelope.
    """
    law = SymmetricStable(alpha, 0.5)
    rng = np.random.default_rng(seed)
    noise = law.sample((2, 4, len(LAGS), count), rng)
    signal = np.zeros_like(noise)
    signal[0] = np.asarray(shifts)[:, None]
    dims = ("source", "probe", "lag", "sequence")
    variables = {
        "envelope": (("order", "lag"), [[32.0, 16.0, 8.0, 4.0, 2.0]]),
        "statistic": (dims, signal + noise),
        "projection": (dims, 10 * law.sample(noise.shape, rng)),
    }
    views = ("probe", ["zeroth", "zeroth", "gradient", "gradient"])
    places = {"order": ["zeroth"], "lag": LAGS, "source": ["error", "noise"], "view": views}
    return xr.Dataset(variables, places)


def kept(observed, factor=1.0):
    """What is kept of one number a sequence, in some unit, as a run keeps it."""
    numbers = factor * observed[["statistic", "projection"]]
    result = signal_and_noise(observed.assign(numbers)).assign(envelope=observed.envelope)
    return result.assign_attrs(configuration=RUN.model_dump_json())


def test_significant_is_students_test_with_holms_procedure():
    """A family is a network's probes and lags; each has its own number of sequences."""
    shift = np.linspace(0, 0.7, 10).reshape(2, 5, 1)
    x = np.random.default_rng(0).standard_normal((40, 2, 5, 30)) + shift
    error = x.std(-1, ddof=1) / np.sqrt(30)
    p = stats.ttest_1samp(x, 0, axis=-1, alternative="greater").pvalue
    expected = holm(p.reshape(40, 10), 0.05).reshape(p.shape)
    np.testing.assert_array_equal(significant(x.mean(-1), error, 30, 0.05), expected)
    exact = [significant([[2.0, 0.0, -1.0]], zero, 30, 0.05).tolist() for zero in (0.0, -0.0)]
    assert exact == [[[True, False, False]]] * 2

    of_400 = kept(planted(1.8, [0.05] * 5, 400, seed=1))
    of_3 = of_400.assign(n_measured=3)
    seen = detected(xr.concat([of_400, of_3], "network"), 0.05)
    assert seen.sel(source="error").any(("probe", "lag")).values.tolist() == [True, False]


def test_a_family_is_the_probes_and_lags_of_a_view():
    """p = 0.02 is below 0.05 over the two of its view, and above 0.05 over all three."""
    views = {"view": ("probe", ["zeroth", "gradient", "zeroth"])}
    p = xr.DataArray([[0.9], [0.9], [0.02]], views, ["probe", "lag"])
    signal = p.copy(data=stats.norm.isf(p))
    error = xr.ones_like(p)
    result = xr.Dataset({"signal": signal, "signal_error": error, "n_measured": 10**6})
    by_view = detected(result, 0.05)
    assert by_view.values.tolist() == [[False], [False], [True]]
    assert by_view.view.equals(p.view)
    assert not significant(signal, error, 10**6, 0.05).any()


def test_planted_signal_gives_the_known_sample_complexity():
    """Means of an α = 1.8 law concentrate with p = 2.25; Gaussian ones, N = (z s/Δ)², with 2."""
    result = kept(planted(1.8, SHIFTS, 20000))
    assert detected(result).sel(source="error").all()
    for detector in ("mean", "likelihood", "paper_v2"):
        for noise, scale in (("own", 0.5), ("whole", 5.0)):
            expected = sample_complexity(1.0, SHIFTS, scale, 1.8, 0.1, detector)
            needed = (
                required(result, detector=detector, noise=noise).sel(source="error").mean("probe")
            )
            np.testing.assert_allclose(needed, expected, rtol=0.5)
    assert 2.0 < float(result.exponent.sel(source="error").median()) < 2.6
    of_whole = required(result, **inference.OPTIMISER_VIEW, error=0.2, rule="plug-in")
    exact = (stats.norm.isf(0.2) * result.deviation.sel(noise="whole") / result.signal) ** 2
    np.testing.assert_allclose(of_whole.sel(source="error"), exact.sel(source="error"))
    noise_alone = {"source": "noise"}
    assert (required(result).sel(noise_alone) == np.inf).all()
    assert np.isfinite(required(result, rule="plug-in").sel(noise_alone)).any()
    result = kept(planted(2.0, SHIFTS, 20000)).sel(source="error")
    needed = required(result, detector="variance").mean("probe")
    np.testing.assert_allclose(needed, stats.norm.ppf(0.9) ** 2 * 0.5 / SHIFTS**2, rtol=0.1)
    assert float(result.exponent.median()) == pytest.approx(2, abs=0.15)


def test_what_is_kept_is_what_numpy_says_of_the_numbers():
    observed = planted(1.8, SHIFTS, 400)
    result = kept(observed)
    own = result.sel(noise="own")
    x = observed.statistic.values
    deviation = x.std(-1, ddof=1)
    np.testing.assert_allclose(result.signal, x.mean(-1))
    np.testing.assert_allclose(result.signal_error, deviation / 20)
    np.testing.assert_allclose(own.deviation, deviation)
    of_whole = observed.projection.values.std(-1, ddof=1)
    np.testing.assert_allclose(result.deviation.sel(noise="whole"), of_whole)

    fitted = stable.fit(x[0, :2].reshape(-1, 400).T)
    of_error = own.sel(source="error")
    np.testing.assert_allclose(of_error.scale[:2].values.ravel(), fitted.scale)
    assert float(of_error.alpha[1]) == np.median(fitted.alpha)

    blocks = x.reshape(*x.shape[:-1], 25, 16)
    of_means = stats.iqr(blocks.mean(-1), axis=-1)
    of_singles = np.median(stats.iqr(blocks, axis=-2), axis=-1)  # of 25 at a time, as of means
    np.testing.assert_allclose(own.exponent, -np.log(16) / np.log(of_means / of_singles))


def test_letter_of_v2_counts_the_envelope_twice():
    result = kept(planted(1.8, SHIFTS, 2000)).sel(source="error")
    f_once = required(result, rule="plug-in", detector="paper_v2")
    f_twice = required(result, rule="plug-in", **inference.PAPER_V2)
    alpha = float(result.alpha.sel(noise="own").isel(probe=0))
    envelope_of_lags = np.array([32.0, 16, 8, 4, 2])
    np.testing.assert_allclose((f_once / f_twice)[0], envelope_of_lags**alpha)
    assert (f_twice.isel(probe=[2, 3]) == np.inf).all(), "a view without an envelope"


def test_rescaled_statistic_changes_nothing_but_its_unit():
    factor = 1e-170
    observed = planted(1.7, [0.3, 0.2, 0.1, 0.0, -0.1], 500)
    plain = kept(observed)
    scaled = kept(observed, factor)
    # v2 to the letter multiplies a number with a unit by f, which keeps its own
    for detector in inference.DETECTORS:
        expected = required(plain, detector=detector)
        xr.testing.assert_allclose(required(scaled, detector=detector), expected, rtol=1e-9)
    xr.testing.assert_equal(detected(scaled), detected(plain))
    for name in ("signal", "signal_error"):
        xr.testing.assert_allclose(scaled[name], factor * plain[name], rtol=1e-9, atol=0)


def test_what_carries_nothing_is_not_detected():
    """Rates that have underflowed to 0 leave a statistic that is 0 throughout."""
    observed = planted(1.7, [0.5, 0.4, 0.3, 0.2, 0.0], 500, seed=3)
    underflown = observed.statistic.where(observed.lag != 16, 0.0)
    result = kept(observed.assign(statistic=underflown))
    assert not detected(result).sel(lag=16).any()
    assert (required(result, rule="plug-in").sel(lag=16) == np.inf).all()
    assert np.isfinite(required(result).sel(lag=1, source="error")).all()
    for rule in inference.RULES:
        assert (windows(kept(observed, factor=0), rule=rule) == 0).all()


@pytest.fixture
def small():
    """A network, sequences and settings small enough to measure at once."""
    network = Network(make("DiagGate", hidden_size=5), torch.Generator().manual_seed(1))
    task = DelayedRegression(20, [1, 3], [0.7, 0.5], 0.3, [1.0, 0.0, 0.0])
    settings = DiagnosticSettings(
        sequences=450, lags=[1, 3, 4], ends=3, directions=2, budgets=[100]
    )
    return network, sample(task, 450, np.random.default_rng(0)), settings


def in_view(observed, view):
    """The numbers of the first probe of a view."""
    return observed.isel(probe=observed.view.values.tolist().index(view))


def test_observed_rates_are_those_of_the_second_half(small):
    """In float64, of a copy: the network is left as it was."""
    network, sequences, settings = small
    before = copy.deepcopy(network.float())
    observed = observe(*small, seed=1)
    for value, expected in zip(network.parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(value, expected, rtol=0, atol=0)
    trace = network.cell.double().trace(sequences.inputs[225:].double())
    for order in settings.orders:
        # three of the end points 4..19, evenly spaced
        rates = effective_rates(trace, settings.lags, order, [9, 14, 19])
        sizes = rates.abs().mean((0, 1)).numpy()
        of_order = observed.sel(order=order)
        np.testing.assert_allclose(of_order.rate, sizes, rtol=1e-10)
        np.testing.assert_allclose(of_order.negative, (rates < 0).double().mean((0, 1, 3)))
        np.testing.assert_allclose(of_order.envelope, envelope(rates), rtol=1e-10)
        np.testing.assert_allclose(of_order.time_scale, time_scales(settings.lags, sizes))


def test_whole_view_is_the_gradient_taken_apart_by_lag(small):
    """Along a random direction the lag's part and the whole gradient, per sequence, against
    `lag_gradients`, which tests hold against autograd."""
    network, sequences, _ = small
    whole = in_view(observe(*small, seed=1), "whole")
    direction = gradient.random_direction(network.cell, torch.Generator().manual_seed(1))
    w = flat(direction.values())
    for n in (0, 100, 224):
        x = sequences.inputs[225 + n : 226 + n].double()
        y = sequences.targets[225 + n : 226 + n].double()
        trace = network.cell.trace(x)
        errors = {"error": network.residual(trace.outputs, y), "target": -y}
        for source, error in errors.items():
            delta = network.loss_gradients(error) / 16
            delta[:, :4] = 0  # end points 4..19 leave room for the longest lag
            by_lag = gradient.lag_vectors(trace, delta) @ w
            of_sequence = whole.sel(source=source).isel(sequence=n)
            np.testing.assert_allclose(of_sequence.projection[0], by_lag.sum(), rtol=1e-9)
            # the sign is that of the other half's mean
            sizes = by_lag[[1, 3, 4]].abs()
            np.testing.assert_allclose(abs(of_sequence.statistic), sizes, rtol=1e-9)


def test_paper_views_are_the_matched_statistic(small):
    network, sequences, settings = small
    observed = observe(*small, seed=1)
    ends = range(4, 20)
    w = gradient.random_direction(network.cell, torch.Generator().manual_seed(1))

    def trace_and_alignments(half):
        inputs = sequences.inputs[half].double()
        trace, delta = network.observe(inputs, sequences.targets[half].double())
        sensitivity = gradient.immediate_sensitivity(trace, w)
        return trace, gradient.alignment(delta, sensitivity, settings.lags, ends)

    _, alignments = trace_and_alignments(slice(0, 225))
    signs = alignments.mean((0, 1)).sign()
    trace, alignments = trace_and_alignments(slice(225, 450))
    rates = effective_rates(trace, settings.lags, "first", ends)
    expected = gradient.matched_statistic(rates, alignments, signs)
    statistic = in_view(observed, "first").statistic.sel(source="error")
    np.testing.assert_allclose(statistic, expected.t(), rtol=1e-9)


def test_null_control_is_noise_of_the_errors_size_and_has_no_mean(small):
    """Signs taken from the very sequences they are applied to would give T a positive mean out of
    noise."""
    draws = []
    for seed in range(6):
        draws.append(observe(*small, seed=seed, sources=["noise"]).statistic)
    statistic = xr.concat(draws, "draw")
    z = statistic.mean("sequence") / statistic.std("sequence", ddof=1) * np.sqrt(225)
    # 6 draws × 3 lags: at the most three standard errors of a mean of 6 independent ones
    assert (abs(z.mean(("draw", "source", "lag"))) < 3 / np.sqrt(6)).all()
    spread = in_view(observe(*small, seed=0), "whole").projection.std(("lag", "sequence"))
    assert 0.3 < float(spread.sel(source="noise") / spread.sel(source="error")) < 3


def test_batch_size_changes_nothing_but_rounding(small, monkeypatch):
    of_sizes = []
    for size in (64, 30):
        monkeypatch.setattr(measuring, "BATCH", size)
        of_sizes.append(observe(*small, seed=1, sources=["target", "error"]))
    xr.testing.assert_allclose(*of_sizes, rtol=1e-9)
