"""Claims of Section 5.5: the exponent of N(ℓ), and slow envelopes."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from book.chapters.agreement import correlation_interval, partial_rank_correlation, rank_correlation
from book.chapters.frontier import at_task, single_lag_share
from book.chapters.frontier import ease as ease_of
from book.chapters.prediction import learned_share, parameter_counts
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, estimate

_ALPHA = 1.5


@measures("slow-envelopes-learn-long-lags")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    def over_cells(found: NDArray[np.float64], cells: int) -> Measured:
        return estimate(float(found[0]), correlation_interval(float(found[0]), cells))

    def after(name: str) -> tuple[NDArray[np.float64], xr.DataArray]:
        learned, f = (
            learned_share(runs[name]).sel(lag=128),
            np.log(runs[name].envelope.sel(order="first", drop=True)),
        )
        kept = (f.sel(lag=128) - f.sel(lag=1)).expand_dims("predictor")
        return rank_correlation(kept, learned, ("seed",)), learned

    found, learned = after("small")
    ease = ease_of(single_lag_share(runs["single-lag"]))
    start = runs["single-lag-start"].envelope.sel(order="zeroth", drop=True)
    before = (
        at_task((start / start.sel(lag=1, drop=True)).to_dataset(name="kept"))
        .kept.sel(lag=ease.lag)
        .expand_dims("predictor")
    )
    size = -parameter_counts(runs["single-lag"]) + xr.zeros_like(ease)
    facts = {
        name: learned.sel(model=model).median().item()
        for name, model in (("diag", "DiagGate"), ("const", "ConstGate"))
    }
    facts["paper"] = after("paper-v2")[0][0]
    return (
        over_cells(found, 5),
        over_cells(partial_rank_correlation(before, ease, size, ("lag",)), 4),
        facts,
    )
