"""The gradient taken apart by lag: what each past step contributes, and the matched statistic that
detection looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lwcore.arguments import instance_of, integer_in, lag_list
from lwcore.cells import Cell
from lwcore.tensors import finite, floating, torch_generator
from lwcore.trace import Direction, Trace
from lwcore.transport import at_steps, checked_ends, envelope, stream_rates


def random_direction(cell: Cell, generator: torch.Generator | None = None) -> Direction:
    """Draw a unit vector w, uniform on the sphere of all of a cell's parameters: a tensor for each,
    of its shape and dtype."""
    instance_of("cell", cell, Cell)
    torch_generator("generator", generator)
    draws = {
        name: torch.randn(p.shape, generator=generator, dtype=torch.float64)
        for name, p in cell.named_parameters()
    }
    norm = torch.stack([draw.square().sum() for draw in draws.values()]).sum().sqrt()
    return {
        name: (draw / norm).to(dict(cell.named_parameters())[name]) for name, draw in draws.items()
    }


def immediate_sensitivity(trace: Trace, direction: Direction) -> Float[Tensor, "B T S"]:
    """Compute ``B_t w``, how each step's state moves when the parameters move along w and the
    previous state is held fixed.

    What `Trace.carried` chooses of it is what the rates of `effective_rates` act on. It is Eq.
    (3)'s ``B_k = ∂⁺s_k/∂θ``, applied to one direction w.
    """
    wanted = {
        name: part.shape for name, part in instance_of("trace", trace, Trace).parameters.items()
    }
    given = {name: part.shape for name, part in instance_of("direction", direction, dict).items()}
    if given != wanted:
        shapes = [
            {name: tuple(shape) for name, shape in shapes.items()} for shapes in (given, wanted)
        ]
        raise ValueError(
            f"direction has shapes {shapes[0]}: must be {shapes[1]}, those of the cell's "
            "parameters."
        )
    for name, part in direction.items():
        finite(f"direction[{name!r}]", part)
    return trace.moved(direction)


def total_sensitivity(trace: Trace, direction: Direction) -> Float[Tensor, "B T S"]:
    """Compute ``ds_t/dθ w``, how each state moves when the parameters move along w for the whole
    scan: ``S_t = B_t w + J_t S_{t−1}``.

    It is not the ``B_t w`` of Eq. (3): the transport from all earlier steps is in it already. Put
    in its place, it makes of the lag-ℓ part the sum of the parts of lag ℓ and all longer ones.
    """
    moved = immediate_sensitivity(trace, direction).clone()
    for t in range(1, trace.length):
        moved[:, t] += trace.jacobian(t).push(moved[:, t - 1].unsqueeze(-1)).squeeze(-1)
    return moved


def projected_gradient(
    trace: Trace, loss_gradients: Float[Tensor, "B T H"], direction: Direction
) -> Float[Tensor, " B"]:
    """Project every sequence's whole gradient, all lags together, on a direction. Implements Eq.
    (2), applied to one direction."""
    return (
        trace.backpropagate(_fitting(trace, loss_gradients))
        * immediate_sensitivity(trace, direction)
    ).sum((1, 2))


def first_loss(loss_gradients: Float[Tensor, "B T _"]) -> int:
    """Say from which step on there is a loss: the first at which a loss gradient is not zero, or
    the last if all are."""
    there = loss_gradients.ne(0).any(-1).any(0).nonzero()
    return int(there[0]) if len(there) else loss_gradients.shape[1] - 1


def transported(
    trace: Trace, loss_gradients: Float[Tensor, "B T _"], lags: Sequence[int], first: int = 0
) -> Iterator[tuple[int, Float[Tensor, "B ends S"]]]:
    """Carry every loss gradient back through the whole transport, off-diagonal parts included:
    ``δ_tᵀ M_{t,ℓ}``. Implements Eq. (3).

    Yields each lag with the row vectors of the end points t = max(ℓ, first)..T−1. Lags increase,
    from 0 to T−1.
    """
    wanted = lag_list("lags", lags, instance_of("trace", trace, Trace).length, least=0)
    start = integer_in("first", first, 0, trace.length - 1)
    rows = trace.lifted(_fitting(trace, loss_gradients)[:, start:])
    for lag in range(wanted[-1] + 1):
        if lag:
            steps = slice(max(start, lag) - lag + 1, trace.length - lag + 1)
            rows = (
                trace.jacobian(steps)
                .pull(rows[:, steps.start - steps.stop :].unsqueeze(-2))
                .squeeze(-2)
            )
        if lag in wanted:
            yield lag, rows


def total_transport(
    trace: Trace,
    loss_gradients: Float[Tensor, "B T H"],
    sensitivity: Float[Tensor, "B T S"],
    lags: Sequence[int],
    ends: Sequence[int],
) -> Float[Tensor, "B ends lags"]:
    """Compute what each end point's loss gradient meets ℓ steps earlier, ``δ_tᵀ M_{t,ℓ} B_{t−ℓ}
    w``, the left side of Eq. (27)."""
    steps = lag_list("lags", lags, instance_of("trace", trace, Trace).length)
    last = checked_ends(ends, steps, trace.length)
    floating("sensitivity", sensitivity, tuple(trace.states.shape), "B, T, S")
    along = [
        (rows[:, last - lag] * sensitivity[:, last - lag]).sum(-1)
        for lag, rows in transported(trace, loss_gradients, steps)
    ]
    return torch.stack(along, dim=-1)


def lag_gradients(
    trace: Trace, loss_gradients: Float[Tensor, "B T _"], lags: Sequence[int] | None = None
) -> dict[str, Tensor]:
    """Take the gradient apart by lag: for each parameter a tensor ``(number of lags, *its shape)``;
    see Eq. (3).

    The lag-ℓ part is ``Σ_t δ_tᵀ M_{t,ℓ} B_{t−ℓ}``, summed over sequences. Over all lags 0..T−1, the
    default, the parts add up to the gradient of ``Σ_t E_t``.

    Examples:
        All lags together are the gradient that autograd finds:

        >>> from lwcore.cells import GRU
        >>> cell = GRU(2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        >>> inputs = torch.ones(3, 6, 2, dtype=torch.float64)
        >>> parts = lag_gradients(cell.trace(inputs), loss_gradients=torch.ones(3, 6, 4, dtype=torch.float64))
        >>> cell(inputs).sum().backward()
        >>> torch.allclose(parts["weight_hh"].sum(0), cell.weight_hh.grad)
        True
    """
    first = first_loss(_fitting(trace, loss_gradients))
    wanted = range(trace.length) if lags is None else lags
    carried = transported(trace, loss_gradients, wanted, first)
    parts = [
        trace.gathered(rows, slice(max(lag, first) - lag, trace.length - lag))
        for lag, rows in carried
    ]
    return {name: torch.stack([part[name] for part in parts]) for name in parts[0]}


def lag_vectors(
    trace: Trace, loss_gradients: Float[Tensor, "B T H"], lags: Sequence[int] | None = None
) -> Float[Tensor, "lags P"]:
    """Lay each lag's part of the gradient out as one vector in the space of all parameters."""
    return torch.cat(
        [part.flatten(1) for part in lag_gradients(trace, loss_gradients, lags).values()], dim=1
    )


def alignment(
    loss_gradients: Float[Tensor, "B T H"],
    sensitivity: Float[Tensor, "B T H"],
    lags: Sequence[int],
    ends: Sequence[int],
) -> Float[Tensor, "B ends lags H"]:
    """Multiply each end point's loss gradient with the sensitivity a lag earlier, neuron by neuron:
    Implements Eq. (27)'s alignment.

    ``a^{(q)}_{t,ℓ} = δ_t^{(q)} (B_{t−ℓ} w)^{(q)}``.
    """
    floating("loss_gradients", loss_gradients)
    floating("sensitivity", sensitivity)
    if loss_gradients.shape != sensitivity.shape or loss_gradients.ndim != 3:
        shapes = f"{tuple(loss_gradients.shape)} and {tuple(sensitivity.shape)}"
        raise ValueError(
            f"loss_gradients and sensitivity have shapes {shapes}: must be the same (B, T, H)."
        )
    steps = lag_list("lags", lags, loss_gradients.shape[1])
    return _aligned(
        loss_gradients, sensitivity, steps, checked_ends(ends, steps, loss_gradients.shape[1])
    )


def _aligned(loss_gradients: Tensor, sensitivity: Tensor, lags: list[int], ends: Tensor) -> Tensor:
    """Do it for lags and ends that were checked."""
    delta = at_steps(loss_gradients, ends)
    return torch.stack([delta * at_steps(sensitivity, ends - lag) for lag in lags], dim=2)


def matched_statistic(
    rates: Float[Tensor, "B ends lags H"],
    alignments: Float[Tensor, "B ends lags H"],
    signs: Float[Tensor, "lags H"],
) -> Float[Tensor, "B lags"]:
    """Add the neurons' aligned contributions, one number a sequence and lag. Implements Eq. (28).

    ``T(ℓ) = Σ_q sgn(m_q) μ^{(q)} a^{(q)}``, averaged over the end points, which depend on one
    another. Estimate the signs ``sgn E[a^{(q)}]`` on other sequences than these: signs taken from
    the same ones make a mean out of pure noise.
    """
    if (
        rates.shape != alignments.shape
        or signs.shape != rates.shape[2:]
        or rates.ndim != 4
        or rates.numel() == 0
    ):
        raise ValueError(
            f"rates {tuple(rates.shape)}, alignments {tuple(alignments.shape)} and signs "
            f"{tuple(signs.shape)} do not fit: "
            "the first two must agree, (B, ends, lags, H), none of them 0, and signs be (lags, H)."
        )
    return ((rates * alignments).mean(1) * signs).sum(-1)


class Aim(NamedTuple):
    """What a statistic looks at: δ, (B, T, H); what moves, `Trace.carried` of ``B_t w``, (B, T, H);
    and the signs, (lags, H)."""

    loss_gradients: Tensor
    sensitivity: Tensor
    signs: Tensor


def lag_statistics(
    trace: Trace,
    aims: Sequence[Aim],
    lags: Sequence[int],
    order: str = "exact",
    ends: Sequence[int] | None = None,
) -> Float[Tensor, "aims B lags"]:
    """Compute `matched_statistic` of several aims straight from a trace, a few sequences and one
    lag at a time.

    The rates and alignments of all lags, which would not fit into memory, are never held together.
    """
    steps = lag_list("lags", lags, instance_of("trace", trace, Trace).length)
    last = checked_ends(ends, steps, trace.length)
    results = trace.inputs.new_empty(len(aims), len(trace.inputs), len(steps))
    for part, at_lags in stream_rates(trace, steps, order, last.tolist()):
        for i, (lag, scaled) in enumerate(zip(steps, at_lags, strict=True)):
            rates = scaled.value().unsqueeze(2)
            for result, aim in zip(results, aims, strict=True):
                aligned = _aligned(aim.loss_gradients[part], aim.sensitivity[part], [lag], last)
                result[part, i : i + 1] = matched_statistic(rates, aligned, aim.signs[i : i + 1])
    return results


class Factorisation(NamedTuple):
    """The sides of Eq. (29) at each lag: ``E T``; the envelope f; and m̄, the alignments' mean
    weighted with the mean absolute rates."""

    statistic: Float[Tensor, " lags"]
    envelope: Float[Tensor, " lags"]
    alignment: Float[Tensor, " lags"]


def factorise(
    rates: Float[Tensor, "B ends lags H"],
    alignments: Float[Tensor, "B ends lags H"],
    signs: Float[Tensor, "lags H"],
) -> Factorisation:
    """Measure both sides of ``E T = f m̄``, which holds where rates and alignments are independent.
    Implements Eqs. (29) and (30)."""
    size = rates.abs().mean((0, 1))
    weighted = (size * (alignments.mean((0, 1)) * signs)).sum(-1) / size.sum(-1)
    return Factorisation(
        matched_statistic(rates, alignments, signs).mean(0), envelope(rates), weighted
    )


def _fitting(trace: Trace, loss_gradients: Tensor) -> Tensor:
    """Refuse loss gradients that are neither those of the trace's outputs nor those of its
    states."""
    of_states = (
        getattr(loss_gradients, "shape", None) == instance_of("trace", trace, Trace).states.shape
    )
    shape = tuple(trace.states.shape if of_states else trace.outputs.shape)
    return finite("loss_gradients", floating("loss_gradients", loss_gradients, shape, "B, T, H"))
