"""The cells against a step-by-step recurrence, against PyTorch's own layers, and their starts."""

import math
import subprocess
import sys
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lwcore.cells import GRU, LSTM
from tests import oracles
from tests.networks import EVERY, FAMILIES, draw, few_examples, make

DOUBLE = torch.float64
LAYERS = [(LSTM, nn.LSTM), (GRU, nn.GRU)]


@pytest.mark.parametrize("kind", EVERY)
@few_examples
@given(
    seed=st.integers(0, 2**31),
    batch=st.integers(1, 3),
    steps=st.integers(1, 5),
    hidden=st.integers(1, 5),
)
def test_scan_is_the_recurrence(kind, seed, batch, steps, hidden):
    near = partial(torch.testing.assert_close, rtol=1e-11, atol=1e-12)
    cell = make(kind, seed, hidden_size=hidden)
    inputs = draw(batch, steps, 3, seed=seed + 1)
    states = oracles.scan(cell, inputs)
    trace = cell.trace(inputs)
    near(cell(inputs), states[..., :hidden])
    near(cell.unrolled(inputs), states[..., :hidden])
    near(trace.states, states)
    initial = draw(batch, cell.state_size, seed=seed + 2)
    after_one_step = oracles.scan(cell, inputs[:, :1], initial)[:, 0]
    near(cell.step(inputs[:, 0], initial), after_one_step)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("kind", "layer"), LAYERS)
def test_weights_of_torch_layers_give_their_outputs(kind, layer, bias):
    torch.manual_seed(0)
    theirs = layer(3, 4, bias=bias, batch_first=True, dtype=DOUBLE)
    ours = kind.from_torch(theirs)
    inputs = draw(2, 50, 3)
    expected, _ = theirs(inputs)
    torch.testing.assert_close(ours(inputs), expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("kind", FAMILIES)
def test_gates_start_where_they_are_told(kind):
    """The share that a step replaces is gate_init, what it keeps the rest; others are half open."""
    cell = FAMILIES[kind](3, 4, gate_init=0.05, gate_spread=0.0, dtype=DOUBLE)
    gates = cell.trace(draw(2, 50, 3)).gates
    for name, value in {"let_in": 0.05, "keep": 0.95, "reset": 0.5, "show": 0.5}.items():
        gate = getattr(gates, name)
        if gate is not None:
            expected = torch.full_like(gate, math.log(value / (1 - value)))
            torch.testing.assert_close(gate.logit(), expected, rtol=0, atol=1e-11)


# Σ_k k p_k over all parameters p in order of their names, of what was always drawn.
DRAWN = {
    ("orthogonal", "ConstGate"): 39.90981362056669,
    ("orthogonal", "GRU-after"): -94.8513738128473,
    ("uniform", "GRU-after"): -47.24393895165963,
    ("uniform", "MinGRU"): 22.144193038731427,
}


@pytest.mark.parametrize(("init", "kind"), DRAWN)
def test_seeds_draw_the_weights_that_they_always_drew(init, kind):
    options = {"init": init, "gate_init": 0.3, "layernorm": True, "dtype": DOUBLE}
    cell = FAMILIES[kind](3, 4, generator=torch.Generator().manual_seed(5), **options)
    entries = torch.cat([part.flatten() for _, part in sorted(cell.state_dict().items())])
    found = entries @ torch.arange(1.0, len(entries) + 1, dtype=DOUBLE)
    assert found.item() == pytest.approx(DRAWN[init, kind], rel=1e-11)


def test_trace_keeps_the_weights_it_was_made_with():
    cell = make("GRU")
    inputs = draw(2, 5, 3)
    trace = cell.trace(inputs)
    unchanged = make("GRU").trace(inputs)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.mul_(2)
    assert torch.equal(trace.jacobian(3).dense(), unchanged.jacobian(3).dense())


def test_inputs_whose_sum_overflows_are_taken():
    assert make("DiagGate")(torch.full((1, 9, 3), 1e308, dtype=DOUBLE)).isfinite().all()


GRADIENTS = """
import torch
from lwcore.cells import LSTM
generator = torch.Generator().manual_seed(0)
cell = LSTM(3, 7, gate_spread=1.0, generator=generator)
inputs = torch.randn(4, 9, 3, generator=generator).requires_grad_()
cell.unrolled(inputs).square().sum().backward()
gradients = [inputs.grad, *(parameter.grad for parameter in cell.parameters())]
bits = torch.cat([gradient.flatten() for gradient in gradients]).numpy().tobytes().hex()
"""


@pytest.mark.slow
def test_bits_of_steps_are_the_same_in_every_process():
    """Python orders the names of gates in a set by hashes that differ from process to process."""
    found = {}
    exec(GRADIENTS, found)
    command = [sys.executable, "-c", f"{GRADIENTS}\nprint(bits)"]
    assert subprocess.check_output(command, text=True).strip() == found["bits"]
