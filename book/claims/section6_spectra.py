"""Claims of Section 6.2 on the spectra of time scales, and on what they do to envelopes and
windows."""

from __future__ import annotations

import numpy as np
import xarray as xr

from book.chapters import mixtures
from book.claims.checks import Runs, measures
from book.claims.claim import Measured, exactly, over
from book.claims.recorded import EXPANSIONS, log, numbers
from lwcore.window import mixture_envelope


@measures("envelope-is-a-mixture-of-exponentials")
def _(runs: Runs) -> tuple[Measured, Measured]:
    def end(order: str) -> Measured:
        found = []
        for name in ("small", "paper-v2"):
            run = runs[name].sel(model="DiagGate")
            mixture = mixtures.mixtures(run, order, own_weights=True).drop_vars("order")
            found += numbers(
                1
                + mixtures.relative_error(mixture, run.envelope.sel(order=order, drop=True)).isel(
                    lag=-1
                )
            )
        return over(found)

    return end("exact"), end("zeroth")


@measures("broad-mixtures-look-algebraic")
def _() -> Measured:
    tau = np.geomspace(1, 1000, 64)
    lags = np.unique(np.geomspace(1, 1000, 40).astype(int))
    first, last, _ = mixtures.power_stretch(lags, mixture_envelope(lags, tau, tau**-0.5))
    return exactly(last / first)


@measures("mixture-explains-the-power-law")
def _(runs: Runs) -> Measured:
    own = mixtures.closer_to_power(runs["small"].rate.sel(model="DiagGate", order=EXPANSIONS)).mean(
        "unit"
    )
    return over(numbers(own))


@measures("exact-neurons-closer-to-a-power")
def _(runs: Runs) -> tuple[Measured, Measured]:
    rate = runs["small"].rate.sel(model="DiagGate", order="exact")
    log_rate = log(rate.where(rate > 0))
    at = [
        xr.zeros_like(log_rate).where(np.isfinite(log_rate)) + lag
        for lag in (rate.lag, log(rate.lag))
    ]
    left = 1 - xr.concat([xr.corr(log_rate, one, "lag") ** 2 for one in at], "law").max("law")
    return over(numbers(mixtures.closer_to_power(rate).mean("unit"))), over(
        numbers((left > 0.05).mean("unit"))
    )
