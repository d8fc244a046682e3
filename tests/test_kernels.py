"""The compiled scan and its way back against steps and autograd, and its logistic and tanh against
high precision."""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numba.core.dispatcher import Dispatcher

from lwcore.cells import kernels
from tests.networks import CELLS, EVERY, draw, make


def everything(scan, cell, inputs, weights):
    """Outputs, and the gradients of a weighted sum of them in inputs and parameters."""
    variables = [inputs.clone().requires_grad_(), *cell.parameters()]
    outputs = scan(variables[0])
    return [outputs.detach(), *torch.autograd.grad((outputs * weights).sum(), variables)]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 2e-4)])
@pytest.mark.parametrize("kind", EVERY)
@given(
    seed=st.integers(0, 2**31),
    batch=st.integers(1, 4),
    steps=st.integers(1, 12),
    hidden=st.integers(1, 19),
)
def test_scan_and_its_way_back_are_those_of_the_step(
    kind, dtype, tolerance, seed, batch, steps, hidden
):
    hidden += 8 * (dtype == torch.float32)  # the spread over a few neurons may nearly vanish
    cell = make(kind, seed, hidden_size=hidden).to(dtype)
    shapes = (batch, steps, 3), (batch, steps, hidden)
    inputs, weights = (draw(*shape, seed=seed + k).to(dtype) for k, shape in enumerate(shapes))
    found = everything(cell, cell, inputs, weights)
    for one, other in zip(found, everything(cell.unrolled, cell, inputs, weights), strict=True):
        assert one.dtype == dtype
        size = float(other.abs().max()) if dtype == torch.float32 else 1.0
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("kind", EVERY)
def test_gates_that_are_open_or_closed_all_the_way_stay_finite(kind):
    cell, inputs, weights = make(kind), 1e3 * draw(2, 9, 3), draw(2, 9, 4, seed=3)
    found = everything(cell, cell, inputs, weights)
    for one, other in zip(found, everything(cell.unrolled, cell, inputs, weights), strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", CELLS)
def test_histories_are_the_same_either_way(kind, monkeypatch):
    """`LWCORE_COMPILED=0` takes steps, and so do other precisions."""
    cell, inputs = make(kind), draw(2, 7, 3)
    ours = cell.trace(inputs).history
    assert kernels.usable(inputs)
    assert not kernels.usable(inputs.bfloat16())
    monkeypatch.setattr(kernels, "ENABLED", False)
    assert not kernels.usable(inputs)
    torch.testing.assert_close(ours, cell.trace(inputs).history, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("kind", EVERY)
def test_backward_may_run_twice(kind):
    """Nothing that was kept is used up, and the caller's tensors are left alone."""
    cell, inputs = make(kind), draw(2, 7, 3)
    variables = [inputs, *cell.parameters()]
    before = [tensor.clone() for tensor in variables]
    loss = cell(inputs.requires_grad_()).square().sum()
    first = torch.autograd.grad(loss, variables, retain_graph=True)
    assert all(map(torch.equal, first, torch.autograd.grad(loss, variables)))
    assert all(map(torch.equal, before, variables))


@pytest.mark.parametrize("kind", ["GRU", "MinGRU"])
def test_what_the_way_back_cannot_do_is_refused(kind):
    """Second derivatives, and parameters that have changed meanwhile."""
    cell = make(kind)
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


def test_no_two_compiled_functions_share_a_name():
    """Else a kernel may call what another process compiled for the other kernel."""
    compiled = [f.py_func for f in vars(kernels).values() if isinstance(f, Dispatcher)]
    formulas = [f.__closure__[0].cell_contents.py_func for f in compiled if f.__closure__]
    names = [f.__qualname__ for f in compiled + formulas]
    assert len(formulas) >= 12
    assert len(set(names)) == len(names)


@njit(**kernels.OPTIONS)
def _map(x, logistic_values, tanh_values):
    for j in range(x.size):
        logistic_values[j] = kernels.logistic(x[j])
        tanh_values[j] = kernels.tanh(x[j])


def mapped(x):
    """Logistic function and hyperbolic tangent, compiled."""
    values = np.empty_like(x), np.empty_like(x)
    _map(x, *values)
    return values


@pytest.mark.parametrize(("dtype", "units", "open_at"), [(np.float32, 5, 20), (np.float64, 4, 40)])
def test_logistic_and_tanh_are_good_to_a_few_units_saturate_and_pass_nan_on(dtype, units, open_at):
    """Units in the last place. A gate that is open all the way is exactly 1."""
    small = np.geomspace(1e-30, 80, 200)
    x = np.concatenate([np.linspace(-30, 30, 2001), small, -small, [0, 0.625, -0.625, 1e3]])
    x, functions = x.astype(dtype), (lambda v: 1 / (1 + mpmath.exp(-v)), mpmath.tanh)
    with mpmath.workdps(40):
        for values, function in zip(mapped(x), functions, strict=True):
            exact = [function(mpmath.mpf(float(argument))) for argument in x]
            errors = [abs(float(v - e)) for v, e in zip(values.tolist(), exact, strict=True)]
            sizes = np.maximum([abs(float(e)) for e in exact], np.finfo(dtype).tiny)
            assert (np.array(errors) <= units * np.finfo(dtype).eps * sizes).all()
    logistic, tanh = mapped(np.array([-np.inf, -1e30, np.inf, 1e30, np.nan], dtype))
    np.testing.assert_allclose(logistic[:2], 0, rtol=0, atol=1e-35)
    np.testing.assert_allclose(tanh[:4], [-1, -1, 1, 1], rtol=1e-6)
    assert (logistic[2:4] == 1).all()
    assert (mapped(np.linspace(open_at, 80, 1001, dtype=dtype))[0] == 1).all()
    assert np.isnan([logistic[4], tanh[4]]).all()
