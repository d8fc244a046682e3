"""Claims of Section 4: recurrence, Jacobian, expansion and effective learning rates of LSTM and
GRU."""

from __future__ import annotations

import torch

from book.claims import cases, recurrences
from book.claims.claim import (
    Chapter,
    Kind,
    Measured,
    as_stated,
    at_most,
    exactly,
    over,
    rather,
    when,
    within,
)
from lwcore.cells import GRU, LSTM
from lwcore.gradient import immediate_sensitivity, random_direction, total_transport
from lwcore.transport import coefficients, split

chapter = Chapter("livi", Kind.IDENTITY)


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


@chapter.claim(
    "lstm-recurrence",
    "Eqs. (4)–(8)",
    "An LSTM keeps of its cell what the forget gate leaves, adds what the input gate lets in, and "
    "shows a gated view of it.",
    as_stated(
        "largest difference between outputs of the cell and of PyTorch's, relative, 200 steps, 32 "
        "neurons",
        at_most(1e-10),
    ),
    code="lwcore.cells.LSTM",
)
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


@chapter.claim(
    "lstm-blocks-of-the-jacobian",
    "Eqs. (9) and (10)",
    "An LSTM's one-step Jacobian has four blocks, two of them diagonal, made of gates, slopes and "
    "recurrent weights.",
    as_stated(
        "largest difference of a block from autodiff, relative to the block, over six cells",
        at_most(1e-10),
    ),
    code="lwcore.transport.step_jacobian",
)
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


@chapter.claim(
    "lstm-retention-and-mixing",
    "Eq. (11)",
    "The Jacobian is a part that holds only what each neuron keeps and shows of its own cell, "
    "plus a part that holds only what is mixed.",
    as_stated(
        "largest difference of either part from autodiff with the other's way cut, relative, over "
        "six cells",
        at_most(1e-10),
    ),
    code="lwcore.transport.split",
)
def _() -> Measured:
    worst = []
    for _, trace, *true in recurrences.sample("LSTM"):
        worst += [
            cases.relative(found, one)
            for found, one in zip(split(trace, slice(None)), true, strict=True)
        ]
    return exactly(max(worst))


@chapter.claim(
    "lstm-first-order-product",
    "Eq. (12)",
    "To first order in the mixing, the transport is the product of retentions plus all products "
    "in which mixing takes the place of one.",
    as_stated(
        "largest difference of either term from value and derivative by autodiff, relative, six "
        "cells, lag 6",
        at_most(1e-10),
    ),
    code="lwcore.transport.coefficients",
)
def _() -> Measured:
    return exactly(_of_expansion("LSTM"))


@chapter.claim(
    "lstm-only-the-cell-block-counts",
    "§4.2",
    "As losses look at the hidden state, only the transport's block that leads to it from the "
    "earlier cell state carries the gradient.",
    as_stated(
        "what that block leaves out of the gradient's part at lag 4, relative to the part, median "
        "over six cells (range)",
        at_most(1e-10),
    ),
    when(
        "at zeroth order, where the block from the earlier hidden state is zero",
        "largest entry of that block, relative to those of the other, six cells, lag 4",
        at_most(1e-10),
    ),
    code="lwcore.gradient.total_transport",
    counterexample=(
        "One neuron, one step back: ∂h_t/∂h_{{t−1}} = O + E C is zero only where "
        "the recurrent weights are or cancel."
    ),
    fair=(
        "At zeroth order only the block from the earlier cell state carries the gradient; "
        "beyond, that from the hidden state does, too."
    ),
    kind=Kind.THEOREM,
)
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


@chapter.claim(
    "lstm-zeroth-rate",
    "Eq. (13)",
    "At zeroth order a neuron's rate is the product of its forget gates over the lag, times how "
    "far a change of its cell shows at the end.",
    as_stated(
        "largest difference from the product of retentions that autodiff finds, off-diagonal "
        "entries included, relative",
        at_most(1e-10),
    ),
    code="lwcore.transport.effective_rates",
)
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


@chapter.claim(
    "lstm-rates",
    "Eq. (14)",
    "An LSTM's effective learning rates are the global one times the zeroth-order rate plus the "
    "diagonal of the first-order term.",
    as_stated(
        "largest difference from the diagonal of both terms by autodiff, relative, six cells, "
        "lags 1, 2 and 6",
        at_most(1e-10),
    ),
    code="lwcore.transport.effective_rates",
)
def _() -> Measured:
    return exactly(_of_first_order("LSTM"))


@chapter.claim(
    "gru-recurrence",
    "Eqs. (15)–(18)",
    "A GRU moves its state towards a candidate by the share its update gate says, and the "
    "candidate sees the state through a reset gate.",
    as_stated(
        "largest difference of the cell's outputs from the recurrence written out, relative, six "
        "cells",
        at_most(1e-10),
    ),
    code="lwcore.cells.GRU",
)
def _() -> Measured:
    return exactly(
        max(
            cases.relative(trace.outputs, recurrences.outputs(cell, trace.inputs))
            for cell, trace, *_ in recurrences.sample("GRU")
        )
    )


@chapter.claim(
    "gru-jacobian",
    "Eqs. (19)–(22)",
    "A GRU's one-step Jacobian is the leak plus the ways through the update gate, through the "
    "candidate, and through its reset gate.",
    as_stated(
        "largest difference from autodiff of the recurrence written out, relative, six cells",
        at_most(1e-10),
    ),
    code="lwcore.transport.step_jacobian",
)
def _() -> Measured:
    return exactly(
        max(
            cases.relative(trace.jacobian(slice(None)).dense(), kept + mixing)
            for _, trace, kept, mixing in recurrences.sample("GRU")
        )
    )


@chapter.claim(
    "gru-first-order-product",
    "Eq. (23)",
    "To first order in the corrections, the transport is the product of leaks plus all products "
    "in which a correction replaces one.",
    as_stated(
        "largest difference of either term from value and derivative by autodiff, relative, six "
        "cells, lag 6",
        at_most(1e-10),
    ),
    code="lwcore.transport.coefficients",
)
def _() -> Measured:
    return exactly(_of_expansion("GRU"))


@chapter.claim(
    "gru-leak-rate",
    "Eq. (24)",
    "The product of leaks is diagonal: each neuron keeps the product of what its update gates "
    "leave.",
    as_stated(
        "largest difference from the product of retentions that autodiff finds, off-diagonal "
        "entries included, relative",
        at_most(1e-10),
    ),
    code="lwcore.transport.effective_rates",
)
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


@chapter.claim(
    "gru-reset-rates",
    "Eq. (25)",
    "Two more rates are the products over the lag of the reset gates, and of the reset gates "
    "times what the update gates leave.",
    as_stated(
        "largest difference between what the printed rates add to the expansion's and these "
        "products, relative",
        at_most(1e-10),
    ),
    code="lwcore.transport.reset_rates",
)
def _() -> Measured:
    worst = []
    for _, trace, *_ in recurrences.sample("GRU"):
        r, z = (gate[:, -recurrences.LAG :] for gate in (trace.gates.reset, trace.gates.let_in))
        worst.append(cases.relative(recurrences.reset(trace), r.prod(1) + ((1 - z) * r).prod(1)))
    return exactly(max(worst))


@chapter.claim(
    "gru-rates",
    "Eq. (26), as §4 obtains it",
    "A GRU's effective learning rates, obtained by the expansion to first order, are the leak's, "
    "the reset and the mixed rate and the "
    "first-order correction, added up.",
    as_stated(
        "difference from the diagonal of the expansion (23) at lag 1, where it is exact, "
        "relative, median over six cells",
        at_most(1e-10),
    ),
    rather(
        "without the reset and the mixed rate they are the expansion's diagonal",
        "largest difference, relative, lags 1, 2, 6",
        at_most(1e-10),
    ),
    rather(
        "the two rates are added to what is complete without them",
        "the printed rate over the exact one, lag 1, one neuron, all weights zero: γ = ρ = ½, η = "
        "¼",
        within(2.5 - 1e-10, 2.5 + 1e-10),
    ),
    code=("lwcore.transport.effective_rates", "lwcore.transport.reset_rates"),
    counterexample=(
        "One neuron, all weights zero, one step: the Jacobian is 1 − z = ½, the "
        "printed rate ½ + ½ + ¼."
    ),
    fair=(
        "A GRU's first-order rates are the leak's plus the first-order correction; reset and "
        "mixed rates are no further terms of them."
    ),
    kind=Kind.THEOREM,
)
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
