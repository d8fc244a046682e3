"""One gated cell that keeps, lets in, and shows; every recurrence of the paper is a setting of it.

A step computes::

    g_t = tanh(N(W x_t + U (r_t ⊙ h_{t−1}) + b)),
    c_t = a_t ⊙ c_{t−1} + b_t ⊙ g_t,   h_t = o_t ⊙ tanh(c_t),

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
weights at all: their mixing is zero, zeroth order is exact, and a scan takes about 2√T steps.
"""

from __future__ import annotations

import copy
import math
from itertools import accumulate
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lwcore import kernels
from lwcore.kernels import EPSILON
from lwcore.signatures import Count, NotNegative, Share, checked, require
from lwcore.trace import Neurons, Products, StepJacobian, Steps, Trace

Input = Float[Tensor, "... D"]
Past = Float[Tensor, "... S"]
State = Float[Tensor, "B H"] | tuple[Float[Tensor, "B H"], Float[Tensor, "B H"]]


class Gates(NamedTuple):
    """A step, (..., H) each; `raw` is the candidate before N, `resettable` what r acts on."""

    keep: Tensor
    let_in: Tensor
    reset: Tensor | None
    show: Tensor | None
    raw: Tensor
    candidate: Tensor
    resettable: Tensor
    cell: Tensor
    hidden: Tensor


@checked
class Cell(nn.Module):
    """A gated recurrence that scans a batch of sequences.

    Gates start near their initial value: `gate_init` is the share of the state that a step replaces
    (for `ConstGate` for good), reset and show gates start at 1/2, and `gate_spread` scales the
    gates' weights. These are Gaussian of variance 1/D for inputs, and orthogonal for states. With
    ``init="uniform"`` all is drawn as `torch.nn.LSTM` does, and gates start near 1/2.
    """

    blocks: ClassVar[tuple[str, ...]] = ("let_in", "candidate")  # of parameter rows, in order
    linear: ClassVar[bool] = False  # gates and candidate see the input alone: no weight_hh
    shared: ClassVar[bool] = False  # one gate serves all neurons
    weight_ih: nn.Parameter  # W of all blocks, (K, D)
    weight_hh: nn.Parameter  # U in the same order, (K, H)
    bias: nn.Parameter  # (K,)
    bias_hh: nn.Parameter  # of a candidate that is reset after the product, (H,)
    norm_weight: nn.Parameter  # gain and offset of the layer normalisation, (H,)
    norm_bias: nn.Parameter

    def __init__(
        self,
        input_size: Count,
        hidden_size: Count,
        *,
        layernorm: bool = False,
        gate_init: Share = 0.5,
        gate_spread: NotNegative = 0.1,
        init: Literal["orthogonal", "uniform"] = "orthogonal",
        reset: Literal["before", "after"] = "before",
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """A cell with parameters drawn in float64."""
        super().__init__()
        require("dtype", dtype, dtype.is_floating_point, "a floating type")
        gated = reset == "before" or "reset" in self.blocks
        require("reset", reset, gated, "'before', without a reset gate")
        self.input_size, self.hidden_size = int(input_size), int(hidden_size)
        self.layernorm, self.gate_init, self.reset = layernorm, float(gate_init), reset
        self.state_size = self.hidden_size * (2 if "show" in self.blocks else 1)  # h, or h and c
        self.shown = slice(0, self.hidden_size)
        self.carried = slice(self.state_size - self.hidden_size, self.state_size)
        self.rows = [1 if self.shared and b != "candidate" else hidden_size for b in self.blocks]
        start = _uniform if init == "uniform" else _orthogonal
        for name, draw in start(self, gate_spread, generator).items():
            setattr(self, name, nn.Parameter(draw.to(dtype)))
        if layernorm:
            self.norm_weight = nn.Parameter(torch.ones(hidden_size, dtype=dtype))
            self.norm_bias = nn.Parameter(torch.zeros(hidden_size, dtype=dtype))

    def __init_subclass__(cls) -> None:
        """Refuse a family that the kernels and the closed form would get wrong."""
        own = cls.shares is not Cell.shares
        if "show" in cls.blocks if cls.linear else own or (cls.shared and len(cls.blocks) > 2):
            raise TypeError(
                f"{cls.__name__}: `shares` is of a linear family, which shows c itself; a shared "
                "gate must be the only one."
            )

    def shares(self, pre: dict[str, Tensor], opened: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """What is kept and what is let in, tied to one another where no gate keeps."""
        let_in = opened.get("let_in", torch.full_like(pre["candidate"], self.gate_init))
        return opened["keep"] if "keep" in opened else 1 - let_in, let_in

    def block(self, name: str) -> Tensor:
        """The recurrent weights of a block, (rows, H)."""
        return self.weight_hh.split(self.rows)[self.blocks.index(name)]

    def gates(self, x: Input, kept: Past, seen: Past | None = None) -> Gates:
        """All that a step computes. Implements Eqs. (4)–(8), (15)–(18), (47), (49) and (51)."""
        h, c = (kept if seen is None else seen)[..., self.shown], kept[..., self.carried]
        driven = functional.linear(x, self.weight_ih, self.bias).split(self.rows, dim=-1)
        pre, gates = dict(zip(self.blocks, driven, strict=True)), {*self.blocks} - {"candidate"}
        if not self.linear:
            pre |= {gate: pre[gate] + h @ self.block(gate).mT for gate in gates}
        opened = {gate: torch.sigmoid(pre[gate]) for gate in gates}
        keep, let_in = self.shares(pre, opened)
        raw, resettable, reset = pre["candidate"], h, opened.get("reset")
        if self.reset == "after":
            resettable = h @ self.block("candidate").mT + self.bias_hh
            raw = raw + opened["reset"] * resettable
        elif not self.linear:
            raw = raw + (h if reset is None else reset * h) @ self.block("candidate").mT
        candidate = raw
        if self.layernorm:
            shape, gain = (self.hidden_size,), self.norm_weight
            candidate = functional.layer_norm(raw, shape, gain, self.norm_bias, EPSILON)
        if not self.linear:
            candidate = torch.tanh(candidate)
        cell, show = keep * c + let_in * candidate, opened.get("show")
        hidden = cell if show is None else show * torch.tanh(cell)
        return Gates(keep, let_in, reset, show, raw, candidate, resettable, cell, hidden)

    def step(self, x: Input, kept: Past, seen: Past | None = None) -> Past:
        """The next state, from what is kept of the last and, where it differs, what is seen."""
        made = self.gates(x, kept, seen)
        return made.hidden if made.show is None else torch.cat([made.hidden, made.cell], dim=-1)

    def closed_form(self, inputs: Input, previous: Past) -> GatedJacobian:
        """One-step Jacobians in closed form."""
        return GatedJacobian(self, self.gates(inputs, previous), previous)

    def forward(self, inputs: Float[Tensor, "B T D"], state: State | None = None) -> Tensor:
        """The outputs h (B, T, H) from an initial state, for the LSTM the pair (h, c), or zero.

        Examples:
            >>> tuple(LSTM(input_size=2, hidden_size=5)(torch.zeros(3, 20, 2)).shape)
            (3, 20, 5)
        """
        return self._scan(*self._entered(inputs, state))[0]

    @torch.no_grad()
    def trace(self, inputs: Float[Tensor, "B T D"], state: State | None = None) -> Trace:
        """A scan with all that transport needs: the parameters as they are now, too.

        Examples:
            >>> trace = DiagGate(input_size=2, hidden_size=5).trace(torch.zeros(3, 20, 2))
            >>> tuple(trace.gates.let_in.shape), tuple(trace.jacobian(7).dense().shape)
            ((3, 20, 5), (3, 5, 5))
        """
        inputs, first = self._entered(inputs, state)
        states = torch.cat(self._scan(inputs, first), dim=-1)
        frozen = copy.deepcopy(self).requires_grad_(False)
        return Trace(frozen, inputs, torch.cat([first.unsqueeze(1), states], dim=1))

    def unrolled(self, inputs: Float[Tensor, "B T D"], state: State | None = None) -> Tensor:
        """What `forward` computes, by `step` and autograd through all of time; slow."""
        return self._unrolled(*self._entered(inputs, state))[0]

    def _scan(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        """The fastest scan there is: h, and c where it is another. Compiled, h differs once."""
        if self.linear:
            made = self.gates(inputs, torch.zeros_like(state).unsqueeze(1))
            keep = made.keep.expand_as(made.candidate)
            return (_LinearScan.apply(keep, made.let_in * made.candidate, state),)
        if kernels.usable(inputs):
            first = dict(zip(self.blocks, accumulate(self.rows, initial=0), strict=False))
            places = [first.get(name, -1) for name in kernels.Layout._fields[:5]]
            use = [self.shared, self.reset == "after", self.gate_init]
            parameters: dict[str, Tensor] = dict(self.named_parameters())
            return kernels.scan(kernels.Layout._make(places + use), inputs, state, parameters)
        # compiled on a GPU: this has not been run
        scan = torch.compile(self._unrolled) if inputs.is_cuda else self._unrolled
        return scan(inputs, state)

    def _unrolled(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        states = [state]
        for x in inputs.unbind(1):
            states.append(self.step(x, states[-1]))
        return torch.stack(states[1:], dim=1).split(self.hidden_size, dim=-1)

    def _entered(self, inputs: Tensor, state: State | None) -> tuple[Tensor, Tensor]:
        """Inputs that fit the cell, and the initial state in one piece, (B, S).

        Inputs are checked by hand, as every training step comes by here.
        """
        dtype, width, size = self.bias.dtype, self.input_size, self.state_size
        fits = isinstance(inputs, Tensor) and inputs.dtype == dtype and inputs.numel() > 0
        fits = fits and inputs.ndim == 3 and inputs.shape[2] == width
        require("inputs", inputs, fits, f"a tensor of {dtype} and shape (B, T, {width}), not empty")
        joined = inputs.new_zeros(len(inputs), size) if state is None else _joined(state)
        fits = joined.shape == (len(inputs), size) and joined.dtype == dtype
        require("state", joined, fits, f"of {dtype} and, h beside c, of shape {len(inputs), size}")
        for name, given in (("inputs", inputs), ("state", joined)):
            # a sum is ten times as fast, and finite only if all entries are
            require(name, given, bool(given.sum().isfinite() or given.isfinite().all()), "finite")
        return inputs, joined


@checked
def _joined(state: State) -> Tensor:
    return state if isinstance(state, Tensor) else torch.cat(state, dim=-1)


class ConstGate(Cell):
    """A leaky recurrence with one fixed gate value, Eq. (51)."""

    blocks = ("candidate",)


class SharedGate(Cell):
    """One learned gate for all neurons, new at every step, Eq. (49)."""

    shared = True


class DiagGate(Cell):
    """One learned gate a neuron, new at every step, Eq. (47)."""


class MinGRU(Cell):
    """A GRU whose gate and candidate see the input alone (Feng et al., 2024)."""

    linear = True


class MinLSTM(Cell):
    """An LSTM whose gates see the input alone and add up to 1 (Feng et al., 2024)."""

    blocks = ("let_in", "keep", "candidate")
    linear = True

    def shares(self, pre: dict[str, Tensor], opened: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The gates over their sum, by logarithms: both may be closed all the way."""
        apart = functional.logsigmoid(pre["keep"]) - functional.logsigmoid(pre["let_in"])
        return torch.sigmoid(apart), torch.sigmoid(-apart)


class GRU(Cell):
    """The gated recurrent unit, Eqs. (15)–(18).

    ``reset="before"`` the matrix product, as in the paper; or ``"after"`` it, as in PyTorch:
    ``tanh(W x + b + r ⊙ (U h + b_h))``.
    """

    blocks = ("reset", "let_in", "candidate")

    @classmethod
    @checked
    def from_torch(cls, layer: nn.GRU) -> GRU:
        """The cell that computes what one layer of PyTorch's does.

        PyTorch's update gate is what is kept, ours what is replaced: its weights change sign, for
        ``1 − σ(a) = σ(−a)``.
        """
        weight_ih, weight_hh, of_input, of_state = _parameters_of(layer)
        hidden = layer.hidden_size
        bias = torch.cat([of_input[: 2 * hidden] + of_state[: 2 * hidden], of_input[2 * hidden :]])
        sign = torch.ones_like(bias)
        sign[hidden : 2 * hidden] = -1
        rows = {"weight_ih": sign[:, None] * weight_ih, "weight_hh": sign[:, None] * weight_hh}
        cell = cls(layer.input_size, hidden, reset="after", dtype=weight_hh.dtype)
        cell.load_state_dict(rows | {"bias": sign * bias, "bias_hh": of_state[2 * hidden :]})
        return cell


class LSTM(Cell):
    """The long short-term memory, Eqs. (4)–(8)."""

    blocks = ("let_in", "keep", "candidate", "show")

    @classmethod
    @checked
    def from_torch(cls, layer: nn.LSTM) -> LSTM:
        """The cell that computes what one layer of PyTorch's does."""
        weight_ih, weight_hh, of_input, of_state = _parameters_of(layer)
        cell = cls(layer.input_size, layer.hidden_size, dtype=weight_hh.dtype)
        rows = {"weight_ih": weight_ih, "weight_hh": weight_hh, "bias": of_input + of_state}
        cell.load_state_dict(rows)
        return cell


class GatedJacobian(StepJacobian):
    """One-step Jacobians of a gated cell in closed form.

    Implements Eqs. (9)–(11), (19)–(22), (48), (50) and (52). With a', b', r', o' the slopes of the
    gates, h_{t−1} acts on c_t through::

        R = diag(c a') U_a + diag(g b') U_b + diag(b (1 − g²)) N U (diag(r) + diag(h r') U_r),
        tied gates: a' = −b',

    so that ``J = diag(a) + R``; with a show gate, ``e = o (1 − tanh² c)`` and ``O = diag(tanh(c)
    o') U_o``, it is ``J = [[O + diag(e) R, diag(e a)], [R, diag(a)]]``.
    """

    def __init__(self, cell: Cell, made: Gates, previous: Past) -> None:
        """The slopes in which a step's pre-activations move c, or h for the show gate."""
        self.cell, self.made, self.states = cell, made, previous
        before, g, b = previous[..., cell.carried], made.candidate, made.let_in
        self.into = {"candidate": b * (1 - g.square())}
        self.expression: Tensor | None = None
        self.normalised: Tensor | None = None
        self.scale: Tensor | None = None
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
            self.normalised = (made.raw - made.raw.mean(-1, keepdim=True)) * spread
            self.scale = spread * cell.norm_weight

    def of(self, index: Any) -> GatedJacobian:
        """Those of some sequences and steps, of which nothing is computed anew."""

        def some(part: Tensor | None) -> Any:
            return None if part is None else part[index]

        chosen = copy.copy(self)
        chosen.made = Gates(*map(some, self.made))
        chosen.into = {name: slope[index] for name, slope in self.into.items()}
        for name in ("states", "expression", "normalised", "scale"):
            setattr(chosen, name, some(getattr(self, name)))
        return chosen

    def _through_candidate(self, rows: Float[Tensor, "... k H"]) -> Float[Tensor, "... k H"]:
        """Adjoints of h from those of the candidate before N."""
        cell, own, reset = self.cell, self.cell.block("candidate"), self.made.reset
        if reset is None:
            return rows @ own
        reset, into = reset.unsqueeze(-2), self.into["reset"].unsqueeze(-2)
        if cell.reset == "after":
            return (rows * reset) @ own + (rows * into) @ cell.block("reset")
        rows = rows @ own
        return rows * reset + (rows * into) @ cell.block("reset")

    def _mixed(self, rows: Float[Tensor, "... k H"]) -> Float[Tensor, "... k H"]:
        """Adjoints of c times R."""
        cell, into = self.cell, {name: slope.unsqueeze(-2) for name, slope in self.into.items()}
        raw = rows * into["candidate"]
        if self.normalised is not None and self.scale is not None:
            n, raw = self.normalised.unsqueeze(-2), raw * self.scale.unsqueeze(-2)
            raw = raw - raw.mean(-1, keepdim=True) - n * (raw * n).mean(-1, keepdim=True)
        mixed = self._through_candidate(raw)
        for gate in ("let_in", "keep"):
            if gate in into:
                pre = rows * into[gate]
                pre = pre.sum(-1, keepdim=True) if cell.shared else pre
                mixed = mixed + pre @ cell.block(gate)
        return mixed

    def pull(self, rows: Float[Tensor, "... k S"]) -> Float[Tensor, "... k S"]:
        """Rows times J: one step of backpropagation."""
        keep = self.made.keep.unsqueeze(-2)
        if self.cell.linear:
            return rows * keep
        if self.expression is None:
            return torch.addcmul(self._mixed(rows), rows, keep)
        hidden, cell = rows.chunk(2, dim=-1)
        cell = torch.addcmul(cell, hidden, self.expression.unsqueeze(-2))
        output = (hidden * self.into["show"].unsqueeze(-2)) @ self.cell.block("show")
        return torch.cat([output + self._mixed(cell), cell * keep], dim=-1)

    def condensed(self) -> Products:
        """With a show gate R and O are kept apart: half the work."""
        if self.expression is None:
            return super().condensed()
        keep, expression = self.made.keep, self.expression
        output = self.into["show"].unsqueeze(-1) * self.cell.block("show")
        mixing = self._mixed(torch.eye(keep.shape[-1]).to(keep).expand(*keep.shape, -1))

        def pull(steps: Steps, rows: Tensor) -> Tensor:
            hidden, cell = rows.chunk(2, dim=-1)
            cell = torch.addcmul(cell, hidden, expression[steps].unsqueeze(-2))
            back = torch.baddbmm(hidden @ output[steps], cell, mixing[steps])
            return torch.cat([back, cell * keep[steps].unsqueeze(-2)], dim=-1)

        return pull

    def neurons(self) -> Neurons:
        """The diagonals: ``a``, ``diag R``, and what the show gate does."""
        cell, into, keep = self.cell, self.into, self.made.keep.expand_as(self.made.candidate)
        if cell.linear:
            return Neurons(keep, torch.zeros_like(keep))
        own, reset = cell.block("candidate"), self.made.reset
        diagonal = own.diagonal()
        if reset is not None and cell.reset == "after":
            diagonal = reset * diagonal + into["reset"] * cell.block("reset").diagonal()
        elif reset is not None:
            # Σ_k U[q,k] h[k] r'[k] U_r[k,q]: a sum over neurons, not the product of two diagonals
            diagonal = reset * diagonal + into["reset"] @ (own * cell.block("reset").mT).mT
        if self.normalised is not None and self.scale is not None:
            n = self.normalised
            both = torch.stack([torch.ones_like(n), n], dim=-2)
            ones, along = self._through_candidate(both).unbind(-2)
            diagonal = self.scale * (diagonal - (ones + n * along) / cell.hidden_size)
        mixing = into["candidate"] * diagonal
        for gate in ("let_in", "keep"):
            if gate in into:
                weights = cell.block(gate)
                mixing = mixing + into[gate] * (weights[0] if cell.shared else weights.diagonal())
        if self.expression is None:
            return Neurons(keep, mixing)
        # e_{t−1}; that of the initial state is never asked for
        before = functional.pad(self.expression[:, :-1], (0, 0, 1, 0))
        lead = into["show"] * cell.block("show").diagonal() * before
        return Neurons(keep, mixing * before, self.expression, lead)


class _LinearScan(torch.autograd.Function):
    """``h_t = a_t h_{t−1} + u_t`` in 2√T steps; its way back is the same in reversed time."""

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


def _cumulated(keep: Tensor, added: Tensor, initial: Tensor) -> Tensor:
    """All √T pieces of time at once, then piece by piece; products of gates cannot overflow."""
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


def _between(shape: tuple[int, ...], hidden: int, generator: torch.Generator | None) -> Tensor:
    """Draws as those of `torch.nn.LSTM`, uniform on ±1/√H."""
    return (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1) / math.sqrt(hidden)


def _uniform(cell: Cell, _: float, generator: torch.Generator | None) -> dict[str, Tensor]:
    """Parameters as `torch.nn.LSTM` draws them; the bias is the sum of its two."""
    rows, hidden = sum(cell.rows), cell.hidden_size
    shapes = (rows, cell.input_size), (rows, hidden), (rows,), (rows,)
    weight_ih, weight_hh, *biases = (_between(shape, hidden, generator) for shape in shapes)
    draws = {"weight_ih": weight_ih, "weight_hh": weight_hh, "bias": biases[0] + biases[1]}
    if cell.linear:
        del draws["weight_hh"]
    if cell.reset == "after":  # the candidate's two do not add up to one
        draws["bias"][-hidden:] = _between((hidden,), hidden, generator)
        draws["bias_hh"] = _between((hidden,), hidden, generator)
    return draws


def _orthogonal(cell: Cell, spread: float, generator: torch.Generator | None) -> dict[str, Tensor]:
    """Gaussian input weights, orthogonal blocks of recurrent ones, and biases that set gates."""
    start = {"let_in": cell.gate_init, "keep": 1 - cell.gate_init}
    scales = [1.0 if block == "candidate" else spread for block in cell.blocks]
    opened = [start.get(block, 0.5) for block in cell.blocks]
    each = torch.tensor([scales, opened], dtype=torch.float64)
    scale, opening = each.repeat_interleave(torch.tensor(cell.rows), dim=1)
    weight_ih = torch.randn(len(scale), cell.input_size, generator=generator, dtype=torch.float64)
    draws = {"weight_ih": weight_ih / math.sqrt(cell.input_size) * scale[:, None]}
    if not cell.linear:
        squares = [torch.empty(rows, cell.hidden_size, dtype=torch.float64) for rows in cell.rows]
        squares = [nn.init.orthogonal_(square, generator=generator) for square in squares]
        draws["weight_hh"] = torch.cat(squares) * scale[:, None]
    if cell.reset == "after":
        draws["bias_hh"] = torch.zeros(cell.hidden_size)
    return draws | {"bias": opening.logit()}


def _parameters_of(layer: nn.RNNBase) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Input weights, recurrent weights and both biases of a layer that is one recurrence."""
    single = layer.num_layers == 1 and not layer.bidirectional and not layer.proj_size
    require("layer", layer, single, "of one layer, one direction and no projection")
    weight_ih, weight_hh, *biases = layer.all_weights[0]
    none = torch.zeros_like(weight_ih[:, 0])
    return weight_ih, weight_hh, *(biases or (none, none))
