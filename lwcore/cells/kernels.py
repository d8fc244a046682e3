"""The gated cell's scan and its way back, compiled: one loop each for all families with recurrence.

A step is one matrix product with all recurrent weights side by side, and a few passes over its
rows. Arrays are time-major. `blocks` (T, B, K) comes in as the inputs' part of all pre-activations,
``W x_t + b``, and leaves as the values of gates and candidate: one array less to move through
memory. `history` (T+1, B, H) holds h and `cells` c, the same array without a show gate. The way
back is the recursion of Eq. (3), ``λ_{t−1} = δ_{t−1} + λ_t J_t``; it fills `pre`, the adjoints of
all pre-activations, and `raw`, those behind the layer normalisation.

A pass has at most four arrays: with more the compiler cannot rule out that they overlap, and does
not vectorise. The file is one, because compiled code is kept on disk until its file changes.
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

# Reals and integers, terms of the series, and log 2 in two parts, of which the first has so few
# digits that its products with whole numbers are exact.
_PRECISION: Any = {
    types.float32: (np.float32, np.int32, 7, 0.693359375, -2.12194440e-4),
    types.float64: (np.float64, np.int64, 13, 0.693145751953125, 1.42860682030941723e-6),
}


def _exp(x: Any) -> Any:
    """Split ``exp(x)`` into ``2ⁿ`` and ``2ⁿ q``, |q| < 1/2; return a 1 of x's precision, too."""
    return _exp_in(types.float32 if isinstance(x, np.float32) else types.float64)(x)  # uncompiled


@overload(_exp, jit_options=OPTIONS)
def _exp_in(x: Any) -> Callable[[Any], Any]:
    """Plain arithmetic, which a compiler vectorises: a tenth of the C library's time.

    The argument is reduced by n log 2 (Cody and Waite); q is Taylor's series.
    """
    real, whole, terms, *parts = _PRECISION[x]
    log2, rest, inverse, half, one = map(real, (*parts, 1 / math.log(2), 0.5, 1))
    places, bias = np.finfo(real).nmant, np.finfo(real).maxexp - 1
    most = np.floor(np.log(np.finfo(real).max))
    least = one - most
    first, *others = (real(1 / math.factorial(k)) for k in range(terms, 0, -1))
    series = tuple(others)

    def exp(x: Any) -> Any:
        x = most if x > most else x
        x = least if x < least else x
        n = np.floor(x * inverse + half)
        r = (x - n * log2) - n * rest
        q = first
        for coefficient in series:
            q = q * r + coefficient
        power = whole((whole(n) + bias) << places).view(real)
        return power, power * (q * r), one

    return exp


@njit(**OPTIONS)
def logistic(x: Any) -> Any:
    """The logistic function."""
    power, beside, one = _exp(x)
    return (power + beside) / (power + beside + one)


@njit(**OPTIONS)
def tanh(x: Any) -> Any:
    """The hyperbolic tangent, from exp(2x) − 1, which is accurate about 0."""
    power, beside, one = _exp(x + x)
    less = (power - one) + beside
    return less / (less + one + one)


def _pass(formula: Callable[..., Any]) -> Callable[..., None]:
    """A loop over sequences and neurons, ``out = formula(out, x, …)``, of blocks `count` wide.

    A block is an array and its first column, unsigned: no index wraps around. Where out is an
    operand, it is the formula's first; under two names it would count as overlapping with itself.
    """

    def of_one(count, out, x):
        for b in range(len(out[0])):
            for j in range(count):
                k, m = out[1] + j, x[1] + j
                out[0][b, k] = made(out[0][b, k], x[0][b, m])

    def of_two(count, out, x, y):
        for b in range(len(out[0])):
            for j in range(count):
                k, m, n = out[1] + j, x[1] + j, y[1] + j
                out[0][b, k] = made(out[0][b, k], x[0][b, m], y[0][b, n])

    def of_three(count, out, x, y, z):
        for b in range(len(out[0])):
            for j in range(count):
                k, m, n = out[1] + j, x[1] + j, y[1] + j
                out[0][b, k] = made(out[0][b, k], x[0][b, m], y[0][b, n], z[0][b, z[1] + j])

    # Compiled code is linked by names: a namesake that another process compiled might run instead.
    loop = (of_one, of_two, of_three)[formula.__code__.co_argcount - 2]
    formula.__qualname__ = f"formula_of_line_{formula.__code__.co_firstlineno}"
    loop.__qualname__ = f"pass_of_line_{formula.__code__.co_firstlineno}"
    made = njit(**OPTIONS)(formula)
    return njit(**_PASS)(loop)


# Without literals: a 1 would make doubles of singles.
_squash = _pass(lambda _, x: tanh(x))
_close = _pass(lambda out, x: tanh(out + x))
_open = _pass(lambda out, x: logistic(out + x))
_copy = _pass(lambda _, x: x)
_add = _pass(lambda out, x: out + x)
_scale = _pass(lambda out, x: out * x)
_release = _pass(lambda out, gate: out - out * gate)
_multiply = _pass(lambda _, x, y: x * y)
_subtract = _pass(lambda _, x, y: x - y)
_add_product = _pass(lambda out, x, y: out + x * y)
_move = _pass(lambda _, cell, gate, g: cell + gate * (g - cell))
_through_gate = _pass(lambda _, lam, factor, gate: lam * factor * (gate - gate * gate))
_through_tanh = _pass(lambda _, lam, factor, g: lam * factor - lam * factor * (g * g))


@njit(**_SUM)
def _normalise(rows, at, norm, normalised, inverse):
    """Layer normalisation in place, and one over the spread of each row."""
    batch, count = normalised.shape
    for b in range(batch):
        mean = spread = rows.dtype.type(0)
        for j in range(np.uintp(count)):
            mean += rows[b, at + j]
        mean /= count
        for j in range(np.uintp(count)):
            spread += (rows[b, at + j] - mean) * (rows[b, at + j] - mean)
        inverse[b] = rows.dtype.type(1 / np.sqrt(spread / count + EPSILON))
        for j in range(np.uintp(count)):
            normalised[b, j] = (rows[b, at + j] - mean) * inverse[b]
        for j in range(np.uintp(count)):
            rows[b, at + j] = normalised[b, j] * norm[0, j] + norm[1, j]


@njit(**_SUM)
def _through_norm(raw, norm, normalised, inverse, out, at):
    """Adjoints from behind the normalisation to before it."""
    batch, count = raw.shape
    for b in range(batch):
        mean = slope = raw.dtype.type(0)
        for j in range(np.uintp(count)):
            mean += raw[b, j] * norm[0, j]
            slope += raw[b, j] * norm[0, j] * normalised[b, j]
        mean /= count
        slope /= count
        for j in range(np.uintp(count)):
            out[b, at + j] = inverse[b] * (raw[b, j] * norm[0, j] - mean - normalised[b, j] * slope)


class FamilyLayout(NamedTuple):
    """A family: the column where each of its blocks begins, −1 without it, and their use."""

    let_in: int
    keep: int
    candidate: int
    reset: int
    show: int
    shared: bool
    after: bool
    constant: float


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
def steps_forward(layout, weight, bias_hh, norm, *kept):
    """The steps from first to last."""
    history, cells, blocks, products, normalised, inverse = kept
    before = layout.reset >= 0 and not layout.after
    packed = np.ascontiguousarray((weight[: layout.candidate] if before else weight).T)
    own = np.ascontiguousarray(weight[layout.candidate :].T)
    batch, hidden, zero = history.shape[1], np.uintp(history.shape[2]), np.uintp(0)
    gates = np.uintp(layout.candidate)
    pre = (np.empty((batch, packed.shape[1]), blocks.dtype), zero)
    side = (np.empty((batch, history.shape[2]), blocks.dtype), zero)
    fixed = np.full((batch, history.shape[2]), layout.constant, blocks.dtype)
    for t in range(len(blocks)):
        rows, h, c, new = blocks[t], (history[t], zero), (cells[t], zero), (cells[t + 1], zero)
        i, f, g = (rows, _first(layout.let_in)), (rows, _first(layout.keep)), (rows, gates)
        r, o = (rows, _first(layout.reset)), (rows, _first(layout.show))
        np.dot(history[t], packed, pre[0])
        _open(gates, (rows, zero), pre)
        added = (pre[0], gates)
        if before:
            _multiply(hidden, side, r, h)
            added = (np.dot(side[0], own), zero)
        elif layout.after:
            products[t] = bias_hh
            _add(hidden, (products[t], zero), added)
            _multiply(hidden, side, r, (products[t], zero))
            added = side
        if len(inverse):
            _add(hidden, g, added)
            _normalise(rows, gates, norm, normalised[t], inverse[t])
            _copy(hidden, side, g)
            _squash(hidden, g, side)
        else:
            _close(hidden, g, added)
        if layout.shared:
            fixed[:] = rows[:, :1]
        if layout.keep >= 0:
            _multiply(hidden, new, f, c)
            _add_product(hidden, new, i, g)
        else:
            _move(hidden, new, c, (fixed, zero) if layout.shared or layout.let_in < 0 else i, g)
        if layout.show >= 0:
            _open(hidden, o, (pre[0], o[1]))
            _squash(hidden, side, new)
            _multiply(hidden, (history[t + 1], zero), o, side)


@_kept_on_disk
def steps_backward(layout, delta, pre, raw, weight, norm, *kept):
    """The steps from last to first, from δ: `pre` and `raw` are filled."""
    history, cells, blocks, products, normalised, inverse = kept
    before = layout.reset >= 0 and not layout.after
    packed = weight[: layout.candidate] if before else weight
    own = weight[layout.candidate :]
    batch, hidden, zero = history.shape[1], np.uintp(history.shape[2]), np.uintp(0)
    gates = np.uintp(layout.candidate)
    state = history[0]  # zero
    adjoint, of_cell = (np.zeros_like(state), zero), (np.zeros_like(state), zero)
    side, spare = (np.empty_like(state), zero), (np.empty_like(state), zero)
    lam = of_cell if layout.show >= 0 else adjoint
    fixed = np.full_like(state, layout.constant)
    behind = (np.empty((batch, len(packed)), delta.dtype), zero)
    for t in range(len(delta) - 1, -1, -1):
        rows, out, c = blocks[t], pre[t], (cells[t], zero)
        at_i, at_f, at_r = _first(layout.let_in), _first(layout.keep), _first(layout.reset)
        i, f, g, r, own_out = (rows, at_i), (rows, at_f), (rows, gates), (rows, at_r), (out, gates)
        _add(hidden, adjoint, (delta[t], zero))
        if layout.show >= 0:  # c feels h through o (1 − tanh² c)
            o = (rows, _first(layout.show))
            _squash(hidden, side, (cells[t + 1], zero))
            _through_gate(hidden, (out, o[1]), adjoint, side, o)
            _through_tanh(hidden, own_out, adjoint, o, side)
            _add(hidden, lam, own_out)
        if layout.shared:
            fixed[:] = rows[:, :1]
        gate = (fixed, zero) if layout.shared or layout.let_in < 0 else i
        _through_tanh(hidden, own_out, lam, gate, g)
        if layout.keep >= 0:
            _through_gate(hidden, (out, at_i), lam, g, i)
            _through_gate(hidden, (out, at_f), lam, c, f)
            _scale(hidden, lam, f)
        else:
            if layout.let_in >= 0:
                _subtract(hidden, side, g, c)
                _through_gate(hidden, spare if layout.shared else (out, at_i), lam, side, gate)
            if layout.shared:
                for b in range(batch):
                    out[b, 0] = spare[0][b].sum()
            _release(hidden, lam, gate)
        if len(inverse):
            _copy(hidden, (raw[t], zero), own_out)
            _through_norm(raw[t], norm, normalised[t], inverse[t], out, gates)
        if before:
            _copy(hidden, side, own_out)
            product = (np.dot(side[0], own), zero)
            _through_gate(hidden, (out, at_r), product, (history[t], zero), r)
            _add_product(hidden, adjoint, r, product)
            _copy(gates, behind, (out, zero))
        elif layout.after:
            _through_gate(hidden, (out, at_r), own_out, (products[t], zero), r)
            _copy(gates, behind, (out, zero))
            _multiply(hidden, (behind[0], gates), r, own_out)
        product = (np.dot(behind[0] if layout.reset >= 0 else out, packed), zero)
        if layout.show >= 0:
            _copy(hidden, adjoint, product)
        else:
            _add(hidden, adjoint, product)


def usable(like: Tensor) -> bool:
    """Whether the kernels can take a tensor: float32 or float64 on the CPU."""
    return ENABLED and like.device.type == "cpu" and like.dtype in (torch.float32, torch.float64)


def scan(layout: FamilyLayout, inputs: Tensor, of: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """The scan of (B, T, D) from zero: h, and c where it is another, (B, T, H) each.

    h is differentiable once, in the parameters `of` the cell too.
    """
    # an input of one, whose weight is the bias
    major = functional.pad(inputs.transpose(0, 1), (0, 1), value=1.0)
    driven = major @ torch.cat([of["weight_ih"], of["bias"].unsqueeze(1)], dim=1).t()
    given = [of[name] for name in ("norm_weight", "norm_bias") if name in of]
    norm = torch.stack(given) if given else inputs.new_empty(0, 0)
    weights = of["weight_hh"], of.get("bias_hh", inputs.new_empty(0)), norm
    return _Scan.apply(layout, driven, *weights)[: 1 + (layout.show >= 0)]


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
        (steps, batch, _), none = blocks.shape, blocks.new_empty(0, 0, 0)
        history = blocks.new_empty(steps + 1, batch, weight.shape[1])
        cells = torch.empty_like(history) if layout.show >= 0 else history
        history[0] = cells[0] = 0
        products = torch.empty_like(history[1:]) if layout.after else none
        normalised = torch.empty_like(history[1:]) if len(norm) else none
        kept = history, cells, blocks, products, normalised, blocks.new_empty(normalised.shape[:2])
        _run(steps_forward, layout, *_arrays(weight, bias_hh, norm, *kept))
        ctx.layout = layout
        ctx.save_for_backward(weight, norm, *kept)
        outputs = history[1:].transpose(0, 1), cells[1:].transpose(0, 1)
        ctx.mark_non_differentiable(outputs[1])
        return outputs

    @staticmethod
    @once_differentiable
    @own_precision
    def backward(ctx: Any, of_hidden: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        layout, (_, norm, history, _, blocks, _, normalised, _) = ctx.layout, ctx.saved_tensors
        pre, raw = torch.empty_like(blocks), torch.empty_like(normalised)
        arrays = _arrays(of_hidden.transpose(0, 1), pre, raw, *ctx.saved_tensors)
        _run(steps_backward, layout, *arrays)
        flat, past = pre.flatten(0, 1), history[:-1].flatten(0, 1)
        parts, of_bias = [(flat, past)], None
        if layout.reset >= 0:
            gates, own = flat[:, : layout.candidate], flat[:, layout.candidate :]
            reset = blocks[..., layout.reset :][..., : history.shape[2]].flatten(0, 1)
            parts = [(gates, past), (own * reset, past) if layout.after else (own, past * reset)]
            of_bias = parts[1][0].sum(0) if layout.after else None
        of_weight = torch.cat([(seen.t() @ part).t() for part, seen in parts])
        of_norm = torch.stack([raw * normalised, raw]).sum((1, 2)) if len(norm) else None
        return None, pre, of_weight, of_bias, of_norm


def _run(kernel: Callable[..., None], *args: Any) -> None:
    """Call a kernel, which is compiled now, if it was not, and then kept on disk."""
    try:
        kernel(*args)
    except OSError:  # a full disk: what is compiled is there all the same, and has not run yet
        kernel(*args)


def _arrays(*tensors: Tensor) -> tuple[np.ndarray, ...]:
    return tuple(tensor.detach().contiguous().numpy() for tensor in tensors)


def linear_scan(keep: Tensor, added: Tensor) -> Tensor:
    """The recurrence ``h_t = a_t h_{t−1} + u_t`` from zero, (B, T, H), in 2√T steps."""
    scanned: Tensor = _LinearScan.apply(keep, added)
    return scanned


class _LinearScan(torch.autograd.Function):
    """The linear scan; its way back is the same in reversed time."""

    @staticmethod
    def forward(ctx: Any, keep: Tensor, added: Tensor) -> Tensor:
        states = _cumulated(keep, added)
        ctx.save_for_backward(keep, states)
        return states

    @staticmethod
    @once_differentiable
    @own_precision
    def backward(ctx: Any, *of_states: Tensor) -> tuple[Tensor, ...]:
        keep, states = ctx.saved_tensors
        later = functional.pad(keep[:, 1:], (0, 0, 0, 1)).flip(1)
        adjoint = _cumulated(later, of_states[0].flip(1)).flip(1)
        return adjoint * functional.pad(states[:, :-1], (0, 0, 1, 0)), adjoint


def _cumulated(keep: Tensor, added: Tensor) -> Tensor:
    """All √T pieces of time at once, then piece by piece; products of gates cannot overflow."""
    length = keep.shape[1]
    size = math.isqrt(length - 1) + 1
    over = (0, 0, 0, -length % size)
    pieces = (functional.pad(x, over).unflatten(1, (-1, size)).clone() for x in (keep, added))
    decay, local = pieces
    for j in range(1, size):
        local[:, :, j].addcmul_(decay[:, :, j], local[:, :, j - 1])
        decay[:, :, j].mul_(decay[:, :, j - 1])
    for piece in range(1, local.shape[1]):
        local[:, piece].addcmul_(decay[:, piece], local[:, piece - 1, -1:])
    return local.flatten(1, 2)[:, :length]
