"""The exponent of a dose: how the sequences, or the steps, that learning takes grow as the envelope
falls, from responses known up to an interval."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import special, stats

from book.chapters.dose import EVERY, HIDDEN
from lwcore.stats import Interval

Array = NDArray[np.float64]

_ROUNDS = 60  # of the fit, at the most
_CLOSE = 1e-9  # a gain of the log-likelihood at which the fit ends


def dosed(searches: pd.DataFrame, response: str = "sequences") -> pd.DataFrame:
    """Add log f₀ to searches, and put the interval of a response into ``low`` and ``high``.

    Args:
        searches: As `book.chapters.dose.searches` gives them.
        response: ``"sequences"`` for N½, or ``"steps"`` for the steps to the half with most
            sequences.
    """
    log_envelope = math.log(HIDDEN) + searches["lag"] * np.log1p(-searches["gate"])
    rows = searches.assign(log_envelope=log_envelope)
    if response == "steps":
        reached = rows["end"] == "half"
        steps = rows["steps"]
        # Shares are looked at every so many steps; what has not reached the half lies above.
        rows = rows.assign(low=steps.where(~reached, steps - EVERY), high=steps.where(reached))
    return rows


class _Censored(NamedTuple):
    """Responses known up to an interval, standardised: ``(end − x β)/σ`` is linear in (β/σ, 1/σ).

    Attributes:
        known: Whether each end is finite, (2, n).
        ends: By end and response the vector whose product with (β/σ, 1/σ) is the standardised
            end, (2, n, k + 1).
        weights: Of each response in each draw, (draws, n).
    """

    known: NDArray[np.bool_]
    ends: Array
    weights: Array

    def likelihood(self, theta: Array, draws: NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """Return the log-likelihood, its derivatives in both standardised ends, and these ends.

        Args:
            theta: (β/σ, 1/σ) of each draw, (draws, k + 1).
            draws: The places of the draws that are looked at.
        """
        # Products of all draws at once: with fewer rows they may round otherwise.
        lower = np.where(self.known[0], (theta @ self.ends[0].T)[draws], -np.inf)
        upper = np.where(self.known[1], (theta @ self.ends[1].T)[draws], np.inf)
        # In the tail in which a difference of probabilities keeps its digits: mirrored above 0.
        mirrored = lower > 0
        log_below = special.log_ndtr(np.where(mirrored, -upper, lower))
        log_above = special.log_ndtr(np.where(mirrored, -lower, upper))
        z = np.stack([lower, upper])
        with np.errstate(all="ignore"):  # no numbers where 1/σ is below 0
            log_inside = log_above + np.log1p(-np.exp(log_below - log_above))
            total = np.nan_to_num((self.weights[draws] * log_inside).sum(1), nan=-np.inf)
            density = np.exp(-(z**2 + math.log(math.tau)) / 2 - log_inside)
        signs = np.array([-1.0, 1.0])[:, None, None]  # a higher lower end leaves less room
        return total, density * signs, np.where(np.isfinite(z), z, 0)

    def newton_step(self, derivatives: Array, z: Array) -> Array:
        """Return Newton's step in theta, (draws, k + 1), from what `likelihood` returns.

        The letters of the sums: e an end, d a draw, n a response, k and l entries of theta.
        """
        of_response = np.einsum("edn,enk->dnk", derivatives, self.ends)
        slope = np.einsum("dn,dnk->dk", self.weights, of_response)
        curvature = -np.einsum(
            "dn,dnk,dnl->dkl", self.weights, of_response, of_response, optimize=True
        )
        curvature -= np.einsum(
            "edn,enk,enl->dkl", self.weights * z * derivatives, self.ends, self.ends, optimize=True
        )
        trace = np.trace(curvature, axis1=1, axis2=2)
        ridge = 1e-12 * trace[:, None, None] * np.eye(slope.shape[1])
        return -np.linalg.solve(curvature + ridge, slope[..., None])[..., 0]


def censored_fit(
    x: Float[np.ndarray, "n k"],
    low: Float[np.ndarray, " n"],
    high: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, "draws n"],
) -> Float[np.ndarray, "draws k"]:
    """Fit ``y = x β + σ ε``, ε standard normal, where of y only an interval is known.

    Returns β of maximum likelihood for every row of weights. By Newton's method in (β/σ, 1/σ), in
    which the likelihood is log-concave.

    Args:
        x: Regressors.
        low: Lower ends of y; −∞ below the first number tried.
        high: Upper ends; ∞ above the last number tried.
        weights: How often each response counts.
    """
    known = np.stack([np.isfinite(low), np.isfinite(high)])
    # Where one end is not known, the other one stands for both, to begin with.
    lower = np.where(known[0], low, high)
    upper = np.where(known[1], high, low)
    middle = (lower + upper) / 2
    start = np.linalg.lstsq(x, middle, rcond=None)[0]
    spread = max(float(np.std(middle - x @ start)), 0.2)
    theta = np.tile(np.append(start, 1) / spread, (len(weights), 1))
    ends = np.stack([np.column_stack([-x, end]) for end in (lower, upper)])
    responses = _Censored(known, ends, weights)

    every_draw = np.arange(len(theta))
    total, derivatives, z = responses.likelihood(theta, every_draw)
    for _ in range(_ROUNDS):
        before = total.copy()
        step = responses.newton_step(derivatives, z)
        tried = every_draw
        for _ in range(_ROUNDS):  # halved where it leads downhill
            found = responses.likelihood(theta + step, tried)
            total[tried], derivatives[:, tried], z[:, tried] = found
            tried = tried[total[tried] < before[tried]]
            if len(tried) == 0:
                break
            step[tried] /= 2
        theta = theta + step
        if (total - before).max() < _CLOSE:
            break
    return theta[:, :-1] / theta[:, -1:]


def exponent_draws(
    rows: pd.DataFrame, rng: np.random.Generator, draws: int = 400, others: Sequence[str] = ()
) -> Array:
    """Fit the exponent d of ``N½ ∝ f₀^d`` to `dosed` rows, then to seeds drawn with replacement.

    Regressors of log N½ are log f₀, others, and log ℓ if there are several lags.
    Where one lag alone has responses inside the grid, others are left out: its coefficient fits
    them. Where one dose alone has, d is at most what fits with the mildest beyond at the next end.

    Args:
        rows: As `dosed` gives them.
        draws: Number of draws, which stand behind the fit to all rows.
        others: Names of further columns that are regressors.
    """
    rows = identifying(rows)
    above_grid = rows["low"] * 2**0.5 if is_bound(rows) else np.inf  # the next number of the grid
    with np.errstate(divide="ignore"):
        low, high = np.log([rows["low"], rows["high"].fillna(above_grid)])
    seeds, seed_of_row = np.unique(rows["seed"], return_inverse=True)
    n_seeds = len(seeds)
    drawn = rng.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), draws)
    counts = np.concatenate([np.ones((1, n_seeds)), drawn])
    regressors = [rows[name] for name in ("log_envelope", *others)]
    if rows["lag"].nunique() > 1:
        regressors.append(np.log(rows["lag"]))
    regressors.append(np.ones(len(rows)))
    x = np.stack(regressors, axis=1)
    # Of few seeds many draws are the same: each is fitted once.
    distinct, place = np.unique(counts, axis=0, return_inverse=True)
    return censored_fit(x, low, high, distinct[:, seed_of_row])[place, 0]


def identifying(rows: pd.DataFrame) -> pd.DataFrame:
    """Select the rows that tell something of the exponent (`exponent_draws`).

    Left out are other lags where one lag alone has responses inside the grid, and all but the
    mildest dose beyond the grid where one dose alone has.
    """
    inside = rows["high"].notna()
    lags = rows.loc[inside, "lag"].unique()
    chosen = rows["lag"].isin(lags) if len(lags) == 1 else np.ones(len(rows), bool)
    if is_bound(rows):
        mildest = rows.loc[chosen & ~inside, "log_envelope"].max()
        chosen &= inside | (rows["log_envelope"] == mildest)
    return rows[chosen]


def is_bound(rows: pd.DataFrame) -> bool:
    """Tell whether one dose alone has responses inside the grid: then d is no more than a bound."""
    inside = rows[rows["high"].notna()]
    return inside["log_envelope"].nunique() == 1


def seed_interval(values: Array, n_seeds: int, tail: float = 0.025) -> Interval:
    """Make an interval of a fit, the first value, and of its draws over seeds.

    A bootstrap over n seeds is too narrow by √((n − 1)/n), and its quantiles are those of a normal,
    not of Student's t.

    Args:
        values: The fit to all seeds, then to each draw.
        n_seeds: The number of seeds.
        tail: The probability beyond either end; the default gives 95 %.
    """
    value = values[0]
    if n_seeds == 1:
        return Interval(value, -np.inf, np.inf)
    student = stats.t.ppf(1 - tail, n_seeds - 1) / stats.norm.ppf(1 - tail)
    wider_by = np.sqrt(n_seeds / (n_seeds - 1)) * student
    quantiles = np.quantile(values[1:], [tail, 1 - tail])
    low, high = value + wider_by * (quantiles - value)
    return Interval(value, low, high)


def dose_exponent(
    rows: pd.DataFrame, rng: np.random.Generator, draws: int = 400, others: Sequence[str] = ()
) -> Interval:
    """Fit the exponent d of ``N½ ∝ f₀^d``, with its interval over seeds (`exponent_draws`).

    Without a lower end it is no more than a bound.
    """
    rows = identifying(rows)
    values = exponent_draws(rows, rng, draws, others)
    interval = seed_interval(values, rows["seed"].nunique())
    return interval._replace(low=-np.inf) if is_bound(rows) else interval


def detection_exponents(started: pd.DataFrame, envelopes: pd.DataFrame) -> pd.DataFrame:
    """Fit N(ℓ) ∝ f^d over the gates of each cell, task, lag and seed, by least squares of logs.

    Eq. (38) has d = −κ, which is −2 for noise with a variance. Starts without a signal have no
    N(ℓ) and are left out; where fewer than three gates are left, there is no row.

    Args:
        started: N(ℓ) before training, a row a condition and seed.
        envelopes: The exact envelope f before training.

    Returns:
        Columns ``cell``, ``task``, ``lag``, ``seed``, the exponent ``d``, and ``decades`` of f.
    """
    key = ["cell", "gate", "task", "lag", "seed"]
    free = envelopes[envelopes["mixing"].isna()].drop_duplicates(key)
    both = started[started["mixing"].isna()].merge(free[[*key, "envelope"]], on=key)
    both = both[np.isfinite(both["needed"])]
    rows = []
    for at, own in both.groupby(["cell", "task", "lag", "seed"]):
        if len(own) < 3:
            continue
        log_envelope = np.log(own["envelope"])
        slope, _ = np.polyfit(log_envelope, np.log(own["needed"]), 1)
        decades = np.ptp(log_envelope) / np.log(10)
        rows.append([*at, float(slope), float(decades)])
    return pd.DataFrame(rows, columns=["cell", "task", "lag", "seed", "d", "decades"])
