"""Widths, analysis of variance and phases against closed forms."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from book.chapters import spectra


def test_width_counts_decades_between_quantiles():
    """Without unit or order; what has no time scale has no part."""
    tau = np.geomspace(0.3, 30, 101)
    of = {
        1.6: [tau, 7 * tau[::-1], [*tau, np.nan, np.nan]],
        0: [np.full(9, 2.5)],
        np.inf: [[1, 2, 3, 4, np.inf, np.inf]],
    }
    for expected, spectrums in of.items():
        for values in spectrums:
            found = spectra.width(xr.DataArray(np.asarray(values, float), dims="unit"))
            assert float(found) == pytest.approx(expected)
    assert float(spectra.quantile(xr.DataArray(tau, dims="unit"), 0.9)) == pytest.approx(
        0.3 * 100**0.9
    )


def test_learned_share_is_a_projection_on_what_was_planted():
    results = xr.Dataset(
        {
            "course_learned": (("snapshot", "task_lag"), [[0.6, 0.3], [0.3, 0.15], [-0.3, 0.6]]),
            "planted": ("delay", [0.0, 0.6, 0.0, 0.3]),
        },
        coords={"task_lag": [2, 4], "delay": [1, 2, 3, 4]},
    )
    np.testing.assert_allclose(spectra.learned_share(results), [1, 0.5, 0], atol=1e-15)


def test_variance_shares_of_known_effects():
    sizes = {"a": 2, "b": 3, "c": 2}
    a, b, c = (xr.DataArray(np.linspace(-1, 1, n), dims=d) for d, n in sizes.items())
    noise = xr.DataArray([0.0, 5.0], dims="seed")
    shares = spectra.variance_shares(3 * a + 2 * b + 1.5 * a * c + noise, ["a", "b", "c"])
    parts = np.array([9, 4 * 2 / 3, 0, 1.5**2])  # variances: 1 of ±1, 2/3 of −1, 0, 1
    assert shares.source.values.tolist() == ["a", "b", "c", "interactions"]
    np.testing.assert_allclose(shares, np.tile(parts / parts.sum(), (2, 1)).T, atol=1e-12)
    assert spectra.variance_shares(0 * a + b * 0 + 0.1, ["a", "b"]).isnull().all()
    with pytest.raises(ValueError, match=r"factors = \['a', 'd'\]: must be among"):
        spectra.variance_shares(a + b, ["a", "d"])


@pytest.mark.parametrize("size", [0.0, 0.5])
def test_width_is_regressed_on_what_was_learned_and_on_the_optimiser(size):
    """Widths of 1 + 2·share + 3·adaptive plus noise; against NumPy's correlations, and the whole
    explained where there is no noise."""
    share, noise = np.random.default_rng(1).random((2, 2, 4, 2, 5))
    adaptive = np.array([0, 1])[:, None, None, None] + 0 * share
    wide = 1 + 2 * share + 3 * adaptive + size * noise
    wide[:, :, 1] = 0  # a cell whose neurons share a time scale
    tau = 10 ** (np.linspace(-1, 1, 101) * wide[..., None, None, None] / 1.6)
    dims = ("optimizer", "task", "model", "seed", "snapshot")
    variables = {
        "course_time_scale": ((*dims, "order", "unit"), tau),
        "course_learned": ((*dims, "task_lag"), share[..., None, None]),
        "planted": ("delay", [1.0]),
    }
    places = {"optimizer": ["sgd", "adamw"], "model": ["LSTM", "SharedGate"]}
    places |= {"order": ["zeroth"], "task_lag": [3], "delay": [3]}
    found = spectra.learning_and_optimiser(xr.Dataset(variables, places))
    columns = {"y": wide, "share": share, "adaptive": adaptive}
    kept = pd.DataFrame({name: one[:, :, 0].ravel() for name, one in columns.items()}).corr()
    r, s, t = kept["y"]["share"], kept["y"]["adaptive"], kept["share"]["adaptive"]
    both = (r**2 + s**2 - 2 * r * s * t) / (1 - t**2)
    np.testing.assert_allclose(found[["share learned", "optimiser", "both"]], [r**2, s**2, both])
    assert (both == pytest.approx(1)) == (size == 0)


def test_split_adds_up():
    rate = xr.DataArray([[1.0, 2.0], [0.5, 0.0]], dims=("lag", "unit"))
    split = spectra.split_envelope(rate, xr.DataArray([3.0, 0.5], dims="unit"))
    np.testing.assert_array_equal(split.to_array().T, [[3.0, 1.0, 4.0], [0.5, 1.0, 1.5]])
