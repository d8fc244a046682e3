"""The GRU of Section 4, Eqs. (15)–(18): a leaky state whose candidate sees the past through a reset gate.

One step reads::

    z, r = σ(W x_t + U h_{t−1} + b),  g = tanh(W_g x_t + U_g (r ⊙ h_{t−1}) + b_g),  h_t = (1 − z) ⊙ h_{t−1} + z ⊙ g

Its one-step Jacobian, Eqs. (19)–(22), with z' = z(1 − z), r' = r(1 − r) and N the Jacobian of the candidate's layer normalisation::

    J_t = diag(1 − z) + diag((g − h_{t−1}) ⊙ z') U_z + diag(z ⊙ (1 − g²)) N U_g (diag(r) + diag(h_{t−1} ⊙ r') U_r)

`torch.nn.GRU` resets after the matrix product, ``g = tanh(W_g x + b_g + r ⊙ (U_g h_{t−1} + b_h))``: ``reset="after"`` is that cell, with::

    J_t = diag(1 − z) + diag((g − h_{t−1}) ⊙ z') U_z + diag(z ⊙ (1 − g²)) N (diag(r) U_g + diag((U_g h_{t−1} + b_h) ⊙ r') U_r).

Parameter rows: r, z, g, the order of `torch.nn.GRU`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor, nn

from lwcore.arguments import one_of
from lwcore.cells import compiled
from lwcore.cells.base import Block, Cell, NormRecord, preactivation, uniform
from lwcore.cells.jacobian import Adjoints, FactoredJacobian, NeuronFactors, NormFactors
from lwcore.cells.lstm import single_layer
from lwcore.cells.trace import Trace, outer

RESETS = ("before", "after")


@dataclass(frozen=True, eq=False)
class GRUJacobian(FactoredJacobian):
    """One-step Jacobians of a GRU. Implements Eqs. (19)–(22).

    Attributes:
        retention: ``1 − z``, shape (..., H).
        reset: r, shape (..., H).
        through_reset: How the pre-activation of r moves what is reset: r' times ``h_{t−1}``, or times ``U_g h_{t−1} + b_h`` where the
            reset comes after; shape (..., H).
        through_update: ``(g − h_{t−1}) ⊙ z'``, shape (..., H).
        through_candidate: ``z ⊙ (1 − g²)``, shape (..., H).
        norm: Layer normalisation of the candidate's pre-activation, or None.
        weight_hh: Recurrent rows, shape (3H, H).
        after: Whether the reset comes after the matrix product.
    """

    retention: Tensor
    reset: Tensor
    through_reset: Tensor
    through_update: Tensor
    through_candidate: Tensor
    norm: NormFactors | None
    weight_hh: Tensor = field(metadata={"steps": False})
    after: bool = field(metadata={"steps": False})

    @property
    def like(self) -> Tensor:
        """The retention."""
        return self.retention

    def _to_candidate(self, rows: Tensor) -> Tensor:
        """Carry adjoints of h_t to the candidate's pre-activation, (..., k, H)."""
        candidate = rows * self.through_candidate.unsqueeze(-2)
        return candidate if self.norm is None else self.norm.pull(candidate)

    def _to_reset_product(self, candidate: Tensor) -> Tensor:
        """Carry adjoints of the candidate's pre-activation to what the reset gate multiplies it with."""
        # Contiguous, for where scans have left the axes in another order matmul takes one product a row.
        return candidate if self.after else candidate.contiguous() @ self.weight_hh[2 * self.retention.shape[-1] :]

    def lift(self, rows: Tensor) -> Tensor:
        """Carry adjoints of h_t, (..., k, H), to the pre-activations of r, z and g, (..., k, 3H)."""
        candidate = self._to_candidate(rows)
        reset = self._to_reset_product(candidate) * self.through_reset.unsqueeze(-2)
        return torch.cat([reset, rows * self.through_update.unsqueeze(-2), candidate], dim=-1)

    def push(self, tangents: Tensor) -> Tensor:
        """Carry tangents of the pre-activations, (..., k, 3H), to h_t, (..., k, H): the transpose of `lift`."""
        reset, update, candidate = tangents.chunk(3, dim=-1)
        moved = reset * self.through_reset.unsqueeze(-2)
        candidate = candidate + (moved if self.after else moved @ self.weight_hh[2 * self.retention.shape[-1] :].t())
        if self.norm is not None:
            candidate = self.norm.push(candidate)
        return candidate * self.through_candidate.unsqueeze(-2) + update * self.through_update.unsqueeze(-2)

    def dense(self) -> Tensor:
        """Form the matrix, term by term."""
        of_reset, of_update, own = self.weight_hh.chunk(3)
        if self.after:
            candidate = torch.addcmul(self.reset.unsqueeze(-1) * own, self.through_reset.unsqueeze(-1), of_reset)
        else:
            candidate = own * self.reset.unsqueeze(-2) + (own * self.through_reset.unsqueeze(-2)) @ of_reset
        if self.norm is not None:
            candidate = self.norm.push(candidate.mT).mT
        matrix = torch.addcmul(self.through_update.unsqueeze(-1) * of_update, self.through_candidate.unsqueeze(-1), candidate)
        matrix.diagonal(dim1=-2, dim2=-1).add_(self.retention)
        return matrix

    def pull(self, rows: Tensor) -> Tensor:
        """Multiply from the right, ``rows · J``."""
        hidden, reset = self.retention.shape[-1], self.reset.unsqueeze(-2)
        candidate = self._to_candidate(rows)
        product = self._to_reset_product(candidate)
        gates = torch.cat([product * self.through_reset.unsqueeze(-2), rows * self.through_update.unsqueeze(-2)], dim=-1)
        kept = rows * self.retention.unsqueeze(-2)
        if self.after:
            return kept + torch.cat([gates, candidate * reset], dim=-1) @ self.weight_hh
        return torch.addcmul(kept, product, reset) + gates @ self.weight_hh[: 2 * hidden]

    def apply(self, columns: Tensor) -> Tensor:
        """Multiply from the left, ``J · columns``."""
        rows, hidden, reset = columns.mT, self.retention.shape[-1], self.reset.unsqueeze(-2)
        gates, own = self.weight_hh[: 2 * hidden].t(), self.weight_hh[2 * hidden :].t()
        candidate = (rows @ own) * reset if self.after else (rows * reset) @ own
        moved = self.push(torch.cat([rows @ gates, candidate], dim=-1))
        return torch.addcmul(moved, rows, self.retention.unsqueeze(-2)).mT


@dataclass(frozen=True, eq=False)
class GRUTrace(Trace):
    """The trace of a GRU.

    Attributes:
        reset_product: What the reset gate multiplies: ``h_{t−1}``, or ``U_g h_{t−1} + b_h`` where the reset comes after; shape (B, T, H).
    """

    reset_product: Tensor

    @property
    def reset_gate(self) -> Tensor:
        """The reset gate r, shape (B, T, H)."""
        return self.stack[0]

    @property
    def update_gate(self) -> Tensor:
        """The update gate z, shape (B, T, H)."""
        return self.stack[1]

    @property
    def candidate(self) -> Tensor:
        """The candidate g, shape (B, T, H)."""
        return self.stack[2]

    @property
    def _after(self) -> bool:
        """Whether the reset comes after the matrix product."""
        return "bias_hh" in self.parameters

    @cached_property
    def jacobians(self) -> GRUJacobian:
        """All one-step Jacobians. Implements Eqs. (19)–(22)."""
        r, z, g = self.reset_gate, self.update_gate, self.candidate
        return GRUJacobian(
            retention=1 - z,
            reset=r,
            through_reset=self.reset_product * r * (1 - r),
            through_update=(g - self.previous) * z * (1 - z),
            through_candidate=z * (1 - g.square()),
            norm=self.norm,
            weight_hh=self.parameters["weight_hh"],
            after=self._after,
        )

    @cached_property
    def neurons(self) -> NeuronFactors:
        """Retention ``1 − z`` and ``diag(R)``. Implements Eqs. (23) and (24).

        The reset gate's part of the diagonal, ``diag(U_g diag(h_{t−1} r') U_r)_q = Σ_k U_g[q,k] h_{t−1}[k] r'[k] U_r[k,q]``, is a sum
        over neurons, not the product of two diagonals.
        """
        jacobian = self.jacobians
        of_reset, of_update, own = jacobian.weight_hh.chunk(3)
        if self._after:

            def pull(rows: Tensor) -> Tensor:
                return (rows * jacobian.reset) @ own + (rows * jacobian.through_reset) @ of_reset

            candidate = jacobian.reset * own.diagonal() + jacobian.through_reset * of_reset.diagonal()
        else:

            def pull(rows: Tensor) -> Tensor:
                product = rows @ own
                return product * jacobian.reset + (product * jacobian.through_reset) @ of_reset

            candidate = jacobian.reset * own.diagonal() + jacobian.through_reset @ (own * of_reset.t()).t()
        if self.norm is not None:
            candidate = self.norm.diagonal(candidate, pull)
        mixing = jacobian.through_update * of_update.diagonal() + jacobian.through_candidate * candidate
        return NeuronFactors(jacobian.retention, mixing)

    def tangent(self, direction: dict[str, Tensor]) -> Tensor:
        """Give ``B_t w``."""
        jacobian, gates, own = self.jacobians, slice(0, 2 * self.hidden_size), slice(2 * self.hidden_size, None)
        if self._after:
            recurrent = self.reset_gate * (self.previous @ direction["weight_hh"][own].t() + direction["bias_hh"])
            candidate = self.inputs @ direction["weight_ih"][own].t() + direction["bias"][own] + recurrent
        else:
            candidate = preactivation(direction, self.inputs, self.reset_gate * self.previous, own)
        pre = torch.cat([self._preactivations(direction, gates), candidate], dim=-1)
        moved = jacobian.push(pre.unsqueeze(-2)).squeeze(-2)
        if self.norm is None:
            return moved
        behind = self.norm.normalised * direction["norm_weight"] + direction["norm_bias"]
        return torch.addcmul(moved, behind, jacobian.through_candidate)

    def _lift(self, adjoint: Tensor, times: slice) -> tuple[Tensor, Tensor | None]:
        jacobian = self.jacobians.at(times)
        raw = None if self.norm is None else adjoint * jacobian.through_candidate
        return jacobian.lift(adjoint.unsqueeze(-2)).squeeze(-2), raw

    def _recurrent_gradient(self, pre: tuple[Tensor, ...], times: slice) -> dict[str, Tensor]:
        previous, reset = self.history[..., :-1, :][..., times, :], self.reset_gate[..., times, :]
        if not self._after:
            return {"weight_hh": torch.cat([outer(pre[:2], previous), outer(pre[2:], previous * reset)], dim=-2)}
        behind_reset = pre[2] * reset
        return {"weight_hh": outer((*pre[:2], behind_reset), previous), "bias_hh": behind_reset.sum((-3, -2))}

    def backward(self, loss_gradients: Tensor, of_rest: Tensor) -> Adjoints:
        """Run the backward recursion: see `Trace.backward`."""
        blocks, pre, (norm_weight, *norm, raw) = self._loop_parts()
        weight = self.parameters["weight_hh"].unflatten(-2, (3, self.hidden_size)).movedim(-3, 0)
        products = self.reset_product.movedim(-2, 0) if self._after else self.history.new_empty((0, 0, 0))
        delta, history = loss_gradients.movedim(-2, 0), self.history.movedim(-2, 0)
        return self._adjoints(
            pre, raw, compiled.run("backward_gru", delta, weight, norm_weight, history, blocks, products, *norm, pre, raw)
        )


class GRU(Cell):
    """The gated recurrent unit. Implements Eqs. (15)–(18).

    Attributes:
        reset: ``"before"`` the matrix product, as in the paper, or ``"after"``, as in PyTorch.
        bias_hh: Where the reset comes after, the candidate's bias that is reset, b_h; shape (H,).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        reset: str = "before",
        init: str = "orthogonal",
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> None:
        """Initialise the parameters; the reset gate starts at 1/2.

        Args:
            input_size: D, at least 1.
            hidden_size: H, at least 1.
            reset: ``"before"`` or ``"after"``.
            init: As for `Cell`.
            generator: As for `Cell`.
            **options: As for `Cell`.
        """
        self.reset = one_of("reset", reset, RESETS)
        super().__init__(input_size, hidden_size, init=init, generator=generator, **options)
        if self.reset == "after":
            self.bias_hh = nn.Parameter(torch.zeros_like(self.bias[:hidden_size]))
            if init == "uniform":  # the candidate's two biases do not add up to one
                for bias in (self.bias.data[2 * hidden_size :], self.bias_hh.data):
                    bias.copy_(uniform((hidden_size,), hidden_size, generator))

    @classmethod
    def from_torch(cls, layer: nn.GRU) -> Self:
        """Take over the weights of one layer of PyTorch's GRU; the two compute the same, with the reset after the product.

        PyTorch's update gate is what is kept, ours what is replaced: its weights change sign, for ``1 − σ(a) = σ(−a)``.

        Args:
            layer: One layer, one direction; whatever its `batch_first`.

        Returns:
            The cell, in the layer's dtype.
        """
        weight_ih, weight_hh, *biases = single_layer(layer, nn.GRU)
        hidden = layer.hidden_size
        cell = cls(layer.input_size, hidden, reset="after", dtype=weight_hh.dtype)
        of_input, of_state = biases or [nn.Parameter(torch.zeros_like(cell.bias))] * 2
        bias = torch.cat([of_input[: 2 * hidden] + of_state[: 2 * hidden], of_input[2 * hidden :]])
        flip = torch.ones_like(bias)
        flip[hidden : 2 * hidden] = -1
        rows = {"weight_ih": flip[:, None] * weight_ih, "weight_hh": flip[:, None] * weight_hh, "bias": flip * bias}
        cell.load_state_dict(rows | {"bias_hh": of_state[2 * hidden :]})
        return cell

    def _blocks(self, start: float) -> list[Block]:
        """r, z, g."""
        return [Block(self.hidden_size, 0.5), Block(self.hidden_size, start), Block(self.hidden_size, None)]

    def step(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Take one step, as the equations say it."""
        drive = inputs @ self.weight_ih.t() + self.bias
        gates = 2 * self.hidden_size
        reset, update = torch.sigmoid(drive[:, :gates] + state @ self.weight_hh[:gates].t()).chunk(2, dim=-1)
        own = self.weight_hh[gates:].t()
        behind = reset * (state @ own + self.bias_hh) if self.reset == "after" else (reset * state) @ own
        candidate = torch.tanh(self._normalise(drive[:, gates:] + behind))
        return (1 - update) * state + update * candidate

    def _scan(self, inputs: Tensor, initial: Tensor) -> GRUTrace:
        """Run the recurrence, time-major inside."""
        stack, after = self._drive(inputs, slice(None)), self.reset == "after"
        history, blocks = self._room(stack, initial), stack.movedim(-3, 1)
        products = torch.empty_like(history[1:]) if after else stack.new_empty((0, 0, 0))
        norm = NormRecord(self, blocks)
        recurrent = self.weight_hh.unflatten(-2, (3, self.hidden_size)).movedim(-3, 0).mT
        bias_hh = self.bias_hh if after else stack.new_empty(0)
        compiled.run("scan_gru", recurrent, bias_hh, norm.weight, norm.bias, history, blocks, products, norm.normalised, norm.inverse)
        return GRUTrace(
            inputs=inputs,
            history=history.movedim(0, -2),
            stack=stack.transpose(-3, -2),
            parameters=dict(self.named_parameters()),
            **norm.parts,
            reset_product=(products if after else history[:-1]).movedim(0, -2),
        )
