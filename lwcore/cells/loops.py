"""The recurrences and their backward passes in plain PyTorch: what `kernels` says, for tensors of any device and dtype.

Names, arguments and what is written in place are those of `kernels`. In addition S networks of one shape may run at once: states are then
(T+1, S, B, H), blocks (G, T, S, B, H), weights (G, S, H, H), and a step's matrix product is one batched product for all of them.

On a GPU a step costs its number of launches, 1.5 to 3 µs each even from a CUDA graph, whatever there is to compute. So blocks lie side by
side in memory, (…, G, H), and a step multiplies all of them at once; and a backward pass first fills the adjoints' places with their
factors, for all steps in one go, leaving a step only to multiply them, in place, by the adjoint that arrives.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

EPSILON = 1e-5  # LayerNorm's guard against a variance of zero, as in torch.nn.LayerNorm


def room(blocks: Tensor) -> Tensor:
    """Make room like blocks (G, T, [S], B, H), side by side in memory."""
    return torch.empty_like(blocks.movedim(0, -2), memory_format=torch.contiguous_format).movedim(-2, 0)


def _product(base: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    """Add a product, ``base += rows @ weight``, in one launch, of one network or of several; out of place it would be a copy more."""
    return (base.addmm_ if rows.ndim == 2 else base.baddbmm_)(rows, weight)


def _wide(blocks: Tensor) -> Tensor:
    """Look at blocks (G, T, [S], B, H) that lie side by side as one, (T, [S], B, G·H)."""
    across = blocks.movedim(0, -2)
    return across.view(*across.shape[:-2], -1)


def _columns(recurrent: Tensor) -> Tensor:
    """Put recurrent weights (G, [S], H, H) side by side, ([S], H, G·H): one product gives all blocks."""
    return recurrent.movedim(0, -2).flatten(-2)


def _rows(weight: Tensor) -> Tensor:
    """Put weights (G, [S], H, H) one below the other, ([S], G·H, H): one product adds up all blocks."""
    return weight.movedim(0, -3).flatten(-3, -2)


def _candidates(weight: Tensor, bias: Tensor, normalised: Tensor, inverse: Tensor) -> tuple[Callable[[Tensor], Tensor], Callable[[], None]]:
    """Give what makes candidates of a step's pre-activations, in place, and what keeps the norms of all steps when they are done."""
    values, spreads = [], []
    if not len(normalised):
        return Tensor.tanh_, lambda: None
    weight, bias = weight.unsqueeze(-2), bias.unsqueeze(-2)

    def squash(pre: Tensor) -> Tensor:
        value, _, spread = torch.native_layer_norm(pre, pre.shape[-1:], None, None, EPSILON)
        values.append(value)
        spreads.append(spread)
        return torch.addcmul(bias, value, weight, out=pre).tanh_()

    def store() -> None:
        torch.stack(values, out=normalised)
        torch.stack(spreads, out=inverse.unsqueeze(-1))

    return squash, store


def _through_norm(weight: Tensor, normalised: Tensor, inverse: Tensor, raw: Tensor, own: Tensor) -> Callable[[int], object]:
    """Give what carries step t's adjoints behind the normalisation, `raw`, to those before it, `own`; nothing where there is none."""
    if not len(normalised):
        return lambda t: None
    scale = weight.unsqueeze(-2) * inverse.unsqueeze(-1)
    zero, one = torch.zeros_like(scale[0, ..., :1]), torch.ones_like(scale[0, ..., :1])

    def carry(t: int) -> object:
        arguments = (raw[t] * scale[t], normalised[t], raw.shape[-1:], zero, one, None, None, (True, False, False))
        return own[t].copy_(torch.ops.aten.native_layer_norm_backward(*arguments)[0])

    return carry


def scan_leaky(recurrent, narrow, constant, norm_weight, norm_bias, history, blocks, shared, normalised, inverse):
    """Run a scalar-gate cell: see `kernels.scan_leaky`."""
    wide, columns = _wide(blocks), _columns(recurrent)
    squash, store = _candidates(norm_weight, norm_bias, normalised, inverse)
    gate = constant
    for t, pre in enumerate(wide):
        _product(pre, history[t], columns)
        if narrow.numel():
            gate = shared[t].unsqueeze(-1)
            _product(gate, history[t], narrow.unsqueeze(-1)).sigmoid_()
        elif len(blocks) == 2:
            gate = blocks[0, t].sigmoid_()
        torch.lerp(history[t], squash(blocks[-1, t]), gate, out=history[t + 1])
    store()


def backward_leaky(delta, weight, narrow, constant, norm_weight, history, blocks, shared, normalised, inverse, pre, of_shared, raw):
    """Run a scalar-gate cell's recursion backwards: see `kernels.backward_leaky`."""
    wide, rows, candidate, before = _wide(pre), _rows(weight), blocks[-1], history[:-1]
    carry = _through_norm(norm_weight, normalised, inverse, raw, pre[-1])
    gate = shared.unsqueeze(-1) if narrow.numel() else blocks[0] if len(blocks) == 2 else torch.full_like(delta[:, ..., :1, :1], constant)
    keep, through = 1 - gate, candidate.new_empty(0)
    torch.mul(1 - candidate.square(), gate, out=raw if len(raw) else pre[-1])
    if len(blocks) == 2:
        torch.mul(candidate - before, gate * keep, out=pre[0])
    elif narrow.numel():
        through = (candidate - before) * (gate * keep)
    factors = [raw.unsqueeze(0), *pre[:-1].split(1)] if len(raw) else [pre]
    adjoint = delta[-1]
    for t in range(len(wide) - 1, -1, -1):
        for factor in factors:
            factor[:, t].mul_(adjoint)
        carry(t)
        base = torch.addcmul(delta[t - 1], adjoint, keep[t]) if t else adjoint * keep[t]
        if narrow.numel():
            torch.sum(through[t].mul_(adjoint), -1, out=of_shared[t])
            base.addcmul_(of_shared[t].unsqueeze(-1), narrow.unsqueeze(-2))
        adjoint = _product(base, wide[t], rows)
    return adjoint


def scan_lstm(recurrent, norm_weight, norm_bias, history, cells, blocks, normalised, inverse):
    """Run an LSTM: see `kernels.scan_lstm`."""
    wide, columns = _wide(blocks), _columns(recurrent)
    squash, store = _candidates(norm_weight, norm_bias, normalised, inverse)
    for t, pre in enumerate(wide):
        _product(pre, history[t], columns)
        i, f = blocks[:2, t].sigmoid_()
        o, cell = blocks[3, t].sigmoid_(), cells[t + 1]
        torch.mul(f, cells[t], out=cell).addcmul_(i, squash(blocks[2, t]))
        torch.mul(o, torch.tanh(cell), out=history[t + 1])
    store()


def backward_lstm(delta, weight, norm_weight, cells, blocks, normalised, inverse, pre, raw, of_cell):
    """Run an LSTM's recursion backwards: see `kernels.backward_lstm`."""
    wide, rows = _wide(pre), _rows(weight)
    carry = _through_norm(norm_weight, normalised, inverse, raw, pre[2])
    i, f, g, o = blocks
    shown = torch.tanh(cells[1:])
    torch.mul(g * i, 1 - i, out=pre[0])
    torch.mul(cells[:-1] * f, 1 - f, out=pre[1])
    torch.mul(i, 1 - g.square(), out=raw if len(raw) else pre[2])
    torch.mul(shown * o, 1 - o, out=pre[3])
    factors = [raw.unsqueeze(0), pre[:2]] if len(raw) else [pre[:3]]
    expression = shown.square_().neg_().add_(1).mul_(o)
    adjoint, below = delta[-1], torch.cat([torch.zeros_like(delta[:1]), delta[:-1]])
    for t in range(len(wide) - 1, -1, -1):
        of_cell.addcmul_(adjoint, expression[t])
        for factor in factors:
            factor[:, t].mul_(of_cell)
        carry(t)
        pre[3, t].mul_(adjoint)
        of_cell.mul_(f[t])
        adjoint = _product(below[t], wide[t], rows)
    return adjoint


def scan_gru(recurrent, bias_hh, norm_weight, norm_bias, history, blocks, products, normalised, inverse):
    """Run a GRU: see `kernels.scan_gru`."""
    gates, columns, own = _wide(blocks[:2]), _columns(recurrent[:2]), recurrent[2]
    squash, store = _candidates(norm_weight, norm_bias, normalised, inverse)
    if len(products):
        products.copy_(bias_hh.unsqueeze(-2).expand_as(products))
    for t, pre in enumerate(gates):
        _product(pre, history[t], columns)
        r, z = blocks[:2, t].sigmoid_()
        g = blocks[2, t]
        if len(products):
            g.addcmul_(r, _product(products[t], history[t], own))
        else:
            _product(g, r * history[t], own)
        torch.lerp(history[t], squash(g), z, out=history[t + 1])
    store()


def backward_gru(delta, weight, norm_weight, history, blocks, products, normalised, inverse, pre, raw):
    """Run a GRU's recursion backwards: see `kernels.backward_gru`."""
    gates, rows, own = _wide(pre[:2]), _rows(weight[:2]), weight[2]
    carry = _through_norm(norm_weight, normalised, inverse, raw, pre[2])
    r, z, g = blocks
    keep, before = 1 - z, history[:-1]
    torch.mul((products if len(products) else before) * r, 1 - r, out=pre[0])
    torch.mul((g - before) * z, keep, out=pre[1])
    torch.mul(z, 1 - g.square(), out=raw if len(raw) else pre[2])
    factors = [raw.unsqueeze(0), pre[1:2]] if len(raw) else [pre[1:]]
    adjoint = delta[-1]
    for t in range(len(gates) - 1, -1, -1):
        for factor in factors:
            factor[:, t].mul_(adjoint)
        carry(t)
        base = torch.addcmul(delta[t - 1], adjoint, keep[t]) if t else adjoint * keep[t]
        if len(products):
            pre[0, t].mul_(pre[2, t])
            _product(base, pre[2, t] * r[t], own)
        else:
            product = pre[2, t] @ own
            pre[0, t].mul_(product)
            base.addcmul_(product, r[t])
        adjoint = _product(base, gates[t], rows)
    return adjoint
