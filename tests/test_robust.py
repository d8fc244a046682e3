"""Estimators compared on runs whose numbers are drawn from known laws."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from book.chapters import robust
from lwcore.config import Config
from lwcore.results import provenance

LAGS, SEQUENCES = [1, 2, 4], 1024


def made_run(draw, shift, noise_scale=1.0, lags=LAGS):
    """A run of two networks whose numbers are `shift` plus draws of mean 0; the whole gradient is
    `noise_scale` times as noisy."""
    rng = np.random.default_rng(0)
    views = ["zeroth", "whole", "whole", "gradient"]
    dims, shape = (
        ("model", "seed", "probe", "lag", "sequence"),
        (1, 2, len(views), len(lags), SEQUENCES),
    )
    whole = noise_scale * np.repeat(draw(rng, size=(*shape[:3], 1, SEQUENCES)), len(lags), axis=3)
    common = ("model", "seed", "source", "probe")
    return xr.Dataset(
        {
            "statistic": (dims, draw(rng, size=shape) + np.asarray(shift)[:, None]),
            "projection": (dims, whole),
            "alpha": ((*common, "noise"), np.full((1, 2, 1, len(views), 2), 1.7)),
            "signal": ((*common, "lag"), np.ones((1, 2, 1, len(views), len(lags)))),
            "signal_error": ((*common, "lag"), np.full((1, 2, 1, len(views), len(lags)), 1e-3)),
            "n_measured": SEQUENCES,
        },
        coords={
            "model": ["GRU"],
            "seed": [1, 2],
            "source": ["error"],
            "view": ("probe", views),
            "lag": lags,
            "noise": ["own", "whole"],
        },
        attrs=provenance(Config.named("smoke").but(diagnostics={"budgets": [8, 64, 1024, 8192]})),
    )


def centred_exponential(rng, size):
    return rng.exponential(size=size) - 1


def test_bias_of_a_skewed_law_and_the_deviation_of_its_mean():
    """The median of an exponential law lies 1 − log 2 below its mean, and its mean has σ = 1."""
    made = made_run(centred_exponential, [0.2, 0.25, 0.6])
    for noise in ("own", "whole"):
        study = robust.study(made, "whole", noise, np.random.default_rng(3))
        found = study.bias.sel(estimator="median").mean(("seed", "probe")).squeeze()
        np.testing.assert_allclose(found, np.log(2) - 1, atol=0.06)
        assert (abs(study.bias) > 2 * study.bias_error).sel(estimator="median").all()
        deviation = study.deviation.sel(estimator="mean").mean(("seed", "probe"))
        np.testing.assert_allclose(deviation, 1, atol=0.15)


def test_deviation_of_the_median_is_its_efficiency():
    """Over that of the mean: √(π/2) for a Gaussian, in the limit."""
    made = made_run(np.random.Generator.normal, [0.3] * 3)
    deviation = robust.study(made, "whole", "own", np.random.default_rng(1)).deviation
    median, mean = (deviation.sel(estimator=name).mean() for name in ("median", "mean"))
    assert float(median / mean) == pytest.approx((np.pi / 2) ** 0.5, rel=0.1)


def test_control_tells_stable_numbers_from_measured_ones():
    """Of 100 lags the exponent takes every fifth: one column gives it with an error near 0.1, the
    median of 20 with one near 0.03."""
    made = made_run(np.random.Generator.normal, [0.3] * 100, lags=list(range(1, 101)))
    study = robust.study(made, "gradient", "own", np.random.default_rng(5))
    assert study.implied.values == pytest.approx(1.7 / 0.7)
    assert (study.exponent.sel(estimator="mean") < 2.1).all()
    assert (study.control.sel(estimator="mean") > 2.1).all()


def test_largest_number_tells_a_giant_whatever_scale_and_location():
    """One number of size g among n − 1 zeros lies √(n − 1) standard deviations from the mean, for
    every g."""
    samples = xr.DataArray(np.zeros((2, SEQUENCES)), dims=("column", "sequence"))
    samples[:, 7] = [3.0, -1e6]
    np.testing.assert_allclose(robust.largest(samples + 5), (SEQUENCES - 1) ** 0.5)


def test_largest_stable_number_follows_the_tail():
    """Of Gaussian numbers the largest has a known median; stable ones of α = 1.7 have a far larger
    one."""
    made = made_run(np.random.Generator.normal, [0.3] * 3)
    study = robust.study(made, "whole", "own", np.random.default_rng(10))
    gaussian = stats.norm.isf((1 - 0.5 ** (1 / SEQUENCES)) / 2)
    np.testing.assert_allclose(study.largest, gaussian, rtol=0.2)
    assert (study.largest_control > 2 * gaussian).all()
