"""The three scalar-gate cells of Appendix B: one update, three ways to make the gate.

All three move the state a fraction ``s_t`` of the way to a candidate, ``h_t = (1 − s_t) ⊙ h_{t−1} + s_t ⊙ h̃_t`` with
``h̃_t = tanh(W x_t + U h_{t−1} + b)``. `DiagGate` has one gate a neuron, Eq. (47), `SharedGate` one gate for all, Eq. (49), `ConstGate`
a fixed number, Eq. (51). Their one-step Jacobians, Eqs. (48), (50) and (52), are one formula, a retention plus the ways through which
h_{t−1} acts::

    J_t = diag(1 − s_t) + diag((h̃_t − h_{t−1}) ⊙ s_t(1 − s_t)) U_s + diag(s_t ⊙ (1 − h̃_t²)) N_t U,

where the shared gate's ``U_s`` repeats its row ``u_sᵀ`` for every neuron, the constant gate has no such term, and ``N_t`` is the Jacobian
of the candidate's layer normalisation, the identity without it. Parameter rows: the gate's, then the candidate's.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from lwcore.cells import compiled
from lwcore.cells.base import Block, Cell, NormRecord, preactivation
from lwcore.cells.jacobian import Adjoints, FactoredJacobian, NeuronFactors, NormFactors
from lwcore.cells.trace import Trace


@dataclass(frozen=True, eq=False)
class ScalarGateJacobian(FactoredJacobian):
    """One-step Jacobians of a scalar-gate cell. Implements Eqs. (48), (50) and (52).

    Attributes:
        retention: ``1 − s``, shape (..., H).
        through_candidate: ``s ⊙ (1 − h̃²)``, shape (..., H).
        through_gate: ``(h̃ − h_{t−1}) ⊙ s(1 − s)``, shape (..., H); None for the constant gate.
        norm: Layer normalisation of the candidate's pre-activation, or None.
        weight_hh: Recurrent rows, the gate's first, shape (K, H).
    """

    retention: Tensor
    through_candidate: Tensor
    through_gate: Tensor | None
    norm: NormFactors | None
    weight_hh: Tensor = field(metadata={"steps": False})

    @property
    def like(self) -> Tensor:
        """The retention."""
        return self.retention

    def lift(self, rows: Tensor) -> Tensor:
        """Carry adjoints of h_t, (..., k, H), to the pre-activations, (..., k, K); a shared gate's neurons add up."""
        candidate = rows * self.through_candidate.unsqueeze(-2)
        if self.norm is not None:
            candidate = self.norm.pull(candidate)
        if self.through_gate is None:
            return candidate
        gate = rows * self.through_gate.unsqueeze(-2)
        if len(self.weight_hh) == rows.shape[-1] + 1:
            gate = gate.sum(-1, keepdim=True)
        return torch.cat([gate, candidate], dim=-1)

    def push(self, tangents: Tensor) -> Tensor:
        """Carry tangents of the pre-activations, (..., k, K), to h_t, (..., k, H): the transpose of `lift`."""
        hidden = self.retention.shape[-1]
        candidate = tangents[..., -hidden:]
        if self.norm is not None:
            candidate = self.norm.push(candidate)
        moved = candidate * self.through_candidate.unsqueeze(-2)
        return moved if self.through_gate is None else torch.addcmul(moved, tangents[..., :-hidden], self.through_gate.unsqueeze(-2))

    def dense(self) -> Tensor:
        """Form the matrix, term by term."""
        hidden = self.retention.shape[-1]
        own, of_gate = self.weight_hh[-hidden:], self.weight_hh[:-hidden]
        matrix = self.through_candidate.unsqueeze(-1) * (own if self.norm is None else self.norm.push(own.t()).mT)
        if self.through_gate is not None:
            matrix = torch.addcmul(matrix, self.through_gate.unsqueeze(-1), of_gate)
        matrix.diagonal(dim1=-2, dim2=-1).add_(self.retention)
        return matrix

    def pull(self, rows: Tensor) -> Tensor:
        """Multiply from the right, ``rows · J``."""
        return torch.addcmul(self.lift(rows) @ self.weight_hh, rows, self.retention.unsqueeze(-2))

    def apply(self, columns: Tensor) -> Tensor:
        """Multiply from the left, ``J · columns``."""
        moved = self.push(columns.mT @ self.weight_hh.t()).mT
        return torch.addcmul(moved, columns, self.retention.unsqueeze(-1))


@dataclass(frozen=True, eq=False)
class ScalarGateTrace(Trace):
    """The trace of a scalar-gate cell.

    Attributes:
        constant_gate: The gate's value where it is a fixed number, else None.
        shared: The shared gate, shape (B, T, 1); None for the other cells.
    """

    constant_gate: float | None
    shared: Tensor | None

    @property
    def blocks(self) -> tuple[Tensor, ...]:
        """Values of the gate, where it is computed, and the candidate, each (B, T, rows)."""
        return self.stack.unbind() if self.shared is None else (self.shared, self.stack[0])

    @property
    def gate(self) -> Tensor | float:
        """The gate s, shape (B, T, H), (B, T, 1) for the shared gate, or the constant gate's number."""
        return self.blocks[0] if self.constant_gate is None else self.constant_gate

    @property
    def candidate(self) -> Tensor:
        """The candidate h̃, shape (B, T, H)."""
        return self.stack[-1]

    @cached_property
    def jacobians(self) -> ScalarGateJacobian:
        """All one-step Jacobians. Implements Eqs. (48), (50) and (52)."""
        gate, candidate = self.gate, self.candidate
        through_candidate = gate * (1 - candidate.square())
        if isinstance(gate, Tensor):
            retention = (1 - gate).expand_as(candidate)
            through_gate = (candidate - self.previous) * (gate * (1 - gate))
        else:
            retention, through_gate = torch.full_like(candidate, 1 - gate), None
        return ScalarGateJacobian(retention, through_candidate, through_gate, self.norm, self.parameters["weight_hh"])

    @cached_property
    def neurons(self) -> NeuronFactors:
        """Retention ``1 − s`` and ``diag(R)``, for Appendix B's ``γ = ∏(1 − s_j)`` and ``γ (1 + Σ_j diag(R_j)/(1 − s_j))``."""
        jacobian, hidden = self.jacobians, self.hidden_size
        own = jacobian.weight_hh[-hidden:]
        diagonal = own.diagonal() if self.norm is None else self.norm.diagonal(own.diagonal(), lambda rows: rows @ own)
        mixing = jacobian.through_candidate * diagonal
        if jacobian.through_gate is not None:
            rows = jacobian.weight_hh[:-hidden]
            mixing = mixing + jacobian.through_gate * (rows[0] if len(rows) == 1 else rows.diagonal())
        return NeuronFactors(jacobian.retention, mixing)

    def tangent(self, direction: dict[str, Tensor]) -> Tensor:
        """Give ``B_t w``."""
        pre = self._preactivations(direction)
        moved = self.jacobians.push(pre.unsqueeze(-2)).squeeze(-2)
        if self.norm is None:
            return moved
        behind = self.norm.normalised * direction["norm_weight"] + direction["norm_bias"]
        return torch.addcmul(moved, behind, self.jacobians.through_candidate)

    def _lift(self, adjoint: Tensor, times: slice) -> tuple[Tensor, Tensor | None]:
        jacobian = self.jacobians.at(times)
        raw = None if self.norm is None else adjoint * jacobian.through_candidate
        return jacobian.lift(adjoint.unsqueeze(-2)).squeeze(-2), raw

    def backward(self, loss_gradients: Tensor, of_rest: Tensor) -> Adjoints:
        """Run the backward recursion: see `Trace.backward`."""
        blocks, pre, (norm_weight, *norm, raw) = self._loop_parts()
        hidden, rows = self.hidden_size, self.parameters["weight_hh"]
        weight = rows[..., -len(pre) * hidden :, :].unflatten(-2, (-1, hidden)).movedim(-3, 0)
        none = self.history.new_empty((0, 0)), self.history.new_empty(0)
        shared, narrow = none if self.shared is None else (self.shared[..., 0].movedim(-1, 0), rows[..., 0, :])
        of_shared = torch.empty_like(shared, memory_format=torch.contiguous_format)
        delta, history = loss_gradients.movedim(-2, 0), self.history.movedim(-2, 0)
        inside = (delta, weight, narrow, self.constant_gate or 0.0, norm_weight, history, blocks, shared, *norm)
        adjoints = self._adjoints(pre, raw, compiled.run("backward_leaky", *inside, pre, of_shared, raw))
        return adjoints if self.shared is None else adjoints._replace(pre=(of_shared.movedim(0, -1).unsqueeze(-1), *adjoints.pre))


class ScalarGateCell(Cell):
    """The common update of the three cells; the subclasses say how wide the gate is.

    Attributes:
        constant_gate: The gate's value where it is a fixed number, else None.
    """

    def __init__(self, input_size: int, hidden_size: int, *, gate_init: float = 0.5, **options: Any) -> None:
        """Initialise the parameters.

        Args:
            input_size: D, at least 1.
            hidden_size: H, at least 1.
            gate_init: The gate's initial value (for `ConstGate` its value for good), in (0, 1).
            **options: As for `Cell`.
        """
        super().__init__(input_size, hidden_size, gate_init=gate_init, **options)
        self.constant_gate = None if self._gate_width() else float(gate_init)

    @abstractmethod
    def _gate_width(self) -> int:
        """Number of parameter rows that make the gate."""

    def _blocks(self, start: float) -> list[Block]:
        """The gate's rows, then the candidate's."""
        width = self._gate_width()
        return [Block(width, start)] * (width > 0) + [Block(self.hidden_size, None)]

    def step(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Take one step, as the equations say it."""
        pre = preactivation(dict(self.named_parameters()), inputs, state)
        candidate = torch.tanh(self._normalise(pre[:, -self.hidden_size :]))
        gate = torch.sigmoid(pre[:, : -self.hidden_size]) if self.constant_gate is None else self.constant_gate
        return (1 - gate) * state + gate * candidate

    def _scan(self, inputs: Tensor, initial: Tensor) -> ScalarGateTrace:
        """Run the recurrence, time-major inside."""
        first = int(self._gate_width() == 1)  # the shared gate's row stands in front of the blocks of H
        stack, none = self._drive(inputs, slice(first, None)), (inputs.new_empty((0, 0)), inputs.new_empty(0))
        history, blocks = self._room(stack, initial), stack.movedim(-3, 1)
        shared, narrow = none
        if first:
            of_inputs = torch.einsum("...btd,...d->t...b", inputs, self.weight_ih[..., 0, :])
            shared, narrow = (of_inputs + self.bias[..., :1]).contiguous(), self.weight_hh[..., 0, :]
        norm = NormRecord(self, blocks)
        recurrent = self.weight_hh[..., first:, :].unflatten(-2, (-1, self.hidden_size)).movedim(-3, 0).mT
        parts = (norm.weight, norm.bias, history, blocks, shared, norm.normalised, norm.inverse)
        compiled.run("scan_leaky", recurrent, narrow, self.constant_gate or 0.0, *parts)
        return ScalarGateTrace(
            inputs=inputs,
            history=history.movedim(0, -2),
            stack=stack.transpose(-3, -2),
            parameters=dict(self.named_parameters()),
            **norm.parts,
            constant_gate=self.constant_gate,
            shared=shared.movedim(0, -1).unsqueeze(-1) if first else None,
        )


class ConstGate(ScalarGateCell):
    """A leaky recurrence with one fixed gate value. Implements Eqs. (51) and (52)."""

    def _gate_width(self) -> int:
        """No rows: the gate is not learned."""
        return 0


class SharedGate(ScalarGateCell):
    """One learned gate for all neurons, new at every step. Implements Eqs. (49) and (50)."""

    def _gate_width(self) -> int:
        """One row."""
        return 1


class DiagGate(ScalarGateCell):
    """One learned gate a neuron, new at every step. Implements Eqs. (47) and (48)."""

    def _gate_width(self) -> int:
        """One row a neuron."""
        return self.hidden_size
