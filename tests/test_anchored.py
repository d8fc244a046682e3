"""Growth against cut: on searches that were made up, and that the anchor is what it says."""

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from book.chapters import anchored, dose


def searches(power):
    """Make searches up whose sequences go as a power of the exact envelope."""
    rows = []
    for seed in range(1, 7):
        for gate in dose.GATES:
            condition = dose.Condition("MinGRU", gate, "recall", 20)
            envelope = 32 * (1 - gate) ** 20
            needed = 50 * (envelope / 32) ** power
            found = {"seed": seed, "high": needed}
            rows.append(asdict(condition) | found | {"envelope": envelope})
    return pd.DataFrame(rows)


def test_growth_is_the_power_of_the_cut():
    found = searches(-0.3)
    rows = anchored.cuts(anchored.envelopes(found.drop(columns="envelope"), found))
    assert len(rows) == 5 * 6
    assert rows["growth"].to_numpy() == pytest.approx(0.3 * rows["cut"].to_numpy())
    assert rows["cut_exact"].to_numpy() == pytest.approx(rows["cut"].to_numpy())
    strongest = anchored.strongest(rows)
    assert set(strongest["gate"]) == {0.7}
    fall = 20 * np.log10(0.95 / 0.3)
    assert strongest["growth"].to_numpy() == pytest.approx(np.full(6, 0.3 * fall))


def test_seeds_are_the_units():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"seed": np.repeat(range(6), 9), "growth": rng.standard_normal(54)})
    means = table.groupby("seed")["growth"].mean()
    ends = stats.t.interval(0.95, 5, means.mean(), stats.sem(means))
    found = anchored.over_seeds(table, "growth")
    assert tuple(found) == pytest.approx((10 ** means.mean(), 10 ** ends[0], 10 ** ends[1]))
