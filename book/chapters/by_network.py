"""Numbers of a run, one a network: what is learned, decay laws of envelopes, windows, widths of
spectra, and slopes over lags."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from book.chapters.five_laws import FiveLaws, fit_each
from book.claims.claim import Measured, estimate, over
from lwcore import inference
from lwcore.signatures import require
from lwcore.stats import student

SCALAR = ["ConstGate", "SharedGate"]  # one gate for all neurons
MOST_SEEDS_OF_INTERVALS = 4  # of more seeds the range covers the median often enough


def numbers(*arrays: xr.DataArray) -> NDArray[np.float64]:
    """Return all entries of some arrays, one after the other, with NaN left out."""
    flat = np.concatenate([np.ravel(array) for array in arrays])
    return flat[~np.isnan(flat)]


def ranged(*networks: xr.DataArray) -> Measured:
    """Return the median and range over some networks, as sure as their seeds allow.

    NaN stands for no network.
    """
    seeds: set[int] = set()
    for array in networks:
        seeds.update(array.dropna("seed", how="all").seed.values)
    return over(numbers(*networks), len(seeds))


def _seeds_of_conditions(*networks: xr.DataArray) -> list[int]:
    """Count the seeds of each condition that a run has, which is all but the seed."""
    counts = []
    for array in networks:
        n_seeds = array.notnull().sum("seed").values.ravel()
        counts += n_seeds[n_seeds > 0].tolist()
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
    intervals = []
    fewest = values.size
    for array in networks:
        conditions = array.transpose(..., "seed").values.reshape(-1, array.sizes["seed"])
        for condition in conditions:
            of_seeds = condition[~np.isnan(condition)]
            if not of_seeds.size:
                continue  # a network that the run does not have
            require("networks", of_seeds.size, of_seeds.size >= 3, "three seeds in each condition")
            fewest = min(fewest, of_seeds.size)
            intervals.append(_interval(of_seeds, signed))
    low = min(interval[0] for interval in intervals)
    high = max(interval[1] for interval in intervals)
    return estimate(np.median(values), (low, high), n=fewest)


def _interval(of_seeds: NDArray[np.float64], signed: bool) -> tuple[float, float]:
    """Return the t interval over seeds, on the logarithmic scale if not signed.

    It is a point where all are the same: fixed by the configuration, as ConstGate's gate is.
    """
    scaled = of_seeds if signed else np.log(of_seeds)
    low = high = scaled[0]
    if np.ptp(scaled):
        _, low, high = student(scaled)
    return (low, high) if signed else (np.exp(low), np.exp(high))


def each(runs: Mapping[str, xr.Dataset], quantity: Callable[..., Any], **options: Any) -> Any:
    """Take a quantity of several runs, along ``run``; NaN for networks that a run does not have.

    Args:
        runs: Results by name.
        quantity: Takes a result, and these options, and returns an array.
    """
    by_run = [quantity(run, **options) for run in runs.values()]
    whole: Any = xr.concat(by_run, "run", join="outer", coords="minimal", compat="override")
    return whole.assign_coords(run=list(runs))


def learned_share(results: xr.Dataset) -> xr.DataArray:
    """Return the share learned: learned over planted coefficient at the task's lags.

    Its dimensions are (model, seed, lag).
    """
    other_dims = [dim for dim in results.planted.dims if dim != "delay"]
    planted = (results.planted != 0).any(other_dims)
    lags = results.delay.values[planted.values]
    measured = results.lag.values.tolist()
    require("the task's lags", lags, np.isin(lags, measured), f"among those measured, {measured}")
    share = results.learned / results.planted
    return share.sel(delay=lags).rename(delay="lag")


def single_lag_share(results: xr.Dataset) -> xr.DataArray:
    """Return learned over planted coefficient of a sweep's one delay.

    Its dimensions are (model, seed, lag, sequences).
    """
    of_all_delays = results.learned / results.planted
    share = of_all_delays.sel(delay=results.lag).drop_vars("delay")
    return share.transpose("model", "seed", "lag", "sequences").sortby(["lag", "sequences"])


def quantile(time_scale: xr.DataArray, level: float) -> xr.DataArray:
    """Return a quantile of time scales over neurons; it may be infinite, and NaN does not count."""
    rates = 1 / time_scale  # finite where a time scale is infinite
    return 1 / rates.quantile(1 - level, "unit").drop_vars("quantile")


def width(time_scale: xr.DataArray) -> xr.DataArray:
    """Return the width of a spectrum of time scales τ over ``unit``: log₁₀(τ₉₀/τ₁₀), in decades.

    It is infinite where more than a tenth of the neurons do not forget.
    """
    ratio = quantile(time_scale, 0.9) / quantile(time_scale, 0.1)
    return xr.apply_ufunc(np.log10, ratio).assign_attrs(
        long_name="width of the spectrum", units="decades"
    )


def decay_laws(run: xr.Dataset) -> xr.Dataset:
    """Fit decay laws to a run's envelopes, (model, seed, order, law), by least squares on log f.

    ``r_squared``, ``aicc`` and ``decay`` are those of `fit_each`; ``slow`` is κ of two
    exponentials and ``tempering`` λ of the tempered power, NaN for other laws.
    """
    of_fit = ["r_squared", "aicc"]
    of_law = ["decay", "slow", "tempering"]

    envelopes: Any = run.envelope.transpose(..., "lag")
    rows = []
    for laws in fit_each(run.lag.values, envelopes.values.reshape(-1, run.lag.size)):
        for fitted in laws:
            row = [getattr(fitted, name) for name in of_fit]
            rows.append(row + [getattr(fitted.law, name, np.nan) for name in of_law])
    one_lag = envelopes.isel(lag=0, drop=True)
    table = one_lag.expand_dims(law=len(FiveLaws._fields), number=5).transpose(..., "law", "number")
    table = table.copy(data=np.reshape(rows, table.shape))
    with_names = table.assign_coords(law=list(FiveLaws._fields), number=[*of_fit, *of_law])
    return with_names.to_dataset("number")


def window(run: xr.Dataset, view: str | list[str], n_sequences: Any = None, **options: Any) -> Any:
    """Return learnability windows on tested lags, Eq. (36), the median over a view's probes.

    Args:
        run: A result.
        view: A view, or a list of them, which then stand along ``order``.
        n_sequences: Numbers N; those of the run's configuration if None.
        options: Of `lwcore.inference.windows`.
    """
    if isinstance(view, list):
        by_view = [window(run, name, n_sequences, **options) for name in view]
        return xr.concat(by_view, "order").assign_coords(order=view)
    probes = inference.probes(run, view, "error")
    return inference.windows(probes, n_sequences, **options).median("probe")


def with_one_statistic(run: xr.Dataset, model: str) -> xr.Dataset:
    """Give one cell's statistic, its mean and its noise, to all cells; envelopes stay their own.

    A baseline for windows in which f is counted twice: what is left of the differences between
    cells is the second division by f.
    """
    names = ["signal", "signal_error", "scale", "alpha", "deviation"]
    of_model = run[names].sel(model=model, drop=True)
    return run.assign({name: of_model[name].broadcast_like(run[name]) for name in names})


def slope(ordinate: xr.DataArray, abscissa: xr.DataArray) -> xr.DataArray:
    """Return the least-squares slope over the lags at which the ordinate is finite."""
    finite = np.isfinite(ordinate)
    y = ordinate.where(finite)
    x = abscissa.where(finite)
    return xr.cov(y, x, "lag") / x.var("lag", ddof=1)
