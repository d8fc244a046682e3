"""How gates carry the gradient back: one-step Jacobians, their products' diagonals, and the envelope.

``M_{t,ℓ} = J_t J_{t−1} ⋯ J_{t−ℓ+1} = ∂h_t/∂h_{t−ℓ}`` transports the loss gradient at time t back ℓ steps. Its diagonal, neuron by
neuron, is the effective learning rate μ(ℓ, q). Three orders of it are offered: the product of the retentions alone (``"zeroth"``), with
its first-order correction in the recurrent couplings (``"first"``), and the diagonal itself (``"exact"``), so that the expansion never
has to be trusted. Rates are given per unit of the optimiser's global learning rate (μ = 1).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lwcore.arguments import integer_in, lag_list, one_of
from lwcore.cells import Trace

ORDERS = ("zeroth", "first", "exact")


def step_jacobian(trace: Trace, t: int) -> Tensor:
    """Form the one-step Jacobian ``J_t = ∂h_t/∂h_{t−1}`` of every sequence. Implements Eqs. (48), (50) and (52).

    Args:
        trace: A scan of B sequences.
        t: Step, 0..T−1.

    Returns:
        J, shape (B, H, H).
    """
    return trace.jacobian(integer_in("t", t, 0, trace.length - 1)).dense()


def default_ends(trace: Trace, lags: Sequence[int]) -> list[int]:
    """List the end points t from which every lag fits into the sequence.

    Args:
        trace: A scan.
        lags: Lags, strictly increasing, each in 1..T−1.

    Returns:
        max(lags), …, T−1.
    """
    return list(range(lag_list("lags", lags, trace.length)[-1], trace.length))


def effective_rates(trace: Trace, lags: Sequence[int], order: str = "exact", ends: Sequence[int] | None = None) -> Tensor:
    """Compute the effective learning rates ``μ^{(q)}_{t,ℓ} = diag(M_{t,ℓ})_q``, per unit of global learning rate.

    For the scalar gates, Appendix B: zeroth order ``γ = ∏_j (1 − s_j)``, first order ``γ (1 + Σ_j diag(R_j)/(1 − s_j))`` with ``R_j``
    the mixing part of ``J_j``. Implements Eq. (27)'s μ and the scalar-gate rates that follow Eqs. (48), (50) and (52). The retentions
    are multiplied as sums of logarithms, so that long products neither overflow nor lose their leading digits on the way.

    Args:
        trace: A scan of B sequences.
        lags: Lags ℓ, strictly increasing, each in 1..T−1.
        order: ``"zeroth"``, ``"first"`` or ``"exact"``.
        ends: End points t, each in max(lags)..T−1; all of them if None.

    Returns:
        μ, shape (B, number of ends, number of lags, H). First-order and exact rates may be negative.

    Raises:
        ValueError: If an end point leaves no room for the longest lag.
    """
    one_of("order", order, ORDERS)
    steps = lag_list("lags", lags, trace.length)
    if ends is None:
        ends = default_ends(trace, steps)
    if len(ends) == 0:
        raise ValueError("ends = []: must name at least one end point.")
    last = torch.tensor([integer_in(f"ends[{i}]", t, steps[-1], trace.length - 1) for i, t in enumerate(ends)])
    return _exact_rates(trace, steps, last) if order == "exact" else _expanded_rates(trace, steps, last, first=order == "first")


def _expanded_rates(trace: Trace, lags: list[int], ends: Tensor, *, first: bool) -> Tensor:
    """Zeroth- or first-order rates for all lags from two cumulative sums over time."""
    jacobian = trace.jacobian(slice(None))

    def windowed(per_step: Tensor) -> Tensor:
        """Sum a (B, T, H) quantity over the steps t−ℓ+1..t, for every end and lag."""
        total = torch.cat([torch.zeros_like(per_step[:, :1]), per_step.cumsum(1)], dim=1)
        starts = ends.unsqueeze(1) - torch.tensor(lags)
        return total[:, ends + 1].unsqueeze(2) - total[:, starts + 1]

    zeroth = windowed(jacobian.retention.log()).exp()
    return zeroth * (1 + windowed(jacobian.mixing_diagonal() / jacobian.retention)) if first else zeroth


def _exact_rates(trace: Trace, lags: list[int], ends: Tensor) -> Tensor:
    """Diagonals of the products themselves, all end points at once, one factor pulled through at a time."""
    batch, _, hidden = trace.states.shape
    product = torch.eye(hidden, dtype=trace.states.dtype, device=trace.states.device).expand(batch, len(ends), hidden, hidden)
    rates = trace.states.new_empty(batch, len(ends), len(lags), hidden)
    wanted = {lag: i for i, lag in enumerate(lags)}
    for lag in range(1, lags[-1] + 1):
        product = trace.jacobian(ends - lag + 1).pull(product)
        if lag in wanted:
            rates[:, :, wanted[lag]] = product.diagonal(dim1=-2, dim2=-1)
    return rates


def envelope(rates: Tensor) -> Tensor:
    """Average the 1-norm of the rates over sequences and end points: the envelope f(ℓ). Implements Eq. (29)'s ``f(ℓ) = ‖μ_{t,ℓ}‖₁``.

    Args:
        rates: μ, shape (B, ends, lags, H).

    Returns:
        f, shape (lags,), at least 0.

    Raises:
        ValueError: If `rates` has another number of dimensions or is empty.
    """
    if rates.ndim != 4 or rates.numel() == 0:
        raise ValueError(f"rates has shape {tuple(rates.shape)}: must be (B, ends, lags, H), none of them 0.")
    return rates.abs().sum(-1).mean((0, 1))
