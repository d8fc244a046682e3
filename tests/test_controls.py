"""Controls against runs whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from book.chapters import controls
from lwcore.config import Config
from lwcore.experiment import run
from lwcore.inference import LETTER, config_of, probes, windows


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
    table = controls.invariances(kept.sel(model=["SharedGate"]), np.random.default_rng(0))
    assert table.changed["statistic × 1,000,000"] > 0
    assert table.changed["sequences in another order"] == 0


@pytest.mark.parametrize("how", [{}, {"rate": "variance"}, LETTER])
def test_another_error_gives_what_a_run_with_it_would(kept, how):
    """The numbers of the error's own gradient stand in the place of the null, in a run that asks
    for the other ε."""
    swapped = kept.sel(source=["error"]).assign_coords(source=["noise"])
    found = []
    for error in (0.1, 0.001):
        asked = config_of(kept).but(diagnostics={"error": error})
        again = kept.assign_attrs(configuration=asked.model_dump_json())
        for n in (1, 8, 64):
            found.append(controls.believed(swapped, n, error, "zeroth", **how))
            xr.testing.assert_equal(
                found[-1], windows(probes(again, "zeroth", "error"), n, rule="plug-in", **how) > 0
            )
    assert 0 < np.mean(found) < 1


def test_windows_by_chance_are_as_rare_as_the_error(kept):
    """Of independent Gaussian numbers 1 − (1 − ε)^(lags × directions) of the draws show a window; a
    mean that is planted shows in half."""
    lags, probe = kept.sizes["lag"], probes(kept, "zeroth").sizes["probe"]
    noise = kept.copy()
    noise["statistic"] = kept.statistic.copy(
        data=np.random.default_rng(5).standard_normal(kept.statistic.shape)
    )
    hits = controls.believed_by_chance(noise, 0.01, np.random.default_rng(6), 500)
    trials = 500 * hits.size
    assert stats.binomtest(
        int(hits.sum()), trials, 1 - 0.99 ** (lags * probe)
    ).proportion_estimate == pytest.approx(1 - 0.99 ** (lags * probe), abs=0.02)
    # all numbers alike: the mean is that of the signs
    noise["statistic"] = xr.ones_like(noise.statistic)
    assert (
        controls.believed_by_chance(noise, 0.4999, np.random.default_rng(6), 500) / 500
    ).mean() == pytest.approx(0.5, abs=0.08)


def test_run_without_numbers_is_refused(kept):
    with pytest.raises(ValueError, match="has not kept its numbers"):
        controls.invariances(kept.drop_vars("statistic"), np.random.default_rng(0))
