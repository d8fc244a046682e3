"""Claims of Section 5.4 on the condition of Lemma 5.2, the envelope inside its own noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import xarray as xr

from book.claims import cases
from book.claims.checks import Runs, measures
from book.claims.claim import Measured, exactly, over
from book.claims.recorded import GATED, SCALAR, log, numbers
from lwcore import transport
from lwcore.gradient import matched_statistic
from lwcore.inference import LETTER, RATES, Noise, probes, required, summary


def _slope(y: xr.DataArray, x: xr.DataArray) -> xr.DataArray:
    """Least squares over the lags at which y is finite; the median over probes."""
    x = x.where(np.isfinite(y))
    x, y = x - x.mean("lag"), y.where(np.isfinite(y))
    return ((x * y).sum("lag") / (x**2).sum("lag")).median("probe")


@measures("envelope-cancels-from-the-number")
def _() -> Measured:
    lags, rng, changes = [1, 2, 4, 8], np.random.default_rng(28), []

    def measured(rates: torch.Tensor, alignments: torch.Tensor) -> xr.Dataset:
        signs = (rates * alignments).mean((0, 1)).sign()
        statistic = (
            ("probe", "lag", "sequence"),
            matched_statistic(rates, alignments, signs).T[None].numpy(),
        )
        numbers = xr.Dataset(
            {"statistic": statistic, "projection": statistic},
            {"lag": lags, "view": ("probe", ["first"])},
        )
        f = ("order", "lag"), transport.envelope(rates)[None].numpy()
        return summary(numbers).assign(envelope=f).assign_coords(order=["first"])

    for made in cases.cells().values():
        trace = cases.scan(made, sequences=64)
        rates = transport.effective_rates(trace, lags, "first")
        alignments, factor = cases.draw(*rates.shape), 1e3 ** rng.uniform(-1, 1, len(lags))
        before, after = (
            measured(rates, alignments),
            measured(rates * torch.as_tensor(factor)[:, None], alignments),
        )
        for how in (*({"rate": rate} for rate in RATES), LETTER):
            power = before.alpha.sel(noise="own") if how is LETTER else 0.0
            ratio = required(after, rule="plug-in", error=0.1, **how) / required(
                before, rule="plug-in", error=0.1, **how
            )
            changes.append(abs(ratio * xr.DataArray(factor, {"lag": lags}) ** power - 1).max())
    return exactly(max(map(float, changes)))


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
