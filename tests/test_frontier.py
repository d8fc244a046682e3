"""Sequences that a lag takes, on shares whose crossing is known in closed form."""

import numpy as np
import pytest
import xarray as xr

from book.chapters.frontier import ease, sequences_needed, single_lag_share

NUMBERS = xr.DataArray(one := [32, 64, 128, 256, 512, 1024], {"sequences": one}, ("sequences",))
DIMS = ("model", "seed", "lag")


def share_of(needed):
    """A share that crosses a half at N(ℓ) and is linear in log N."""
    return (0.5 + np.log2(NUMBERS / needed) / 8).transpose(*DIMS, "sequences")


@pytest.fixture
def needed():
    """N(ℓ) = 10 ℓ², half as many for LSTM, and 0.8, 1 and 1.25 times as many by seed."""
    lags, models = [3, 6, 12, 24], ["GRU", "LSTM"]
    by_model, by_seed = np.array([[[1.0]], [[0.5]]]), np.array([[0.8], [1.0], [1.25]])
    coords = {"model": models, "seed": [1, 2, 3], "lag": lags}
    return xr.DataArray(10 * by_model * by_seed * np.square(lags), coords, DIMS)


def test_crossing_is_where_the_closed_form_has_it(needed):
    found = sequences_needed(share_of(needed)).sel(model="GRU")
    # the mean of logarithms over seeds is that of the middle one; 1440 lies beyond the grid
    np.testing.assert_allclose(found.sel(lag=[3, 6, 12]), [90, 360, np.inf])
    below = sequences_needed(share_of(needed / 100))
    assert (below.sel(lag=[3, 6]) == 32).all()


def test_ease_of_a_network_is_its_own_crossing(needed):
    found = ease(share_of(needed))
    inside, beyond = (needed >= 32) & (needed <= 1024), needed > 1024
    assert inside.any()
    np.testing.assert_allclose(found.where(inside), -np.log(needed.where(inside)), rtol=0.01)
    assert np.isneginf(found.where(beyond, -np.inf)).all()
    assert found.dims == DIMS


def test_a_dip_does_not_make_two_crossings():
    """Monotone regression pools what falls: 0.6 and 0.2 become 0.4 each, and a half lies between
    that and 0.6 at 256."""
    share = (0 * NUMBERS + [0.0, 0.6, 0.2, 0.6, 0.7, 0.8]).expand_dims("seed")
    assert float(sequences_needed(share)) == pytest.approx(128 * np.sqrt(2))


def test_share_is_taken_at_the_tasks_own_delay(needed):
    """Of a sweep as it is recorded: coefficients by delay, beyond a task's last delay NaN."""
    share = share_of(needed)
    delay = xr.DataArray(range(1, 31), {"delay": range(1, 31)}, ("delay",))
    planted = xr.where(delay == share.lag, 0.5, 0.0).where(delay <= share.lag + 4) + 0 * share
    sweep = xr.Dataset({"learned": planted * share, "planted": planted}).isel(lag=[2, 0, 1, 3])
    found = single_lag_share(sweep)
    assert found.dims == share.dims
    np.testing.assert_allclose(found, share)
