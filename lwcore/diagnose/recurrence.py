"""Any recurrent module as one step of one state, and the gradient of its scan taken apart by lag: no closed form needed.

The state of a stack of layers is all their states side by side, (h¹, h², …), for an LSTM (h¹, c¹, h², c², …). One step maps it to the next;
inside a step a layer reads what the layer below has just written. So the one-step Jacobian ``J_t = ∂s_t/∂s_{t−1}`` of this state, and its
products, hold all paths through time and layers, and the immediate derivative ``B_t = ∂⁺s_t/∂θ`` all paths within a step. Both come from
automatic differentiation of the step; nothing is differentiated through time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from lwcore.cells import LSTM, Cell
from lwcore.cells.jacobian import AutodiffJacobian

SUPPORTED = (nn.LSTM, nn.GRU, nn.RNN, Cell)

Parameters = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Recurrence:
    """One step of a recurrent module, in float64 and on the processor.

    Attributes:
        step: Maps parameters, inputs (n, D) and states (n, S) to the next states (n, S), row by row.
        parameters: A copy of the module's, by their names in it.
        state_size: S.
        shown: Where in the state the outputs h of every layer stand, layer after layer, shape (layers · H,); the last H are the module's.
        carried: Where the parts stand in which gradients are carried from step to step: the LSTM's c, otherwise h; of the same shape.
        layer: The layer of each of them, from 0, of the same shape.
    """

    step: Callable[[Parameters, Tensor, Tensor], Tensor]
    parameters: Parameters
    state_size: int
    shown: Tensor
    carried: Tensor
    layer: Tensor

    @classmethod
    def of(cls, module: nn.Module) -> Recurrence:
        """Read a recurrent module.

        Args:
            module: `torch.nn.LSTM`, `GRU` or `RNN`, or a cell of `lwcore.cells`; it is not changed.

        Returns:
            Its step.

        Raises:
            TypeError: If the module is none of these.
            ValueError: If it runs in two directions or projects its outputs.
        """
        parameters = {name: p.detach().cpu().double() for name, p in module.named_parameters()}
        if isinstance(module, Cell):
            cell = _Step(copy.deepcopy(module).cpu().double())
            parts = 2 if isinstance(module, LSTM) else 1
            return cls._laid_out(cell.with_parameters, parameters, 1, parts, module.hidden_size)
        if not isinstance(module, nn.LSTM | nn.GRU | nn.RNN):
            raise TypeError(f"{_name(module)}: must be a torch.nn.LSTM, GRU or RNN, or a cell of lwcore.cells.")
        if module.bidirectional:
            raise ValueError(
                f"{_name(module)} is bidirectional: a lag needs one direction of time; diagnose a network that reads forwards."
            )
        if module.proj_size:
            raise ValueError(f"{_name(module)} has proj_size = {module.proj_size}: outputs that are projected are not supported, only 0.")
        kind, layers = module.mode, module.num_layers
        parts = 2 if kind == "LSTM" else 1
        width = parts * module.hidden_size

        def step(given: Parameters, inputs: Tensor, state: Tensor) -> Tensor:
            below, after = inputs, []
            for k, before in enumerate(state.split(width, dim=-1)):
                after.append(_layer_step(kind, given, f"_l{k}", below, before))
                below = after[-1][..., : module.hidden_size]
            return torch.cat(after, dim=-1)

        return cls._laid_out(step, parameters, layers, parts, module.hidden_size)

    @classmethod
    def _laid_out(
        cls, step: Callable[[Parameters, Tensor, Tensor], Tensor], parameters: Parameters, layers: int, parts: int, hidden: int
    ) -> Recurrence:
        """Say where in a state of `layers` times (h) or (h, c) everything stands."""
        places = torch.arange(layers * parts * hidden).unflatten(0, (layers, parts, hidden))
        layer = torch.arange(layers).repeat_interleave(hidden)
        return cls(step, parameters, places.numel(), places[:, 0].flatten(), places[:, -1].flatten(), layer)

    @torch.no_grad()
    def scan(self, inputs: Tensor, initial: Tensor) -> Scan:
        """Let sequences pass.

        Args:
            inputs: x, shape (B, T, D).
            initial: The state before the first step, shape (B, S).

        Returns:
            The scan.
        """
        states = [initial]
        for at_step in inputs.unbind(1):
            states.append(self.step(self.parameters, at_step, states[-1]))
        return Scan(self, inputs, torch.stack(states, dim=1))


@dataclass(frozen=True, eq=False)
class Scan:
    """What a pass over some sequences leaves behind.

    Attributes:
        recurrence: What was passed through.
        inputs: x, shape (B, T, D).
        history: s, the initial one in front, shape (B, T+1, S).
    """

    recurrence: Recurrence
    inputs: Tensor
    history: Tensor

    @property
    def length(self) -> int:
        """Number of time steps T."""
        return self.inputs.shape[1]

    @property
    def outputs(self) -> Tensor:
        """What the last layer shows, shape (B, T, H)."""
        recurrence = self.recurrence
        return self.history[:, 1:, recurrence.shown[recurrence.layer == recurrence.layer[-1]]]

    def jacobian(self, times: slice | Tensor) -> AutodiffJacobian:
        """Give the one-step Jacobians ``J_t`` of some steps, as operators.

        Args:
            times: The steps t, each in 0..T−1.

        Returns:
            The Jacobians, with leading axes (B, steps).
        """
        inputs = self.inputs[:, times].flatten(0, 1)
        recurrence = self.recurrence
        return AutodiffJacobian(lambda state: recurrence.step(recurrence.parameters, inputs, state), self.history[:, :-1][:, times])

    def gradients(self, rows: Tensor, times: slice) -> Tensor:
        """Give ``Σ_t λ_tᵀ B_t``, every sequence's own gradient from adjoints of some of its states.

        Args:
            rows: λ, shape (B, steps, S).
            times: The steps they belong to.

        Returns:
            Shape (B, number of parameters), in their order.
        """
        recurrence = self.recurrence

        def of_sequence(inputs: Tensor, state: Tensor, adjoint: Tensor) -> Tensor:
            _, backwards = torch.func.vjp(lambda given: recurrence.step(given, inputs, state), recurrence.parameters)  # type: ignore[misc]
            (gradient,) = backwards(adjoint)
            return torch.cat([part.flatten() for part in gradient.values()])

        return torch.func.vmap(of_sequence)(self.inputs[:, times], self.history[:, :-1][:, times], rows)

    def mean_gradient(self, rows: Tensor, times: slice) -> Tensor:
        """Give the mean over sequences of `gradients`, whose arguments are the same, shape (number of parameters,)."""
        share = torch.full((len(rows),), 1 / len(rows), dtype=rows.dtype)
        return self._weighted(rows, times, share)

    def along(self, rows: Tensor, times: slice, direction: Tensor) -> Tensor:
        """Give `gradients` along one direction in parameter space, ``Σ_t λ_tᵀ B_t w``, without forming any.

        Args:
            rows: λ, shape (B, steps, S).
            times: The steps they belong to.
            direction: w, shape (number of parameters,).

        Returns:
            Shape (B,).
        """
        share = torch.ones(len(rows), dtype=rows.dtype, requires_grad=True)  # of each sequence in a sum, which is linear in the shares
        with torch.enable_grad():
            (found,) = torch.autograd.grad(self._weighted(rows, times, share) @ direction, share)
        return found

    def _weighted(self, rows: Tensor, times: slice, share: Tensor) -> Tensor:
        """Add up sequences' gradients times a share of each, shape (number of parameters,)."""
        recurrence = self.recurrence
        with torch.enable_grad():
            given = {name: part.clone().requires_grad_() for name, part in recurrence.parameters.items()}
            after = recurrence.step(given, self.inputs[:, times].flatten(0, 1), self.history[:, :-1][:, times].flatten(0, 1))
            total = (rows * after.view_as(rows)).sum((1, 2)) @ share
            parts = torch.autograd.grad(total, list(given.values()), create_graph=share.requires_grad, materialize_grads=True)
        return torch.cat([part.flatten() for part in parts])

    def whole_gradient(self, loss_gradients: Tensor) -> Tensor:
        """Give every sequence's gradient, all lags together, by the backward recursion ``λ_t = δ_t + λ_{t+1} J_{t+1}`` of Eq. (3).

        Args:
            loss_gradients: δ, shape (B, T, S).

        Returns:
            Shape (B, number of parameters).
        """
        adjoint = loss_gradients.clone()
        for t in range(self.length - 1, 0, -1):
            adjoint[:, t - 1] += self.jacobian(slice(t, t + 1)).pull(adjoint[:, t, None, None])[:, 0, 0]
        return self.gradients(adjoint, slice(None))

    def lag_parts(self, loss_gradients: Tensor, lags: list[int]) -> Iterator[tuple[int, Tensor]]:
        """Take every sequence's gradient apart by lag. Implements Eq. (3).

        The lag-ℓ part is ``Σ_t δ_tᵀ M_{t,ℓ} B_{t−ℓ}`` over all end points t that have a step ℓ earlier. Over all lags 0..T−1 the parts add
        up to `whole_gradient`.

        Args:
            loss_gradients: δ, shape (B, T, S).
            lags: Lags, strictly increasing, each in 0..T−1.

        Yields:
            The lag, and its part, shape (B, number of parameters).
        """
        for lag, rows, times in self.lag_adjoints(loss_gradients, lags):
            yield lag, self.gradients(rows, times)

    def lag_adjoints(self, loss_gradients: Tensor, lags: list[int]) -> Iterator[tuple[int, Tensor, slice]]:
        """Carry every end's loss gradient back over each lag, ``δ_tᵀ M_{t,ℓ}``; the arguments are those of `lag_parts`.

        Yields:
            The lag, the rows, shape (B, steps, S), and the steps t − ℓ they belong to.
        """
        first = first_end(loss_gradients)
        rows = loss_gradients[:, first:]
        for lag in range(lags[-1] + 1):
            begin = max(first, lag)
            if lag:
                steps = slice(begin - lag + 1, self.length - lag + 1)
                rows = self.jacobian(steps).pull(rows[:, steps.start - steps.stop :, None]).squeeze(-2)
            if lag in lags:
                yield lag, rows, slice(begin - lag, self.length - lag)

    def rates(self, lags: list[int], ends: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Take the diagonal of the transport itself, and weigh what stands beside it.

        Args:
            lags: Lags, strictly increasing, each in 1..T−1.
            ends: End points t, increasing, each in max(lags)..T−1.

        Yields:
            For each lag the effective rates ``diag(∂h_t/∂h_{t−ℓ})``, of an LSTM ``diag(∂h_t/∂c_{t−ℓ})``, over the neurons of all layers,
            shape (B, ends, layers · H); and ``‖M − diag M‖_F / ‖M‖_F`` of that block, shape (B, ends), NaN where M is 0.
        """
        shown, carried, size = self.recurrence.shown, self.recurrence.carried, self.recurrence.state_size
        last = torch.tensor(ends)
        rows = torch.eye(size, dtype=self.history.dtype)[shown].expand(len(self.history), len(ends), -1, -1)
        for lag in range(1, lags[-1] + 1):
            rows = self.jacobian(last - lag + 1).pull(rows)
            if lag in lags:
                block = rows[..., carried]
                unit = block / block.abs().amax((-2, -1), keepdim=True)  # so that no square underflows
                beside = unit.clone()
                beside.diagonal(dim1=-2, dim2=-1).zero_()
                yield block.diagonal(dim1=-2, dim2=-1), (beside.square().sum((-2, -1)) / unit.square().sum((-2, -1))).sqrt()


def first_end(loss_gradients: Tensor) -> int:
    """Say from which step on there is a loss: the first at which any loss gradient is not zero, or the last if all are.

    Args:
        loss_gradients: δ, shape (B, T, S).

    Returns:
        The step.
    """
    there = loss_gradients.ne(0).any(-1).any(0).nonzero()
    return int(there[0]) if len(there) else loss_gradients.shape[1] - 1


class _Step(nn.Module):
    """One step of a cell as a module of its own, so that its parameters can be replaced."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Take the step."""
        return self.cell.step(inputs, state)

    def with_parameters(self, parameters: Parameters, inputs: Tensor, state: Tensor) -> Tensor:
        """Take the step with these parameters in the place of the cell's own."""
        return torch.func.functional_call(self, {f"cell.{name}": value for name, value in parameters.items()}, (inputs, state))


def _layer_step(kind: str, parameters: Parameters, suffix: str, inputs: Tensor, state: Tensor) -> Tensor:
    """One step of one of PyTorch's layers, as its documentation gives it; the state is h or (h, c)."""
    weights = [parameters.get(f"{name}{suffix}") for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")]
    h = state.chunk(2, dim=-1)[0] if kind == "LSTM" else state
    drive, recurrent = functional.linear(inputs, weights[0], weights[1]), functional.linear(h, weights[2], weights[3])  # type: ignore[arg-type]
    if kind == "LSTM":
        i, f, g, o = (drive + recurrent).chunk(4, dim=-1)
        c = torch.sigmoid(f) * state.chunk(2, dim=-1)[1] + torch.sigmoid(i) * torch.tanh(g)
        return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], dim=-1)
    if kind == "GRU":
        (r, z, g), (r_past, z_past, g_past) = drive.chunk(3, dim=-1), recurrent.chunk(3, dim=-1)
        kept = torch.sigmoid(z + z_past)  # PyTorch's z keeps, the paper's replaces
        return (1 - kept) * torch.tanh(g + torch.sigmoid(r + r_past) * g_past) + kept * h
    return torch.tanh(drive + recurrent) if kind == "RNN_TANH" else torch.relu(drive + recurrent)


def _name(module: nn.Module) -> str:
    """Name a module's class, for a message."""
    return f"model (a {type(module).__name__})"
