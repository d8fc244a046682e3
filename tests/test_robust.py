"""Estimators compared on runs whose numbers are drawn from known laws."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from book.chapters import robust

SEQUENCES = 1024


def made_run(draw, lags=3):
    """A run of two networks whose numbers are drawn; the whole gradient's are the same at all
    lags."""
    rng, views = np.random.default_rng(0), ["zeroth", "whole", "whole", "gradient"]
    shape = {"model": 1, "seed": 2, "probe": len(views), "lag": lags, "sequence": SEQUENCES}
    statistic = xr.DataArray(draw(rng, size=tuple(shape.values())), dims=list(shape))
    of_one = tuple((shape | {"lag": 1}).values())
    projection = xr.DataArray(draw(rng, size=of_one), dims=list(shape))
    return xr.Dataset(
        {
            "statistic": statistic,
            "projection": projection.isel(lag=[0] * lags),
            "alpha": (("model", "seed", "source", "probe", "noise"), np.full((1, 2, 1, 4, 2), 1.7)),
        },
        {
            "source": ["error"],
            "view": ("probe", views),
            "lag": 1 + np.arange(lags),
            "noise": ["own", "whole"],
        },
    )


def test_bias_of_a_skewed_law_and_the_deviation_of_its_mean():
    """The median of an exponential law lies 1 − log 2 below its mean, and its mean has σ = 1."""
    made = made_run(np.random.Generator.exponential)
    for noise in ("own", "whole"):
        study = robust.study(made, "whole", noise, np.random.default_rng(3))
        found = study.bias.sel(estimator="median").mean(("seed", "probe")).squeeze()
        np.testing.assert_allclose(found, np.log(2) - 1, atol=0.06)
        assert (abs(study.bias) > 2 * study.bias_error).sel(estimator="median").all()
        deviation = study.deviation.sel(estimator="mean").mean(("seed", "probe"))
        np.testing.assert_allclose(deviation, 1, atol=0.15)


def test_control_tells_stable_numbers_from_gaussian_ones():
    """Of 100 lags the exponent takes every fifth: one column gives it with an error near 0.1, the
    median of 20 with one near 0.03."""
    made = made_run(np.random.Generator.normal, lags=100)
    study = robust.study(made, "gradient", "own", np.random.default_rng(5))
    assert study.implied.values == pytest.approx(1.7 / 0.7)
    assert (study.exponent.sel(estimator="mean") < 2.1).all()
    assert (study.control.sel(estimator="mean") > 2.1).all()
    # the largest Gaussian number has a known median
    gaussian = stats.norm.isf((1 - 0.5 ** (1 / SEQUENCES)) / 2)
    np.testing.assert_allclose(study.largest, gaussian, rtol=0.2)
    assert (study.largest_control > 2 * gaussian).all()
    # the deviation of the median is its efficiency, √(π/2) of the mean's in the limit
    median, mean = (study.deviation.sel(estimator=name).mean() for name in ("median", "mean"))
    assert float(median / mean) == pytest.approx((np.pi / 2) ** 0.5, rel=0.1)


def test_largest_number_tells_a_giant_whatever_scale_and_location():
    """One number of size g among n − 1 zeros lies √(n − 1) standard deviations from the mean, for
    every g."""
    samples = xr.DataArray(np.zeros((2, SEQUENCES)), dims=("column", "sequence"))
    samples[:, 7] = [3.0, -1e6]
    np.testing.assert_allclose(robust.largest(samples + 5), (SEQUENCES - 1) ** 0.5)
