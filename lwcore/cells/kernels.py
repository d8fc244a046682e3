"""The gated cell's scan and its way back, compiled: one loop each for all families with recurrence.

A step is one matrix product with all recurrent weights side by side, and a few passes over its
rows. Arrays are time-major:

* `blocks` (T, B, K) comes in as the inputs' part of all pre-activations, ``W x_t + b``, and leaves
  as the values of gates and candidate: one array less to move through memory. K counts the columns
  of all blocks; `FamilyLayout` says where each begins.
* `history` (T+1, B, H) holds h and `cells` c, the same array without a show gate.
* `products` (T, B, H) holds ``U h + b_h`` where the reset comes after the product, `normalised` (T,
  B, H) what N makes of the candidate before gain and offset, `inverse` (T, B) one over its spread.
  They are empty where a family does without.

The way back is the recursion of Eq. (3), ``λ_{t−1} = δ_{t−1} + λ_t J_t``; it fills `pre`, the
adjoints of all pre-activations, and `raw`, those behind the layer normalisation. An *adjoint* is
the gradient of the loss in a quantity.

A pass has at most four arrays: with more the compiler cannot rule out that they overlap, and does
not vectorise. No slice is assigned an array: NumPy's words for shapes that do not fit, which would
be compiled with it, take longer than a scan. The file is one, because compiled code is kept on disk
until its file changes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import config, njit, types
from numba.extending import overload
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lwcore.ambient import own_precision

# Where Numba is told not to compile, loops would take minutes: steps are the default there.
ENABLED = os.environ.get("LWCORE_COMPILED", "0" if config.DISABLE_JIT else "1") != "0"  # type: ignore[attr-defined]

# The compiler may fuse products with sums. It may not reorder sums, on which the reduction of exp's
# argument relies, nor divide by reciprocals: an open gate is exactly 1. It has to expect NaN.
OPTIONS: Any = {"fastmath": {"contract", "nsz"}, "error_model": "numpy"}
_PASS: Any = OPTIONS | {"fastmath": OPTIONS["fastmath"] | {"reassoc"}, "nogil": True}
# Inlined, a sum over neurons has one order. Else it is compiled twice, in two orders, and a process
# that has just compiled takes the one, a process that reads from disk the other.
_SUM: Any = _PASS | {"forceinline": True}
EPSILON = 1e-5  # under the root of the layer normalisation, as in PyTorch


class _Precision(NamedTuple):
    """What exp needs to know of a type of floats.

    log 2 comes in two parts, of which the first has so few digits that its products with whole
    numbers are exact.
    """

    real: Any
    whole: Any  # the integers of the same size
    terms: int  # of Taylor's series
    log2: float
    log2_rest: float


_PRECISION: Any = {
    types.float32: _Precision(np.float32, np.int32, 7, 0.693359375, -2.12194440e-4),
    types.float64: _Precision(np.float64, np.int64, 13, 0.693145751953125, 1.42860682030941723e-6),
}


def _exp(x: Any) -> Any:
    """Split ``exp(x)`` into ``2ⁿ`` and ``2ⁿ q``, |q| < 1/2; return a 1 of x's precision, too."""
    precision = types.float32 if isinstance(x, np.float32) else types.float64
    return _exp_in(precision)(x)  # uncompiled; compiled code takes the overload itself


@overload(_exp, jit_options=OPTIONS)
def _exp_in(x: Any) -> Callable[[Any], Any]:
    """Return exp in the precision of x, in plain arithmetic, which a compiler vectorises.

    It takes a tenth of the C library's time. The argument is reduced by n log 2 (Cody and Waite),
    ``exp(x) = 2ⁿ exp(r)`` with ``r = x − n log 2``; q is Taylor's series of ``exp(r) − 1``.
    """
    precision = _PRECISION[x]
    real = precision.real
    whole = precision.whole
    log2 = real(precision.log2)
    rest = real(precision.log2_rest)
    inverse = real(1 / math.log(2))
    half = real(0.5)
    one = real(1)
    places = np.finfo(real).nmant  # of the mantissa, behind which the exponent stands
    bias = np.finfo(real).maxexp - 1
    most = np.floor(np.log(np.finfo(real).max))
    least = one - most
    first, *others = [real(1 / math.factorial(k)) for k in range(precision.terms, 0, -1)]
    series = tuple(others)

    def exp(x: Any) -> Any:
        x = most if x > most else x
        x = least if x < least else x
        n = np.floor(x * inverse + half)
        r = (x - n * log2) - n * rest
        q = first
        for coefficient in series:
            q = q * r + coefficient
        power = whole((whole(n) + bias) << places).view(real)  # 2ⁿ, written as a float's exponent
        return power, power * (q * r), one

    return exp


@njit(**OPTIONS)
def logistic(x: Any) -> Any:
    """Return the logistic function ``exp(x)/(exp(x) + 1)``."""
    power, beside, one = _exp(x)
    return (power + beside) / (power + beside + one)


@njit(**OPTIONS)
def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent, from ``exp(2x) − 1``, which is accurate about 0."""
    power, beside, one = _exp(x + x)
    less = (power - one) + beside
    return less / (less + one + one)


def _pass(formula: Callable[..., Any]) -> Callable[..., None]:
    """Compile a loop over sequences and neurons, ``out = formula(out, x, …)``, of blocks.

    A block is an array and its first column; the loop takes `count` columns of each. Columns are
    unsigned: no index wraps around. Where out is an operand, it is the formula's first; under two
    names it would count as overlapping with itself.
    """

    def of_one(count, out, x):
        outs, k = out
        xs, m = x
        for b in range(len(outs)):
            for j in range(count):
                outs[b, k + j] = compiled(outs[b, k + j], xs[b, m + j])

    def of_two(count, out, x, y):
        outs, k = out
        xs, m = x
        ys, n = y
        for b in range(len(outs)):
            for j in range(count):
                outs[b, k + j] = compiled(outs[b, k + j], xs[b, m + j], ys[b, n + j])

    def of_three(count, out, x, y, z):
        outs, k = out
        xs, m = x
        ys, n = y
        zs, p = z
        for b in range(len(outs)):
            for j in range(count):
                outs[b, k + j] = compiled(outs[b, k + j], xs[b, m + j], ys[b, n + j], zs[b, p + j])

    n_operands = formula.__code__.co_argcount - 1
    loop = {1: of_one, 2: of_two, 3: of_three}[n_operands]
    # Compiled code is linked by names: a namesake that another process compiled might run instead.
    line = formula.__code__.co_firstlineno
    formula.__qualname__ = f"formula_of_line_{line}"
    loop.__qualname__ = f"pass_of_line_{line}"
    compiled = njit(**OPTIONS)(formula)
    return njit(**_PASS)(loop)


# Formulas without literals: a 1 would make doubles of singles. `_` is an out that is not read.
_copy = _pass(lambda _, x: x)
_add = _pass(lambda out, x: out + x)
_scale = _pass(lambda out, x: out * x)
_times_one_minus = _pass(lambda out, gate: out - out * gate)
_multiply = _pass(lambda _, x, y: x * y)
_subtract = _pass(lambda _, x, y: x - y)
_add_product = _pass(lambda out, x, y: out + x * y)
_tanh = _pass(lambda _, x: tanh(x))
_tanh_of_sum = _pass(lambda out, x: tanh(out + x))
_logistic_of_sum = _pass(lambda out, x: logistic(out + x))
# The new c where a gate replaces what it lets in, (1 − b) c + b g.
_interpolate = _pass(lambda _, cell, gate, g: cell + gate * (g - cell))
# Adjoints λ · factor, through the slope of a logistic, σ' = σ − σ², or of a tanh, 1 − g².
_through_gate = _pass(lambda _, lam, factor, gate: lam * factor * (gate - gate * gate))
_through_tanh = _pass(lambda _, lam, factor, g: lam * factor - lam * factor * (g * g))


@njit(**_SUM)
def _normalise(rows, first, norm, normalised, inverse):
    """Normalise columns from `first` on in place; keep n, and one over the spread of each row."""
    batch, n_neurons = normalised.shape
    neurons = np.uintp(n_neurons)
    real = rows.dtype.type
    for b in range(batch):
        mean = spread = real(0)
        for j in range(neurons):
            mean += rows[b, first + j]
        mean /= n_neurons
        for j in range(neurons):
            centred = rows[b, first + j] - mean
            spread += centred * centred
        inverse[b] = real(1 / np.sqrt(spread / n_neurons + EPSILON))
        for j in range(neurons):
            normalised[b, j] = (rows[b, first + j] - mean) * inverse[b]
        for j in range(neurons):
            rows[b, first + j] = normalised[b, j] * norm[0, j] + norm[1, j]


@njit(**_SUM)
def _through_norm(raw, norm, normalised, inverse, out, first):
    """Carry adjoints from behind the normalisation, `raw`, to before it, `out` from `first` on."""
    batch, n_neurons = raw.shape
    neurons = np.uintp(n_neurons)
    for b in range(batch):
        mean = slope = raw.dtype.type(0)
        for j in range(neurons):
            mean += raw[b, j] * norm[0, j]
            slope += raw[b, j] * norm[0, j] * normalised[b, j]
        mean /= n_neurons
        slope /= n_neurons
        for j in range(neurons):
            before_norm = raw[b, j] * norm[0, j] - mean - normalised[b, j] * slope
            out[b, first + j] = inverse[b] * before_norm


class FamilyLayout(NamedTuple):
    """A family, as the kernels know it: the column where each block begins, and how it is used.

    A column is −1 where the family has no such block. All gates stand before the candidate, but for
    the show gate, which stands behind it.
    """

    shared: bool  # one gate for all neurons
    after: bool  # the reset comes after the matrix product
    constant: float  # the gate's value where none is learned
    candidate: int
    let_in: int = -1
    keep: int = -1
    reset: int = -1
    show: int = -1


@njit(**OPTIONS)
def _first(column: int) -> Any:
    """A block's first column as no loop wraps around it; any for a block that is not there."""
    return np.uintp(max(column, 0))


def _kept_on_disk(function: Callable[..., None]) -> Callable[..., None]:
    """Compile a function and keep that for later processes, where there is a place to keep it."""
    try:
        return njit(**_PASS, cache=True)(function)
    except RuntimeError:  # an installation that cannot be written, and no home: a container, say
        return njit(**_PASS)(function)


@_kept_on_disk
def steps_forward(
    layout, weight, bias_hh, norm, history, cells, blocks, products, normalised, inverse
):
    """Take all steps from first to last; the arrays from `history` on are filled.

    A pair (array, first column) is a block, as `_pass` takes it. The letters are those of an LSTM:
    i lets in, f keeps, g is the candidate, r resets, o shows.
    """
    batch = history.shape[1]
    hidden = np.uintp(history.shape[2])
    zero = np.uintp(0)
    gates = np.uintp(layout.candidate)  # columns before the candidate
    # A reset before the product gives the candidate a product of its own, U (r ⊙ h).
    reset_before = layout.reset >= 0 and not layout.after
    of_state = weight[: layout.candidate] if reset_before else weight
    packed = np.ascontiguousarray(of_state.T)
    of_candidate = np.ascontiguousarray(weight[layout.candidate :].T)
    pre = (np.empty((batch, packed.shape[1]), blocks.dtype), zero)
    scratch = (np.empty((batch, history.shape[2]), blocks.dtype), zero)
    # One gate for all neurons, learned or constant, is written out for each of them.
    spread_gate = np.full((batch, history.shape[2]), layout.constant, blocks.dtype)
    gate_is_spread = layout.shared or layout.let_in < 0
    for t in range(len(blocks)):
        rows = blocks[t]
        h = (history[t], zero)
        c = (cells[t], zero)
        new_c = (cells[t + 1], zero)
        i = (rows, _first(layout.let_in))
        f = (rows, _first(layout.keep))
        g = (rows, gates)
        r = (rows, _first(layout.reset))
        o = (rows, _first(layout.show))

        # Gates, and what the candidate gets from h.
        np.dot(history[t], packed, pre[0])
        _logistic_of_sum(gates, (rows, zero), pre)
        from_state = (pre[0], gates)
        if reset_before:
            _multiply(hidden, scratch, r, h)
            from_state = (np.dot(scratch[0], of_candidate), zero)
        elif layout.after:
            for b in range(batch):
                for j in range(hidden):
                    products[t, b, j] = bias_hh[j]
            _add(hidden, (products[t], zero), from_state)
            _multiply(hidden, scratch, r, (products[t], zero))
            from_state = scratch

        # g = tanh(N(W x + b + from_state))
        if len(inverse):
            _add(hidden, g, from_state)
            _normalise(rows, gates, norm, normalised[t], inverse[t])
            _copy(hidden, scratch, g)
            _tanh(hidden, g, scratch)
        else:
            _tanh_of_sum(hidden, g, from_state)

        # c = a c + b g, then h = o tanh(c); without a show gate h is c.
        if layout.shared:
            for b in range(batch):
                spread_gate[b] = rows[b, 0]
        if layout.keep >= 0:
            _multiply(hidden, new_c, f, c)
            _add_product(hidden, new_c, i, g)
        else:
            gate = (spread_gate, zero) if gate_is_spread else i
            _interpolate(hidden, new_c, c, gate, g)
        if layout.show >= 0:
            _logistic_of_sum(hidden, o, (pre[0], o[1]))
            _tanh(hidden, scratch, new_c)
            _multiply(hidden, (history[t + 1], zero), o, scratch)


@_kept_on_disk
def steps_backward(
    layout, delta, pre, raw, weight, norm, history, cells, blocks, products, normalised, inverse
):
    """Take all steps from last to first, from δ; `pre` and `raw` are filled.

    Letters are those of `steps_forward`; `of_x` is the adjoint of x.
    """
    batch = history.shape[1]
    hidden = np.uintp(history.shape[2])
    zero = np.uintp(0)
    gates = np.uintp(layout.candidate)
    reset_before = layout.reset >= 0 and not layout.after
    packed = weight[: layout.candidate] if reset_before else weight
    of_candidate = weight[layout.candidate :]
    state = history[0]  # zero
    of_h = (np.zeros_like(state), zero)
    of_c = (np.zeros_like(state), zero)
    scratch = (np.empty_like(state), zero)
    of_each = (np.empty_like(state), zero)  # a shared gate's adjoint, neuron by neuron
    lam = of_c if layout.show >= 0 else of_h  # λ, carried from step to step
    spread_gate = np.full_like(state, layout.constant)
    gate_is_spread = layout.shared or layout.let_in < 0
    to_state = (np.empty((batch, len(packed)), delta.dtype), zero)
    for t in range(len(delta) - 1, -1, -1):
        rows = blocks[t]
        out = pre[t]
        c = (cells[t], zero)
        column_i = _first(layout.let_in)
        column_f = _first(layout.keep)
        column_r = _first(layout.reset)
        i = (rows, column_i)
        f = (rows, column_f)
        g = (rows, gates)
        r = (rows, column_r)
        of_g = (out, gates)

        _add(hidden, of_h, (delta[t], zero))
        if layout.show >= 0:  # c feels h through o (1 − tanh² c)
            o = (rows, _first(layout.show))
            _tanh(hidden, scratch, (cells[t + 1], zero))
            _through_gate(hidden, (out, o[1]), of_h, scratch, o)
            _through_tanh(hidden, of_g, of_h, o, scratch)
            _add(hidden, lam, of_g)

        # c = a c + b g: adjoints of candidate and gates, and λ a, which goes on to the c before.
        if layout.shared:
            for b in range(batch):
                spread_gate[b] = rows[b, 0]
        gate = (spread_gate, zero) if gate_is_spread else i
        _through_tanh(hidden, of_g, lam, gate, g)
        if layout.keep >= 0:
            _through_gate(hidden, (out, column_i), lam, g, i)
            _through_gate(hidden, (out, column_f), lam, c, f)
            _scale(hidden, lam, f)
        else:
            if layout.let_in >= 0:
                of_gate = of_each if layout.shared else (out, column_i)
                _subtract(hidden, scratch, g, c)
                _through_gate(hidden, of_gate, lam, scratch, gate)
            if layout.shared:
                for b in range(batch):
                    out[b, 0] = of_each[0][b].sum()
            _times_one_minus(hidden, lam, gate)

        if len(inverse):
            _copy(hidden, (raw[t], zero), of_g)
            _through_norm(raw[t], norm, normalised[t], inverse[t], out, gates)

        # From pre-activations back to the h before, through the reset where there is one.
        if reset_before:
            _copy(hidden, scratch, of_g)
            product = (np.dot(scratch[0], of_candidate), zero)
            _through_gate(hidden, (out, column_r), product, (history[t], zero), r)
            _add_product(hidden, of_h, r, product)
            _copy(gates, to_state, (out, zero))
        elif layout.after:
            _through_gate(hidden, (out, column_r), of_g, (products[t], zero), r)
            _copy(gates, to_state, (out, zero))
            _multiply(hidden, (to_state[0], gates), r, of_g)
        adjoints = to_state[0] if layout.reset >= 0 else out
        product = (np.dot(adjoints, packed), zero)
        if layout.show >= 0:
            _copy(hidden, of_h, product)
        else:
            _add(hidden, of_h, product)


def usable(like: Tensor) -> bool:
    """Return whether the kernels can take a tensor: float32 or float64 on the CPU."""
    return ENABLED and like.device.type == "cpu" and like.dtype in (torch.float32, torch.float64)


def scan(layout: FamilyLayout, inputs: Tensor, parameters: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """Scan (B, T, D) from zero; return h, and c where it is not the same, (B, T, H) each.

    h is differentiable once, in inputs and parameters; c is not.
    """
    # The bias is the weight of one more input, which is 1: so one product drives all blocks.
    time_major = functional.pad(inputs.transpose(0, 1), (0, 1), value=1.0)
    columns = torch.cat([parameters["weight_ih"], parameters["bias"].unsqueeze(1)], dim=1)
    driven = time_major @ columns.t()
    if "norm_weight" in parameters:
        norm = torch.stack([parameters["norm_weight"], parameters["norm_bias"]])
    else:
        norm = inputs.new_empty(0, 0)
    bias_hh = parameters.get("bias_hh", inputs.new_empty(0))
    hidden, cells = _Scan.apply(layout, driven, parameters["weight_hh"], bias_hh, norm)
    if layout.show < 0:
        return (hidden,)
    return hidden, cells


class _Scan(torch.autograd.Function):
    """The scan from what drives it, in whose memory gates and candidate come to stand."""

    @staticmethod
    def forward(
        ctx: Any,
        layout: FamilyLayout,
        blocks: Tensor,
        weight: Tensor,
        bias_hh: Tensor,
        norm: Tensor,
    ) -> tuple[Tensor, Tensor]:
        steps, batch, _ = blocks.shape
        nothing = blocks.new_empty(0, 0, 0)
        history = blocks.new_empty(steps + 1, batch, weight.shape[1])
        cells = torch.empty_like(history) if layout.show >= 0 else history
        history[0] = 0
        cells[0] = 0
        products = torch.empty_like(history[1:]) if layout.after else nothing
        normalised = torch.empty_like(history[1:]) if len(norm) else nothing
        inverse = blocks.new_empty(normalised.shape[:2])
        kept = history, cells, blocks, products, normalised, inverse
        steps_forward(layout, *_arrays(weight, bias_hh, norm, *kept))
        ctx.layout = layout
        ctx.save_for_backward(weight, norm, *kept)
        outputs = history[1:].transpose(0, 1)
        final_cells = cells[1:].transpose(0, 1)
        ctx.mark_non_differentiable(final_cells)
        return outputs, final_cells

    @staticmethod
    @once_differentiable
    @own_precision
    def backward(ctx: Any, of_hidden: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        layout = ctx.layout
        _, norm, history, _, blocks, _, normalised, _ = ctx.saved_tensors
        pre = torch.empty_like(blocks)
        raw = torch.empty_like(normalised)
        arrays = _arrays(of_hidden.transpose(0, 1), pre, raw, *ctx.saved_tensors)
        steps_backward(layout, *arrays)

        # The weights' gradients are sums over steps and sequences of adjoint times what was seen.
        adjoints = pre.flatten(0, 1)
        h = history[:-1].flatten(0, 1)
        of_bias_hh = None
        if layout.reset >= 0:
            # The candidate saw h through the reset gate.
            reset = blocks[..., layout.reset :][..., : history.shape[2]].flatten(0, 1)
            of_gates = adjoints[:, : layout.candidate]
            of_candidate = adjoints[:, layout.candidate :]
            if layout.after:
                of_product = of_candidate * reset
                of_bias_hh = of_product.sum(0)
                pairs = [(of_gates, h), (of_product, h)]
            else:
                pairs = [(of_gates, h), (of_candidate, h * reset)]
        else:
            pairs = [(adjoints, h)]
        of_rows = []
        for adjoint, seen in pairs:
            of_rows.append((seen.t() @ adjoint).t())
        of_norm = None
        if len(norm):
            of_norm = torch.stack([raw * normalised, raw]).sum((1, 2))
        return None, pre, torch.cat(of_rows), of_bias_hh, of_norm


def _arrays(*tensors: Tensor) -> tuple[np.ndarray, ...]:
    """Return tensors as arrays that share their memory."""
    return tuple(tensor.detach().contiguous().numpy() for tensor in tensors)


def linear_scan(keep: Tensor, added: Tensor) -> Tensor:
    """Return the recurrence ``h_t = a_t h_{t−1} + u_t`` from zero, (B, T, H), in 2√T steps.

    Takes a as `keep` and u as `added`, on any device.
    """
    scanned: Tensor = _LinearScan.apply(keep, added)
    return scanned


class _LinearScan(torch.autograd.Function):
    """The linear scan; its way back is the same in reversed time."""

    @staticmethod
    def forward(ctx: Any, keep: Tensor, added: Tensor) -> Tensor:
        states = _scan_in_pieces(keep, added)
        ctx.save_for_backward(keep, states)
        return states

    @staticmethod
    @once_differentiable
    @own_precision
    def backward(ctx: Any, *of_states: Tensor) -> tuple[Tensor, ...]:
        keep, states = ctx.saved_tensors
        # λ_t = δ_t + a_{t+1} λ_{t+1}; the gradients are λ_t h_{t−1} in a_t, and λ_t in u_t.
        next_keep = functional.pad(keep[:, 1:], (0, 0, 0, 1)).flip(1)
        adjoint = _scan_in_pieces(next_keep, of_states[0].flip(1)).flip(1)
        previous = functional.pad(states[:, :-1], (0, 0, 1, 0))
        return adjoint * previous, adjoint


def _scan_in_pieces(keep: Tensor, added: Tensor) -> Tensor:
    """Scan all √T pieces of time at once, each from zero, then join them one after the other.

    A piece that begins at h instead of zero has h times the product of its gates on top, which
    cannot overflow.
    """
    length = keep.shape[1]
    size = math.isqrt(length - 1) + 1  # √T, rounded up
    missing = (0, 0, 0, -length % size)  # zeros behind the last step
    decay = functional.pad(keep, missing).unflatten(1, (-1, size)).clone()  # (B, pieces, √T, H)
    local = functional.pad(added, missing).unflatten(1, (-1, size)).clone()
    n_pieces = local.shape[1]
    # Within all pieces at once: h of each step as if the piece began at zero, and ∏ a up to it.
    for j in range(1, size):
        local[:, :, j].addcmul_(decay[:, :, j], local[:, :, j - 1])
        decay[:, :, j].mul_(decay[:, :, j - 1])
    # From piece to piece: the h that the last one ended with, times ∏ a.
    for piece in range(1, n_pieces):
        last = local[:, piece - 1, -1:]
        local[:, piece].addcmul_(decay[:, piece], last)
    return local.flatten(1, 2)[:, :length]
