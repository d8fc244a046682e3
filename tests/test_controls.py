"""Controls against a run whose answer is known."""

import numpy as np
import pytest

from book.chapters import controls
from lwcore.config import Config
from lwcore.experiment import run


@pytest.fixture(scope="module")
def kept():
    """A small run that keeps its numbers."""
    settings = {"keep_numbers": True, "sequences": 200, "budgets": [8, 64, 512, 4096]}
    config = Config.named("smoke").but(models=["SharedGate"], diagnostics=settings)
    return run(config, progress=False)


def test_windows_do_not_change_and_a_change_would_be_seen(kept, monkeypatch):
    """Numbers that are shifted, not rescaled, give other windows."""
    table = controls.invariances(kept, np.random.default_rng(0))
    # probes, noises, rules, definitions, ways to N(ℓ), budgets
    assert table.windows.tolist() == [7 * 2 * 2 * 2 * 5 * 4] * 4
    assert table.changed.tolist() == [0] * 4

    def shifted(numbers, factor):
        return numbers.assign(statistic=numbers.statistic - numbers.statistic.max())

    monkeypatch.setattr(controls, "rescaled", shifted)
    changed = controls.invariances(kept, np.random.default_rng(0)).changed
    assert (changed > 0).tolist() == [True, True, False, False]
    with pytest.raises(ValueError, match="must be a run that kept its numbers"):
        controls.invariances(kept.drop_vars("statistic"), np.random.default_rng(0))
