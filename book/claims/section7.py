"""Claims of Section 7 and of the abstracts: what decides how many sequences a delay needs, and what
is learned."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np
import xarray as xr

from book.chapters import agreement, frontier, prediction, spectra
from book.chapters.spectra import width
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, estimate, over, share
from book.claims.recorded import BUDGET, EXPANSIONS, SCALAR, numbers, windows
from lwcore.inference import LETTER, probes, required
from lwcore.stats import most_covered


def _over_seeds(values: Iterable[float], seeds: xr.DataArray) -> Measured:
    """Numbers of networks on a few seeds: median, least and largest, with what a range over so many
    seeds covers."""
    return over(values)._replace(covers=most_covered(seeds.size))


def _over_cells(correlation: float, cells: int) -> Measured:
    """A rank correlation that speaks of cells: its interval has them as its units, one less where
    another number is given."""
    return estimate(correlation, agreement.correlation_interval(correlation, cells))


@measures("envelope-fixes-the-sequences-needed")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    needed = [
        required(probes(runs[name], "zeroth", "error"), rule="plug-in")
        for name in ("small", "paper-v2")
    ]
    ratios = [(each.sel(lag=64) / each.sel(lag=45)).median("probe") for each in needed]
    f = runs["small"].envelope.sel(model="ConstGate", order="zeroth")
    facts = {
        "envelope": (f.sel(lag=64) / f.sel(lag=45)).median(),
        "needed": ratios[0].sel(model="ConstGate").median(),
    }
    return (
        over(numbers(*ratios)),
        over(numbers(*ratios)),
        {name: float(one) for name, one in facts.items()},
    )


@measures("stable-transport-is-not-enough")
def _() -> Measured:
    rng = np.random.default_rng(71)
    # the input of the lagged step; J = 1 carries it to the end unchanged
    entered, noise = rng.standard_normal((2, 10_000, 100))
    # minus the derivative of the squared error in the unit's input weight, at weight 0
    gradients = (0.05 * entered + noise) * entered
    return share(int((gradients.mean(1) < 0).sum()), 10_000)


@measures("more-data-or-more-gates")
def _(runs: Runs) -> tuple[Measured, Measured]:
    found: list[list[float]] = [[], []]
    for (ahead, how), name, order in product(
        zip(found, ({}, LETTER), strict=True), ("small", "paper-v2"), EXPANSIONS
    ):
        window = windows(runs[name], order, **how)
        more = window.sel(model=SCALAR, budget=8192).max("model")
        ahead += numbers(window.sel(model="DiagGate", budget=BUDGET) - more)
    return over(found[0]), over(found[1])


def _excess(values: xr.DataArray, factors: tuple[str, ...], other: str) -> list[float]:
    """How much more of the variance the model explains than another factor of a full grid, seed by
    seed."""
    shares = spectra.variance_shares(values, factors)
    return numbers(shares.sel(source="model") - shares.sel(source=other))


@measures("gates-rather-than-training")
def _(runs: Runs) -> tuple[Measured, Facts]:
    learned = frontier.single_lag_share(runs["single-lag"])
    at_end = spectra.learned_share(runs["spectra"]).isel(snapshot=-1)
    excess = [
        *_excess(at_end, ("model", "optimizer", "gate_spread", "task"), "optimizer"),
        *_excess(learned, ("model", "sequences", "lag"), "sequences"),
    ]
    mixed = at_end.sel(task="mixed").median(["gate_spread", "seed"])
    ends = {"low": mixed.min("model"), "high": mixed.max("model")}
    facts = {
        f"{name}_{end}": float(one.sel(optimizer=name))
        for name in ("sgd", "adamw")
        for end, one in ends.items()
    }
    return _over_seeds(excess, learned.seed), facts


@measures("spectra-are-the-dominant-determinant")
def _(runs: Runs) -> tuple[Measured, Facts]:
    small = runs["small"]
    learned, breadth = (
        prediction.learned_share(small),
        width(small.time_scale.sel(order="zeroth", drop=True)),
    )
    scores = (breadth + xr.zeros_like(learned)).expand_dims(predictor=["width"])
    found = float(agreement.rank_correlation(scores, learned, ("seed", "lag"))[0])
    whole = spectra.learned_share(small).isel(snapshot=-1).median("seed")
    facts = {
        "const": whole.sel(model="ConstGate"),
        "gru": whole.sel(model="GRU"),
        "apart": whole.max() - whole.min(),
    }
    facts["decades"] = breadth.sel(model="GRU").median()
    return _over_cells(found, learned.model.size), {name: float(one) for name, one in facts.items()}
