"""Does what was measured predict what is learned? What was learned, and what every measurement says
of it.

A **predictor** gives every network and lag a score, the larger the more of that lag it expects to
be learned. Only the order of scores counts (`agreement`), so that unknown constants and exponents
do not. Three predictors need no measurement, and stand beside all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from lwcore.experiment import networks
from lwcore.inference import LETTER, NOISES, config_of, probes, required

BASELINE, SIZE, BOTH = TRIVIAL = ("plain lag", "number of parameters", "lag × √parameters")
STRATA: dict[str, tuple[str, ...]] = {
    "all pairs": (),
    "within networks": ("model", "seed"),
    "within lags": ("lag",),
    "within lags and models": ("lag", "model"),
}
_RATES: dict[str, dict[str, Any]] = {
    "variance": {"rate": "variance"},
    "stable": {"rate": "mean"},
    "v2 to the letter": LETTER,
}


def learned_share(results: xr.Dataset) -> xr.DataArray:
    """Give the share of each planted coefficient that a run's networks have recovered.

    Args:
        results: A run, as from `lwcore.experiment.run`.

    Returns:
        Learned over planted coefficient (model, seed, lag), at the lags of the task; 1 if all was
        learned.
    """
    planted = (results.planted != 0).any([dim for dim in results.planted.dims if dim != "delay"])
    lags = results.delay.values[planted.values]
    if missing := sorted(set(lags.tolist()) - set(results.lag.values.tolist())):
        raise ValueError(
            f"results: the task's lags {missing} were not measured; must be among "
            f"{results.lag.values.tolist()}."
        )
    return (results.learned / results.planted).sel(delay=lags).rename(delay="lag")


def left_over(results: xr.Dataset) -> xr.DataArray:
    """Compare the signal in a lag's own gradient with what it would be had the network learned
    nothing.

    Args:
        results: A run, at the lags of interest.

    Returns:
        Mean of the lag's part along its own gradient with the network's error, over that with the
        target in its place (model, seed, lag).
    """
    signal = probes(results, "gradient").signal.median("probe")
    return signal.sel(source="error", drop=True) / signal.sel(source="target", drop=True)


def share_table(share: xr.DataArray) -> pd.DataFrame:
    """Show the share learned in percent: for each model and lag the median over seeds, and the
    least and the largest."""
    low, middle, high = 100 * share.min("seed"), 100 * share.median("seed"), 100 * share.max("seed")
    words = xr.apply_ufunc(
        lambda m, a, b: f"{m:.0f} ({a:.0f} to {b:.0f})", middle, low, high, vectorize=True
    )
    return pd.DataFrame(
        words.transpose("model", "lag").values,
        index=pd.Index(share.model.values, name="model"),
        columns=[f"% at lag {lag}" for lag in share.lag.values],
    )


def task_predictors(measured: xr.Dataset) -> xr.DataArray:
    """Collect the predictors of a run at the lags of its task.

    Args:
        measured: The run.

    Returns:
        The scores of `predictors`.
    """
    return predictors(measured.sel(lag=learned_share(measured).lag))


def parameter_counts(results: xr.Dataset) -> xr.DataArray:
    """Count the parameters of a run's or a sweep's networks, on networks built from its
    configuration; of a sweep, on its first point.

    Args:
        results: The run or the sweep.

    Returns:
        Number of parameters (model).
    """
    config = config_of(results)
    built = networks(config.but(seeds=[config.seeds[0]]), trained=False)
    counts = {
        model: sum(weights.numel() for weights in network.parameters())
        for (model, _), network in built.items()
    }
    return xr.DataArray(
        [counts[model] for model in results.model.values],
        {"model": results.model.values},
        ["model"],
    )


def predictors(measured: xr.Dataset, stage: str = "after") -> xr.DataArray:
    """Collect what the measurements predict, one score a network and lag, behind the three that
    need none.

    The scores are −ℓ (plain lag), −log P with the number P of parameters, −log ℓ√P; log f(ℓ) at
    each order; −log N(ℓ) by the plug-in rule (with the sequence's own noise of the lag, or that of
    the whole gradient; median over probes); and signal over stable scale of the lag's own gradient.

    Args:
        measured: Results with ``envelope``, ``signal`` and ``scale``, at the lags to predict, and
            their configuration.
        stage: When the networks were measured, ``"before"`` or ``"after"`` training; it becomes a
            coordinate.

    Returns:
        Scores (predictor, model, seed, lag), with the coordinates ``predictor``, its name, unique
        within a source, ``source`` of the error ("–" where there is none), and ``stage``.
    """
    like = measured.envelope.isel(order=0, drop=True)
    lag, size = np.log(measured.lag), np.log(parameter_counts(measured))
    trivial = {BASELINE: -measured.lag, SIZE: -size, BOTH: -lag - size / 2}
    scores = {(name, "–", "–"): one + xr.zeros_like(like) for name, one in trivial.items()}
    with np.errstate(divide="ignore"):
        for order in measured.order.values:
            scores[
                f"envelope, {order} order" if order != "exact" else "envelope, exact", "–", stage
            ] = np.log(measured.envelope.sel(order=order, drop=True))
        for source in ("target", "error"):
            for view in dict.fromkeys(measured.view.values):
                one = probes(measured, view, source)
                for noise in NOISES:
                    for words, how in _RATES.items():
                        if how is LETTER and (
                            noise == "whole" or view not in measured.order.values
                        ):
                            # the letter knows the lag's own noise only, and multiplies with an
                            # envelope
                            continue
                        needed = required(one, noise=noise, rule="plug-in", **how)
                        scores[
                            f"N: {view}, {noise} noise, {words}", source, stage
                        ] = -xr.apply_ufunc(np.log, needed).median("probe")
                    if view == "gradient":
                        ratio = one.signal / one.scale.sel(noise=noise, drop=True)
                        scores[f"signal/scale: {view}, {noise} noise", source, stage] = (
                            ratio.fillna(-np.inf).median("probe")
                        )
    gathered = xr.concat(
        list(scores.values()), "predictor", coords="minimal", compat="override"
    ).transpose("predictor", *like.dims)
    names, sources, stages = zip(*scores, strict=True)
    return gathered.assign_coords(
        predictor=list(names),
        source=("predictor", list(sources)),
        stage=("predictor", list(stages)),
    )
