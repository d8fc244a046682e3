"""Mixtures and slopes of envelopes against closed forms."""

import numpy as np
import pytest
import xarray as xr

from book.chapters import mixtures

LAGS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])


def test_mixtures_rebuild_what_is_a_mixture():
    """Rates are exact exponentials; one neuron lets nothing through."""
    weights, tau = np.array([1.0, 3.0, 0.5, 0.0]), np.array([1.0, 5.0, 40.0, np.nan])
    decays = np.nan_to_num(np.exp(-LAGS[:, None] / tau))
    rate = xr.DataArray(weights * decays, {"lag": LAGS}, ("lag", "unit"))
    one = xr.Dataset({"rate": rate, "time_scale": ("unit", tau), "envelope": rate.sum("unit")})
    results = one.expand_dims(model=["LSTM"], seed=[1, 2], order=["zeroth", "exact"])
    envelope = results.envelope.sel(order="exact")
    rebuilt = mixtures.mixtures(results, "exact", own_weights=True)
    np.testing.assert_allclose(rebuilt, envelope, rtol=1e-12)
    alike = mixtures.mixtures(results, "exact")
    np.testing.assert_allclose(alike[0, 1], decays.sum(1), rtol=1e-12)


def test_slopes_of_powers_and_exponentials():
    at, slopes = mixtures.local_slopes(LAGS, 3 * LAGS**-1.7)
    np.testing.assert_allclose(slopes, -1.7)
    assert ((at > LAGS[:-1]) & (at < LAGS[1:])).all()
    at, slopes = mixtures.local_slopes(LAGS, np.exp(-LAGS / 9))
    np.testing.assert_allclose(slopes, -at / 9)
    for lags, f, words in (([1, 2], [1.0, 0.0], "envelope contains"), ([2, 1], [1, 1], "increase")):
        with pytest.raises(ValueError, match=words):
            mixtures.local_slopes(lags, f)


def test_power_stretch_is_all_of_a_power_and_a_factor_of_an_exponential():
    lag = np.geomspace(1, 1000, 301)
    first, last, beta = mixtures.power_stretch(lag, 5 * lag**-0.8)
    assert last / first > 970
    assert beta == pytest.approx(0.8)
    first, last, _ = mixtures.power_stretch(lag, np.exp(-lag / 300))
    assert 1.45 < last / first <= 1.5 * (1 + 1e-9)
    bent = lag**-1.0 * np.exp(-lag / 100)  # slope 1 + ℓ/100: within a factor 1.5 up to lag 50
    first, last, _ = mixtures.power_stretch(lag, bent)
    assert first < 1.1
    assert last == pytest.approx(51, abs=1)
    for rise in (0.0, 0.3):
        assert np.isnan(mixtures.power_stretch(lag, lag**rise)).all()
