"""The frontier of learning, on shares whose crossing is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from book.chapters.frontier import (
    at_task,
    ease,
    end_table,
    frontier,
    needed_table,
    predicted_needed,
    sequences_needed,
    settled_table,
    single_lag_share,
)
from lwcore.detection import sample_complexity

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


def test_settled_table_takes_middle_and_largest_of_each_number():
    dims = ("sequences", "model", "seed", "lag")
    coords = {"sequences": [64, 32], "model": MODELS, "seed": SEEDS[:1], "lag": LAGS[:1]}
    falling = xr.DataArray([[[[0.5]], [[0.1]]], [[[0.2]], [[0.4]]]], coords, dims)
    parts = {
        "final_loss": 0.2 + 0 * falling,
        "test_loss": falling,
        "target_variance": 2.0 + 0 * falling,
    }
    table = settled_table(xr.Dataset({"still_falling": falling, **parts}))
    assert table.index.tolist() == [32, 64]
    np.testing.assert_allclose(table.to_numpy(), [[30, 40, 10, 15], [30, 50, 10, 15]])


def test_a_dip_does_not_make_two_crossings():
    """Monotone regression pools what falls: 0.6 and 0.2 become 0.4 each, and a half lies between
    that and 0.6 at 256."""
    share = xr.DataArray(
        [[0.0, 0.6, 0.2, 0.6, 0.7, 0.8]], dims=("seed", "sequences"), coords={"sequences": NUMBERS}
    )
    assert float(sequences_needed(share)) == pytest.approx(128 * np.sqrt(2))


def test_frontier_has_intervals(needed):
    found = frontier(grid(needed)).sel(model="GRU")
    # three seeds: the interval ends at single ones
    assert found.needed_low.sel(lag=6) == pytest.approx(0.8 * 360)
    assert found.needed_high.sel(lag=6) == pytest.approx(1.25 * 360)
    assert np.isinf(found.needed_low.sel(lag=24))
    table = needed_table(frontier(grid(needed)))
    assert table.loc[6, "GRU"] == "360 (288 to 450)"
    assert table.loc[24, "GRU"] == "> 1024"
    assert table.loc[12, "LSTM"] == "720 (576 to 900)"
    assert needed_table(frontier(grid(needed / 3))).loc[3, "GRU"] == "≤ 32 (≤ 32 to 38)"


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


def test_end_table_shows_share_and_losses(needed):
    run = sweep_of(grid(needed)).isel(sequences=-1)
    losses = {"final_loss": 0.2, "test_loss": 0.5, "target_variance": 2.0}
    run = run.assign(
        {name: number + 0 * run.learned.sum("delay") for name, number in losses.items()}
    )
    table = end_table(run, "lag")
    middle = 100 * grid(needed).isel(sequences=-1).median("seed").sel(model="LSTM", lag=12).item()
    assert table.loc[12, "LSTM"] == f"{middle:.0f} (10, 25)"
    assert table.shape == (4, 2)


def start_of(needed):
    """Untrained networks whose probes all predict N(ℓ), measured at every lag on every task; off
    the diagonal, nonsense."""
    names = {
        "source": ["error", "target", "noise"],
        "noise": ["own", "whole"],
        "view": ("probe", ["zeroth", "zeroth", "gradient"]),
    }
    shape = xr.DataArray(np.ones((3, 2, 3)), names, ["source", "noise", "probe"])
    task = xr.DataArray(LAGS, dims="task", coords={"task": LAGS})
    square = needed.where(needed.lag == task, 1e-3) * shape
    unit = sample_complexity(1.0, 1.0, np.sqrt(0.5), 2.0, 0.1)  # of a deviation of 1
    return xr.Dataset(
        {
            "signal": np.sqrt(unit / square.isel(noise=0, drop=True)),
            "scale": xr.full_like(square, np.nan),
            "alpha": xr.full_like(square.isel(lag=0, drop=True), np.nan),
            "deviation": xr.ones_like(square),
        }
    )


def test_predictions_are_read_at_the_tasks_own_lag(needed):
    start = at_task(start_of(needed).isel(task=[2, 0, 1, 3]))
    assert start.lag.values.tolist() == LAGS
    found = predicted_needed(start, "gradient", "target", rate="variance", noise="whole", error=0.1)
    np.testing.assert_allclose(found.transpose(*needed.dims), needed)
