"""From one number a sequence to tails, sample complexity and windows; knows nothing of networks."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import special

from lwcore import bounds, stable, window
from lwcore.arguments import finite_array, instance_of, integer_in, one_of, real_in, require
from lwcore.config import DiagnosticSettings
from lwcore.labelled import dataset_with

NOISES = ("lag", "total")
READINGS = ("mean", "variance", "optimal", "paper_v2", "letter_v2")
BLOCK = 16  # sequences a block mean takes together, to see how fast means concentrate


def infer(observed: xr.Dataset, settings: DiagnosticSettings) -> xr.Dataset:
    """Turn one number a sequence into tails, sample complexity N(ℓ) and the learnability window H_N. Implements Eqs. (34)–(37).

    N(ℓ) is given with two definitions of the noise. ``"lag"``, the paper's, takes the scale of the lag's own statistic, ``"total"`` that
    of the whole gradient along the same direction, in which an optimiser meets the lag's part. And in five readings:

    * ``"mean"``: p = κ_α and m̄ = mean(T)/f, the later versions' exponent;
    * ``"variance"``: the central limit theorem with the sample's variance, for noise that is not stable;
    * ``"optimal"`` and ``"paper_v2"``: the other two exponents of `bounds`;
    * ``"letter_v2"``: v2's Section 6.1 to the letter, p = α and the mean of T, which is f m̄, in the place of m̄, so that f enters twice.
      Infinite for views that have no envelope.

    Windows follow two rules, ``"plug-in"``: every positive mean is believed; ``"tested"``: only those that `significant` declares above
    zero; and two definitions, ``"supremum"``, Eq. (36), and ``"first_passage"``, the longest lag up to which all are detectable.

    Args:
        observed: ``rate``, ``statistic`` and ``projection`` as `measure.observe` gives them.
        settings: Error, significance and budgets.

    Returns:
        The dataset; every variable says in ``long_name`` what it is.
    """
    dataset_with("observed", observed, "rate", "statistic", "projection")
    instance_of("settings", settings, DiagnosticSettings)
    envelope = observed.rate.sum("unit").assign_attrs(long_name="envelope f(ℓ), per unit of global learning rate")
    time_scale = xr.apply_ufunc(
        lambda rates: window.time_scales(settings.lags, rates),
        observed.rate,
        input_core_dims=[["lag", "unit"]],
        output_core_dims=[["unit"]],
    )
    by_view = []
    for view in dict.fromkeys(observed.view.values):
        part = probes(observed[["statistic", "projection"]], view)
        by_view.append(_infer_view(part, envelope.sel(order=view, drop=True) if view in envelope.order.values else None, settings))
    result = xr.concat(by_view, "probe")
    result["envelope"] = envelope
    result["time_scale"] = time_scale.assign_attrs(long_name="time scale τ of a neuron", units="steps")
    return result.assign_coords(budget=("budget", list(settings.budgets), {"long_name": "number of sequences N", "units": "sequences"}))


def _infer_view(observed: xr.Dataset, envelope: xr.DataArray | None, settings: DiagnosticSettings) -> xr.Dataset:
    """Infer from the probes of one view; the tail index is global, as in the paper, and so is the test's level."""
    samples = xr.concat([observed.statistic, observed.projection], "noise_definition").assign_coords(noise_definition=list(NOISES))
    statistic = observed.statistic
    signal = statistic.mean("sequence")
    detected = xr.apply_ufunc(
        significant,
        statistic,
        input_core_dims=[["probe", "lag", "sequence"]],
        output_core_dims=[["probe", "lag"]],
        kwargs={"level": settings.significance},
    )
    alpha_at_lag, scale = _tails(samples)
    alpha = alpha_at_lag.median(["probe", "lag"])
    alpha = alpha.where(alpha > 1)  # at or below 1 means do not concentrate at all, and no number of sequences will do
    deviation = _deviation(samples)
    f = xr.ones_like(signal) if envelope is None else envelope
    readings = [
        _required(signal, scale, alpha, settings.error, "mean"),
        _required(signal, deviation / np.sqrt(2), xr.full_like(alpha, 2.0), settings.error, "mean"),
        _required(signal, scale, alpha, settings.error, "optimal"),
        _required(signal, scale, alpha, settings.error, "paper_v2"),
        _required(signal * f, scale, alpha, settings.error, "paper_v2").where(envelope is not None, np.inf),
    ]
    required = xr.concat(readings, "reading").assign_coords(reading=list(READINGS))
    required = xr.concat([required.where(detected, np.inf), required], "rule").assign_coords(rule=["tested", "plug-in"])
    definitions = ["supremum", "first_passage"]
    windows = [
        xr.apply_ufunc(
            lambda needed, definition=definition: window.learnability_window(
                settings.lags, needed, settings.budgets, definition=definition
            ),
            required,
            input_core_dims=[["lag"]],
            output_core_dims=[["budget"]],
        )
        for definition in definitions
    ]
    names = {
        "signal": (signal, "mean of the lag's statistic", ""),
        "signal_error": (_deviation(statistic) / np.sqrt(statistic.sizes["sequence"]), "standard error of the mean", ""),
        "detected": (detected, "mean above zero at the family-wise level", ""),
        "scale": (scale, "stable scale σ of one sequence's number", ""),
        "alpha": (alpha.broadcast_like(signal.isel(lag=0, drop=True)), "tail index α, one for all probes and lags of a view", ""),
        "exponent": (_concentration(samples), f"exponent p with which means of {BLOCK} sequences concentrate", ""),
        "required": (required, "sequences N(ℓ) needed to detect the lag", "sequences"),
        "window": (xr.concat(windows, "definition").assign_coords(definition=definitions), "learnability window H_N", "steps"),
    }
    return xr.Dataset({name: array.assign_attrs(long_name=meaning, units=units) for name, (array, meaning, units) in names.items()})


def probes(results: xr.Dataset, view: str) -> xr.Dataset:
    """Keep the probes of one view."""
    dataset_with("results", results, "view")
    one_of("view", view, dict.fromkeys(results.view.values.tolist()))
    return results.isel(probe=np.flatnonzero(results.view == view))


def window_of(runs: xr.Dataset, view: str, noise: str, reading: str) -> xr.DataArray:
    """Choose one window, of the network's own error and by the tested rule; the view's probes stay."""
    dataset_with("runs", runs, "view", "window")
    one_of("noise", noise, runs.noise_definition.values.tolist())
    one_of("reading", reading, runs.reading.values.tolist())
    at = {"noise_definition": noise, "reading": reading, "source": "error", "rule": "tested", "definition": "supremum"}
    return probes(runs, view).window.sel(at)


def significant(statistics: NDArray[np.float64], level: float) -> NDArray[np.bool_]:
    """Say for which probes and lags a statistic's mean is above zero, with the error of any false claim among them held at a level.

    One-sided t-tests with Holm's correction. For symmetric laws the t-test keeps its level however heavy the tails (Efron 1969).

    Args:
        statistics: One number a sequence, shape (..., probes, lags, sequences).
        level: Error allowed for all probes and lags together, in (0, 1).

    Returns:
        Shape (..., probes, lags).
    """
    integer_in("number of sequences", finite_array("statistics", statistics).shape[-1], 2)
    real_in("level", level, "(0, 1)")
    count = statistics.shape[-1]
    with np.errstate(invalid="ignore"):  # a statistic that is 0 throughout shows nothing: 0/0, read as p = 1
        unit = statistics / np.abs(statistics).max(-1, keepdims=True)  # of order 1, so that no square underflows
        t = unit.mean(-1) / (unit.std(-1, ddof=1) / np.sqrt(count))
    return holm(np.nan_to_num(special.stdtr(count - 1, -t), nan=1.0), level)


def holm(p: NDArray[np.float64], level: float) -> NDArray[np.bool_]:
    """Reject hypotheses with the error of any false rejection in a family held at a level, by Holm's procedure.

    Args:
        p: p-values, shape (..., probes, lags): a family is all probes and lags together.
        level: The level, in (0, 1).

    Returns:
        Which are rejected, of the same shape.
    """
    real_in("level", level, "(0, 1)")
    chance = finite_array("p", p)
    require("p", chance, (chance >= 0) & (chance <= 1), "in [0, 1]")
    integer_in("dimensions of p", chance.ndim, 2)
    flat = p.reshape(*p.shape[:-2], -1)
    tests = flat.shape[-1]
    rank = flat.argsort(-1).argsort(-1)  # 0 for the smallest
    first_failure = np.where(flat > level / (tests - rank), rank, tests).min(-1, keepdims=True)
    return (rank < first_failure).reshape(p.shape)


def _required(shift: xr.DataArray, scale: xr.DataArray, alpha: xr.DataArray, error: float, rate: str) -> xr.DataArray:
    """N(ℓ) for a shift ``Δ = f m̄``. A number that is 0 throughout carries nothing: no law can be fitted to it, and N(ℓ) is infinite."""
    carries = (scale > 0) & alpha.notnull()
    return xr.apply_ufunc(
        lambda shift, scale, alpha: bounds.sample_complexity(1.0, shift, scale, alpha, error, rate),
        shift.where(carries, 0.0),
        scale.where(carries, 1.0),
        alpha.fillna(2.0),
        input_core_dims=[["probe", "lag"], ["probe", "lag"], []],
        output_core_dims=[["probe", "lag"]],
        vectorize=True,
    )


def _tails(samples: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Fit a symmetric stable law along the sequences: α and scale over the other dimensions."""

    def fit(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        fitted = stable.fit(values.reshape(-1, values.shape[-1]).T)
        return np.reshape(fitted.alpha, values.shape[:-1]), np.reshape(fitted.scale, values.shape[:-1])

    return xr.apply_ufunc(fit, samples, input_core_dims=[["sequence"]], output_core_dims=[[], []])


def _deviation(samples: xr.DataArray) -> xr.DataArray:
    """Standard deviation over sequences, in units of the largest value meanwhile, so that no square leaves the range of a float."""
    unit = abs(samples).max("sequence")
    return unit * (samples / unit.where(unit > 0, 1.0)).std("sequence", ddof=1, skipna=False)


def _concentration(samples: xr.DataArray) -> xr.DataArray:
    """Exponent p with which means concentrate, spread ∝ N^(−1/p), from the interquartile ranges of block means and of single sequences."""
    means = samples.coarsen(sequence=BLOCK, boundary="trim").mean()
    quartiles = (numbers.quantile([0.25, 0.75], "sequence", skipna=False) for numbers in (means, samples))
    block, single = (ends.diff("quantile").squeeze("quantile", drop=True) for ends in quartiles)
    with np.errstate(divide="ignore", invalid="ignore"):  # a number that is 0 throughout has no spread, and p is NaN
        return -np.log(BLOCK) / np.log(block / single)
