"""The cells against a step-by-step recurrence, against autograd and against PyTorch's own layers,
in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lwcore.cells import GRU, LSTM, Cell, DiagGate, _LinearScan
from lwcore.gradient import lag_gradients
from lwcore.signatures import ArgumentError
from lwcore.transport import effective_rates
from tests import oracles
from tests.networks import EVERY, FAMILIES, LINEAR, draw, initial_state, make


@pytest.mark.parametrize("kind", EVERY)
@given(
    seed=st.integers(0, 2**31),
    batch=st.integers(1, 3),
    steps=st.integers(1, 5),
    hidden=st.integers(1, 5),
)
def test_forward_is_the_recurrence(kind, seed, batch, steps, hidden):
    cell = make(kind, seed, hidden_size=hidden)
    inputs, initial = (
        draw(batch, steps, 3, seed=seed + 1),
        draw(batch, cell.state_size, seed=seed + 2),
    )
    expected = oracles.scan(cell, inputs, initial)
    state = initial_state(cell, initial)
    torch.testing.assert_close(cell(inputs, state), expected[..., :hidden], rtol=1e-11, atol=1e-12)
    trace = cell.trace(inputs, state)
    torch.testing.assert_close(trace.states, expected, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(trace.outputs, expected[..., :hidden], rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(
        cell.step(inputs[:, 0], initial), expected[:, 0], rtol=1e-11, atol=1e-12
    )
    torch.testing.assert_close(
        cell.unrolled(inputs, state), expected[..., :hidden], rtol=1e-11, atol=1e-12
    )


@pytest.mark.parametrize("kind", EVERY)
def test_backward_equals_autograd_through_the_oracle(kind):
    """In parameters, inputs and the initial state."""
    cell = make(kind)
    inputs, initial, weights = (
        draw(3, 12, 3).requires_grad_(),
        draw(3, cell.state_size, seed=2).requires_grad_(),
        draw(3, 12, 4, seed=3),
    )
    variables = [inputs, initial, *cell.parameters()]
    ours = torch.autograd.grad(
        (cell(inputs, initial_state(cell, initial)) * weights).sum(), variables
    )
    through_time = torch.autograd.grad(
        (oracles.scan(cell, inputs, initial)[..., :4] * weights).sum(), variables
    )
    for one, other in zip(ours, through_time, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-11)


def looped(keep, added, initial):
    """h_t = a_t h_{t−1} + u_t, one step after the other, in the widest floats there are."""
    h, states = initial.numpy().astype(np.longdouble), []
    for a, u in zip(keep.numpy().swapaxes(0, 1), added.numpy().swapaxes(0, 1), strict=True):
        h = a * h + u
        states.append(h)
    return np.stack(states, axis=1)


@pytest.mark.parametrize("length", [1, 2, 3, 15, 16, 17, 257, 1000, 16_384])
@pytest.mark.parametrize(
    ("low", "high"),
    [(1e-12, 1 - 1e-12), (1 - 1e-12, 1 - 1e-12), (1e-12, 1e-12), (0.5, 1 - 1e-12), (0, 0), (1, 1)],
)
def test_linear_scan_is_the_recurrence(low, high, length):
    """Gates spread evenly in their logits between two ends: errors relative to the sizes of what is
    added up."""
    ends = torch.logit(torch.tensor([low, high], dtype=torch.float64))
    share = torch.rand(
        2, length, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    keep = (
        torch.sigmoid(ends[0] + share * (ends[1] - ends[0]))
        if low < high
        else torch.full_like(share, low)
    )
    added, initial = draw(2, length, 3), draw(2, 3, seed=2)
    found, size = (
        _LinearScan.apply(keep, added, initial).numpy(),
        looped(keep, added.abs(), initial.abs()),
    )
    assert (np.abs(found - looped(keep, added, initial)) <= 1e-12 * size).all()
    np.testing.assert_allclose(
        _LinearScan.apply(keep, added.abs(), initial.abs()).numpy(), size.astype(float), rtol=1e-12
    )


@pytest.mark.parametrize("length", [1, 2, 5, 10])
def test_linear_scan_passes_gradcheck(length):
    """Also where a gate is open or closed all the way."""
    keep = torch.sigmoid(3 * draw(2, length, 2))
    keep[0, length // 2, 0], keep[1, length // 2, 1] = 0, 1
    variables = [
        part.requires_grad_() for part in (keep, draw(2, length, 2, seed=2), draw(2, 2, seed=3))
    ]
    assert torch.autograd.gradcheck(_LinearScan.apply, variables, eps=1e-6, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("kind", LINEAR)
def test_long_linear_scan_is_that_of_the_step(kind):
    cell, inputs = make(kind), draw(1, 16_384, 3)
    with torch.no_grad():
        torch.testing.assert_close(cell(inputs), cell.unrolled(inputs), rtol=1e-12, atol=1e-12)


class NoShowGate(Cell):
    """The LSTM that shows its cell as it is (Greff et al., 2017)."""

    blocks = ("let_in", "keep", "candidate")


class LinearUnit(Cell):
    """Retention a, new input scaled by √(1 − a²), as in the RG-LRU (De et al., 2024)."""

    blocks, linear = ("keep", "candidate"), True

    def shares(self, pre, opened):
        return opened["keep"], (1 - opened["keep"].square()).sqrt()


@pytest.mark.parametrize("layernorm", [False, True])
@pytest.mark.parametrize("family", [NoShowGate, LinearUnit])
def test_a_family_of_three_lines_works_everywhere(family, layernorm, monkeypatch):
    """Scan, trace, rates, and the gradient by lag, against its step and autograd."""
    monkeypatch.setitem(FAMILIES, "new", family)
    cell = make("new+norm" if layernorm else "new")
    inputs, initial, delta = draw(2, 9, 3), draw(2, 4, seed=2), draw(2, 9, 4, seed=3)
    expected = cell.unrolled(inputs, initial)
    torch.testing.assert_close(cell(inputs, initial), expected, rtol=1e-12, atol=1e-13)
    trace = cell.trace(inputs, initial)
    torch.testing.assert_close(trace.outputs, expected.detach(), rtol=1e-12, atol=1e-13)
    closed, auto = (trace.jacobian(slice(None), closed=closed).dense() for closed in (True, False))
    torch.testing.assert_close(closed, auto, rtol=1e-10, atol=1e-12)
    product = torch.eye(4, dtype=torch.float64)
    for t in range(8, 5, -1):
        product = product @ auto[:, t]
    exact, first = (
        effective_rates(trace, [3], order, [8])[:, 0, 0] for order in ("exact", "first")
    )
    torch.testing.assert_close(exact, product.diagonal(dim1=-2, dim2=-1), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(
        first, exact, rtol=1e-12 if cell.linear else 1, atol=1e-12 if cell.linear else 1
    )
    through_time = torch.autograd.grad((expected * delta).sum(), list(cell.parameters()))
    for part, gradient in zip(lag_gradients(trace, delta).values(), through_time, strict=True):
        torch.testing.assert_close(part.sum(0), gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("kind", "layer"), [(LSTM, nn.LSTM), (GRU, nn.GRU)])
def test_weights_of_torch_layers_give_their_outputs(kind, layer, bias, batch_first):
    torch.manual_seed(0)
    theirs = layer(3, 4, bias=bias, batch_first=batch_first, dtype=torch.float64)
    ours = kind.from_torch(theirs)
    inputs, initial = draw(2, 50, 3), draw(2, ours.state_size)
    parts = [part.unsqueeze(0).contiguous() for part in initial.split(4, dim=-1)]
    arguments = inputs if batch_first else inputs.transpose(0, 1)
    expected, _ = theirs(arguments, tuple(parts) if len(parts) == 2 else parts[0])
    expected = expected if batch_first else expected.transpose(0, 1)
    torch.testing.assert_close(
        ours(inputs, initial_state(ours, initial)), expected, rtol=1e-13, atol=1e-14
    )


def test_layers_that_are_more_than_one_recurrence_are_refused():
    for layer in (
        nn.LSTM(3, 4, num_layers=2),
        nn.LSTM(3, 4, bidirectional=True),
        nn.LSTM(3, 4, proj_size=2),
    ):
        with pytest.raises(
            ValueError, match="must be of one layer, one direction and no projection"
        ):
            LSTM.from_torch(layer)
    with pytest.raises(ValueError, match="num_layers=2"):
        GRU.from_torch(nn.GRU(3, 4, num_layers=2))


@pytest.mark.parametrize("kind", FAMILIES)
def test_gates_start_where_they_are_told(kind):
    """The share that a step replaces is gate_init, what it keeps the rest; reset and show gates are
    half open."""
    for spread, tolerance in ((0.0, 1e-11), (0.1, 1.0)):
        options = {
            "gate_init": 0.05,
            "gate_spread": spread,
            "generator": torch.Generator().manual_seed(0),
            "dtype": torch.float64,
        }
        gates = FAMILIES[kind](3, 4, **options).trace(draw(2, 50, 3)).gates
        for gate, value in (
            (gates.let_in, 0.05),
            (gates.keep, 0.95),
            (gates.reset, 0.5),
            (gates.show, 0.5),
        ):
            if gate is not None:
                wanted = math.log(value / (1 - value))
                torch.testing.assert_close(
                    gate.logit(), torch.full_like(gate, wanted), rtol=0, atol=tolerance
                )


# Σ_k k p_k over all parameters p in order of their names, of what was drawn at revision 48216a8.
DRAWN = {
    "orthogonal": (
        39.90981362056669,
        100.88160181659521,
        -59.55449060134336,
        -98.81765717787468,
        -94.8513738128473,
        -149.41318322609618,
    ),
    "uniform": (
        6.275549031440756,
        39.12049907876906,
        -58.1606032886354,
        -52.80498830833105,
        -47.24393895165963,
        -195.30204547745575,
    ),
}


@pytest.mark.parametrize("init", DRAWN)
def test_seeds_draw_the_weights_that_they_always_drew(init):
    for kind, expected in zip(FAMILIES, DRAWN[init], strict=False):
        generator = torch.Generator().manual_seed(5)
        cell = FAMILIES[kind](
            3, 4, init=init, layernorm=True, gate_init=0.3, generator=generator, dtype=torch.float64
        )
        entries = torch.cat([part.flatten() for _, part in sorted(cell.state_dict().items())])
        assert (
            entries @ torch.arange(1.0, len(entries) + 1, dtype=torch.float64)
        ).item() == pytest.approx(expected, rel=1e-11)


def test_input_weights_start_with_variance_one_over_d():
    cell = DiagGate(400, 300, generator=torch.Generator().manual_seed(0), gate_spread=0.5)
    count = 300 * 400
    assert cell.weight_ih[300:].var().item() == pytest.approx(1 / 400, rel=5 * (2 / count) ** 0.5)
    assert cell.weight_ih[:300].var().item() == pytest.approx(
        0.25 / 400, rel=5 * (2 / count) ** 0.5
    )


@pytest.mark.parametrize(("kind", "layer"), [(LSTM, nn.LSTM), (GRU, nn.GRU)])
def test_uniform_initialisation_is_that_of_torch(kind, layer):
    """Each parameter's moments are those of the imported layer, which has drawn its own."""
    torch.manual_seed(0)
    options = {"reset": "after"} if kind is GRU else {}
    ours, theirs = kind(200, 100, init="uniform", **options), kind.from_torch(layer(200, 100))
    reference = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        for block, other in zip(parameter.split(100), reference[name].split(100), strict=True):
            spread = 5 / block.numel() ** 0.5
            assert block.abs().max() <= other.abs().max() * (1 + 10 / block.numel())
            assert block.std().item() == pytest.approx(other.std().item(), rel=2 * spread)
            assert abs(block.mean().item()) < spread * block.std().item()


@pytest.mark.parametrize("kind", EVERY)
def test_trace_keeps_the_weights_it_was_made_with(kind):
    cell = make(kind)
    trace = cell.trace(draw(2, 5, 3))
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.mul_(2)
    unchanged = make(kind).trace(draw(2, 5, 3))
    torch.testing.assert_close(
        trace.jacobian(3).dense(), unchanged.jacobian(3).dense(), rtol=0, atol=0
    )


def test_initialisation_is_orthogonal_and_reproducible():
    for kind in EVERY:
        one, two = make(kind, seed=5), make(kind, seed=5)
        for ours, theirs in zip(one.parameters(), two.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    for block in make("LSTM").weight_hh.split(4):
        torch.testing.assert_close(block @ block.t(), torch.eye(4, dtype=torch.float64))


def test_families_that_the_closed_form_does_not_know_are_refused():
    for blocks in (
        {"shares": LinearUnit.shares},
        {"shared": True, "blocks": ("let_in", "keep", "candidate")},
        {"linear": True, "blocks": ("let_in", "candidate", "show")},
    ):
        with pytest.raises(TypeError, match="Strange: `shares` is of a linear family"):
            type("Strange", (Cell,), blocks)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GRU(3, 4, dtype=torch.int64), r"^dtype = torch\.int64: must be a floating type"),
        (
            lambda: LSTM(3, 4, reset="after"),
            "^reset = 'after': must be 'before', without a reset gate",
        ),
        (lambda: LSTM.from_torch(nn.GRU(3, 4)), r"^layer = GRU\(3, 4\): must be LSTM"),
        (lambda: make("GRU")(draw(2, 5, 7)), r"^inputs = .*\(2, 5, 7\): .*\(B, T, 3\)"),
        (lambda: make("GRU")(draw(0, 5, 3)), r"^inputs = .*not empty"),
        (
            lambda: make("GRU")(draw(2, 5, 3).float()),
            r"^inputs = .*must be a tensor of torch\.float64",
        ),
        (lambda: make("MinGRU")(draw(2, 5, 3) * torch.nan), "^inputs = .*must be finite"),
        (lambda: make("GRU")(draw(2, 5, 3), draw(3, 4)), r"^state = .*of shape \(2, 4\)"),
        (lambda: make("GRU")(draw(2, 5, 3), draw(2, 4) * torch.nan), "^state = .*must be finite"),
        (lambda: make("LSTM")(draw(2, 5, 3), draw(2, 4)), r"^state = .*must be .*\(2, 8\)"),
        (
            lambda: make("GRU").trace(draw(2, 5, 3), (draw(2, 4), draw(2, 4))),
            r"^state = .*\(2, 4\)",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()


def test_inputs_whose_sum_overflows_are_taken():
    assert make("DiagGate")(torch.full((1, 9, 3), 1e308, dtype=torch.float64)).isfinite().all()
