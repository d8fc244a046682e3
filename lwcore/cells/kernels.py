"""Compiled recurrences and their backward passes: one matrix product a block and step, everything else fused around it.

Gates and candidates lie block by block, each (T, B, H) with the step's (B, H) in one piece, so that a step is a matrix product a block
and a few passes over B·H numbers. A block comes in as the inputs' part of its pre-activation, ``W x_t + b``, and leaves as the gate's or
the candidate's value: one array less to move through memory. `history` holds the states h, the initial one in front, (T+1, B, H).
`normalised`, the candidates' normalised pre-activations, and `inverse`, one over each row's spread, (T, B), are empty where there is no
layer normalisation. Arrays are contiguous; a kernel works on one thread and lets go of Python's lock.

Backward passes are the recursion of Eq. (3), ``λ_{t−1} = δ_{t−1} + λ_t J_t``, with δ (T, B, H). They fill what parameter gradients are
made of, `pre`, the adjoints of all pre-activations, and `raw`, those behind the layer normalisation, and return λ of the initial state.

Passes have few arrays each: with many in one loop the compiler cannot rule out that they overlap, and gives up vectorising it. All stands
in one file because the compiled code is kept on disk, and made anew only when the file of a kernel changes.

The logistic function and the hyperbolic tangent are plain arithmetic, no call and no branch, so that a compiler can vectorise them: 0.25 to
1 ns a number where the C library takes 5 to 8. They are good to a few units in the last place. Coefficients are those of S. L. Moshier's
Cephes library (exp in both precisions, tanh in double) and, for tanh in single precision, of the rational approximation that Eigen uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

# What a compiler may do: fuse products with sums. It may not reorder sums, which the reduction of exp's argument relies on, nor divide by
# reciprocals, so that an open gate is exactly 1, nor assume that there are no NaNs and infinities.
OPTIONS: Any = {"fastmath": {"contract", "nsz"}, "error_model": "numpy"}

_KERNEL: Any = OPTIONS | {"fastmath": OPTIONS["fastmath"] | {"reassoc"}, "nogil": True, "cache": True}
_EPSILON = 1e-5
_f, _i = np.float32, np.int32


@intrinsic
def _as_float32(typing: Any, bits: Any) -> Any:
    """Read the bits of an int32 as a float32."""
    return types.float32(types.int32), lambda context, builder, signature, args: builder.bitcast(args[0], ir.FloatType())


@intrinsic
def _as_float64(typing: Any, bits: Any) -> Any:
    """Read the bits of an int64 as a float64."""
    return types.float64(types.int64), lambda context, builder, signature, args: builder.bitcast(args[0], ir.DoubleType())


def _exp(x: float) -> float:
    """The exponential function, of arguments clipped to where it is an ordinary number."""
    return float(np.exp(x))


def tanh(x: float) -> float:
    """The hyperbolic tangent; compiled code gets the versions below."""
    return float(np.tanh(x))


def logistic(x: float) -> float:
    """The logistic function; compiled code gets the version below."""
    return float(1 / (1 + np.exp(-x)))


@overload(_exp, jit_options=OPTIONS)
def _exp_for(x: Any) -> Callable[[Any], Any]:
    """Choose by precision."""

    def single(x: Any) -> Any:
        x = _f(88) if x > _f(88) else x
        x = _f(-87) if x < _f(-87) else x
        n = np.floor(x * _f(1.44269504088896341) + _f(0.5))
        r = (x - n * _f(0.693359375)) + n * _f(2.12194440e-4)
        p = _f(1.9875691500e-4) * r + _f(1.3981999507e-3)
        p = p * r + _f(8.3334519073e-3)
        p = p * r + _f(4.1665795894e-2)
        p = p * r + _f(1.6666665459e-1)
        p = p * r + _f(5.0000001201e-1)
        return (p * r * r + r + _f(1)) * _as_float32((_i(n) + _i(127)) << _i(23))  # type: ignore[call-arg]

    def double(x: Any) -> Any:
        x = 709.0 if x > 709.0 else x
        x = -708.0 if x < -708.0 else x
        n = np.floor(x * 1.44269504088896341 + 0.5)
        r = (x - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6
        square = r * r
        p = r * ((1.26177193074810590878e-4 * square + 3.02994407707441961300e-2) * square + 9.99999999999999999910e-1)
        q = ((3.00198505138664455042e-6 * square + 2.52448340349684104192e-3) * square + 2.27265548208155028766e-1) * square + 2.0
        return (1.0 + 2.0 * p / (q - p)) * _as_float64((np.int64(_i(n)) + np.int64(1023)) << np.int64(52))  # type: ignore[call-arg]

    return single if x == types.float32 else double


@overload(logistic, jit_options=OPTIONS)
def _logistic_for(x: Any) -> Callable[[Any], Any]:
    """Choose by precision, for a literal 1 would make a double of a single."""

    def single(x: Any) -> Any:
        e = _exp(x)
        return e / (e + _f(1))

    def double(x: Any) -> Any:
        e = _exp(x)
        return e / (e + 1.0)

    return single if x == types.float32 else double


@overload(tanh, jit_options=OPTIONS)
def _tanh_for(x: Any) -> Callable[[Any], Any]:
    """Choose by precision."""

    def single(x: Any) -> Any:
        x = _f(7.90531110763549805) if x > _f(7.90531110763549805) else x
        x = _f(-7.90531110763549805) if x < _f(-7.90531110763549805) else x
        z = x * x
        p = _f(-2.76076847742355e-16) * z + _f(2.00018790482477e-13)
        p = p * z + _f(-8.60467152213735e-11)
        p = p * z + _f(5.12229709037114e-08)
        p = p * z + _f(1.48572235717979e-05)
        p = p * z + _f(6.37261928875436e-04)
        p = p * z + _f(4.89352455891786e-03)
        q = _f(1.19825839466702e-06) * z + _f(1.18534705686654e-04)
        q = q * z + _f(2.26843463243900e-03)
        q = q * z + _f(4.89352518554385e-03)
        return x * p / q

    def double(x: Any) -> Any:
        z = x * x
        p = (-9.64399179425052238628e-1 * z - 9.92877231001918586564e1) * z - 1.61468768441708447952e3
        q = ((z + 1.12811678491632931402e2) * z + 2.23548839060100448583e3) * z + 4.84406305325125486048e3
        near = x + x * z * p / q
        size = abs(x)
        far = 1.0 - 2.0 / (_exp(2.0 * size) + 1.0)
        far = far if x > 0.0 else -far
        return near if size < 0.625 else far

    return single if x == types.float32 else double


@njit(**_KERNEL)
def _normalise(pre, weight, bias, normalised, inverse):
    """Normalise rows (B, H) in place, and keep the normalised values and the inverse spread (B,) of each row."""
    batch, count = pre.shape
    for b in range(batch):
        mean = spread = pre.dtype.type(0)
        for j in range(count):
            mean += pre[b, j]
        mean /= count
        for j in range(count):
            spread += (pre[b, j] - mean) * (pre[b, j] - mean)
        one_over = pre.dtype.type(1 / np.sqrt(spread / count + _EPSILON))
        inverse[b] = one_over
        for j in range(count):
            normalised[b, j] = (pre[b, j] - mean) * one_over
        for j in range(count):
            pre[b, j] = normalised[b, j] * weight[j] + bias[j]


@njit(**_KERNEL)
def _normalise_back(adjoint, weight, normalised, inverse, pre):
    """Carry adjoints behind the normalisation to those before it, (B, H)."""
    batch, count = pre.shape
    for b in range(batch):
        mean = slope = adjoint.dtype.type(0)
        for j in range(count):
            scaled = adjoint[b, j] * weight[j]
            mean += scaled
            slope += scaled * normalised[b, j]
        mean /= count
        slope /= count
        for j in range(count):
            pre[b, j] = inverse[b] * (adjoint[b, j] * weight[j] - mean - normalised[b, j] * slope)


@njit(**_KERNEL)
def _copy(one, other):
    """Copy: ``other = one``; an assignment would bring its error messages along, which take seconds to compile."""
    x, y = one.reshape(-1), other.reshape(-1)
    for j in range(x.size):
        y[j] = x[j]


@njit(**_KERNEL)
def _add(one, other):
    """Add: ``one += other``."""
    x, y = one.reshape(-1), other.reshape(-1)
    for j in range(x.size):
        x[j] += y[j]


@njit(**_KERNEL)
def _multiply(one, other, out):
    """Multiply: ``out = one · other``."""
    x, y, z = one.reshape(-1), other.reshape(-1), out.reshape(-1)
    for j in range(z.size):
        z[j] = x[j] * y[j]


@njit(**_KERNEL)
def _add_product(one, x, y):
    """Add a product: ``one += x · y``."""
    out, a, b = one.reshape(-1), x.reshape(-1), y.reshape(-1)
    for j in range(out.size):
        out[j] += a[j] * b[j]


@njit(**_KERNEL)
def _renew(before, i, f, g, cell):
    """Forget and let in: ``cell = f · before + i · g``."""
    c, x, y, z, out = before.reshape(-1), i.reshape(-1), f.reshape(-1), g.reshape(-1), cell.reshape(-1)
    for j in range(out.size):
        out[j] = y[j] * c[j] + x[j] * z[j]


@njit(**_KERNEL)
def _express_back(adjoint, o, shown, of_cell):
    """Carry adjoints of h to the cell: ``of_cell += adjoint · o (1 − shown²)``."""
    a, x, s, out = adjoint.reshape(-1), o.reshape(-1), shown.reshape(-1), of_cell.reshape(-1)
    for j in range(out.size):
        out[j] += a[j] * x[j] * (1 - s[j] * s[j])


@njit(**_KERNEL)
def _open(pre, gate):
    """Compute gates: ``gate = σ(pre + gate)``."""
    x, y = pre.reshape(-1), gate.reshape(-1)
    for j in range(y.size):
        y[j] = logistic(x[j] + y[j])


@njit(**_KERNEL)
def _squash(pre, candidate):
    """Compute candidates: ``candidate = tanh(pre)``."""
    x, y = pre.reshape(-1), candidate.reshape(-1)
    for j in range(y.size):
        y[j] = tanh(x[j])


@njit(**_KERNEL)
def _candidate(pre, candidate, weight, bias, normalised, inverse, t):
    """Compute step t's candidates: ``candidate = tanh(norm(pre + candidate))``."""
    _add(pre, candidate)
    if normalised.shape[0]:
        _normalise(pre, weight, bias, normalised[t], inverse[t])
    _squash(pre, candidate)


@njit(**_KERNEL)
def _move(before, gate, candidate, state):
    """Move a state towards a candidate: ``state = before + gate (candidate − before)``."""
    h, s, c, out = before.reshape(-1), gate.reshape(-1), candidate.reshape(-1), state.reshape(-1)
    for j in range(out.size):
        out[j] = h[j] + s[j] * (c[j] - h[j])


@njit(**_KERNEL)
def _through_gate(adjoint, factor, gate, out):
    """Carry adjoints of ``factor · σ(pre)`` to pre."""
    a, x, s, y = adjoint.reshape(-1), factor.reshape(-1), gate.reshape(-1), out.reshape(-1)
    for j in range(y.size):
        y[j] = a[j] * x[j] * s[j] * (1 - s[j])


@njit(**_KERNEL)
def _through_move(adjoint, before, gate, candidate, out):
    """Carry adjoints of a moved state to the pre-activation of its gate."""
    a, h, s, c, y = adjoint.reshape(-1), before.reshape(-1), gate.reshape(-1), candidate.reshape(-1), out.reshape(-1)
    for j in range(y.size):
        y[j] = a[j] * (c[j] - h[j]) * s[j] * (1 - s[j])


@njit(**_KERNEL)
def _through_candidate(adjoint, gate, candidate, out):
    """Carry adjoints of ``gate · tanh(pre)`` to pre."""
    a, s, c, y = adjoint.reshape(-1), gate.reshape(-1), candidate.reshape(-1), out.reshape(-1)
    for j in range(y.size):
        y[j] = a[j] * s[j] * (1 - c[j] * c[j])


@njit(**_KERNEL)
def _through_norm(own, raw, weight, normalised, inverse, t):
    """Keep step t's adjoints behind the normalisation and carry them through it, in place; nothing where there is none."""
    if normalised.shape[0]:
        _copy(own, raw[t])
        _normalise_back(raw[t], weight, normalised[t], inverse[t], own)


@njit(**_KERNEL)
def _keep(adjoint, gate):
    """Carry adjoints of a moved state to the state before, in place: ``adjoint (1 − gate)``."""
    a, s = adjoint.reshape(-1), gate.reshape(-1)
    for j in range(a.size):
        a[j] *= 1 - s[j]


@njit(**_KERNEL)
def scan_leaky(recurrent, narrow, constant, norm_weight, norm_bias, history, blocks, shared, normalised, inverse):
    """Run a scalar-gate cell.

    Blocks are the gate (if there is one a neuron) and the candidate, (G, T, B, H), and `recurrent` (G, H, H) goes with them. A shared
    gate comes as `narrow`, its recurrent row (H,), and `shared`, (T, B), both empty for the other cells.
    """
    many, steps, batch, hidden = blocks.shape
    pre, gate = np.empty((batch, hidden), blocks.dtype), np.full((batch, hidden), constant)
    for t in range(steps):
        candidate = blocks[many - 1, t]
        np.dot(history[t], recurrent[many - 1], pre)
        _candidate(pre, candidate, norm_weight, norm_bias, normalised, inverse, t)
        if many == 2:
            np.dot(history[t], recurrent[0], pre)
            _open(pre, blocks[0, t])
            _move(history[t], blocks[0, t], candidate, history[t + 1])
            continue
        if narrow.size:
            _open(np.dot(history[t], narrow), shared[t])
            for b in range(batch):
                gate[b] = shared[t, b]
        _move(history[t], gate, candidate, history[t + 1])


@njit(**_KERNEL)
def backward_leaky(delta, weight, narrow, constant, norm_weight, history, blocks, shared, normalised, inverse, pre, of_shared, raw):
    """Run a scalar-gate cell's recursion backwards; `weight` is (G, H, H), `pre` like the blocks, `of_shared` like `shared`."""
    many, steps, batch, hidden = blocks.shape
    adjoint, product = np.zeros((batch, hidden), delta.dtype), np.empty((batch, hidden), delta.dtype)
    gate, through = np.full((batch, hidden), constant), np.empty((batch, hidden), delta.dtype)
    for t in range(steps - 1, -1, -1):
        own, candidate = pre[many - 1, t], blocks[many - 1, t]
        _add(adjoint, delta[t])
        if narrow.size:
            for b in range(batch):
                gate[b] = shared[t, b]
            _through_move(adjoint, history[t], gate, candidate, through)
            for b in range(batch):
                of_shared[t, b] = through[b].sum()
        if many == 2:
            _through_move(adjoint, history[t], blocks[0, t], candidate, pre[0, t])
        open_by = blocks[0, t] if many == 2 else gate
        _through_candidate(adjoint, open_by, candidate, own)
        _through_norm(own, raw, norm_weight, normalised, inverse, t)
        _keep(adjoint, open_by)
        for g in range(many):
            np.dot(pre[g, t], weight[g], product)
            _add(adjoint, product)
        if narrow.size:
            for b in range(batch):
                for j in range(hidden):
                    adjoint[b, j] += of_shared[t, b] * narrow[j]
    return adjoint


@njit(**_KERNEL)
def scan_lstm(recurrent, norm_weight, norm_bias, history, cells, blocks, normalised, inverse):
    """Run an LSTM; blocks are i, f, g, o, `recurrent` (4, H, H), `cells` (T+1, B, H)."""
    _, steps, batch, hidden = blocks.shape
    pre = np.empty((batch, hidden), blocks.dtype)
    for t in range(steps):
        i, f, g, o = blocks[0, t], blocks[1, t], blocks[2, t], blocks[3, t]
        for gate in (0, 1, 3):
            np.dot(history[t], recurrent[gate], pre)
            _open(pre, blocks[gate, t])
        np.dot(history[t], recurrent[2], pre)
        _candidate(pre, g, norm_weight, norm_bias, normalised, inverse, t)
        _renew(cells[t], i, f, g, cells[t + 1])
        _squash(cells[t + 1], pre)
        _multiply(o, pre, history[t + 1])


@njit(**_KERNEL)
def backward_lstm(delta, weight, norm_weight, cells, blocks, normalised, inverse, pre, raw, of_cell):
    """Run an LSTM's recursion backwards; `weight` is (4, H, H). `of_cell` comes in as λ of the last c and leaves as that of the first."""
    _, steps, batch, hidden = blocks.shape
    adjoint, product = np.zeros((batch, hidden), delta.dtype), np.empty((batch, hidden), delta.dtype)
    shown = np.empty((batch, hidden), delta.dtype)
    for t in range(steps - 1, -1, -1):
        i, f, g, o = blocks[0, t], blocks[1, t], blocks[2, t], blocks[3, t]
        _squash(cells[t + 1], shown)
        _add(adjoint, delta[t])
        _express_back(adjoint, o, shown, of_cell)
        _through_gate(of_cell, g, i, pre[0, t])
        _through_gate(of_cell, cells[t], f, pre[1, t])
        _through_candidate(of_cell, i, g, pre[2, t])
        _through_norm(pre[2, t], raw, norm_weight, normalised, inverse, t)
        _through_gate(adjoint, shown, o, pre[3, t])
        _multiply(of_cell, f, of_cell)
        np.dot(pre[0, t], weight[0], adjoint)
        for block in range(1, 4):
            np.dot(pre[block, t], weight[block], product)
            _add(adjoint, product)
    return adjoint


@njit(**_KERNEL)
def scan_gru(recurrent, bias_hh, norm_weight, norm_bias, history, blocks, products, normalised, inverse):
    """Run a GRU; blocks are r, z, g, `recurrent` (3, H, H); the reset comes after the product where `products` (T, B, H) is not empty."""
    _, steps, batch, hidden = blocks.shape
    pre, behind = np.empty((batch, hidden), blocks.dtype), np.empty((batch, hidden), blocks.dtype)
    for t in range(steps):
        r, z, g = blocks[0, t], blocks[1, t], blocks[2, t]
        for gate in range(2):
            np.dot(history[t], recurrent[gate], pre)
            _open(pre, blocks[gate, t])
        if products.shape[0]:
            np.dot(history[t], recurrent[2], products[t])
            for b in range(batch):
                _add(products[t, b], bias_hh)
            _multiply(r, products[t], pre)
        else:
            _multiply(r, history[t], behind)
            np.dot(behind, recurrent[2], pre)
        _candidate(pre, g, norm_weight, norm_bias, normalised, inverse, t)
        _move(history[t], z, g, history[t + 1])


@njit(**_KERNEL)
def backward_gru(delta, weight, norm_weight, history, blocks, products, normalised, inverse, pre, raw):
    """Run a GRU's recursion backwards; `weight` is (3, H, H)."""
    _, steps, batch, hidden = blocks.shape
    adjoint, product = np.zeros((batch, hidden), delta.dtype), np.empty((batch, hidden), delta.dtype)
    behind = np.empty((batch, hidden), delta.dtype)
    for t in range(steps - 1, -1, -1):
        r, z, g = blocks[0, t], blocks[1, t], blocks[2, t]
        _add(adjoint, delta[t])
        _through_candidate(adjoint, z, g, pre[2, t])
        _through_norm(pre[2, t], raw, norm_weight, normalised, inverse, t)
        _through_move(adjoint, history[t], z, g, pre[1, t])
        _keep(adjoint, z)
        if products.shape[0]:
            _through_gate(pre[2, t], products[t], r, pre[0, t])
            _multiply(pre[2, t], r, behind)
            np.dot(behind, weight[2], product)
            _add(adjoint, product)
        else:
            np.dot(pre[2, t], weight[2], product)
            _through_gate(product, history[t], r, pre[0, t])
            _add_product(adjoint, product, r)
        for gate in range(2):
            np.dot(pre[gate, t], weight[gate], product)
            _add(adjoint, product)
    return adjoint
