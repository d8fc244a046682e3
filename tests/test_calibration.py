"""Calibration: the truth that is drawn, what a rule should do by its definition, and what it
does."""

import numpy as np
import pytest

from benchmarks.planted import PLANTED, REST, counts, draw, whole_scale
from lwcore.detection import sample_complexity
from lwcore.experiment.config import Config
from lwcore.inference import false_detections
from lwcore.stable import SymmetricStable, fit
from lwcore.stats import binomial

SETTINGS = Config.named("smoke").diagnostics.model_copy(update={"significance": 0.05})
NOTHING = [0.0] * 6


def within(hits, trials, probability, level=0.999):
    _, low, high = binomial(hits, trials, level)
    return (low <= probability) & (probability <= high)


@pytest.mark.parametrize("alpha", [1.3, 2.0])
def test_drawn_signals_need_the_number_of_sequences_that_was_planted(alpha):
    numbers = draw(alpha, 50, 2000, np.random.default_rng(0))
    whole = (1 + REST**alpha) ** (1 / alpha)
    planted = np.array(PLANTED)
    strong = planted > 1
    shifts = numbers.statistic.median(["trial", "probe", "sequence"])  # a stable law's centre
    needed = sample_complexity(1.0, shifts.values[strong], whole, alpha)
    np.testing.assert_allclose(50 / needed, planted[strong], rtol=0.1)
    assert abs(shifts.values[-1]) < 0.02

    of_lag = numbers.statistic
    of_whole = numbers.projection
    noises = [noise.values[:, 0, -1].ravel() for noise in (of_lag, of_whole - of_lag, of_whole)]
    fitted = fit(np.stack(noises, axis=-1), "ecf")
    np.testing.assert_allclose(fitted.alpha, alpha, atol=0.02)
    np.testing.assert_allclose(fitted.scale, [1, REST, whole], rtol=0.02)


@pytest.mark.slow
def test_lags_are_seen_as_often_as_the_law_says():
    trials = 100
    alpha = 1.6
    numbers = draw(alpha, 400, trials, np.random.default_rng(3))
    counted = counts(numbers, SETTINGS, 6).sel(rule="plug-in", rate="mean")
    # the chance that the mean of a known law reaches the noise's 0.9-quantile
    law = SymmetricStable(alpha)
    reach = law.ppf(0.9)
    whole = whole_scale(alpha)
    planted = np.array(PLANTED) ** (1 - 1 / alpha) * whole
    nominal = {"own": law.cdf(reach * (planted - 1)), "whole": law.cdf(reach * (planted - whole))}
    for noise, chance in nominal.items():
        seen = counted.seen.sel(noise=noise).squeeze("probe")
        assert within(seen.values, trials, chance, 0.9999).mean() >= 0.9, noise
    window = counted.sel(noise="whole", view="gradient")
    beyond = 1 - np.prod(1 - nominal["whole"][6:])
    assert within(window.too_long, trials, beyond, 0.9999)
    assert int(window.too_long) + int(window.too_short) < trials


def test_false_detections_keep_the_level_whatever_the_signal():
    rng = np.random.default_rng(7)
    noise = rng.standard_t(3, (2, 5, 60))
    assert within(false_detections(noise, 0.1, rng, 400), 400, 0.1)
    # signs are shared by all lags: below the level
    assert binomial(false_detections(noise + 3, 0.1, rng, 400), 400).low < 0.1
