"""The rule of *Parameters* in `book/registration_clock.md`: do sequences follow their number?

Committed before the data were in. Nothing here is trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, special

from book.chapters import dose
from book.chapters.clock_rules import Verdict, together
from book.chapters.exponents import censored_fit, seed_interval
from lwcore.stats import Interval

Array = NDArray[np.float64]

SUPPORTED = {"parameters": (0.5, 1.1), "write": (-0.1, 0.1)}  # ends belong to it
LEAST_PARAMETERS, MOST_WRITE = 0.25, 0.25  # beyond these the hypothesis is refuted
DRAWS = 400


def searches(trained: pd.DataFrame) -> pd.DataFrame:
    """Take the trainings of a search together, one row each, as `dose.searches`; widths apart."""
    parts = []
    for (width, cell), own in trained.groupby(["width", "cell"]):
        (parameters,) = own["parameters"].unique()
        parts.append(dose.searches(own).assign(width=width, cell=cell, parameters=parameters))
    return pd.concat(parts, ignore_index=True)


def log_ends(found: pd.DataFrame) -> tuple[Array, Array]:
    """Return the interval of log N½ of each search; its ends may be infinite."""
    with np.errstate(divide="ignore"):
        low = np.log(found["low"].to_numpy(float))
    return low, np.log(found["high"].fillna(np.inf).to_numpy(float))


def regressors(found: pd.DataFrame, size: str = "parameters") -> Array:
    """List log P (or another size), log s, log ℓ and 1 for each search."""
    columns = [np.log(found[name].to_numpy(float)) for name in (size, "gate", "lag")]
    return np.column_stack([*columns, np.ones(len(found))])


def greatest_likelihood(x: Array, low: Array, high: Array) -> float:
    """Find the greatest log-likelihood of ``y = x β + σ ε`` where y lies between low and high."""

    def lost(theta: Array) -> float:
        upper_z = (high - x @ theta[1:]) * np.exp(-theta[0])
        lower_z = (low - x @ theta[1:]) * np.exp(-theta[0])
        flip = lower_z + upper_z > 0  # to the tail in which a difference keeps its digits
        below = special.log_ndtr(np.where(flip, -upper_z, lower_z))
        above = special.log_ndtr(np.where(flip, -lower_z, upper_z))
        return -float((above + np.log1p(-np.exp(below - above))).sum())

    beta = censored_fit(x, low, high, np.ones((1, len(x))))[0]
    middle = np.where(np.isfinite(low) & np.isfinite(high), low + high, np.nan) / 2
    spread = max(float(np.nanstd(middle - x @ beta)), 0.05)
    best = optimize.minimize(lost, np.append(np.log(spread), beta), method="Nelder-Mead")
    # once more from there, since a simplex may collapse
    best = optimize.minimize(lost, best.x, method="Nelder-Mead")
    return -float(best.fun)


@dataclass(frozen=True)
class ParametersRow:
    """What the rule asks of one cell.

    Attributes:
        cell: Which.
        parameters: Exponent of the number of trained parameters.
        write: Exponent of the gate.
        lag: Exponent of the lag.
        beyond_grid: Share of searches in which the largest number was not enough.
    """

    cell: str
    parameters: Interval
    write: Interval
    lag: Interval
    beyond_grid: float

    def verdict(self) -> Verdict:
        """Judge this cell alone: "lies in" is asked of the exponents, not of their intervals."""
        if self.parameters.value < LEAST_PARAMETERS or abs(self.write.value) > MOST_WRITE:
            return "refuted"
        inside = [
            low <= getattr(self, name).value <= high for name, (low, high) in SUPPORTED.items()
        ]
        return "supported" if all(inside) else "undecided"


@dataclass(frozen=True)
class Parameters:
    """What the rule of the parameters asks, with its rival.

    Attributes:
        rows: Of each cell.
        likelihood_parameters: Greatest log-likelihood of one fit for all cells, in log P.
        likelihood_width: The same in log H.
    """

    rows: tuple[ParametersRow, ...]
    likelihood_parameters: float
    likelihood_width: float

    def verdict(self) -> Verdict:
        """Judge the hypothesis: supported if it is in each cell, refuted if it is in one."""
        return together([row.verdict() for row in self.rows])

    def better(self) -> Literal["parameters", "width"]:
        """Name the regressor that describes all cells together better."""
        more = self.likelihood_parameters > self.likelihood_width
        return "parameters" if more else "width"


def parameters_row(found: pd.DataFrame, cell: str, rng: np.random.Generator) -> ParametersRow:
    """Fit one cell's searches; intervals draw seeds with replacement."""
    own = found[found["cell"] == cell]
    seeds, place = np.unique(own["seed"], return_inverse=True)
    even = np.full(len(seeds), 1 / len(seeds))
    drawn = rng.multinomial(len(seeds), even, DRAWS)
    weights = np.concatenate([np.ones((1, len(seeds))), drawn])[:, place]
    fits = censored_fit(regressors(own), *log_ends(own), weights)
    power, write, lag = (seed_interval(fits[:, k], len(seeds)) for k in range(3))
    return ParametersRow(cell, power, write, lag, float(own["high"].isna().mean()))


def parameters(
    trained: pd.DataFrame, cells: Sequence[str] = ("ConstGate", "DiagGate", "LSTM"), seed: int = 0
) -> Parameters:
    """Judge the number of parameters from the rows of part ``parameters``."""
    rng = np.random.default_rng(seed)
    found = searches(trained)
    ends = log_ends(found)
    by_size = [
        greatest_likelihood(regressors(found, name), *ends) for name in ("parameters", "width")
    ]
    rows = tuple(parameters_row(found, cell, rng) for cell in cells)
    return Parameters(rows, *by_size)
