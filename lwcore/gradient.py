"""Gradients taken apart by lag, and the matched statistic that detection looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import jvp, vjp
from torch.nn import functional

from lwcore.ambient import FORWARD_MODE, own_precision
from lwcore.cells import Cell
from lwcore.signatures import FiniteReals, Index, Lags, bare, checked, require
from lwcore.trace import Direction, Trace
from lwcore.transport import Order, at_steps, envelope, lags_and_ends, stream_rates


@checked
def random_direction(cell: Cell, generator: torch.Generator | None = None) -> Direction:
    """A unit vector w, uniform on the sphere of all of a cell's parameters: a tensor for each."""
    parameters = dict(cell.named_parameters())
    draws = {
        name: torch.randn(p.shape, generator=generator, dtype=torch.float64)
        for name, p in parameters.items()
    }
    norm = torch.stack([draw.square().sum() for draw in draws.values()]).sum().sqrt()
    return {name: (draw / norm).to(parameters[name]) for name, draw in draws.items()}


@checked
def unit_length(vectors: Float[Tensor, "*many P"]) -> Float[Tensor, "*many P"]:
    """Vectors of length 1, however short they were, by their last axis; zero stays zero."""
    largest = vectors.abs().amax(-1, keepdim=True)  # whose square may be none
    return functional.normalize(vectors / largest.where(largest > 0, 1), dim=-1)


@checked
@own_precision
def immediate_sensitivity(trace: Trace, direction: Direction) -> Float[Tensor, "B T S"]:
    """Immediate sensitivities ``B_t w``, Eq. (3)'s ``B_k = ∂⁺s_k/∂θ`` along a direction w.

    What `Trace.carried` chooses of them is what the rates of `effective_rates` act on.
    """
    given, wanted = (
        {name: tuple(part.shape) for name, part in parts.items()}
        for parts in (direction, trace.parameters)
    )
    require("direction", given, given == wanted, f"of the shapes of the parameters, {wanted}")
    for name, part in direction.items():
        require(f"direction[{name!r}]", part, bool(part.isfinite().all()), "finite")
    with FORWARD_MODE:
        step = trace.stepped(trace.inputs, trace.previous)
        return jvp(step, (trace.parameters,), (direction,))[1]


@checked
@own_precision
def total_sensitivity(trace: Trace, direction: Direction) -> Float[Tensor, "B T S"]:
    """Total sensitivities ``ds_t/dθ w`` of the whole scan: ``S_t = B_t w + J_t S_{t−1}``.

    In the place of Eq. (3)'s ``B_t w`` it makes of the lag-ℓ part the sum of the parts of lag ℓ
    and all longer ones: the transport from earlier steps is in it already.
    """
    moved = immediate_sensitivity(trace, direction).clone()
    for t in range(1, trace.length):
        moved[:, t] += (trace.jacobian(t).dense() @ moved[:, t - 1].unsqueeze(-1)).squeeze(-1)
    return moved


@checked
@own_precision
def projected_gradient(
    trace: Trace, loss_gradients: Float[Tensor, "B T _"], direction: Direction
) -> Float[Tensor, " B"]:
    """Every sequence's whole gradient along a direction. Implements Eq. (2), so projected."""
    adjoint = trace.backpropagate(_fitting(trace, loss_gradients))
    return (adjoint * immediate_sensitivity(trace, direction)).sum((1, 2))


@checked
def first_loss(loss_gradients: Float[Tensor, "B T _"]) -> int:
    """The first step at which a loss gradient is not zero, or the last if all are."""
    there = loss_gradients.ne(0).any(-1).any(0).nonzero()
    return int(there[0]) if len(there) else loss_gradients.shape[1] - 1


@checked
def transported(
    trace: Trace, loss_gradients: Float[Tensor, "B T _"], lags: FiniteReals, first: Index = 0
) -> Iterator[tuple[int, Float[Tensor, "B ends S"]]]:
    """Loss gradients carried back in full, ``δ_tᵀ M_{t,ℓ}``: each lag with rows for its end points.

    Implements Eq. (3). End points are t = max(ℓ, first)..T−1, lags increase, from 0 to T−1.
    """
    wanted, steps = torch.as_tensor(lags).tolist(), range(trace.length)
    increase = wanted == [lag for lag in steps if lag in wanted]
    require("lags", wanted, increase, f"whole numbers from 0 to {trace.length - 1} that increase")
    require("first", first, first < trace.length, f"one of the {trace.length} steps")
    deltas = trace.lifted(_fitting(trace, loss_gradients)[:, first:])

    def carried_back(rows: Tensor) -> Iterator[tuple[int, Tensor]]:
        for lag in range(wanted[-1] + 1):
            if lag:
                steps = slice(max(first, lag) - lag + 1, trace.length - lag + 1)
                rows = rows[:, steps.start - steps.stop :].unsqueeze(-2)
                rows = trace.jacobian(steps).pull(rows).squeeze(-2)
            if lag in wanted:
                yield lag, rows

    return carried_back(deltas)


@checked
@own_precision
def total_transport(
    trace: Trace,
    loss_gradients: Float[Tensor, "B T _"],
    sensitivity: Float[Tensor, "B T S"],
    lags: Lags,
    ends: Lags,
) -> Float[Tensor, "B ends lags"]:
    """The left side of Eq. (27), ``δ_tᵀ M_{t,ℓ} B_{t−ℓ} w``, at each end point and lag."""
    fits = sensitivity.shape == trace.states.shape
    require("sensitivity", sensitivity, fits, f"of the shape {tuple(trace.states.shape)} of states")
    steps, last = lags_and_ends(trace.length, lags, ends)
    along = [
        (rows[:, last - lag] * sensitivity[:, last - lag]).sum(-1)
        for lag, rows in transported(trace, loss_gradients, steps)
    ]
    return torch.stack(along, dim=-1)


@checked
@own_precision
def lag_gradients(
    trace: Trace, loss_gradients: Float[Tensor, "B T _"], lags: FiniteReals | None = None
) -> Direction:
    """The gradient by lag, for each parameter a tensor ``(lags, *its shape)``; see Eq. (3).

    The lag-ℓ part is ``Σ_t δ_tᵀ M_{t,ℓ} B_{t−ℓ}``, summed over sequences; lags are 0..T−1 if None.

    Examples:
        All lags together are the gradient that autograd finds:

        >>> from lwcore.cells import GRU
        >>> cell = GRU(2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        >>> inputs, delta = torch.ones(3, 6, 2).double(), torch.ones(3, 6, 4).double()
        >>> parts = lag_gradients(cell.trace(inputs), delta)
        >>> cell(inputs).sum().backward()
        >>> torch.allclose(parts["weight_hh"].sum(0), cell.weight_hh.grad)
        True
    """
    first = first_loss(loss_gradients)
    wanted = list(range(trace.length)) if lags is None else lags
    parts = []
    for lag, rows in transported(trace, loss_gradients, wanted, first):
        steps = slice(max(lag, first) - lag, trace.length - lag)
        step = trace.stepped(trace.inputs[:, steps], trace.previous[:, steps])
        parts.append(vjp(step, trace.parameters)[1](rows)[0])
    return {name: torch.stack([part[name] for part in parts]) for name in parts[0]}


@checked
def lag_vectors(
    trace: Trace, loss_gradients: Float[Tensor, "B T _"], lags: FiniteReals | None = None
) -> Float[Tensor, "lags P"]:
    """Each lag's part of the gradient as one vector in the space of all parameters."""
    parts = lag_gradients(trace, loss_gradients, lags)
    return torch.cat([part.reshape(len(part), -1) for part in parts.values()], dim=1)


@checked
def alignment(
    loss_gradients: Float[Tensor, "B T H"],
    sensitivity: Float[Tensor, "B T H"],
    lags: Lags,
    ends: Lags,
) -> Float[Tensor, "B ends lags H"]:
    """Alignments of loss gradients with the sensitivity a lag earlier, neuron by neuron.

    ``a^{(q)}_{t,ℓ} = δ_t^{(q)} (B_{t−ℓ} w)^{(q)}``. Implements Eq. (27)'s alignment.
    """
    steps, last = lags_and_ends(loss_gradients.shape[1], lags, ends)
    delta = at_steps(loss_gradients, last)
    return torch.stack([delta * at_steps(sensitivity, last - lag) for lag in steps], dim=2)


@checked
def matched_statistic(
    rates: Float[Tensor, "B ends lags H"],
    alignments: Float[Tensor, "B ends lags H"],
    signs: Float[Tensor, "lags H"],
) -> Float[Tensor, "B lags"]:
    """The matched statistic, one number a sequence and lag. Implements Eq. (28).

    ``T(ℓ) = Σ_q sgn(m_q) μ^{(q)} a^{(q)}``, averaged over the end points, which depend on one
    another. Estimate the signs ``sgn E[a^{(q)}]`` on other sequences than these: signs taken from
    the same ones make a mean out of pure noise.
    """
    require("rates", rates, rates.numel(), "of at least one sequence, end point, lag and neuron")
    return ((rates * alignments).mean(1) * signs).sum(-1)


class Aim(NamedTuple):
    """What a statistic looks at: δ and `Trace.carried` of ``B_t w``, (B, T, H), signs (lags, H)."""

    loss_gradients: Tensor
    sensitivity: Tensor
    signs: Tensor


@checked
def lag_statistics(
    trace: Trace,
    aims: Sequence[Aim],
    lags: Lags,
    order: Order = "exact",
    ends: Lags | None = None,
) -> Float[Tensor, "aims B lags"]:
    """The `matched_statistic` of several aims straight from a trace, lag by lag to bound memory."""
    steps, last = lags_and_ends(trace.length, lags, ends)
    at = last.tolist()
    results = trace.inputs.new_empty(len(aims), len(trace.inputs), len(steps))
    for part, at_lags in stream_rates(trace, steps, last, order):
        for i, (lag, at_lag) in enumerate(zip(steps, at_lags, strict=True)):
            rates = at_lag.unsqueeze(2)
            for result, (delta, moved, signs) in zip(results, aims, strict=True):
                aligned = bare(alignment)(delta[part], moved[part], [lag], at)
                statistic = bare(matched_statistic)(rates, aligned, signs[i : i + 1])
                result[part, i : i + 1] = statistic
    return results


class Factorisation(NamedTuple):
    """The sides of Eq. (29) at each lag: ``E T``; f; and m̄, alignments weighted with ``|μ|``."""

    statistic: Float[Tensor, " lags"]
    envelope: Float[Tensor, " lags"]
    alignment: Float[Tensor, " lags"]


@checked
def factorise(
    rates: Float[Tensor, "B ends lags H"],
    alignments: Float[Tensor, "B ends lags H"],
    signs: Float[Tensor, "lags H"],
) -> Factorisation:
    """Both sides of ``E T = f m̄``, which holds where rates and alignments are independent.

    Implements Eqs. (29) and (30).
    """
    size = rates.abs().mean((0, 1))
    weighted = (size * (alignments.mean((0, 1)) * signs)).sum(-1) / size.sum(-1)
    mean = matched_statistic(rates, alignments, signs).mean(0)
    return Factorisation(mean, envelope(rates), weighted)


def _fitting(trace: Trace, loss_gradients: Tensor) -> Tensor:
    """Loss gradients in the outputs of a trace, or in its states; others are refused."""
    allowed = [tuple(of.shape) for of in (trace.outputs, trace.states)]
    fits, words = tuple(loss_gradients.shape) in allowed, f"of one of the shapes {allowed}"
    require("loss_gradients", loss_gradients, fits, words)
    require("loss_gradients", loss_gradients, bool(loss_gradients.isfinite().all()), "finite")
    return loss_gradients
