"""A cell with a linear readout: its predictions, their loss, and the loss's gradient in h."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lwcore.cells import Cell
from lwcore.signatures import checked
from lwcore.trace import Trace


@checked
class Network(nn.Module):
    """Scalar regression at every step, ``ŷ_t = vᵀ h_t + b``, with the loss ``(ŷ_t − y_t)²``.

    Attributes:
        cell: The recurrence.
        weight: Readout v, (H,).
        bias: Readout b, a scalar.
    """

    def __init__(self, cell: Cell, generator: torch.Generator | None = None) -> None:
        """A readout whose weights are uniform on ±1/√H."""
        super().__init__()
        self.cell = cell
        uniform = torch.rand(cell.hidden_size, generator=generator, dtype=torch.float64) * 2 - 1
        self.weight = nn.Parameter((uniform / cell.hidden_size**0.5).to(cell.bias))
        self.bias = nn.Parameter(torch.zeros_like(self.weight[0]))

    def readout(self, states: Float[Tensor, "B T H"]) -> Float[Tensor, "B T"]:
        """Predictions from h."""
        # scans lie time-major in memory: so no copy is made and kept
        major = states.transpose(0, 1)
        return (major.flatten(0, 1) @ self.weight).view(major.shape[:-1]).t() + self.bias

    def forward(self, inputs: Float[Tensor, "B T D"]) -> Float[Tensor, "B T"]:
        """Predictions from inputs."""
        return self.readout(self.cell(inputs))

    @checked
    def loss(
        self, inputs: Float[Tensor, "B T D"], targets: Float[Tensor, "B T"]
    ) -> Float[Tensor, ""]:
        """The mean squared error over steps and sequences."""
        return (self(inputs) - targets).square().mean()

    @torch.no_grad()
    @checked
    def residual(
        self, states: Float[Tensor, "B T H"], targets: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        """The errors of the predictions, ``ŷ_t − y_t``."""
        return self.readout(states) - targets

    @torch.no_grad()
    def loss_gradients(self, residual: Float[Tensor, "*B_T"]) -> Float[Tensor, "*B_T H"]:
        """``δ_t = 2 (ŷ_t − y_t) v`` of errors, or of noise in their place for a null control."""
        return 2 * residual.unsqueeze(-1) * self.weight

    def observe(
        self, inputs: Float[Tensor, "B T D"], targets: Float[Tensor, "B T"]
    ) -> tuple[Trace, Float[Tensor, "B T H"]]:
        """The trace of a scan, and δ of the summed loss: all that Eq. (3) is made of."""
        trace = self.cell.trace(inputs)
        return trace, self.loss_gradients(self.residual(trace.outputs, targets))
