"""A trace of a recurrence: what one scan leaves behind, from which all transport of gradients is
read.

Anything with a `step` can be traced: a cell of the paper, or a reader's recurrence
(`lwcore.diagnose`). The state s has S entries. A step takes the previous state twice, as what is
*kept* and as what is *seen* through the recurrent weights; its derivatives in the two are the
retention A and the mixing R, and ``J_t = ∂s_t/∂s_{t−1} = A_t + R_t``. Time is counted from 0:
``s_t`` is the state after input ``x_t``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jvp, vjp, vmap

Steps = slice | Tensor
Direction = dict[str, Tensor]
# PyTorch counts the levels of forward mode for all threads together
_FORWARD_MODE = threading.Lock()


class Recurrence(Protocol):
    """Anything with a `step`; an `nn.Module`, so that its parameters have names.

    Attributes:
        state_size: S.
        shown: Where in the state the outputs h stand that a readout sees.
        carried: Where the entries stand in which gradients are carried from step to step: all of h,
            or the LSTM's c.
    """

    state_size: int
    shown: Any
    carried: Any

    def step(
        self,
        x: Float[Tensor, "... D"],
        kept: Float[Tensor, "... S"],
        seen: Float[Tensor, "... S"] | None = None,
    ) -> Tensor:
        """Map states to the next states."""
        ...


class Neurons(NamedTuple):
    """What zeroth and first order need of every step, (B, T, H): what a neuron keeps, and what
    mixing adds on the diagonal.

    With ``zeroth_0 = head_t``, ``first_0 = 0``, and j = t−ℓ+1 the step that lag ℓ adds, the orders
    grow one factor at a time: ``first_ℓ = first_{ℓ−1} retention_j + zeroth_{ℓ−1} mixing_j`` and
    ``zeroth_ℓ = zeroth_{ℓ−1} retention_j``, with `lead_t` added to ``first_1``. With a head,
    ``mixing_j`` reaches the diagonal one lag later: it enters through h, and c feels it a step
    further back.
    """

    retention: Tensor
    mixing: Tensor
    head: Tensor | None = None
    lead: Tensor | None = None

    @property
    def delayed(self) -> bool:
        """Whether mixing reaches the diagonal one lag later."""
        return self.head is not None

    def of(self, index: Any) -> Neurons:
        """Choose sequences, steps or neurons."""
        chosen: Any = (None if part is None else part[index] for part in self)
        return Neurons(*chosen)


class StepJacobian:
    """One-step Jacobians ``J_t`` of any step as operators, by automatic differentiation; one for
    every leading index of `states`."""

    def __init__(
        self, recurrence: Recurrence, inputs: Float[Tensor, "... D"], states: Float[Tensor, "... S"]
    ) -> None:
        """Fix the inputs, and the states to start from."""
        self.recurrence, self.inputs, self.states = recurrence, inputs, states

    def pull(self, rows: Float[Tensor, "... k S"]) -> Float[Tensor, "... k S"]:
        """Multiply from the right, ``rows · J``: one step of backpropagation."""
        back = vjp(lambda states: self.recurrence.step(self.inputs, states), self.states)[1]
        if rows.shape[-2] == 1:  # plain reverse mode
            return back(rows.squeeze(-2))[0].unsqueeze(-2)
        return vmap(lambda row: back(row)[0], in_dims=-2, out_dims=-2)(rows)

    def push(self, columns: Float[Tensor, "... S k"]) -> Float[Tensor, "... S k"]:
        """Multiply from the left, ``J · columns``: the tangent of one step."""
        return self.dense() @ columns

    def dense(self) -> Float[Tensor, "... S S"]:
        """Form the matrices."""
        eye = torch.eye(self.states.shape[-1], dtype=self.states.dtype, device=self.states.device)
        return self.pull(eye.expand(*self.states.shape, -1))

    def condensed(self) -> Condensed:
        """Form what many products are to be taken with."""
        return Condensed(self.dense())


class Condensed(NamedTuple):
    """Jacobians in a form that is dear to make and cheap to multiply with; the first axis is the
    steps.

    J itself is `mixing`; or, where a state (h, c) is shown through an expression e,
    ``[[output + e·mixing, diag(e keep)], [mixing, diag(keep)]]``.
    """

    mixing: Tensor
    keep: Tensor | None = None
    expression: Tensor | None = None
    output: Tensor | None = None

    def of(self, steps: Steps) -> Condensed:
        """Choose steps."""
        chosen: Any = (None if part is None else part[steps] for part in self)
        return Condensed(*chosen)

    def pull(self, rows: Float[Tensor, "n k S"]) -> Float[Tensor, "n k S"]:
        """Multiply from the right, ``rows · J``."""
        if self.keep is None or self.expression is None or self.output is None:
            return torch.bmm(rows, self.mixing)
        hidden, cell = rows.chunk(2, dim=-1)
        cell = torch.addcmul(cell, hidden, self.expression.unsqueeze(-2))
        return torch.cat(
            [
                torch.baddbmm(hidden @ self.output, cell, self.mixing),
                cell * self.keep.unsqueeze(-2),
            ],
            dim=-1,
        )


@dataclass(frozen=True, eq=False)
class Trace:
    """What a scan leaves behind: from here on nothing is differentiated through time.

    Attributes:
        recurrence: What was scanned, with the parameters it had then.
        inputs: x, (B, T, D).
        history: s, the initial one in front, (B, T + 1, S).
    """

    recurrence: Any
    inputs: Float[Tensor, "B T D"]
    history: Float[Tensor, "B T+1 S"]

    @classmethod
    @torch.no_grad()
    def of(
        cls, recurrence: Any, inputs: Float[Tensor, "B T D"], initial: Float[Tensor, "B S"]
    ) -> Self:
        """Scan sequences step by step: any recurrence will do."""
        states = [initial]
        for x in inputs.unbind(1):
            states.append(recurrence.step(x, states[-1]))
        return cls(recurrence, inputs, torch.stack(states, dim=1))

    @property
    def length(self) -> int:
        """Number of time steps T."""
        return self.inputs.shape[1]

    @property
    def states(self) -> Float[Tensor, "B T S"]:
        """The state after each step."""
        return self.history[:, 1:]

    @property
    def previous(self) -> Float[Tensor, "B T S"]:
        """The state each step starts from."""
        return self.history[:, :-1]

    @property
    def outputs(self) -> Float[Tensor, "B T H"]:
        """What the readout sees, h."""
        return self.history[:, 1:, self.recurrence.shown]

    @property
    def hidden_size(self) -> int:
        """Number of neurons H."""
        return self.outputs.shape[-1]

    @cached_property
    def parameters(self) -> Direction:
        """The parameters of the scan, by name."""
        return {name: parameter.detach() for name, parameter in self.recurrence.named_parameters()}

    @cached_property
    def gates(self) -> Any:
        """Gates and candidate at every step, (B, T, H) each; of a cell of `lwcore.cells`."""
        return self._closed_form.made

    @cached_property
    def neurons(self) -> Neurons:
        """What zeroth and first order need; of a recurrence with a closed form."""
        if not hasattr(self.recurrence, "closed_form"):
            raise ValueError(
                f"trace is of a {type(self.recurrence).__name__}, without a closed form: only the "
                "exact order is known."
            )
        return self._closed_form.neurons()

    def jacobian(
        self, steps: int | Steps, sequences: Any = slice(None), *, closed: bool = True
    ) -> StepJacobian:
        """Give the one-step Jacobians of some steps as operators: in closed form where there is
        one, else by autodiff of the step."""
        if closed and hasattr(self.recurrence, "closed_form"):
            return self._closed_form.of((sequences, steps))
        return StepJacobian(
            self.recurrence, self.inputs[sequences, steps], self.previous[sequences, steps]
        )

    @cached_property
    def _closed_form(self) -> Any:
        return self.recurrence.closed_form(self.inputs, self.previous)

    def moved(self, direction: Direction, steps: Steps = slice(None)) -> Float[Tensor, "B n S"]:
        """Give ``B_t w``, how a state moves along w while the previous one is held fixed. It is Eq.
        (3)'s ``B_k = ∂⁺s_k/∂θ``."""
        with _FORWARD_MODE:
            return jvp(
                self._step(self.inputs[:, steps], self.previous[:, steps]),
                (self.parameters,),
                (direction,),
            )[1]

    def gathered(self, rows: Float[Tensor, "B n S"], steps: Steps = slice(None)) -> Direction:
        """Give ``Σ_t λ_tᵀ B_t`` over sequences and steps: the transpose of `moved`."""
        return vjp(self._step(self.inputs[:, steps], self.previous[:, steps]), self.parameters)[1](
            rows
        )[0]

    def gathered_each(
        self, rows: Float[Tensor, "B n S"], steps: Steps = slice(None)
    ) -> Float[Tensor, "B P"]:
        """Give every sequence's own ``Σ_t λ_tᵀ B_t``, as a vector in the space of all
        parameters."""
        each = vmap(lambda x, state, row: vjp(self._step(x, state), self.parameters)[1](row)[0])
        parts = each(self.inputs[:, steps], self.previous[:, steps], rows)
        return torch.cat([part.flatten(1) for part in parts.values()], dim=1)

    def _step(self, x: Tensor, state: Tensor) -> Any:
        """A step as a function of the parameters."""
        module = _AsModule(self.recurrence)
        return lambda given: functional_call(
            module, {f"recurrence.{name}": value for name, value in given.items()}, (x, state)
        )

    def backpropagate(self, loss_gradients: Float[Tensor, "B T _"]) -> Float[Tensor, "B T S"]:
        """Run the backward recursion ``λ_t = δ_t + λ_{t+1} J_{t+1}`` of Eq. (3): the gradient of
        the summed loss in every state."""
        adjoint = self.lifted(loss_gradients).contiguous()
        for t in range(self.length - 1, 0, -1):
            adjoint[:, t - 1] += self.jacobian(t).pull(adjoint[:, t].unsqueeze(-2)).squeeze(-2)
        return adjoint

    def lifted(self, rows: Float[Tensor, "... _"]) -> Float[Tensor, "... S"]:
        """Write gradients of outputs as gradients of states; those of states are copied."""
        if rows.shape[-1] == self.history.shape[-1]:
            return rows.clone()
        return rows.new_zeros(*rows.shape[:-1], self.history.shape[-1]).index_copy_(
            -1, self._places(self.recurrence.shown), rows
        )

    def carried(self, states: Float[Tensor, "... S"]) -> Float[Tensor, "... H"]:
        """Choose the entries in which gradients are carried from step to step."""
        return states[..., self.recurrence.carried]

    def _places(self, part: Any) -> Tensor:
        return torch.arange(self.history.shape[-1], device=self.history.device)[part]


class _AsModule(nn.Module):
    """A step as a module's forward, so that its parameters can be replaced."""

    def __init__(self, recurrence: Any) -> None:
        super().__init__()
        self.recurrence = recurrence

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        return self.recurrence.step(x, state)
