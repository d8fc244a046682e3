"""Claims of Section 6.2 on envelopes, and on what the closed forms leave out.

The networks are those of the recorded runs. `paper-v2` is version 2's training at our size and
learning rate; the paper's are not recoverable, and its figures may have come from others.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from book.chapters.five_laws import fit_laws
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, exactly, over
from book.claims.recorded import EXPANSIONS, SCALAR, fits, numbers, power_gain, remaining


@measures("products-reduce-to-gates")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    def ratio(name: str, lag: int) -> xr.DataArray:
        envelope = runs[name].envelope.sel(lag=lag)
        return envelope.sel(order="exact") / envelope.sel(order="first")

    version_2 = ratio("paper-v2", 16)
    diagonal = version_2.sel(model="DiagGate")
    return (
        over(numbers(version_2)),
        over(numbers(ratio("paper-v6-part", 32))),
        {"low": float(diagonal.min()), "high": float(diagonal.max())},
    )


@measures("scalar-envelopes-collapse")
def _(runs: Runs) -> Measured:
    return over(numbers(remaining(runs["paper-v2"], 32).sel(model=SCALAR, order=EXPANSIONS)))


@measures("scalar-gradients-do-not-collapse")
def _(runs: Runs) -> Measured:
    return over(numbers(remaining(runs["paper-v2"], 32).sel(model=SCALAR, order="exact")))


@measures("scalar-envelopes-exponential")
def _(runs: Runs) -> Measured:
    return over(fit.exponential.r_squared for fit in fits(runs["paper-v2"], SCALAR, EXPANSIONS))


@measures("scalar-envelopes-no-power")
def _(runs: Runs) -> Measured:
    return over(fit.power.r_squared for fit in fits(runs["paper-v2"], SCALAR, EXPANSIONS))


@measures("scalar-time-constants-short")
def _(runs: Runs) -> Measured:
    return over(
        -1 / np.log(fit.exponential.law.decay) for fit in fits(runs["paper-v2"], SCALAR, EXPANSIONS)
    )


@measures("narrow-gates-exponential-regime")
def _(runs: Runs) -> Measured:
    return over(
        -one for name in ("small", "paper-v2") for one in power_gain(runs[name], SCALAR, EXPANSIONS)
    )


@measures("exact-envelopes-fast-then-slow")
def _(runs: Runs) -> tuple[Measured, ...]:
    left_out = {
        (name, str(model)): [
            _left_out(runs[name].lag.values, one.values)
            for one in runs[name].envelope.sel(order="exact", model=model)
        ]
        for name in ("small", "paper-v2")
        for model in runs[name].model.values
    }
    cells = [np.median(found) for (name, _), found in left_out.items() if name == "small"]
    alike = [ratio for (_, model), found in left_out.items() if model in SCALAR for ratio in found]
    heights = [np.log(runs[name].envelope.sel(order="exact")) for name in ("small", "paper-v2")]
    bends = [
        (one.sel(lag=1) - one.sel(lag=8)) / 7 / ((one.sel(lag=64) - one.sel(lag=160)) / 96)
        for one in heights
    ]
    better = [
        exactly(int(np.sum(np.array(left_out["small", model]) > 1))) for model in ("LSTM", "GRU")
    ]
    exact, gates = (
        [fit for name in ("small", "paper-v2") for fit in fits(runs[name], SCALAR, [order])]
        for order in ("exact", "zeroth")
    )
    gate = [-np.log(fit.exponential.law.decay) for fit in gates]
    fast, slow = (
        over(
            rate / -np.log(getattr(fit.two_exponentials.law, name))
            for fit, rate in zip(exact, gate, strict=True)
        )
        for name in ("decay", "slow")
    )
    return (
        over(cells),
        over(alike),
        over(numbers(*bends)),
        over(left_out["small", "DiagGate"]),
        over(left_out["paper-v2", "DiagGate"]),
        *better,
        over(fit.power.aicc - fit.two_exponentials.aicc for fit in exact),
        fast,
        slow,
    )


def _left_out(lags: NDArray[np.int64], envelope: NDArray[np.float64]) -> float:
    """Give the error of a power at a lag left out, over that of two exponentials: root mean squares
    on log f, the ends never left out."""
    errors = []
    for lag in lags[1:-1]:
        kept = lags != lag
        fit = fit_laws(lags[kept], envelope[kept])
        errors.append(
            [
                np.log(one.law.envelope(lag) / envelope[~kept]).item()
                for one in (fit.power, fit.two_exponentials)
            ]
        )
    power, two = np.square(errors).mean(0) ** 0.5
    return float(power / two)


@measures("diagonal-gate-decays-slower")
def _(runs: Runs) -> Measured:
    left = remaining(runs["paper-v2"], 32).sel(order=EXPANSIONS)
    return over(numbers(left.sel(model="DiagGate") / left.sel(model=SCALAR).max("model")))


@measures("diagonal-gate-retains-mass")
def _(runs: Runs) -> tuple[Measured, Measured]:
    version_2 = remaining(runs["paper-v2"], 160).sel(model="DiagGate", order=EXPANSIONS)
    return over(numbers(version_2)), over(
        numbers(remaining(runs["small"], 160).sel(model=["DiagGate", "ConstGate"], order="exact"))
    )


@measures("diagonal-gate-power-law")
def _(runs: Runs) -> tuple[Measured, Measured, Measured]:
    gates, exact = (
        fits(runs["paper-v2"], ["DiagGate"], EXPANSIONS),
        fits(runs["small"], ["DiagGate"], ["exact"]),
    )
    return (
        over(fit.power.r_squared for fit in gates),
        over(fit.exponential.r_squared for fit in gates),
        over(fit.power.r_squared for fit in exact),
    )


@measures("diagonal-gate-not-exponential")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    exact = power_gain(runs["paper-v2"], ["DiagGate"], ["exact"]) + power_gain(
        runs["small"], ["DiagGate"], ["exact"]
    )
    gates = over(power_gain(runs["paper-v2"], ["DiagGate"], EXPANSIONS))
    return gates, over(exact), {"worse": -gates.value}
