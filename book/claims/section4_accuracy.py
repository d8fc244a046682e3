"""Claims of Section 4 on what the rates do: many rates, and layer normalisation."""

from __future__ import annotations

from typing import Any

from book.chapters.orders import without_norm
from book.claims import cases, recurrences
from book.claims.checks import measures
from book.claims.claim import Measured, exactly, over


@measures("gates-set-many-rates")
def _(runs: Any) -> Measured:
    rate = runs["small"].rate.sel(model=["LSTM", "GRU"], order="zeroth", lag=16)
    return over((rate.std("unit") / rate.mean("unit")).values.ravel())


@measures("closed-forms-under-layer-normalisation")
def _() -> tuple[Measured, Measured]:
    missed, worst = [], []
    for family in recurrences.PAPER:
        for seed in range(6):
            cell = cases.cell(family, seed, layernorm=True)
            cell.norm_weight.data.fill_(1)  # as it starts
            trace = cases.scan(cell, seed=100 + seed)
            zeroth, correction = (
                recurrences.diagonal(cell, term)
                for term in recurrences.product(*recurrences.parts(cell, trace))
            )
            short = recurrences.rates(without_norm(trace), "first") - (zeroth + correction)
            missed.append(float(short.abs().sum() / correction.abs().sum()))
            worst.append(cases.relative(recurrences.rates(trace, "first"), zeroth + correction))
    return over(missed), exactly(max(worst))
