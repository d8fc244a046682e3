"""Calibration: the truth that is drawn, what a rule should do by its definition, and what it
does."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.planted import PLANTED, counts, draw, whole_scale
from lwcore.experiment.config import Config
from lwcore.stable import SymmetricStable

SETTINGS = Config.named("smoke").diagnostics.model_copy(update={"significance": 0.05})


def within(hits, trials, probability, level=0.999):
    """Whether the probability is in Clopper and Pearson's interval, which inverts these tests."""
    law = stats.binom(trials, probability)
    tail = (1 - level) / 2
    return (law.sf(hits - 1) >= tail) & (law.cdf(hits) >= tail)


@pytest.mark.slow
def test_lags_are_seen_as_often_as_the_law_says():
    trials = 50
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
