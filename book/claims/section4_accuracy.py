"""Claims of Section 4 on what the rates do: many rates, mixing, and how far the first order
describes the transport."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from book.chapters.orders import compare_orders
from book.claims import recurrences
from book.claims.checks import measures
from book.claims.claim import Measured, exactly, over
from lwcore import experiment


@measures("zeroth-order-is-diagonal")
def _() -> Measured:
    worst = []
    for cell, _, kept, mixing in recurrences.every():
        constant = recurrences.block(cell, recurrences.product(kept, mixing)[0])
        worst.append(float(recurrences.beside(constant).abs().max() / constant.abs().max()))
    return exactly(max(worst))


@measures("first-order-mixes-neurons")
def _() -> Measured:
    shares = []
    for cell, _, kept, mixing in recurrences.every(16):
        linear = recurrences.block(cell, recurrences.product(kept, mixing)[1])
        shares.append(float(recurrences.beside(linear).square().sum() / linear.square().sum()))
    return over(shares)


@measures("first-order-steers-into-subspaces")
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


@measures("first-order-is-close")
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
