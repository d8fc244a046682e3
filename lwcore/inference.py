"""Inference from one number a sequence: what is kept of it, and N(ℓ) and windows from that.

Sources, views, noises, rates, rules and definitions are those of `book/notation.md`. Error, level
and numbers of sequences come from the run's configuration where they are not given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import special

from lwcore import detection, stable
from lwcore.detection import Error, broadcast, sample_complexity
from lwcore.signatures import (
    ArgumentError,
    FiniteReals,
    Int64Count,
    Reals,
    Share,
    are_lags,
    bare,
    checked,
    floats,
    require,
)
from lwcore.stable.standard import Array
from lwcore.stats import holm
from lwcore.window import Definition, learnability_window

if TYPE_CHECKING:
    from lwcore.experiment.config import DiagnosticSettings

Noise = Literal["own", "whole"]
Rate = Literal["mean", "variance", "optimal", "paper_v2"]
Rule = Literal["tested", "plug-in"]
NOISES: tuple[Noise, ...] = get_args(Noise)
RATES: tuple[Rate, ...] = get_args(Rate)
RULES: tuple[Rule, ...] = get_args(Rule)
DEFINITIONS: tuple[Definition, ...] = get_args(Definition)
# Version 2's Section 6.1 to the letter: p = α, and the mean of T, which is f m̄, in the place of m̄.
LETTER: dict[str, Any] = {"rate": "paper_v2", "twice": True}
# What an optimiser meets; sequences' numbers have a variance (as chapter 08 measures).
OPTIMISER: dict[str, Any] = {"noise": "whole", "rate": "variance"}
FEWEST_BLOCKS = 4  # of which a quartile can be taken
BLOCK = 16  # sequences in a block: their means show how fast means concentrate


@checked
def summary(numbers: xr.Dataset) -> xr.Dataset:
    """What N(ℓ) takes, of the numbers (…, probe, lag, sequence) that `measure.observe` gives.

    ``signal`` and ``signal_error`` (…, probe, lag); by ``noise``, too, ``scale``, ``deviation``,
    ``exponent`` and ``alpha``; and ``n_measured``, the number of sequences. α is one for all probes
    and lags of a view, as in the paper: the median of those where numbers can be of a stable
    law, see `lwcore.stable.fit`. It is NaN where means do not concentrate, or where none can.
    """
    numbers = _readable(numbers)
    samples = xr.concat([numbers.statistic, numbers.projection], "noise")
    samples, count = samples.assign_coords(noise=list(NOISES)), samples.sizes["sequence"]

    def along(of: Callable[..., Any], outputs: int = 1) -> Any:
        ends: list[list[str]] = [[]] * outputs
        return xr.apply_ufunc(of, samples, input_core_dims=[["sequence"]], output_core_dims=ends)

    at_lags, scale = along(_tails, 2)
    alpha = at_lags.groupby("view").median(["probe", "lag"]).sel(view=numbers.view)
    spread, exponent = along(deviation), along(exponent_of_means)
    error = spread.sel(noise="own", drop=True) / np.sqrt(count)
    kept = {
        "signal": (numbers.statistic.mean("sequence"), "mean of the lag's statistic"),
        "signal_error": (error, "standard error of the mean"),
        "scale": (scale, "stable scale σ of one sequence's number"),
        "alpha": (alpha.where(alpha > 1), "tail index α, one for all probes and lags of a view"),
        "deviation": (spread, "standard deviation of one sequence's number"),
        "exponent": (exponent, f"exponent p with which means of {BLOCK} sequences concentrate"),
        "n_measured": (xr.DataArray(count), "number of sequences measured"),
    }
    return xr.Dataset({name: a.assign_attrs(long_name=words) for name, (a, words) in kept.items()})


def _readable(numbers: xr.Dataset) -> xr.Dataset:
    """Return the numbers of sequences as floats; refuse a dataset that does not hold them."""
    dimensions = {"probe", "lag", "sequence"}
    for name in ("statistic", "projection"):
        held = name in numbers and dimensions <= set(numbers[name].dims)
        _require_content("numbers", numbers, held, f"{name} (probe, lag, sequence), as measured")
        values = floats(f"numbers.{name}", numbers[name].values)
        require(f"numbers.{name}", values, np.isfinite(values), "finite")
        require(f"numbers.{name}", values, values.size > 0, "one number or more")
        if numbers[name].dtype.kind != "f":
            numbers = numbers.assign({name: numbers[name].copy(data=values)})
    same = set(numbers.statistic.dims) == set(numbers.projection.dims)
    words = f"of dimensions ({', '.join(map(str, numbers.statistic.dims))}), as the statistic"
    require("numbers.projection.dims", numbers.projection.dims, same, words)
    for name, dimension in (("view", "probe"), ("lag", "lag")):
        held = name in numbers.coords and numbers[name].dims == (dimension,)
        _require_content("numbers", numbers, held, f"the coordinate {name} ({dimension})")
    count = numbers.sizes["sequence"]
    require("numbers.sizes['sequence']", count, count > 1, "2 or above")
    return numbers


def _require_variables(results: xr.Dataset, *names: str) -> None:
    """Refuse a dataset that lacks variables or coordinates of a run."""
    for name in names:
        _require_content("results", results, name in results.variables, f"{name}, as a run does")


def _require_content(name: str, dataset: xr.Dataset, holds: bool, words: str) -> None:
    if not holds:
        variables = ", ".join(map(str, dataset.variables)) or "nothing"
        raise ArgumentError(f"{name} holds {variables}: it must hold {words}.")


def described(found: Mapping[str, tuple[Any, Any, str]]) -> xr.Dataset:
    """A dataset of variables that say what they are, from dimensions, values and words of each."""
    return xr.Dataset({name: (*held, {"long_name": text}) for name, (*held, text) in found.items()})


def _diagnostics_of(results: xr.Dataset) -> DiagnosticSettings:
    """Return a run's settings of what it measures."""
    # Imported here, because to diagnose a network needs no configuration, and no pydantic.
    from lwcore.experiment.config import config_of

    return config_of(results).diagnostics


@checked
def probes(results: xr.Dataset, view: str, source: str | None = None) -> xr.Dataset:
    """The probes of one view, and one source if it is named."""
    _require_variables(results, "view", *[] if source is None else ["source"])
    for name, value in (("view", view), ("source", source)):
        known = [value] if value is None else list(dict.fromkeys(results[name].values.tolist()))
        require(name, value, value in known, f"one of {', '.join(map(repr, known))}")
    kept = results.isel(probe=np.flatnonzero(results.view == view))
    return kept if source is None else kept.sel(source=source, drop=True)


@checked
def required(
    results: xr.Dataset,
    *,
    rate: Rate = "mean",
    noise: Noise = "own",
    rule: Rule = "tested",
    twice: bool = False,
    error: Error | None = None,
) -> xr.DataArray:
    """Numbers of sequences N(ℓ) that lags need, (…, probe, lag), from what `summary` keeps.

    Infinite where the mean is not positive, α not above 1, or the number 0 in all sequences; and,
    by the rule ``"tested"``, where the test declares no signal among all probes and lags given.
    With `twice` the mean of T, which is f m̄, is multiplied with f once more, and N(ℓ) infinite in
    views without an envelope; see `LETTER`. `error` is ε, the chance of a wrong sign.
    """
    _require_variables(results, "signal", "scale", "deviation", "alpha", "noise", "view")
    if twice:
        _require_variables(results, "envelope")
    of_noise, envelope = results.sel(noise=noise, drop=True), xr.DataArray(1.0)
    if twice:
        of_views = results.envelope.reindex(order=results.view.values, fill_value=0.0)
        envelope = of_views.rename(order="probe").drop_vars("probe")
    scale, alpha, by_rate = of_noise.scale, of_noise.alpha, rate
    if rate == "variance":  # a Gaussian's stable scale
        scale, alpha, by_rate = of_noise.deviation / np.sqrt(2), xr.full_like(alpha, 2.0), "mean"
    asked = _diagnostics_of(results).error if error is None else error
    arrays, how = (results.signal, scale, alpha, envelope), {"error": asked, "rate": by_rate}
    needed = xr.apply_ufunc(bare(sequences_needed), *arrays, kwargs=how)
    if rule == "tested":
        needed = needed.where(detected(results), np.inf)
    words = "sequences N(ℓ) needed to detect the lag"
    return needed.assign_attrs(long_name=words, units="sequences")


@checked
def sequences_needed(
    signal: Reals,
    scale: Reals,
    alpha: Reals,
    envelope: Reals = 1.0,
    error: Error = 0.1,
    rate: detection.Rate = "mean",
) -> Array:
    """`sample_complexity` entry by entry, infinite where noise has no scale or α is not above 1."""
    arguments = {"envelope": envelope, "signal": signal, "scale": scale, "alpha": alpha}
    f, mean, sigma, tail = broadcast(**arguments)
    require("envelope", f, np.isfinite(f) & (f >= 0), "finite, 0 or above")
    require("alpha", tail, ~(tail > 2), "2 or below, or NaN")
    require("scale", sigma, ~np.isinf(sigma), "finite, or NaN")
    carries, needed = (sigma > 0) & (tail > 1), np.full(tail.shape, np.inf)
    require("signal", mean, np.isfinite(mean) | ~carries, "finite, where there is noise")
    for one in np.unique(tail[carries]):
        of = carries & (tail == one)
        needed[of] = sample_complexity(f[of], mean[of], sigma[of], one, error, rate)
    return needed


@checked
def windows(
    results: xr.Dataset,
    budgets: FiniteReals | None = None,
    *,
    definition: Definition = "supremum",
    **how: Any,
) -> xr.DataArray:
    """Learnability windows H_N from `required`, which takes the rest; see `window_of`."""
    numbers = _diagnostics_of(results).budgets if budgets is None else budgets
    return window_of(required(results, **how), numbers, definition)


@checked
def window_of(
    needed: xr.DataArray, budgets: FiniteReals, definition: Definition = "supremum"
) -> xr.DataArray:
    """Windows in steps from N(ℓ), over ``budget``, the numbers of sequences N, if several."""
    dimensions = ", ".join(map(str, needed.dims))
    if "lag" not in needed.dims or "lag" not in needed.coords:
        raise ArgumentError(
            f"needed has dimensions {dimensions or 'none'}: it must have the dimension lag, "
            "and its coordinate."
        )
    if "budget" in needed.dims:
        raise ArgumentError(f"needed has dimensions {dimensions}: it must not have budget yet.")
    counts, lags = floats("budgets", budgets), needed.lag.values.tolist()
    require("budgets", budgets, counts.ndim <= 1, "a number, or a list of numbers")
    increase = needed.lag.ndim == 1 and are_lags(lags)
    require("needed.lag", lags, increase, "whole numbers from 1 on that increase")
    values = floats("needed", needed.values)
    require("needed", values, values >= 0, "0 or above, or infinite")
    if needed.dtype.kind != "f":
        needed = needed.copy(data=values)

    def read(values: Array) -> NDArray[np.int64]:
        return learnability_window(lags, values, np.atleast_1d(counts), definition=definition)

    found = xr.apply_ufunc(
        read, needed, input_core_dims=[["lag"]], output_core_dims=[["budget"]]
    ).assign_attrs(long_name="learnability window H_N", units="steps")
    if not counts.ndim:
        return found.squeeze("budget", drop=True)
    attributes = {"long_name": "number of sequences N", "units": "sequences"}
    return found.assign_coords(budget=("budget", counts, attributes))


@checked
def detected(results: xr.Dataset, level: Share | None = None) -> xr.DataArray:
    """Lags whose mean is above zero, false claims in a network, source and view held at a level."""
    _require_variables(results, "signal", "signal_error", "n_measured", "view")
    held = _diagnostics_of(results).significance if level is None else level
    family: list[Any] = ["probe", "lag"]

    def tested(part: xr.Dataset) -> xr.DataArray:
        return xr.apply_ufunc(
            bare(significant),
            *(part.signal, part.signal_error, part.n_measured),
            input_core_dims=[family, family, []],
            output_core_dims=[family],
            kwargs={"level": held},
        )

    by_view: Any = results[["signal", "signal_error", "n_measured"]].groupby("view")
    return by_view.map(tested)


@checked
def significant(
    mean: FiniteReals, error: FiniteReals, count: FiniteReals, level: Share
) -> NDArray[np.bool_]:
    """Means (..., probes, lags) that are above zero, each family's false claims held at a level.

    One-sided t-tests with Holm's correction; `count` is the number of sequences, (...) or one for
    all. For symmetric laws the t-test keeps its level however heavy the tails (Efron 1969).
    """
    means, errors, counts = floats("mean", mean), floats("error", error), floats("count", count)
    require("mean", mean, means.ndim > 1, "of shape (…, probes, lags)")
    words = f"one number, or of the mean's shape, {means.shape}"
    require("error", error, _is_for_each(errors.shape, means.shape), words)
    require("error", errors, errors >= 0, "0 or above")
    families = means.shape[:-2]
    words = f"one number, or one for each family, of shape {families}"
    require("count", count, _is_for_each(counts.shape, families), words)
    require("count", counts, counts >= 1, "1 or above")
    # Numbers that are 0 throughout show nothing: 0/0, read as p = 1.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = means / errors
    p = special.stdtr(counts[..., None, None] - 1, -t)
    family = np.nan_to_num(p, nan=1.0).reshape(*p.shape[:-2], -1)
    return bare(holm)(family, level).reshape(p.shape)


def _is_for_each(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Return whether a shape is empty, or another's but for sides of 1."""
    if not shape:
        return True
    pairs = zip(shape, whole, strict=False)
    return len(shape) == len(whole) and all(side in (1, size) for side, size in pairs)


@checked
def false_detections(
    statistic: FiniteReals, level: Share, rng: np.random.Generator, draws: Int64Count = 200
) -> int:
    """How many draws of every sequence's sign show the tested rule any lag: all of them are false.

    The numbers, (probes, lags, sequences), are a family, as `significant` takes it.
    """
    numbers, found = floats("statistic", statistic), 0
    require("statistic", statistic, numbers.ndim == 3, "of shape (probes, lags, sequences)")
    count = numbers.shape[-1]
    require("statistic", statistic, count > 1, "of two sequences or more")
    for signs in rng.choice([-1.0, 1.0], (draws, count)):
        flipped = numbers * signs
        error = bare(deviation)(flipped) / np.sqrt(count)
        found += bool(bare(significant)(flipped.mean(-1), error, count, level).any())
    return found


@checked
def deviation(numbers: FiniteReals) -> Array | np.float64:
    """Standard deviation along the last axis, without a square that leaves the range of a float."""
    values = floats("numbers", numbers)
    require("numbers", numbers, values.ndim > 0 and values.shape[-1] > 1, "two or more in a row")
    unit = np.abs(values).max(-1, keepdims=True)
    return unit[..., 0] * (values / np.where(unit > 0, unit, 1.0)).std(-1, ddof=1)


@checked
def exponent_of_means(numbers: FiniteReals) -> Array | np.float64:
    """Exponent p of means along the last axis, whose spread falls as ``N^(−1/p)``.

    It is that of two interquartile ranges: of the means of blocks, and of single numbers, as many
    at a time, so that few blocks do not make it smaller. NaN of fewer than 64 numbers, four blocks.
    """
    values = floats("numbers", numbers)
    blocks = values.shape[-1] // BLOCK if values.ndim else 0
    if blocks < FEWEST_BLOCKS:
        return np.full(values.shape[:-1], np.nan)[()]
    unit = np.abs(values).max(-1, keepdims=True)  # so that no sum leaves the range of a float
    whole = (values / np.where(unit > 0, unit, 1.0))[..., : blocks * BLOCK]
    rows = whole.reshape(*values.shape[:-1], blocks, BLOCK)
    of_means = np.subtract(*np.quantile(rows.mean(-1), [0.75, 0.25], axis=-1))
    of_singles = np.subtract(*np.quantile(rows, [0.75, 0.25], axis=-2))
    # Numbers without a spread have no exponent: NaN.
    with np.errstate(divide="ignore", invalid="ignore"):
        shrinkage = of_means / np.median(of_singles, axis=-1)
        exponent = -np.log(BLOCK) / np.log(shrinkage)
    return np.where((shrinkage > 0) & (shrinkage < np.inf), exponent, np.nan)[()]


def _tails(numbers: Array) -> tuple[Array, Array]:
    """Tail index and scale of a symmetric stable law fitted along the last axis."""
    fitted, shape = stable.fit(numbers.reshape(-1, numbers.shape[-1]).T), numbers.shape[:-1]
    return np.reshape(fitted.alpha, shape), np.reshape(fitted.scale, shape)
