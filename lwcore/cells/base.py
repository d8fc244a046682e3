"""What every cell offers to the code above it: a scan, and a trace of that scan from which all transport is read.

Time is counted from 0: ``h[:, t]`` is the state after input ``x[:, t]``, and ``J_t = ∂h_t/∂h_{t−1}``, where ``h_{−1}`` is the initial
state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lwcore.arguments import integer_in


@dataclass(frozen=True, eq=False)
class StepJacobian:
    """One-step Jacobians kept as their factors: ``J = diag(retention) + Σ_g diag(gain_g) U_g``.

    The sum runs over the branches g through which the previous state acts (gate and candidate, say). Nothing of size H×H is formed unless
    `dense` is asked for; a product with k rows costs one k×(G·H)×H matrix product. The leading axes ``...`` are those of the chosen steps.

    Attributes:
        retention: The diagonal part A, shape (..., H).
        gains: One diagonal a branch, shape (..., G, H).
        recurrent: The recurrent matrices U_g, shape (G, H, H).
    """

    retention: Tensor
    gains: Tensor
    recurrent: Tensor

    def pull(self, rows: Tensor) -> Tensor:
        """Multiply from the right, ``rows · J``: one step of backpropagation.

        Args:
            rows: Row vectors, shape (..., k, H).

        Returns:
            The product, shape (..., k, H).
        """
        weighted = rows.unsqueeze(-2) * self.gains.unsqueeze(-3)  # (..., k, G, H)
        return torch.addcmul(weighted.flatten(-2) @ self.recurrent.flatten(0, 1), rows, self.retention.unsqueeze(-2))

    def apply(self, columns: Tensor) -> Tensor:
        """Multiply from the left, ``J · columns``: the tangent of one step.

        Args:
            columns: Column vectors, shape (..., H, k).

        Returns:
            The product, shape (..., H, k).
        """
        branches = torch.einsum("...gi,gij,...jk->...ik", self.gains, self.recurrent, columns)
        return branches + self.retention.unsqueeze(-1) * columns

    def mixing_diagonal(self) -> Tensor:
        """Take the diagonal of the mixing part ``R = J − A``.

        Returns:
            ``Σ_g gain_g ⊙ diag(U_g)``, shape (..., H).
        """
        return (self.gains * self.recurrent.diagonal(dim1=-2, dim2=-1)).sum(-2)

    def dense(self) -> Tensor:
        """Form the matrix.

        Returns:
            J, shape (..., H, H).
        """
        return torch.diag_embed(self.retention) + torch.einsum("...gi,gij->...ij", self.gains, self.recurrent)


@dataclass(frozen=True, eq=False)
class Trace(ABC):
    """What one forward scan leaves behind; nothing above it is recomputed or differentiated through time.

    Attributes:
        inputs: x, shape (B, T, D).
        initial: The state before the first step, shape (B, H).
        states: h, shape (B, T, H).
    """

    inputs: Tensor
    initial: Tensor
    states: Tensor

    @property
    def length(self) -> int:
        """Number of time steps T."""
        return self.states.shape[1]

    @property
    def previous(self) -> Tensor:
        """The state each step starts from, ``h_{t−1}``, shape (B, T, H)."""
        return torch.cat([self.initial.unsqueeze(1), self.states[:, :-1]], dim=1)

    @property
    @abstractmethod
    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each named parameter of the cell: what a direction in parameter space must look like."""

    @abstractmethod
    def jacobian(self, times: int | slice | Tensor) -> StepJacobian:
        """Give the one-step Jacobians of the chosen steps.

        Args:
            times: A step t in 0..T−1 (no time axis in the result), or a slice or an index tensor of several (one time axis, second).

        Returns:
            The Jacobians ``J_t`` as operators.
        """

    @abstractmethod
    def tangent(self, direction: dict[str, Tensor]) -> Tensor:
        """Give the immediate derivative ``B_t w`` of every step along a direction w in parameter space, previous states held fixed.

        Args:
            direction: A tensor for each named parameter of the cell, of its shape.

        Returns:
            ``B_t w``, shape (B, T, H).
        """

    @abstractmethod
    def cotangent(self, adjoint: Tensor, times: slice) -> dict[str, Tensor]:
        """Give ``Σ λ_tᵀ B_t``, summed over sequences and the chosen steps: the transpose of `tangent`.

        Args:
            adjoint: λ, shape (B, number of steps, H).
            times: The steps they belong to.

        Returns:
            A tensor for each named parameter of the cell, of its shape.
        """


class Cell(nn.Module, ABC):
    """A recurrent layer that scans a batch of sequences.

    Attributes:
        input_size: D.
        hidden_size: H.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        """Check and keep the sizes.

        Args:
            input_size: D, at least 1.
            hidden_size: H, at least 1.
        """
        super().__init__()
        self.input_size = integer_in("input_size", input_size, 1)
        self.hidden_size = integer_in("hidden_size", hidden_size, 1)

    @abstractmethod
    def forward(self, inputs: Tensor, state: Tensor | None = None) -> Tensor:
        """Scan the sequences.

        Args:
            inputs: x, shape (B, T, D).
            state: The initial state, shape (B, H); zero if None.

        Returns:
            h, shape (B, T, H).
        """

    @abstractmethod
    def trace(self, inputs: Tensor, state: Tensor | None = None) -> Trace:
        """Scan the sequences and keep what transport needs; no autograd graph is made.

        Args:
            inputs: x, shape (B, T, D).
            state: The initial state, shape (B, H); zero if None.

        Returns:
            The trace.
        """

    def checked_inputs(self, inputs: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Check the shapes of a scan's arguments and fill in the zero initial state.

        Args:
            inputs: x, shape (B, T, D), not empty.
            state: The initial state, shape (B, H), or None.

        Returns:
            The inputs and the initial state.

        Raises:
            TypeError: If the inputs are not a tensor.
            ValueError: If a shape or dtype does not fit the cell, or inputs are NaN or infinite.
        """
        if not isinstance(inputs, Tensor):
            raise TypeError(f"inputs is a {type(inputs).__name__}: must be a torch.Tensor.")
        if inputs.ndim != 3 or inputs.shape[-1] != self.input_size or inputs.numel() == 0:
            raise ValueError(f"inputs has shape {tuple(inputs.shape)}: must be (B ≥ 1, T ≥ 1, D = {self.input_size}).")
        dtype = next(self.parameters()).dtype
        if inputs.dtype != dtype:
            raise ValueError(f"inputs has dtype {inputs.dtype}: must be {dtype}, that of the cell's parameters.")
        if not inputs.isfinite().all():
            raise ValueError(
                f"inputs: {int((~inputs.isfinite()).sum())} of {inputs.numel()} entries are NaN or infinite; all must be finite."
            )
        if state is None:
            state = inputs.new_zeros(inputs.shape[0], self.hidden_size)
        elif state.shape != (inputs.shape[0], self.hidden_size) or state.dtype != dtype:
            wanted = f"(B = {inputs.shape[0]}, H = {self.hidden_size}) and {dtype}"
            raise ValueError(f"state has shape {tuple(state.shape)} and dtype {state.dtype}: must have {wanted}.")
        return inputs, state
