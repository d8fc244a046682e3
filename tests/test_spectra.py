"""Widths, analysis of variance and phases against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from book.chapters import spectra


def of_units(values):
    return xr.DataArray(np.asarray(values, float), dims="unit")


def test_width_counts_decades_between_quantiles():
    tau = np.geomspace(0.3, 30, 101)
    assert float(spectra.width(of_units(tau))) == pytest.approx(0.8 * 2)
    assert float(spectra.quantile(of_units(tau), 0.9)) == pytest.approx(0.3 * 100**0.9)
    assert float(spectra.width(of_units(7 * tau[::-1]))) == pytest.approx(0.8 * 2), (
        "no unit, no order"
    )
    assert float(spectra.width(of_units([*tau, np.nan, np.nan]))) == pytest.approx(0.8 * 2), (
        "no time scale, no part"
    )
    assert float(spectra.width(of_units(np.full(9, 2.5)))) == 0
    assert float(spectra.width(of_units([1, 2, 3, 4, np.inf, np.inf]))) == np.inf


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
    a, b, c = (
        xr.DataArray(values, dims=name)
        for name, values in {"a": [-1.0, 1.0], "b": [-1.0, 0.0, 1.0], "c": [-1.0, 1.0]}.items()
    )
    noise = xr.DataArray([0.0, 5.0], dims="seed")
    shares = spectra.variance_shares(3 * a + 2 * b + 1.5 * a * c + noise, ["a", "b", "c"])
    parts = np.array([9, 4 * 2 / 3, 0, 1.5**2])  # variances: 1 of ±1, 2/3 of −1, 0, 1
    assert shares.source.values.tolist() == ["a", "b", "c", "interactions"]
    np.testing.assert_allclose(shares, np.tile(parts / parts.sum(), (2, 1)).T, atol=1e-12)
    assert spectra.variance_shares(0 * a + b * 0 + 0.1, ["a", "b"]).isnull().all()
    with pytest.raises(ValueError, match=r"factors = \['a', 'd'\]: must be among"):
        spectra.variance_shares(a + b, ["a", "d"])


def test_width_is_regressed_on_what_was_learned_and_on_the_optimiser():
    """Widths of 1 + 2·share + 3·adaptive plus noise; against NumPy's correlations, and the whole
    explained where there is no noise."""
    rng = np.random.default_rng(1)
    share, noise = rng.random((2, 2, 4, 2, 5))
    for size in (0.0, 0.5):
        wide = 1 + 2 * share + 3 * np.array([0, 1])[:, None, None, None] + size * noise
        wide[:, :, 1] = 0  # a cell whose neurons share a time scale
        tau = 10 ** (np.linspace(-1, 1, 101) * wide[..., None, None, None] / 1.6)
        dims = ("optimizer", "task", "model", "seed", "snapshot")
        sweep = xr.Dataset(
            {
                "course_time_scale": ((*dims, "order", "unit"), tau),
                "course_learned": ((*dims, "task_lag"), share[..., None, None]),
                "planted": ("delay", [1.0]),
            },
            {
                "optimizer": ["sgd", "adamw"],
                "model": ["LSTM", "SharedGate"],
                "order": ["zeroth"],
                "task_lag": [3],
                "delay": [3],
            },
        )
        found = spectra.learning_and_optimiser(sweep)
        y, x, adaptive = (
            one[:, :, 0].ravel()
            for one in (wide, share, np.arange(2)[:, None, None, None] + 0 * wide)
        )
        r, s, t = (np.corrcoef(*pair)[0, 1] for pair in ((x, y), (adaptive, y), (x, adaptive)))
        both = (r**2 + s**2 - 2 * r * s * t) / (1 - t**2)
        np.testing.assert_allclose(
            found[["share learned", "optimiser", "both"]], [r**2, s**2, both]
        )
        assert (both == pytest.approx(1)) == (size == 0)


def test_split_adds_up():
    rate = xr.DataArray([[1.0, 2.0], [0.5, 0.0]], dims=("lag", "unit"))
    split = spectra.split_envelope(rate, xr.DataArray([3.0, 0.5], dims="unit"))
    assert split.f_gates.values.tolist() == [3.0, 0.5]
    assert split.f.values.tolist() == [4.0, 1.5]
    assert split.f_adapt.values.tolist() == [1.0, 1.0]
