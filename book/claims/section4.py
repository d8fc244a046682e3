"""Claims of Section 4: recurrence, Jacobian, expansion and effective learning rates of LSTM and
GRU."""

from __future__ import annotations

import torch

from book.claims import cases, recurrences
from book.claims.checks import measures
from book.claims.claim import Measured, exactly, over
from lwcore.cells import GRU
from lwcore.transport import coefficients, split


def _of_expansion(family: str) -> float:
    """Largest relative difference of the package's two terms from the derivative in ε, over cells
    and both terms."""
    worst = []
    for _, trace, kept, mixing in recurrences.sample(family):
        found = coefficients(*split(trace, slice(-recurrences.LAG, None)))
        worst += [
            cases.relative(one, true)
            for one, true in zip(found, recurrences.product(kept, mixing), strict=True)
        ]
    return max(worst)


def _of_first_order(family: str) -> float:
    """Largest relative difference of first-order rates from the diagonal of the expansion by
    autodiff."""
    worst = []
    for cell, trace, kept, mixing in recurrences.sample(family):
        for lag in (1, 2, recurrences.LAG):
            constant, linear = recurrences.product(kept, mixing, lag)
            worst.append(
                cases.relative(
                    recurrences.rates(trace, "first", lag),
                    recurrences.diagonal(cell, constant + linear),
                )
            )
    return max(worst)


@measures("gru-recurrence")
def _() -> Measured:
    return exactly(
        max(
            cases.relative(trace.outputs, recurrences.outputs(cell, trace.inputs))
            for cell, trace, *_ in recurrences.sample("GRU")
        )
    )


@measures("gru-jacobian")
def _() -> Measured:
    return exactly(
        max(
            cases.relative(trace.jacobian(slice(None)).dense(), kept + mixing)
            for _, trace, kept, mixing in recurrences.sample("GRU")
        )
    )


@measures("gru-first-order-product")
def _() -> Measured:
    return exactly(_of_expansion("GRU"))


@measures("gru-leak-rate")
def _() -> Measured:
    worst = []
    for _, trace, kept, mixing in recurrences.sample("GRU"):
        gates = (1 - trace.gates.let_in[:, -recurrences.LAG :]).prod(1)
        true, _ = recurrences.product(kept, mixing)
        worst += [
            cases.relative(torch.diag_embed(rates), true)
            for rates in (gates, recurrences.rates(trace, "zeroth"))
        ]
    return exactly(max(worst))


@measures("gru-reset-rates")
def _() -> Measured:
    worst = []
    for _, trace, *_ in recurrences.sample("GRU"):
        r, z = (gate[:, -recurrences.LAG :] for gate in (trace.gates.reset, trace.gates.let_in))
        worst.append(cases.relative(recurrences.reset(trace), r.prod(1) + ((1 - z) * r).prod(1)))
    return exactly(max(worst))


@measures("gru-rates")
def _() -> tuple[Measured, Measured, Measured]:
    printed = [
        cases.relative(
            recurrences.rates(trace, "first", 1) + recurrences.reset(trace, 1),
            recurrences.rates(trace, "exact", 1),
        )
        for _, trace, *_ in recurrences.sample("GRU")
    ]
    empty = GRU(1, 1, dtype=torch.float64)
    for parameter in empty.parameters():
        torch.nn.init.zeros_(parameter)
    trace = cases.scan(empty)
    ratio = (
        recurrences.rates(trace, "first", 1) + recurrences.reset(trace, 1)
    ) / recurrences.rates(trace, "exact", 1)
    return over(printed), exactly(_of_first_order("GRU")), over(ratio.flatten().tolist())
