"""The three scalar-gate cells of Appendix B: one update, three ways to make the gate.

All three move the state a fraction ``s_t`` of the way to a candidate, ``h_t = (1 − s_t) ⊙ h_{t−1} + s_t ⊙ h̃_t`` with
``h̃_t = tanh(W x_t + U h_{t−1} + b)``. `DiagGate` has one gate a neuron (Eq. 47), `SharedGate` one gate for all (Eq. 49), `ConstGate` a
fixed number (Eq. 51). Their one-step Jacobians (48), (50), (52) are one formula, a retention plus the branches through which h_{t−1} acts:

    J_t = diag(1 − s_t) + diag((h̃_t − h_{t−1}) ⊙ s_t(1 − s_t)) U_s + diag(s_t ⊙ (1 − h̃_t²)) U,

where the shared gate's ``U_s`` repeats its row ``u_sᵀ`` for every neuron and the constant gate has no such branch.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lwcore.arguments import real_in
from lwcore.cells.base import Cell, StepJacobian, Trace


def _scan(drive: Tensor, weight_hh: Tensor, initial: Tensor, constant_gate: float | None) -> tuple[Tensor, Tensor, Tensor | float]:
    """Run the recurrence over time-major drives, the input's part of all pre-activations.

    Args:
        drive: ``W x_t + b`` with the gate's rows first, shape (T, B, K), K = gate width + H.
        weight_hh: The recurrent rows in the same order, shape (K, H).
        initial: h_{−1}, shape (B, H).
        constant_gate: The gate's value where it is not computed.

    Returns:
        States with the initial one in front (T+1, B, H), candidates (T, B, H), and gates (T, B, gate width) or the constant gate's number.
    """
    steps, batch, rows = drive.shape
    hidden = initial.shape[1]
    width = rows - hidden
    states = drive.new_empty(steps + 1, batch, hidden)
    candidates = drive.new_empty(steps, batch, hidden)
    gates = drive.new_empty(steps, batch, width) if constant_gate is None else constant_gate
    states[0] = initial
    recurrent = weight_hh.t()
    for t in range(steps):
        pre = torch.addmm(drive[t], states[t], recurrent)
        torch.tanh(pre[:, width:], out=candidates[t])
        if isinstance(gates, Tensor):
            torch.sigmoid(pre[:, :width], out=gates[t])
            torch.lerp(states[t], candidates[t], gates[t], out=states[t + 1])
        else:
            torch.lerp(states[t], candidates[t], gates, out=states[t + 1])
    return states, candidates, gates


def _factors(previous: Tensor, candidate: Tensor, gate: Tensor | float) -> tuple[Tensor, Tensor]:
    """Give the diagonals of the one-step Jacobian for all steps at once.

    Args:
        previous: h_{t−1}, shape (..., H).
        candidate: h̃_t, shape (..., H).
        gate: s_t, shape (..., H) or (..., 1), or the constant gate's number.

    Returns:
        The retention (..., H), and the gains of the branches (..., G, H), the gate's first.
    """
    through_candidate = gate * (1 - candidate.square())
    if not isinstance(gate, Tensor):
        return torch.full_like(candidate, 1 - gate), through_candidate.unsqueeze(-2)
    through_gate = (candidate - previous) * (gate * (1 - gate))
    return (1 - gate).expand_as(candidate), torch.stack([through_gate, through_candidate], dim=-2)


def _branches(weight_hh: Tensor) -> Tensor:
    """Arrange the recurrent rows as one H×H matrix a branch, repeating the shared gate's single row.

    Args:
        weight_hh: Shape (gate width + H, H).

    Returns:
        Shape (G, H, H).
    """
    hidden = weight_hh.shape[1]
    gate_rows = weight_hh[:-hidden]
    candidate_rows = weight_hh[-hidden:]
    if len(gate_rows) == 0:
        return candidate_rows.unsqueeze(0).clone()  # a trace keeps the weights it was made with, also while training goes on
    return torch.stack([gate_rows.expand(hidden, hidden), candidate_rows])


def _gather_rows(branches: Tensor, width: int) -> Tensor:
    """Bring derivatives by branch (..., G, H) into the order of the parameter rows (..., gate width + H); a shared gate's neurons add up.

    Args:
        branches: Shape (..., G, H).
        width: The gate's number of rows: H, 1 or 0.

    Returns:
        Shape (..., gate width + H).
    """
    if width != 1:
        return branches.flatten(-2)
    return torch.cat([branches[..., 0, :].sum(-1, keepdim=True), branches[..., 1, :]], dim=-1)


class _ScalarGateScan(torch.autograd.Function):
    """The scan as a differentiable function whose backward pass is the recursion of Eq. (3): ``λ_{t−1} = δ_{t−1} + λ_t J_t``."""

    @staticmethod
    def forward(ctx: Any, drive: Tensor, weight_hh: Tensor, initial: Tensor, constant_gate: float | None) -> Tensor:
        states, candidates, gates = _scan(drive, weight_hh, initial, constant_gate)
        ctx.save_for_backward(states, candidates, weight_hh, *([gates] if constant_gate is None else []))
        ctx.constant_gate = constant_gate
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        states, candidates, weight_hh, *computed = ctx.saved_tensors
        retention, gains = _factors(states[:-1], candidates, computed[0] if computed else ctx.constant_gate)
        recurrent = _branches(weight_hh).flatten(0, 1)
        adjoint = torch.zeros_like(states[0])
        by_branch = torch.empty_like(gains)
        for t in reversed(range(len(gains))):
            adjoint = adjoint + loss_gradients[t]
            torch.mul(adjoint.unsqueeze(-2), gains[t], out=by_branch[t])
            adjoint = torch.addcmul(by_branch[t].flatten(-2) @ recurrent, adjoint, retention[t])
        by_row = _gather_rows(by_branch, len(weight_hh) - states.shape[-1])
        return by_row, torch.einsum("tbk,tbh->kh", by_row, states[:-1]), adjoint, None


@dataclass(frozen=True, eq=False)
class ScalarGateTrace(Trace):
    """The trace of a scalar-gate cell.

    Attributes:
        gate: s, shape (B, T, H), (B, T, 1) for the shared gate, or the constant gate's number.
        candidate: h̃, shape (B, T, H).
        recurrent: U_g of the branches, gate first, shape (G, H, H).
        gate_width: The gate's number of parameter rows: H, 1 or 0.
    """

    gate: Tensor | float
    candidate: Tensor
    recurrent: Tensor
    gate_width: int
    _retention: Tensor = field(init=False, repr=False)
    _gains: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compute the diagonals once; every use of the trace shares them."""
        retention, gains = _factors(self.previous, self.candidate, self.gate)
        object.__setattr__(self, "_retention", retention)
        object.__setattr__(self, "_gains", gains)

    @property
    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each named parameter of the cell."""
        hidden = self.states.shape[-1]
        rows = self.gate_width + hidden
        return {"weight_ih": (rows, self.inputs.shape[-1]), "weight_hh": (rows, hidden), "bias": (rows,)}

    def jacobian(self, times: int | slice | Tensor) -> StepJacobian:
        """Give the one-step Jacobians of the chosen steps. Implements Eqs. (48), (50) and (52).

        Args:
            times: A step, a slice or an index tensor of steps in 0..T−1.

        Returns:
            The Jacobians as operators.
        """
        return StepJacobian(self._retention[:, times], self._gains[:, times], self.recurrent)

    def tangent(self, direction: dict[str, Tensor]) -> Tensor:
        """Give ``B_t w``: each branch's gain times the change of its pre-activation.

        Args:
            direction: Tensors named and shaped like the cell's parameters.

        Returns:
            ``B_t w``, shape (B, T, H).
        """
        by_row = self.inputs @ direction["weight_ih"].t() + self.previous @ direction["weight_hh"].t() + direction["bias"]
        hidden = self.states.shape[-1]
        by_branch = [by_row[..., -hidden:]]
        if self.gate_width:
            by_branch.insert(0, by_row[..., :-hidden].expand_as(self.states))
        return (self._gains * torch.stack(by_branch, dim=-2)).sum(-2)

    def cotangent(self, adjoint: Tensor, times: slice) -> dict[str, Tensor]:
        """Give ``Σ λ_tᵀ B_t``, the parameter gradient that the adjoints of the chosen steps carry.

        Args:
            adjoint: λ, shape (B, number of steps, H).
            times: The steps they belong to.

        Returns:
            Tensors named and shaped like the cell's parameters.
        """
        by_row = _gather_rows(adjoint.unsqueeze(-2) * self._gains[:, times], self.gate_width)
        return {
            "weight_ih": torch.einsum("btk,btd->kd", by_row, self.inputs[:, times]),
            "weight_hh": torch.einsum("btk,bth->kh", by_row, self.previous[:, times]),
            "bias": by_row.sum((0, 1)),
        }


class ScalarGateCell(Cell):
    """The common update of the three cells; the subclasses say how wide the gate is.

    Attributes:
        weight_ih: Input weights, the gate's rows ``W_s`` first, then the candidate's ``W``; shape (gate width + H, D).
        weight_hh: Recurrent weights, ``U_s`` then ``U``; shape (gate width + H, H).
        bias: ``b_s`` then ``b``; shape (gate width + H,).
        constant_gate: The gate's value where it is a fixed number, else None.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        gate_init: float = 0.5,
        gate_spread: float = 0.1,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Initialise the parameters.

        The candidate starts with an orthogonal U and Gaussian W of variance 1/D. The gate's weights start likewise, scaled by
        `gate_spread`, and its bias at logit(gate_init), so that its values start close to `gate_init`.

        Args:
            input_size: D, at least 1.
            hidden_size: H, at least 1.
            gate_init: The gate's initial value (for `ConstGate` its value for good), in (0, 1).
            gate_spread: Scale of the gate's initial weights relative to the candidate's, at least 0.
            generator: Source of the initial weights; torch's default one if None.
            dtype: Floating type of the parameters.
        """
        super().__init__(input_size, hidden_size)
        start = real_in("gate_init", gate_init, "(0, 1)")
        spread = real_in("gate_spread", gate_spread, "[0, inf)")
        width = self._gate_width()
        self.constant_gate = None if width else start
        hidden = self.hidden_size
        weight_ih = torch.randn(width + hidden, self.input_size, generator=generator, dtype=torch.float64) / math.sqrt(self.input_size)
        blocks = [torch.empty(rows, hidden, dtype=torch.float64) for rows in (width, hidden) if rows]
        for block in blocks:
            nn.init.orthogonal_(block, generator=generator)
        weight_hh = torch.cat(blocks)
        bias = torch.zeros(width + hidden, dtype=torch.float64)
        weight_ih[:width] *= spread
        weight_hh[:width] *= spread
        bias[:width] = math.log(start / (1 - start))
        self.weight_ih = nn.Parameter(weight_ih.to(dtype))
        self.weight_hh = nn.Parameter(weight_hh.to(dtype))
        self.bias = nn.Parameter(bias.to(dtype))

    @abstractmethod
    def _gate_width(self) -> int:
        """Number of parameter rows that make the gate."""

    def _drive(self, inputs: Tensor) -> Tensor:
        """The input's part of all pre-activations, one matrix product for all steps, time-major (T, B, K)."""
        return torch.nn.functional.linear(inputs.transpose(0, 1), self.weight_ih, self.bias)

    def forward(self, inputs: Tensor, state: Tensor | None = None) -> Tensor:
        """Scan the sequences; differentiable once, by the hand-written backward pass.

        Args:
            inputs: x, shape (B, T, D).
            state: The initial state, shape (B, H); zero if None.

        Returns:
            h, shape (B, T, H).
        """
        inputs, initial = self.checked_inputs(inputs, state)
        return _ScalarGateScan.apply(self._drive(inputs), self.weight_hh, initial, self.constant_gate).transpose(0, 1)

    @torch.no_grad()
    def trace(self, inputs: Tensor, state: Tensor | None = None) -> ScalarGateTrace:
        """Scan the sequences and keep gates, candidates and states.

        Args:
            inputs: x, shape (B, T, D).
            state: The initial state, shape (B, H); zero if None.

        Returns:
            The trace, without autograd graph.
        """
        inputs, initial = self.checked_inputs(inputs, state)
        states, candidates, gates = _scan(self._drive(inputs), self.weight_hh, initial, self.constant_gate)
        return ScalarGateTrace(
            inputs=inputs,
            initial=initial,
            states=states[1:].transpose(0, 1),
            gate=gates.transpose(0, 1) if isinstance(gates, Tensor) else gates,
            candidate=candidates.transpose(0, 1),
            recurrent=_branches(self.weight_hh.detach()),
            gate_width=self._gate_width(),
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
