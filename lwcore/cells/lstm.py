"""The LSTM of Section 4, Eqs. (4)–(8): a cell state that is kept, and a gated view of it that is shown.

One step reads::

    i, f, o = σ(W x_t + U h_{t−1} + b),  g = tanh(W_g x_t + U_g h_{t−1} + b_g),  c_t = f ⊙ c_{t−1} + i ⊙ g,  h_t = o ⊙ tanh(c_t)

The recurrent state is (h, c). With the expression factor ``e_t = o ⊙ (1 − tanh² c_t)``, E = diag(e), F = diag(f), and the ways through
which h_{t−1} acts, ``C_t`` on the cell and ``O_t`` on the output gate, the one-step Jacobian has four blocks, Eqs. (9)–(11)::

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

from lwcore.cells import compiled
from lwcore.cells.base import Block, Cell, NormRecord, preactivation
from lwcore.cells.jacobian import Adjoints, Condensed, FactoredJacobian, NeuronFactors, NormFactors
from lwcore.cells.trace import Trace


@dataclass(frozen=True, eq=False)
class LSTMJacobian(FactoredJacobian):
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

    def condensed(self) -> CondensedLSTMJacobian:
        """Form the two mixing matrices: a product costs two matrix products then, not four. Implements Eqs. (9) and (10), with N."""
        of_input, of_forget, own, of_output = self.weight_hh.chunk(4)
        if self.norm is not None:
            own = self.norm.push(own.t()).mT
        through_input, through_forget, through_own = self.into_cell.unsqueeze(-1).unbind(-3)
        of_cell = torch.addcmul(through_input * of_input, through_forget, of_forget).addcmul_(through_own, own)
        return CondensedLSTMJacobian(self.retention, self.expression, of_cell, self.into_output.unsqueeze(-1) * of_output)

    def dense(self) -> Tensor:
        """Form the matrix, block by block."""
        formed, expression, carried = self.condensed(), self.expression.unsqueeze(-1), torch.diag_embed(self.retention)
        shown = torch.cat([formed.into_output + expression * formed.into_cell, expression * carried], dim=-1)
        return torch.cat([shown, torch.cat([formed.into_cell, carried], dim=-1)], dim=-2)

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
        """Multiply from the right, ``rows · J``."""
        return torch.cat([self.lift(rows) @ self.weight_hh, self.of_cell(rows) * self.retention.unsqueeze(-2)], dim=-1)

    def apply(self, columns: Tensor) -> Tensor:
        """Multiply from the left, ``J · columns``."""
        output, cell = columns.mT.chunk(2, dim=-1)
        kept = cell * self.retention.unsqueeze(-2)
        return (self.push(output @ self.weight_hh.t()) + torch.cat([kept * self.expression.unsqueeze(-2), kept], dim=-1)).mT


@dataclass(frozen=True, eq=False)
class CondensedLSTMJacobian(Condensed):
    """The same with its two mixing matrices formed: ``[[O + E C, E F], [C, F]]``.

    Attributes:
        retention: f, shape (..., H).
        expression: e, shape (..., H).
        into_cell: C, shape (..., H, H).
        into_output: O, shape (..., H, H).
    """

    retention: Tensor
    expression: Tensor
    into_cell: Tensor
    into_output: Tensor

    def pull(self, rows: Tensor) -> Tensor:
        """Multiply from the right, ``rows · J``."""
        output, cell = rows.chunk(2, dim=-1)
        of_cell = torch.addcmul(cell, output, self.expression.unsqueeze(-2))
        through = torch.baddbmm(output @ self.into_output, of_cell, self.into_cell)
        return torch.cat([through, of_cell * self.retention.unsqueeze(-2)], dim=-1)


@dataclass(frozen=True, eq=False)
class LSTMTrace(Trace):
    """The trace of an LSTM; a state is h and then c.

    Attributes:
        cells: c, the initial one in front, shape (B, T+1, H).
    """

    cells: Tensor

    @property
    def last_rest(self) -> Tensor:
        """The last cell state, shape (B, H)."""
        return self.cells[..., -1, :]

    @cached_property
    def shown(self) -> Tensor:
        """The cell as it is shown, ``tanh(c_t)``, shape (B, T, H)."""
        return torch.tanh(self.cells[:, 1:])

    @cached_property
    def states(self) -> Tensor:
        """The recurrent state (h, c), shape (B, T, 2H)."""
        return torch.cat([self.history[:, 1:], self.cells[:, 1:]], dim=-1)

    @cached_property
    def previous(self) -> Tensor:
        """The state each step starts from, shape (B, T, 2H)."""
        return torch.cat([self.history[:, :-1], self.cells[:, :-1]], dim=-1)

    @property
    def input_gate(self) -> Tensor:
        """The input gate i, shape (B, T, H)."""
        return self.stack[0]

    @property
    def forget_gate(self) -> Tensor:
        """The forget gate f, shape (B, T, H)."""
        return self.stack[1]

    @property
    def candidate(self) -> Tensor:
        """The candidate g, shape (B, T, H)."""
        return self.stack[2]

    @property
    def output_gate(self) -> Tensor:
        """The output gate o, shape (B, T, H)."""
        return self.stack[3]

    @cached_property
    def jacobians(self) -> LSTMJacobian:
        """All one-step Jacobians. Implements Eqs. (9)–(11)."""
        i, f, g, o = self.stack
        shown = self.shown
        into_cell = torch.stack([g * i * (1 - i), self.cells[:, :-1] * f * (1 - f), i * (1 - g.square())], dim=-2)
        return LSTMJacobian(
            retention=f,
            expression=o * (1 - shown.square()),
            into_cell=into_cell,
            into_output=shown * o * (1 - o),
            norm=self.norm,
            weight_hh=self.parameters["weight_hh"],
        )

    @cached_property
    def neurons(self) -> NeuronFactors:
        """Factors of the top-right block's diagonal. Implements Eqs. (12) and (13).

        Retention f, head ``e_t``; mixing ``diag(C_j) ⊙ e_{j−1}``, and in the lead the output gate, ``diag(O_t) ⊙ e_{t−1}``.
        """
        jacobian = self.jacobians
        of_input, of_forget, own, of_output = jacobian.weight_hh.chunk(4)
        candidate = own.diagonal() if self.norm is None else self.norm.diagonal(own.diagonal(), lambda rows: rows @ own)
        through = jacobian.into_cell
        cell = through[..., 0, :] * of_input.diagonal() + through[..., 1, :] * of_forget.diagonal() + through[..., 2, :] * candidate
        before = functional.pad(jacobian.expression[:, :-1], (0, 0, 1, 0))  # e_{j−1}; that of the initial state is never asked for
        lead = jacobian.into_output * of_output.diagonal() * before
        return NeuronFactors(retention=jacobian.retention, mixing=cell * before, head=jacobian.expression, lead=lead)

    def tangent(self, direction: dict[str, Tensor]) -> Tensor:
        """Give ``B_t w``, of h and then of c: shape (B, T, 2H)."""
        pre = self._preactivations(direction)
        moved = self.jacobians.push(pre.unsqueeze(-2)).squeeze(-2)
        if self.norm is None:
            return moved
        behind = self.norm.normalised * direction["norm_weight"] + direction["norm_bias"]
        cell = behind * self.jacobians.into_cell[..., 2, :]
        return moved + torch.cat([cell * self.jacobians.expression, cell], dim=-1)

    def _lift(self, adjoint: Tensor, times: slice) -> tuple[Tensor, Tensor | None]:
        jacobian, rows = self.jacobians.at(times), adjoint.unsqueeze(-2)
        raw = None if self.norm is None else jacobian.of_cell(rows).squeeze(-2) * jacobian.into_cell[..., 2, :]
        return jacobian.lift(rows).squeeze(-2), raw

    def backward(self, loss_gradients: Tensor, of_rest: Tensor) -> Adjoints:
        """Run the backward recursion: see `Trace.backward`."""
        blocks, pre, (norm_weight, *norm, raw) = self._loop_parts()
        weight = self.parameters["weight_hh"].unflatten(-2, (4, self.hidden_size)).movedim(-3, 0)
        of_cell = of_rest.clone(memory_format=torch.contiguous_format)
        delta, cells = loss_gradients.movedim(-2, 0), self.cells.movedim(-2, 0)
        of_hidden = compiled.run("backward_lstm", delta, weight, norm_weight, cells, blocks, *norm, pre, raw, of_cell)
        return self._adjoints(pre, raw, of_hidden, of_cell)


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
        weight_ih, weight_hh, *biases = single_layer(layer, nn.LSTM)
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
        """Take one step, as the equations say it."""
        hidden, cell = state.chunk(2, dim=-1)
        i, f, g, o = preactivation(dict(self.named_parameters()), inputs, hidden).chunk(4, dim=-1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(self._normalise(g))
        return torch.cat([torch.sigmoid(o) * torch.tanh(cell), cell], dim=-1)

    def _scan(self, inputs: Tensor, initial: Tensor) -> LSTMTrace:
        """Run the recurrence, time-major inside."""
        stack = self._drive(inputs, slice(None))
        blocks, (history, cells) = stack.movedim(-3, 1), (self._room(stack, part) for part in initial.chunk(2, dim=-1))
        norm = NormRecord(self, blocks)
        recurrent = self.weight_hh.unflatten(-2, (4, self.hidden_size)).movedim(-3, 0).mT
        compiled.run("scan_lstm", recurrent, norm.weight, norm.bias, history, cells, blocks, norm.normalised, norm.inverse)
        return LSTMTrace(
            inputs=inputs,
            history=history.movedim(0, -2),
            stack=stack.transpose(-3, -2),
            parameters=dict(self.named_parameters()),
            **norm.parts,
            cells=cells.movedim(0, -2),
        )


def single_layer(layer: nn.RNNBase, kind: type[nn.RNNBase]) -> list[nn.Parameter]:
    """Take the weights of a layer that is one recurrence.

    Args:
        layer: A recurrent layer of PyTorch.
        kind: What kind it must be.

    Returns:
        Input weights, recurrent weights and, where it has them, the two biases.

    Raises:
        TypeError: If it is of another kind.
        ValueError: If it has several layers, two directions, or a projection.
    """
    if not isinstance(layer, kind):
        raise TypeError(f"layer is a {type(layer).__name__}: must be a torch.nn.{kind.__name__}.")
    if layer.num_layers != 1 or layer.bidirectional or layer.proj_size:
        found = f"num_layers={layer.num_layers}, bidirectional={layer.bidirectional}, proj_size={layer.proj_size}"
        raise ValueError(f"layer has {found}: must have one layer, one direction and no projection.")
    return layer.all_weights[0]
