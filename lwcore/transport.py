"""How gates carry the gradient back: one-step Jacobians, their products' diagonals, and the envelope.

``M_{t,ℓ} = J_t J_{t−1} ⋯ J_{t−ℓ+1} = ∂h_t/∂h_{t−ℓ}`` transports the loss gradient at time t back ℓ steps. Its diagonal, neuron by
neuron, is the effective learning rate μ(ℓ, q). Three orders of it are offered: the product of the retentions alone (``"zeroth"``), with
its first-order correction in the recurrent couplings (``"first"``), and the diagonal itself (``"exact"``), so that the expansion never
has to be trusted. Rates are given per unit of the optimiser's global learning rate (μ = 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, pairwise

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


def checked_ends(ends: Sequence[int], lags: Sequence[int], length: int) -> Tensor:
    """Check that end points increase and leave room for every lag.

    Args:
        ends: End points t.
        lags: Checked lags.
        length: Number of time steps T.

    Returns:
        The end points as an index tensor.

    Raises:
        ValueError: If there are none, or one is repeated, out of order, or outside max(lags)..T−1.
    """
    checked = [integer_in(f"ends[{i}]", t, lags[-1], length - 1) for i, t in enumerate(ends)]
    if not checked or any(after <= before for before, after in pairwise(checked)):
        raise ValueError(f"ends = {checked}: must name at least one end point, strictly increasing.")
    return torch.tensor(checked)


def effective_rates(trace: Trace, lags: Sequence[int], order: str = "exact", ends: Sequence[int] | None = None) -> Tensor:
    """Compute the effective learning rates ``μ^{(q)}_{t,ℓ} = diag(M_{t,ℓ})_q``, per unit of global learning rate.

    For the scalar gates, Appendix B: zeroth order ``γ = ∏_j (1 − s_j)``, first order ``γ (1 + Σ_j diag(R_j)/(1 − s_j))`` with ``R_j``
    the mixing part of ``J_j``. Implements Eq. (27)'s μ and the scalar-gate rates that follow Eqs. (48), (50) and (52).

    Args:
        trace: A scan of B sequences.
        lags: Lags ℓ, strictly increasing, each in 1..T−1.
        order: ``"zeroth"``, ``"first"`` or ``"exact"``.
        ends: End points t, strictly increasing, each in max(lags)..T−1; all of them if None.

    Returns:
        μ, shape (B, number of ends, number of lags, H). First-order and exact rates may be negative.
    """
    one_of("order", order, ORDERS)
    steps = lag_list("lags", lags, trace.length)
    last = checked_ends(default_ends(trace, steps) if ends is None else ends, steps, trace.length)
    products = _exact_diagonals(trace, last) if order == "exact" else _expanded_diagonals(trace, last, first=order == "first")
    rates = [diagonal for lag, diagonal in zip(range(1, steps[-1] + 1), products, strict=False) if lag in steps]
    return torch.stack(rates, dim=2)


def _expanded_diagonals(trace: Trace, ends: Tensor, *, first: bool) -> Iterator[Tensor]:
    """Zeroth or first order of diag M for lags 1, 2, …, each (B, ends, H).

    ``∏(A + εR)`` is multiplied out up to first order in ε, one factor at a time (Eq. 45). Unlike a sum of ``R/A`` this also holds where a
    gate is open all the way, A = 0, and such a step spoils no window that does not contain it.

    Yields:
        The diagonals at the next lag.
    """
    zeroth, slope = torch.ones((), dtype=trace.states.dtype), torch.zeros((), dtype=trace.states.dtype)
    for lag in count(1):
        jacobian = trace.jacobian(ends - lag + 1)
        if first:
            slope = slope * jacobian.retention + zeroth * jacobian.mixing_diagonal()
        zeroth = zeroth * jacobian.retention
        yield zeroth + slope if first else zeroth


def _exact_diagonals(trace: Trace, ends: Tensor) -> Iterator[Tensor]:
    """Diagonals of the products themselves for lags 1, 2, …, each (B, ends, H), one factor at a time for all end points together."""
    batch, _, hidden = trace.states.shape
    product = torch.eye(hidden, dtype=trace.states.dtype, device=trace.states.device).expand(batch, len(ends), hidden, hidden)
    for lag in count(1):
        product = trace.jacobian(ends - lag + 1).pull(product)
        yield product.diagonal(dim1=-2, dim2=-1)


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
