"""Claims of Section 4: recurrence, Jacobian, expansion and effective learning rates of LSTM and
GRU."""

from __future__ import annotations

import torch

from book.claims import cases, recurrences
from book.claims.checks import measures
from book.claims.claim import Measured, exactly, over
from lwcore.cells import GRU, LSTM
from lwcore.gradient import immediate_sensitivity, random_direction, total_transport
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


@measures("lstm-recurrence")
def _() -> Measured:
    theirs, generator = (
        torch.nn.LSTM(3, 32, batch_first=True, dtype=torch.float64),
        torch.Generator().manual_seed(0),
    )
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter.data, std=0.3, generator=generator)
    inputs = cases.draw(4, 200, 3)
    return exactly(
        cases.relative(LSTM.from_torch(theirs)(inputs).detach(), theirs(inputs)[0].detach())
    )


@measures("lstm-blocks-of-the-jacobian")
def _() -> Measured:
    worst = []
    for cell, trace, kept, mixing in recurrences.sample("LSTM"):
        found, true = trace.jacobian(slice(None)).dense(), kept + mixing
        halves = slice(None, cell.hidden_size), slice(cell.hidden_size, None)
        worst += [
            cases.relative(found[..., rows, columns], true[..., rows, columns])
            for rows in halves
            for columns in halves
        ]
    return exactly(max(worst))


@measures("lstm-retention-and-mixing")
def _() -> Measured:
    worst = []
    for _, trace, *true in recurrences.sample("LSTM"):
        worst += [
            cases.relative(found, one)
            for found, one in zip(split(trace, slice(None)), true, strict=True)
        ]
    return exactly(max(worst))


@measures("lstm-first-order-product")
def _() -> Measured:
    return exactly(_of_expansion("LSTM"))


@measures("lstm-only-the-cell-block-counts")
def _() -> tuple[Measured, Measured]:
    missed, zeroth = [], []
    for seed, (cell, trace, kept, mixing) in enumerate(recurrences.sample("LSTM")):
        errors, size = cases.draw(4, 12, cell.hidden_size, seed=2), cell.hidden_size
        moved = immediate_sensitivity(
            trace, random_direction(cell, torch.Generator().manual_seed(seed))
        )
        of_cell = torch.cat([torch.zeros_like(moved[..., :size]), moved[..., size:]], dim=-1)
        whole, part = (
            total_transport(trace, errors, each, [4], [trace.length - 1])
            for each in (moved, of_cell)
        )
        missed.append(cases.relative(part, whole))
        constant, _ = recurrences.product(kept, mixing, 4)
        zeroth.append(
            float(constant[:, :size, :size].abs().max() / constant[:, :size, size:].abs().max())
        )
    return over(missed), exactly(max(zeroth))


@measures("lstm-zeroth-rate")
def _() -> Measured:
    worst = []
    for cell, trace, kept, mixing in recurrences.sample("LSTM"):
        constant, _ = recurrences.product(kept, mixing)
        worst.append(
            cases.relative(
                torch.diag_embed(recurrences.rates(trace, "zeroth")),
                recurrences.block(cell, constant),
            )
        )
    return exactly(max(worst))


@measures("lstm-rates")
def _() -> Measured:
    return exactly(_of_first_order("LSTM"))


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
