"""Traces of recurrences: what one scan leaves behind, from which all transport is read.

Anything with a `step` can be traced, a cell of the paper or a reader's own. A step takes the
previous state, of S entries, twice: as what is *kept*, and as what is *seen* through the recurrent
weights. Its derivatives in the two are the retention A and the mixing R, and
``J_t = ∂s_t/∂s_{t−1} = A_t + R_t``. Time is counted from 0: ``s_t`` is the state after input x_t.

A Jacobian is an operator here: ``rows · J`` is one step of backpropagation, and costs much less
than the matrix. It comes in closed form where the recurrence has one, and by autodiff elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

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
Direction = dict[str, Tensor]  # a vector in the space of all parameters, a tensor for each
Parts = TypeVar("Parts", bound=Any)  # a named tuple of tensors
Products = Callable[[Steps, Tensor], Tensor]  # (which of the Jacobians, rows) to rows · J


class Neurons(NamedTuple):
    """Retention and diagonal mixing of every step and neuron, (B, T, H), for the first two orders.

    A transport product is built from the end point back, one step at a time. With j = t−ℓ+1 the
    step that lag ℓ adds, the orders grow by::

        zeroth_0 = head_t,   zeroth_ℓ = zeroth_{ℓ−1} retention_j
        first_0  = 0,        first_ℓ  = first_{ℓ−1} retention_j + zeroth_{ℓ−1} mixing_j

    and `lead_t` is added to ``first_1``. Cells without a show gate have neither head nor lead, and
    begin with 1. `retention` is the diagonal of A, `mixing` that of R. Of an LSTM mixing leads from
    c_j to h_{j−1}, and times e_{j−1} on to c with the next step: its rate of first order is
    ``zeroth_ℓ + first_{ℓ−1} retention_j``. `head` is ``e_t = ∂h_t/∂c_t``, `lead` the diagonal of
    the show gate's mixing at the end point, times e_{t−1}.
    """

    retention: Tensor
    mixing: Tensor
    head: Tensor | None = None
    lead: Tensor | None = None


def select_each(parts: Parts, index: Any) -> Parts:
    """Index every tensor (B, T, …) of a named tuple, as `Neurons` is one; None stays None."""
    return parts._make(None if tensor is None else tensor[index] for tensor in parts)


def as_vectors(parts: Direction) -> Tensor:
    """Return n directions, stacked along the first axis of each tensor, as vectors, (n, P)."""
    return torch.cat([tensor.reshape(len(tensor), -1) for tensor in parts.values()], dim=1)


@dataclass(eq=False)
class StepJacobian:
    """One-step Jacobians ``J_t`` as operators, by autodiff; one for every leading index.

    Works for any recurrence with a `step`. Cells have a faster closed form,
    `lwcore.cells.GatedJacobian`.
    """

    recurrence: Recurrence
    inputs: Float[Tensor, "... D"]
    states: Float[Tensor, "... S"]  # to start from

    @own_precision
    def pull(self, rows: Float[Tensor, "... k S"]) -> Float[Tensor, "... k S"]:
        """Return the products ``rows · J``: one step of backpropagation for k rows at once."""
        step = partial(self.recurrence.step, self.inputs)
        pull_one = vjp(step, self.states)[1]
        if rows.shape[-2] == 1:  # plain reverse mode, without vmap
            (pulled,) = pull_one(rows.squeeze(-2))
            return pulled.unsqueeze(-2)
        (pulled,) = vmap(pull_one, in_dims=-2, out_dims=-2)(rows)
        return pulled

    def dense(self) -> Float[Tensor, "... S S"]:
        """Return the matrices themselves, S² numbers each: to look at, or for small states."""
        eye = torch.eye(self.states.shape[-1]).to(self.states)
        return self.pull(eye.expand(*self.states.shape, -1))

    def condensed(self) -> Products:
        """Return a function of a leading index and rows, for many products ``rows · J``.

        What all products share is computed once.
        """
        dense = self.dense()
        return own_precision(lambda steps, rows: torch.bmm(rows, dense[steps]))


@checked
@dataclass(frozen=True, eq=False)
class Trace:
    """A scan, behind which nothing is differentiated through time: inputs, and states from s₀ on.

    A cell makes its own (`Cell.trace`); any other recurrence is scanned by `Trace.scan`. It is an
    `nn.Module` with a ``step(x, kept, seen=None)``, a ``state_size``, and two slices of a state:
    ``shown``, what a readout sees, and ``carried``, what carries gradients from step to step. Both
    are all of h, but for the LSTM, which shows h and carries c.
    """

    recurrence: Recurrence
    inputs: Float[Tensor, "B T D"]
    history: Float[Tensor, "B T+1 S"]

    @classmethod
    @torch.no_grad()
    @own_precision
    def scan(
        cls, recurrence: Any, inputs: Float[Tensor, "B T D"], initial: Float[Tensor, "B S"]
    ) -> Self:
        """Scan any recurrence, step by step, from an initial state."""
        state = initial
        history = [initial]
        for x in inputs.unbind(1):
            state = recurrence.step(x, state)
            history.append(state)
        return cls(recurrence, inputs, torch.stack(history, dim=1))

    @property
    def length(self) -> int:
        """Number of steps T."""
        return self.inputs.shape[1]

    @property
    def states(self) -> Float[Tensor, "B T S"]:
        """The state s_t after each step, h, or h beside c for an LSTM; without the initial one."""
        return self.history[:, 1:]

    @property
    def previous(self) -> Float[Tensor, "B T S"]:
        """The state s_{t−1} that each step starts from; the first is the initial state."""
        return self.history[:, :-1]

    @property
    def outputs(self) -> Float[Tensor, "B T H"]:
        """What the readout sees, h_t, the first half of an LSTM's state, all of another cell's."""
        return self.history[:, 1:, self.recurrence.shown]

    @property
    def hidden_size(self) -> int:
        """Number of neurons H."""
        return self.outputs.shape[-1]

    @cached_property
    def parameters(self) -> Direction:
        """The parameters of the scan by name, detached, the point at which B_t is taken."""
        return {name: parameter.detach() for name, parameter in self.recurrence.named_parameters()}

    @cached_property
    def gates(self) -> Any:
        """Gates and candidate at every step, (B, T, H) each; of a cell of `lwcore.cells`."""
        return self._closed_form.gates

    @cached_property
    def neurons(self) -> Neurons:
        """Retention and diagonal mixing at every step, of which the first two orders are made.

        Needs a recurrence with a closed form, as cells have; others know the exact order alone.
        """
        name = type(self.recurrence).__name__
        known = hasattr(self.recurrence, "closed_form")
        require("trace.recurrence", name, known, "a cell, for orders but the exact one")
        return self._closed_form.neurons()

    def jacobian(
        self, steps: int | Steps, sequences: Any = slice(None), *, closed: bool = True
    ) -> StepJacobian:
        """Return one-step Jacobians as operators, in closed form where there is one.

        Args:
            steps: One step, a slice of steps, or one for each entry of `sequences`.
            sequences: Which sequences, all by default.
            closed: Whether to take a closed form. Take False to hold it against autodiff.
        """
        if closed and hasattr(self.recurrence, "closed_form"):
            return self._closed_form.select((sequences, steps))
        inputs = self.inputs[sequences, steps]
        return StepJacobian(self.recurrence, inputs, self.previous[sequences, steps])

    @cached_property
    def _closed_form(self) -> Any:
        """Closed-form Jacobians of all steps, from which `jacobian` selects."""
        return self.recurrence.closed_form(self.inputs, self.previous)

    def stepped(self, x: Float[Tensor, "... D"], state: Float[Tensor, "... S"]) -> Any:
        """Return a step as a function of the parameters; the state before it is held fixed.

        Its derivative is Eq. (3)'s ``B_t = ∂⁺s_t/∂θ``. The function takes parameters by name.
        """
        # `functional_call` replaces the parameters of a module's forward, and a step is none: so a
        # module around the recurrence, of which the step is the forward.
        module: Any = nn.Module()
        module.recurrence = self.recurrence
        module.forward = self.recurrence.step

        def step(parameters: Direction) -> Any:
            inside = {f"recurrence.{name}": tensor for name, tensor in parameters.items()}
            return functional_call(module, inside, (x, state))

        return step

    @own_precision
    def gathered_each(
        self, rows: Float[Tensor, "B steps S"], steps: Steps = slice(None)
    ) -> Float[Tensor, "B P"]:
        """Return each sequence's own gradient ``Σ_t λ_tᵀ B_t``, as one vector of all parameters.

        The rows λ_t are gradients in the states after the given steps, all steps by default: those
        of `backpropagate` give the whole gradient, those of `lwcore.gradient.carry_back` a lag's
        part.
        """

        def gradient_of_one(x: Tensor, state: Tensor, row: Tensor) -> Any:
            pull_to_parameters = vjp(self.stepped(x, state), self.parameters)[1]
            return pull_to_parameters(row)[0]

        inputs = self.inputs[:, steps]
        previous = self.previous[:, steps]
        return as_vectors(vmap(gradient_of_one)(inputs, previous, rows))

    def backpropagate(self, loss_gradients: Float[Tensor, "B T _"]) -> Float[Tensor, "B T S"]:
        """Return the loss gradient in every state, ``λ_t = δ_t + λ_{t+1} J_{t+1}``.

        The backward recursion of Eq. (3). The loss gradients δ_t are those in outputs or states.
        """
        adjoint = self.lifted(loss_gradients).contiguous()
        for t in range(self.length - 1, 0, -1):
            row = adjoint[:, t].unsqueeze(-2)
            adjoint[:, t - 1] += self.jacobian(t).pull(row).squeeze(-2)
        return adjoint

    def lifted(self, rows: Float[Tensor, "... _"]) -> Float[Tensor, "... S"]:
        """Return gradients in the outputs, or in all of the state, as gradients in the state."""
        state_size = self.history.shape[-1]
        if rows.shape[-1] == state_size:
            return rows.clone()
        lifted = rows.new_zeros(*rows.shape[:-1], state_size)
        lifted[..., self.recurrence.shown] = rows
        return lifted

    def carried(self, states: Float[Tensor, "... S"]) -> Float[Tensor, "... H"]:
        """Select the entries that carry gradients from step to step: h, or the c of an LSTM."""
        return states[..., self.recurrence.carried]
