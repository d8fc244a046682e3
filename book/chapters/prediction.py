"""What a run's networks have learned, and what its measurements predict of it.

A **predictor** gives every network and lag a score, the larger the more of that lag it expects to
be learned. Only the order of scores counts (`agreement`), so that unknown constants and exponents
do not. Three predictors need no measurement, and stand before all.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from lwcore.experiment import networks
from lwcore.inference import LETTER, Noise, config_of, probes, required
from lwcore.signatures import require

BASELINE, SIZE, BOTH = TRIVIAL = ("plain lag", "number of parameters", "lag × √parameters")
_RATES: dict[str, dict[str, Any]] = {
    "variance": {"rate": "variance"},
    "stable": {"rate": "mean"},
    "letter of version 2": LETTER,
}
_NOISES: dict[Noise, str] = {"own": "own noise", "whole": "noise of the whole gradient"}


def learned_share(results: xr.Dataset) -> xr.DataArray:
    """Share learned: learned over planted coefficient at the task's lags (model, seed, lag)."""
    planted = (results.planted != 0).any([dim for dim in results.planted.dims if dim != "delay"])
    lags = results.delay.values[planted.values]
    measured = results.lag.values.tolist()
    require("the task's lags", lags, np.isin(lags, measured), f"among those measured, {measured}")
    return (results.learned / results.planted).sel(delay=lags).rename(delay="lag")


def parameter_counts(results: xr.Dataset) -> xr.DataArray:
    """Number of parameters (model) of networks that are built from a run's configuration."""
    config, models = config_of(results), results.model.values
    seed = config.seeds[0]
    built = networks(config.but(seeds=[seed]), trained=False)
    counts = [sum(part.numel() for part in built[model, seed].parameters()) for model in models]
    return xr.DataArray(counts, {"model": models}, ["model"])


def predictors(measured: xr.Dataset) -> xr.DataArray:
    """Scores (predictor, model, seed, lag) of networks, from what was measured at their lags.

    They are −ℓ (plain lag), −log P with the number P of parameters, −log ℓ√P; log f(ℓ) at each
    order; −log N(ℓ) by the plug-in rule (with the sequence's own noise of the lag, or that of the
    whole gradient; median over probes); and signal over stable scale of the lag's own gradient. The
    target stands in the error's place, except where the name ends with "own error".
    """
    measured = measured.drop_dims("sequence", errors="ignore")  # their numbers are not needed
    like = measured.envelope.isel(order=0, drop=True)
    lag, size = np.log(measured.lag), np.log(parameter_counts(measured))
    trivial = {BASELINE: -measured.lag, SIZE: -size, BOTH: -lag - size / 2}
    scores = {name: one + xr.zeros_like(like) for name, one in trivial.items()}
    with np.errstate(divide="ignore"):
        for order in measured.order.values:
            name = f"envelope, {order}" + " order" * (order != "exact")
            scores[name] = np.log(measured.envelope.sel(order=order, drop=True))
        sources, views = ("target", "error"), dict.fromkeys(measured.view.values)
        for source, view, noise in product(sources, views, _NOISES):
            one, whose = probes(measured, view, source), ", own error" * (source == "error")
            for words, how in _RATES.items():
                # the letter knows the lag's own noise only, and multiplies with an envelope
                if how is LETTER and (noise == "whole" or view not in measured.order.values):
                    continue
                needed = required(one, noise=noise, rule="plug-in", **how)
                score = -xr.apply_ufunc(np.log, needed).median("probe")
                scores[f"N: {view}, {_NOISES[noise]}, {words}{whose}"] = score
            if view == "gradient":
                ratio = (one.signal / one.scale.sel(noise=noise, drop=True)).fillna(-np.inf)
                scores[f"signal/scale: {view}, {_NOISES[noise]}{whose}"] = ratio.median("probe")
    gathered = xr.concat(list(scores.values()), "predictor", coords="minimal", compat="override")
    named = gathered.assign_coords(predictor=list(scores))
    return named.transpose("predictor", *like.dims)
