"""From numbers to windows: what chapter 6 reads off a network's numbers, with bands around it and the tails beside it."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from lwcore import stable
from lwcore.calibration import false_detections
from lwcore.config import DiagnosticSettings
from lwcore.diagnose.bands import ratio_bands, required
from lwcore.inference import infer
from lwcore.window import learnability_window

LEVEL = 0.95  # coverage of all intervals
SIGN_DRAWS = 1000  # draws of all sequences' signs, to see how often nothing shows something


def described(transport: xr.Dataset, settings: DiagnosticSettings) -> xr.Dataset:
    """Infer what needs no numbers.

    Args:
        transport: Rates, as `Observation.transport` gives them.
        settings: Lags.

    Returns:
        The envelope and the time scales.
    """
    nothing = xr.DataArray(np.zeros((1, len(settings.lags), 20)), dims=("probe", "lag", "sequence"))
    return _infer(transport, xr.Dataset({"statistic": nothing, "projection": nothing}), settings)[["envelope", "time_scale"]]


def _infer(transport: xr.Dataset, numbers: xr.Dataset, settings: DiagnosticSettings) -> xr.Dataset:
    """Hand rates and numbers to `inference.infer`: one order, one probe."""
    observed = numbers.assign(rate=transport.rate.expand_dims(order=["exact"])).assign_coords(
        view=("probe", ["gradient"]), lag=transport.lag
    )
    return infer(observed, settings).isel(probe=0, order=0, drop=True).drop_vars("view", errors="ignore")


def inferred(transport: xr.Dataset, numbers: xr.Dataset, settings: DiagnosticSettings, seed: int) -> xr.Dataset:
    """Infer all that follows from the numbers.

    Args:
        transport: Rates, as `Observation.transport` gives them.
        numbers: One number a sequence and lag, as `Observation.numbers` gives them.
        settings: Lags, error, significance and budgets.
        seed: Seed of resampling.

    Returns:
        The choice of chapter 6 among what `inference.infer` gives, with bands and tail fits.
    """
    everything = _infer(transport, numbers.expand_dims("probe"), settings)
    rng = np.random.default_rng(seed)
    chosen = everything.sel(noise_definition="total", reading=["variance", "mean"], drop=True).assign_coords(reading=["variance", "stable"])
    statistic, projection = numbers.statistic.values, numbers.projection.values
    ends = np.stack([required(ratio, settings.error) for ratio in ratio_bands(statistic, projection, rng, LEVEL)[::-1]])
    made = (
        everything[["envelope", "time_scale", "signal", "signal_error", "detected", "exponent"]]
        .assign(numbers.data_vars)
        .assign(
            required=chosen.required.sel(rule="plug-in", drop=True),
            window=chosen.window.sel(rule="tested", drop=True),
            required_interval=(
                ("bound", "lag"),
                ends,
                {"long_name": "interval of N(ℓ) along the directions found, for all lags together", "units": "sequences"},
            ),
        )
    )
    made["window_interval"] = _window_interval(made, settings)
    false = false_detections(statistic[None], settings.significance, rng, SIGN_DRAWS)
    made["false_windows"] = (
        (),
        false,
        {"long_name": f"draws of signs that show any lag, of {SIGN_DRAWS}", "nominal": settings.significance},
    )
    whole = stable.fit(projection.T, confidence=LEVEL)
    fits = [stable.fit(statistic.T, confidence=LEVEL), whole]
    tails = {
        "tail_index": "tail index α of a stable law fitted to one sequence's numbers",
        "tail_scale": "stable scale σ of one sequence's numbers",
    }
    for (name, meaning), field in zip(tails.items(), ("alpha", "scale"), strict=True):
        made[name] = (("noise_definition", "lag"), np.stack([getattr(fit, field) for fit in fits]), {"long_name": meaning})
    made["tail_index_interval"] = (
        ("bound", "noise_definition", "lag"),
        np.stack([fit.alpha_interval for fit in fits], axis=1),
        {"long_name": "interval of the tail index"},
    )
    replicates = max(199, math.ceil(2 * len(projection) / (1 - LEVEL)))  # so many that a test over all lags can reject
    made["goodness_of_fit"] = (
        "lag",
        stable.goodness_of_fit(projection.T, whole, rng, replicates).p_value,
        {"long_name": "p-value of the fit to the whole gradient: small where the numbers are not stable"},
    )
    return made.assign_coords(bound=["low", "high"], noise_definition=["lag", "total"])


def _window_interval(made: xr.Dataset, settings: DiagnosticSettings) -> xr.DataArray:
    """Read windows off the ends of the bands: what is certain, and what cannot be excluded."""
    ends = made.required_interval.assign_coords(bound=["low", "high"])
    needed = xr.concat([ends.sel(bound="high").where(made.detected, np.inf), ends.sel(bound="low")], xr.Variable("bound", ["low", "high"]))
    windows = [
        learnability_window(settings.lags, needed.transpose("bound", "lag").values, settings.budgets, definition=definition)
        for definition in made.definition.values
    ]
    return xr.DataArray(
        np.stack(windows, axis=1),
        dims=("bound", "definition", "budget"),
        attrs={"long_name": "interval of the learnability window H_N along the directions found", "units": "steps"},
    )
