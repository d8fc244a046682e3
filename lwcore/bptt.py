"""The gradient taken apart by lag: what each past step contributes, and the matched statistic that detection looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from lwcore.arguments import instance_of, integer_in, lag_list
from lwcore.cells import Cell, Trace
from lwcore.tensors import finite, floating, torch_generator
from lwcore.transport import at_steps, checked_ends, stream_rates


def _check(name: str, value: Tensor, like: Tensor) -> None:
    """Check that a tensor has the shape and dtype of what belongs to it, and holds numbers.

    Args:
        name: Name of the argument, for the message.
        value: The tensor.
        like: What it must be like.

    Raises:
        TypeError: If it is not a tensor.
        ValueError: If shape or dtype differ, or entries are NaN or infinite.
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}: must be a torch.Tensor.")
    if value.shape != like.shape or value.dtype != like.dtype:
        given, wanted = ((tuple(tensor.shape), tensor.dtype) for tensor in (value, like))
        raise ValueError(f"{name} has shape {given[0]} and dtype {given[1]}: must have {wanted[0]} and {wanted[1]}.")
    finite(name, value)


def _check_signs(signs: Tensor, shape: tuple[int, int], like: Tensor) -> None:
    """Check that signs are signs."""
    _check("signs", signs, like.new_empty(shape))
    if not torch.isin(signs, signs.new_tensor([-1, 0, 1])).all():
        raise ValueError("signs: every entry must be −1, 0 or 1.")


def _check_direction(trace: Trace, direction: dict[str, Tensor]) -> None:
    """Check that w is a direction in the parameter space of the cell that made the trace.

    Args:
        trace: A scan.
        direction: w.

    Raises:
        ValueError: If names, shapes or dtype differ from those of the cell's parameters.
    """
    instance_of("trace", trace, Trace)
    instance_of("direction", direction, dict)
    given = {name: tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__ for name, part in direction.items()}
    wanted = {name: tuple(part.shape) for name, part in trace.parameters.items()}
    if given != wanted:
        raise ValueError(f"direction has shapes {given}: must be {wanted}, those of the cell's parameters.")
    for name, part in direction.items():
        _check(f"direction[{name!r}]", part, trace.parameters[name])


def random_direction(cell: Cell, generator: torch.Generator | None = None) -> dict[str, Tensor]:
    """Draw a unit vector w, uniform on the sphere of all of a cell's parameters.

    Args:
        cell: The cell.
        generator: Source of the draw; torch's default one if None.

    Returns:
        A tensor for each named parameter, of its shape and dtype; the squares of all entries sum to 1.
    """
    instance_of("cell", cell, Cell)
    torch_generator("generator", generator)
    draws = {name: torch.randn(p.shape, generator=generator, dtype=torch.float64) for name, p in cell.named_parameters()}
    norm = torch.stack([draw.square().sum() for draw in draws.values()]).sum().sqrt()
    return {name: (draw / norm).to(dict(cell.named_parameters())[name]) for name, draw in draws.items()}


def immediate_sensitivity(trace: Trace, direction: dict[str, Tensor]) -> Tensor:
    """Compute ``B_t w``, how each step's state moves when the parameters move along w and the previous state is held fixed.

    Implements Eq. (3)'s ``B_k = ∂⁺s_k/∂θ``, applied to one direction.

    Args:
        trace: A scan of B sequences.
        direction: w, a tensor for each named parameter of the cell, of its shape.

    Returns:
        ``B_t w``, shape (B, T, S); what `Trace.carried` chooses of it is what the rates of `effective_rates` act on.
    """
    _check_direction(trace, direction)
    return trace.tangent(direction)


def total_sensitivity(trace: Trace, direction: dict[str, Tensor]) -> Tensor:
    """Compute ``ds_t/dθ w``, how each state moves when the parameters move along w for the whole scan: ``S_t = B_t w + J_t S_{t−1}``.

    It is not the ``B_t w`` of Eq. (3): the transport from all earlier steps is in it already. Put in its place, it makes of the lag-ℓ part
    the sum of the parts of lag ℓ and all longer ones.

    Args:
        trace: A scan of B sequences.
        direction: w, as for `immediate_sensitivity`.

    Returns:
        S, shape (B, T, S); the initial state does not move.
    """
    moved = immediate_sensitivity(trace, direction).clone()
    for t in range(1, trace.length):
        moved[:, t] += trace.jacobian(t).apply(moved[:, t - 1].unsqueeze(-1)).squeeze(-1)
    return moved


def adjoints(trace: Trace, loss_gradients: Tensor) -> Tensor:
    """Compute the full backward recursion ``λ_t = δ_t + λ_{t+1} J_{t+1}``: the gradient of the summed loss in every state.

    Args:
        trace: A scan of B sequences.
        loss_gradients: δ, shape (B, T, H).

    Returns:
        λ, shape (B, T, S).
    """
    _check("loss_gradients", loss_gradients, instance_of("trace", trace, Trace).outputs)
    return trace.backpropagate(loss_gradients)


def projected_gradient(trace: Trace, loss_gradients: Tensor, direction: dict[str, Tensor]) -> Tensor:
    """Project every sequence's whole gradient, all lags together, on a direction. Implements Eq. (2), applied to one direction.

    Args:
        trace: A scan of B sequences.
        loss_gradients: δ, shape (B, T, H).
        direction: w, as for `immediate_sensitivity`.

    Returns:
        ``wᵀ ∂(Σ_t E_t)/∂θ``, shape (B,).
    """
    return (adjoints(trace, loss_gradients) * immediate_sensitivity(trace, direction)).sum((1, 2))


def transported(trace: Trace, loss_gradients: Tensor, lags: Sequence[int], first: int = 0) -> Iterator[tuple[int, Tensor]]:
    """Carry every loss gradient back through the whole transport, off-diagonal parts included: ``δ_tᵀ M_{t,ℓ}`` of Eq. (3).

    Args:
        trace: A scan of B sequences.
        loss_gradients: δ, shape (B, T, H).
        lags: Lags, strictly increasing, each in 0..T−1.
        first: First end point that matters, in 0..T−1.

    Yields:
        For each lag ℓ, the lag and the row vectors of the end points t = max(ℓ, first)..T−1, shape (B, end points, S).
    """
    _check("loss_gradients", loss_gradients, instance_of("trace", trace, Trace).outputs)
    wanted = lag_list("lags", lags, trace.length, least=0)
    start = integer_in("first", first, 0, trace.length - 1)
    rows = functional.pad(loss_gradients[:, start:], (0, trace.states.shape[-1] - trace.hidden_size))
    for lag in range(wanted[-1] + 1):
        if lag:
            steps = slice(max(start, lag) - lag + 1, trace.length - lag + 1)
            rows = trace.jacobian(steps).pull(rows[:, steps.start - steps.stop :].unsqueeze(-2)).squeeze(-2)
        if lag in wanted:
            yield lag, rows


def total_transport(trace: Trace, loss_gradients: Tensor, sensitivity: Tensor, lags: Sequence[int], ends: Sequence[int]) -> Tensor:
    """Compute what each end point's loss gradient meets ℓ steps earlier, off-diagonal parts included. Implements Eq. (27)'s left side.

    Args:
        trace: A scan of B sequences.
        loss_gradients: δ, shape (B, T, H).
        sensitivity: ``B_t w`` of `immediate_sensitivity`, or any other vectors, shape (B, T, S).
        lags: Lags, strictly increasing, each in 1..T−1.
        ends: End points t, strictly increasing, each in max(lags)..T−1.

    Returns:
        ``δ_tᵀ M_{t,ℓ} B_{t−ℓ} w``, shape (B, ends, lags).
    """
    steps = lag_list("lags", lags, instance_of("trace", trace, Trace).length)
    last = checked_ends(ends, steps, trace.length)
    _check("sensitivity", sensitivity, trace.states)
    first = int(last[0])
    carried = transported(trace, loss_gradients, steps, first)
    return torch.stack([(rows[:, last - first] * sensitivity[:, last - lag]).sum(-1) for lag, rows in carried], dim=-1)


def lag_gradients(trace: Trace, loss_gradients: Tensor, lags: Sequence[int] | None = None) -> dict[str, Tensor]:
    """Take the gradient apart by lag. Implements Eq. (3).

    The lag-ℓ part is ``Σ_t δ_tᵀ M_{t,ℓ} B_{t−ℓ}``, summed over sequences. Over all lags 0..T−1 the parts add up to the gradient of ``Σ_t
    E_t``.

    Args:
        trace: A scan of B sequences.
        loss_gradients: δ, shape (B, T, H).
        lags: Lags, strictly increasing, each in 0..T−1; all of them if None.

    Returns:
        For each named parameter of the cell a tensor of shape ``(number of lags, *its shape)``.

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
    instance_of("trace", trace, Trace)
    wanted = range(trace.length) if lags is None else lags
    parts = [trace.cotangent(rows, slice(0, trace.length - lag)) for lag, rows in transported(trace, loss_gradients, wanted)]
    return {name: torch.stack([part[name] for part in parts]) for name in parts[0]}


def lag_vectors(trace: Trace, loss_gradients: Tensor, lags: Sequence[int] | None = None) -> Tensor:
    """Lay each lag's part of the gradient out as one vector in the space of all parameters.

    Args:
        trace: A scan of B sequences.
        loss_gradients: δ, shape (B, T, H).
        lags: As for `lag_gradients`.

    Returns:
        Shape (number of lags, number of parameters).
    """
    return torch.cat([part.flatten(1) for part in lag_gradients(trace, loss_gradients, lags).values()], dim=1)


def alignment(loss_gradients: Tensor, sensitivity: Tensor, lags: Sequence[int], ends: Sequence[int]) -> Tensor:
    """Multiply each end point's loss gradient with the sensitivity a lag earlier, neuron by neuron. Implements Eq. (27)'s alignment.

    Args:
        loss_gradients: δ, shape (B, T, H).
        sensitivity: ``B_t w`` of `immediate_sensitivity`, shape (B, T, H).
        lags: Lags, strictly increasing, each in 1..T−1.
        ends: End points t, each in max(lags)..T−1.

    Returns:
        ``a^{(q)}_{t,ℓ} = δ_t^{(q)} (B_{t−ℓ} w)^{(q)}``, shape (B, ends, lags, H).

    Raises:
        ValueError: If the two arrays differ in shape.
    """
    floating("loss_gradients", loss_gradients)
    floating("sensitivity", sensitivity)
    if loss_gradients.shape != sensitivity.shape or loss_gradients.ndim != 3:
        shapes = f"{tuple(loss_gradients.shape)} and {tuple(sensitivity.shape)}"
        raise ValueError(f"loss_gradients and sensitivity have shapes {shapes}: must be the same (B, T, H).")
    length = loss_gradients.shape[1]
    steps = lag_list("lags", lags, length)
    last = checked_ends(ends, steps, length)
    starts = last.unsqueeze(1) - torch.tensor(steps)
    return loss_gradients[:, last].unsqueeze(2) * sensitivity[:, starts]


def matched_statistic(rates: Tensor, alignments: Tensor, signs: Tensor) -> Tensor:
    """Add the neurons' aligned contributions, one number a sequence and lag. Implements Eq. (28).

    Args:
        rates: μ, shape (B, ends, lags, H).
        alignments: a, shape (B, ends, lags, H).
        signs: ``sgn E[a^{(q)}]``, shape (lags, H), estimated on other sequences than these: signs taken from the same ones make a mean
            out of pure noise.

    Returns:
        ``T(ℓ) = Σ_q sgn(m_q) μ^{(q)} a^{(q)}`` averaged over the end points, which depend on one another; shape (B, lags).

    Raises:
        ValueError: If the shapes do not fit together.
    """
    for name, values in {"rates": rates, "alignments": alignments, "signs": signs}.items():
        floating(name, values)
    if rates.shape != alignments.shape or signs.shape != rates.shape[2:] or rates.ndim != 4 or rates.numel() == 0:
        raise ValueError(
            f"rates {tuple(rates.shape)}, alignments {tuple(alignments.shape)} and signs {tuple(signs.shape)} do not fit: "
            "the first two must agree, (B, ends, lags, H), none of them 0, and signs be (lags, H)."
        )
    _check_signs(signs, (rates.shape[2], rates.shape[3]), rates)
    return torch.einsum("belh,belh,lh->bl", rates, alignments, signs) / rates.shape[1]


def lag_statistic(
    trace: Trace,
    loss_gradients: Tensor,
    sensitivity: Tensor,
    signs: Tensor,
    lags: Sequence[int],
    order: str = "exact",
    ends: Sequence[int] | None = None,
) -> Tensor:
    """Compute the matched statistic straight from a trace, without ever holding the rates of all lags. Implements Eqs. (27)–(28).

    The same number as `matched_statistic` of `effective_rates` and `alignment`.

    Args:
        trace: A scan of B sequences.
        loss_gradients: δ, shape (B, T, H).
        sensitivity: ``B_t w`` of `immediate_sensitivity`, shape (B, T, S).
        signs: ``sgn E[a^{(q)}]``, shape (lags, H), estimated on other sequences than these.
        lags: Lags, strictly increasing, each in 1..T−1.
        order: Order of the rates.
        ends: End points t, strictly increasing, each in max(lags)..T−1; all of them if None.

    Returns:
        ``T(ℓ)`` averaged over the end points, shape (B, lags).

    """
    _check("loss_gradients", loss_gradients, instance_of("trace", trace, Trace).outputs)
    steps = lag_list("lags", lags, trace.length)
    last = checked_ends(ends, steps, trace.length)
    _check("sensitivity", sensitivity, trace.states)
    _check_signs(signs, (len(steps), trace.hidden_size), trace.history)
    weights, moved = at_steps(loss_gradients, last), trace.carried(sensitivity).contiguous()
    result = loss_gradients.new_empty(len(loss_gradients), len(steps))
    for part, at_lags in stream_rates(trace, steps, order, last.tolist(), weights=weights):
        for i, (lag, rates) in enumerate(zip(steps, at_lags, strict=True)):
            result[part, i] = (rates.value() * at_steps(moved[part], last - lag)).sum(1) @ signs[i]
    return result / len(last)
