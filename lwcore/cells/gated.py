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
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from lwcore.ambient import autocasts, followable, own_precision, without_autocast
from lwcore.cells import kernels
from lwcore.cells.kernels import EPSILON
from lwcore.signatures import Int64Count, NotNegative, Share, checked, require
from lwcore.trace import Neurons, Products, StepJacobian, Steps, Trace

Input = Float[Tensor, "... D"]
Past = Float[Tensor, "... S"]
Inputs = Float[Tensor, "B T D"]
State = Tensor | tuple[Tensor, Tensor]


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
        input_size: Int64Count,
        hidden_size: Int64Count,
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
        widest = 4 * hidden_size * (input_size + hidden_size)
        words = "so small, beside input_size, that memory could hold the weights"
        require("hidden_size", hidden_size, widest < 2**59, words)
        gated = reset == "before" or "reset" in self.blocks
        require("reset", reset, gated, "'before', without a reset gate")
        self.input_size, self.hidden_size = int(input_size), int(hidden_size)
        self.layernorm, self.gate_init, self.reset = layernorm, float(gate_init), reset
        self.state_size = self.hidden_size * (2 if "show" in self.blocks else 1)  # h, or h and c
        self.shown = slice(0, self.hidden_size)
        self.carried = slice(self.state_size - self.hidden_size, self.state_size)
        self.rows = [1 if self.shared and b != "candidate" else hidden_size for b in self.blocks]
        orthogonal = init == "orthogonal"
        draws = (
            _orthogonal(self, gate_spread, generator) if orthogonal else _uniform(self, generator)
        )
        if layernorm:
            draws |= {"norm_weight": torch.ones(hidden_size), "norm_bias": torch.zeros(hidden_size)}
        for name, draw in draws.items():
            setattr(self, name, nn.Parameter(draw.to(dtype)))

    def shares(self, pre: dict[str, Tensor], opened: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """What is kept and what is let in, tied to one another where no gate keeps.

        A linear family may have its own; of the others, kernels and closed form know this one.
        """
        let_in = opened.get("let_in", torch.full_like(pre["candidate"], self.gate_init))
        return opened["keep"] if "keep" in opened else 1 - let_in, let_in

    def block(self, name: str) -> Tensor:
        """The recurrent weights of a block, (rows, H)."""
        return self.weight_hh.split(self.rows)[self.blocks.index(name)]

    @own_precision
    def gates(self, x: Input, kept: Past, seen: Past | None = None) -> Gates:
        """All that a step computes. Implements Eqs. (4)–(8), (15)–(18), (47), (49) and (51)."""
        x, kept = followable(x), followable(kept)
        seen = None if seen is None else followable(seen)
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

    if TYPE_CHECKING:  # PyTorch's own says that it gives anything

        def __call__(self, inputs: Tensor, state: State | None = None) -> Tensor: ...  # noqa: D102

    def forward(self, inputs: Inputs, state: State | None = None) -> Tensor:
        """The outputs h, (B, T, H), of a scan from a state, the LSTM's (h, c), or, fast, from zero.

        Examples:
            >>> tuple(LSTM(input_size=2, hidden_size=5)(torch.zeros(3, 20, 2)).shape)
            (3, 20, 5)
        """
        return self._scan(inputs, state)[0]

    @torch.no_grad()
    @own_precision
    def trace(self, inputs: Inputs, state: State | None = None) -> Trace:
        """A scan with all that transport needs: the parameters as they are now, too.

        Examples:
            >>> trace = DiagGate(input_size=2, hidden_size=5).trace(torch.zeros(3, 20, 2))
            >>> tuple(trace.gates.let_in.shape), tuple(trace.jacobian(7).dense().shape)
            ((3, 20, 5), (3, 5, 5))
        """
        states = torch.cat(self._scan(inputs, state), dim=-1)
        history = torch.cat([self._start(inputs, state).unsqueeze(1), states], dim=1)
        return Trace(copy.deepcopy(self).requires_grad_(False), inputs, history)

    def unrolled(self, inputs: Inputs, state: State | None = None) -> Tensor:
        """What `forward` computes, by `step` and autograd through all of time; slow."""
        return self._scan(inputs, state, by_steps=True)[0]

    def _scan(
        self, inputs: Tensor, state: State | None, by_steps: bool = False
    ) -> tuple[Tensor, ...]:
        """The fastest scan there is: h, and c where it is another. Compiled, h differs once.

        Inputs are checked by hand, as every training step comes by here. In autocast they may come
        in another precision than the cell's, which is the one it computes in.
        """
        if autocasts():
            with without_autocast():
                return self._scan(*_rounded(self.bias.dtype, inputs, state), by_steps)
        dtype, width = self.bias.dtype, self.input_size
        fits = isinstance(inputs, Tensor) and inputs.dtype == dtype and inputs.numel() > 0
        fits = fits and inputs.ndim == 3 and inputs.shape[2] == width
        require("inputs", inputs, fits, f"a tensor of {dtype} and shape (B, T, {width}), not empty")
        # a sum is ten times as fast, and finite only if all entries are
        finite = bool(inputs.sum().isfinite() or inputs.isfinite().all())
        require("inputs", inputs, finite, "finite")
        by_steps = by_steps or state is not None
        if self.linear and not by_steps:
            made = self.gates(inputs, inputs.new_zeros(self.state_size))
            return (kernels.linear_scan(made.keep, made.let_in * made.candidate),)
        if kernels.usable(inputs) and not by_steps:
            first = dict(zip(self.blocks, accumulate(self.rows, initial=0), strict=False))
            places = [first.get(name, -1) for name in kernels.FamilyLayout._fields[:5]]
            use = [self.shared, self.reset == "after", self.gate_init]
            parameters: dict[str, Tensor] = dict(self.named_parameters())
            return kernels.scan(kernels.FamilyLayout._make(places + use), inputs, parameters)
        states = [self._start(inputs, state)]
        for x in inputs.unbind(1):
            states.append(self.step(x, states[-1]))
        return torch.stack(states[1:], dim=1).split(self.hidden_size, dim=-1)

    def _start(self, inputs: Tensor, state: State | None) -> Tensor:
        """The state to start from in one piece, (B, S)."""
        zero = inputs.new_zeros(len(inputs), self.state_size)
        if state is None:
            return zero
        parts = [state] if isinstance(state, Tensor) else state
        tensors = isinstance(parts, tuple | list) and len(parts) > 0
        tensors = tensors and all(isinstance(part, Tensor) for part in parts)
        require("state", state, tensors, "a tensor, or h and c")
        alike = len({(part.shape[:-1], part.dtype) for part in parts}) == 1
        require("state", state, alike, "of tensors of one dtype and as many sequences")
        given = state if isinstance(state, Tensor) else torch.cat(state, dim=-1)
        fits = given.shape == zero.shape and given.dtype == zero.dtype
        words = f"finite, of {zero.dtype} and, h beside c, of shape {tuple(zero.shape)}"
        require("state", given, fits and bool(given.isfinite().all()), words)
        return given


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
        unused = torch.Generator()  # not PyTorch's own, from which a reader's training may draw
        cell = cls(layer.input_size, hidden, reset="after", generator=unused, dtype=weight_hh.dtype)
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
        rows = {"weight_ih": weight_ih, "weight_hh": weight_hh, "bias": of_input + of_state}
        unused = torch.Generator()  # not PyTorch's own, from which a reader's training may draw
        cell = cls(layer.input_size, layer.hidden_size, generator=unused, dtype=weight_hh.dtype)
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
        """Slopes of c in each block, of h in the show gate and in c (`expression`), and of N."""
        self.cell, self.made, self.states = cell, made, previous
        self.into: dict[str, Tensor] = {}
        if cell.linear:
            return
        before, g, b = previous[..., cell.carried], made.candidate, made.let_in
        self.into["candidate"] = b * (1 - g.square())
        if "let_in" in cell.blocks:
            self.into["let_in"] = (g if "keep" in cell.blocks else g - before) * b * (1 - b)
        if "keep" in cell.blocks:
            self.into["keep"] = before * made.keep * (1 - made.keep)
        if made.reset is not None:
            self.into["reset"] = made.resettable * made.reset * (1 - made.reset)
        if made.show is not None:
            shown = torch.tanh(made.cell)
            self.into["show"] = shown * made.show * (1 - made.show)
            self.into["expression"] = made.show * (1 - shown.square())
        if cell.layernorm:
            spread = (made.raw.var(-1, correction=0, keepdim=True) + EPSILON).rsqrt()
            self.into["normalised"] = (made.raw - made.raw.mean(-1, keepdim=True)) * spread
            self.into["scale"] = spread * cell.norm_weight

    def of(self, index: Any) -> GatedJacobian:
        """Those of some sequences and steps, of which nothing is computed anew."""
        chosen = copy.copy(self)
        chosen.made = Gates._make(part if part is None else part[index] for part in self.made)
        chosen.into = {name: slope[index] for name, slope in self.into.items()}
        chosen.states = self.states[index]
        return chosen

    def _through_candidate(self, rows: Float[Tensor, "... k H"]) -> Float[Tensor, "... k H"]:
        """Adjoints of h from those of the candidate before N."""
        cell, own, reset = self.cell, self.cell.block("candidate"), self.made.reset
        if reset is None:
            return rows @ own
        reset, into = reset.unsqueeze(-2), self.into["reset"].unsqueeze(-2)
        rows = rows @ own if cell.reset == "before" else rows
        kept = rows * reset if cell.reset == "before" else (rows * reset) @ own
        return kept + (rows * into) @ cell.block("reset")

    def _mixed(self, rows: Float[Tensor, "... k H"]) -> Float[Tensor, "... k H"]:
        """Adjoints of c times R."""
        cell, into = self.cell, {name: slope.unsqueeze(-2) for name, slope in self.into.items()}
        raw = rows * into["candidate"]
        if cell.layernorm:
            n, raw = into["normalised"], raw * into["scale"]
            raw = raw - raw.mean(-1, keepdim=True) - n * (raw * n).mean(-1, keepdim=True)
        mixed = self._through_candidate(raw)
        for gate in ("let_in", "keep"):
            if gate in into:
                pre = rows * into[gate]
                pre = pre.sum(-1, keepdim=True) if cell.shared else pre
                mixed = mixed + pre @ cell.block(gate)
        return mixed

    @own_precision
    def pull(self, rows: Float[Tensor, "... k S"]) -> Float[Tensor, "... k S"]:
        """Rows times J: one step of backpropagation."""
        keep = self.made.keep.unsqueeze(-2)
        if self.cell.linear:
            return rows * keep
        if self.made.show is None:
            return torch.addcmul(self._mixed(rows), rows, keep)
        hidden, cell = rows.chunk(2, dim=-1)
        cell = torch.addcmul(cell, hidden, self.into["expression"].unsqueeze(-2))
        output = (hidden * self.into["show"].unsqueeze(-2)) @ self.cell.block("show")
        return torch.cat([output + self._mixed(cell), cell * keep], dim=-1)

    @own_precision
    def condensed(self) -> Products:
        """With a show gate R and O are kept apart: half the work."""
        if self.made.show is None:
            return super().condensed()
        keep, expression = self.made.keep, self.into["expression"]
        output = self.into["show"].unsqueeze(-1) * self.cell.block("show")
        mixing = self._mixed(torch.eye(keep.shape[-1]).to(keep).expand(*keep.shape, -1))

        @own_precision
        def pull(steps: Steps, rows: Tensor) -> Tensor:
            hidden, cell = rows.chunk(2, dim=-1)
            cell = torch.addcmul(cell, hidden, expression[steps].unsqueeze(-2))
            back = torch.baddbmm(hidden @ output[steps], cell, mixing[steps])
            return torch.cat([back, cell * keep[steps].unsqueeze(-2)], dim=-1)

        return pull

    @own_precision
    def neurons(self) -> Neurons:
        """The diagonals: ``a``, ``diag R``, and what the show gate does."""
        cell, into, keep = self.cell, self.into, self.made.keep
        if cell.linear:
            return Neurons(keep, torch.zeros_like(keep))
        own, reset = cell.block("candidate"), self.made.reset
        diagonal = own.diagonal()
        if reset is not None and cell.reset == "after":
            diagonal = reset * diagonal + into["reset"] * cell.block("reset").diagonal()
        elif reset is not None:
            # Σ_k U[q,k] h[k] r'[k] U_r[k,q]: a sum over neurons, not the product of two diagonals
            diagonal = reset * diagonal + into["reset"] @ (own * cell.block("reset").mT).mT
        if cell.layernorm:
            n = into["normalised"]
            both = torch.stack([torch.ones_like(n), n], dim=-2)
            ones, along = self._through_candidate(both).unbind(-2)
            diagonal = into["scale"] * (diagonal - (ones + n * along) / cell.hidden_size)
        mixing = into["candidate"] * diagonal
        for gate in ("let_in", "keep"):
            if gate in into:
                weights = cell.block(gate)
                mixing = mixing + into[gate] * (weights[0] if cell.shared else weights.diagonal())
        if self.made.show is None:
            return Neurons(keep.expand_as(mixing), mixing)
        # e_{t−1}; that of the initial state is never asked for
        before = functional.pad(into["expression"][:, :-1], (0, 0, 1, 0))
        lead = into["show"] * cell.block("show").diagonal() * before
        return Neurons(keep, mixing * before, into["expression"], lead)


def _rounded(dtype: torch.dtype, inputs: Any, state: State | None) -> tuple[Any, State | None]:
    """Inputs and a state in a precision; what is no tensor of reals stays, and is refused later."""

    def one(part: Any) -> Any:
        real = isinstance(part, Tensor) and part.is_floating_point()
        return part.to(dtype) if real else part

    start: Any = (one(state[0]), one(state[1])) if isinstance(state, tuple) else one(state)
    return one(inputs), start


def _uniform(cell: Cell, generator: torch.Generator | None) -> dict[str, Tensor]:
    """Uniform parameters on ±1/√H, as those of `torch.nn.LSTM`; the bias is the sum of its two."""
    rows, hidden = sum(cell.rows), cell.hidden_size

    def draw(*shape: int) -> Tensor:
        uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
        return (2 * uniform - 1) / math.sqrt(hidden)

    draws = {"weight_ih": draw(rows, cell.input_size), "weight_hh": draw(rows, hidden)}
    draws["bias"] = draw(rows) + draw(rows)
    if cell.linear:
        del draws["weight_hh"]
    if cell.reset == "after":  # the candidate's two do not add up to one
        draws["bias"][-hidden:], draws["bias_hh"] = draw(hidden), draw(hidden)
    return draws


def _orthogonal(cell: Cell, spread: float, generator: torch.Generator | None) -> dict[str, Tensor]:
    """Gaussian input weights, orthogonal blocks of recurrent ones, and biases that set gates."""
    rows, start = torch.tensor(cell.rows), {"let_in": cell.gate_init, "keep": 1 - cell.gate_init}
    each = [(1.0 if b == "candidate" else spread, start.get(b, 0.5)) for b in cell.blocks]
    scale, opened = torch.tensor(each, dtype=torch.float64).repeat_interleave(rows, 0).unbind(1)
    weight_ih = torch.randn(len(scale), cell.input_size, generator=generator, dtype=torch.float64)
    draws = {"weight_ih": weight_ih / math.sqrt(cell.input_size) * scale[:, None]}
    if not cell.linear:
        blocks = torch.empty(len(scale), cell.hidden_size, dtype=torch.float64).split(cell.rows)
        blocks = [nn.init.orthogonal_(block, generator=generator) for block in blocks]
        draws["weight_hh"] = torch.cat(blocks) * scale[:, None]
    if cell.reset == "after":
        draws["bias_hh"] = torch.zeros(cell.hidden_size)
    return draws | {"bias": opened.logit()}


def _parameters_of(layer: nn.RNNBase) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Input weights, recurrent weights and both biases of a layer that is one recurrence."""
    single = layer.num_layers == 1 and not layer.bidirectional and not layer.proj_size
    require("layer", layer, single, "of one layer, one direction and no projection")
    weight_ih, weight_hh, *biases = layer.all_weights[0]
    none = torch.zeros_like(weight_ih[:, 0])
    return weight_ih, weight_hh, *(biases or (none, none))
