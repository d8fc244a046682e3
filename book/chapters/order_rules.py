"""The rule of *Order* in `book/registration_clock.md`: does N(ℓ) before training order cells?

Committed before the data were in. Nothing here is trained.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from book.chapters import dose
from book.chapters.clock_rules import Verdict, together
from lwcore.stats import Interval

Array = NDArray[np.float64]

ORDERS, DOES_NOT = 0.6, 0.3  # limits of the median correlation
DRAWS = 2000  # of the bootstrap over cells


def medians(trained: pd.DataFrame) -> pd.DataFrame:
    """Take the seeds of a cell, gate, lag and optimiser together: one row each.

    A network that did not reach the half counts as slower than any that did, so that a cell with
    two such seeds of three has infinitely many steps, and ranks last. N(ℓ) may be infinite, too.
    """
    reached = trained["end"] == "half"
    numbers = trained.assign(steps=trained["steps"].where(reached, np.inf))
    columns = ["needed", "envelope", "size", "steps"]
    return numbers.groupby(["optimizer", "lag", "gate", "cell"])[columns].median().reset_index()


def rank_correlations(predictor: Array, steps: Array) -> Array:
    """Compute Spearman's correlation along the last axis; NaN where a side is all ties.

    Infinite numbers rank last, and equal ones share their mean rank.

    Examples:
        >>> rank_correlations(np.array([1.0, 2.0, np.inf]), np.array([50.0, 100.0, np.inf]))
        array(1.)
    """
    sides = [stats.rankdata(one, axis=-1) for one in (predictor, steps)]
    left, right = (side - side.mean(-1, keepdims=True) for side in sides)
    products = (left * right).sum(-1)
    size = np.sqrt((left**2).sum(-1) * (right**2).sum(-1))
    with np.errstate(invalid="ignore"):
        return np.asarray(products / size)


def median_correlation(predictor: Array, steps: Array) -> Array:
    """Take the median over pairs of gate and lag, (..., pairs, cells); those of ties are left out.

    NaN where no pair is left.
    """
    found = rank_correlations(predictor, steps)
    empty = np.asarray(np.isnan(found).all(-1))
    found = np.where(empty[..., None], 0.0, found)
    return np.where(empty, np.nan, np.nanmedian(found, axis=-1))


@dataclass(frozen=True)
class OrderRow:
    """What the rule asks of one optimiser.

    Attributes:
        optimizer: Which.
        needed: Median correlation of N(ℓ) with the steps between cells.
        envelope: The same of the exact envelope, its sign turned.
        size: The same of the size of the lag's gradient, its sign turned.
        beyond_envelope: `needed` less `envelope`, with an interval over cells.
        pairs: Pairs of gate and lag in which some cells differ in their steps.
    """

    optimizer: str
    needed: float
    envelope: float
    size: float
    beyond_envelope: Interval
    pairs: int

    def verdict(self) -> Verdict:
        """Judge this optimiser alone."""
        if self.needed <= DOES_NOT:
            return "refuted"
        better = self.beyond_envelope.low > 0
        return "supported" if self.needed >= ORDERS and better else "undecided"

    def noise_adds_nothing(self) -> bool:
        """Tell whether the gradient's size alone, the rival, orders cells as well."""
        return self.size >= self.needed


def order_row(trained: pd.DataFrame, optimizer: str, rng: np.random.Generator) -> OrderRow:
    """Compare what orders cells under one optimiser.

    The interval draws cells with replacement, the same in all pairs of gate and lag.
    """
    found = medians(trained)
    found = found[found["optimizer"] == optimizer]

    def by_pair(column: str) -> Array:
        table = found.pivot_table(column, ["lag", "gate"], "cell", sort=True, dropna=False)
        # pivot_table takes means, which keep infinite numbers
        return table.to_numpy(float)

    steps = by_pair("steps")
    predictors = {
        "needed": by_pair("needed"),
        "envelope": -by_pair("envelope"),
        "size": -by_pair("size"),
    }
    value = {name: float(median_correlation(one, steps)) for name, one in predictors.items()}
    n_cells = steps.shape[-1]
    drawn = rng.integers(0, n_cells, (DRAWS, n_cells))

    def redrawn(one: Array) -> Array:
        return median_correlation(one[:, drawn].swapaxes(0, 1), steps[:, drawn].swapaxes(0, 1))

    differences = redrawn(predictors["needed"]) - redrawn(predictors["envelope"])
    # of one cell drawn seven times there is no order
    low, high = np.nanquantile(differences, [0.025, 0.975])
    difference = value["needed"] - value["envelope"]
    return OrderRow(
        optimizer,
        **value,
        beyond_envelope=Interval(difference, float(low), float(high)),
        pairs=int(np.isfinite(rank_correlations(predictors["needed"], steps)).sum()),
    )


@dataclass(frozen=True)
class Order:
    """What the rule of the order asks, for both optimisers."""

    rows: tuple[OrderRow, ...]

    def verdict(self) -> Verdict:
        """Judge the hypothesis: supported if it is for both, refuted if it is for either."""
        return together([row.verdict() for row in self.rows])

    def noise_adds_nothing(self) -> bool:
        """Tell whether the rival is as good for either optimiser."""
        return any(row.noise_adds_nothing() for row in self.rows)


def order(trained: pd.DataFrame, seed: int = 0) -> Order:
    """Judge the order of cells from the rows of part ``order``."""
    rng = np.random.default_rng(seed)
    return Order(tuple(order_row(trained, optimizer, rng) for optimizer in dose.OPTIMIZERS))
