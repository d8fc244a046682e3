"""The gated cell's scan and its way back, compiled: one loop each for every family that needs its
steps in a row.

A step is one matrix product with all recurrent weights side by side, and a few passes over its
rows. Arrays are time-major. `blocks` (T, B, K) comes in as the inputs' part of all pre-activations,
``W x_t + b``, and leaves as the values of gates and candidate: one array less to move through
memory. `history` (T+1, B, H) holds h and `cells` c, the same array where there is no show gate. The
way back is the recursion of Eq. (3), ``λ_{t−1} = δ_{t−1} + λ_t J_t``; it fills `pre`, the adjoints
of all pre-activations, of which the gradients of the parameters are made, and `raw`, those behind
the layer normalisation.

Passes have few arrays each: with many in one loop the compiler cannot rule out that they overlap,
and gives up vectorising it. All stands in one file because the compiled code is kept on disk, and
made anew only when the file of a kernel changes. The logistic function and the hyperbolic tangent
are plain arithmetic, no call and no branch, so that a compiler can vectorise them: 0.25 to 1 ns a
number where the C library takes 5 to 8. They are good to a few units in the last place.
Coefficients are those of S. L. Moshier's Cephes library (exp in both precisions, tanh in double)
and, for tanh in single precision, of the rational approximation that Eigen uses.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

ENABLED = os.environ.get("LWCORE_COMPILED", "1") != "0"

# What a compiler may do: fuse products with sums. It may not reorder sums, which the reduction of
# exp's argument relies on, nor divide by reciprocals, so that an open gate is exactly 1, nor assume
# that there are no NaNs and infinities.
OPTIONS: Any = {"fastmath": {"contract", "nsz"}, "error_model": "numpy"}

_KERNEL: Any = OPTIONS | {
    "fastmath": OPTIONS["fastmath"] | {"reassoc"},
    "nogil": True,
    "cache": True,
}
EPSILON = 1e-5  # under the root of the layer normalisation, as in PyTorch
_f, _i = np.float32, np.int32


@intrinsic
def _as_float32(typing: Any, bits: Any) -> Any:
    """Read the bits of an int32 as a float32."""
    return types.float32(types.int32), lambda context, builder, signature, args: builder.bitcast(
        args[0], ir.FloatType()
    )


@intrinsic
def _as_float64(typing: Any, bits: Any) -> Any:
    """Read the bits of an int64 as a float64."""
    return types.float64(types.int64), lambda context, builder, signature, args: builder.bitcast(
        args[0], ir.DoubleType()
    )


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
        p = r * (
            (1.26177193074810590878e-4 * square + 3.02994407707441961300e-2) * square
            + 9.99999999999999999910e-1
        )
        q = (
            (3.00198505138664455042e-6 * square + 2.52448340349684104192e-3) * square
            + 2.27265548208155028766e-1
        ) * square + 2.0
        return (1.0 + 2.0 * p / (q - p)) * _as_float64(
            (np.int64(_i(n)) + np.int64(1023)) << np.int64(52)
        )  # type: ignore[call-arg]

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
        p = (
            -9.64399179425052238628e-1 * z - 9.92877231001918586564e1
        ) * z - 1.61468768441708447952e3
        q = (
            (z + 1.12811678491632931402e2) * z + 2.23548839060100448583e3
        ) * z + 4.84406305325125486048e3
        near = x + x * z * p / q
        size = abs(x)
        far = 1.0 - 2.0 / (_exp(2.0 * size) + 1.0)
        far = far if x > 0.0 else -far
        return near if size < 0.625 else far

    return single if x == types.float32 else double


@njit(**_KERNEL)
def _add(one, other):
    """Add: ``one += other``."""
    x, y = one.reshape(-1), other.reshape(-1)
    for j in range(x.size):
        x[j] += y[j]


@njit(**_KERNEL)
def _add_block(pre, first, rows, at, count):
    """Add a block of columns to another."""
    for b in range(len(rows)):
        for j in range(np.uintp(count)):
            rows[b, at + j] += pre[b, first + j]


@njit(**_KERNEL)
def _multiply(rows, at, other, out, to):
    """Multiply blocks of columns: ``out = rows · other``."""
    for b in range(len(other)):
        for j in range(np.uintp(other.shape[1])):
            out[b, to + j] = rows[b, at + j] * other[b, j]


@njit(**_KERNEL)
def _add_product(rows, at, other, out, to):
    """Add a product of blocks of columns: ``out += rows · other``."""
    for b in range(len(other)):
        for j in range(np.uintp(other.shape[1])):
            out[b, to + j] += rows[b, at + j] * other[b, j]


@njit(**_KERNEL)
def _open(pre, rows, first, last):
    """Compute gates: ``rows = σ(pre + rows)``."""
    for b in range(len(rows)):
        for j in range(first, last):
            rows[b, j] = logistic(pre[b, j] + rows[b, j])


@njit(**_KERNEL)
def _squash(rows, first, last):
    """Compute candidates, in place."""
    for b in range(len(rows)):
        for j in range(first, last):
            rows[b, j] = tanh(rows[b, j])


@njit(**_KERNEL)
def _show(cell, out):
    """Compute ``out = tanh(c)``."""
    x, y = cell.reshape(-1), out.reshape(-1)
    for j in range(y.size):
        y[j] = tanh(x[j])


@njit(**_KERNEL)
def _keep(adjoint, rows, at):
    """Carry adjoints of a kept state to the state before, in place: ``λ a``."""
    for b in range(len(adjoint)):
        for j in range(np.uintp(adjoint.shape[1])):
            adjoint[b, j] *= rows[b, at + j]


@njit(**_KERNEL)
def _renew(before, rows, let_in, keep, candidate, cell):
    """Keep and let in: ``c' = a c + b g``."""
    for b in range(len(cell)):
        for j in range(np.uintp(cell.shape[1])):
            cell[b, j] = (
                rows[b, keep + j] * before[b, j] + rows[b, let_in + j] * rows[b, candidate + j]
            )


@njit(**_KERNEL)
def _move(before, gate, at, rows, candidate, cell):
    """Replace a share: ``c' = c + b (g − c)``."""
    for b in range(len(cell)):
        for j in range(np.uintp(cell.shape[1])):
            cell[b, j] = before[b, j] + gate[b, at + j] * (rows[b, candidate + j] - before[b, j])


@njit(**_KERNEL)
def _normalise(rows, at, norm, normalised, inverse):
    """Normalise a block of columns in place; keep the normalised values, and one over the spread of
    each row."""
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


@njit(**_KERNEL)
def _through_norm(raw, norm, normalised, inverse, out, at):
    """Carry adjoints from behind the normalisation to before it."""
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


@njit(**_KERNEL)
def _through_gate(adjoint, factor, first, rows, out, at):
    """Carry adjoints of ``factor · σ(pre)`` to pre."""
    for b in range(len(adjoint)):
        for j in range(np.uintp(adjoint.shape[1])):
            gate = rows[b, at + j]
            out[b, at + j] = adjoint[b, j] * factor[b, first + j] * gate * (1 - gate)


@njit(**_KERNEL)
def _through_move(adjoint, before, gate, at, rows, candidate, out, to):
    """Carry adjoints of a moved state to the pre-activation of its gate."""
    for b in range(len(adjoint)):
        for j in range(np.uintp(adjoint.shape[1])):
            share = gate[b, at + j]
            out[b, to + j] = (
                adjoint[b, j] * (rows[b, candidate + j] - before[b, j]) * share * (1 - share)
            )


@njit(**_KERNEL)
def _through_candidate(adjoint, gate, at, rows, out, candidate):
    """Carry adjoints of ``b · tanh(pre)`` to pre."""
    for b in range(len(adjoint)):
        for j in range(np.uintp(adjoint.shape[1])):
            g = rows[b, candidate + j]
            out[b, candidate + j] = adjoint[b, j] * gate[b, at + j] * (1 - g * g)


@njit(**_KERNEL)
def _through_show(adjoint, rows, show, shown, of_cell):
    """Carry adjoints of h to the cell: ``λ_c += λ_h o (1 − tanh² c)``."""
    for b in range(len(adjoint)):
        for j in range(np.uintp(adjoint.shape[1])):
            of_cell[b, j] += adjoint[b, j] * rows[b, show + j] * (1 - shown[b, j] * shown[b, j])


@njit(**_KERNEL)
def _replace(adjoint, gate, at):
    """Carry adjoints of a moved state to the state before, in place: ``λ (1 − b)``."""
    for b in range(len(adjoint)):
        for j in range(np.uintp(adjoint.shape[1])):
            adjoint[b, j] *= 1 - gate[b, at + j]


@njit(**_KERNEL)
def _spread(gate, rows, at):
    """Repeat a gate that all neurons share."""
    for b in range(len(gate)):
        gate[b] = rows[b, at]


@njit(**_KERNEL)
def steps_forward(
    layout, packed, own, bias_hh, norm, history, cells, blocks, products, normalised, inverse
):
    """Run the steps. `packed` (H, P) holds all recurrent weights side by side but `own`, (H, H), of
    a candidate that is reset before."""
    let_in, keep, candidate, reset, show, shared, after, constant = layout
    i, f, g = np.uintp(max(let_in, 0)), np.uintp(max(keep, 0)), np.uintp(candidate)
    r, o, zero = np.uintp(max(reset, 0)), np.uintp(max(show, 0)), np.uintp(0)
    batch, hidden = history.shape[1:]
    pre, behind = (
        np.empty((batch, packed.shape[1]), blocks.dtype),
        np.empty((batch, hidden), blocks.dtype),
    )
    fixed, end = np.full((batch, hidden), constant, blocks.dtype), g + np.uintp(hidden)
    for t in range(len(blocks)):
        rows, before, cell = blocks[t], cells[t], cells[t + 1]
        np.dot(history[t], packed, pre)
        _open(pre, rows, zero, g)
        if after:
            products[t] = bias_hh
            _add_block(pre, g, products[t], zero, hidden)
            _add_product(rows, r, products[t], rows, g)
        elif reset >= 0:
            _multiply(rows, r, history[t], behind, zero)
            _add_block(np.dot(behind, own), zero, rows, g, hidden)
        else:
            _add_block(pre, g, rows, g, hidden)
        if len(inverse):
            _normalise(rows, g, norm, normalised[t], inverse[t])
        _squash(rows, g, end)
        if shared:
            _spread(fixed, rows, i)
        if keep >= 0:
            _renew(before, rows, i, f, g, cell)
        elif shared or let_in < 0:
            _move(before, fixed, zero, rows, g, cell)
        else:
            _move(before, rows, i, rows, g, cell)
        if show >= 0:
            _open(pre, rows, o, o + np.uintp(hidden))
            _show(cell, behind)
            _multiply(rows, o, behind, history[t + 1], zero)


@njit(**_KERNEL)
def steps_backward(
    layout,
    packed,
    own,
    norm,
    delta,
    history,
    cells,
    blocks,
    products,
    normalised,
    inverse,
    pre,
    raw,
    of_cell,
):
    """Run the recursion backwards, with `packed` (P, H); return λ of the first h, and leave that of
    the first c in `of_cell`."""
    let_in, keep, candidate, reset, show, shared, after, constant = layout
    i, f, g = np.uintp(max(let_in, 0)), np.uintp(max(keep, 0)), np.uintp(candidate)
    r, o, zero = np.uintp(max(reset, 0)), np.uintp(max(show, 0)), np.uintp(0)
    steps, batch, hidden = delta.shape
    adjoint, side = np.zeros((batch, hidden), delta.dtype), np.empty((batch, hidden), delta.dtype)
    fixed, behind = (
        np.full((batch, hidden), constant, delta.dtype),
        np.empty((batch, len(packed)), delta.dtype),
    )
    lam = of_cell if show >= 0 else adjoint
    for t in range(steps - 1, -1, -1):
        rows, out, before = blocks[t], pre[t], cells[t]
        _add(adjoint, delta[t])
        if show >= 0:
            _show(cells[t + 1], side)
            _through_gate(adjoint, side, zero, rows, out, o)
            _through_show(adjoint, rows, o, side, of_cell)
        gate, at = (fixed, zero) if shared or let_in < 0 else (rows, i)
        if shared:
            _spread(fixed, rows, i)
        _through_candidate(lam, gate, at, rows, out, g)
        if keep >= 0:
            _through_gate(lam, rows, g, rows, out, i)
            _through_gate(lam, before, zero, rows, out, f)
            _keep(lam, rows, f)
        else:
            if shared:
                _through_move(lam, before, gate, at, rows, g, side, zero)
                for b in range(batch):
                    out[b, i] = side[b].sum()
            elif let_in >= 0:
                _through_move(lam, before, gate, at, rows, g, out, i)
            _replace(lam, gate, at)
        if len(inverse):
            _copy(out, g, raw[t])
            _through_norm(raw[t], norm, normalised[t], inverse[t], out, g)
        if after:
            _copy(out, g, side)
            _through_gate(side, products[t], zero, rows, out, r)
            behind[:] = out
            _multiply(rows, r, side, behind, g)
        elif reset >= 0:
            _copy(out, g, side)
            product = np.dot(side, own)
            _through_gate(product, history[t], zero, rows, out, r)
            _add_product(rows, r, product, adjoint, zero)
            _copy(out, zero, behind)
        product = np.dot(behind if reset >= 0 else out, packed)
        if show >= 0:
            adjoint[:] = product
        else:
            _add(adjoint, product)
    return adjoint


@njit(**_KERNEL)
def _copy(rows, at, out):
    """Copy a block of columns."""
    for b in range(len(out)):
        for j in range(np.uintp(out.shape[1])):
            out[b, j] = rows[b, at + j]


class Layout(NamedTuple):
    """Which family it is: where the rows of each block begin (−1: there is none), and how they are
    used."""

    let_in: int
    keep: int
    candidate: int
    reset: int
    show: int
    shared: bool
    after: bool
    constant: float


def usable(like: Tensor) -> bool:
    """Say whether the kernels can take a tensor: float32 or float64 on the CPU."""
    return ENABLED and like.device.type == "cpu" and like.dtype in (torch.float32, torch.float64)


def scan(
    layout: Layout, inputs: Tensor, initial: Tensor, parameters: dict[str, Tensor]
) -> tuple[Tensor, ...]:
    """Scan (B, T, D) from (B, S): h, and c where it is another, (B, T, H) each; h is differentiable
    once, in everything."""
    hidden, cells = _Scan.apply(layout, list(parameters), inputs, initial, *parameters.values())
    return (hidden, cells) if layout.show >= 0 else (hidden,)


class _Scan(torch.autograd.Function):
    """The scan as a differentiable function. What it keeps goes through `save_for_backward`, so
    that autograd notices changes."""

    @staticmethod
    def forward(
        ctx: Any, layout: Layout, names: list[str], inputs: Tensor, initial: Tensor, *given: Tensor
    ) -> tuple[Tensor, Tensor]:
        of = dict(zip(names, given, strict=True))
        (batch, steps, _), hidden = inputs.shape, of["weight_hh"].shape[1]
        # an input of one, whose weight is the bias
        major = functional.pad(inputs.transpose(0, 1), (0, 1), value=1.0)
        blocks = major @ torch.cat([of["weight_ih"], of["bias"].unsqueeze(1)], dim=1).t()
        history = inputs.new_empty(steps + 1, batch, hidden)
        history[0] = initial[:, :hidden]
        cells = torch.empty_like(history) if layout.show >= 0 else history
        cells[0] = initial[:, -hidden:]
        products = torch.empty_like(history[1:]) if layout.after else inputs.new_empty(0, 0, 0)
        normed = "norm_weight" in of
        normalised = torch.empty_like(history[1:]) if normed else inputs.new_empty(0, 0, 0)
        inverse = inputs.new_empty(normalised.shape[:2])
        packed, own, norm = _weights(layout, of)
        bias_hh = of.get("bias_hh", inputs.new_empty(0))
        kept = history, cells, blocks, products, normalised, inverse
        steps_forward(layout, *_arrays(packed.t(), own.t(), bias_hh, norm, *kept))
        ctx.layout, ctx.names = layout, names
        ctx.save_for_backward(major, *kept, *given)
        outputs = history[1:].transpose(0, 1), cells[1:].transpose(0, 1)
        ctx.mark_non_differentiable(outputs[1])
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_hidden: Tensor, of_cells: Tensor) -> tuple[Any, ...]:
        major, history, cells, blocks, products, normalised, inverse, *given = ctx.saved_tensors
        layout, of = ctx.layout, dict(zip(ctx.names, given, strict=True))
        packed, own, norm = _weights(layout, of)
        pre, raw, of_cell = (
            torch.empty_like(blocks),
            torch.empty_like(normalised),
            torch.zeros_like(history[0]),
        )
        kept = history, cells, blocks, products, normalised, inverse
        delta = of_hidden.transpose(0, 1)
        first = torch.from_numpy(
            steps_backward(layout, *_arrays(packed, own, norm, delta, *kept, pre, raw, of_cell))
        )
        hidden, before, rows = history.shape[-1], history[:-1], pre
        end, reset = layout.candidate + hidden, blocks[..., layout.reset : layout.reset + hidden]
        if layout.after:
            rows = pre.clone()
            rows[..., layout.candidate : end] *= reset
        flat = pre.flatten(0, 1)
        of_inward = (major.flatten(0, 1).t() @ flat).t()
        gradients = {"weight_ih": of_inward[:, :-1], "bias": of_inward[:, -1]}
        if layout.reset >= 0 and not layout.after:
            seen = [before.flatten(0, 1), (before * reset).flatten(0, 1)]
            parts = flat.split([layout.candidate, hidden], dim=1)
            gradients["weight_hh"] = torch.cat(
                [(past.t() @ part).t() for part, past in zip(parts, seen, strict=True)]
            )
        else:
            gradients["weight_hh"] = (before.flatten(0, 1).t() @ rows.flatten(0, 1)).t()
        if layout.after:
            gradients["bias_hh"] = rows[..., layout.candidate : end].sum((0, 1))
        if len(raw):
            gradients |= {
                "norm_weight": (raw * normalised).sum((0, 1)),
                "norm_bias": raw.sum((0, 1)),
            }
        of_inputs = (pre @ of["weight_ih"]).transpose(0, 1) if ctx.needs_input_grad[2] else None
        of_initial = torch.cat([first, of_cell], dim=-1) if layout.show >= 0 else first
        return None, None, of_inputs, of_initial, *(gradients[name] for name in ctx.names)


def _weights(layout: Layout, of: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Give the recurrent weights side by side, those of a candidate that is reset before apart, and
    the normalisation's two vectors."""
    weight = of["weight_hh"]
    packed, own = (
        (weight, weight[:0])
        if layout.reset < 0 or layout.after
        else weight.split([layout.candidate, weight.shape[1]])
    )
    return (
        packed,
        own,
        torch.stack([of[name] for name in ("norm_weight", "norm_bias")])
        if "norm_weight" in of
        else weight[:0],
    )


def _arrays(*tensors: Tensor) -> tuple[np.ndarray, ...]:
    """See tensors as arrays."""
    return tuple(tensor.detach().contiguous().numpy() for tensor in tensors)
