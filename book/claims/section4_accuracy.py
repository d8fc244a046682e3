"""Claims of Section 4 on what the rates do: many rates, mixing, and how far the first order
describes the transport."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from book.chapters.orders import compare_orders, without_norm
from book.claims import cases, recurrences
from book.claims.claim import (
    Chapter,
    Kind,
    Measured,
    as_stated,
    at_least,
    at_most,
    exactly,
    over,
    rather,
    when,
)
from lwcore import experiment

chapter = Chapter("livi", Kind.NETWORK)


@chapter.claim(
    "zeroth-order-is-diagonal",
    "§4.4",
    "Zeroth-order terms act neuron by neuron.",
    as_stated(
        "largest entry off the diagonal over the largest on it, by autodiff, thirty cells of all "
        "five kinds, lag 6",
        at_most(1e-10),
    ),
    code="lwcore.transport.split",
    kind=Kind.IDENTITY,
)
def _() -> Measured:
    worst = []
    for cell, _, kept, mixing in recurrences.every():
        constant = recurrences.block(cell, recurrences.product(kept, mixing)[0])
        worst.append(float(recurrences.beside(constant).abs().max() / constant.abs().max()))
    return exactly(max(worst))


@chapter.claim(
    "first-order-mixes-neurons",
    "§4.4",
    "First-order terms mix neurons, through the recurrent matrices and the slopes of the gates.",
    as_stated(
        "share of the first-order term's squared norm that lies off the diagonal, lag 6, 16 "
        "neurons, median over thirty untrained cells of "
        "all five kinds (range)",
        at_least(0.5),
    ),
    code="lwcore.transport.coefficients",
    kind=Kind.IDENTITY,
    fixed=(
        "With independent weights and 16 neurons a matrix has 15/16 of its squared norm off "
        "the diagonal, on average."
    ),
)
def _() -> Measured:
    shares = []
    for cell, _, kept, mixing in recurrences.every(16):
        linear = recurrences.block(cell, recurrences.product(kept, mixing)[1])
        shares.append(float(recurrences.beside(linear).square().sum() / linear.square().sum()))
    return over(shares)


@chapter.claim(
    "first-order-steers-into-subspaces",
    "§4.4",
    "First-order terms make the transport anisotropic: they steer updates into privileged "
    "directions.",
    as_stated(
        "effective number of directions (Σσ²)²/Σσ⁴ of the transport at first order over that at "
        "zeroth, lag 6, 16 neurons, median over "
        "thirty untrained cells of all five kinds (range)",
        at_most(1),
    ),
    when(
        "for one gate that all neurons share: zeroth order favours no direction there",
        "the same, ConstGate and SharedGate",
        at_most(0.9),
    ),
    code="lwcore.transport.coefficients",
    seen=(
        "The rule of the condition was first at most 1, which cannot fail there; since then "
        "a tenth of the directions must go."
    ),
)
def _() -> tuple[Measured, Measured]:
    shared: list[float] = []
    own: list[float] = []
    for family in recurrences.PAPER:
        for cell, _, kept, mixing in recurrences.sample(family, 16):
            constant, linear = (
                recurrences.block(cell, term) for term in recurrences.product(kept, mixing)
            )
            before, after = (_directions(term).mean() for term in (constant, constant + linear))
            (shared if family in ("ConstGate", "SharedGate") else own).append(float(after / before))
    return over(shared + own), over(shared)


def _directions(matrices: Tensor) -> Tensor:
    """Participation ratio of the squared singular values: H for an isotropic matrix, 1 for one of
    rank one."""
    squares = torch.linalg.svdvals(matrices).square()
    return squares.sum(-1).square() / squares.square().sum(-1)


@chapter.claim(
    "gates-set-many-rates",
    "§4.4",
    "The gates of LSTM and GRU make one global learning rate into many, different from neuron to "
    "neuron.",
    as_stated(
        "spread over the neurons of what gates alone make, the recorded zeroth-order rates at lag "
        "16: standard deviation over mean, after "
        "training, median over ten networks (range)",
        at_least(0.1),
    ),
    code="lwcore.transport.effective_rates",
    seen=(
        "First measured at first order; changed to zeroth because that spread alone is the "
        "gates'. Both pass."
    ),
)
def _(runs: Any) -> Measured:
    rate = runs["small"].rate.sel(model=["LSTM", "GRU"], order="zeroth", lag=16)
    return over((rate.std("unit") / rate.mean("unit")).values.ravel())


@chapter.claim(
    "first-order-is-close",
    "Eqs. (12) and (23)",
    "One use of the recurrent weights on the way describes the transport well enough: the "
    "first-order envelope is close to the exact one.",
    as_stated(
        "largest |f/f_exact − 1| at the planted delays, 8 to 128 steps, after training, median "
        "over 25 recorded networks (range)",
        at_most(0.1),
    ),
    when(
        "while the lag is at most half of ‖A‖/‖R‖, what a step keeps over what it mixes",
        "largest error of the first-order rates, Σ|μ − μ_exact|/Σ|μ_exact|, at such lags, "
        "untrained, gates at 0.05 and 0.1, "
        "median over 30 networks of five kinds (range)",
        at_most(0.1),
    ),
    rather(
        "in ConstGate, SharedGate, DiagGate and GRU the first-order envelope falls too fast after "
        "training",
        "how much log f falls from lag 1 to 128, over how much the exact one does, median over 20 "
        "recorded networks (range)",
        at_least(1),
    ),
    code=("book.chapters.orders.compare_orders", "lwcore.transport.effective_rates"),
    counterexample="Two neurons, a constant gate, recurrent weights that rotate by a quarter turn: no first-order term on the diagonal, "
    "and exact rates that oscillate.",
    fair="First order describes the diagonal of the transport for lags well below ‖A‖/‖R‖, of which training leaves few. Beyond them the"
    " exact envelope sums absolute values, with a floor of order √(2/π) ‖M‖_F whatever a neuron "
    "keeps.",
    seen=(
        "The condition was first that the lag is at most ‖A‖/‖R‖, which single networks "
        "missed; it was halved, and tried on fresh seeds."
    ),
)
def _(runs: Any) -> tuple[Measured, Measured, Measured]:
    f = runs["small"].envelope
    missed = (
        abs(f / f.sel(order="exact") - 1)
        .sel(order="first", lag=runs["small"].task_lag.values)
        .max("lag")
    )
    fall = np.log(f.sel(lag=1) / f.sel(lag=128)).sel(
        model=["ConstGate", "SharedGate", "DiagGate", "GRU"]
    )
    errors = []
    for gate in (0.05, 0.1):
        config = experiment.Config.named("live").but(network={"gate_init": gate})
        found = compare_orders(
            experiment.traces(config, experiment.networks(config, trained=False), 8),
            range(1, 33),
            [35, 39],
        )
        near = found.lag * found.coupling <= 0.5
        errors.append(found.error.sel(order="first").where(near).max("lag").values.ravel())
    return (
        over(missed.values.ravel()),
        over(np.concatenate(errors)),
        over((fall.sel(order="first") / fall.sel(order="exact")).values.ravel()),
    )


@chapter.claim(
    "closed-forms-under-layer-normalisation",
    "Eqs. (9), (22), (48), (50) and (52), as the author's code for later versions uses them",
    "Where the candidate is normalised over the neurons, the closed forms of the first-order "
    "rates stay as they are.",
    as_stated(
        "what they miss without the normalisation's Jacobian, over the correction, 1-norms, lag "
        "6, median over thirty cells (range)",
        at_most(1e-10),
    ),
    rather(
        "with the normalisation's own Jacobian in between they are right",
        "largest difference from autodiff, relative",
        at_most(1e-10),
    ),
    code=("book.chapters.orders.without_norm", "lwcore.transport.effective_rates"),
    counterexample=(
        "One neuron: normalised over itself, its candidate does not depend on the "
        "past; the closed form keeps the term s d w."
    ),
    fair=(
        "With layer normalisation, its Jacobian stands between the candidate's slopes and "
        "recurrent matrix when the diagonal is taken."
    ),
    seen=(
        "First measured with small random gains; changed to gain 1, with which networks "
        "start. Both fail."
    ),
    paper="code",
    kind=Kind.THEOREM,
)
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
