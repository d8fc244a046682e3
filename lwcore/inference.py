"""Inference from one number a sequence: what is kept of it, and N(ℓ) and windows from that.

Three steps lead from a measurement to a window: `signal_and_noise` keeps mean, scale and tail index
of the numbers; `required` turns these into N(ℓ), how many sequences a lag needs; `window_of` reads
off the longest lag that N sequences detect. `windows` takes the last two at once.

What can be chosen (see `book/notation.md`):

* ``noise``: ``"own"`` is the spread of the lag's own part of the gradient, as in the paper;
  ``"whole"`` that of the whole gradient, in which an optimiser meets it.
* ``detector``: who names the sign, see `lwcore.detection`; ``"variance"`` is the mean of numbers
  that have a variance.
* ``rule``: ``"tested"`` believes in a lag only after a test; ``"plug-in"`` takes every mean for
  what it is.

Error, level and numbers of sequences come from the run's configuration where they are not given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

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
    checked,
    floats,
    require,
    unchecked,
)
from lwcore.stable.law import LARGEST
from lwcore.stable.standard import Array
from lwcore.stats import holm
from lwcore.window import Definition, learnability_window

Noise = Literal["own", "whole"]
Detector = Literal["mean", "variance", "likelihood", "paper_v2"]
Rule = Literal["tested", "plug-in"]
NOISES: tuple[Noise, ...] = get_args(Noise)
DETECTORS: tuple[Detector, ...] = get_args(Detector)
RULES: tuple[Rule, ...] = get_args(Rule)
# Options of `required` for Section 6.1 of version 2, word for word: p = α, and the mean of T stands
# in the place of m̄. That mean is f m̄ already, so that f is counted twice.
PAPER_V2: dict[str, Any] = {"detector": "paper_v2", "envelope_squared": True}
# Options of `required` for what an optimiser meets: the noise of the whole gradient. Chapter 08
# measures that the numbers of sequences have a variance.
OPTIMISER_VIEW: dict[str, Any] = {"noise": "whole", "detector": "variance"}
BLOCK = 16  # sequences in a block: the means of blocks show how fast means concentrate


@checked
def signal_and_noise(numbers: xr.Dataset) -> xr.Dataset:
    """Return what N(ℓ) is computed from: mean, spread and tail of the numbers of sequences.

    These are the variables from ``signal`` to ``n_measured``, see :ref:`api-run-data`.

    α is one for all probes and lags of a view, as in the paper: the median of those where numbers
    can be of a stable law, see `lwcore.stable.fit`. It is NaN where means do not concentrate, or
    where none can.

    Args:
        numbers: ``statistic`` and ``projection`` (…, probe, lag, sequence), with the coordinates
            ``view`` (probe) and ``lag``, as `measure.observe` returns them.
    """
    numbers = _readable(numbers)
    samples = xr.concat([numbers.statistic, numbers.projection], "noise")
    samples = samples.assign_coords(noise=list(NOISES))
    count = samples.sizes["sequence"]

    def over_sequences(function: Callable[..., Any], n_outputs: int = 1) -> Any:
        remaining: list[list[str]] = [[]] * n_outputs
        return xr.apply_ufunc(
            function, samples, input_core_dims=[["sequence"]], output_core_dims=remaining
        )

    alpha_of_each, scale = over_sequences(_tails, n_outputs=2)
    alpha_of_view = alpha_of_each.groupby("view").median(["probe", "lag"])
    alpha = alpha_of_view.sel(view=numbers.view)
    alpha = alpha.where(alpha > 1)  # means of heavier tails do not concentrate
    spread = over_sequences(deviation)
    exponent = over_sequences(exponent_of_means)
    mean = numbers.statistic.mean("sequence")
    error = spread.sel(noise="own", drop=True) / np.sqrt(count)
    n_measured = xr.DataArray(count)
    about_exponent = f"exponent p with which means of {BLOCK} sequences concentrate"
    with_description = [
        ("signal", mean, "mean of the lag's statistic"),
        ("signal_error", error, "standard error of the mean"),
        ("scale", scale, "stable scale σ of one sequence's number"),
        ("alpha", alpha, "tail index α, one for all probes and lags of a view"),
        ("deviation", spread, "standard deviation of one sequence's number"),
        ("exponent", exponent, about_exponent),
        ("n_measured", n_measured, "number of sequences measured"),
    ]
    return xr.Dataset({name: x.assign_attrs(long_name=said) for name, x, said in with_description})


def _readable(numbers: xr.Dataset) -> xr.Dataset:
    """Return numbers of sequences as floats; refuse what `signal_and_noise` cannot take."""
    dims = ("probe", "lag", "sequence")
    contents = {"statistic": dims, "projection": dims, "view": ("probe",), "lag": ("lag",)}
    _require_content("numbers", numbers, contents)
    count = numbers.sizes["sequence"]
    require("numbers.sizes['sequence']", count, count > 1, "2 or above")
    for name in ("statistic", "projection"):
        array = numbers[name]
        values = floats(f"numbers.{name}", array.values)
        require(f"numbers.{name}", values, values.size > 0, "one number or more")
        is_in_range = np.abs(values) <= LARGEST
        require(f"numbers.{name}", values, is_in_range, f"finite, of a size up to {LARGEST:g}")
        if array.dtype not in (np.float32, np.float64):
            numbers = numbers.assign({name: array.copy(data=values)})
    return numbers


def _require_content(argument: str, dataset: Any, contents: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a dataset that lacks a variable, a coordinate or one of their dimensions."""
    for name, dims in contents.items():
        if name in dataset.variables and set(dims) <= set(dataset[name].dims):
            continue
        held = ", ".join(map(str, dataset.variables)) or "nothing"
        wanted = f"{name} ({', '.join(dims)})" if dims else name
        raise ArgumentError(f"{argument} holds {held}: it must hold {wanted}, as measured.")


def described(variables: Mapping[str, tuple[Any, Any, str]]) -> xr.Dataset:
    """Return a dataset whose variables say what they are, in the attribute ``long_name``.

    Args:
        variables: By name, the dimensions, the values and what they are, in words.
    """
    data = {}
    for name, (dims, values, description) in variables.items():
        data[name] = (dims, values, {"long_name": description})
    return xr.Dataset(data)


def _diagnostics_of(results: xr.Dataset) -> dict[str, Any]:
    """Return a run's settings of what it measures: error, significance and budgets among them."""
    variables = ", ".join(map(str, results.variables)) or "nothing"
    is_of_a_run = "configuration" in results.attrs
    require("results", variables, is_of_a_run, "the result of a run, with its configuration")
    settings: dict[str, Any] = json.loads(results.attrs["configuration"])["diagnostics"]
    return settings


@checked
def probes(results: xr.Dataset, view: str, source: str | None = None) -> xr.Dataset:
    """Select the probes of one view, and one source if it is named.

    Take ``view="gradient"`` and ``source="error"`` for what training meets (with `required` and
    `windows` in ``noise="whole"``, ``detector="variance"``), ``"zeroth"`` or ``"first"`` for the
    paper's statistic, ``source="noise"`` for a control without a signal.

    Args:
        view: How probes look at the lag's part of the gradient.
        source: What made the errors; all sources are kept if None.
    """
    _require_label(results, "view", view)
    of_view = results.isel(probe=np.flatnonzero(results.view == view))
    if source is None:
        return of_view
    _require_label(results, "source", source)
    return of_view.sel(source=source, drop=True)


def _require_label(results: xr.Dataset, dimension: str, label: str) -> None:
    """Refuse a label that a run does not have, and name those it has."""
    _require_content("results", results, {dimension: ()})
    known = list(dict.fromkeys(results[dimension].values.tolist()))
    require(dimension, label, label in known, f"one of {', '.join(map(repr, known))}")


@checked
def required(
    results: xr.Dataset,
    *,
    detector: Detector = "mean",
    noise: Noise = "own",
    rule: Rule = "tested",
    envelope_squared: bool = False,
    error: Error | None = None,
) -> xr.DataArray:
    """Return N(ℓ), how many sequences each lag needs, (…, probe, lag).

    Infinite where the mean is not positive, α not above 1, or the number 0 in all sequences; by the
    rule ``"tested"`` also where `detected` finds no signal.

    Args:
        detector: Who names the sign, see the module; so for `noise` and `rule`.
        envelope_squared: Whether the mean of T, which is f m̄ already, is multiplied with f once
            more, as version 2 of the paper does (``PAPER_V2`` holds its options). N(ℓ) is infinite
            in views without an envelope.
        error: ε, the chance of a wrong sign; that of the run's configuration if None.
    """
    names = ["signal", "scale", "deviation", "alpha", "noise", "view"]
    if envelope_squared:
        names.append("envelope")
    _require_content("results", results, dict.fromkeys(names, ()))
    envelope = xr.DataArray(1.0)
    if envelope_squared:
        # The envelope of a view is that of the order with its name; other views have none, f = 0.
        by_view = results.envelope.reindex(order=results.view.values, fill_value=0.0)
        envelope = by_view.rename(order="probe").drop_vars("probe")

    of_noise = results.sel(noise=noise, drop=True)
    if detector == "variance":
        # Their means concentrate as those of a Gaussian: α = 2, and its scale is deviation/√2.
        scale = of_noise.deviation / np.sqrt(2)
        alpha = xr.full_like(of_noise.alpha, 2.0)
    else:
        scale = of_noise.scale
        alpha = of_noise.alpha
    chance = _diagnostics_of(results)["error"] if error is None else error
    of_stable_law = "mean" if detector == "variance" else detector
    needed = xr.apply_ufunc(
        unchecked(sequences_needed),
        results.signal,
        scale,
        alpha,
        envelope,
        kwargs={"error": chance, "detector": of_stable_law},
    )
    if rule == "tested":
        needed = needed.where(detected(results), np.inf)
    description = "sequences N(ℓ) needed to detect the lag"
    return needed.assign_attrs(long_name=description, units="sequences")


@checked
def sequences_needed(
    signal: Reals,
    scale: Reals,
    alpha: Reals,
    envelope: Reals = 1.0,
    error: Error = 0.1,
    detector: detection.Detector = "mean",
) -> Array:
    """Return N(ℓ), `sample_complexity`, entry by entry, for laws with different tails.

    Infinite where noise has no scale or α is not above 1. Arrays broadcast.

    Args:
        signal: The mean m̄, or f m̄ with the envelope left at 1.
        scale: σ of one sequence's number.
        alpha: Tail index α; NaN where there is none.
        envelope: f, which multiplies the mean.
    """
    # `broadcast` names the argument that does not fit.
    f, mean, sigma, tail = broadcast(envelope=envelope, signal=signal, scale=scale, alpha=alpha)
    require("envelope", f, np.isfinite(f) & (f >= 0), "finite, 0 or above")
    require("alpha", tail, ~(tail > 2), "2 or below, or NaN")
    require("scale", sigma, ~np.isinf(sigma), "finite, or NaN")
    usable = (sigma > 0) & (tail > 1)
    require("signal", mean, np.isfinite(mean) | ~usable, "finite, where there is noise")
    needed = np.full(tail.shape, np.inf)
    # Once for each α: the constant of a law is the expensive part.
    for one_alpha in np.unique(tail[usable]):
        same = usable & (tail == one_alpha)
        needed[same] = sample_complexity(
            f[same], mean[same], sigma[same], one_alpha, error, detector
        )
    return needed


@checked
def windows(
    results: xr.Dataset,
    n_sequences: FiniteReals | None = None,
    *,
    definition: Definition = "supremum",
    **options: Any,
) -> xr.DataArray:
    """Return learnability windows H_N in steps, straight from the results of a run.

    It is `window_of` applied to `required`: take these two where N(ℓ) itself is of interest.

    Args:
        n_sequences: Numbers of sequences N; the budgets of the run's configuration if None.
        definition: See `lwcore.window.learnability_window`.
        options: Of `required`: ``detector``, ``noise``, ``rule``, ``envelope_squared``, ``error``.
    """
    numbers = _diagnostics_of(results)["budgets"] if n_sequences is None else n_sequences
    return window_of(required(results, **options), numbers, definition)


@checked
def window_of(
    needed: xr.DataArray, n_sequences: FiniteReals, definition: Definition = "supremum"
) -> xr.DataArray:
    """Return windows H_N in steps from N(ℓ), for one or several numbers of sequences N.

    Args:
        needed: N(ℓ) with the dimension and coordinate ``lag``, as `required` returns it.
        n_sequences: N; several numbers are the dimension ``n_sequences`` of the result.
        definition: See `lwcore.window.learnability_window`.
    """
    _require_content("needed", needed.coords, {"lag": ("lag",)})
    lags = needed.lag.values.tolist()
    counts = floats("n_sequences", n_sequences)
    require("n_sequences", n_sequences, counts.ndim < 2, "a number, or a list of numbers")

    def read_off(at_lags: Array) -> NDArray[np.int64] | np.int64:
        return learnability_window(lags, at_lags, counts, definition=definition)

    dims = ["n_sequences"] * counts.ndim
    window = xr.apply_ufunc(read_off, needed, input_core_dims=[["lag"]], output_core_dims=[dims])
    window = window.assign_attrs(long_name="learnability window H_N", units="steps")
    if counts.ndim == 0:
        return window
    about_numbers = {"long_name": "number of sequences N", "units": "sequences"}
    return window.assign_coords(n_sequences=("n_sequences", counts, about_numbers))


@checked
def detected(results: xr.Dataset, level: Share | None = None) -> xr.DataArray:
    """Return which lags' means are above zero, by the test of `significant`.

    The family of one test is a network, source and view: the chance of any false claim among its
    probes and lags is at most the level.

    Args:
        level: That chance; the significance of the run's configuration if None.
    """
    names = ["signal", "signal_error", "n_measured", "view"]
    _require_content("results", results, dict.fromkeys(names, ()))
    chance = _diagnostics_of(results)["significance"] if level is None else level
    family: list[Any] = ["probe", "lag"]

    def test(of_view: xr.Dataset) -> xr.DataArray:
        return xr.apply_ufunc(
            unchecked(significant),
            of_view.signal,
            of_view.signal_error,
            of_view.n_measured,
            input_core_dims=[family, family, []],
            output_core_dims=[family],
            kwargs={"level": chance},
        )

    by_view: Any = results[names[:3]].groupby("view")
    return by_view.map(test)


@checked
def significant(
    mean: FiniteReals, error: FiniteReals, count: FiniteReals, level: Share
) -> NDArray[np.bool_]:
    """Test which means (..., probes, lags) are above zero, and keep false claims rare.

    One-sided t-tests with Holm's correction: the chance of any false claim among the probes and
    lags of a family is at most the level. For symmetric laws the t-test keeps its level however
    heavy the tails (Efron 1969).

    Args:
        error: Standard errors of the means.
        count: Number of sequences of a mean, (...) or one for all.
    """
    require("mean", mean, np.ndim(mean) > 1, "of shape (…, probes, lags)")
    of_families = floats("count", count)[..., None, None]
    means, errors, counts = broadcast(mean=mean, error=error, count=of_families)
    families = means.shape[:-2]
    require("error", errors, errors >= 0, "0 or above")
    require("count", counts, counts >= 1, "1 or above")
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = means / np.abs(errors)  # −0 is 0
    p = special.stdtr(counts - 1, -t)
    # Numbers that are 0 throughout show nothing: 0/0, read as p = 1.
    p = np.nan_to_num(p, nan=1.0)
    by_family = p.reshape(*families, -1)
    return unchecked(holm)(by_family, level).reshape(p.shape)


@checked
def false_detections(
    statistic: FiniteReals, level: Share, rng: np.random.Generator, draws: Int64Count = 200
) -> int:
    """Count the draws of random signs in which the tested rule sees any lag: all of them are false.

    Multiplying every sequence's number by a random sign takes the signal away and leaves the noise.
    The share of such draws should not be above the level.

    Args:
        statistic: Numbers (probes, lags, sequences): one family, as `significant` takes it.
        level: Chance of any false claim that the test is to keep.
        draws: How often signs are drawn.
    """
    numbers = floats("statistic", statistic)
    require("statistic", statistic, numbers.ndim == 3, "of shape (probes, lags, sequences)")
    count = numbers.shape[-1]
    require("statistic", statistic, count > 1, "of two sequences or more")
    n_false = 0
    for signs in rng.choice([-1.0, 1.0], (draws, count)):
        flipped = numbers * signs
        error = unchecked(deviation)(flipped) / np.sqrt(count)
        claims = unchecked(significant)(flipped.mean(-1), error, count, level)
        n_false += bool(claims.any())
    return n_false


@checked
def deviation(numbers: FiniteReals) -> Array | np.float64:
    """Return the standard deviation along the last axis, of numbers however small.

    The estimate divides by n − 1. Numbers are divided by the largest of their row first, so that
    gradients of 1e-200 have a deviation above 0.
    """
    values = floats("numbers", numbers)
    require("numbers", numbers, values.ndim > 0 and values.shape[-1] > 1, "two or more in a row")
    require("numbers", values, np.abs(values) <= LARGEST, f"of a size up to {LARGEST:g}")
    largest = np.abs(values).max(-1, keepdims=True)
    scaled = values / np.where(largest > 0, largest, 1.0)
    return largest[..., 0] * scaled.std(-1, ddof=1)


@checked
def exponent_of_means(numbers: FiniteReals) -> Array | np.float64:
    """Return the exponent p with which means concentrate: their spread falls as ``N^(−1/p)``.

    2 for numbers with a variance, more where tails are heavy. It compares the interquartile range
    of the means of blocks of 16 numbers, along the last axis, with that of as many single numbers.
    NaN of fewer than 64 numbers, four blocks.
    """
    values = floats("numbers", numbers)
    rows = values.shape[:-1]
    n_blocks = values.shape[-1] // BLOCK if values.ndim else 0
    if n_blocks < 4:  # of which a quartile would say nothing
        return np.full(rows, np.nan)[()]
    whole_blocks = values[..., : n_blocks * BLOCK]
    blocks = whole_blocks.reshape(*rows, n_blocks, BLOCK)
    of_means = _interquartile_range(blocks.mean(-1), axis=-1)
    of_singles = _interquartile_range(blocks, axis=-2)
    with np.errstate(divide="ignore", invalid="ignore"):
        shrinkage = of_means / np.median(of_singles, axis=-1)
        exponent = -np.log(BLOCK) / np.log(shrinkage)
    # Numbers without a spread have no exponent: NaN.
    has_spread = (shrinkage > 0) & (shrinkage < np.inf)
    return np.where(has_spread, exponent, np.nan)[()]


def _interquartile_range(values: Array, axis: int) -> Array:
    """Return the distance between the quartiles along an axis."""
    upper, lower = np.quantile(values, [0.75, 0.25], axis=axis)
    return upper - lower


def _tails(numbers: Array) -> tuple[Array, Array]:
    """Return tail index α and scale σ of a symmetric stable law fitted along the last axis."""
    columns = numbers.reshape(-1, numbers.shape[-1]).T
    fitted = stable.fit(columns)
    shape = numbers.shape[:-1]
    return np.reshape(fitted.alpha, shape), np.reshape(fitted.scale, shape)
