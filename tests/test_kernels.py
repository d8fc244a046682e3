"""The compiled scan and its way back against `step` and autograd, and its logistic and tanh against
high precision."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from lwcore import kernels
from tests.networks import CELLS, EVERY, draw, initial_state, make


def everything(scan, cell, inputs, initial, weights):
    """Outputs, and the gradients of a weighted sum of them in parameters, inputs and initial
    state."""
    variables = [inputs.clone().requires_grad_(), initial.clone().requires_grad_()]
    outputs = scan(variables[0], initial_state(cell, variables[1]))
    return [
        outputs.detach(),
        *torch.autograd.grad((outputs * weights).sum(), [*variables, *cell.parameters()]),
    ]


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
    # the spread over a few neurons may vanish, and dividing by it magnifies single precision
    hidden += 8 * (dtype == torch.float32)
    cell = make(kind, seed, hidden_size=hidden).to(dtype)
    inputs, initial = (
        draw(batch, steps, 3, seed=seed + 1).to(dtype),
        draw(batch, cell.state_size, seed=seed + 2).to(dtype),
    )
    arguments = cell, inputs, initial, draw(batch, steps, hidden, seed=seed + 3).to(dtype)
    for one, other in zip(
        everything(cell, *arguments), everything(cell.unrolled, *arguments), strict=True
    ):
        assert one.dtype == dtype
        size = float(other.abs().max()) if dtype == torch.float32 else 1.0
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("kind", CELLS)
def test_histories_are_the_same_either_way(kind, monkeypatch):
    """All states, from an initial one on; `LWCORE_COMPILED=0` takes steps."""
    cell = make(kind)
    arguments = draw(2, 7, 3), initial_state(cell, draw(2, cell.state_size, seed=2))
    ours = cell.trace(*arguments)
    assert kernels.usable(ours.inputs)
    monkeypatch.setattr(kernels, "ENABLED", False)
    assert not kernels.usable(ours.inputs)
    torch.testing.assert_close(ours.history, cell.trace(*arguments).history, rtol=1e-13, atol=1e-14)


def test_other_precisions_take_steps():
    cell = make("GRU").to(torch.bfloat16)
    inputs = draw(2, 5, 3).bfloat16()
    assert not kernels.usable(inputs)
    assert torch.equal(cell(inputs), cell.unrolled(inputs))


@pytest.mark.parametrize("kind", EVERY)
def test_backward_may_run_twice(kind):
    """Nothing that was kept is used up."""
    cell = make(kind)
    loss = cell(draw(2, 7, 3)).square().sum()
    first = torch.autograd.grad(loss, list(cell.parameters()), retain_graph=True)
    for one, other in zip(first, torch.autograd.grad(loss, list(cell.parameters())), strict=True):
        assert torch.equal(one, other)


def test_backward_notices_that_the_parameters_have_changed():
    cell = make("DiagGate")
    loss = cell(draw(2, 5, 3)).sum()
    with torch.no_grad():
        cell.weight_hh.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("kind", ["GRU", "MinGRU"])
def test_second_derivatives_are_refused(kind):
    cell = make(kind)
    (slope,) = torch.autograd.grad(
        cell(draw(2, 5, 3)).square().sum(), cell.weight_ih, create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


@pytest.mark.parametrize("kind", EVERY)
def test_the_callers_tensors_are_left_alone(kind):
    cell = make(kind)
    inputs, initial = draw(2, 7, 3), draw(2, cell.state_size)
    before = [tensor.clone() for tensor in (inputs, initial, *cell.parameters())]
    cell(inputs, initial_state(cell, initial)).sum().backward()
    for now, then in zip((inputs, initial, *cell.parameters()), before, strict=True):
        assert torch.equal(now, then)


@pytest.mark.parametrize("kind", EVERY)
def test_gates_that_are_open_or_closed_all_the_way_stay_finite(kind):
    """The same as by steps, forward and back."""
    cell, inputs, weights = make(kind), 1e3 * draw(2, 9, 3), draw(2, 9, 4, seed=3)
    initial = draw(2, cell.state_size, seed=2)
    found = everything(cell, cell, inputs, initial, weights)
    assert all(part.isfinite().all() for part in found)
    for one, other in zip(
        found, everything(cell.unrolled, cell, inputs, initial, weights), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@njit(**kernels.OPTIONS)
def _map(x, logistic_values, tanh_values):
    for j in range(x.size):
        logistic_values[j] = kernels.logistic(x[j])
        tanh_values[j] = kernels.tanh(x[j])


@pytest.mark.parametrize(("dtype", "units"), [(np.float32, 5), (np.float64, 4)])
def test_logistic_and_tanh_are_good_to_a_few_units_in_the_last_place(dtype, units):
    with np.errstate(over="ignore"):
        x = np.concatenate(
            [
                np.linspace(-30, 30, 2001),
                np.geomspace(1e-30, 1e3, 200),
                -np.geomspace(1e-30, 80, 200),
                [0.0, 0.625, -0.625],
            ]
        )
    x = x.astype(dtype)
    logistic, tanh = np.empty_like(x), np.empty_like(x)
    _map(x, logistic, tanh)
    with mpmath.workdps(40):
        for values, function in (
            (logistic, lambda v: 1 / (1 + mpmath.exp(-v))),
            (tanh, mpmath.tanh),
        ):
            for argument, value in zip(x, values, strict=True):
                exact = function(mpmath.mpf(float(argument)))
                assert abs(mpmath.mpf(float(value)) - exact) <= units * np.finfo(dtype).eps * max(
                    abs(exact), np.finfo(dtype).tiny
                ), argument


@pytest.mark.parametrize(("dtype", "start"), [(np.float32, 20), (np.float64, 40)])
def test_gates_that_are_one_to_rounding_are_one(dtype, start):
    x = np.linspace(start, 80, 1001, dtype=dtype)
    logistic = np.empty_like(x)
    _map(x, logistic, np.empty_like(x))
    assert (logistic == 1).all()


def test_logistic_and_tanh_saturate_and_pass_nan_on():
    for dtype in (np.float32, np.float64):
        x = np.array([-np.inf, np.inf, -1e30, 1e30, np.nan], dtype)
        logistic, tanh = np.empty_like(x), np.empty_like(x)
        _map(x, logistic, tanh)
        np.testing.assert_allclose(logistic[:4], [0, 1, 0, 1], rtol=0, atol=1e-35)
        assert (logistic[[1, 3]] == 1).all(), "a gate that is open all the way is exactly 1"
        np.testing.assert_allclose(tanh[:4], [-1, 1, -1, 1], rtol=1e-6)
        assert np.isnan(logistic[4])
        assert np.isnan(tanh[4])
