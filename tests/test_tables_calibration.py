"""Tables of calibration show the counts that were recorded."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from book.chapters import tables_calibration
from book.chapters.calibration import PLANTED
from lwcore.inference import LETTER
from lwcore.stats import binomial

RATES = ["mean", "variance", "optimal", "paper_v2"]


@pytest.fixture(scope="module")
def recorded():
    """Counts of 100 trials, each entry another number."""
    rng = np.random.default_rng(0)
    coords = {
        "truth": ["nothing", "planted"],
        "alpha": [1.5, 2.0],
        "n_sequences": [64, 256],
        "rule": ["tested", "plug-in"],
        "rate": RATES,
        "noise": ["own", "whole"],
    }
    shape = tuple(map(len, coords.values()))
    seen = rng.integers(0, 101, (*shape, 1, len(PLANTED)))
    windows = rng.integers(0, 101, (*shape, 1))
    dims = tuple(coords)
    data = {
        "seen": ((*dims, "probe", "lag"), seen),
        "too_long": ((*dims, "view"), windows),
        "too_short": ((*dims, "view"), 100 - windows),
    }
    return xr.Dataset(
        data, coords=coords | {"view": ["gradient"]}, attrs={"trials": 100, "revision": "r"}
    )


def entry(hits, trials=100):
    share, low, high = (round(100 * float(x), 0 if x >= 0.1 else 1) for x in binomial(hits, trials))
    return " ".join(f"{x:g}" if x >= 10 else f"{x:.1f}" for x in (share, low, high))


def said(text):
    """The three numbers of an entry."""
    return text.replace("(", "").replace(")", "").replace("–", " ")


def test_false_windows_are_the_counts_without_a_signal(recorded):
    table = tables_calibration.by_rate(recorded, 256)
    assert list(table.columns) == ["α = 1.5", "α = 2"]
    chosen = {
        "truth": "nothing",
        "alpha": 2.0,
        "n_sequences": 256,
        "rule": "plug-in",
        "rate": "optimal",
        "noise": "own",
    }
    assert said(table.loc[("plug-in", "own", "optimal"), "α = 2"]) == entry(
        int(recorded.too_long.sel(chosen).item())
    )
    by_size = tables_calibration.by_size(recorded, "optimal")
    assert (
        by_size.loc[("plug-in", "own", 256), "α = 2"]
        == table.loc[("plug-in", "own", "optimal"), "α = 2"]
    )


def test_wrong_windows_are_the_counts_with_planted_signals(recorded):
    table = tables_calibration.wrong_windows(recorded, 64, "variance")
    chosen = {
        "truth": "planted",
        "alpha": 1.5,
        "n_sequences": 64,
        "rule": "tested",
        "rate": "variance",
        "noise": "whole",
    }
    for words, name in (("too long", "too_long"), ("too short", "too_short")):
        assert said(table.loc[(words, "tested", "whole"), "α = 1.5"]) == entry(
            int(recorded[name].sel(chosen).item())
        )


def test_networks_are_counted_together():
    coords = {
        "model": ["GRU", "LSTM"],
        "n_sequences": [64],
        "rule": ["tested", "plug-in"],
        "rate": RATES,
    }
    coords |= {"noise": ["own", "whole"], "view": ["whole", "gradient"]}
    hits = np.random.default_rng(1).integers(0, 41, tuple(map(len, coords.values())))
    data = xr.Dataset(
        {"too_long": (tuple(coords), hits), "trials": (("model", "n_sequences"), [[40], [40]])},
        coords=coords,
    )
    table = tables_calibration.networks(data, 64)
    both = (
        data.too_long.sel(n_sequences=64, rule="tested", rate="mean", noise="whole", view="whole")
        .sum()
        .item()
    )
    assert said(table.loc[("tested", "whole", "mean"), "whole"]) == entry(both, 80)


def test_false_windows_for_each_error_are_counted_by_network(monkeypatch):
    """One network of two believes a lag along one direction, by the letter alone; of ten draws of
    signs three and two have a window."""
    asked = []

    def believed(results, n_sequences, error, **how):
        asked.append((n_sequences, error, how))
        seen = xr.DataArray(np.zeros((1, 2, 2), bool), dims=("model", "seed", "probe"))
        seen[0, 1, 0] = how == LETTER
        return seen

    monkeypatch.setattr(tables_calibration.controls, "believed", believed)
    monkeypatch.setattr(
        tables_calibration.controls,
        "believed_by_chance",
        lambda *_: xr.DataArray([[3, 2]], dims=("model", "seed")),
    )
    results = xr.Dataset(
        coords={"lag": [1, 2, 4], "view": ("probe", ["zeroth", "zeroth", "gradient"])}
    )
    table = tables_calibration.by_error(
        {"one": (results, 64)}, [0.1], np.random.default_rng(0), draws=10
    )
    assert list(table.index) == [("one", "0.1"), ("one", "0.05/6")]
    assert asked == [
        (64, error, how) for error in (0.1, 0.05 / 6) for how in (LETTER, {"rate": "variance"})
    ]
    first = table.loc[("one", "0.1")]
    assert first["1 − (1 − ε)ⁿ"] == f"{100 * (1 - 0.9**6):.1f}"
    assert said(first["noise, letter of version 2"]) == entry(1, 2)
    assert first["noise, f once"].startswith("0.0 ")
    # two networks, not twenty draws
    half = stats.ttest_1samp([0.3, 0.2], 0).confidence_interval(0.95).high - 0.25
    assert first["signs at random, f once"] == f"25.0 (0.0–{100 * (0.25 + half):.1f})"
