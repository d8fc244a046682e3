"""Traces of recurrences: what one scan leaves behind, from which all transport is read.

Anything with a `step` can be traced, a cell of the paper or a reader's own. A step takes the
previous state, of S entries, twice: as what is *kept*, and as what is *seen* through the recurrent
weights. Its derivatives in the two are the retention A and the mixing R, and
``J_t = ∂s_t/∂s_{t−1} = A_t + R_t``. Time is counted from 0: ``s_t`` is the state after input x_t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from lwcore.ambient import own_precision
from lwcore.signatures import checked, require

if TYPE_CHECKING:  # a type checker knows no attributes of a module
    Recurrence = Any
else:
    Recurrence = nn.Module
Steps = slice | Tensor
Direction = dict[str, Tensor]
Products = Callable[[Steps, Tensor], Tensor]


class Neurons(NamedTuple):
    """Retention and diagonal mixing of every step and neuron, (B, T, H), for the first two orders.

    With ``zeroth_0 = head_t``, ``first_0 = 0``, and j = t−ℓ+1 the step that lag ℓ adds, the orders
    grow one factor at a time: ``first_ℓ = first_{ℓ−1} retention_j + zeroth_{ℓ−1} mixing_j`` and
    ``zeroth_ℓ = zeroth_{ℓ−1} retention_j``, with `lead_t` added to ``first_1``. With a head,
    ``mixing_j`` reaches the diagonal one lag later: it enters through h, c a step further back.
    """

    retention: Tensor
    mixing: Tensor
    head: Tensor | None = None
    lead: Tensor | None = None

    def of(self, index: Any) -> Neurons:
        """Chosen sequences, steps or neurons."""
        chosen: Any = (None if part is None else part[index] for part in self)
        return Neurons(*chosen)


@dataclass(eq=False)
class StepJacobian:
    """One-step Jacobians ``J_t`` as operators, by autodiff; one for every leading index."""

    recurrence: Recurrence
    inputs: Float[Tensor, "... D"]
    states: Float[Tensor, "... S"]  # to start from

    @own_precision
    def pull(self, rows: Float[Tensor, "... k S"]) -> Float[Tensor, "... k S"]:
        """Products ``rows · J``: one step of backpropagation."""
        back = vjp(lambda states: self.recurrence.step(self.inputs, states), self.states)[1]
        if rows.shape[-2] == 1:  # plain reverse mode
            return back(rows.squeeze(-2))[0].unsqueeze(-2)
        return vmap(lambda row: back(row)[0], in_dims=-2, out_dims=-2)(rows)

    def dense(self) -> Float[Tensor, "... S S"]:
        """The matrices themselves."""
        eye = torch.eye(self.states.shape[-1], dtype=self.states.dtype, device=self.states.device)
        return self.pull(eye.expand(*self.states.shape, -1))

    def condensed(self) -> Products:
        """Products of rows with chosen steps, the first axis, for many of them: J is made once."""
        dense = self.dense()
        return own_precision(lambda steps, rows: torch.bmm(rows, dense[steps]))


@checked
@dataclass(frozen=True, eq=False)
class Trace:
    """A scan, behind which nothing is differentiated through time: inputs, and states from s₀ on.

    The recurrence is an `nn.Module` with a ``step(x, kept, seen=None)``, a ``state_size``, and the
    places in a state of what a readout sees, ``shown``, and of what carries gradients from step to
    step, ``carried``: all of h, or the LSTM's c.
    """

    recurrence: Recurrence
    inputs: Float[Tensor, "B T D"]
    history: Float[Tensor, "B T+1 S"]

    @classmethod
    @torch.no_grad()
    @own_precision
    def of(
        cls, recurrence: Any, inputs: Float[Tensor, "B T D"], initial: Float[Tensor, "B S"]
    ) -> Self:
        """A scan of any recurrence, step by step."""
        states = [initial]
        for x in inputs.unbind(1):
            states.append(recurrence.step(x, states[-1]))
        return cls(recurrence, inputs, torch.stack(states, dim=1))

    @property
    def length(self) -> int:
        """Number of steps T."""
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
        """Retention and diagonal mixing; of a recurrence with a closed form."""
        name, known = type(self.recurrence).__name__, hasattr(self.recurrence, "closed_form")
        require("trace.recurrence", name, known, "a cell, for orders but the exact one")
        return self._closed_form.neurons()

    def jacobian(
        self, steps: int | Steps, sequences: Any = slice(None), *, closed: bool = True
    ) -> StepJacobian:
        """One-step Jacobians as operators, in closed form where there is one."""
        if closed and hasattr(self.recurrence, "closed_form"):
            return self._closed_form.of((sequences, steps))
        return StepJacobian(
            self.recurrence, self.inputs[sequences, steps], self.previous[sequences, steps]
        )

    @cached_property
    def _closed_form(self) -> Any:
        return self.recurrence.closed_form(self.inputs, self.previous)

    def stepped(self, x: Float[Tensor, "... D"], state: Float[Tensor, "... S"]) -> Any:
        """A step as a function of the parameters, by name; the state before it is held fixed."""
        module: Any = nn.Module()  # whose parameters can be replaced, as a step's cannot
        module.recurrence, module.forward = self.recurrence, self.recurrence.step
        return lambda given: functional_call(
            module, {f"recurrence.{name}": value for name, value in given.items()}, (x, state)
        )

    @own_precision
    def gathered_each(
        self, rows: Float[Tensor, "B n S"], steps: Steps = slice(None)
    ) -> Float[Tensor, "B P"]:
        """Every sequence's own ``Σ_t λ_tᵀ B_t``, as a vector in the space of all parameters."""
        each = vmap(lambda x, state, row: vjp(self.stepped(x, state), self.parameters)[1](row)[0])
        parts = each(self.inputs[:, steps], self.previous[:, steps], rows)
        return torch.cat([part.reshape(len(part), -1) for part in parts.values()], dim=1)

    def backpropagate(self, loss_gradients: Float[Tensor, "B T _"]) -> Float[Tensor, "B T S"]:
        """The backward recursion of Eq. (3), ``λ_t = δ_t + λ_{t+1} J_{t+1}``, in every state."""
        adjoint = self.lifted(loss_gradients).contiguous()
        for t in range(self.length - 1, 0, -1):
            adjoint[:, t - 1] += self.jacobian(t).pull(adjoint[:, t].unsqueeze(-2)).squeeze(-2)
        return adjoint

    def lifted(self, rows: Float[Tensor, "... _"]) -> Float[Tensor, "... S"]:
        """Gradients of outputs as gradients of states, in new memory; those of states are kept."""
        if rows.shape[-1] == self.history.shape[-1]:
            return rows.clone()
        lifted = rows.new_zeros(*rows.shape[:-1], self.history.shape[-1])
        lifted[..., self.recurrence.shown] = rows
        return lifted

    def carried(self, states: Float[Tensor, "... S"]) -> Float[Tensor, "... H"]:
        """Entries in which gradients are carried from step to step."""
        return states[..., self.recurrence.carried]
