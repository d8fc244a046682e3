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
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from lwcore.ambient import autocasts, followable, own_precision, without_autocast
from lwcore.cells import kernels
from lwcore.cells.kernels import EPSILON
from lwcore.signatures import Int64Count, NotNegative, Share, checked, require
from lwcore.trace import Neurons, Products, StepJacobian, Steps, Trace, select_each

Input = Float[Tensor, "... D"]
Past = Float[Tensor, "... S"]
Inputs = Float[Tensor, "B T D"]


class Gates(NamedTuple):
    """All that a step computes, (..., H) each; a shared gate is (..., 1).

    `raw` is the candidate before N, `candidate` is g, `resettable` what the reset gate multiplies,
    `cell` the new c and `hidden` the new h.
    """

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
    """A gated recurrence that scans a batch of sequences. Its subclasses are the families.

    Gates start near their initial value: `gate_init` is the share of the state that a step replaces
    (for `ConstGate` for good), reset and show gates start at 1/2, and `gate_spread` scales the
    gates' weights. These are Gaussian of variance 1/D for inputs, and orthogonal for states. With
    ``init="uniform"`` all is drawn as `torch.nn.LSTM` does, and `gate_init` is not read.
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
        """Draw a cell's parameters in float64, and round them to a type.

        Args:
            layernorm: Whether the candidate is normalised over neurons before its tanh.
            gate_init: The share of the state that a step replaces at first: 0.05 forgets in about
                20 steps, 1/2 in two.
            gate_spread: How strongly gates depend on input and state at first.
            init: ``"orthogonal"`` as in the paper, or ``"uniform"`` as in PyTorch.
            reset: Whether a GRU's reset gate acts before or after the matrix product.
        """
        super().__init__()
        require("dtype", dtype, dtype.is_floating_point, "a floating type")
        has_reset = reset == "before" or "reset" in self.blocks
        require("reset", reset, has_reset, "'before', without a reset gate")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.layernorm = layernorm
        self.gate_init = gate_init
        self.reset = reset

        # A state is h; with a show gate it is h beside c, and c is what is carried on.
        has_c = "show" in self.blocks
        self.state_size = 2 * self.hidden_size if has_c else self.hidden_size
        self.shown = slice(0, self.hidden_size)
        self.carried = slice(self.state_size - self.hidden_size, self.state_size)
        self.rows = []
        for block in self.blocks:
            is_one_row = self.shared and block != "candidate"
            self.rows.append(1 if is_one_row else self.hidden_size)

        if init == "orthogonal":
            parameters = _draw_orthogonal(self, gate_spread, generator)
        else:
            parameters = _draw_uniform(self, generator)
        if layernorm:
            parameters["norm_weight"] = torch.ones(hidden_size)
            parameters["norm_bias"] = torch.zeros(hidden_size)
        for name, parameter in parameters.items():
            setattr(self, name, nn.Parameter(parameter.to(dtype)))

    def shares(self, pre: dict[str, Tensor], opened: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return what is kept, a, and what is let in, b, from pre-activations and open gates.

        A linear family may have its own rule; kernels and closed form know only this one.
        """
        if "let_in" in opened:
            let_in = opened["let_in"]
        else:
            let_in = torch.full_like(pre["candidate"], self.gate_init)
        keep = opened["keep"] if "keep" in opened else 1 - let_in
        return keep, let_in

    def block(self, name: str) -> Tensor:
        """Return the recurrent weights U of a block, (rows, H)."""
        return self.weight_hh.split(self.rows)[self.blocks.index(name)]

    @own_precision
    def gates(self, x: Input, kept: Past, seen: Past | None = None) -> Gates:
        """Compute gates, candidate and new state of a step.

        Implements Eqs. (4)–(8), (15)–(18), (47), (49) and (51). The past comes twice, see `step`.
        """
        kept = followable(kept)
        past = kept if seen is None else followable(seen)
        h = past[..., self.shown]
        c = kept[..., self.carried]
        driven = functional.linear(followable(x), self.weight_ih, self.bias)  # W x + b
        by_block = driven.split(self.rows, dim=-1)
        pre = dict(zip(self.blocks, by_block, strict=True))  # pre-activations
        opened = {}
        for gate in self.blocks:
            if gate == "candidate":
                continue
            if not self.linear:
                pre[gate] = pre[gate] + h @ self.block(gate).mT
            opened[gate] = torch.sigmoid(pre[gate])
        keep, let_in = self.shares(pre, opened)
        reset = opened.get("reset")
        show = opened.get("show")

        # The candidate sees h through U, and through the reset gate before or after the product.
        raw = pre["candidate"]
        resettable = h
        if self.reset == "after":
            resettable = h @ self.block("candidate").mT + self.bias_hh
            raw = raw + opened["reset"] * resettable
        elif not self.linear:
            reset_h = h if reset is None else reset * h
            raw = raw + reset_h @ self.block("candidate").mT
        candidate = raw
        if self.layernorm:
            shape = (self.hidden_size,)
            candidate = functional.layer_norm(raw, shape, self.norm_weight, self.norm_bias, EPSILON)
        if not self.linear:
            candidate = torch.tanh(candidate)

        cell = keep * c + let_in * candidate
        hidden = cell if show is None else show * torch.tanh(cell)
        return Gates(keep, let_in, reset, show, raw, candidate, resettable, cell, hidden)

    def step(self, x: Input, kept: Past, seen: Past | None = None) -> Past:
        """Return the next state, from what is kept of the last and what is seen of it.

        The two differ only where retention and mixing are to be told apart: the derivative in
        `kept` is A, that in `seen` is R. Without `seen` both are the last state.
        """
        gates = self.gates(x, kept, seen)
        if gates.show is None:
            return gates.hidden
        return torch.cat([gates.hidden, gates.cell], dim=-1)

    def closed_form(self, inputs: Input, previous: Past) -> GatedJacobian:
        """Return one-step Jacobians in closed form, for inputs and the states before them."""
        return GatedJacobian(self, self.gates(inputs, previous), previous)

    if TYPE_CHECKING:  # PyTorch's own says that it gives anything

        def __call__(self, inputs: Tensor) -> Tensor: ...  # noqa: D102

    def forward(self, inputs: Inputs) -> Tensor:
        """Scan a batch from zero and return the outputs h, (B, T, H).

        `Trace.scan` starts from another state.

        Examples:
            >>> tuple(LSTM(input_size=2, hidden_size=5)(torch.zeros(3, 20, 2)).shape)
            (3, 20, 5)
        """
        return self._scan(inputs)[0]

    @torch.no_grad()
    @own_precision
    def trace(self, inputs: Inputs) -> Trace:
        """Scan a batch and return all that transport needs, the parameters as they are now, too.

        Examples:
            >>> trace = DiagGate(input_size=2, hidden_size=5).trace(torch.zeros(3, 20, 2))
            >>> tuple(trace.gates.let_in.shape), tuple(trace.jacobian(7).dense().shape)
            ((3, 20, 5), (3, 5, 5))
        """
        states = torch.cat(self._scan(inputs), dim=-1)
        history = functional.pad(states, (0, 0, 1, 0))  # s₀ is zero
        # A copy, so that training may go on while the trace is read.
        frozen = copy.deepcopy(self).requires_grad_(False)
        return Trace(frozen, inputs, history)

    def unrolled(self, inputs: Inputs) -> Tensor:
        """Return what `forward` computes, by `step` and autograd through all of time.

        Slow. Take it for second derivatives, which compiled scans do not have.
        """
        return self._scan(inputs, by_steps=True)[0]

    def _scan(self, inputs: Tensor, by_steps: bool = False) -> tuple[Tensor, ...]:
        """Scan in the fastest way there is; return h, and c where it is not the same.

        A compiled scan is differentiable once, in h. In autocast the cell's precision counts.
        """
        if autocasts():
            if isinstance(inputs, Tensor) and inputs.is_floating_point():
                inputs = inputs.to(self.bias.dtype)
            with without_autocast():
                return self._scan(inputs, by_steps)
        self._require_inputs(inputs)
        if self.linear and not by_steps:
            gates = self.gates(inputs, inputs.new_zeros(self.state_size))
            added = gates.let_in * gates.candidate
            return (kernels.linear_scan(gates.keep, added),)
        if kernels.usable(inputs) and not by_steps:
            parameters: dict[str, Tensor] = dict(self.named_parameters())
            return kernels.scan(self._layout(), inputs, parameters)
        at_step = inputs.new_zeros(len(inputs), self.state_size)
        states = []
        for x in inputs.unbind(1):
            at_step = self.step(x, at_step)
            states.append(at_step)
        return torch.stack(states, dim=1).split(self.hidden_size, dim=-1)

    def _require_inputs(self, inputs: Any) -> None:
        """Refuse inputs that cannot be scanned. By hand: every training step comes by here."""
        dtype = self.bias.dtype
        width = self.input_size
        can_be_scanned = (
            isinstance(inputs, Tensor)
            and inputs.dtype == dtype
            and inputs.numel() > 0
            and inputs.ndim == 3
            and inputs.shape[2] == width
        )
        requirement = f"a tensor of {dtype} and shape (B, T, {width}), not empty"
        require("inputs", inputs, can_be_scanned, requirement)
        # A sum is ten times as fast as a look at each entry, and finite only if all entries are.
        is_finite = bool(inputs.sum().isfinite() or inputs.isfinite().all())
        require("inputs", inputs, is_finite, "finite")

    def _layout(self) -> kernels.FamilyLayout:
        """Return at which column kernels find each of this family's blocks, and its settings."""
        columns: Any = {}
        first = 0
        for block, rows in zip(self.blocks, self.rows, strict=True):
            columns[block] = first
            first += rows
        after = self.reset == "after"
        return kernels.FamilyLayout(self.shared, after, self.gate_init, **columns)


class ConstGate(Cell):
    """A leaky recurrence with one fixed gate value, Eq. (51).

    All neurons forget at the same speed, always: its zeroth-order envelope is ``H (1 − s)^ℓ``.
    """

    blocks = ("candidate",)


class SharedGate(Cell):
    """One learned gate for all neurons, new at every step, Eq. (49)."""

    shared = True


class DiagGate(Cell):
    """One learned gate a neuron, new at every step, Eq. (47): each has a time scale of its own."""


class MinGRU(Cell):
    """A GRU whose gate and candidate see the input alone (Feng et al., 2024).

    Nothing mixes neurons, so all orders of transport agree.
    """

    linear = True


class MinLSTM(Cell):
    """An LSTM whose gates see the input alone and add up to 1 (Feng et al., 2024)."""

    blocks = ("let_in", "keep", "candidate")
    linear = True

    def shares(self, pre: dict[str, Tensor], opened: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return both gates over their sum, by logarithms: both may be closed all the way."""
        log_keep = functional.logsigmoid(pre["keep"])
        log_let_in = functional.logsigmoid(pre["let_in"])
        log_ratio = log_keep - log_let_in  # of f/i, and f/(f + i) is its logistic function
        return torch.sigmoid(log_ratio), torch.sigmoid(-log_ratio)


class GRU(Cell):
    """The gated recurrent unit, Eqs. (15)–(18).

    ``reset="before"`` the matrix product, as in the paper; or ``"after"`` it, as in PyTorch:
    ``tanh(W x + b + r ⊙ (U h + b_h))``.
    """

    blocks = ("reset", "let_in", "candidate")

    @classmethod
    @checked
    def from_torch(cls, layer: nn.GRU) -> GRU:
        """Return the cell that computes what one layer of PyTorch's does, with copied weights.

        Its inputs are (B, T, D), whatever `batch_first` is. PyTorch's update gate is what is kept,
        ours what is replaced: its weights change sign, for ``1 − σ(a) = σ(−a)``.
        """
        weight_ih, weight_hh, input_bias, state_bias = _parameters_of(layer)
        hidden = layer.hidden_size
        gates = slice(0, 2 * hidden)
        candidate = slice(2 * hidden, None)
        # The two biases of a gate add up. The candidate's second one is reset with U h.
        bias = torch.cat([input_bias[gates] + state_bias[gates], input_bias[candidate]])
        sign = torch.ones_like(bias)
        sign[hidden : 2 * hidden] = -1
        cell = _blank(cls, layer, weight_hh.dtype, reset="after")
        cell.load_state_dict(
            {
                "weight_ih": sign[:, None] * weight_ih,
                "weight_hh": sign[:, None] * weight_hh,
                "bias": sign * bias,
                "bias_hh": state_bias[candidate],
            }
        )
        return cell


class LSTM(Cell):
    """The long short-term memory, Eqs. (4)–(8).

    Its state is h beside c: what the network shows, and what it keeps. Gradients are carried by c.
    """

    blocks = ("let_in", "keep", "candidate", "show")

    @classmethod
    @checked
    def from_torch(cls, layer: nn.LSTM) -> LSTM:
        """Return the cell that computes what one layer of PyTorch's does, on (B, T, D)."""
        weight_ih, weight_hh, input_bias, state_bias = _parameters_of(layer)
        cell = _blank(cls, layer, weight_hh.dtype)
        cell.load_state_dict(
            {"weight_ih": weight_ih, "weight_hh": weight_hh, "bias": input_bias + state_bias}
        )
        return cell


class GatedJacobian(StepJacobian):
    """One-step Jacobians of a gated cell in closed form.

    Implements Eqs. (9)–(11), (19)–(22), (48), (50) and (52). With a', b', r', o' the slopes of the
    gates, c₋ and h₋ the values before the step, h₋ acts on c through::

        R = diag(c₋ a') U_a + diag(g b') U_b + diag(b (1 − g²)) N U (diag(r) + diag(h₋ r') U_r),
        tied gates: a' = −b'; reset after the product: N (diag(r) U + diag((U h₋ + b_h) r') U_r),

    so that ``J = diag(a) + R``; with a show gate, ``e = o (1 − tanh² c)`` and ``O = diag(tanh(c)
    o') U_o``, it is ``J = [[O + diag(e) R, diag(e a)], [R, diag(a)]]``.

    `into` holds the diagonals of these formulas, (..., H) each: ``candidate`` is ``b (1 − g²)``,
    ``keep`` is ``c₋ a'``, ``let_in`` is ``g b'`` (``(g − c₋) b'`` for tied gates), ``reset`` is
    ``h₋ r'`` or ``(U h₋ + b_h) r'``, ``show`` is ``tanh(c) o'``, ``expression`` is e, and
    ``normalised`` and ``scale`` belong to N.
    """

    def __init__(self, cell: Cell, gates: Gates, previous: Past) -> None:
        """Compute the diagonals of the formulas, for steps whose gates are known."""
        self.cell = cell
        self.gates = gates
        self.states = previous
        self.into: dict[str, Tensor] = {}
        if cell.linear:
            return
        c = previous[..., cell.carried]
        g = gates.candidate
        b = gates.let_in
        self.into["candidate"] = b * (1 - g.square())
        if "let_in" in cell.blocks:
            # With tied gates, letting in more also keeps less of c.
            gained = g if "keep" in cell.blocks else g - c
            self.into["let_in"] = gained * b * (1 - b)
        if "keep" in cell.blocks:
            self.into["keep"] = c * gates.keep * (1 - gates.keep)
        if gates.reset is not None:
            self.into["reset"] = gates.resettable * gates.reset * (1 - gates.reset)
        if gates.show is not None:
            tanh_c = torch.tanh(gates.cell)
            self.into["show"] = tanh_c * gates.show * (1 - gates.show)
            self.into["expression"] = gates.show * (1 - tanh_c.square())
        if cell.layernorm:
            inverse_spread = (gates.raw.var(-1, correction=0, keepdim=True) + EPSILON).rsqrt()
            centred = gates.raw - gates.raw.mean(-1, keepdim=True)
            self.into["normalised"] = centred * inverse_spread
            self.into["scale"] = inverse_spread * cell.norm_weight

    def select(self, index: Any) -> GatedJacobian:
        """Select sequences and steps. Reuses what has been computed."""
        chosen = copy.copy(self)
        chosen.gates = select_each(self.gates, index)
        chosen.into = {name: slope[index] for name, slope in self.into.items()}
        chosen.states = self.states[index]
        return chosen

    def _through_candidate(self, rows: Float[Tensor, "... k H"]) -> Float[Tensor, "... k H"]:
        """Return gradients in h from those in the candidate before N.

        Its derivative in h is ``U (diag(r) + diag(h r') U_r)`` with a reset before the product, and
        ``diag(r) U + diag((U h) r') U_r`` with one after it.
        """
        weights = self.cell.block("candidate")
        if self.gates.reset is None:
            return rows @ weights
        reset = self.gates.reset.unsqueeze(-2)
        into_reset = self.into["reset"].unsqueeze(-2)
        if self.cell.reset == "before":
            rows = rows @ weights
            direct = rows * reset
        else:
            direct = (rows * reset) @ weights
        return direct + (rows * into_reset) @ self.cell.block("reset")

    def _mix(self, rows: Float[Tensor, "... k H"]) -> Float[Tensor, "... k H"]:
        """Return gradients in c, times R: what of them arrives in the h of the step before."""
        cell = self.cell
        into = {name: slope.unsqueeze(-2) for name, slope in self.into.items()}
        raw = rows * into["candidate"]
        if cell.layernorm:
            # N takes the mean away, and what lies along n.
            n = into["normalised"]
            raw = raw * into["scale"]
            mean = raw.mean(-1, keepdim=True)
            along_n = (raw * n).mean(-1, keepdim=True)
            raw = raw - mean - n * along_n
        mixed = self._through_candidate(raw)
        for gate in ("let_in", "keep"):
            if gate in into:
                pre = rows * into[gate]
                if cell.shared:
                    pre = pre.sum(-1, keepdim=True)  # the one gate of all neurons
                mixed = mixed + pre @ cell.block(gate)
        return mixed

    @own_precision
    def pull(self, rows: Float[Tensor, "... k S"]) -> Float[Tensor, "... k S"]:
        """Return the products ``rows · J``: one step of backpropagation for k rows at once."""
        keep = self.gates.keep.unsqueeze(-2)
        if self.cell.linear:
            return rows * keep
        if self.gates.show is None:
            return torch.addcmul(self._mix(rows), rows, keep)
        # Gradients in h enter c through the expression e, and h_{t−1} through the show gate.
        expression = self.into["expression"].unsqueeze(-2)
        into_show = self.into["show"].unsqueeze(-2)
        in_h, in_c = rows.chunk(2, dim=-1)
        in_c = torch.addcmul(in_c, in_h, expression)
        through_show = (in_h * into_show) @ self.cell.block("show")
        return torch.cat([through_show + self._mix(in_c), in_c * keep], dim=-1)

    @own_precision
    def condensed(self) -> Products:
        """Return a function that multiplies rows by chosen Jacobians, for many such products.

        With a show gate the blocks R and O are kept apart: half the work of the whole matrix.
        """
        if self.gates.show is None:
            return super().condensed()
        keep = self.gates.keep.unsqueeze(-2)
        expression = self.into["expression"].unsqueeze(-2)
        output = self.into["show"].unsqueeze(-1) * self.cell.block("show")  # O
        eye = torch.eye(self.cell.hidden_size).to(keep)
        mixing = self._mix(eye.expand(*self.gates.keep.shape, -1))  # R

        @own_precision
        def pull(steps: Steps, rows: Tensor) -> Tensor:
            in_h, in_c = rows.chunk(2, dim=-1)
            in_c = torch.addcmul(in_c, in_h, expression[steps])
            into_h = torch.baddbmm(in_h @ output[steps], in_c, mixing[steps])
            return torch.cat([into_h, in_c * keep[steps]], dim=-1)

        return pull

    @own_precision
    def neurons(self) -> Neurons:
        """Return the diagonals of A and R, and what the show gate does. See `Neurons`."""
        cell = self.cell
        into = self.into
        keep = self.gates.keep
        if cell.linear:
            return Neurons(keep, torch.zeros_like(keep))

        # The diagonal of R: the candidate's part, diag(g b') U_b, and diag(c a') U_a.
        mixing = into["candidate"] * self._diagonal_through_candidate()
        for gate in ("let_in", "keep"):
            if gate in into:
                weights = cell.block(gate)
                to_itself = weights[0] if cell.shared else weights.diagonal()
                mixing = mixing + into[gate] * to_itself
        if self.gates.show is None:
            return Neurons(keep.expand_as(mixing), mixing)

        # With a show gate R and O reach c through e_{t−1}; that of the initial state is never
        # asked for.
        expression = into["expression"]
        expression_before = functional.pad(expression[:, :-1], (0, 0, 1, 0))
        lead = into["show"] * cell.block("show").diagonal() * expression_before
        return Neurons(keep, mixing * expression_before, expression, lead)

    def _diagonal_through_candidate(self) -> Tensor:
        """Return the diagonal of ``N U (diag(r) + diag(h r') U_r)``, see `_through_candidate`."""
        weights = self.cell.block("candidate")
        diagonal = weights.diagonal()
        reset = self.gates.reset
        if reset is not None:
            into_reset = self.into["reset"]
            of_reset = self.cell.block("reset")
            if self.cell.reset == "after":
                through_reset = into_reset * of_reset.diagonal()
            else:
                # Σ_k U[q,k] h[k] r'[k] U_r[k,q]: a sum over neurons, no product of two diagonals
                through_reset = into_reset @ (weights * of_reset.mT).mT
            diagonal = reset * diagonal + through_reset
        if not self.cell.layernorm:
            return diagonal
        # N subtracts from each row of the matrix a mean row and one along n.
        n = self.into["normalised"]
        rows = torch.stack([torch.ones_like(n), n], dim=-2)
        sum_of_rows, along_n = self._through_candidate(rows).unbind(-2)
        subtracted = (sum_of_rows + n * along_n) / self.cell.hidden_size
        return self.into["scale"] * (diagonal - subtracted)


def _draw_uniform(cell: Cell, generator: torch.Generator | None) -> dict[str, Tensor]:
    """Draw parameters uniform on ±1/√H, as those of `torch.nn.LSTM`; the bias is the sum of two."""
    rows = sum(cell.rows)
    hidden = cell.hidden_size

    def draw(*shape: int) -> Tensor:
        uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
        return (2 * uniform - 1) / math.sqrt(hidden)

    draws = {"weight_ih": draw(rows, cell.input_size)}
    draws["weight_hh"] = draw(rows, hidden)
    draws["bias"] = draw(rows) + draw(rows)
    if cell.linear:  # drawn all the same: the bias of a seed does not depend on it
        del draws["weight_hh"]
    if cell.reset == "after":  # the candidate's two biases do not add up to one
        draws["bias"][-hidden:] = draw(hidden)
        draws["bias_hh"] = draw(hidden)
    return draws


def _draw_orthogonal(
    cell: Cell, spread: float, generator: torch.Generator | None
) -> dict[str, Tensor]:
    """Draw Gaussian input weights and orthogonal recurrent blocks; set biases that open gates."""
    values = {"let_in": cell.gate_init, "keep": 1 - cell.gate_init}  # of gates, at first
    scale_of_rows = []
    value_of_rows = []
    for block, rows in zip(cell.blocks, cell.rows, strict=True):
        scale_of_rows += [1.0 if block == "candidate" else spread] * rows
        value_of_rows += [values.get(block, 0.5)] * rows  # 1/2 is a bias of 0
    scale = torch.tensor(scale_of_rows, dtype=torch.float64)[:, None]

    gaussian = torch.randn(len(scale), cell.input_size, generator=generator, dtype=torch.float64)
    draws = {"weight_ih": gaussian / math.sqrt(cell.input_size) * scale}
    if not cell.linear:
        blocks = []
        for rows in cell.rows:
            empty = torch.empty(rows, cell.hidden_size, dtype=torch.float64)
            blocks.append(nn.init.orthogonal_(empty, generator=generator))
        draws["weight_hh"] = torch.cat(blocks) * scale
    if cell.reset == "after":
        draws["bias_hh"] = torch.zeros(cell.hidden_size)
    draws["bias"] = torch.tensor(value_of_rows, dtype=torch.float64).logit()
    return draws


def _blank(family: type[Any], layer: nn.RNNBase, dtype: torch.dtype, **options: Any) -> Any:
    """Return a cell of a layer's sizes, whose parameters are to be replaced."""
    # A generator of its own: from PyTorch's global one a reader's training may draw.
    unused = torch.Generator()
    return family(layer.input_size, layer.hidden_size, generator=unused, dtype=dtype, **options)


def _parameters_of(layer: nn.RNNBase) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return input weights, recurrent weights and both biases of a layer that is one recurrence."""
    is_single = layer.num_layers == 1 and not layer.bidirectional and not layer.proj_size
    require("layer", layer, is_single, "of one layer, one direction and no projection")
    weight_ih, weight_hh, *biases = layer.all_weights[0]
    if biases:
        return weight_ih, weight_hh, biases[0], biases[1]
    none = torch.zeros_like(weight_ih[:, 0])
    return weight_ih, weight_hh, none, none
