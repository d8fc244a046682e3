"""The LSTM of Section 4, Eqs. (4)–(8): a cell state that is kept, and a gated view of it that is shown.

    i, f, o = σ(W x_t + U h_{t−1} + b),  g = tanh(W_g x_t + U_g h_{t−1} + b_g),  c_t = f ⊙ c_{t−1} + i ⊙ g,  h_t = o ⊙ tanh(c_t)

The recurrent state is (h, c). With the expression factor ``e_t = o ⊙ (1 − tanh² c_t)``, E = diag(e), F = diag(f), and the ways through
which h_{t−1} acts, ``C_t`` on the cell and ``O_t`` on the output gate, the one-step Jacobian has four blocks (9)–(11):

    J_t = [[O_t + E_t C_t, E_t F_t], [C_t, F_t]],   C = diag(c_{t−1} ⊙ f') U_f + diag(g ⊙ i') U_i + diag(i ⊙ (1 − g²)) N U_g,
    O = diag(tanh(c_t) ⊙ o') U_o,   f' = f(1 − f) and so on, N the Jacobian of the candidate's layer normalisation.

The gradient travels in c and is shown in h: its rates are the diagonal of the product's top-right block, c_{t−ℓ} → h_t. Parameter rows:
i, f, g, o, the order of `torch.nn.LSTM`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from lwcore.cells.base import Block, Cell, NormRecord, Trace, norm_gradients, preactivation
from lwcore.cells.jacobian import Factors, NeuronFactors, NormFactors, StepJacobian


@dataclass(frozen=True, eq=False)
class LSTMJacobian(Factors, StepJacobian):
    """One-step Jacobians of an LSTM, state (h, c). Implements Eqs. (9)–(11).

    Attributes:
        retention: f, shape (..., H).
        expression: ``e = o ⊙ (1 − tanh² c)``, shape (..., H).
        into_cell: How pre-activations of i, f, g move c: ``g ⊙ i'``, ``c_{t−1} ⊙ f'``, ``i ⊙ (1 − g²)``, shape (..., 3, H).
        into_output: How the pre-activation of o moves h: ``tanh(c) ⊙ o'``, shape (..., H).
        norm: Layer normalisation of the candidate's pre-activation, or None.
        weight_hh: Recurrent rows, shape (4H, H).
    """

    retention: Tensor
    expression: Tensor
    into_cell: Tensor
    into_output: Tensor
    norm: NormFactors | None
    weight_hh: Tensor = field(metadata={"steps": False})

    @property
    def like(self) -> Tensor:
        """Retention and expression, side by side."""
        return torch.cat([self.expression, self.retention], dim=-1)

    def of_cell(self, rows: Tensor) -> Tensor:
        """Add up what adjoints of (h, c) say about c_t: ``λ_h ⊙ e + λ_c``, shape (..., k, H)."""
        output, cell = rows.chunk(2, dim=-1)
        return torch.addcmul(cell, output, self.expression.unsqueeze(-2))

    def lift(self, rows: Tensor) -> Tensor:
        """Carry adjoints of (h, c), (..., k, 2H), to the pre-activations, (..., k, 4H)."""
        pre = self.of_cell(rows).unsqueeze(-2) * self.into_cell.unsqueeze(-3)
        if self.norm is not None:
            pre = torch.cat([pre[..., :2, :], self.norm.pull(pre[..., 2, :]).unsqueeze(-2)], dim=-2)
        hidden = self.retention.shape[-1]
        return torch.cat([pre.flatten(-2), rows[..., :hidden] * self.into_output.unsqueeze(-2)], dim=-1)

    def push(self, tangents: Tensor) -> Tensor:
        """Carry tangents of the pre-activations, (..., k, 4H), to (h, c), (..., k, 2H): the transpose of `lift`."""
        hidden = self.retention.shape[-1]
        pre = tangents[..., : 3 * hidden].unflatten(-1, (3, hidden))
        if self.norm is not None:
            pre = torch.cat([pre[..., :2, :], self.norm.push(pre[..., 2, :]).unsqueeze(-2)], dim=-2)
        cell = (pre * self.into_cell.unsqueeze(-3)).sum(-2)
        output = cell * self.expression.unsqueeze(-2) + tangents[..., 3 * hidden :] * self.into_output.unsqueeze(-2)
        return torch.cat([output, cell], dim=-1)

    def pull(self, rows: Tensor) -> Tensor:
        """Multiply from the right, ``rows · J``.

        Args:
            rows: Row vectors, shape (..., k, 2H).

        Returns:
            The product, shape (..., k, 2H).
        """
        return torch.cat([self.lift(rows) @ self.weight_hh, self.of_cell(rows) * self.retention.unsqueeze(-2)], dim=-1)

    def apply(self, columns: Tensor) -> Tensor:
        """Multiply from the left, ``J · columns``.

        Args:
            columns: Column vectors, shape (..., 2H, k).

        Returns:
            The product, shape (..., 2H, k).
        """
        output, cell = columns.mT.chunk(2, dim=-1)
        kept = cell * self.retention.unsqueeze(-2)
        return (self.push(output @ self.weight_hh.t()) + torch.cat([kept * self.expression.unsqueeze(-2), kept], dim=-1)).mT


@dataclass(frozen=True, eq=False)
class LSTMTrace(Trace):
    """The trace of an LSTM; `states` holds h and then c.

    Attributes:
        input_gate: i, shape (B, T, H).
        forget_gate: f, shape (B, T, H).
        candidate: g, shape (B, T, H).
        output_gate: o, shape (B, T, H).
        shown: ``tanh(c_t)``, shape (B, T, H).
        norm: Layer normalisation of the candidate's pre-activation, or None.
    """

    input_gate: Tensor
    forget_gate: Tensor
    candidate: Tensor
    output_gate: Tensor
    shown: Tensor
    norm: NormFactors | None

    @cached_property
    def _jacobians(self) -> LSTMJacobian:
        """All steps; every use of the trace shares them."""
        i, f, g, o = self.input_gate, self.forget_gate, self.candidate, self.output_gate
        into_cell = torch.stack([g * i * (1 - i), self.carried(self.previous) * f * (1 - f), i * (1 - g.square())], dim=-2)
        return LSTMJacobian(
            retention=f,
            expression=o * (1 - self.shown.square()),
            into_cell=into_cell,
            into_output=self.shown * o * (1 - o),
            norm=self.norm,
            weight_hh=self.parameters["weight_hh"],
        )

    def jacobian(self, times: int | slice | Tensor) -> LSTMJacobian:
        """Give the one-step Jacobians of the chosen steps. Implements Eqs. (9)–(11).

        Args:
            times: A step, a slice or an index tensor of steps in 0..T−1.

        Returns:
            The Jacobians as operators.
        """
        return self._jacobians.at(times)

    @cached_property
    def neurons(self) -> NeuronFactors:
        """Factors of the top-right block's diagonal. Implements Eqs. (12) and (13).

        Retention f, head ``e_t``; mixing ``diag(C_j) ⊙ e_{j−1}``, and in the lead the output gate, ``diag(O_t) ⊙ e_{t−1}``.
        """
        jacobian = self._jacobians
        of_input, of_forget, own, of_output = jacobian.weight_hh.chunk(4)
        candidate = own.diagonal() if self.norm is None else self.norm.diagonal(own.diagonal(), lambda rows: rows @ own)
        through = jacobian.into_cell
        cell = through[..., 0, :] * of_input.diagonal() + through[..., 1, :] * of_forget.diagonal() + through[..., 2, :] * candidate
        before = functional.pad(jacobian.expression[:, :-1], (0, 0, 1, 0))  # e_{j−1}; that of the initial state is never asked for
        lead = jacobian.into_output * of_output.diagonal() * before
        return NeuronFactors(retention=jacobian.retention, mixing=cell * before, head=jacobian.expression, lead=lead)

    def tangent(self, direction: dict[str, Tensor]) -> Tensor:
        """Give ``B_t w``, of h and then of c.

        Args:
            direction: Tensors named and shaped like the cell's parameters.

        Returns:
            ``B_t w``, shape (B, T, 2H).
        """
        pre = preactivation(direction, self.inputs, self.previous[..., : self.hidden_size])
        moved = self._jacobians.push(pre.unsqueeze(-2)).squeeze(-2)
        if self.norm is None:
            return moved
        behind = self.norm.normalised * direction["norm_weight"] + direction["norm_bias"]
        cell = behind * self._jacobians.into_cell[..., 2, :]
        return moved + torch.cat([cell * self._jacobians.expression, cell], dim=-1)

    def cotangent(self, adjoint: Tensor, times: slice) -> dict[str, Tensor]:
        """Give ``Σ λ_tᵀ B_t``.

        Args:
            adjoint: λ, shape (B, number of steps, 2H).
            times: The steps they belong to.

        Returns:
            Tensors named and shaped like the cell's parameters.
        """
        jacobian, rows = self.jacobian(times), adjoint.unsqueeze(-2)
        pre = jacobian.lift(rows).squeeze(-2)
        raw = jacobian.of_cell(rows).squeeze(-2) * jacobian.into_cell[..., 2, :]
        return {
            "weight_ih": torch.einsum("btk,btd->kd", pre, self.inputs[:, times]),
            "weight_hh": torch.einsum("btk,bth->kh", pre, self.previous[:, times, : self.hidden_size]),
            "bias": pre.sum((0, 1)),
        } | norm_gradients(raw, jacobian.norm)

    def input_gradient(self, adjoint: Tensor) -> Tensor:
        """Give the gradient in the inputs.

        Args:
            adjoint: λ of every step, shape (B, T, 2H).

        Returns:
            Shape (B, T, D).
        """
        return self._jacobians.lift(adjoint.unsqueeze(-2)).squeeze(-2) @ self.parameters["weight_ih"]


class LSTM(Cell):
    """The long short-term memory. Implements Eqs. (4)–(8)."""

    @classmethod
    def from_torch(cls, layer: nn.LSTM) -> Self:
        """Take over the weights of one layer of PyTorch's LSTM; the two compute the same.

        Args:
            layer: One layer, one direction, without projection; whatever its `batch_first`.

        Returns:
            The cell, in the layer's dtype.
        """
        weight_ih, weight_hh, *biases = single_layer(layer)
        cell = cls(layer.input_size, layer.hidden_size, dtype=weight_hh.dtype)
        bias = biases[0] + biases[1] if biases else torch.zeros_like(cell.bias)
        cell.load_state_dict({"weight_ih": weight_ih, "weight_hh": weight_hh, "bias": bias})
        return cell

    @property
    def state_size(self) -> int:
        """Entries of h and c, S = 2H."""
        return 2 * self.hidden_size

    def _blocks(self, start: float) -> list[Block]:
        """i, f, g, o; what is let in is what is forgotten at first, and the output gate starts half open."""
        hidden = self.hidden_size
        return [Block(hidden, start), Block(hidden, 1 - start), Block(hidden, None), Block(hidden, 0.5)]

    def step(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Take one step, as the equations say it.

        Args:
            inputs: x_t, shape (n, D).
            state: ``(h_{t−1}, c_{t−1})``, shape (n, 2H).

        Returns:
            ``(h_t, c_t)``, shape (n, 2H).
        """
        hidden, cell = state.chunk(2, dim=-1)
        i, f, g, o = preactivation(dict(self.named_parameters()), inputs, hidden).chunk(4, dim=-1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(self._normalise(g))
        return torch.cat([torch.sigmoid(o) * torch.tanh(cell), cell], dim=-1)

    def _scan(self, inputs: Tensor, initial: Tensor) -> LSTMTrace:
        """Run the recurrence, time-major inside; the inputs' part of all pre-activations is one matrix product."""
        drive = functional.linear(inputs.transpose(0, 1), self.weight_ih, self.bias)
        steps, batch, _ = drive.shape
        size = self.hidden_size
        states = drive.new_empty(steps, batch, 2 * size)
        gates = torch.empty_like(drive)
        shown = drive.new_empty(steps, batch, size)
        norm = NormRecord(self, shown) if self.layernorm else None
        recurrent = self.weight_hh.t()
        hidden, cell = initial.chunk(2, dim=-1)
        for t in range(steps):
            pre = torch.addmm(drive[t], hidden, recurrent)
            torch.sigmoid(pre, out=gates[t])
            candidate = pre[:, 2 * size : 3 * size]
            torch.tanh(candidate if norm is None else norm(t, candidate), out=gates[t, :, 2 * size : 3 * size])
            i, f, g, o = gates[t].chunk(4, dim=-1)
            hidden, kept = states[t].chunk(2, dim=-1)
            cell = torch.addcmul(f * cell, i, g, out=kept)
            torch.mul(o, torch.tanh(cell, out=shown[t]), out=hidden)
        i, f, g, o = gates.transpose(0, 1).chunk(4, dim=-1)
        return LSTMTrace(
            inputs=inputs,
            initial=initial,
            states=states.transpose(0, 1),
            parameters=dict(self.named_parameters()),
            input_gate=i,
            forget_gate=f,
            candidate=g,
            output_gate=o,
            shown=shown.transpose(0, 1),
            norm=None if norm is None else norm.factors(),
        )


def single_layer(layer: nn.RNNBase) -> list[nn.Parameter]:
    """Take the weights of a layer that is one recurrence.

    Args:
        layer: A recurrent layer of PyTorch.

    Returns:
        Input weights, recurrent weights and, where it has them, the two biases.

    Raises:
        ValueError: If it has several layers, two directions, or a projection.
    """
    if layer.num_layers != 1 or layer.bidirectional or layer.proj_size:
        found = f"num_layers={layer.num_layers}, bidirectional={layer.bidirectional}, proj_size={layer.proj_size}"
        raise ValueError(f"layer has {found}: must have one layer, one direction and no projection.")
    return layer.all_weights[0]
