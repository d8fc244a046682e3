"""The compiled scan and its way back against steps and autograd, and its logistic and tanh against
high precision."""

import os
import subprocess
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numba.core import caching
from numba.core.dispatcher import Dispatcher
from torch import nn

import lwcore
from lwcore import cells
from lwcore.cells import kernels
from tests.networks import CELLS, EVERY, draw, few_examples, make


def outputs_and_gradients(scan, cell, inputs, weights):
    """Return outputs, and the gradients of a weighted sum of them in inputs and parameters."""
    inputs = inputs.clone().requires_grad_()
    outputs = scan(inputs)
    loss = (outputs * weights).sum()
    gradients = torch.autograd.grad(loss, [inputs, *cell.parameters()])
    return [outputs.detach(), *gradients]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 2e-4)])
@pytest.mark.parametrize("kind", EVERY)
@few_examples
@given(
    seed=st.integers(0, 2**31),
    batch=st.integers(1, 4),
    steps=st.integers(1, 12),
    hidden=st.integers(1, 19),
)
def test_scan_and_its_way_back_are_those_of_the_step(
    kind, dtype, tolerance, seed, batch, steps, hidden
):
    if dtype == torch.float32:
        hidden += 8  # the spread over a few neurons may nearly vanish
    cell = make(kind, seed, hidden_size=hidden).to(dtype)
    inputs = draw(batch, steps, 3, seed=seed).to(dtype)
    weights = draw(batch, steps, hidden, seed=seed + 1).to(dtype)
    compiled = outputs_and_gradients(cell, cell, inputs, weights)
    by_steps = outputs_and_gradients(cell.unrolled, cell, inputs, weights)
    for tensor, expected in zip(compiled, by_steps, strict=True):
        assert tensor.dtype == dtype
        size = float(expected.abs().max()) if dtype == torch.float32 else 1.0
        torch.testing.assert_close(tensor, expected, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("kind", EVERY)
def test_gates_that_are_open_or_closed_all_the_way_stay_finite(kind):
    cell = make(kind)
    inputs = 1e3 * draw(2, 9, 3)
    weights = draw(2, 9, 4, seed=3)
    compiled = outputs_and_gradients(cell, cell, inputs, weights)
    by_steps = outputs_and_gradients(cell.unrolled, cell, inputs, weights)
    for tensor, expected in zip(compiled, by_steps, strict=True):
        assert tensor.isfinite().all()
        torch.testing.assert_close(tensor, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", CELLS)
def test_histories_are_the_same_either_way(kind, monkeypatch):
    """`LWCORE_COMPILED=0` takes steps, and so do other precisions."""
    cell = make(kind)
    inputs = draw(2, 7, 3)
    ours = cell.trace(inputs).history
    assert kernels.usable(inputs)
    assert not kernels.usable(inputs.bfloat16())
    monkeypatch.setattr(kernels, "ENABLED", False)
    assert not kernels.usable(inputs)
    torch.testing.assert_close(ours, cell.trace(inputs).history, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("kind", EVERY)
def test_backward_may_run_twice(kind):
    """Nothing that was kept is used up, and the caller's tensors are left alone."""
    cell = make(kind)
    inputs = draw(2, 7, 3).requires_grad_()
    variables = [inputs, *cell.parameters()]
    before = [tensor.clone() for tensor in variables]
    loss = cell(inputs).square().sum()
    first = torch.autograd.grad(loss, variables, retain_graph=True)
    second = torch.autograd.grad(loss, variables)
    assert all(map(torch.equal, first, second))
    assert all(map(torch.equal, before, variables))


def test_what_the_way_back_cannot_do_is_refused():
    """Second derivatives, and parameters that have changed meanwhile."""
    cell = make("GRU")
    loss = cell(draw(2, 5, 3)).square().sum()
    (slope,) = torch.autograd.grad(loss, cell.weight_ih, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()
    loss = cell(draw(2, 5, 3).requires_grad_()).sum()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@njit(**kernels.OPTIONS)
def _map(x, logistic_values, tanh_values):
    for j in range(x.size):
        logistic_values[j] = kernels.logistic(x[j])
        tanh_values[j] = kernels.tanh(x[j])


def compiled_values(x):
    """Return logistic function and hyperbolic tangent, compiled."""
    logistic_values = np.empty_like(x)
    tanh_values = np.empty_like(x)
    _map(x, logistic_values, tanh_values)
    return logistic_values, tanh_values


def logistic(x):
    """Return the logistic function with as many digits as mpmath works with."""
    return 1 / (1 + mpmath.exp(-x))


@pytest.mark.parametrize(("dtype", "units", "open_at"), [(np.float32, 5, 20), (np.float64, 4, 40)])
def test_logistic_and_tanh_are_good_to_a_few_units_saturate_and_pass_nan_on(dtype, units, open_at):
    """Units in the last place. A gate that is open all the way is exactly 1."""
    small = np.geomspace(1e-30, 80, 200)
    ordinary = np.linspace(-30, 30, 601)
    x = np.concatenate([ordinary, small, -small, [0, 0.625, -0.625, 1e3]]).astype(dtype)
    limits = np.finfo(dtype)
    with mpmath.workdps(40):
        for values, function in zip(compiled_values(x), (logistic, mpmath.tanh), strict=True):
            for argument, value in zip(x.tolist(), values.tolist(), strict=True):
                exact = function(mpmath.mpf(argument))
                size = max(abs(exact), float(limits.tiny))
                assert abs(value - exact) <= units * float(limits.eps) * size

    extreme = np.array([-np.inf, -1e30, np.inf, 1e30, np.nan], dtype)
    logistic_values, tanh_values = compiled_values(extreme)
    np.testing.assert_allclose(logistic_values, [0, 0, 1, 1, np.nan], rtol=0, atol=1e-35)
    np.testing.assert_allclose(tanh_values, [-1, -1, 1, 1, np.nan], rtol=1e-6)
    open_gates, _ = compiled_values(np.linspace(open_at, 80, 1001, dtype=dtype))
    assert (open_gates == 1).all()


def test_no_two_compiled_functions_share_a_name():
    """Else a kernel may call what another process compiled for the other kernel."""
    compiled = [one for one in vars(kernels).values() if isinstance(one, Dispatcher)]
    for one in list(compiled):
        if one.py_func.__closure__:  # a pass, which holds its formula
            compiled.append(one.py_func.__closure__[0].cell_contents)
    names = {one.py_func.__qualname__ for one in compiled}
    assert len(names) == len(compiled) > 24


def test_a_cell_takes_what_a_layer_before_it_gives_in_autocast():
    layer, cell = nn.Linear(2, 2), cells.GRU(2, 4, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        between = layer(draw(3, 7, 2).float())
        outputs = cell(between)
    assert (between.dtype, outputs.dtype) == (torch.bfloat16, torch.float32)
    outputs.sum().backward()
    assert layer.weight.grad.isfinite().all()


def python(program, **variables):
    """What a program prints in an interpreter of its own."""
    variables |= {"PYTHONPATH": str(Path(lwcore.__file__).parents[1])}
    command = [sys.executable, "-c", program]
    return subprocess.check_output(command, env=os.environ | variables, text=True).split()


def test_first_uses_neither_warn_nor_draw():
    """PyTorch compiles its rules of forward mode by what it has deprecated; Rich draws when it is
    imported, and a run shows a bar."""
    program = """
import random, warnings, torch
from lwcore import cells, gradient, results
warnings.simplefilter("error")
cell = cells.GRU(2, 4, generator=torch.Generator())
trace = cell.trace(torch.zeros(3, 5, 2))
before = random.getstate(), torch.get_rng_state()
direction = gradient.random_direction(cell, torch.Generator())
print(gradient.immediate_sensitivity(trace, direction).shape[1])
with results.bar("t", 1, show=False) as advance:
    advance(1)
print(random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1]))
"""
    assert python(program) == ["5", "True"]


def test_what_is_compiled_works_where_nothing_of_it_can_be_kept(monkeypatch):
    """As in a container: an installation that nobody can write, and no home."""
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    double = kernels._kept_on_disk(lambda value: 2 * value)
    assert (double.stats.cache_path, double(21)) == (None, 42)


CELL = """
import torch
from lwcore import cells
from lwcore.cells import kernels
cell = cells.LSTM(2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
inputs = torch.linspace(-1, 1, 42, dtype=torch.float64).reshape(3, 7, 2)
print(kernels.ENABLED, torch.allclose(cell(inputs), cell.unrolled(inputs), rtol=1e-12))
"""


@pytest.mark.parametrize(("asked", "compiled"), [({}, "False"), ({"LWCORE_COMPILED": "1"}, "True")])
def test_cells_work_where_numba_may_not_compile(asked, compiled):
    assert python(CELL, NUMBA_DISABLE_JIT="1", **asked) == [compiled, "True"]
