"""From one number a sequence to what is kept of it, and from that to N(ℓ) and windows; knows
nothing of networks.

For each source, probe and lag `summary` keeps four numbers: the mean of the lag's part, its
standard error, and for two noises the stable scale σ and the tail index α; beside them the standard
deviation, and the exponent with which means concentrate. N(ℓ) and H_N are functions of these,
computed where they are asked for. What they take:

* ``noise``: ``"own"``, the paper's, is that of the lag's own part; ``"whole"`` that of the whole
  gradient along the same direction, in which an optimiser meets the lag's part.
* ``rate``: ``"mean"``, ``"optimal"`` and ``"paper_v2"`` are those of `lwcore.detection`;
  ``"variance"`` is the central limit theorem with the sample's variance, for noise that is not
  stable.
* ``rule``: ``"plug-in"`` believes every positive mean, ``"tested"`` only those that `detected`
  declares above zero.
* ``definition`` of a window: ``"supremum"``, Eq. (36), or ``"first_passage"``, the longest lag up
  to which all are detectable.

Error, level and numbers of sequences are those of the run's configuration where they are not given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore import stable
from lwcore.arguments import finite_array, generator, integer_in, one_of, real_in, require
from lwcore.config import Config, Sweep
from lwcore.detection import sample_complexity
from lwcore.labelled import dataset_with
from lwcore.window import learnability_window

Array = NDArray[np.float64]

NOISES = ("own", "whole")
RATES = ("mean", "variance", "optimal", "paper_v2")
RULES = ("tested", "plug-in")
DEFINITIONS = ("supremum", "first_passage")
# Version 2's Section 6.1 to the letter: p = α, and the mean of T, which is f m̄ already, in the
# place of m̄.
LETTER: dict[str, Any] = {"rate": "paper_v2", "twice": True}
# What an optimiser meets; sequences' numbers have a variance (see `tables.concentration`).
OPTIMISER: dict[str, Any] = {"noise": "whole", "rate": "variance"}
_AT_ONCE = 2**17  # numbers whose signs are drawn together, to stay in the cache
BLOCK = 16  # sequences a block mean takes together, to see how fast means concentrate


def summary(numbers: xr.Dataset) -> xr.Dataset:
    """Keep of ``statistic`` and ``projection`` (…, probe, lag, sequence), as `measure.observe`
    gives them, what N(ℓ) takes.

    Gives ``signal`` and ``signal_error`` (…, probe, lag); by ``noise``, too, ``scale``,
    ``deviation``, ``exponent`` and ``alpha``, one for all probes and lags of a view, as in the
    paper, and NaN where means do not concentrate; and ``n_measured``, the number of sequences.
    """
    dataset_with("numbers", numbers, "statistic", "projection", "view")
    samples = xr.concat([numbers.statistic, numbers.projection], "noise").assign_coords(
        noise=list(NOISES)
    )
    count = samples.sizes["sequence"]
    alpha_at_lag, scale = xr.apply_ufunc(
        _tails, samples, input_core_dims=[["sequence"]], output_core_dims=[[], []]
    )
    alpha = alpha_at_lag.groupby("view").median(["probe", "lag"]).sel(view=numbers.view)
    spread, exponent = (
        xr.apply_ufunc(of, samples, input_core_dims=[["sequence"]])
        for of in (deviation, exponent_of_means)
    )
    kept = {
        "signal": (numbers.statistic.mean("sequence"), "mean of the lag's statistic"),
        "signal_error": (
            spread.sel(noise="own", drop=True) / np.sqrt(count),
            "standard error of the mean",
        ),
        "scale": (scale, "stable scale σ of one sequence's number"),
        "alpha": (alpha.where(alpha > 1), "tail index α, one for all probes and lags of a view"),
        "deviation": (spread, "standard deviation of one sequence's number"),
        "exponent": (exponent, f"exponent p with which means of {BLOCK} sequences concentrate"),
        "n_measured": (xr.DataArray(count), "number of sequences measured"),
    }
    return xr.Dataset(
        {name: array.assign_attrs(long_name=meaning) for name, (array, meaning) in kept.items()}
    )


def config_of(results: xr.Dataset) -> Config:
    """Read the configuration of a run; of a sweep, that of its first point."""
    text = results.attrs["configuration"]
    return (
        next(iter(Sweep.model_validate_json(text).points().values()))
        if '"axes":' in text
        else Config.model_validate_json(text)
    )


def probes(results: xr.Dataset, view: str, source: str | None = None) -> xr.Dataset:
    """Keep the probes of one view, and one source if it is named."""
    dataset_with("results", results, "view")
    one_of("view", view, dict.fromkeys(results.view.values.tolist()))
    kept = results.isel(probe=np.flatnonzero(results.view == view))
    return (
        kept
        if source is None
        else kept.sel(source=one_of("source", source, results.source.values.tolist()), drop=True)
    )


def required(
    results: xr.Dataset,
    *,
    rate: str = "mean",
    noise: str = "own",
    rule: str = "tested",
    twice: bool = False,
    error: float | None = None,
    level: float | None = None,
) -> xr.DataArray:
    """Compute how many sequences N(ℓ) each lag needs, (…, probe, lag), from what `summary` keeps of
    a run.

    Infinite where the mean is not positive, α not above 1, or the number 0 in all sequences; and,
    by the rule ``"tested"``, where the test declares no signal among all probes and lags given.
    With `twice` the mean of T, which is f m̄, is multiplied with f once more, and N(ℓ) infinite in
    views without an envelope; see `LETTER`. `error` is ε in (0, 0.5), the chance of a wrong sign.
    """
    dataset_with("results", results, "signal", "scale", "alpha", "deviation")
    by_rate = one_of("rate", rate, RATES)
    of_noise = results.sel(noise=one_of("noise", noise, NOISES), drop=True)
    scale, alpha = of_noise.scale, of_noise.alpha
    if rate == "variance":
        # a Gaussian's stable scale
        scale, alpha, by_rate = of_noise.deviation / np.sqrt(2), xr.full_like(alpha, 2.0), "mean"
    envelope = xr.DataArray(1.0)
    if twice:
        envelope = (
            results.envelope.reindex(order=results.view.values, fill_value=0.0)
            .rename(order="probe")
            .drop_vars("probe")
        )
    carries = (scale > 0) & alpha.notnull()
    arrays = xr.broadcast(results.signal, envelope, scale.where(carries, 1.0), alpha.fillna(2.0))
    asked = config_of(results).diagnostics.error if error is None else error
    needed = xr.apply_ufunc(_needed, *arrays, kwargs={"error": asked, "rate": by_rate}).where(
        carries, np.inf
    )
    if one_of("rule", rule, RULES) == "tested":
        needed = needed.where(detected(results, level), np.inf)
    return needed.assign_attrs(
        long_name="sequences N(ℓ) needed to detect the lag", units="sequences"
    )


def _needed(
    signal: Array, envelope: Array, scale: Array, alpha: Array, error: float, rate: str
) -> Array:
    """Compute N(ℓ) for each tail index in turn."""
    needed = np.empty(signal.shape)
    for one in np.unique(alpha):
        of = alpha == one
        needed[of] = sample_complexity(envelope[of], signal[of], scale[of], one, error, rate)
    return needed


def windows(
    results: xr.Dataset,
    budgets: ArrayLike | None = None,
    *,
    definition: str = "supremum",
    **how: Any,
) -> xr.DataArray:
    """Compute learnability windows H_N from `required`, which takes the rest; see `window_of`."""
    return window_of(
        required(results, **how),
        config_of(results).diagnostics.budgets if budgets is None else budgets,
        definition,
    )


def window_of(
    needed: xr.DataArray, budgets: ArrayLike, definition: str = "supremum"
) -> xr.DataArray:
    """Read windows in steps off N(ℓ), over ``budget``, the numbers of sequences N; for a single N
    without that dimension."""
    finite_array("budgets", budgets)
    counts, lags = np.array(budgets), needed.lag.values.tolist()
    found = xr.apply_ufunc(
        lambda values: learnability_window(
            lags, values, np.atleast_1d(counts), definition=definition
        ),
        needed,
        input_core_dims=[["lag"]],
        output_core_dims=[["budget"]],
    ).assign_attrs(long_name="learnability window H_N", units="steps")
    if not counts.ndim:
        return found.squeeze("budget", drop=True)
    return found.assign_coords(
        budget=("budget", counts, {"long_name": "number of sequences N", "units": "sequences"})
    )


def detected(results: xr.Dataset, level: float | None = None) -> xr.DataArray:
    """Say where the mean is above zero, with the error of any false claim in a network, source and
    view held at a level."""
    dataset_with("results", results, "signal", "signal_error", "n_measured", "view")
    held = config_of(results).diagnostics.significance if level is None else level
    by_view = [probes(results, view) for view in dict.fromkeys(results.view.values.tolist())]
    found = [
        xr.apply_ufunc(
            significant,
            *(part.signal, part.signal_error, part.n_measured),
            input_core_dims=[["probe", "lag"], ["probe", "lag"], []],
            output_core_dims=[["probe", "lag"]],
            kwargs={"level": held},
        )
        for part in by_view
    ]
    return xr.concat(found, "probe")


def significant(
    mean: ArrayLike, error: ArrayLike, count: ArrayLike, level: float
) -> NDArray[np.bool_]:
    """Say which means, (..., probes, lags), are above zero, with the error of any false claim in a
    family held at a level.

    One-sided t-tests with Holm's correction; `count` is the number of sequences, (...) or one for
    all. For symmetric laws the t-test keeps its level however heavy the tails (Efron 1969).
    """
    means, errors = finite_array("mean", mean), finite_array("error", error)
    require("error", errors, errors >= 0, "0 or above")
    # numbers that are 0 throughout show nothing: 0/0, read as p = 1
    with np.errstate(divide="ignore", invalid="ignore"):
        t = means / errors
    return holm(
        np.nan_to_num(special.stdtr(np.asarray(count)[..., None, None] - 1, -t), nan=1.0), level
    )


def false_detections(
    statistic: ArrayLike, level: float, rng: np.random.Generator, draws: int = 200
) -> int:
    """Count in how many draws of every sequence's sign the tested rule sees any lag: no window at
    any N can be false more often.

    Args:
        statistic: One number a sequence, shape (probes, lags, sequences): a family, as
            `inference.significant` takes it.
        level: Error allowed for the family, in (0, 1).
        rng: Source of the signs.
        draws: Number of draws.

    Returns:
        Number of draws with a detection.
    """
    numbers, level = finite_array("statistic", statistic, ndim=3), real_in("level", level, "(0, 1)")
    signs = generator("rng", rng).choice(
        [-1.0, 1.0], (integer_in("draws", draws, 1), numbers.shape[-1])
    )
    count, at_once = numbers.shape[-1], max(1, _AT_ONCE // numbers.size)
    flipped = (
        numbers * signs[start : start + at_once, None, None] for start in range(0, draws, at_once)
    )
    found = (
        significant(many.mean(-1), deviation(many) / np.sqrt(count), count, level).any((1, 2))
        for many in flipped
    )
    return sum(int(one.sum()) for one in found)


def holm(p: ArrayLike, level: float) -> NDArray[np.bool_]:
    """Reject hypotheses by Holm's procedure: the p-values, (..., probes, lags), of all probes and
    lags are a family, held at a level."""
    real_in("level", level, "(0, 1)")
    chance = finite_array("p", p)
    require("p", chance, (chance >= 0) & (chance <= 1), "in [0, 1]")
    integer_in("dimensions of p", chance.ndim, 2)
    flat = chance.reshape(*chance.shape[:-2], -1)
    tests = flat.shape[-1]
    rank = flat.argsort(-1).argsort(-1)  # 0 for the smallest
    first_failure = np.where(flat > level / (tests - rank), rank, tests).min(-1, keepdims=True)
    return (rank < first_failure).reshape(chance.shape)


def deviation(numbers: ArrayLike) -> Array:
    """Standard deviation along the last axis, in units of the largest number meanwhile, so that no
    square leaves the range of a float."""
    values = finite_array("numbers", numbers)
    unit = np.abs(values).max(-1, keepdims=True)
    return unit[..., 0] * (values / np.where(unit > 0, unit, 1.0)).std(-1, ddof=1)


def exponent_of_means(numbers: Array) -> Array:
    """Exponent p of means, spread ∝ N^(−1/p), from the interquartile ranges of block means and of
    single numbers, on the last axis."""
    blocks = (
        numbers[..., : numbers.shape[-1] // BLOCK * BLOCK]
        .reshape(*numbers.shape[:-1], -1, BLOCK)
        .mean(-1)
    )
    block, single = (np.subtract(*np.quantile(x, [0.75, 0.25], axis=-1)) for x in (blocks, numbers))
    # numbers that are 0 throughout have no spread, and p is NaN
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.log(BLOCK) / np.log(block / single)


def _tails(numbers: Array) -> tuple[Array, Array]:
    """Fit a symmetric stable law along the last axis: α and scale."""
    fitted = stable.fit(numbers.reshape(-1, numbers.shape[-1]).T)
    return np.reshape(fitted.alpha, numbers.shape[:-1]), np.reshape(
        fitted.scale, numbers.shape[:-1]
    )
