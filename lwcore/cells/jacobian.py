"""One-step Jacobians as operators: what every cell's Jacobian can do, and one that autodiff makes out of any step.

The recurrent state s_t is h_t, or (h_t, c_t) for the LSTM, of S entries. ``J_t = ∂s_t/∂s_{t−1} = A_t + R_t`` splits into what each neuron
keeps for itself (A, "retention") and what the recurrent matrices mix (R). A closed form keeps J as its factors: diagonals before and
after the recurrent matrices. A product with k rows then costs one matrix product with those, and no S×S matrix is formed unless asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor


class StepJacobian(ABC):
    """The Jacobians ``J_t`` of one or many steps; their leading axes ``...`` are those of the chosen steps."""

    @abstractmethod
    def pull(self, rows: Tensor) -> Tensor:
        """Multiply from the right, ``rows · J``: one step of backpropagation.

        Args:
            rows: Row vectors, shape (..., k, S).

        Returns:
            The product, shape (..., k, S).
        """

    @abstractmethod
    def apply(self, columns: Tensor) -> Tensor:
        """Multiply from the left, ``J · columns``: the tangent of one step.

        Args:
            columns: Column vectors, shape (..., S, k).

        Returns:
            The product, shape (..., S, k).
        """

    @property
    @abstractmethod
    def like(self) -> Tensor:
        """A tensor of shape (..., S) with the operator's dtype and device."""

    def dense(self) -> Tensor:
        """Form the matrix.

        Returns:
            J, shape (..., S, S).
        """
        like = self.like
        identity = torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)
        return self.pull(identity.expand(*like.shape, -1))


@dataclass(frozen=True, eq=False)
class AutodiffJacobian(StepJacobian):
    """The Jacobian of any differentiable step, by automatic differentiation: slower than a closed form, and in need of none.

    Attributes:
        step: Maps states (n, S) to the next states (n, S), row by row; inputs and parameters held fixed.
        states: The states it starts from, shape (..., S); ``step`` meets them flattened to (n, S).
    """

    step: Callable[[Tensor], Tensor]
    states: Tensor

    @property
    def like(self) -> Tensor:
        """The states themselves."""
        return self.states

    def pull(self, rows: Tensor) -> Tensor:
        """Multiply from the right, by reverse mode."""
        flat = self.states.flatten(0, -2)
        if rows.shape[-2] == 1:  # one row for each state: plain reverse mode
            with torch.enable_grad():
                state = flat.detach().requires_grad_()
                (pulled,) = torch.autograd.grad(self.step(state), state, rows.reshape(flat.shape))
            return pulled.reshape(rows.shape)
        _, backwards = torch.func.vjp(self.step, flat)  # type: ignore[misc]
        (pulled,) = torch.func.vmap(backwards)(rows.reshape(len(flat), -1, flat.shape[-1]).transpose(0, 1))
        return pulled.transpose(0, 1).reshape(rows.shape)

    def apply(self, columns: Tensor) -> Tensor:
        """Multiply from the left, by the matrix itself."""
        return self.dense() @ columns


class Factors:
    """A mixin for dataclasses of per-step tensors: choose steps in all of them at once."""

    def at(self, times: Any) -> Self:
        """Choose steps.

        Args:
            times: An index of the time axis, the second one: a step, a slice or an index tensor.

        Returns:
            The same factors at those steps; fields that are not per-step tensors stay.
        """
        return self.of((slice(None), times))

    def of(self, index: Any) -> Self:
        """Choose by an index of the leading axes.

        Args:
            index: Anything that a tensor can be indexed with.

        Returns:
            The chosen factors; fields that are not per-step tensors stay.
        """
        chosen = {f.name: _choose(getattr(self, f.name), index) for f in fields(self) if f.metadata.get("steps", True)}  # type: ignore[arg-type]
        kept = {f.name: getattr(self, f.name) for f in fields(self) if not f.metadata.get("steps", True)}  # type: ignore[arg-type]
        return type(self)(**chosen, **kept)


def _choose(factor: Any, index: Any) -> Any:
    """Index one factor: a tensor, a group of factors by its own `of`, None not at all."""
    if factor is None:
        return None
    return factor[index] if isinstance(factor, Tensor) else factor.of(index)


class Condensed(Factors, ABC):
    """Jacobians whose mixing matrices have been formed: dearer to make, cheaper to multiply with. The first axis is the steps."""

    @abstractmethod
    def pull(self, rows: Tensor) -> Tensor:
        """Multiply from the right, ``rows · J``.

        Args:
            rows: Row vectors, one group a step, shape (steps, k, S).

        Returns:
            The product, shape (steps, k, S).
        """


@dataclass(frozen=True, eq=False)
class CondensedJacobian(Condensed):
    """Jacobians as plain matrices.

    Attributes:
        matrices: J, shape (steps, S, S).
    """

    matrices: Tensor

    def pull(self, rows: Tensor) -> Tensor:
        """Multiply from the right, ``rows · J``."""
        return torch.bmm(rows, self.matrices)


class FactoredJacobian(Factors, StepJacobian):
    """A closed form: the Jacobians of many steps as factors, from which steps can be chosen."""

    def condensed(self) -> Condensed:
        """Form the mixing matrices, for where many products are to be taken with each.

        Returns:
            The same Jacobians; a product costs one matrix product then.
        """
        return CondensedJacobian(self.dense())


@dataclass(frozen=True, eq=False)
class NormFactors(Factors):
    """The Jacobian of layer normalisation, ``diag(scale) (I − 11ᵀ/H − n nᵀ/H)``.

    ``LayerNorm(a) = weight ⊙ n + bias`` with ``n = (a − mean a)/√(var a + 1e−5)`` over the neurons.

    Attributes:
        normalised: n, shape (..., H).
        scale: ``weight/√(var a + 1e−5)``, shape (..., H).
    """

    normalised: Tensor
    scale: Tensor

    def pull(self, rows: Tensor) -> Tensor:
        """Multiply rows (..., k, H) from the right."""
        n = self.normalised.unsqueeze(-2)
        scaled = rows * self.scale.unsqueeze(-2)
        return scaled - scaled.mean(-1, keepdim=True) - n * (scaled * n).mean(-1, keepdim=True)

    def push(self, tangents: Tensor) -> Tensor:
        """Multiply tangents, laid out as rows (..., k, H), from the left."""
        n = self.normalised.unsqueeze(-2)
        return self.scale.unsqueeze(-2) * (tangents - tangents.mean(-1, keepdim=True) - n * (tangents * n).mean(-1, keepdim=True))

    def diagonal(self, diagonal: Tensor, pull: Callable[[Tensor], Tensor]) -> Tensor:
        """Take the diagonal of the product with a matrix V on the right.

        Args:
            diagonal: diag(V), shape (..., H).
            pull: Multiplies row vectors (..., H) by V.

        Returns:
            ``diag(J V)``, shape (..., H).
        """
        hidden = self.normalised.shape[-1]
        of_mean = pull(torch.ones_like(self.normalised)) / hidden
        of_spread = self.normalised * pull(self.normalised) / hidden
        return self.scale * (diagonal - of_mean - of_spread)


@dataclass(frozen=True, eq=False)
class NeuronFactors(Factors):
    """What zeroth and first order need of every step: a neuron's own retention and what mixing adds on the diagonal.

    With ``zeroth_0 = head_t`` and ``first_0 = 0``, and j = t−ℓ+1 the step that lag ℓ adds, the orders grow one factor at a time:
    ``first_ℓ = first_{ℓ−1} retention_j + zeroth_{ℓ−1} mixing_j`` and ``zeroth_ℓ = zeroth_{ℓ−1} retention_j``, with `lead_t` added to
    ``first_1``. Where `delayed`, ``mixing_j`` reaches the diagonal one lag later: the LSTM's mixing enters through h, and a cell state
    feels it only a step further back.

    Attributes:
        retention: The neuron's own factor, shape (..., H).
        mixing: What the recurrent matrices put on the diagonal, shape (..., H).
        head: The factor at the end point, shape (..., H); None for 1.
        lead: The first-order term of the end point alone, shape (..., H); None for 0.
    """

    retention: Tensor
    mixing: Tensor
    head: Tensor | None = None
    lead: Tensor | None = None

    @property
    def delayed(self) -> bool:
        """Whether mixing reaches the diagonal one lag later."""
        return self.head is not None


class Adjoints(NamedTuple):
    """What a backward pass leaves for the gradients of parameters, inputs and initial state.

    Attributes:
        pre: Adjoints of the pre-activations, a block of parameter rows each, shape (B, steps, rows).
        raw: Adjoints behind the candidate's layer normalisation, shape (B, steps, H); None where there is none.
        initial: λ of the initial state, shape (B, S).
    """

    pre: tuple[Tensor, ...]
    raw: Tensor | None
    initial: Tensor
