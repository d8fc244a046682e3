"""Claims on the open questions of Section 7, and on adaptive optimisers in later versions."""

from __future__ import annotations

from book.chapters.spectra import (
    learning_and_optimiser,
    variance_shares,
    width,
)
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, over
from book.claims.recorded import GATED, numbers


@measures("breadth-comes-with-training")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    grown = []
    for name, models in (("small", GATED), ("paper-v2", ["DiagGate"])):
        breadth = width(runs[name].course_time_scale.sel(model=models, order="zeroth"))
        grown.append(numbers(breadth.isel(snapshot=-1) - breadth.isel(snapshot=0)))
    return over(grown[0] + grown[1]), over(grown[0]), {"sgd": max(grown[1])}


@measures("breadth-comes-from-the-optimiser")
def _(runs: Runs) -> tuple[Measured, Facts]:
    last = runs["spectra"].course_time_scale.isel(snapshot=-1).sel(model=GATED, order="zeroth")
    shares = variance_shares(width(last), ("model", "optimizer", "gate_spread", "task"))
    alone = learning_and_optimiser(runs["spectra"])
    facts = {"learned": alone["share learned"], "choice": alone["optimiser"], "both": alone["both"]}
    return over(numbers(shares.sel(source="optimizer"))), facts
