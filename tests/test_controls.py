"""Controls against runs whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from lwcore import controls
from lwcore.config import Config
from lwcore.experiment import run
from lwcore.inference import holm, infer, probes


@pytest.fixture(scope="module")
def kept():
    """A small run that keeps its numbers."""
    config = Config.named("smoke").but(
        models=["ConstGate", "SharedGate"], diagnostics={"keep_numbers": True, "sequences": 200, "budgets": [8, 64, 512, 4096]}
    )
    return run(config, progress=False)


def test_windows_do_not_change(kept):
    table = controls.invariances(kept, np.random.default_rng(0))
    readings, budgets = kept.sizes["reading"], kept.sizes["budget"]
    assert (table.windows == 2 * 7 * 2 * 2 * 2 * readings * budgets).all(), "models, probes, noises, rules, definitions"
    assert (table.changed == 0).all()
    assert len(table) == 4


def test_a_change_would_be_seen(kept, monkeypatch):
    """Numbers that are shifted, not rescaled, give other windows: the count is not 0 by construction."""
    monkeypatch.setattr(
        controls, "_rescaled", lambda numbers, factor: numbers.assign(statistic=numbers.statistic - numbers.statistic.max())
    )
    table = controls.invariances(kept, np.random.default_rng(0), models=["SharedGate"])
    assert table.changed["statistic × 1,000,000"] > 0
    assert table.changed["sequences in another order"] == 0


def test_nulls_are_counted(kept):
    """Pure noise is empty at the level; a planted mean is seen by the recorded null and gone when signs are drawn at random."""
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
    assert (controls.nulls(false, np.random.default_rng(1), draws=1).loc["noise in the place of the error", "without a window"] == 0).all()
    strict, loose = (
        controls.nulls(kept, np.random.default_rng(1), level=level, draws=40)["without a window"].sum() for level in (1e-6, 0.5)
    )
    assert strict > loose


def test_recorded_null_is_decided_as_the_run_decided(kept):
    """At the run's own level, the decisions read off mean and standard error are those stored."""
    level = Config.model_validate_json(kept.attrs["configuration"]).diagnostics.significance
    for source in ("noise", "error"):
        one = kept.sel(source=source).transpose("model", "seed", "probe", "lag", ...)
        p = stats.t.sf(one.signal / one.signal_error, 99)
        for view in ("zeroth", "whole", "gradient"):
            own = np.flatnonzero(kept.view == view)
            np.testing.assert_array_equal(holm(p[:, :, own], level), one.detected.values[:, :, own])


@pytest.mark.parametrize("error", [0.1, 0.001])
def test_another_error_gives_what_a_run_with_it_would(kept, error):
    """The kept numbers, of the error's own gradient, stand in the place of the null; `infer` reads them with the other ε."""
    swapped = kept.sel(source=["error"]).assign_coords(source=["noise"])
    settings = Config.model_validate_json(kept.attrs["configuration"]).diagnostics.model_copy(update={"error": error})
    numbers = kept[["rate", "statistic", "projection"]].astype(float)
    found = controls.believed(swapped, 8, error, "zeroth")
    again = probes(infer(numbers, settings), "zeroth").window.sel(rule="plug-in", definition="supremum", noise_definition="lag", budget=8)
    expected = again.sel(reading=found.reading).transpose(*found.dims) > 0
    assert 0 < int(expected.sum()) < expected.size
    np.testing.assert_array_equal(found.values, expected.values)


def test_windows_by_chance_are_as_rare_as_the_error(kept):
    """Of independent Gaussian numbers 1 − (1 − ε)^(lags × directions) of the draws show a window; a mean that is planted shows in half."""
    lags, probe = kept.sizes["lag"], probes(kept, "zeroth").sizes["probe"]
    noise = kept.copy()
    noise["statistic"] = kept.statistic.copy(data=np.random.default_rng(5).standard_normal(kept.statistic.shape))
    hits = controls.believed_by_chance(noise, 0.01, np.random.default_rng(6), 500)
    trials = 500 * hits.size
    assert stats.binomtest(int(hits.sum()), trials, 1 - 0.99 ** (lags * probe)).proportion_estimate == pytest.approx(
        1 - 0.99 ** (lags * probe), abs=0.02
    )
    noise["statistic"] = xr.ones_like(noise.statistic)  # all numbers alike: the mean is that of the signs
    assert (controls.believed_by_chance(noise, 0.4999, np.random.default_rng(6), 500) / 500).mean() == pytest.approx(0.5, abs=0.08)


def test_directions_that_agree_and_differ(kept):
    same = kept.copy(deep=True)
    for name in ("required", "window"):
        values = same[name].transpose("probe", ...).values
        values[1], values[3], values[5] = values[0], values[2], values[4]
        same[name] = same[name].transpose("probe", ...).copy(data=values)
    table = controls.other_directions(same, 512)
    assert (table["same window"] == "4 of 4").all()
    assert (table["larger window"] == table["smaller window"]).all()
    assert (table["ratio of N(ℓ)"].dropna() == 1).all()
    other = controls.other_directions(kept, 512)
    assert (other["larger window"] >= other["smaller window"]).all()


def test_order_of_lags_matters_where_it_should(kept):
    """N(ℓ) that rises with the lag: shuffled, the first passage is shorter and the supremum longer."""
    lags = kept.lag.values
    rising = xr.zeros_like(kept.required) + 10.0 * kept.lag**2
    table = controls.shuffled_lags(kept.assign(required=rising), 250, np.random.default_rng(0), draws=200)
    assert (table.window == max(lag for lag in lags if 10 * lag**2 <= 250)).all()
    first, longest = table.xs("first_passage", level="definition"), table.xs("supremum", level="definition")
    assert (first["% longer than shuffled"] == 100).all()
    assert (longest["window, lags shuffled"] >= longest.window).all()


def test_run_without_numbers_is_refused(kept):
    with pytest.raises(ValueError, match="has not kept its numbers"):
        controls.invariances(kept.drop_vars("statistic"), np.random.default_rng(0))
    with pytest.raises(ValueError, match="level = 1"):
        controls.nulls(kept, np.random.default_rng(0), level=1.0)
