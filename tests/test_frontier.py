"""Sequences that a lag takes, on shares whose crossing is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from book.chapters.frontier import ease, sequences_needed, single_lag_share

LAGS, NUMBERS, MODELS, SEEDS = (
    [3, 6, 12, 24],
    [32, 64, 128, 256, 512, 1024],
    ["GRU", "LSTM"],
    [1, 2, 3],
)


def grid(needed):
    """A share that is 1/2 + log₂(N/N(ℓ))/8, so that it crosses a half at N(ℓ) and is linear in log
    N."""
    numbers = xr.DataArray(NUMBERS, dims="sequences", coords={"sequences": NUMBERS})
    return (0.5 + np.log2(numbers / needed) / 8).transpose("model", "seed", "lag", "sequences")


@pytest.fixture
def needed():
    """N(ℓ) = 10 ℓ², half as many for LSTM, and 0.8, 1 and 1.25 times as many by seed."""
    lag = xr.DataArray(LAGS, dims="lag", coords={"lag": LAGS})
    model = xr.DataArray([1.0, 0.5], dims="model", coords={"model": MODELS})
    seed = xr.DataArray([0.8, 1.0, 1.25], dims="seed", coords={"seed": SEEDS})
    return (10 * lag**2 * model * seed).transpose("model", "seed", "lag")


def test_crossing_is_where_the_closed_form_has_it(needed):
    found = sequences_needed(grid(needed)).sel(model="GRU")
    # the mean of logarithms over seeds is that of the middle one
    np.testing.assert_allclose(found.sel(lag=[6]), 360)
    assert found.sel(lag=3) == pytest.approx(90)
    assert found.sel(lag=12) == np.inf  # 1440 lies beyond the grid
    below = sequences_needed(grid(needed / 100))
    assert (below.sel(lag=[3, 6]) == 32).all()


def test_ease_of_a_network_is_its_own_crossing(needed):
    found = ease(grid(needed))
    inside = (needed >= NUMBERS[0]) & (needed <= NUMBERS[-1])
    assert inside.any()
    np.testing.assert_allclose(found.where(inside), -np.log(needed.where(inside)), rtol=0.01)
    assert np.isneginf(found.where(needed > NUMBERS[-1], -np.inf)).all()
    assert found.dims == ("model", "seed", "lag")


def test_a_dip_does_not_make_two_crossings():
    """Monotone regression pools what falls: 0.6 and 0.2 become 0.4 each, and a half lies between
    that and 0.6 at 256."""
    share = xr.DataArray(
        [[0.0, 0.6, 0.2, 0.6, 0.7, 0.8]], dims=("seed", "sequences"), coords={"sequences": NUMBERS}
    )
    assert float(sequences_needed(share)) == pytest.approx(128 * np.sqrt(2))


def sweep_of(share):
    """A sweep as it is recorded: coefficients by delay, beyond a task's last delay NaN."""
    delay = xr.DataArray(range(1, 31), dims="delay", coords={"delay": range(1, 31)})
    planted = xr.where(delay == share.lag, 0.5, 0.0).where(delay <= share.lag + 4) + 0 * share
    return xr.Dataset({"learned": planted * share, "planted": planted})


def test_share_is_taken_at_the_tasks_own_delay(needed):
    share = grid(needed)
    found = single_lag_share(sweep_of(share).isel(lag=[2, 0, 1, 3]))
    assert found.dims == share.dims
    np.testing.assert_allclose(found, share)
