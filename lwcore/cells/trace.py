"""What one forward scan leaves behind: gates, candidates and states, from which all transport is read.

Time is counted from 0: ``h[:, t]`` is the output after input ``x[:, t]``, and ``J_t = ∂s_t/∂s_{t−1}``, where ``s_{−1}`` is the initial
state. The recurrent state s has S entries: h itself (S = H), or h and then c for the LSTM (S = 2H).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lwcore.arguments import integer_in
from lwcore.cells import compiled, loops
from lwcore.cells.jacobian import Adjoints, FactoredJacobian, NeuronFactors, NormFactors, StepJacobian


@dataclass(frozen=True, eq=False)
class Trace(ABC):
    """What one forward scan leaves behind; nothing above it is recomputed or differentiated through time.

    Attributes:
        inputs: x, shape (B, T, D).
        history: h, the initial one in front, shape (B, T+1, H).
        stack: Values of the gates and the candidate, one a block of H parameter rows, in their order, shape (G, B, T, H).
        parameters: The parameters the scan was made with, by name.
        normalised: With layer normalisation, the candidates' normalised pre-activations, shape (B, T, H).
        inverse: With layer normalisation, one over the spread of those pre-activations, shape (B, T, 1).
    """

    inputs: Tensor
    history: Tensor
    stack: Tensor
    parameters: dict[str, Tensor]
    normalised: Tensor | None
    inverse: Tensor | None

    def taken_apart(self) -> tuple[list[Tensor], Callable[[Sequence[Tensor]], Trace]]:
        """Separate the tensors from the rest.

        Returns:
            All tensors, and a function that makes the trace of them again.
        """
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "parameters"}
        tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
        rest = {name: value for name, value in values.items() if name not in tensors}
        kind, names, parameter_names = type(self), list(tensors), list(self.parameters)  # not self: it would keep the tensors alive

        def rebuild(parts: Sequence[Tensor]) -> Trace:
            parameters = dict(zip(parameter_names, parts[len(names) :], strict=True))
            return kind(**dict(zip(names, parts, strict=False)), **rest, parameters=parameters)

        return [*tensors.values(), *self.parameters.values()], rebuild

    @cached_property
    def norm(self) -> NormFactors | None:
        """The Jacobian of the candidate's layer normalisation, or None."""
        if self.normalised is None or self.inverse is None:
            return None
        return NormFactors(self.normalised, self.inverse * self.parameters["norm_weight"])

    @property
    def blocks(self) -> tuple[Tensor, ...]:
        """Values of the gates and the candidate, each (B, T, rows), in the order of the parameter rows."""
        return self.stack.unbind()

    @property
    def length(self) -> int:
        """Number of time steps T."""
        return self.inputs.shape[1]

    @property
    def hidden_size(self) -> int:
        """Number of neurons H."""
        return self.history.shape[-1]

    @property
    def outputs(self) -> Tensor:
        """The part of the state that the network's readout sees, h, shape (B, T, H)."""
        return self.history[..., 1:, :]

    @property
    def states(self) -> Tensor:
        """The recurrent state s, shape (B, T, S)."""
        return self.history[:, 1:]

    @property
    def previous(self) -> Tensor:
        """The state each step starts from, ``s_{t−1}``, shape (B, T, S)."""
        return self.history[:, :-1]

    @property
    def initial(self) -> Tensor:
        """The state before the first step, shape (B, S)."""
        return self.previous[:, 0]

    @property
    def last_rest(self) -> Tensor:
        """What the last state holds beside h: nothing, or the LSTM's c; shape (B, S − H)."""
        return self.history.new_empty((*self.history.shape[:-2], 0))

    def carried(self, states: Tensor) -> Tensor:
        """Choose the part of a state in which gradients are carried from step to step: all of h, or the LSTM's c.

        Args:
            states: Shape (..., S).

        Returns:
            Shape (..., H).
        """
        return states[..., -self.hidden_size :]

    @cached_property
    @abstractmethod
    def jacobians(self) -> FactoredJacobian:
        """The one-step Jacobians of all steps, (B, T) leading; every use of the trace shares them."""

    def jacobian(self, times: int | slice | Tensor) -> StepJacobian:
        """Give the one-step Jacobians of the chosen steps.

        Args:
            times: A step t in 0..T−1 (no time axis in the result), or a slice or an index tensor of several (one time axis, second).

        Returns:
            The Jacobians ``J_t`` as operators.
        """
        return self.jacobians.at(checked_times(times, self.length))

    @cached_property
    @abstractmethod
    def neurons(self) -> NeuronFactors:
        """Retention and mixing, neuron by neuron, of every step: what the zeroth and first order of transport are made of."""

    @cached_property
    def _drivers(self) -> Tensor:
        """What pre-activations are made of, ``(x_t, h_{t−1}, 1)``, shape (B, T, D + H + 1)."""
        before = self.history[:, :-1]
        return torch.cat([self.inputs, before, torch.ones_like(before[..., :1])], dim=-1)

    def _preactivations(self, direction: dict[str, Tensor], block: slice = slice(None)) -> Tensor:
        """Give ``W x_t + U h_{t−1} + b`` at every step, for a direction in the place of the parameters; shape (B, T, rows)."""
        weights = [direction["weight_ih"][block], direction["weight_hh"][block], direction["bias"][block].unsqueeze(-1)]
        return self._drivers @ torch.cat(weights, dim=-1).t()

    @abstractmethod
    def tangent(self, direction: dict[str, Tensor]) -> Tensor:
        """Give the immediate derivative ``B_t w`` of every step along a direction w in parameter space, previous states held fixed.

        Args:
            direction: A tensor for each named parameter of the cell, of its shape.

        Returns:
            ``B_t w``, shape (B, T, S).
        """

    @abstractmethod
    def _lift(self, adjoint: Tensor, times: slice) -> tuple[Tensor, Tensor | None]:
        """Carry adjoints of chosen states, (B, steps, S), to the pre-activations (B, steps, K), and to behind the layer normalisation."""

    @abstractmethod
    def backward(self, loss_gradients: Tensor, of_rest: Tensor) -> Adjoints:
        """Run the backward recursion for the gradients of parameters, inputs and initial state: what training needs.

        Args:
            loss_gradients: δ in the outputs h, shape (B, T, H).
            of_rest: Gradient in `last_rest`, shape (B, S − H).

        Returns:
            The adjoints.
        """

    def _loop_parts(self) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """What a backward loop reads and fills: blocks, room for their adjoints, and the norm: weight, values, spreads, room behind it."""
        blocks = self.stack.movedim(-2, 1)
        pre = blocks.new_empty(blocks.shape) if compiled.usable(blocks) else loops.room(blocks)
        if self.normalised is None or self.inverse is None:
            return blocks, pre, tuple(self.history.new_empty(shape) for shape in ((0,), (0, 0, 0), (0, 0), (0, 0, 0)))
        normalised = self.normalised.movedim(-2, 0)
        return blocks, pre, (self.parameters["norm_weight"], normalised, self.inverse[..., 0].movedim(-1, 0), torch.empty_like(normalised))

    def _adjoints(self, pre: Tensor, raw: Tensor, *initial: Tensor) -> Adjoints:
        """Gather what a backward loop has left: blocks, adjoints behind the norm (or none), and λ of the initial state's parts."""
        return Adjoints(pre.movedim(1, -2).unbind(), raw.movedim(0, -2) if len(raw) else None, torch.cat(initial, dim=-1))

    def _recurrent_gradient(self, pre: tuple[Tensor, ...], times: slice) -> dict[str, Tensor]:
        """Give the gradients of the recurrent weights, and of a bias of theirs."""
        return {"weight_hh": outer(pre, self.history[..., :-1, :][..., times, :])}

    def _gather(self, pre: tuple[Tensor, ...], raw: Tensor | None, times: slice) -> dict[str, Tensor]:
        """Give the gradient of every parameter from the adjoints of pre-activations."""
        weight_ih, bias = outer(pre, with_ones(self.inputs[..., times, :]).transpose(-3, -2)).split([self.inputs.shape[-1], 1], dim=-1)
        gradients = {"weight_ih": weight_ih, "bias": bias[..., 0]} | self._recurrent_gradient(pre, times)
        if self.normalised is not None and raw is not None:
            gradients |= {"norm_weight": (raw * self.normalised[..., times, :]).sum((-3, -2)), "norm_bias": raw.sum((-3, -2))}
        return {name: gradients[name] for name in self.parameters}

    def _split(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Cut parameter rows, the last axis, into blocks."""
        return rows.split([block.shape[-1] for block in self.blocks], dim=-1)

    def cotangent(self, adjoint: Tensor, times: slice) -> dict[str, Tensor]:
        """Give ``Σ λ_tᵀ B_t``, summed over sequences and the chosen steps: the transpose of `tangent`.

        Args:
            adjoint: λ, shape (B, number of steps, S).
            times: The steps they belong to.

        Returns:
            A tensor for each named parameter of the cell, of its shape.
        """
        pre, raw = self._lift(adjoint, times)
        return self._gather(self._split(pre), raw, times)

    def backpropagate(self, loss_gradients: Tensor, of_rest: Tensor | None = None) -> Tensor:
        """Run the backward recursion ``λ_t = δ_t + λ_{t+1} J_{t+1}`` of Eq. (3): the gradient of the summed loss in every state.

        Args:
            loss_gradients: δ in the outputs h, shape (B, T, H).
            of_rest: Gradient in `last_rest`; 0 if None.

        Returns:
            λ, shape (B, T, S).
        """
        adjoint = functional.pad(loss_gradients, (0, self.states.shape[-1] - self.hidden_size)).contiguous()
        if of_rest is not None:
            adjoint[:, -1, self.hidden_size :] += of_rest
        for t in range(self.length - 1, 0, -1):
            adjoint[:, t - 1] += self.jacobian(t).pull(adjoint[:, t].unsqueeze(-2)).squeeze(-2)
        return adjoint

    def gradients(self, adjoints: Adjoints) -> dict[str, Tensor]:
        """Give the parameter gradients of a backward pass. Implements Eq. (2).

        Args:
            adjoints: What `backward` returned.

        Returns:
            A tensor for each named parameter of the cell, of its shape.
        """
        return self._gather(adjoints.pre, adjoints.raw, slice(None))


def checked_times(times: Any, length: int) -> int | slice | Tensor:
    """Check a choice of steps.

    Args:
        times: A step t in 0..T−1, or a slice or an index tensor of several.
        length: Number of time steps T.

    Returns:
        The same.

    Raises:
        TypeError: If it is something else.
        ValueError: If a step lies outside the sequence.
    """
    if isinstance(times, slice):
        return times
    if isinstance(times, Tensor):
        if times.dtype != torch.int64 or times.ndim != 1:
            raise TypeError(f"times has shape {tuple(times.shape)} and dtype {times.dtype}: must be one-dimensional, of int64.")
        for end in (int(times.min()), int(times.max())) if len(times) else ():
            integer_in("times", end, 0, length - 1)
        return times
    return integer_in("times", times, 0, length - 1)


def with_ones(inputs: Tensor) -> Tensor:
    """Add an input of one, whose weight is the bias: then biases and their gradients come with the matrix products.

    Args:
        inputs: x, shape (B, T, D).

    Returns:
        Time-major, shape (T, B, D + 1).
    """
    return functional.pad(inputs.transpose(-3, -2), (0, 1), value=1.0)


def outer(adjoints: tuple[Tensor, ...], inputs: Tensor) -> Tensor:
    """Add up the outer products of adjoints and what they were driven by, over sequences and steps.

    Args:
        adjoints: Blocks, each (B, steps, rows).
        inputs: Shape (B, steps, D).

    Returns:
        Shape (all rows, D).
    """
    driven = inputs.transpose(-3, -2).flatten(-3, -2)  # time-major is how scans lie in memory
    return torch.cat([(driven.mT @ block.transpose(-3, -2).flatten(-3, -2)).mT for block in adjoints], dim=-2)
