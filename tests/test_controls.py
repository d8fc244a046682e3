"""Controls against runs whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from book.chapters import controls
from lwcore.config import Config
from lwcore.detection import sample_complexity
from lwcore.experiment import run


@pytest.fixture(scope="module")
def kept():
    """A small run that keeps its numbers."""
    config = Config.named("smoke").but(
        models=["ConstGate", "SharedGate"],
        diagnostics={"keep_numbers": True, "sequences": 200, "budgets": [8, 64, 512, 4096]},
    )
    return run(config, progress=False)


def test_windows_do_not_change(kept):
    table = controls.invariances(kept, np.random.default_rng(0))
    assert (table.windows == 2 * 7 * 2 * 2 * 2 * 5 * 4).all(), (
        "models, probes, noises, rules, definitions, ways to N(ℓ), budgets"
    )
    assert (table.changed == 0).all()
    assert len(table) == 4


def test_a_change_would_be_seen(kept, monkeypatch):
    """Numbers that are shifted, not rescaled, give other windows: the count is not 0 by
    construction."""
    monkeypatch.setattr(
        controls,
        "_rescaled",
        lambda numbers, factor: numbers.assign(
            statistic=numbers.statistic - numbers.statistic.max()
        ),
    )
    table = controls.invariances(kept, np.random.default_rng(0), models=["SharedGate"])
    assert table.changed["statistic × 1,000,000"] > 0
    assert table.changed["sequences in another order"] == 0


def test_nulls_are_counted(kept):
    """Pure noise is empty at the level; a planted mean is seen by the recorded null and gone when
    signs are drawn at random."""
    table = controls.nulls(kept, np.random.default_rng(1), level=0.05, draws=40)
    flipped = table.loc["signs of the sequences at random"]
    assert (flipped.draws == 4 * 40).all()
    total = int(flipped["without a window"].sum())
    assert stats.binomtest(total, 4 * 160, 0.95).pvalue > 1e-4
    noise = kept.sel(source="noise")
    false = kept.copy()
    shifted = kept.signal.copy()
    shifted.loc[{"source": "noise"}] = 100 * noise.signal_error
    false["signal"] = shifted
    assert (
        controls.nulls(false, np.random.default_rng(1), draws=1).loc[
            "noise in the place of the error", "without a window"
        ]
        == 0
    ).all()
    strict, loose = (
        controls.nulls(kept, np.random.default_rng(1), level=level, draws=40)[
            "without a window"
        ].sum()
        for level in (1e-6, 0.5)
    )
    assert strict > loose


def test_directions_that_agree_and_differ(kept):
    table = controls.other_directions(kept.isel(probe=[0, 0, 2, 2, 4, 4, 6]), 512)
    assert (table["same window"] == "4 of 4").all()
    assert (table["larger window"] == table["smaller window"]).all()
    assert (table["ratio of N(ℓ)"].dropna() == 1).all()
    other = controls.other_directions(kept, 512)
    assert (other["larger window"] >= other["smaller window"]).all()


def test_order_of_lags_matters_where_it_should(kept):
    """N(ℓ) that rises with the lag: shuffled, the first passage is shorter and the supremum
    longer."""
    lags = kept.lag.values
    unit = sample_complexity(1.0, 1.0, np.sqrt(0.5), 2.0, 0.1)  # of a deviation of 1
    signal = xr.zeros_like(kept.signal) + np.sqrt(unit / 10) / kept.lag
    rising = kept.assign(
        signal=signal,
        deviation=xr.ones_like(kept.deviation),
        signal_error=xr.full_like(signal, 1e-9),
    )
    table = controls.shuffled_lags(rising, 251, np.random.default_rng(0), draws=200)
    assert (table.window == max(lag for lag in lags if 10 * lag**2 <= 250)).all()
    first, longest = (
        table.xs("first_passage", level="definition"),
        table.xs("supremum", level="definition"),
    )
    assert (first["% longer than shuffled"] == 100).all()
    assert (longest["window, lags shuffled"] >= longest.window).all()


def test_run_without_numbers_is_refused(kept):
    with pytest.raises(ValueError, match="has not kept its numbers"):
        controls.invariances(kept.drop_vars("statistic"), np.random.default_rng(0))
