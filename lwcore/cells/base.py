"""What all cells share: parameters and their start, a differentiable scan, its trace, and one step as the equations say it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lwcore.arguments import instance_of, integer_in, one_of, real_in, sequence_of
from lwcore.cells import compiled
from lwcore.cells.jacobian import AutodiffJacobian
from lwcore.cells.loops import EPSILON
from lwcore.cells.trace import Trace, checked_times, with_ones
from lwcore.tensors import finite, torch_generator

INITS = ("orthogonal", "uniform")


class Block(NamedTuple):
    """The parameter rows of one gate or of the candidate.

    Attributes:
        rows: Number of rows.
        start: The gate's initial value; None for the candidate.
    """

    rows: int
    start: float | None


class Cell(nn.Module, ABC):
    """A recurrent layer that scans a batch of sequences.

    Attributes:
        input_size: Number of inputs D.
        hidden_size: Number of neurons H.
        layernorm: Whether the candidate's pre-activation is normalised over the neurons.
        weight_ih: Input weights of all gates and the candidate, block upon block; shape (K, D).
        weight_hh: Recurrent weights in the same order; shape (K, H).
        bias: Biases in the same order; shape (K,).
        norm_weight: With `layernorm`, the gain after it; shape (H,).
        norm_bias: With `layernorm`, the offset after it; shape (H,).
    """

    weight_ih: nn.Parameter
    weight_hh: nn.Parameter
    bias: nn.Parameter
    norm_weight: nn.Parameter
    norm_bias: nn.Parameter

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        layernorm: bool = False,
        gate_init: float = 0.5,
        gate_spread: float = 0.1,
        init: str = "orthogonal",
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Initialise the parameters.

        ``init="orthogonal"``: every recurrent block starts orthogonal, input weights are Gaussian of variance 1/D, and those of the gates
        are scaled by `gate_spread`, so that gates start close to their initial value, set by the bias. ``init="uniform"``: everything as
        in `torch.nn.LSTM`, uniform on ±1/√H (the bias as the sum of its two); the gates then start near 1/2.

        Args:
            input_size: D, at least 1.
            hidden_size: H, at least 1.
            layernorm: Normalise the candidate's pre-activation.
            gate_init: Share of the state that is replaced in a step at the start, in (0, 1): the gate s of the scalar gates (for
                `ConstGate` for good), z of the GRU, i = 1 − f of the LSTM.
            gate_spread: Scale of the gates' initial weights relative to the candidate's, at least 0.
            init: ``"orthogonal"`` or ``"uniform"``.
            generator: Source of the initial weights; torch's default one if None.
            dtype: Floating type of the parameters.

        Raises:
            TypeError: If `layernorm` is not True or False.
            ValueError: If `dtype` is not a floating type.
        """
        super().__init__()
        self.input_size = integer_in("input_size", input_size, 1)
        self.hidden_size = hidden = integer_in("hidden_size", hidden_size, 1)
        if not isinstance(layernorm, bool):
            raise TypeError(f"layernorm = {layernorm!r}: must be True or False.")
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise ValueError(f"dtype = {dtype!r}: must be a floating torch.dtype.")
        torch_generator("generator", generator)
        start = real_in("gate_init", gate_init, "(0, 1)")
        spread = real_in("gate_spread", gate_spread, "[0, inf)")
        blocks = self._blocks(start)
        rows = sum(block.rows for block in blocks)
        shapes = {"weight_ih": (rows, self.input_size), "weight_hh": (rows, hidden), "bias": (rows,)}
        if one_of("init", init, INITS) == "uniform":
            draws = {name: uniform(shape, hidden, generator) for name, shape in shapes.items()}
            draws["bias"] += uniform(shapes["bias"], hidden, generator)
        else:
            draws = {"weight_ih": torch.randn(shapes["weight_ih"], generator=generator, dtype=torch.float64) / math.sqrt(self.input_size)}
            squares = [torch.empty(block.rows, hidden, dtype=torch.float64) for block in blocks]
            for square in squares:
                nn.init.orthogonal_(square, generator=generator)
            draws |= {"weight_hh": torch.cat(squares), "bias": torch.zeros(rows, dtype=torch.float64)}
            first = 0
            for block in blocks:
                if block.start is not None:
                    of_gate = slice(first, first + block.rows)
                    draws["weight_ih"][of_gate] *= spread
                    draws["weight_hh"][of_gate] *= spread
                    draws["bias"][of_gate] = math.log(block.start / (1 - block.start))
                first += block.rows
        for name, draw in draws.items():
            setattr(self, name, nn.Parameter(draw.to(dtype)))
        self.layernorm = layernorm
        if layernorm:
            self.norm_weight = nn.Parameter(torch.ones(hidden, dtype=dtype))
            self.norm_bias = nn.Parameter(torch.zeros(hidden, dtype=dtype))

    @abstractmethod
    def _blocks(self, start: float) -> list[Block]:
        """List the blocks of parameter rows, in their order."""

    @abstractmethod
    def _scan(self, inputs: Tensor, initial: Tensor) -> Trace:
        """Scan checked arguments, (B, T, D) and (B, S); the trace refers to the live parameters."""

    @abstractmethod
    def step(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Take one step, as the equations say it; slow, differentiable any number of times.

        Args:
            inputs: x_t, shape (n, D).
            state: ``s_{t−1}``, shape (n, S).

        Returns:
            s_t, shape (n, S).
        """

    @property
    def state_size(self) -> int:
        """Number of entries S of the recurrent state."""
        return self.hidden_size

    def forward(self, inputs: Tensor, state: Any = None) -> Tensor:
        """Scan the sequences; differentiable once, by the backward recursion of Eq. (3).

        Args:
            inputs: x, shape (B, T, D).
            state: The initial state, shape (B, H), for the LSTM a pair of them; zero if None.

        Returns:
            h, shape (B, T, H).

        Examples:
            >>> from lwcore.cells import LSTM
            >>> cell = LSTM(input_size=2, hidden_size=5, generator=torch.Generator().manual_seed(0))
            >>> tuple(cell(torch.zeros(3, 20, 2)).shape)
            (3, 20, 5)
        """
        outputs, _ = self.scan(*self.checked_inputs(inputs, state))
        return outputs

    def scan(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Scan the sequences and give the last state too, so that a scan can go on where another has stopped.

        Where all parameters have an axis S in front, they are those of S cells, and so have all shapes: `lwcore.ensemble` uses this.

        Args:
            inputs: x, shape (B, T, D); not checked.
            state: The initial state, shape (B, S).

        Returns:
            h, shape (B, T, H), and s_T, shape (B, S).
        """
        outputs, rest = _Scan.apply(self, inputs, state, *self.parameters())
        return outputs, torch.cat([outputs[..., -1, :], rest], dim=-1)

    @torch.no_grad()
    def trace(self, inputs: Tensor, state: Any = None) -> Trace:
        """Scan the sequences and keep what transport needs; no autograd graph is made.

        Args:
            inputs: x, shape (B, T, D).
            state: The initial state, shape (B, H), for the LSTM a pair of them; zero if None.

        Returns:
            The trace. It keeps the parameters it was made with, also while training goes on.

        Examples:
            >>> from lwcore.cells import DiagGate
            >>> cell = DiagGate(input_size=2, hidden_size=5, generator=torch.Generator().manual_seed(0))
            >>> trace = cell.trace(torch.zeros(3, 20, 2))
            >>> tuple(trace.gate.shape), tuple(trace.jacobian(7).dense().shape)
            ((3, 20, 5), (3, 5, 5))
        """
        trace = self._scan(*self.checked_inputs(inputs, state))
        trace.parameters.update({name: parameter.detach().clone() for name, parameter in trace.parameters.items()})
        return trace

    def unrolled(self, inputs: Tensor, state: Any = None) -> Tensor:
        """Scan by `step`, one graph through all of time: what `forward` computes, left to autograd; slow.

        Args:
            inputs: x, shape (B, T, D).
            state: As for `forward`.

        Returns:
            h, shape (B, T, H).
        """
        inputs, current = self.checked_inputs(inputs, state)
        states = []
        for at_step in inputs.unbind(1):
            current = self.step(at_step, current)
            states.append(current[:, : self.hidden_size])
        return torch.stack(states, dim=1)

    def _drive(self, inputs: Tensor, rows: slice) -> Tensor:
        """Give the inputs' part of some pre-activations, ``W x + b``, block by block of H, (G, [S], T, B, H), as the loops want it."""
        flat, (batch, steps, _) = with_ones(inputs).flatten(-3, -2), inputs.shape[-3:]
        weights = torch.cat([self.weight_ih[..., rows, :], self.bias[..., rows].unsqueeze(-1)], dim=-1)
        if not compiled.usable(inputs):
            return (flat @ weights.mT).unflatten(-1, (-1, self.hidden_size)).unflatten(-3, (steps, batch)).movedim(-2, 0)
        blocks = weights.unflatten(0, (-1, self.hidden_size))
        drive = inputs.new_empty(len(blocks), steps, batch, self.hidden_size)
        for block, weight in zip(drive, blocks, strict=True):
            torch.mm(flat, weight.t(), out=block.flatten(0, 1))
        return drive

    def _room(self, drive: Tensor, initial: Tensor) -> Tensor:
        """Make room for the states of a scan, (T+1, [S], B, H), a network's in one piece, with the first in place."""
        *several, steps, batch, size = drive.shape[1:]
        states = drive.new_empty(*several, steps + 1, batch, size).movedim(-3, 0)
        states[0] = initial
        return states

    def autodiff_jacobian(self, trace: Trace, times: int | slice | Tensor) -> AutodiffJacobian:
        """Give the one-step Jacobians by automatic differentiation of `step`: the second, independent way to `Trace.jacobian`.

        Args:
            trace: A trace of this cell, made with the parameters it has now.
            times: As for `Trace.jacobian`.

        Returns:
            The Jacobians as operators.
        """
        times = checked_times(times, instance_of("trace", trace, Trace).length)
        states, inputs = trace.previous[:, times], trace.inputs[:, times]
        flat = inputs.flatten(0, -2)
        return AutodiffJacobian(lambda state: self.step(flat, state), states)

    def _normalise(self, pre: Tensor) -> Tensor:
        """Apply the candidate's layer normalisation, if there is one, in a way autograd can follow."""
        return functional.layer_norm(pre, (self.hidden_size,), self.norm_weight, self.norm_bias, EPSILON) if self.layernorm else pre

    def checked_inputs(self, inputs: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        """Check the shapes of a scan's arguments and fill in the zero initial state.

        Args:
            inputs: x, shape (B, T, D), not empty.
            state: The initial state, or None.

        Returns:
            The inputs and the initial state, (B, S).

        Raises:
            TypeError: If the inputs are not a tensor.
            ValueError: If a shape or dtype does not fit the cell, or inputs are NaN or infinite.
        """
        if not isinstance(inputs, Tensor):
            raise TypeError(f"inputs is a {type(inputs).__name__}: must be a torch.Tensor.")
        if inputs.ndim != self.bias.ndim + 2 or inputs.shape[-1] != self.input_size or inputs.numel() == 0:
            raise ValueError(f"inputs has shape {tuple(inputs.shape)}: must be (B ≥ 1, T ≥ 1, D = {self.input_size}).")
        dtype = self.bias.dtype
        if inputs.dtype != dtype:
            raise ValueError(f"inputs has dtype {inputs.dtype}: must be {dtype}, that of the cell's parameters.")
        if not compiled.recording(inputs):  # a CUDA graph cannot record it, for the processor would wait
            finite("inputs", inputs)
        parts = self.state_size // self.hidden_size
        if state is None:
            return inputs, inputs.new_zeros(*inputs.shape[:-2], self.state_size)
        given = [state] if isinstance(state, Tensor) else sequence_of("state", state)
        if len(given) != parts or not all(isinstance(part, Tensor) for part in given):
            raise ValueError(f"state has {len(given)} part(s): must be {'a tensor' if parts == 1 else f'{parts} tensors'}.")
        for part in given:
            if part.shape != (*inputs.shape[:-2], self.hidden_size) or part.dtype != dtype:
                wanted = f"(B = {inputs.shape[0]}, H = {self.hidden_size}) and {dtype}"
                raise ValueError(f"state has shape {tuple(part.shape)} and dtype {part.dtype}: must have {wanted}.")
            if not part.isfinite().all():
                raise ValueError("state: some entries are NaN or infinite; all must be finite.")
        return inputs, torch.cat(given, dim=-1)


class _Scan(torch.autograd.Function):
    """A cell's scan as a differentiable function whose backward pass is Eq. (3), read off the trace.

    The trace goes through `save_for_backward`, so that autograd notices when outputs or parameters are changed before the backward pass,
    and that checkpointing can let go of it.
    """

    @staticmethod
    def forward(ctx: Any, cell: Cell, inputs: Tensor, initial: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        trace = cell._scan(inputs, initial)
        tensors, ctx.rebuild = trace.taken_apart()
        ctx.save_for_backward(*tensors)
        return trace.outputs, trace.last_rest.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradients: Tensor, of_rest: Tensor) -> tuple[Tensor | None, ...]:
        trace = ctx.rebuild(ctx.saved_tensors)
        adjoints = trace.backward(loss_gradients, of_rest)
        of_inputs = torch.cat(adjoints.pre, dim=-1) @ trace.parameters["weight_ih"] if ctx.needs_input_grad[1] else None
        return None, of_inputs, adjoints.initial, *trace.gradients(adjoints).values()


def uniform(shape: tuple[int, ...], hidden: int, generator: torch.Generator | None) -> Tensor:
    """Draw as `torch.nn.LSTM` does, uniform on ±1/√H, in float64."""
    return (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1) / math.sqrt(hidden)


def preactivation(parameters: dict[str, Tensor], inputs: Tensor, recurrent: Tensor, block: slice | None = None) -> Tensor:
    """Compute ``W x + U h + b`` for a block of rows, or all of them.

    Args:
        parameters: Weights and biases, or a direction in their space.
        inputs: x, shape (..., D).
        recurrent: What the recurrent weights act on, shape (..., H).
        block: The rows; all if None.

    Returns:
        Shape (..., rows).
    """
    rows = slice(None) if block is None else block
    return inputs @ parameters["weight_ih"][rows].t() + recurrent @ parameters["weight_hh"][rows].t() + parameters["bias"][rows]


class NormRecord:
    """Layer normalisation of a scan's candidates, step by step, keeping what its Jacobian needs; time-major."""

    def __init__(self, cell: Cell, blocks: Tensor) -> None:
        """Make room for every step of blocks (G, T, [S], B, H), none if the cell does not normalise."""
        self.on, like = cell.layernorm, cell.bias
        self.weight, self.bias = (cell.norm_weight, cell.norm_bias) if self.on else (like.new_empty(0),) * 2
        self.normalised = like.new_empty(blocks.shape[1:] if self.on else (0, 0, 0))
        self.inverse = like.new_empty(blocks.shape[1:-1] if self.on else (0, 0))

    @property
    def parts(self) -> dict[str, Tensor | None]:
        """The trace's `normalised` and `inverse`, batch first."""
        if not self.on:
            return {"normalised": None, "inverse": None}
        return {"normalised": self.normalised.movedim(0, -2), "inverse": self.inverse.movedim(0, -1).unsqueeze(-1)}
