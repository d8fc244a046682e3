"""Estimators compared on runs whose numbers are drawn from known laws, and the sequences they need
against brute force."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from book.chapters import robust, tables_robust
from book.chapters.resampling import ESTIMATORS
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


@pytest.mark.parametrize(
    ("shift", "bias", "whole"), [(0.2, 0.0, 42), (0.2, 0.1, 74), (0.2, -0.1, 74)]
)
def test_error_at_the_number_needed(shift, bias, whole):
    """A Gaussian estimate about ±Δ + b: at N the wrong signs of both hypotheses average to ε; one
    sequence fewer is not enough."""
    needed = float(robust.sequences_for_sign(shift, bias, 1.0, 0.1))
    assert np.ceil(needed) == whole
    wrong = [
        stats.norm.cdf(0, loc=shift + bias, scale=m**-0.5)
        + stats.norm.sf(0, loc=bias - shift, scale=m**-0.5)
        for m in (needed, needed - 1)
    ]
    assert wrong[0] / 2 == pytest.approx(0.1, rel=1e-9)
    assert wrong[1] / 2 > 0.1


def test_bias_only_hurts_and_hides_what_is_smaller():
    free, biased, hidden, nothing = robust.sequences_for_sign(
        0.2, [0.0, 0.1, 0.2, 0.0], [1.0, 1.0, 1.0, 0.0], 0.1
    )
    assert free == pytest.approx((stats.norm.ppf(0.9) / 0.2) ** 2)
    assert free < biased < np.inf
    assert np.isinf(hidden)
    assert np.isinf(nothing)


@pytest.mark.parametrize(
    ("draw", "median"),
    [(np.random.Generator.normal, 2 / np.pi), (np.random.Generator.laplace, 2.0)],
)
def test_gain_of_the_median_is_its_efficiency(draw, median):
    """4 p(0)² times the variance, in the limit: 2/π for a Gaussian, 2 for a Laplace law."""
    study = robust.study(
        made_run(draw, [0.3, 0.3, 0.3]), "whole", "whole", np.random.default_rng(1)
    )
    gain = study.gain.median(("probe", "lag")).mean("seed").squeeze()
    assert float(gain.sel(estimator="median")) == pytest.approx(median, rel=0.3)
    assert float(gain.sel(estimator="mean")) == 1


def test_number_for_the_mean_is_the_normal_one_in_both_noises():
    shift = np.array([0.5, 0.3, 0.2])
    made = made_run(np.random.Generator.normal, shift, noise_scale=2.0)
    for noise, scale in (("own", 1.0), ("whole", 2.0)):
        needed = robust.study(made, "gradient", noise, np.random.default_rng(2)).required.sel(
            estimator="mean"
        )
        expected = (stats.norm.ppf(0.9) * scale / shift) ** 2
        np.testing.assert_allclose(needed.mean(("seed", "probe")).squeeze(), expected, rtol=0.35)


def test_bias_of_a_skewed_law_is_found_and_paid_for():
    """The median of an exponential law lies 1 − log 2 below its mean: it gets the sign of a smaller
    mean wrong, or never tells it."""
    made = made_run(centred_exponential, [0.2, 0.25, 0.6])
    bias = np.log(2) - 1
    for noise in ("own", "whole"):
        study = robust.study(made, "whole", noise, np.random.default_rng(3))
        found = study.bias.sel(estimator="median").mean(("seed", "probe")).squeeze()
        np.testing.assert_allclose(found, bias, atol=0.06)
        assert (abs(study.bias) > 2 * study.bias_error).sel(estimator="median").all()
        median = study.required.sel(estimator="median")
        assert np.isinf(median.sel(lag=[1, 2])).all()
        assert np.isfinite(median.sel(lag=4)).all()
        np.testing.assert_array_equal(
            np.unique(study.window.sel(estimator="median", budget=1024)), [4]
        )
        np.testing.assert_array_equal(
            np.unique(study.window.sel(estimator="mean", budget=1024)), [4]
        )
    assert list(study.budget.values) == [8, 64, 1024], "no N beyond the sequences measured"


def test_lags_not_detected_are_not_judged():
    made = made_run(np.random.Generator.normal, [0.5, 0.5, 0.5])
    made["signal"] = made.signal.where(made.lag < 4, -1.0)
    study = robust.study(made, "whole", "own", np.random.default_rng(4))
    assert study.required.sel(lag=4).isnull().all()
    assert int(study.window.max()) == 2


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


@pytest.fixture(scope="module")
def compared():
    made = made_run(np.random.Generator.laplace, [0.5, 0.4, 0.3])
    return made, robust.studies(made, np.random.default_rng(6))


def test_tables_name_every_case(compared):
    studies = compared[1]
    assert list(tables_robust.exponents(studies).columns) == list(robust.CASES)
    assert list(tables_robust.by_model(studies["inside the whole gradient"]).columns) == ["GRU"]
    assert list(tables_robust.gains(studies).columns) == list(ESTIMATORS[1:])
    assert (
        tables_robust.biases(studies)["lags never told"].str.split(" of ").str[0].astype(int) == 0
    ).all()
