"""How far the expansion of Appendix A reaches: what its first orders leave out of a product, and
how many of them it takes.

The product is ``P(ε) = ∏_j (A_j + ε R_j)`` of `transport.scaled_product`, the network itself at ε =
1, and its terms are those of `transport.coefficients`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from lwcore.transport import coefficients, scaled_product


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
