"""The gradient taken apart by lag, and the matched statistic that detection looks at.

The gradient of a recurrent network is a sum over lags, Eq. (3): the lag-ℓ part
``Σ_t δ_tᵀ M_{t,ℓ} B_{t−ℓ}`` is what errors at steps t say of parameters as they were used ℓ steps
earlier. Its factors, from the error back in time:

* ``δ_t = ∂E/∂h_t``, the loss gradient in the outputs (``loss_gradients``),
* ``M_{t,ℓ} = J_t ⋯ J_{t−ℓ+1}``, the transport over ℓ steps (`lwcore.transport`),
* ``B_k = ∂⁺s_k/∂θ``, how a step's state depends on the parameters that it uses, with the state
  before it held fixed. Along a direction w of parameter space, ``B_k w`` is a vector
  (``sensitivity``).

Time is counted from 0. In shapes B is the number of sequences, T of steps, H of neurons, S of
entries of a state, P of parameters. In formulas T(ℓ) is the matched statistic, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import jvp, vjp
from torch.nn import functional

from lwcore.ambient import FORWARD_MODE, own_precision
from lwcore.cells import Cell
from lwcore.signatures import FiniteReals, Index, Lags, checked, require, unchecked
from lwcore.trace import Direction, Trace, as_vectors
from lwcore.transport import Order, at_steps, envelope, lags_and_ends, stream_rates


@checked
def random_direction(cell: Cell, generator: torch.Generator | None = None) -> Direction:
    """Draw a unit vector w, uniform on the sphere of all of a cell's parameters.

    The vector is a dictionary: for each parameter, by name, a tensor of its shape.
    """
    parameters = dict(cell.named_parameters())
    # A Gaussian vector has no preferred direction; divided by its length it is uniform.
    draws = {}
    for name, parameter in parameters.items():
        draws[name] = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    squares = [draw.square().sum() for draw in draws.values()]
    length = torch.stack(squares).sum().sqrt()
    return {name: (draw / length).to(parameters[name]) for name, draw in draws.items()}


@checked
def unit_length(vectors: Float[Tensor, "*many P"]) -> Float[Tensor, "*many P"]:
    """Scale vectors along the last axis to length 1, however short they are; zero stays zero."""
    # Divided by their largest entry first, whose square may underflow to 0.
    largest = vectors.abs().amax(-1, keepdim=True)
    divisor = largest.where(largest > 0, 1)
    return functional.normalize(vectors / divisor, dim=-1)


@checked
@own_precision
def immediate_sensitivity(trace: Trace, direction: Direction) -> Float[Tensor, "B T S"]:
    """Return ``B_t w``: how much each step's state moves if the parameters move along w.

    The state before the step is held fixed: Eq. (3)'s ``B_k = ∂⁺s_k/∂θ`` along a direction w. Rates
    act on the entries of it that `Trace.carried` selects.
    """
    given = {name: tuple(tensor.shape) for name, tensor in direction.items()}
    expected = {name: tuple(tensor.shape) for name, tensor in trace.parameters.items()}
    require("direction", given, given == expected, f"of the shapes of the parameters, {expected}")
    for name, tensor in direction.items():
        require(f"direction[{name!r}]", tensor, bool(tensor.isfinite().all()), "finite")
    step = trace.stepped(trace.inputs, trace.previous)
    with FORWARD_MODE:
        movement: Tensor = jvp(step, (trace.parameters,), (direction,))[1]
    return movement


@checked
@own_precision
def total_sensitivity(trace: Trace, direction: Direction) -> Float[Tensor, "B T S"]:
    """Return ``S_t = ds_t/dθ w``: how much states move if all steps' parameters move along w.

    It follows ``S_t = B_t w + J_t S_{t−1}``: in the place of Eq. (3)'s ``B_t w`` it makes of the
    lag-ℓ part the sum of the parts of lag ℓ and all longer ones.
    """
    movement = immediate_sensitivity(trace, direction).clone()
    for t in range(1, trace.length):
        jacobian = trace.jacobian(t).dense()
        movement_before = movement[:, t - 1].unsqueeze(-1)
        movement[:, t] += (jacobian @ movement_before).squeeze(-1)
    return movement


@checked
@own_precision
def projected_gradient(
    trace: Trace, loss_gradients: Float[Tensor, "B T _"], direction: Direction
) -> Float[Tensor, " B"]:
    """Return each sequence's whole gradient along a direction w. Implements Eq. (2), so projected.

    The loss gradients may be those in the outputs h or in all of the state.
    """
    adjoint = trace.backpropagate(_require_fit(trace, loss_gradients))
    by_entry = adjoint * immediate_sensitivity(trace, direction)
    return by_entry.sum((1, 2))


@checked
def first_loss(loss_gradients: Float[Tensor, "B T _"]) -> int:
    """Return the first step at which a loss gradient is not zero, or the last if all are."""
    has_loss = loss_gradients.ne(0).any(-1).any(0)
    steps = has_loss.nonzero()
    return int(steps[0]) if len(steps) else len(has_loss) - 1


@checked
def carry_back(
    trace: Trace, loss_gradients: Float[Tensor, "B T _"], lags: FiniteReals, first: Index = 0
) -> Iterator[tuple[int, Float[Tensor, "B ends S"]]]:
    """Carry all loss gradients back, and yield ``δ_tᵀ M_{t,ℓ}`` for each lag.

    Implements Eq. (3), exactly. Rows belong to the end points t = max(ℓ, first) … T − 1 in order:
    the row of t is a gradient in the state ``s_{t−ℓ}``.

    Args:
        lags: Whole numbers from 0 to T − 1 that increase; lag 0 is the loss gradient itself.
        first: First end point. Take `first_loss` where early steps have no loss: it saves work.
    """
    given = torch.as_tensor(lags).tolist()
    in_order = sorted(set(given) & set(range(trace.length)))
    requirement = f"whole numbers from 0 to {trace.length - 1} that increase"
    require("lags", given, given == in_order, requirement)
    require("first", first, first < trace.length, f"one of the {trace.length} steps")
    deltas = trace.lifted(_require_fit(trace, loss_gradients)[:, first:])
    # a generator of its own: arguments are refused at the call, not at the first lag
    return _rows_by_lag(trace, deltas, [int(lag) for lag in given], first)


def _rows_by_lag(
    trace: Trace, rows: Tensor, lags: list[int], first: int
) -> Iterator[tuple[int, Tensor]]:
    """Yield rows of gradients at each of some lags, one Jacobian further back at every step."""
    if 0 in lags:
        yield 0, rows
    for lag in range(1, lags[-1] + 1):
        # J_{t−ℓ+1} of all end points t from max(first, ℓ) on. The earliest drops out where its
        # gradient has reached the initial state.
        steps = slice(max(first, lag) - lag + 1, trace.length - lag + 1)
        n_ends = steps.stop - steps.start
        remaining = rows[:, -n_ends:].unsqueeze(-2)
        rows = trace.jacobian(steps).pull(remaining).squeeze(-2)
        if lag in lags:
            yield lag, rows


@checked
@own_precision
def total_transport(
    trace: Trace,
    loss_gradients: Float[Tensor, "B T _"],
    sensitivity: Float[Tensor, "B T S"],
    lags: Lags,
    ends: Lags,
) -> Float[Tensor, "B ends lags"]:
    """Return the left side of Eq. (27), ``δ_tᵀ M_{t,ℓ} B_{t−ℓ} w``, at each end point and lag.

    It is a number: the lag-ℓ part of the gradient at end point t, along w. The right side replaces
    the matrix M by its diagonal, the effective rates; compare the two to see what that loses.
    """
    shape = tuple(trace.states.shape)
    is_of_states = sensitivity.shape == shape
    require("sensitivity", sensitivity, is_of_states, f"of the shape {shape} of states")
    whole_lags, end_steps = lags_and_ends(trace.length, lags, ends)
    by_lag = []
    for lag, rows in carry_back(trace, loss_gradients, whole_lags):
        start = end_steps - lag  # to which the gradient at t is carried back, t − ℓ
        arrived = rows[:, start] * sensitivity[:, start]
        by_lag.append(arrived.sum(-1))
    return torch.stack(by_lag, dim=-1)


@checked
@own_precision
def lag_gradients(
    trace: Trace, loss_gradients: Float[Tensor, "B T _"], lags: FiniteReals | None = None
) -> Direction:
    """Return the gradient by lag: for each parameter a tensor ``(lags, *its shape)``; see Eq. (3).

    The lag-ℓ part is ``Σ_t δ_tᵀ M_{t,ℓ} B_{t−ℓ}``, summed over sequences; lags are 0 … T − 1 if
    None, and then the parts add up to the gradient.

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
    if lags is None:
        lags = np.arange(trace.length)
    by_lag: dict[str, list[Tensor]] = {name: [] for name in trace.parameters}
    for lag, rows in carry_back(trace, loss_gradients, lags, first):
        starts = slice(max(lag, first) - lag, trace.length - lag)  # t − ℓ, of all end points t
        step = trace.stepped(trace.inputs[:, starts], trace.previous[:, starts])
        pull_to_parameters = vjp(step, trace.parameters)[1]
        for name, gradient in pull_to_parameters(rows)[0].items():
            by_lag[name].append(gradient)
    return {name: torch.stack(gradients) for name, gradients in by_lag.items()}


@checked
def lag_vectors(
    trace: Trace, loss_gradients: Float[Tensor, "B T _"], lags: FiniteReals | None = None
) -> Float[Tensor, "lags P"]:
    """Return the parts of `lag_gradients` as vectors in the space of all parameters."""
    return as_vectors(lag_gradients(trace, loss_gradients, lags))


@checked
def alignment(
    loss_gradients: Float[Tensor, "B T H"],
    sensitivity: Float[Tensor, "B T H"],
    lags: Lags,
    ends: Lags,
) -> Float[Tensor, "B ends lags H"]:
    """Return the alignments ``a^{(q)}_{t,ℓ} = δ_t^{(q)} (B_{t−ℓ} w)^{(q)}``, neuron by neuron.

    It is the gradient along w that would arrive if neuron q passed on everything: the error now,
    times how much the state ℓ steps earlier moves with the parameters. The effective rate says how
    much of it does arrive. Implements Eq. (27)'s alignment.

    Args:
        loss_gradients: δ, the loss gradients in the outputs.
        sensitivity: ``trace.carried(immediate_sensitivity(trace, w))``: of an LSTM the half of
            ``B_t w`` that belongs to c, of other cells all of it.
    """
    whole_lags, end_steps = lags_and_ends(loss_gradients.shape[1], lags, ends)
    delta = at_steps(loss_gradients, end_steps)
    by_lag = []
    for lag in whole_lags:
        by_lag.append(delta * at_steps(sensitivity, end_steps - lag))
    return torch.stack(by_lag, dim=2)


@checked
def matched_statistic(
    rates: Float[Tensor, "B ends lags H"],
    alignments: Float[Tensor, "B ends lags H"],
    signs: Float[Tensor, "lags H"],
) -> Float[Tensor, "B lags"]:
    """Return the matched statistic T(ℓ), one number for each sequence and lag. Implements Eq. (28).

    ``T(ℓ) = mean_t Σ_q sgn(m_q) μ^{(q)}_{t,ℓ} a^{(q)}_{t,ℓ}``. Rate times alignment is what neuron
    q passes on of the gradient along w over ℓ steps, with the transport between neurons left out,
    Eq. (27). Each neuron is turned by the sign of its mean alignment ``m_q = E[a^{(q)}]``, and then
    all are added. Where rates and alignments are independent, ``E T = Σ_q |m_q| E μ^{(q)}``:
    nothing cancels if no rate is negative, as at zeroth order. If T has a mean above zero, the
    gradient holds a signal from ℓ steps back. How many sequences it takes to see it in the noise is
    `lwcore.detection.sample_complexity`, lag by lag, from the α and σ that `lwcore.stable.fit`
    finds in T, with E T for the alignment and 1 for the envelope, which E T holds already.

    End points of one sequence depend on one another, so T is averaged over them: the sequence is
    the independent unit.

    Args:
        rates: Effective learning rates μ, from `effective_rates`.
        alignments: Alignments a at the same lags and end points, from `alignment`.
        signs: sgn(m_q) at each lag: −1, 0 or 1, as floats. Estimate them on other sequences than
            these, because signs taken from the same ones make a mean out of pure noise.

    Examples:
        The first half of the sequences gives the signs, the second the statistic:

        >>> generator = torch.Generator().manual_seed(0)
        >>> rates = torch.rand(2000, 5, 1, 3, generator=generator)
        >>> alignments = torch.randn(2000, 5, 1, 3, generator=generator) + torch.tensor([1, 0, -1])
        >>> signs = alignments[:1000].mean((0, 1)).sign()
        >>> statistic = matched_statistic(rates[1000:], alignments[1000:], signs)
        >>> tuple(statistic.shape), round(statistic.mean().item(), 1)
        ((1000, 1), 1.0)
    """
    require("rates", rates, rates.numel() > 0, "of at least one sequence, end point, lag, neuron")
    require("signs", signs, bool((signs == signs.sign()).all()), "-1, 0 or 1")
    # First the mean over end points t, on which signs do not depend: an array the less.
    passed_on = (rates * alignments).mean(dim=1)  # (B, lags, H)
    return (signs * passed_on).sum(-1)


class Aim(NamedTuple):
    """What a matched statistic looks at: errors, a direction of parameter space, and signs.

    * `loss_gradients`: δ, (B, T, H).
    * `sensitivity`: `Trace.carried` of ``B_t w``, (B, T, H).
    * `signs`: sgn(m_q), (lags, H).
    """

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
    """Return the `matched_statistic` of several aims straight from a trace.

    Rates are computed once for all aims, and used lag by lag, in little memory. `order` and `ends`
    are those of `effective_rates`.
    """
    whole_lags, end_steps = lags_and_ends(trace.length, lags, ends)
    end_list = end_steps.tolist()
    results = trace.inputs.new_empty(len(aims), len(trace.inputs), len(whole_lags))
    for group, by_lag in stream_rates(trace, whole_lags, end_steps, order):
        for place, (lag, rates) in enumerate(zip(whole_lags, by_lag, strict=True)):
            column = slice(place, place + 1)  # an axis of one lag stays
            for result, aim in zip(results, aims, strict=True):
                delta = aim.loss_gradients[group]
                moved = aim.sensitivity[group]
                aligned = unchecked(alignment)(delta, moved, [lag], end_list)
                statistic = unchecked(matched_statistic)
                result[group, column] = statistic(rates.unsqueeze(2), aligned, aim.signs[column])
    return results


class Factorisation(NamedTuple):
    """Both sides of Eq. (29), ``E T = f m̄``, at each lag.

    * `statistic`: ``E T(ℓ)``, the mean of the matched statistic over sequences.
    * `envelope`: f(ℓ).
    * `alignment`: m̄(ℓ), mean alignments weighted with ``|μ|``.

    The two sides differ where rates are negative, which makes E T smaller, and where they depend on
    alignments, which may make it smaller or larger.
    """

    statistic: Float[Tensor, " lags"]
    envelope: Float[Tensor, " lags"]
    alignment: Float[Tensor, " lags"]


@checked
def factorise(
    rates: Float[Tensor, "B ends lags H"],
    alignments: Float[Tensor, "B ends lags H"],
    signs: Float[Tensor, "lags H"],
) -> Factorisation:
    """Return both sides of ``E T = f m̄``: equal if rates are independent of alignments and ≥ 0.

    Implements Eqs. (29) and (30): ``m̄ = Σ_q E|μ^{(q)}| sgn(m_q) m_q / Σ_q E|μ^{(q)}|``, NaN where
    all rates are 0. Arguments are those of `matched_statistic`.
    """
    size_of_rates = rates.abs().mean((0, 1))  # E|μ^{(q)}|
    aligned = alignments.mean((0, 1)) * signs  # |m_q|, if the signs are right
    weighted_sum = (size_of_rates * aligned).sum(-1)
    mean_statistic = matched_statistic(rates, alignments, signs).mean(0)
    return Factorisation(
        statistic=mean_statistic,
        envelope=envelope(rates),
        alignment=weighted_sum / size_of_rates.sum(-1),
    )


def _require_fit(trace: Trace, loss_gradients: Tensor) -> Tensor:
    """Return loss gradients in the outputs of a trace, or in its states; refuse others."""
    allowed = [tuple(trace.outputs.shape), tuple(trace.states.shape)]
    is_allowed = tuple(loss_gradients.shape) in allowed
    require("loss_gradients", loss_gradients, is_allowed, f"of one of the shapes {allowed}")
    require("loss_gradients", loss_gradients, bool(loss_gradients.isfinite().all()), "finite")
    return loss_gradients
