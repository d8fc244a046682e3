"""Controls against runs whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from book.chapters import controls
from lwcore.config import Config
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
    table = controls.invariances(kept.sel(model=["SharedGate"]), np.random.default_rng(0))
    assert table.changed["statistic × 1,000,000"] > 0
    assert table.changed["sequences in another order"] == 0


def test_run_without_numbers_is_refused(kept):
    with pytest.raises(ValueError, match="has not kept its numbers"):
        controls.invariances(kept.drop_vars("statistic"), np.random.default_rng(0))
