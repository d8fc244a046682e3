"""A cell with a linear readout: predictions, the loss of every step, and its gradient in the state."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lwcore.arguments import instance_of, integer_in
from lwcore.cells import Cell, Trace
from lwcore.tensors import finite, floating, torch_generator


class Network(nn.Module):
    """Scalar regression at every time step, ``ŷ_t = vᵀ h_t + b``, with squared error ``E_t = (ŷ_t − y_t)²``.

    Attributes:
        cell: The recurrence.
        weight: Readout v, shape (H,).
        bias: Readout b, a scalar.
    """

    def __init__(self, cell: Cell, generator: torch.Generator | None = None) -> None:
        """Add a readout to a cell, with weights drawn uniformly from ±1/√H.

        Args:
            cell: The recurrence.
            generator: Source of the weights; torch's default one if None.
        """
        super().__init__()
        self.cell: Cell = instance_of("cell", cell, Cell)
        torch_generator("generator", generator)
        like = next(cell.parameters())
        uniform = torch.rand(cell.hidden_size, generator=generator, dtype=torch.float64) * 2 - 1
        self.weight = nn.Parameter((uniform / cell.hidden_size**0.5).to(like))
        self.bias = nn.Parameter(torch.zeros_like(self.weight[0]))

    def readout(self, states: Tensor) -> Tensor:
        """Predict from states.

        Args:
            states: h, shape (B, T, H).

        Returns:
            ŷ, shape (B, T).

        Raises:
            ValueError: If the states are not of the network's size.
        """
        if floating("states", states).ndim < 3 or states.shape[-1] != self.cell.hidden_size:
            raise ValueError(f"states has shape {tuple(states.shape)}: must be (B, T, H = {self.cell.hidden_size}).")
        major = states.transpose(-3, -2)  # scans lie time-major in memory: so no copy is made and kept
        outputs = (major.flatten(-3, -2) @ self.weight.unsqueeze(-1)).view(major.shape[:-1])
        return (outputs + self.bias[..., None, None]).mT

    def forward(self, inputs: Tensor) -> Tensor:
        """Predict from inputs.

        Args:
            inputs: x, shape (B, T, D).

        Returns:
            ŷ, shape (B, T).
        """
        return self.readout(self.cell(inputs))

    def loss(self, inputs: Tensor, targets: Tensor, chunk: int | None = None) -> Tensor:
        """Average the squared error over steps and sequences.

        Args:
            inputs: x, shape (B, T, D).
            targets: y, shape (B, T).
            chunk: Number of steps to keep for the backward pass at a time; what lies between is computed a second time then. Memory is
                that of `chunk` steps and of T/chunk states, least near √T. None keeps all.

        Returns:
            The mean of E_t, a scalar.
        """
        if isinstance(inputs, Tensor) and inputs.ndim > 2 and inputs.numel() > 0:
            floating("targets", targets, tuple(inputs.shape[:-1]), "B, T")
        if chunk is None:
            return (self(inputs) - targets).square().mean((-2, -1))
        size = integer_in("chunk", chunk, 1)
        inputs, state = self.cell.checked_inputs(inputs, None)
        total = inputs.new_zeros(inputs.shape[:-3])
        for xs, ys in zip(inputs.split(size, dim=-2), targets.split(size, dim=-1), strict=True):
            part, state = checkpoint(self._part, xs, ys, state, use_reentrant=False, preserve_rng_state=False)
            total = total + part
        return total / targets.shape[-2:].numel()

    def _part(self, inputs: Tensor, targets: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Add up the squared error of some steps, and give the state behind them."""
        outputs, last = self.cell.scan(inputs, state)
        return (self.readout(outputs) - targets).square().sum((-2, -1)), last

    @torch.no_grad()
    def residual(self, states: Tensor, targets: Tensor) -> Tensor:
        """Give the error of the prediction.

        Args:
            states: h, shape (B, T, H).
            targets: y, shape (B, T).

        Returns:
            ``ŷ_t − y_t``, shape (B, T).
        """
        predictions = self.readout(states)
        return predictions - finite("targets", targets, tuple(predictions.shape), "B, T")

    @torch.no_grad()
    def loss_gradients(self, residual: Tensor) -> Tensor:
        """Give the gradient of each step's loss in its own state, ``δ_t = ∂E_t/∂h_t = 2 (ŷ_t − y_t) v``.

        Args:
            residual: ``ŷ_t − y_t``, or noise in its place for a null control; shape (B, T).

        Returns:
            δ, shape (B, T, H).

        Raises:
            ValueError: If it is of another shape.
        """
        if floating("residual", residual).ndim not in (0, 2) or residual.numel() == 0:
            raise ValueError(f"residual has shape {tuple(residual.shape)}: must be (B, T), or () for one number.")
        return 2 * residual.unsqueeze(-1) * self.weight

    def observe(self, inputs: Tensor, targets: Tensor) -> tuple[Trace, Tensor]:
        """Scan sequences and give all that Eq. (3) is made of.

        Args:
            inputs: x, shape (B, T, D).
            targets: y, shape (B, T).

        Returns:
            The trace, and δ of the summed loss, shape (B, T, H).
        """
        trace = self.cell.trace(inputs)
        return trace, self.loss_gradients(self.residual(trace.outputs, targets))
