"""The exponent of a dose: how the sequences, or the steps, that learning takes grow as the envelope
falls, from responses known up to an interval."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import special, stats

from book.chapters.dose import EVERY, HIDDEN
from lwcore.stats import Interval

Array = NDArray[np.float64]

_ROUNDS, _CLOSE = 60, 1e-9  # of the fit: at the most, and the gain at which it ends


def dosed(searches: pd.DataFrame, response: str = "sequences") -> pd.DataFrame:
    """Searches with log f₀ and the interval of their response: N½, or the steps to the half with
    most sequences."""
    log_envelope = math.log(HIDDEN) + searches["lag"] * np.log1p(-searches["gate"])
    found = searches.assign(log_envelope=log_envelope)
    if response == "steps":
        half, steps = found["end"] == "half", found["steps"]
        found = found.assign(low=steps.where(~half, steps - EVERY), high=steps.where(half))
    return found


def censored_fit(
    x: Float[np.ndarray, "n k"],
    low: Float[np.ndarray, " n"],
    high: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, "draws n"],
) -> Float[np.ndarray, "draws k"]:
    """Coefficients β of ``y = x β + σ ε``, ε standard normal, where of y only an interval is known:
    maximum likelihood for every row of weights.

    Ends may be infinite: below the first number tried, or above the last. By Newton's method in
    (β/σ, 1/σ), in which the likelihood is log-concave.
    """
    known = np.isfinite(low), np.isfinite(high)
    ends = np.where(known[0], low, high), np.where(known[1], high, low)
    start = np.linalg.lstsq(x, sum(ends) / 2, rcond=None)[0]
    spread = max(float(np.std(sum(ends) / 2 - x @ start)), 0.2)
    theta = np.tile(np.append(start, 1) / spread, (len(weights), 1))
    lower, upper = sides = np.stack([np.column_stack([-x, end]) for end in ends])

    def at(theta: Array) -> tuple[Array, Array, Array]:
        """The log-likelihood, its derivatives in the two standardised ends, and these ends."""
        a = np.where(known[0], theta @ lower.T, -np.inf)
        b = np.where(known[1], theta @ upper.T, np.inf)
        flip = a > 0  # to the tail in which a difference of probabilities keeps its digits
        below, above = (special.log_ndtr(np.where(flip, *two)) for two in ((-b, a), (-a, b)))
        with np.errstate(all="ignore"):  # no numbers where 1/σ is below 0
            inside = above + np.log1p(-np.exp(below - above))
            total = np.nan_to_num((weights * inside).sum(1), nan=-np.inf)
            z = np.stack([a, b])
            rates = np.exp(stats.norm.logpdf(z) - inside) * [[[-1.0]], [[1.0]]]
        return total, rates, np.where(np.isfinite(z), z, 0)

    found = at(theta)
    for _ in range(_ROUNDS):
        last, rates, z = found
        slopes = np.einsum("edn,enk->dnk", rates, sides)  # of every response's own
        slope = np.einsum("dn,dnk->dk", weights, slopes)
        bend = -np.einsum("dn,dnk,dnl->dkl", weights, slopes, slopes, optimize=True)
        bend -= np.einsum("edn,enk,enl->dkl", weights * z * rates, sides, sides, optimize=True)
        ridge = 1e-12 * np.trace(bend, axis1=1, axis2=2)[:, None, None] * np.eye(theta.shape[1])
        step = -np.linalg.solve(bend + ridge, slope[..., None])[..., 0]
        for _ in range(_ROUNDS):  # halved where it leads downhill
            found = at(theta + step)
            worse = found[0] < last
            if not worse.any():
                break
            step[worse] /= 2
        theta = theta + step
        if (found[0] - last).max() < _CLOSE:
            break
    return theta[:, :-1] / theta[:, -1:]


def exponent_draws(
    rows: pd.DataFrame, rng: np.random.Generator, draws: int = 400, others: Sequence[str] = ()
) -> Array:
    """Fit the exponent d of ``N½ ∝ f₀^d`` to `dosed` rows, then to seeds drawn with replacement.

    Regressors of log N½ are log f₀, others, and log ℓ if there are several lags.
    Where one lag alone has responses inside the grid, others are left out: its coefficient fits
    them. Where one dose alone has, d is at most what fits with the mildest beyond at the next end.
    """
    bound = is_bound(rows)
    rows = identifying(rows)
    last = rows["low"] * 2**0.5 if bound else np.inf
    with np.errstate(divide="ignore"):
        above, upto = np.log([rows["low"], rows["high"].fillna(last)])
    seeds, of = np.unique(rows["seed"], return_inverse=True)
    drawn = rng.multinomial(len(seeds), np.full(len(seeds), 1 / len(seeds)), draws)
    weights = np.concatenate([np.ones((1, len(seeds))), drawn])[:, of]
    x = [rows[name] for name in ("log_envelope", *others)]
    if rows["lag"].nunique() > 1:
        x.append(np.log(rows["lag"]))
    x.append(np.ones(len(rows)))
    return censored_fit(np.stack(x, axis=1), above, upto, weights)[:, 0]


def identifying(rows: pd.DataFrame) -> pd.DataFrame:
    """Select the rows that tell something of the exponent (`exponent_draws`)."""
    inside = rows["high"].notna()
    lags = rows.loc[inside, "lag"].unique()
    chosen = rows["lag"].isin(lags) if len(lags) == 1 else np.ones(len(rows), bool)
    if is_bound(rows):
        mildest = rows.loc[chosen & ~inside, "log_envelope"].max()
        chosen &= inside | (rows["log_envelope"] == mildest)
    return rows[chosen]


def is_bound(rows: pd.DataFrame) -> bool:
    """Tell whether one dose alone has responses inside the grid, so that d is no more than a
    bound."""
    return rows.loc[rows["high"].notna(), "log_envelope"].nunique() == 1


def seed_interval(values: Array, n_seeds: int) -> Interval:
    """Make an interval of a fit, the first value, and of its draws over seeds.

    A bootstrap over n seeds is too narrow by √((n − 1)/n), and its quantiles are those of a normal,
    not of Student's t.
    """
    value, slopes = values[0], values[1:]
    if n_seeds == 1:
        return Interval(value, -np.inf, np.inf)
    student = stats.t.ppf(0.975, n_seeds - 1) / stats.norm.ppf(0.975)
    widen = np.sqrt(n_seeds / (n_seeds - 1)) * student
    low, high = value + widen * (np.quantile(slopes, [0.025, 0.975]) - value)
    return Interval(value, low, high)


def dose_exponent(
    rows: pd.DataFrame, rng: np.random.Generator, draws: int = 400, others: Sequence[str] = ()
) -> Interval:
    """Fit the exponent d of ``N½ ∝ f₀^d``, with its interval over seeds (`exponent_draws`).

    Without a lower end it is no more than a bound.
    """
    values = exponent_draws(rows, rng, draws, others)
    found = seed_interval(values, identifying(rows)["seed"].nunique())
    return found._replace(low=-np.inf) if is_bound(rows) else found
