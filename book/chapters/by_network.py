"""Numbers of a run, one a network: what is learned, decay laws of envelopes, windows, widths of
spectra, and slopes over lags."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from book.chapters.five_laws import FiveLaws, fit_laws
from book.claims.claim import Measured, estimate, over
from lwcore import inference
from lwcore.signatures import require
from lwcore.stats import student

SCALAR = ["ConstGate", "SharedGate"]  # one gate for all neurons
MOST_SEEDS_OF_INTERVALS = 4  # of more seeds the range covers the median often enough


def numbers(*arrays: xr.DataArray) -> NDArray[np.float64]:
    """All entries of some arrays, NaN left out."""
    flat = np.concatenate([np.ravel(array) for array in arrays])
    return flat[~np.isnan(flat)]


def ranged(*networks: xr.DataArray) -> Measured:
    """The range over some networks, as sure as their seeds allow; NaN stands for no network."""
    seeds = [set(one.dropna("seed", how="all").seed.values) for one in networks]
    return over(numbers(*networks), len(set.union(*seeds)))


def _seeds_of_conditions(*networks: xr.DataArray) -> list[int]:
    """Count the seeds of each condition that a run has, which is all but the seed."""
    counts = []
    for one in networks:
        found = one.notnull().sum("seed").values.ravel()
        counts += found[found > 0].tolist()
    return counts


def by_seed(*networks: xr.DataArray, signed: bool = False) -> Measured:
    """Return the median over some networks, with t intervals over seeds in place of their range.

    For three or four seeds, whose range decides nothing (the rule stands on the ledger's page). Of
    five seeds or more in each condition the range decides, and is returned: see `ranged`.
    Each condition, which is all but the seed, has a 95 % interval of its own: on the logarithmic
    scale, or on the plain one for a ``signed`` quantity, such as a difference or a slope. (A
    logarithm never crosses 0, so that three positive differences would always pass for a gain.)
    The result reaches from the lowest end of these to the highest, so that it meets a rule if every
    condition does. NaN stands for no network.
    """
    values = numbers(*networks)
    require("networks", values.min(), signed or values.min() > 0, "positive, or signed")
    fewest_seeds = min(_seeds_of_conditions(*networks))
    if fewest_seeds > MOST_SEEDS_OF_INTERVALS:
        return ranged(*networks)
    ends = []
    fewest = values.size
    for one in networks:
        conditions = one.transpose(..., "seed").values.reshape(-1, one.sizes["seed"])
        for condition in conditions:
            of_seeds = condition[~np.isnan(condition)]
            if not of_seeds.size:
                continue  # a network that the run does not have
            require("networks", of_seeds.size, of_seeds.size >= 3, "three seeds in each condition")
            fewest = min(fewest, of_seeds.size)
            scaled = of_seeds if signed else np.log(of_seeds)
            if np.ptp(scaled):
                _, low, high = student(scaled)
            else:  # fixed by the configuration, as ConstGate's gate is
                low = high = scaled[0]
            ends += [low, high]
    low, high = min(ends), max(ends)
    interval = (low, high) if signed else (np.exp(low), np.exp(high))
    return estimate(np.median(values), interval, n=fewest)


def each(runs: Mapping[str, xr.Dataset], of: Callable[..., Any], **how: Any) -> Any:
    """A quantity of several runs along ``run``; NaN for networks that a run does not have."""
    found = [of(run, **how) for run in runs.values()]
    whole: Any = xr.concat(found, "run", join="outer", coords="minimal", compat="override")
    return whole.assign_coords(run=list(runs))


def learned_share(results: xr.Dataset) -> xr.DataArray:
    """Share learned: learned over planted coefficient at the task's lags (model, seed, lag)."""
    planted = (results.planted != 0).any([dim for dim in results.planted.dims if dim != "delay"])
    lags = results.delay.values[planted.values]
    measured = results.lag.values.tolist()
    require("the task's lags", lags, np.isin(lags, measured), f"among those measured, {measured}")
    return (results.learned / results.planted).sel(delay=lags).rename(delay="lag")


def single_lag_share(results: xr.Dataset) -> xr.DataArray:
    """Learned over planted coefficient of a sweep's one delay (model, seed, lag, sequences)."""
    ratio = (results.learned / results.planted).sel(delay=results.lag).drop_vars("delay")
    return ratio.transpose("model", "seed", "lag", "sequences").sortby(["lag", "sequences"])


def quantile(time_scale: xr.DataArray, level: float) -> xr.DataArray:
    """A quantile of time scales over neurons; it may be infinite, and NaN does not count."""
    return 1 / (1 / time_scale).quantile(1 - level, "unit").drop_vars("quantile")


def width(time_scale: xr.DataArray) -> xr.DataArray:
    """Width of a spectrum of time scales τ over ``unit``: log₁₀(τ₉₀/τ₁₀), in decades.

    It is infinite where more than a tenth of the neurons do not forget.
    """
    ratio = quantile(time_scale, 0.9) / quantile(time_scale, 0.1)
    return xr.apply_ufunc(np.log10, ratio).assign_attrs(
        long_name="width of the spectrum", units="decades"
    )


def decay_laws(run: xr.Dataset) -> xr.Dataset:
    """Decay laws of a run's envelopes over (model, seed, order, law), fitted to log f.

    ``r_squared``, ``aicc`` and ``decay`` are those of `fit_laws`; ``slow`` is κ of two
    exponentials and ``tempering`` λ of the tempered power, NaN for other laws.
    """
    names = ["r_squared", "aicc", "decay", "slow", "tempering"]

    def fit(envelope: NDArray[np.float64]) -> NDArray[np.float64]:
        fits = fit_laws(run.lag.values, envelope)
        return np.array(
            [[getattr(one.law, name, getattr(one, name, np.nan)) for name in names] for one in fits]
        )

    dims: Any = {"input_core_dims": [["lag"]], "output_core_dims": [["law", "number"]]}
    table: xr.DataArray = xr.apply_ufunc(fit, run.envelope, vectorize=True, **dims)
    return table.assign_coords(law=list(FiveLaws._fields), number=names).to_dataset("number")


def window(run: xr.Dataset, view: str | list[str], n_sequences: Any = None, **how: Any) -> Any:
    """Learnability windows on tested lags, Eq. (36), the median over a view's probes.

    Of a list of views they stand along ``order``.
    """
    if isinstance(view, list):
        found = [window(run, one, n_sequences, **how) for one in view]
        return xr.concat(found, "order").assign_coords(order=view)
    chosen = inference.probes(run, view, "error")
    return inference.windows(chosen, n_sequences, **how).median("probe")


def with_one_statistic(run: xr.Dataset, model: str) -> xr.Dataset:
    """Give one cell's statistic, its mean and its noise, to all cells; envelopes stay their own.

    A baseline for windows in which f is counted twice: what is left of the differences between
    cells is the second division by f.
    """
    names = ["signal", "signal_error", "scale", "alpha", "deviation"]
    one = run[names].sel(model=model, drop=True)
    return run.assign({name: one[name].broadcast_like(run[name]) for name in names})


def slope(of: xr.DataArray, on: xr.DataArray) -> xr.DataArray:
    """Least-squares slope over the lags at which the ordinate is finite."""
    kept = np.isfinite(of)
    at = on.where(kept)
    return xr.cov(of.where(kept), at, "lag") / at.var("lag", ddof=1)
