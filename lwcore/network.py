"""A cell with a linear readout: predictions, the loss of every step, and its gradient in the
state."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lwcore.arguments import instance_of
from lwcore.cells import Cell
from lwcore.tensors import finite, floating, torch_generator
from lwcore.trace import Trace


class Network(nn.Module):
    """Scalar regression at every time step, ``ŷ_t = vᵀ h_t + b``, with squared error ``E_t = (ŷ_t −
    y_t)²``.

    Attributes:
        cell: The recurrence.
        weight: Readout v, (H,).
        bias: Readout b, a scalar.
    """

    def __init__(self, cell: Cell, generator: torch.Generator | None = None) -> None:
        """Add a readout to a cell, with weights drawn uniformly from ±1/√H."""
        super().__init__()
        self.cell: Cell = instance_of("cell", cell, Cell)
        torch_generator("generator", generator)
        like = next(cell.parameters())
        uniform = torch.rand(cell.hidden_size, generator=generator, dtype=torch.float64) * 2 - 1
        self.weight = nn.Parameter((uniform / cell.hidden_size**0.5).to(like))
        self.bias = nn.Parameter(torch.zeros_like(self.weight[0]))

    def readout(self, states: Float[Tensor, "B T H"]) -> Float[Tensor, "B T"]:
        """Predict from h."""
        if floating("states", states).ndim != 3 or states.shape[-1] != self.cell.hidden_size:
            raise ValueError(
                f"states has shape {tuple(states.shape)}: must be (B, T, H = "
                f"{self.cell.hidden_size})."
            )
        # scans lie time-major in memory: so no copy is made and kept
        major = states.transpose(0, 1)
        return (major.flatten(0, 1) @ self.weight).view(major.shape[:-1]).t() + self.bias

    def forward(self, inputs: Float[Tensor, "B T D"]) -> Float[Tensor, "B T"]:
        """Predict from inputs."""
        return self.readout(self.cell(inputs))

    def loss(
        self, inputs: Float[Tensor, "B T D"], targets: Float[Tensor, "B T"]
    ) -> Float[Tensor, ""]:
        """Average the squared error over steps and sequences."""
        if isinstance(inputs, Tensor) and inputs.ndim > 2 and inputs.numel() > 0:
            floating("targets", targets, tuple(inputs.shape[:-1]), "B, T")
        return (self(inputs) - targets).square().mean()

    @torch.no_grad()
    def residual(
        self, states: Float[Tensor, "B T H"], targets: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        """Give the error of the prediction, ``ŷ_t − y_t``."""
        predictions = self.readout(states)
        return predictions - finite("targets", targets, tuple(predictions.shape), "B, T")

    @torch.no_grad()
    def loss_gradients(self, residual: Float[Tensor, "*B_T"]) -> Float[Tensor, "*B_T H"]:
        """Give ``δ_t = ∂E_t/∂h_t = 2 (ŷ_t − y_t) v``, of errors or of noise in their place for a
        null control."""
        if floating("residual", residual).ndim not in (0, 2) or residual.numel() == 0:
            raise ValueError(
                f"residual has shape {tuple(residual.shape)}: must be (B, T), or () for one number."
            )
        return 2 * residual.unsqueeze(-1) * self.weight

    def observe(
        self, inputs: Float[Tensor, "B T D"], targets: Float[Tensor, "B T"]
    ) -> tuple[Trace, Float[Tensor, "B T H"]]:
        """Scan sequences and give all that Eq. (3) is made of: the trace, and δ of the summed
        loss."""
        trace = self.cell.trace(inputs)
        return trace, self.loss_gradients(self.residual(trace.outputs, targets))
