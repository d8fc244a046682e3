"""One gated cell that keeps, lets in, and shows; every recurrence of the paper is a setting of it.

A step computes::

    g_t = tanh(N(W x_t + U (r_t ⊙ h_{t−1}) + b)),   c_t = a_t ⊙ c_{t−1} + b_t ⊙ g_t,   h_t = o_t ⊙
    tanh(c_t),

with gates ``σ(W x_t + U h_{t−1} + b)`` that a family makes, ties or leaves out:

==========  ==========  ============  =======  ======  ==================================
family      keep a      let in b      reset r  show o  equations
==========  ==========  ============  =======  ======  ==================================
ConstGate   1 − s       s, fixed      –        –       (51), (52)
SharedGate  1 − s       s, one row    –        –       (49), (50)
DiagGate    1 − s       s             –        –       (47), (48)
GRU         1 − z       z             r        –       (15)–(22)
LSTM        f           i             –        o       (4)–(11)
MinGRU      1 − z       z, of x only  –        –       Feng et al., 2024; g = N(W x + b)
MinLSTM     f/(f + i)   i/(f + i)     –        –       Feng et al., 2024; g = N(W x + b)
==========  ==========  ============  =======  ======  ==================================

Without a show gate h is c. N is layer normalisation or the identity. The last two have no recurrent
weights at all: their mixing is zero, zeroth order is exact, and a scan takes about 2√T steps in
place of T.
"""

from __future__ import annotations

import copy
import math
from typing import Any, ClassVar, NamedTuple, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lwcore import kernels
from lwcore.arguments import instance_of, integer_in, one_of, real_in, sequence_of
from lwcore.kernels import EPSILON
from lwcore.tensors import finite, torch_generator
from lwcore.trace import Condensed, Neurons, StepJacobian, Trace

INITS = ("orthogonal", "uniform")


class Gates(NamedTuple):
    """All that a step computes, (..., H) each: its gates, the candidate before and behind N and
    tanh, what is reset, and the state."""

    keep: Tensor
    let_in: Tensor
    reset: Tensor | None
    show: Tensor | None
    raw: Tensor
    candidate: Tensor
    resettable: Tensor
    cell: Tensor
    hidden: Tensor


class Cell(nn.Module):
    """A gated recurrence that scans a batch of sequences.

    Attributes:
        blocks: The blocks of parameter rows in their order, PyTorch's: gates, and the candidate.
        linear: Whether gates and candidate see the input alone.
        shared: Whether one gate serves all neurons.
        weight_ih: W of all blocks, (K, D).
        weight_hh: U in the same order, (K, H); none if `linear`.
        bias: b, (K,).
        norm_weight: With `layernorm`, the gain behind it, (H,).
        norm_bias: With `layernorm`, the offset behind it, (H,).
    """

    blocks: ClassVar[tuple[str, ...]] = ("let_in", "candidate")
    linear: ClassVar[bool] = False
    shared: ClassVar[bool] = False
    reset: str = "before"
    weight_ih: nn.Parameter
    weight_hh: nn.Parameter
    bias: nn.Parameter
    norm_weight: nn.Parameter
    norm_bias: nn.Parameter
    bias_hh: nn.Parameter

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

        ``init="orthogonal"``: every recurrent block starts orthogonal, input weights are Gaussian
        of variance 1/D, and those of the gates are scaled by `gate_spread`, so that gates start
        close to their initial value, which the bias sets: `gate_init` is the share of the state
        that a step replaces (for `ConstGate` for good); reset and show gates start at 1/2.
        ``init="uniform"``: everything as in `torch.nn.LSTM`, uniform on ±1/√H, the bias as the sum
        of its two; gates then start near 1/2.
        """
        super().__init__()
        self.input_size = integer_in("input_size", input_size, 1)
        self.hidden_size = hidden = integer_in("hidden_size", hidden_size, 1)
        self.layernorm: bool = instance_of("layernorm", layernorm, bool)
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise ValueError(f"dtype = {dtype!r}: must be a floating torch.dtype.")
        torch_generator("generator", generator)
        self.gate_init = real_in("gate_init", gate_init, "(0, 1)")
        spread = real_in("gate_spread", gate_spread, "[0, inf)")
        one_of("init", init, INITS)
        self.rows = [1 if self.shared and block != "candidate" else hidden for block in self.blocks]
        shapes = {
            "weight_ih": (sum(self.rows), self.input_size),
            "weight_hh": (sum(self.rows), hidden),
            "bias": (sum(self.rows),),
        }
        if init == "uniform":
            draws = {name: uniform(shape, hidden, generator) for name, shape in shapes.items()}
            draws["bias"] += uniform(shapes["bias"], hidden, generator)
        else:
            draws = {
                "weight_ih": torch.randn(
                    shapes["weight_ih"], generator=generator, dtype=torch.float64
                )
                / math.sqrt(self.input_size)
            }
            squares = [
                torch.empty(rows, hidden, dtype=torch.float64)
                for rows in self.rows
                if not self.linear
            ]
            draws["weight_hh"] = torch.cat(
                [nn.init.orthogonal_(square, generator=generator) for square in squares]
                or [torch.empty(0)]
            )
            draws["bias"] = torch.zeros(shapes["bias"], dtype=torch.float64)
            start = {
                "let_in": self.gate_init,
                "keep": 1 - self.gate_init,
                "reset": 0.5,
                "show": 0.5,
            }
            for block, *of_block in zip(
                self.blocks,
                *(draws[name].split(self.rows) for name in draws if draws[name].numel()),
                strict=True,
            ):
                if block in start:
                    *weights, bias = of_block
                    for weight in weights:
                        weight *= spread
                    bias.fill_(math.log(start[block] / (1 - start[block])))
        if self.linear:
            del draws["weight_hh"]
        for name, draw in draws.items():
            setattr(self, name, nn.Parameter(draw.to(dtype)))
        if layernorm:
            self.norm_weight = nn.Parameter(torch.ones(hidden, dtype=dtype))
            self.norm_bias = nn.Parameter(torch.zeros(hidden, dtype=dtype))

    def __init_subclass__(cls) -> None:
        """Refuse a family that the kernels and the closed form would get wrong."""
        if (
            "show" in cls.blocks
            if cls.linear
            else cls.shares is not Cell.shares or (cls.shared and len(cls.blocks) > 2)
        ):
            raise TypeError(
                f"{cls.__name__}: `shares` is of a linear family, which shows c itself; a shared "
                "gate must be the only one."
            )

    @property
    def state_size(self) -> int:
        """Entries S of the recurrent state: h, or h and then c."""
        return self.hidden_size * (2 if "show" in self.blocks else 1)

    @property
    def shown(self) -> slice:
        """Where h stands in the state."""
        return slice(0, self.hidden_size)

    @property
    def carried(self) -> slice:
        """Where c stands in the state, in which gradients are carried from step to step."""
        return slice(self.state_size - self.hidden_size, self.state_size)

    def shares(self, pre: dict[str, Tensor], opened: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Turn gates into what is kept and what is let in: tied to one another where there is no
        gate that keeps."""
        let_in = opened.get("let_in", torch.full_like(pre["candidate"], self.gate_init))
        return opened["keep"] if "keep" in opened else 1 - let_in, let_in

    def block(self, name: str) -> Tensor:
        """The recurrent weights of a block, (rows, H)."""
        return self.weight_hh.split(self.rows)[self.blocks.index(name)]

    def gates(
        self,
        x: Float[Tensor, "... D"],
        kept: Float[Tensor, "... S"],
        seen: Float[Tensor, "... S"] | None = None,
    ) -> Gates:
        """Compute a step. Implements Eqs. (4)–(8), (15)–(18), (47), (49) and (51)."""
        h, c = (kept if seen is None else seen)[..., self.shown], kept[..., self.carried]
        pre = dict(
            zip(
                self.blocks,
                functional.linear(x, self.weight_ih, self.bias).split(self.rows, dim=-1),
                strict=True,
            )
        )
        if not self.linear:
            pre |= {
                gate: pre[gate] + h @ self.block(gate).mT
                for gate in self.blocks
                if gate != "candidate"
            }
        opened = {gate: torch.sigmoid(pre[gate]) for gate in self.blocks if gate != "candidate"}
        raw, resettable, reset = pre["candidate"], h, opened.get("reset")
        keep, let_in = self.shares(pre, opened)
        if not self.linear and reset is not None and self.reset == "after":
            resettable = h @ self.block("candidate").mT + self.bias_hh
            raw = raw + reset * resettable
        elif not self.linear:
            raw = raw + (h if reset is None else reset * h) @ self.block("candidate").mT
        candidate = (
            functional.layer_norm(
                raw, (self.hidden_size,), self.norm_weight, self.norm_bias, EPSILON
            )
            if self.layernorm
            else raw
        )
        candidate = candidate if self.linear else torch.tanh(candidate)
        cell, show = keep * c + let_in * candidate, opened.get("show")
        return Gates(
            keep,
            let_in,
            reset,
            show,
            raw,
            candidate,
            resettable,
            cell,
            cell if show is None else show * torch.tanh(cell),
        )

    def step(
        self,
        x: Float[Tensor, "... D"],
        kept: Float[Tensor, "... S"],
        seen: Float[Tensor, "... S"] | None = None,
    ) -> Tensor:
        """Take one step of the state, which comes as what is kept and, where it differs, as what is
        seen."""
        made = self.gates(x, kept, seen)
        return made.hidden if made.show is None else torch.cat([made.hidden, made.cell], dim=-1)

    def closed_form(
        self, inputs: Float[Tensor, "... D"], previous: Float[Tensor, "... S"]
    ) -> GatedJacobian:
        """Give one-step Jacobians in closed form."""
        return GatedJacobian(self, self.gates(inputs, previous), previous)

    def forward(self, inputs: Float[Tensor, "B T D"], state: Any = None) -> Float[Tensor, "B T H"]:
        """Scan sequences from an initial state, (B, H), for the LSTM the pair (h, c), or zero.

        Examples:
            >>> cell = LSTM(input_size=2, hidden_size=5, generator=torch.Generator().manual_seed(0))
            >>> tuple(cell(torch.zeros(3, 20, 2)).shape)
            (3, 20, 5)
        """
        return self._scan(*self._checked(inputs, state))[0]

    @torch.no_grad()
    def trace(self, inputs: Float[Tensor, "B T D"], state: Any = None) -> Trace:
        """Scan, and keep what transport needs: also the parameters as they are now.

        Examples:
            >>> cell = DiagGate(input_size=2, hidden_size=5, generator=torch.Generator().manual_seed(0))
            >>> trace = cell.trace(torch.zeros(3, 20, 2))
            >>> tuple(trace.gates.let_in.shape), tuple(trace.jacobian(7).dense().shape)
            ((3, 20, 5), (3, 5, 5))
        """
        inputs, first = self._checked(inputs, state)
        frozen = copy.deepcopy(self).requires_grad_(False)
        return Trace(
            frozen,
            inputs,
            torch.cat([first.unsqueeze(1), torch.cat(self._scan(inputs, first), dim=-1)], dim=1),
        )

    def unrolled(self, inputs: Float[Tensor, "B T D"], state: Any = None) -> Float[Tensor, "B T H"]:
        """Scan by `step`, one graph through all of time: what `forward` computes, left to autograd;
        slow."""
        return self._unrolled(*self._checked(inputs, state))[0]

    def _scan(self, inputs: Tensor, state: Tensor) -> tuple[Float[Tensor, "B T H"], ...]:
        """Scan in the fastest way there is: h, and c where it is another. Compiled, h is
        differentiable once."""
        if self.linear:
            made = self.gates(inputs, torch.zeros_like(state).unsqueeze(1))
            return (
                linear_scan(
                    made.keep.expand_as(made.candidate), made.let_in * made.candidate, state
                ),
            )
        if kernels.usable(inputs):
            return kernels.scan(self._layout(), inputs, state, dict(self.named_parameters()))
        # compiled on a GPU: this has not been run
        scan = torch.compile(self._unrolled) if inputs.is_cuda else self._unrolled
        return scan(inputs, state)

    def _unrolled(self, inputs: Tensor, state: Tensor) -> tuple[Float[Tensor, "B T H"], ...]:
        states = [state]
        for x in inputs.unbind(1):
            states.append(self.step(x, states[-1]))
        return torch.stack(states[1:], dim=1).split(self.hidden_size, dim=-1)

    def _layout(self) -> kernels.Layout:
        """Say to the kernels where the rows of each block begin."""
        first = dict(
            zip(self.blocks, [0, *torch.tensor(self.rows).cumsum(0).tolist()], strict=False)
        )
        places = {
            name: first.get(name, -1) for name in ("let_in", "keep", "candidate", "reset", "show")
        }
        return kernels.Layout(
            **places, shared=self.shared, after=self.reset == "after", constant=self.gate_init
        )

    def _checked(self, inputs: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        """Refuse what does not fit the cell; fill in the zero state."""
        if not isinstance(inputs, Tensor):
            raise TypeError(f"inputs is a {type(inputs).__name__}: must be a torch.Tensor.")
        if inputs.ndim != 3 or inputs.shape[-1] != self.input_size or inputs.numel() == 0:
            raise ValueError(
                f"inputs has shape {tuple(inputs.shape)}: must be (B ≥ 1, T ≥ 1, D = "
                f"{self.input_size})."
            )
        if inputs.dtype != self.bias.dtype:
            raise ValueError(
                f"inputs has dtype {inputs.dtype}: must be {self.bias.dtype}, that of the cell's "
                "parameters."
            )
        if not inputs.sum().isfinite():  # ten times as fast, and finite only if all entries are
            finite("inputs", inputs)
        if state is None:
            return inputs, inputs.new_zeros(len(inputs), self.state_size)
        parts = [state] if isinstance(state, Tensor) else sequence_of("state", state)
        wanted = self.state_size // self.hidden_size
        if len(parts) != wanted or not all(isinstance(part, Tensor) for part in parts):
            raise ValueError(
                f"state has {len(parts)} part(s): must be "
                f"{'a tensor' if wanted == 1 else f'{wanted} tensors'}."
            )
        for part in parts:
            if part.shape != (len(inputs), self.hidden_size) or part.dtype != self.bias.dtype:
                shape = f"(B = {len(inputs)}, H = {self.hidden_size}) and {self.bias.dtype}"
                raise ValueError(
                    f"state has shape {tuple(part.shape)} and dtype {part.dtype}: must have "
                    f"{shape}."
                )
            finite("state", part)
        return inputs, torch.cat(parts, dim=-1)


class ConstGate(Cell):
    """A leaky recurrence with one fixed gate value, Eq. (51)."""

    blocks = ("candidate",)


class SharedGate(Cell):
    """One learned gate for all neurons, new at every step, Eq. (49)."""

    shared = True


class DiagGate(Cell):
    """One learned gate a neuron, new at every step, Eq. (47)."""


class MinGRU(Cell):
    """A GRU whose gate and candidate see the input alone (Feng et al., 2024, "Were RNNs all we
    needed?")."""

    linear = True


class MinLSTM(Cell):
    """An LSTM whose gates see the input alone and are normalised to add up to 1 (Feng et al., 2024,
    "Were RNNs all we needed?")."""

    blocks = ("let_in", "keep", "candidate")
    linear = True

    def shares(self, pre: dict[str, Tensor], opened: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Keep ``f/(f + i)``, let in ``i/(f + i)``: of their logarithms, as both gates may be
        closed all the way."""
        apart = functional.logsigmoid(pre["keep"]) - functional.logsigmoid(pre["let_in"])
        return torch.sigmoid(apart), torch.sigmoid(-apart)


class GRU(Cell):
    """The gated recurrent unit, Eqs. (15)–(18).

    ``reset="before"`` the matrix product, as in the paper; or ``"after"`` it, as in PyTorch:
    ``tanh(W x + b + r ⊙ (U h + b_h))``.
    """

    blocks = ("reset", "let_in", "candidate")

    def __init__(
        self, input_size: int, hidden_size: int, *, reset: str = "before", **options: Any
    ) -> None:
        """Initialise the parameters; see `Cell`."""
        super().__init__(input_size, hidden_size, **options)
        self.reset = one_of("reset", reset, ("before", "after"))
        if reset == "after":
            self.bias_hh = nn.Parameter(torch.zeros_like(self.bias[:hidden_size]))
            if options.get("init") == "uniform":  # the candidate's two biases do not add up to one
                for bias in (self.bias.data[2 * hidden_size :], self.bias_hh.data):
                    bias.copy_(uniform((hidden_size,), hidden_size, options.get("generator")))

    @classmethod
    def from_torch(cls, layer: nn.GRU) -> Self:
        """Take over the weights of one layer of PyTorch's GRU; the two compute the same.

        PyTorch's update gate is what is kept, ours what is replaced: its weights change sign, for
        ``1 − σ(a) = σ(−a)``.
        """
        weight_ih, weight_hh, *biases = single_layer(layer, nn.GRU)
        hidden = layer.hidden_size
        cell = cls(layer.input_size, hidden, reset="after", dtype=weight_hh.dtype)
        of_input, of_state = biases or [nn.Parameter(torch.zeros_like(cell.bias))] * 2
        bias = torch.cat([of_input[: 2 * hidden] + of_state[: 2 * hidden], of_input[2 * hidden :]])
        sign = torch.ones_like(bias)
        sign[hidden : 2 * hidden] = -1
        rows = {
            "weight_ih": sign[:, None] * weight_ih,
            "weight_hh": sign[:, None] * weight_hh,
            "bias": sign * bias,
        }
        cell.load_state_dict(rows | {"bias_hh": of_state[2 * hidden :]})
        return cell


class LSTM(Cell):
    """The long short-term memory, Eqs. (4)–(8)."""

    blocks = ("let_in", "keep", "candidate", "show")

    @classmethod
    def from_torch(cls, layer: nn.LSTM) -> Self:
        """Take over the weights of one layer of PyTorch's LSTM; the two compute the same."""
        weight_ih, weight_hh, *biases = single_layer(layer, nn.LSTM)
        cell = cls(layer.input_size, layer.hidden_size, dtype=weight_hh.dtype)
        bias = biases[0] + biases[1] if biases else torch.zeros_like(cell.bias)
        cell.load_state_dict({"weight_ih": weight_ih, "weight_hh": weight_hh, "bias": bias})
        return cell


class GatedJacobian(StepJacobian):
    """One-step Jacobians of a gated cell in closed form. Implements Eqs. (9)–(11), (19)–(22), (48),
    (50) and (52).

    With a', b', r', o' the slopes of the gates, h_{t−1} acts on c_t through::

        R = diag(c a') U_a + diag(g b') U_b + diag(b (1 − g²)) N U (diag(r) + diag(h r') U_r),
        tied gates: a' = −b',

    so that ``J = diag(a) + R``; with a show gate, ``e = o (1 − tanh² c)`` and ``O = diag(tanh(c)
    o') U_o``, it is ``J = [[O + diag(e) R, diag(e a)], [R, diag(a)]]``.
    """

    def __init__(self, cell: Cell, made: Gates, previous: Float[Tensor, "... S"]) -> None:
        """Keep the slopes in which a step's pre-activations move c, or h for the show gate."""
        self.cell, self.made, self.states = cell, made, previous
        before, g, b = previous[..., cell.carried], made.candidate, made.let_in
        self.into: dict[str, Tensor] = {"candidate": b * (1 - g.square())}
        self.expression: Tensor | None = None
        self.normalised: Tensor | None = None
        if cell.linear:
            return
        if "let_in" in cell.blocks:
            self.into["let_in"] = (g if "keep" in cell.blocks else g - before) * b * (1 - b)
        if "keep" in cell.blocks:
            self.into["keep"] = before * made.keep * (1 - made.keep)
        if made.reset is not None:
            self.into["reset"] = made.resettable * made.reset * (1 - made.reset)
        if made.show is not None:
            shown = torch.tanh(made.cell)
            self.into["show"] = shown * made.show * (1 - made.show)
            self.expression = made.show * (1 - shown.square())
        if cell.layernorm:
            spread = (made.raw.var(-1, correction=0, keepdim=True) + EPSILON).rsqrt()
            self.normalised, self.scale = (
                (made.raw - made.raw.mean(-1, keepdim=True)) * spread,
                spread * cell.norm_weight,
            )

    def of(self, index: Any) -> GatedJacobian:
        """Choose sequences and steps, of which nothing is computed anew."""
        chosen = copy.copy(self)
        chosen.made = Gates(*(None if part is None else part[index] for part in self.made))  # type: ignore[arg-type]
        chosen.states, chosen.into = (
            self.states[index],
            {name: slope[index] for name, slope in self.into.items()},
        )
        chosen.expression = None if self.expression is None else self.expression[index]
        if self.normalised is not None:
            chosen.normalised, chosen.scale = self.normalised[index], self.scale[index]
        return chosen

    def _through_norm(self, rows: Tensor) -> Tensor:
        """Carry adjoints of the candidate's pre-activation, (..., k, H), from behind N to before
        it."""
        if self.normalised is None:
            return rows
        n = self.normalised.unsqueeze(-2)
        scaled = rows * self.scale.unsqueeze(-2)
        return scaled - scaled.mean(-1, keepdim=True) - n * (scaled * n).mean(-1, keepdim=True)

    def _mixed(self, cell_rows: Float[Tensor, "... k H"]) -> Float[Tensor, "... k H"]:
        """Multiply adjoints of c from the right with R."""
        cell, into = self.cell, {name: slope.unsqueeze(-2) for name, slope in self.into.items()}
        candidate = self._through_norm(cell_rows * into["candidate"])
        if self.made.reset is None:
            mixed = candidate @ cell.block("candidate")
        elif cell.reset == "after":
            mixed = (candidate * self.made.reset.unsqueeze(-2)) @ cell.block("candidate")
            mixed = mixed + (candidate * into["reset"]) @ cell.block("reset")
        else:
            reset = candidate @ cell.block("candidate")
            mixed = reset * self.made.reset.unsqueeze(-2) + (reset * into["reset"]) @ cell.block(
                "reset"
            )
        for gate in ("let_in", "keep"):
            if gate in into:
                pre = cell_rows * into[gate]
                mixed = mixed + (pre.sum(-1, keepdim=True) if cell.shared else pre) @ cell.block(
                    gate
                )
        return mixed

    def pull(self, rows: Float[Tensor, "... k S"]) -> Float[Tensor, "... k S"]:
        """Multiply from the right, ``rows · J``: one step of backpropagation."""
        keep = self.made.keep.unsqueeze(-2)
        if self.cell.linear:
            return rows * keep
        if self.expression is None:
            return torch.addcmul(self._mixed(rows), rows, keep)
        hidden, cell = rows.chunk(2, dim=-1)
        cell = torch.addcmul(cell, hidden, self.expression.unsqueeze(-2))
        output = (hidden * self.into["show"].unsqueeze(-2)) @ self.cell.block("show")
        return torch.cat([output + self._mixed(cell), cell * keep], dim=-1)

    def condensed(self) -> Condensed:
        """Form R, and O where there is a show gate: a product costs one matrix product with each
        then."""
        keep = self.made.keep.expand_as(self.made.candidate)
        eye = torch.eye(self.cell.hidden_size, dtype=keep.dtype, device=keep.device).expand(
            *keep.shape, -1
        )
        mixing = torch.zeros_like(eye) if self.cell.linear else self._mixed(eye)
        if self.expression is None:
            return Condensed(mixing + torch.diag_embed(keep))
        output = (
            None
            if self.expression is None
            else self.into["show"].unsqueeze(-1) * self.cell.block("show")
        )
        return Condensed(mixing, keep, self.expression, output)

    def neurons(self) -> Neurons:
        """Take the diagonals: ``a``, ``diag R``, and what the show gate does."""
        cell, into, keep = self.cell, self.into, self.made.keep.expand_as(self.made.candidate)
        if cell.linear:
            return Neurons(keep, torch.zeros_like(keep))
        own, reset = cell.block("candidate"), self.made.reset
        if reset is None:
            diagonal = own.diagonal()

            def pull(rows: Tensor) -> Tensor:
                return rows @ own

        elif cell.reset == "after":
            diagonal = reset * own.diagonal() + into["reset"] * cell.block("reset").diagonal()

            def pull(rows: Tensor) -> Tensor:
                return (rows * reset) @ own + (rows * into["reset"]) @ cell.block("reset")

        else:
            # Σ_k U[q,k] h[k] r'[k] U_r[k,q]: a sum over neurons, not the product of two diagonals
            diagonal = reset * own.diagonal() + into["reset"] @ (own * cell.block("reset").mT).mT

            def pull(rows: Tensor) -> Tensor:
                return (rows @ own) * reset + ((rows @ own) * into["reset"]) @ cell.block("reset")

        if self.normalised is not None:
            n = self.normalised
            diagonal = self.scale * (
                diagonal - (pull(torch.ones_like(n)) + n * pull(n)) / cell.hidden_size
            )
        mixing = into["candidate"] * diagonal
        for gate in ("let_in", "keep"):
            if gate in into:
                mixing = mixing + into[gate] * (
                    cell.block(gate)[0] if cell.shared else cell.block(gate).diagonal()
                )
        if self.expression is None:
            return Neurons(keep, mixing)
        # e_{t−1}; that of the initial state is never asked for
        before = functional.pad(self.expression[:, :-1], (0, 0, 1, 0))
        return Neurons(
            keep,
            mixing * before,
            self.expression,
            into["show"] * cell.block("show").diagonal() * before,
        )


class _LinearScan(torch.autograd.Function):
    """``h_t = a_t h_{t−1} + u_t``, whose way back is the same recurrence in reversed time."""

    @staticmethod
    def forward(ctx: Any, keep: Tensor, added: Tensor, initial: Tensor) -> Tensor:
        states = _cumulated(keep, added, initial)
        ctx.save_for_backward(keep, states, initial)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *of_states: Tensor) -> tuple[Tensor, ...]:
        keep, states, initial = ctx.saved_tensors
        later = functional.pad(keep[:, 1:], (0, 0, 0, 1)).flip(1)
        adjoint = _cumulated(later, of_states[0].flip(1), torch.zeros_like(initial)).flip(1)
        before = torch.cat([initial.unsqueeze(1), states[:, :-1]], dim=1)
        return adjoint * before, adjoint, adjoint[:, 0] * keep[:, 0]


def linear_scan(
    keep: Float[Tensor, "B T H"], added: Float[Tensor, "B T H"], initial: Float[Tensor, "B H"]
) -> Float[Tensor, "B T H"]:
    """Solve ``h_t = a_t h_{t−1} + u_t`` for all t in about 2√T steps, each over many entries;
    differentiable.

    Examples:
        >>> linear_scan(torch.full((1, 4, 1), 0.5), torch.ones(1, 4, 1), torch.zeros(1, 1)).flatten()
        tensor([1.0000, 1.5000, 1.7500, 1.8750])
    """
    return _LinearScan.apply(keep, added, initial)


def _cumulated(keep: Tensor, added: Tensor, initial: Tensor) -> Tensor:
    """Cut time into √T pieces, run through all pieces at once, then from piece to piece. Products
    are of gates alone: none can overflow."""
    length = keep.shape[1]
    size = math.isqrt(length - 1) + 1
    over = (0, 0, 0, -length % size)
    decay = functional.pad(keep, over).unflatten(1, (-1, size)).clone()
    local = functional.pad(added, over).unflatten(1, (-1, size)).clone()
    for j in range(1, size):
        local[:, :, j].addcmul_(decay[:, :, j], local[:, :, j - 1])
        decay[:, :, j].mul_(decay[:, :, j - 1])
    starts = [initial]
    for piece in range(local.shape[1] - 1):
        starts.append(torch.addcmul(local[:, piece, -1], decay[:, piece, -1], starts[-1]))
    return local.addcmul_(decay, torch.stack(starts, dim=1).unsqueeze(2)).flatten(1, 2)[:, :length]


def uniform(shape: tuple[int, ...], hidden: int, generator: torch.Generator | None) -> Tensor:
    """Draw as `torch.nn.LSTM` does, uniform on ±1/√H, in float64."""
    return (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1) / math.sqrt(hidden)


def single_layer(layer: nn.RNNBase, kind: type[nn.RNNBase]) -> list[nn.Parameter]:
    """Take input weights, recurrent weights and biases of a layer that is one recurrence."""
    if not isinstance(layer, kind):
        raise TypeError(f"layer is a {type(layer).__name__}: must be a torch.nn.{kind.__name__}.")
    if layer.num_layers != 1 or layer.bidirectional or layer.proj_size:
        found = f"num_layers={layer.num_layers}, bidirectional={layer.bidirectional}, proj_size={layer.proj_size}"
        raise ValueError(
            f"layer has {found}: must have one layer, one direction and no projection."
        )
    return layer.all_weights[0]
