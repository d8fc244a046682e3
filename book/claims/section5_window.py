"""Claims of Section 5.4 on the condition of Lemma 5.2, the envelope inside its own noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from book.claims.checks import Runs, measures
from book.claims.claim import Measured, over
from book.claims.recorded import GATED, SCALAR, log, numbers
from lwcore.inference import LETTER, Noise, probes, required


def _slope(y: xr.DataArray, x: xr.DataArray) -> xr.DataArray:
    """Least squares over the lags at which y is finite; the median over probes."""
    x = x.where(np.isfinite(y))
    x, y = x - x.mean("lag"), y.where(np.isfinite(y))
    return ((x * y).sum("lag") / (x**2).sum("lag")).median("probe")


@measures("noise-keeps-its-scale")
def _(runs: Runs) -> tuple[Measured, ...]:
    powers: dict[bool, list[float]] = {True: [], False: []}
    moves = []
    for run in (runs["small"], runs["paper-v2"]):
        scale = probes(run, "zeroth", "error").scale.sel(noise="own")
        envelope = run.envelope.sel(order="zeroth")
        scalar = envelope.model.isin(SCALAR)
        for alike, found in powers.items():
            found += numbers(_slope(np.log(scale), np.log(envelope)).sel(model=scalar == alike))
        ratio = (scale / envelope).sel(model=~scalar)
        moves.append(over(numbers((ratio.max("lag") / ratio.min("lag")).median("probe"))))
    return over(powers[False]), over(powers[False]), over(powers[True]), *moves


@measures("number-shaped-by-the-envelope")
def _(runs: Runs) -> tuple[Measured, Measured, Measured]:
    def powers(name: str, noise: Noise, models: list[str], **how: Any) -> list[float]:
        found = probes(runs[name], "zeroth", "error")
        alpha = found.alpha.sel(noise=noise)
        exponent = alpha if how else alpha / (alpha - 1)
        needed = log(required(found, noise=noise, rule="plug-in", **how))
        slopes = _slope(needed, -exponent * np.log(found.envelope.sel(order="zeroth")))
        return numbers(
            slopes.sel(model=[model for model in slopes.model.values if model in models])
        )

    every = [*SCALAR, *GATED]
    own = over(powers("small", "own", GATED) + powers("paper-v2", "own", GATED))
    return (
        own,
        over(powers("small", "whole", every)),
        over(powers("paper-v2", "own", every, **LETTER)),
    )
