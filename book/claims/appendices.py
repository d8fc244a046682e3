"""Claims of Appendices A and B: the derivative of a product of matrices, and the scalar gates."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import expm, expm_frechet
from torch.autograd.functional import jvp

from book.chapters.expansion import remainders
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
    within,
)
from lwcore.transport import coefficients, scaled_product, split

chapter = Chapter("livi", Kind.IDENTITY)

SCALAR = ("DiagGate", "SharedGate", "ConstGate")


def _draws() -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Ten matrices X with directions V, 5 by 5."""
    return [(x, v) for x, v in np.random.default_rng(0).standard_normal((10, 2, 5, 5))]


def _of_cube(x: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fréchet derivative of X³, by hand."""
    return v @ x @ x + x @ v @ x + x @ x @ v


def _by_autodiff(
    function: Any, x: NDArray[np.float64], v: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Fréchet derivative of a function of torch matrices."""
    return jvp(function, torch.from_numpy(x), torch.from_numpy(v))[1].numpy()


@chapter.claim(
    "frechet-derivative",
    "Eq. (41)",
    "What a smooth function of a matrix does to a small change of it is a linear map, the Fréchet "
    "derivative, up to less than the change.",
    as_stated(
        "exponent with which the matrix exponential's remainder falls with the change, ten "
        "matrices, median (range)",
        at_least(1.5),
    ),
)
def _() -> Measured:
    sizes = np.geomspace(1e-3, 1e-1, 9)
    slopes = []
    for x, v in _draws():
        value, derivative = expm_frechet(x, v)
        left = [np.linalg.norm(expm(x + size * v) - value - size * derivative) for size in sizes]
        slopes.append(np.polyfit(np.log(sizes), np.log(left), 1)[0])
    return over(slopes)


@chapter.claim(
    "frechet-derivative-of-a-sum",
    "Eq. (42)",
    "The Fréchet derivative of a sum is the sum of the derivatives.",
    as_stated(
        "largest difference for exp(X) + X³, autodiff against SciPy's derivative plus that by "
        "hand, relative",
        at_most(1e-10),
    ),
)
def _() -> Measured:
    whole = partial(_by_autodiff, lambda y: torch.linalg.matrix_exp(y) + y @ y @ y)
    return exactly(
        max(
            cases.relative(whole(x, v), expm_frechet(x, v)[1] + _of_cube(x, v)) for x, v in _draws()
        )
    )


@chapter.claim(
    "frechet-derivative-of-a-product",
    "Eq. (43)",
    "The Fréchet derivative of a product follows the product rule, every factor in its place.",
    as_stated(
        "largest difference for exp(X) X³, autodiff against the rule with SciPy's derivative and "
        "that by hand, relative",
        at_most(1e-10),
    ),
)
def _() -> Measured:
    worst = []
    for x, v in _draws():
        value, derivative = expm_frechet(x, v)
        by_rule = derivative @ x @ x @ x + value @ _of_cube(x, v)
        worst.append(
            cases.relative(
                _by_autodiff(lambda y: torch.linalg.matrix_exp(y) @ y @ y @ y, x, v), by_rule
            )
        )
    return exactly(max(worst))


@chapter.claim(
    "product-with-a-dial",
    "Eq. (44)",
    "A dial on the mixing leads from the product of retentions, at 0, to the transport of the "
    "network, at 1.",
    as_stated(
        "largest difference at either end from autodiff through all steps, relative, thirty "
        "cells, lag 6",
        at_most(1e-10),
    ),
    code="lwcore.transport.scaled_product",
)
def _() -> Measured:
    worst = []
    for cell, trace, kept, mixing in recurrences.every():
        ends = (
            recurrences.product(kept, mixing)[0],
            recurrences.transport(cell, trace, trace.length - 1, recurrences.LAG),
        )
        parts = split(trace, slice(-recurrences.LAG, None))
        worst += [
            cases.relative(scaled_product(*parts, dial), end)
            for dial, end in zip((0.0, 1.0), ends, strict=True)
        ]
    return exactly(max(worst))


@chapter.claim(
    "derivative-of-the-product",
    "Eq. (45)",
    "The derivative of the product at 0 is a sum of products in each of which one factor mixes "
    "and all others retain.",
    as_stated(
        "largest difference of that sum, added up term by term, and of the package's, from "
        "autodiff, relative, thirty cells",
        at_most(1e-10),
    ),
    code="lwcore.transport.coefficients",
)
def _() -> Measured:
    worst = []
    for _, trace, kept, mixing in recurrences.every():
        true, steps = recurrences.product(kept, mixing)[1], range(-recurrences.LAG, 0)
        by_hand = torch.zeros_like(true)
        for mixed in steps:
            factors = [(mixing if j == mixed else kept)[:, j] for j in steps]
            by_hand += reduce(lambda older, newer: newer @ older, factors)
        ours = coefficients(*split(trace, slice(-recurrences.LAG, None)))[1]
        worst += [cases.relative(by_hand, true), cases.relative(ours, true)]
    return exactly(max(worst))


@chapter.claim(
    "remainder-is-of-second-order",
    "Eq. (46)",
    "What value and derivative leave out of the product falls as the square of the dial.",
    as_stated(
        "exponent with which it falls, dial from 1e-4 to 1e-2, lag 6, median over thirty cells of "
        "all five kinds (range)",
        within(1.9, 2.1),
    ),
    code="book.chapters.expansion.remainders",
)
def _() -> Measured:
    dial, slopes = np.geomspace(1e-4, 1e-2, 9), []
    for _, trace, *_ in recurrences.every():
        left = remainders(*split(trace, slice(-recurrences.LAG, None)), dial.tolist()).log().mean(1)
        slopes.append(np.polyfit(np.log(dial), left.numpy(), 1)[0])
    return over(slopes)


@chapter.claim(
    "scalar-gate-recurrences",
    "Eqs. (47), (49) and (51)",
    "Three cells move their state to a candidate by a share: one learned share a neuron, one "
    "learned for all neurons, or a constant.",
    as_stated(
        "largest difference of outputs from the recurrence written out, relative, six cells of "
        "each kind",
        at_most(1e-10),
    ),
    code=("lwcore.cells.DiagGate", "lwcore.cells.SharedGate", "lwcore.cells.ConstGate"),
)
def _() -> Measured:
    made = [one for family in SCALAR for one in recurrences.sample(family)]
    return exactly(
        max(
            cases.relative(trace.outputs, recurrences.outputs(cell, trace.inputs))
            for cell, trace, *_ in made
        )
    )


def _of_jacobian(family: str) -> Measured:
    """Largest relative difference of a scalar-gate cell's Jacobians from autodiff."""
    made = recurrences.sample(family)
    return exactly(
        max(
            cases.relative(trace.jacobian(slice(None)).dense(), kept + mixing)
            for _, trace, kept, mixing in made
        )
    )


_FROM_AUTODIFF = as_stated(
    "largest difference from autodiff of the recurrence written out, relative, six cells",
    at_most(1e-10),
)


@chapter.claim(
    "diag-gate-jacobian",
    "Eq. (48)",
    "DiagGate's one-step Jacobian is the leak, plus the way through the gates, plus the way "
    "through the candidate.",
    _FROM_AUTODIFF,
    code="lwcore.transport.step_jacobian",
)
def _() -> Measured:
    return _of_jacobian("DiagGate")


@chapter.claim(
    "diag-gate-terms-have-full-rank",
    "Appendix B",
    "In DiagGate's Jacobian both terms beside the leak are generally of full rank.",
    as_stated(
        "least rank of either term over 48 steps, as a share of its 16 rows, median over six "
        "cells (range)",
        at_least(1),
    ),
    code="lwcore.cells.GatedJacobian",
)
def _() -> Measured:
    ranks = []
    for cell, trace, _, mixing in recurrences.sample("DiagGate", 16):
        s = trace.gates.let_in
        gate = ((trace.gates.candidate - trace.previous) * s * (1 - s)).unsqueeze(-1) * cell.block(
            "let_in"
        ).detach()
        ranks.append(float(torch.linalg.matrix_rank(torch.stack([gate, mixing - gate])).min()) / 16)
    return over(ranks)


@chapter.claim(
    "shared-gate-jacobian",
    "Eq. (50)",
    "SharedGate's one-step Jacobian is a multiple of the identity, plus the way through the "
    "candidate, plus an outer product for the gate.",
    _FROM_AUTODIFF,
    code="lwcore.transport.step_jacobian",
)
def _() -> Measured:
    return _of_jacobian("SharedGate")


@chapter.claim(
    "shared-gate-couples-by-rank-one",
    "Appendix B",
    "In SharedGate's Jacobian the gate's term is of rank one, and beside the candidate's "
    "recurrent matrix it alone couples neurons.",
    as_stated(
        "largest second singular value over the first of the mixing with that matrix set to zero, "
        "and largest off-diagonal entry over the "
        "leak with the gate's row zero as well, by autodiff, six cells of 16 neurons",
        at_most(1e-10),
    ),
    code="lwcore.cells.SharedGate",
)
def _() -> Measured:
    worst = []
    for seed in range(6):
        cell = cases.cell("SharedGate", seed, hidden_size=16)
        cell.weight_hh.data[1:] = 0
        values = torch.linalg.svdvals(recurrences.parts(cell, cases.scan(cell))[1])
        cell.weight_hh.data[:1] = 0
        kept, mixing = recurrences.parts(cell, cases.scan(cell))
        worst += [
            float((values[..., 1] / values[..., 0]).max()),
            float(recurrences.beside(kept + mixing).abs().max() / kept.abs().max()),
        ]
    return exactly(max(worst))


@chapter.claim(
    "shared-gate-keeps-all-alike",
    "Appendix B",
    "SharedGate's zeroth-order rate is the same for all neurons.",
    as_stated(
        "largest spread over the neurons, (largest − least)/mean, by autodiff, six cells of 16 "
        "neurons, lag 6",
        at_most(1e-10),
    ),
    code="lwcore.transport.effective_rates",
)
def _() -> Measured:
    spreads = []
    for cell, _, kept, mixing in recurrences.sample("SharedGate", 16):
        rates = recurrences.diagonal(cell, recurrences.product(kept, mixing)[0])
        spreads.append(float(((rates.amax(-1) - rates.amin(-1)) / rates.mean(-1)).max()))
    return exactly(max(spreads))


@chapter.claim(
    "shared-gate-corrections-differ",
    "Appendix B",
    "SharedGate's first-order corrections make the rates differ from neuron to neuron.",
    as_stated(
        "standard deviation over mean of the recorded rates over neurons, lag 16, trained, median "
        "over five networks (range)",
        at_least(0.1),
    ),
    code="lwcore.transport.effective_rates",
    kind=Kind.NETWORK,
)
def _(runs: Any) -> Measured:
    rate = runs["small"].rate.sel(model="SharedGate", order="first", lag=16)
    return over((rate.std("unit") / rate.mean("unit")).values)


@chapter.claim(
    "const-gate-jacobian",
    "Eq. (52)",
    "ConstGate's one-step Jacobian is a constant multiple of the identity plus the way through "
    "the candidate; no gate is sensitive.",
    _FROM_AUTODIFF,
    code="lwcore.transport.step_jacobian",
)
def _() -> Measured:
    return _of_jacobian("ConstGate")


@chapter.claim(
    "const-gate-is-an-exponential",
    "Appendix B",
    "ConstGate's zeroth-order rate is (1 − s) to the power of the lag, for every neuron.",
    as_stated(
        "largest difference of the package's rates and of autodiff's from it, relative, six "
        "cells, lag 6",
        at_most(1e-10),
    ),
    code="lwcore.transport.effective_rates",
)
def _() -> Measured:
    worst = []
    for cell, trace, kept, mixing in recurrences.sample("ConstGate"):
        ours, true = (
            recurrences.rates(trace, "zeroth"),
            recurrences.diagonal(cell, recurrences.product(kept, mixing)[0]),
        )
        power = torch.full_like(true, 0.7**recurrences.LAG)  # the gate is 0.3
        worst += [cases.relative(ours, power), cases.relative(true, power)]
    return exactly(max(worst))


@chapter.claim(
    "const-gate-corrections-are-the-candidates",
    "Appendix B",
    "ConstGate's first-order correction depends on the candidate's slope and the neuron's own "
    "recurrent weight alone.",
    as_stated(
        "largest difference of (1 − s)^ℓ Σ_j s d_j w/(1 − s) from autodiff's correction, "
        "relative, six cells, lag 6",
        at_most(1e-10),
    ),
    code="lwcore.transport.effective_rates",
)
def _() -> Measured:
    worst = []
    for cell, trace, kept, mixing in recurrences.sample("ConstGate"):
        slopes = 1 - trace.gates.candidate[:, -recurrences.LAG :].square()
        by_hand = 0.7**recurrences.LAG * (
            0.3 / 0.7 * slopes * cell.weight_hh.detach().diagonal()
        ).sum(1)
        worst.append(
            cases.relative(
                by_hand, recurrences.diagonal(cell, recurrences.product(kept, mixing)[1])
            )
        )
    return exactly(max(worst))


@chapter.claim(
    "scalar-gate-rates",
    "Appendix B",
    "The effective rates of the three cells are the product of what their gates leave, plus the "
    "diagonal of the first-order term.",
    as_stated(
        "largest difference of first-order rates from the diagonal of both terms by autodiff, "
        "relative, eighteen cells",
        at_most(1e-10),
    ),
    code="lwcore.transport.effective_rates",
)
def _() -> Measured:
    worst = []
    for cell, trace, kept, mixing in (
        one for family in SCALAR for one in recurrences.sample(family)
    ):
        constant, linear = recurrences.product(kept, mixing)
        worst.append(
            cases.relative(
                recurrences.rates(trace, "first"), recurrences.diagonal(cell, constant + linear)
            )
        )
    return exactly(max(worst))
