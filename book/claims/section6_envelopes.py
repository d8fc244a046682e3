"""Claims of Section 6.2 on envelopes, and on what the closed forms leave out.

The networks are those of the recorded runs. `paper-v2` is version 2's training at our size and
learning rate; the paper's are not recoverable, and its figures may have come from others.
"""

from __future__ import annotations

import numpy as np

from book.chapters.mixtures import power_stretch
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, exactly, over
from book.claims.recorded import EXPANSIONS, fits, remaining


@measures("power-law-over-the-range-of-lags")
def _(runs: Runs) -> tuple[Measured, Measured]:
    def widest(name: str, order: str) -> list[float]:
        run = runs[name].sel(model="DiagGate", order=order)
        ends = [power_stretch(run.lag.values, run.envelope.sel(seed=seed)) for seed in run.seed]
        return [last / first for first, last, _ in ends]

    every = [
        one for name in ("small", "paper-v2") for order in EXPANSIONS for one in widest(name, order)
    ]
    return over(every), over(widest("small", "zeroth"))


@measures("all-three-regimes-are-observed")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    closest = []
    for name in ("small", "paper-v2"):
        for fit in fits(runs[name], runs[name].model.values, EXPANSIONS):
            closest.append(
                max(
                    (fit.exponential, fit.power, fit.logarithmic), key=lambda one: one.r_squared
                ).law.name
            )
    counts = {law: closest.count(law) for law in ("logarithmic", "power", "exponential")}
    left = max(
        float(remaining(runs[name], 160).sel(order=EXPANSIONS).max())
        for name in ("small", "paper-v2")
    )
    return (
        exactly(min(counts.values())),
        exactly(counts["logarithmic"]),
        {"slowest": 1 / left, "law": np.log(161) / np.log(2)},
    )
