"""Calibration: the truth that is drawn, what a rule should do by its definition, and what it
does."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from book.chapters import calibration
from book.chapters.calibration import PLANTED, REST, counts, draw
from lwcore.config import DiagnosticSettings
from lwcore.detection import sample_complexity
from lwcore.inference import false_detections
from lwcore.stable import SymmetricStable
from lwcore.stats import binomial

SETTINGS = DiagnosticSettings(
    sequences=32,
    lags=(1,),
    ends=1,
    directions=1,
    orders=("exact",),
    significance=0.05,
    budgets=(1,),
)
NOTHING = [0.0] * 6


def within(hits, trials, probability, level=0.999):
    _, low, high = binomial(hits, trials, level)
    return (low <= probability) & (probability <= high)


@pytest.mark.parametrize("alpha", [1.3, 2.0])
def test_drawn_signals_need_the_number_of_sequences_that_was_planted(alpha):
    numbers = draw(alpha, 50, 2000, np.random.default_rng(0))
    shifts = numbers.statistic.median(["trial", "probe", "sequence"])  # a stable law's centre
    whole = (1 + REST**alpha) ** (1 / alpha)
    strong = np.array(PLANTED) > 1
    needed = sample_complexity(1.0, shifts.values[strong], whole, alpha)
    np.testing.assert_allclose(50 / needed, np.array(PLANTED)[strong], rtol=0.1)
    assert abs(shifts.values[-1]) < 0.02
    rest = (numbers.projection - numbers.statistic).values.ravel()[:4000]
    assert stats.kstest(rest / REST, SymmetricStable(alpha).cdf).pvalue > 0.001
    assert (
        stats.kstest(
            numbers.projection.values[:, 0, -1].ravel()[:4000] / whole, SymmetricStable(alpha).cdf
        ).pvalue
        > 0.001
    )


def nominal_power(alpha, planted, noise=1.0):
    """Chance that the mean of a known law reaches the noise's 0.9-quantile."""
    law, p = SymmetricStable(alpha), alpha / (alpha - 1)
    return law.cdf(law.ppf(0.9) * noise * (np.asarray(planted, float) ** (1 / p) - 1))


@pytest.mark.parametrize("alpha", [1.4, 2.0])
@pytest.mark.parametrize("noise", [1.0, 3.0])
def test_nominal_power_is_what_means_of_a_known_law_do(alpha, noise):
    """Means simulated, and held against N(ℓ) from `sample_complexity`."""
    rng, n, trials = np.random.default_rng(1), 40, 3000
    for planted in (0.0, 0.6, 3.0):
        shift = (sample_complexity(1.0, 1.0, noise, alpha) * planted / n) ** (1 - 1 / alpha)
        means = shift + SymmetricStable(alpha).sample((trials, n), rng).mean(-1)
        hits = (sample_complexity(1.0, means, noise, alpha) <= n).sum()
        assert within(hits, trials, nominal_power(alpha, planted, noise)), (planted, hits / trials)


@pytest.mark.slow
def test_false_windows_of_both_rules_are_those_of_their_definitions():
    """Gaussian numbers and the rate by their variance, where both definitions are exact but for the
    estimated variance."""
    trials = 150
    found = counts(draw(2.0, 200, trials, np.random.default_rng(2), NOTHING), SETTINGS).sel(
        rate="variance", noise="own", view="gradient"
    )
    assert within(found.too_long.sel(rule="plug-in"), trials, 1 - 0.9 ** len(NOTHING))
    assert within(found.too_long.sel(rule="tested"), trials, 0.05)
    assert within(found.seen.sel(rule="plug-in").values, trials, 0.1).all()
    assert (found.too_short == 0).all()


@pytest.mark.slow
def test_lags_are_seen_as_often_as_the_law_says():
    trials, found = 100, counts(draw(1.6, 400, 100, np.random.default_rng(3)), SETTINGS, 6)
    for noise, ratio in (("own", 1.0), ("whole", calibration.whole_scale(1.6))):
        strength = np.array(PLANTED) * (calibration.whole_scale(1.6) / ratio) ** (1.6 / 0.6)
        nominal = nominal_power(1.6, strength, ratio)
        seen = found.seen.sel(rule="plug-in", rate="mean", noise=noise).squeeze("probe")
        assert within(seen.values, trials, nominal, 0.9999).mean() >= 0.9, (
            noise,
            seen.values / trials,
            nominal,
        )
    window = found.sel(rule="plug-in", rate="mean", noise="whole", view="gradient")
    beyond = 1 - np.prod(
        1 - nominal_power(1.6, np.array(PLANTED)[6:], calibration.whole_scale(1.6))
    )
    assert within(window.too_long, trials, beyond, 0.9999)
    assert int(window.too_long) + int(window.too_short) < trials


def test_false_detections_keep_the_level_whatever_the_signal():
    rng = np.random.default_rng(7)
    noise = rng.standard_t(3, (2, 5, 60))
    assert within(false_detections(noise, 0.1, rng, 400), 400, 0.1)
    # signs are shared by all lags: below the level
    assert binomial(false_detections(noise + 3, 0.1, rng, 400), 400).low < 0.1


def test_a_view_has_a_window_if_any_of_its_probes_has():
    one = draw(2.0, 50, 40, np.random.default_rng(6), NOTHING)
    parts = {
        name: xr.concat([one[name], -one[name]], "probe").assign_coords(
            view=("probe", ["gradient"] * 2)
        )
        for name in ("statistic", "projection")
    }
    two = xr.Dataset(parts)
    found = counts(two, SETTINGS).sel(rule="plug-in", rate="variance", noise="own")
    single = [
        counts(two.isel(probe=[i]), SETTINGS).sel(rule="plug-in", rate="variance", noise="own")
        for i in (0, 1)
    ]
    assert int(found.too_long.max()) > max(int(s.too_long.max()) for s in single)
    assert set(found.seen.dims) == {"probe", "lag"}
