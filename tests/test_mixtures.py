"""Mixtures, slopes and shapes of envelopes against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from book.chapters import mixtures

LAGS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


def measured(weights, tau):
    """Rates that are exact exponentials, one neuron letting nothing through."""
    rate = weights * np.exp(-np.array(LAGS)[:, None] / tau)
    rate[:, -1] = 0
    scales = np.where(np.arange(len(tau)) < len(tau) - 1, tau, np.nan)
    one = xr.Dataset(
        {
            "rate": (("lag", "unit"), rate),
            "time_scale": ("unit", scales),
            "envelope": ("lag", rate.sum(1)),
        },
        coords={"lag": LAGS},
    )
    return one.expand_dims(model=["LSTM"], seed=[1, 2], order=["zeroth", "exact"])


def test_mixtures_rebuild_what_is_a_mixture():
    weights, tau = np.array([1.0, 3.0, 0.5, 2.0]), np.array([1.0, 5.0, 40.0, 7.0])
    results = measured(weights, tau)
    np.testing.assert_allclose(
        mixtures.mixtures(results, "exact", own_weights=True),
        results.envelope.sel(order="exact"),
        rtol=1e-12,
    )
    alike = mixtures.mixtures(results, "exact").isel(model=0, seed=0)
    np.testing.assert_allclose(alike, np.exp(-np.array(LAGS)[:, None] / tau[:3]).sum(1), rtol=1e-12)
    error = mixtures.relative_error(
        alike, results.envelope.sel(order="exact").isel(model=0, seed=0)
    )
    assert float(error[0]) == 0
    whole = results.envelope.isel(model=0, seed=0, order=0)
    assert float(error[-1]) == pytest.approx(
        float(alike[-1] / alike[0] / (whole[-1] / whole[0]) - 1)
    )


def test_slopes_of_powers_and_exponentials():
    lag = np.array(LAGS, float)
    at, slopes = mixtures.local_slopes(lag, 3 * lag**-1.7)
    np.testing.assert_allclose(slopes, -1.7)
    assert ((at > lag[:-1]) & (at < lag[1:])).all()
    at, slopes = mixtures.local_slopes(lag, np.exp(-lag / 9))
    np.testing.assert_allclose(slopes, -at / 9)


def test_power_stretch_is_all_of_a_power_and_a_factor_of_an_exponential():
    lag = np.geomspace(1, 1000, 601)
    first, last, beta = mixtures.power_stretch(lag, 5 * lag**-0.8)
    assert last / first > 980
    assert beta == pytest.approx(0.8)
    first, last, _ = mixtures.power_stretch(lag, np.exp(-lag / 300))
    assert 1.45 < last / first <= 1.5 * (1 + 1e-9)
    bent = lag**-1.0 * np.exp(-lag / 100)  # slope 1 + ℓ/100: within a factor 1.5 up to lag 50
    first, last, _ = mixtures.power_stretch(lag, bent)
    assert first < 1.1
    assert last == pytest.approx(51, abs=1)
    assert np.isnan(mixtures.power_stretch(lag, lag**0.3)).all()
    with pytest.raises(ValueError, match="envelope contains"):
        mixtures.local_slopes([1, 2], [1.0, 0.0])


def test_closer_to_power_against_least_squares_by_hand():
    lag = np.array(LAGS, float)
    rng = np.random.default_rng(3)
    curves = np.exp(
        -np.outer(rng.uniform(0.5, 2, 60), np.log(lag)) * rng.integers(0, 2, (60, 1)) - lag / 30
    )
    curves *= np.exp(0.3 * rng.standard_normal(curves.shape))
    curves[7, 3:6] = 0.0  # left out
    curves[8] = 0.0
    found = mixtures.closer_to_power(
        xr.DataArray(curves, dims=("unit", "lag"), coords={"lag": LAGS})
    )
    for f, closer in zip(curves, found.values, strict=True):
        kept = f > 0
        if not kept.any():
            assert np.isnan(closer)
            continue
        errors = [
            np.polyfit(x[kept], np.log(f[kept]), 1, full=True)[1][0] for x in (np.log(lag), lag)
        ]
        assert closer == (errors[0] < errors[1])
    assert 5 < found.sum() < 55, "both answers occur"
