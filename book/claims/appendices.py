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
from book.claims.checks import measures
from book.claims.claim import Measured, exactly, over
from lwcore.transport import coefficients, scaled_product, split

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


@measures("frechet-derivative")
def _() -> Measured:
    sizes = np.geomspace(1e-3, 1e-1, 9)
    slopes = []
    for x, v in _draws():
        value, derivative = expm_frechet(x, v)
        left = [np.linalg.norm(expm(x + size * v) - value - size * derivative) for size in sizes]
        slopes.append(np.polyfit(np.log(sizes), np.log(left), 1)[0])
    return over(slopes)


@measures("frechet-derivative-of-a-sum")
def _() -> Measured:
    whole = partial(_by_autodiff, lambda y: torch.linalg.matrix_exp(y) + y @ y @ y)
    return exactly(
        max(
            cases.relative(whole(x, v), expm_frechet(x, v)[1] + _of_cube(x, v)) for x, v in _draws()
        )
    )


@measures("frechet-derivative-of-a-product")
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


@measures("product-with-a-dial")
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


@measures("derivative-of-the-product")
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


@measures("remainder-is-of-second-order")
def _() -> Measured:
    dial, slopes = np.geomspace(1e-4, 1e-2, 9), []
    for _, trace, *_ in recurrences.every():
        left = remainders(*split(trace, slice(-recurrences.LAG, None)), dial.tolist()).log().mean(1)
        slopes.append(np.polyfit(np.log(dial), left.numpy(), 1)[0])
    return over(slopes)


@measures("scalar-gate-recurrences")
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


@measures("diag-gate-jacobian")
def _() -> Measured:
    return _of_jacobian("DiagGate")


@measures("diag-gate-terms-have-full-rank")
def _() -> Measured:
    ranks = []
    for cell, trace, _, mixing in recurrences.sample("DiagGate", 16):
        s = trace.gates.let_in
        gate = ((trace.gates.candidate - trace.previous) * s * (1 - s)).unsqueeze(-1) * cell.block(
            "let_in"
        ).detach()
        ranks.append(float(torch.linalg.matrix_rank(torch.stack([gate, mixing - gate])).min()) / 16)
    return over(ranks)


@measures("shared-gate-jacobian")
def _() -> Measured:
    return _of_jacobian("SharedGate")


@measures("shared-gate-couples-by-rank-one")
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


@measures("shared-gate-keeps-all-alike")
def _() -> Measured:
    spreads = []
    for cell, _, kept, mixing in recurrences.sample("SharedGate", 16):
        rates = recurrences.diagonal(cell, recurrences.product(kept, mixing)[0])
        spreads.append(float(((rates.amax(-1) - rates.amin(-1)) / rates.mean(-1)).max()))
    return exactly(max(spreads))


@measures("shared-gate-corrections-differ")
def _(runs: Any) -> Measured:
    rate = runs["small"].rate.sel(model="SharedGate", order="first", lag=16)
    return over((rate.std("unit") / rate.mean("unit")).values)


@measures("const-gate-jacobian")
def _() -> Measured:
    return _of_jacobian("ConstGate")


@measures("const-gate-is-an-exponential")
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


@measures("const-gate-corrections-are-the-candidates")
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


@measures("scalar-gate-rates")
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
