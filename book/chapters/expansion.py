"""How far the expansion of Appendix A reaches: what its first orders leave out of a product, and
how many of them it takes.

The product is ``P(ε) = ∏_j (A_j + ε R_j)`` of `transport.scaled_product`, the network itself at ε =
1, and its terms are those of `transport.coefficients`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lwcore.trace import Trace
from lwcore.transport import coefficients, effective_rates, scaled_product


def remainders(
    kept: Float[Tensor, "*batch steps S S"],
    mixing: Float[Tensor, "*batch steps S S"],
    epsilons: Sequence[float],
) -> Float[Tensor, "epsilons ..."]:
    """Measure what first order leaves out, ``‖P(ε) − P(0) − ε L_P‖_F / ‖P(0)‖_F``: the ``O(ε²)`` of
    Eq. (46)."""
    constant, linear = coefficients(kept, mixing)
    left = torch.stack([scaled_product(kept, mixing, e) - constant - e * linear for e in epsilons])
    return torch.linalg.matrix_norm(left) / torch.linalg.matrix_norm(constant)


def orders_needed(
    kept: Float[Tensor, "sequences steps S S"],
    mixing: Float[Tensor, "sequences steps S S"],
    level: float = 0.1,
) -> int:
    """Count the orders that the product at ε = 1 takes: the least k from which on ``‖P_0 + … + P_k
    − P(1)‖_F`` stays small.

    That is, at most `level` times ``‖P(1)‖_F``, both averaged over sequences. No more orders are
    needed than there are steps.
    """
    terms = coefficients(kept, mixing, kept.shape[-3])
    whole = terms.sum(0)
    missing = (
        torch.linalg.matrix_norm(terms.cumsum(0) - whole).mean(1)
        / torch.linalg.matrix_norm(whole).mean()
    )
    return int((missing > level).nonzero().max()) + 1 if (missing > level).any() else 0


def falls_for_sure(trace: Trace, last: int, ends: Sequence[int]) -> Bool[Tensor, "B ends last-1 H"]:
    """Where a first-order rate cannot rise: ``|R_qq| γ ≤ (1 − A_q) μ`` at the step of the next lag.

    From ``|μ_{ℓ+1}| = |A μ_ℓ + R γ_ℓ| ≤ A μ_ℓ + (1 − A) μ_ℓ = μ_ℓ``, at lags 1..last−1, of a cell
    whose state is h. Wherever mixing is positive and no more than what the gate replaces, ``0 ≤
    R_qq ≤ 1 − A_q``, this holds at every lag; and from any start until ``Σ |R_qq|/A_q`` reaches ``1
    − max |R_qq|/(1 − A_q)``.
    """
    neurons, lags = trace.neurons, list(range(1, last + 1))
    if neurons.head is not None:
        raise ValueError("trace: must be of a cell whose state is h.")
    zeroth, first = (
        effective_rates(trace, lags, order, ends)[:, :, :-1] for order in ("zeroth", "first")
    )
    added = torch.tensor(ends).unsqueeze(1) - torch.tensor(lags[:-1])
    return neurons.mixing[:, added].abs() * zeroth <= (1 - neurons.retention[:, added]) * first
