"""Transport of gradients by gates: one-step Jacobians, the diagonals of their products, envelopes.

``M_{t,ℓ} = J_t J_{t−1} ⋯ J_{t−ℓ+1} = ∂s_t/∂s_{t−ℓ}`` transports the loss gradient at time t back ℓ
steps. The diagonal of its block ``∂h_t/∂h_{t−ℓ}``, for the LSTM ``∂h_t/∂c_{t−ℓ}``, is the effective
learning rate μ(ℓ, q) of neuron q, per unit of the optimiser's global learning rate. It comes in
three orders: the product of the retentions alone (``"zeroth"``), with its first-order correction in
the mixing (``"first"``), and the diagonal itself (``"exact"``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from lwcore.ambient import own_precision
from lwcore.signatures import Finite, Index, Lags, checked, require
from lwcore.trace import Neurons, Trace

Order = Literal["zeroth", "first", "exact"]
_PRODUCT_ENTRIES = 2**18  # of products carried back together: they stay in a core's cache
_RATE_ENTRIES = 2**17  # of rates, likewise
_CONDENSED_ENTRIES = 2**23  # of the Jacobians that are kept for many products


@checked
def step_jacobian(trace: Trace, t: Index) -> Float[Tensor, "B S S"]:
    """The one-step Jacobian ``J_t = ∂s_t/∂s_{t−1}`` of every sequence."""
    require("t", t, t < trace.length, f"one of the {trace.length} steps, counted from 0")
    return trace.jacobian(int(t)).dense()


@checked
def split(
    trace: Trace, steps: slice | Tensor
) -> tuple[Float[Tensor, "B n S S"], Float[Tensor, "B n S S"]]:
    """Retention and mixing of a cell at some steps, ``J_t = A_t + R_t`` in Eqs. (11) and (23)."""
    whole, neurons = trace.jacobian(steps).dense(), trace.neurons.of((slice(None), steps))
    require("steps", steps, whole.shape[1], f"some of the {trace.length} steps of the trace")
    kept = torch.diag_embed(neurons.retention)
    if neurons.head is not None:
        kept = torch.cat([neurons.head.unsqueeze(-1) * kept, kept], dim=-2)
        kept = torch.cat([torch.zeros_like(kept), kept], dim=-1)
    return kept, whole - kept


def lags_and_ends(length: int, lags: Lags, ends: Lags | None = None) -> tuple[list[int], Tensor]:
    """Lags and end points, all if None, that fit into sequences of a length."""
    steps = [int(lag) for lag in lags]
    require("lags", steps, steps[-1] < length, f"below {length}, the number of steps")
    last = list(range(steps[-1], length)) if ends is None else [int(end) for end in ends]
    fit = last[0] >= steps[-1] and last[-1] < length
    require("ends", last, fit, f"from {steps[-1]}, the longest lag, to {length - 1}")
    return steps, torch.tensor(last)


@checked
def effective_rates(
    trace: Trace, lags: Lags, order: Order = "exact", ends: Lags | None = None
) -> Float[Tensor, "B ends lags H"]:
    """Effective learning rates ``μ^{(q)}_{t,ℓ} = diag(M_{t,ℓ})_q``, to an order in the mixing.

    Zeroth order is ``γ = ∏_j A_j``, the product of what the neuron itself keeps: of ``1 − s`` or
    ``1 − z``, for the LSTM of f, shown by ``e_t``. First order adds the diagonal of ``Σ_j A_t ⋯
    A_{j+1} R_j A_{j−1} ⋯ A_{t−ℓ+1}``; it and the exact rates may be negative. Implements Eqs.
    (12)–(14), (23), (24) and the scalar-gate rates that follow Eqs. (48), (50) and (52). End points
    are all t ≥ max(lags) if None.

    Examples:
        A constant gate of 1/4 keeps 3/4 of the state at every step:

        >>> from lwcore.cells import ConstGate
        >>> cell = ConstGate(input_size=2, hidden_size=5, gate_init=0.25, dtype=torch.float64)
        >>> trace = cell.trace(torch.zeros(3, 20, 2, dtype=torch.float64))
        >>> rates = effective_rates(trace, lags=[1, 2, 3], order="zeroth")
        >>> tuple(rates.shape)
        (3, 17, 3, 5)
        >>> print(rates[0, 0, :, 0].numpy())
        [0.75     0.5625   0.421875]
    """
    streamed = stream_rates(trace, *lags_and_ends(trace.length, lags, ends), order)
    return _joined(at_lags for _, at_lags in streamed)


def _joined(groups: Iterable[Iterable[Tensor]]) -> Tensor:
    """What is found of a few sequences at a time, lag by lag, as (B, ends, lags, ...)."""
    return torch.cat([torch.stack(list(group), dim=2) for group in groups])


def stream_rates(
    trace: Trace, lags: list[int], ends: Tensor, order: str
) -> Iterator[tuple[slice, Iterator[Tensor]]]:
    """Effective rates of a few sequences at a time, (b, ends, H) lag by lag, to bound memory."""
    if order == "exact":
        yield from _of_products(trace, lags, ends, lambda M: M.diagonal(dim1=-2, dim2=-1).clone())
        return
    at_once = max(1, _RATE_ENTRIES // (len(ends) * trace.hidden_size))
    for first in range(0, len(trace.inputs), at_once):
        part = slice(first, first + at_once)
        yield part, _expanded_diagonals(trace.neurons.of(part), lags, ends, first=order == "first")


def _expanded_diagonals(
    neurons: Neurons, lags: list[int], ends: Tensor, *, first: bool
) -> Iterator[Tensor]:
    """Zeroth or first order of the rates at each wanted lag, (b, ends, H).

    ``∏(A + εR)`` is multiplied out up to first order in ε, one factor at a time, Eq. (45); see
    `Neurons`. Unlike a sum of ``R/A`` this also holds where a gate is open all the way, A = 0.
    """
    delayed = neurons.head is not None
    zeroth = at_steps(neurons.retention if neurons.head is None else neurons.head, ends)
    zeroth = zeroth if delayed else torch.ones_like(zeroth)
    slope = torch.zeros_like(zeroth)
    for lag in range(1, lags[-1] + 1):
        retention = at_steps(neurons.retention, ends - lag + 1)
        before, zeroth = zeroth, zeroth * retention
        if first:
            kept = slope * retention
            slope = torch.addcmul(kept, before, at_steps(neurons.mixing, ends - lag + 1))
            if lag == 1 and neurons.lead is not None:
                slope = slope + at_steps(neurons.lead, ends)
        if lag in lags:
            yield zeroth + (kept if delayed else slope) if first else zeroth


def _index(times: Tensor) -> slice | Tensor:
    """Increasing steps as a slice where they are evenly spaced, which makes no copy."""
    first, last, count = int(times[0]), int(times[-1]), len(times)
    spacing = (last - first) // max(count - 1, 1) or 1
    even = torch.equal(times, torch.arange(first, last + 1, spacing))
    return slice(first, last + 1, spacing) if even else times


def at_steps(values: Float[Tensor, "B T ..."], times: Tensor) -> Tensor:
    """Values at increasing steps, without a copy where these are evenly spaced."""
    return values[:, _index(times)]


def _of_products(
    trace: Trace, lags: list[int], ends: Tensor, of: Callable[[Tensor], Tensor]
) -> Iterator[tuple[slice, Iterator[Tensor]]]:
    """A function of the blocks ``∂h_t/∂h_{t−ℓ}`` or ``∂h_t/∂c_{t−ℓ}``, (b, ends, ...), lag by lag.

    Products are carried back for groups of end points, of several sequences where these are small:
    their Jacobians have to be copied.
    """
    at_once = max(1, _PRODUCT_ENTRIES // (trace.hidden_size * trace.history.shape[-1]))
    for some in torch.arange(len(trace.inputs)).split(max(1, at_once // (4 * len(ends)))):
        groups = [_carried_back(trace, some, last, lags, of) for last in ends.split(at_once)]
        joined = (torch.cat(at_lag, dim=1) for at_lag in zip(*groups, strict=True))
        yield slice(int(some[0]), int(some[-1]) + 1), joined


def _carried_back(
    trace: Trace, some: Tensor, ends: Tensor, lags: list[int], of: Callable[[Tensor], Tensor]
) -> list[Tensor]:
    """One group of products at each wanted lag.

    Where many are taken with each Jacobian, all are condensed once, if they fit into memory.
    """
    eye = trace.lifted(torch.eye(trace.hidden_size).to(trace.history))
    first = int(ends[0]) - lags[-1] + 1
    count, condensed = int(ends[-1]) - first + 1, None
    sequences, last = torch.cartesian_prod(some, ends).unbind(1)
    places = (sequences - some[0]) * count + last - first  # in the Jacobians condensed
    if count < lags[-1] * len(ends) and len(some) * count * eye.numel() <= _CONDENSED_ENTRIES:
        every = torch.cartesian_prod(some, torch.arange(first, first + count))
        condensed = trace.jacobian(every[:, 1], every[:, 0]).condensed()
    carried, found = eye.expand(len(last), -1, -1), []
    for lag in range(1, lags[-1] + 1):
        if condensed is None:
            carried = trace.jacobian(last - lag + 1, sequences).pull(carried)
        else:
            carried = condensed(_index(places - lag + 1), carried)
        if lag in lags:
            found.append(of(trace.carried(carried)).unflatten(0, (len(some), -1)))
    return found


@checked
def exact_rates_and_share(
    trace: Trace, lags: Lags, ends: Lags | None = None
) -> tuple[Float[Tensor, "B ends lags H"], Float[Tensor, "B ends lags"]]:
    """Exact rates, and the share of the transport beside them, ``‖M − diag M‖_F / ‖M‖_F``.

    M is the block whose diagonal the rates are; the share lies in [0, 1], and is NaN where M is 0.
    """
    steps, last = lags_and_ends(trace.length, lags, ends)

    def both(block: Tensor) -> Tensor:
        largest = torch.frexp(block.abs().amax((-2, -1), keepdim=True)).exponent.to(block)
        squares = (block * torch.exp2(-largest)).square()  # so that none underflows
        beside = squares.clone()
        beside.diagonal(dim1=-2, dim2=-1).zero_()
        share = (beside.sum((-2, -1)) / squares.sum((-2, -1))).sqrt()
        return torch.cat([block.diagonal(dim1=-2, dim2=-1), share.unsqueeze(-1)], dim=-1)

    found = _joined(at_lags for _, at_lags in _of_products(trace, steps, last, both))
    return found[..., :-1], found[..., -1]


@checked
def envelope(rates: Float[Tensor, "B ends lags H"]) -> Float[Tensor, " lags"]:
    """The envelope f(ℓ), the mean of Eq. (29)'s ``‖μ_{t,ℓ}‖₁`` over sequences and end points.

    Examples:
        >>> rates = torch.tensor([0.5, -0.25]).expand(4, 10, 3, 2)
        >>> envelope(rates)
        tensor([0.7500, 0.7500, 0.7500])
    """
    require("rates", rates, rates.numel(), "of at least one sequence, end point, lag and neuron")
    return rates.abs().sum(-1).mean((0, 1))


@checked
def reset_rates(
    trace: Trace, lags: Lags, ends: Lags | None = None
) -> Float[Tensor, "B ends lags H"]:
    """Reset rates of a GRU, ``ρ + η``: ``ρ = ∏_j r_j`` and ``η = ∏_j (1 − z_j) r_j``.

    Implements Eq. (25). Eq. (26) adds them to the rates; they are no terms of the expansion.
    """
    steps, last = lags_and_ends(trace.length, lags, ends)
    reset, name = trace.gates.reset, type(trace.recurrence).__name__
    require("trace.recurrence", name, reset is not None, "a GRU, which has a reset gate")
    rho, eta = (
        torch.stack([gates.unfold(1, lag, 1)[:, last + 1 - lag].prod(-1) for lag in steps], dim=2)
        for gates in (reset, trace.gates.keep * reset)
    )
    return rho + eta


@checked
@own_precision
def scaled_product(
    kept: Float[Tensor, "*batch steps S S"],
    mixing: Float[Tensor, "*batch steps S S"],
    epsilon: Finite | Float[Tensor, ""],
) -> Float[Tensor, "*batch S S"]:
    """The product ``P(ε) = ∏_j (A_j + ε R_j)``, oldest step first. Implements Eq. (44).

    ε = 0 leaves retentions alone, 1 is the network.
    """
    require("kept", kept, kept.numel(), "of at least one step")
    product, *rest = (kept + epsilon * mixing).unbind(-3)
    for factor in rest:
        product = factor @ product
    return product


@checked
@own_precision
def coefficients(
    kept: Float[Tensor, "*batch steps S S"],
    mixing: Float[Tensor, "*batch steps S S"],
    orders: Index = 1,
) -> Float[Tensor, "{orders}+1 *batch S S"]:
    """Coefficients of ``P(ε) = Σ_k ε^k P_k``: ``P_0 = P(0)``, ``P_1`` the Fréchet derivative.

    Built one factor at a time by the product rule, ``P_k ← A P_k + R P_{k−1}``. Implements Eqs.
    (43), (45) and (46), the last without its remainder if `orders` is the number of steps.
    """
    require("kept", kept, kept.numel(), "of at least one step")
    identity = torch.eye(kept.shape[-1]).to(kept).expand(*kept.shape[:-3], -1, -1)
    terms = torch.stack([identity, *[torch.zeros_like(identity)] * orders])
    for a, r in zip(kept.unbind(-3), mixing.unbind(-3), strict=True):
        grown = a @ terms
        grown[1:] += r @ terms[:-1]
        terms = grown
    return terms
