"""The expansion behind the effective rates: the algebra of Appendix A.

A one-step Jacobian is what each neuron keeps plus what the recurrent matrices mix, ``J = A + R``. Scale the second part,
``P(ε) = ∏_j (A_j + ε R_j)``, and the product over ℓ steps is a polynomial in ε: zeroth order is its constant term, first order adds the
linear one, and the network itself stands at ε = 1. Products run over the steps axis, oldest first, and put the newest on the left.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lwcore.arguments import finite_array, instance_of, integer_in, real_in
from lwcore.cells import Trace
from lwcore.cells.trace import checked_times
from lwcore.tensors import finite, floating
from lwcore.transport import effective_rates


def split(trace: Trace, times: slice | Tensor) -> tuple[Tensor, Tensor]:
    """Split one-step Jacobians into retention and mixing, ``J_t = A_t + R_t``. Implements Eqs. (11), (23) and the split of Appendix B.

    Args:
        trace: A scan of B sequences.
        times: A slice or an index tensor of steps in 0..T−1.

    Returns:
        A and R, each of shape (B, steps, S, S).

    Raises:
        ValueError: If a slice reaches beyond the trace or holds no step.
    """
    checked_times(times, instance_of("trace", trace, Trace).length)
    if isinstance(times, slice):
        outside = any(end is not None and abs(end) > trace.length for end in (times.start, times.stop))
        if outside or not range(trace.length)[times]:
            raise ValueError(f"times = {times}: must hold at least one step and stay within the {trace.length} of the trace.")
    whole, factors = trace.jacobian(times).dense(), trace.neurons.at(times)
    kept = torch.diag_embed(factors.retention)
    if factors.head is not None:
        kept = torch.cat([factors.head.unsqueeze(-1) * kept, kept], dim=-2)
        kept = torch.cat([torch.zeros_like(kept), kept], dim=-1)
    return kept, whole - kept


def _checked(kept: Tensor, mixing: Tensor) -> None:
    """Refuse stacks of matrices that do not belong together."""
    finite("kept", kept)
    finite("mixing", mixing)
    if kept.shape != mixing.shape or kept.ndim < 3 or kept.shape[-1] != kept.shape[-2] or kept.numel() == 0:
        raise ValueError(f"kept and mixing have shapes {tuple(kept.shape)} and {tuple(mixing.shape)}: must be the same (..., steps, S, S).")


def scaled_product(kept: Tensor, mixing: Tensor, epsilon: float | Tensor) -> Tensor:
    """Multiply ``P(ε) = ∏_j (A_j + ε R_j)``. Implements Eq. (44).

    Args:
        kept: A, shape (..., steps, S, S), the oldest step first.
        mixing: R, of the same shape.
        epsilon: ε; 0 leaves the retentions alone, 1 is the network.

    Returns:
        P, shape (..., S, S).
    """
    _checked(kept, mixing)
    if isinstance(epsilon, Tensor):
        finite("epsilon", epsilon)
    else:
        real_in("epsilon", epsilon, "(-inf, inf)")
    factors = (kept + epsilon * mixing).unbind(-3)
    product = factors[0]
    for factor in factors[1:]:
        product = factor @ product
    return product


def coefficients(kept: Tensor, mixing: Tensor, orders: int = 1) -> Tensor:
    """Compute the coefficients of ``P(ε) = Σ_k ε^k P_k``: ``P_0 = P(0)``, ``P_1 = L_P`` the Fréchet derivative, and as many more as wanted.

    Built one factor at a time, by the product rule: ``P_k ← A P_k + R P_{k−1}``. Implements Eqs. (43), (45) and (46), the last without its
    remainder if `orders` is the number of steps.

    Args:
        kept: A, shape (..., steps, S, S), the oldest step first.
        mixing: R, of the same shape.
        orders: The largest k, at least 0.

    Returns:
        Shape (orders + 1, ..., S, S).
    """
    _checked(kept, mixing)
    identity = torch.eye(kept.shape[-1], dtype=kept.dtype, device=kept.device).expand(*kept.shape[:-3], -1, -1)
    terms = torch.stack([identity, *[torch.zeros_like(identity)] * integer_in("orders", orders, 0)])
    for a, r in zip(kept.unbind(-3), mixing.unbind(-3), strict=True):
        grown = a @ terms
        grown[1:] += r @ terms[:-1]
        terms = grown
    return terms


def remainders(kept: Tensor, mixing: Tensor, epsilons: Sequence[float]) -> Tensor:
    """Measure what first order leaves out, ``‖P(ε) − P(0) − ε L_P‖_F / ‖P(0)‖_F``: the ``O(ε²)`` of Eq. (46).

    Args:
        kept: A, shape (..., steps, S, S), the oldest step first.
        mixing: R, of the same shape.
        epsilons: Values of ε, at least one, each finite.

    Returns:
        Shape (number of ε, ...).
    """
    dial = finite_array("epsilons", epsilons, ndim=1).tolist()
    constant, linear = coefficients(kept, mixing)
    left = torch.stack([scaled_product(kept, mixing, e) - constant - e * linear for e in dial])
    return torch.linalg.matrix_norm(left) / torch.linalg.matrix_norm(constant)


def orders_needed(kept: Tensor, mixing: Tensor, level: float = 0.1) -> int:
    """Count the orders that the product at ε = 1 takes: the least k from which on ``‖P_0 + … + P_k − P(1)‖_F`` stays small.

    Args:
        kept: A, shape (sequences, steps, S, S), the oldest step first.
        mixing: R, of the same shape.
        level: The largest miss allowed, above 0, relative to ``‖P(1)‖_F``, both averaged over sequences.

    Returns:
        k, at most the number of steps.
    """
    real_in("level", level, "(0, inf)")
    floating("kept", kept, (None, None, None, None), "sequences, steps, S, S")
    terms = coefficients(kept, mixing, kept.shape[-3])
    whole = terms.sum(0)
    missing = torch.linalg.matrix_norm(terms.cumsum(0) - whole).mean(1) / torch.linalg.matrix_norm(whole).mean()
    return int((missing > level).nonzero().max()) + 1 if (missing > level).any() else 0


def falls_for_sure(trace: Trace, last: int, ends: Sequence[int]) -> Tensor:
    """Say where a first-order rate cannot rise: where ``|R_qq| γ ≤ (1 − A_q) μ`` at the step that the next lag adds.

    From ``|μ_{ℓ+1}| = |A μ_ℓ + R γ_ℓ| ≤ A μ_ℓ + (1 − A) μ_ℓ = μ_ℓ``. Wherever mixing is positive and no more than what the gate replaces,
    ``0 ≤ R_qq ≤ 1 − A_q``, this holds at every lag; and from any start until ``Σ |R_qq|/A_q`` reaches ``1 − max |R_qq|/(1 − A_q)``.

    Args:
        trace: A scan of a cell whose state is h: scalar gates or GRU.
        last: The longest lag L, at least 2.
        ends: End points t, strictly increasing, each in L..T−1.

    Returns:
        For lags 1..L−1, whether the condition holds there; shape (B, ends, L − 1, H).

    Raises:
        ValueError: If the trace is that of an LSTM, whose mixing reaches the rates a lag later.
    """
    factors = instance_of("trace", trace, Trace).neurons
    if factors.delayed:
        raise ValueError(f"trace is a {type(trace).__name__}: must be of a cell whose state is h.")
    lags = list(range(1, integer_in("last", last, 2, trace.length - 1) + 1))
    zeroth, first = (effective_rates(trace, lags, order=order, ends=ends)[:, :, :-1] for order in ("zeroth", "first"))
    added = torch.tensor(ends).unsqueeze(1) - torch.tensor(lags[:-1])
    return factors.mixing[:, added].abs() * zeroth <= (1 - factors.retention[:, added]) * first
