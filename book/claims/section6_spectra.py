"""Claims of Section 6.2 on the spectra of time scales, and on what they do to envelopes and
windows."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import stats

from book.chapters.agreement import correlation_interval
from book.chapters.spectra import width
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, estimate, exactly, over
from book.claims.recorded import BUDGET, EXPANSIONS, SCALAR, log, numbers, windows
from lwcore.inference import LETTER, OPTIMISER
from lwcore.window import mixture_envelope


@measures("one-gate-one-time-scale")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    def spread(name: str, order: str) -> list[float]:
        tau = runs[name].time_scale.sel(model=SCALAR, order=order)
        return numbers(tau.std("unit") / tau.mean("unit"))

    first = runs["small"].time_scale.sel(model="ConstGate", order="first")
    const = float((first.std("unit") / first.mean("unit")).max())
    return (
        over(spread("paper-v2", "first")),
        over(spread("paper-v2", "zeroth") + spread("small", "zeroth")),
        {"const": const},
    )


@measures("one-gate-several-time-scales-of-the-gradient")
def _(runs: Runs) -> Measured:
    exact = [
        10 ** width(runs[name].time_scale.sel(model="ConstGate", order="exact"))
        for name in ("small", "paper-v2")
    ]
    return over(numbers(*exact))


@measures("diagonal-gate-broad-spectrum")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    def ratio(name: str) -> Measured:
        return over(
            numbers(10 ** width(runs[name].time_scale.sel(model="DiagGate", order=EXPANSIONS)))
        )

    tau = runs["paper-v2"].time_scale.sel(model="DiagGate", order=EXPANSIONS)
    return ratio("paper-v2"), ratio("small"), {"least": float(tau.min()), "most": float(tau.max())}


@measures("most-neurons-short")
def _(runs: Runs) -> Measured:
    short = [
        (runs[name].time_scale.sel(model="DiagGate", order=EXPANSIONS) < 8).mean("unit")
        for name in ("small", "paper-v2")
    ]
    return over(numbers(*short))


@measures("one-neuron-with-a-long-memory")
def _(runs: Runs) -> tuple[Measured, Measured]:
    def tail(name: str) -> Measured:
        tau = runs[name].time_scale.sel(model="DiagGate", order=EXPANSIONS)
        return over(numbers(tau.max("unit") / tau.median("unit")))

    return tail("paper-v2"), tail("small")


@measures("a-neuron-decays-exponentially")
def _(runs: Runs) -> Measured:
    found = []
    for name in ("small", "paper-v2"):
        rate = runs[name].rate.sel(model="DiagGate", order=EXPANSIONS)
        log_rate = log(rate.where(rate > 0))
        lag = xr.zeros_like(log_rate).where(np.isfinite(log_rate)) + rate.lag
        found += numbers(xr.corr(log_rate, lag, "lag") ** 2)
    return over(found)


@measures("broader-spectra-decay-more-slowly")
def _() -> tuple[Measured, Measured, Facts]:
    rng, lags = np.random.default_rng(9), np.arange(1, 257)
    centre, half = np.exp(rng.uniform(0, 4, (2, 2000, 1))), rng.uniform(0, 2, (2, 2000, 1))
    tau = centre * np.exp(half * rng.uniform(-1, 1, (2, 2000, 16)))
    at_64 = mixture_envelope([64.0], tau)[..., 0]
    breadth = np.log(tau).std(-1)
    kept = np.where(breadth[0] > breadth[1], at_64[0] > at_64[1], at_64[1] > at_64[0])
    equal = -1 / np.log(np.exp(-1 / tau[0]).mean(-1, keepdims=True))
    ratio = mixture_envelope(lags, tau[0]) / mixture_envelope(lags, equal, np.array([16.0]))
    narrow, broad = (float(np.exp(-64 / np.array(taus)).mean()) for taus in ([50.0], [1.0, 10.0]))
    return exactly(kept.mean()), exactly(ratio.min()), {"narrow": narrow, "broad": broad}


def _over_cells(of: xr.DataArray, *on: xr.DataArray) -> Measured:
    """Spearman's coefficient over the models, each with its median over seeds; the 95 % interval
    has the models as its units."""
    found = [float(stats.spearmanr(of.median("seed"), one.median("seed")).statistic) for one in on]
    low, high = zip(*(correlation_interval(one, of.sizes["model"]) for one in found), strict=True)
    return estimate(float(np.mean(found)), (min(low), max(high)))


@measures("spectra-go-with-windows")
def _(runs: Runs) -> tuple[Measured, Measured]:
    run = runs["small"]
    breadth = width(run.time_scale.sel(order="zeroth", drop=True))
    once, letter = (
        [windows(run, order, **how).sel(budget=BUDGET) for order in EXPANSIONS]
        for how in ({}, LETTER)
    )
    return _over_cells(breadth, *once), _over_cells(breadth, *letter)


@measures("spectra-do-not-lengthen-windows-of-the-gradient")
def _(runs: Runs) -> Measured:
    run = runs["small"]
    breadth = width(run.time_scale.sel(order="zeroth", drop=True))
    return _over_cells(breadth, windows(run, "gradient", **OPTIMISER).sel(budget=BUDGET))
