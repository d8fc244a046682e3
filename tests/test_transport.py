"""Transport against autograd through time, dense products, and the definition of the first order as a derivative."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lwcore.cells import ConstGate, DiagGate, SharedGate
from lwcore.transport import effective_rates, envelope, step_jacobian
from tests import oracles
from tests.test_cells import CELLS, draw, make


@pytest.mark.parametrize("kind", CELLS)
@given(seed=st.integers(0, 2**31), hidden=st.integers(1, 5))
def test_step_jacobian_equals_autograd(kind, seed, hidden):
    """Eqs. (48), (50), (52)."""
    cell = make(kind, seed, hidden_size=hidden)
    trace = cell.trace(draw(2, 4, 3, seed=seed + 1), draw(2, hidden, seed=seed + 2))
    for t in range(4):
        ours = step_jacobian(trace, t)
        for b in range(2):
            expected = oracles.step_jacobian(cell, trace.inputs[b, t], trace.previous[b, t])
            torch.testing.assert_close(ours[b], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", CELLS)
def test_operator_equals_dense_matrix(kind):
    trace = make(kind).trace(draw(2, 6, 3))
    times = torch.tensor([1, 3, 4])
    operator = trace.jacobian(times)
    dense = torch.stack([step_jacobian(trace, int(t)) for t in times], dim=1)
    torch.testing.assert_close(operator.dense(), dense, rtol=0, atol=0)
    rows, columns = draw(2, 3, 5, 4), draw(2, 3, 4, 5)
    torch.testing.assert_close(operator.pull(rows), rows @ dense, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(operator.apply(columns), dense @ columns, rtol=1e-12, atol=1e-13)
    mixing = dense.diagonal(dim1=-2, dim2=-1) - operator.retention
    torch.testing.assert_close(operator.mixing_diagonal(), mixing, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", CELLS)
@given(seed=st.integers(0, 2**31))
def test_exact_rates_are_the_diagonal_of_the_true_transport(kind, seed):
    """diag ∂h_t/∂h_{t−ℓ} by autograd through the unrolled recurrence."""
    cell = make(kind, seed)
    inputs, initial = draw(2, 7, 3, seed=seed + 1), draw(2, 4, seed=seed + 2)
    lags, ends = [1, 2, 5], [5, 6]
    rates = effective_rates(cell.trace(inputs, initial), lags, order="exact", ends=ends)
    assert rates.shape == (2, 2, 3, 4)
    for b in range(2):
        for e, t in enumerate(ends):
            for i, lag in enumerate(lags):
                expected = oracles.transport(cell, inputs[b], initial[b], t, lag).diagonal()
                torch.testing.assert_close(rates[b, e, i], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", CELLS)
def test_expansion_is_the_taylor_series_in_the_mixing_part(kind):
    """Appendix A: with P(ε) = ∏ (A_j + ε R_j), zeroth order is diag P(0) and first order adds diag P'(0), here by autograd in ε."""
    trace = make(kind).trace(draw(2, 9, 3))
    lags, ends = [1, 3, 8], [8]
    dense = torch.stack([step_jacobian(trace, t) for t in range(9)], dim=1)
    retention = torch.diag_embed(trace.jacobian(slice(None)).retention)
    mixing = dense - retention

    def product(eps, lag):
        result = torch.eye(4, dtype=torch.float64)
        for j in range(8, 8 - lag, -1):
            result = result @ (retention[:, j] + eps * mixing[:, j])
        return result.diagonal(dim1=-2, dim2=-1)

    zeroth = effective_rates(trace, lags, order="zeroth", ends=ends)
    first = effective_rates(trace, lags, order="first", ends=ends)
    for i, lag in enumerate(lags):
        at_zero, slope = torch.autograd.functional.jvp(
            lambda eps, lag=lag: product(eps, lag), torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
        )
        torch.testing.assert_close(zeroth[:, 0, i], at_zero, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(first[:, 0, i], at_zero + slope, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", CELLS)
def test_orders_agree_where_there_is_no_coupling(kind):
    cell = make(kind)
    with torch.no_grad():
        cell.weight_hh.zero_()
    trace = cell.trace(draw(2, 9, 3))
    exact = effective_rates(trace, [1, 4, 8])
    for order in ("zeroth", "first"):
        torch.testing.assert_close(effective_rates(trace, [1, 4, 8], order=order), exact, rtol=1e-12, atol=0)


def test_first_order_is_exact_at_lag_one():
    trace = make(DiagGate).trace(draw(2, 5, 3))
    torch.testing.assert_close(effective_rates(trace, [1], order="first"), effective_rates(trace, [1]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("order", ["zeroth", "first"])
def test_gate_that_opens_all_the_way_spoils_no_other_window(order):
    """Retention exactly 0 at one step: 0 or the mixing term in windows that contain it, untouched elsewhere."""
    cell = make(DiagGate)
    inputs = draw(2, 12, 3)
    with torch.no_grad():
        cell.weight_ih[:4] = 0
        cell.weight_ih[:4, 0] = 1000.0
    inputs[:, :, 0] = 0
    inputs[:, 4, 0] = 1
    trace = cell.trace(inputs)
    assert (trace.jacobian(4).retention == 0).all()
    rates = effective_rates(trace, [1, 2, 5], order=order, ends=[5, 6, 11])
    retention, mixing = trace.jacobian(slice(None)).retention, trace.jacobian(slice(None)).mixing_diagonal()
    torch.testing.assert_close(rates[:, 2, 2], _expanded(retention[:, 7:12], mixing[:, 7:12], order))
    torch.testing.assert_close(rates[:, 0, 1], _expanded(retention[:, 4:6], mixing[:, 4:6], order))
    assert rates.isfinite().all()


def _expanded(retention, mixing, order):
    """Multiply out a window (B, ℓ, H) by leaving each factor out in turn."""
    result = retention.prod(1)
    if order == "first":
        for j in range(retention.shape[1]):
            others = torch.cat([retention[:, :j], retention[:, j + 1 :]], dim=1).prod(1)
            result = result + others * mixing[:, j]
    return result


def test_constant_gate_decays_as_its_retention():
    """γ = (1 − s)^ℓ, over a range where the product itself is far below the smallest number times one."""
    trace = make(ConstGate, gate_init=0.5).trace(draw(1, 900, 3))
    rates = effective_rates(trace, [1, 10, 800], order="zeroth", ends=[899])
    expected = torch.tensor([0.5, 0.5**10, 0.5**800], dtype=torch.float64).view(1, 1, 3, 1).expand_as(rates)
    torch.testing.assert_close(rates, expected, rtol=1e-11, atol=0)


def test_envelope_is_the_mean_one_norm():
    rates = effective_rates(make(SharedGate).trace(draw(3, 8, 3)), [1, 2, 4], order="first")
    assert rates.shape == (3, 4, 3, 4)
    expected = torch.stack([torch.stack([rates[b, e].abs().sum(-1) for b in range(3) for e in range(4)]).mean(0)])[0]
    torch.testing.assert_close(envelope(rates), expected)
    torch.testing.assert_close(envelope(-7 * rates), 7 * expected)


def test_bad_input_is_named():
    trace = make(DiagGate).trace(draw(2, 5, 3))
    with pytest.raises(ValueError, match=r"lags\[1\] = 5: must be an integer from 1 to 4"):
        effective_rates(trace, [1, 5])
    with pytest.raises(ValueError, match=r"lags\[0\] = 0"):
        effective_rates(trace, [0, 1])
    with pytest.raises(ValueError, match="strictly increasing, but 2 follows 2"):
        effective_rates(trace, [2, 2])
    with pytest.raises(ValueError, match="order = 'second'"):
        effective_rates(trace, [1], order="second")
    with pytest.raises(ValueError, match=r"ends\[0\] = 1: must be an integer from 3 to 4"):
        effective_rates(trace, [1, 3], ends=[1])
    with pytest.raises(ValueError, match=r"ends = \[4, 4\]: must name at least one end point, strictly increasing"):
        effective_rates(trace, [1, 3], ends=[4, 4])
    with pytest.raises(ValueError, match=r"ends = \[\]"):
        effective_rates(trace, [1, 3], ends=[])
    with pytest.raises(ValueError, match="t = 5"):
        step_jacobian(trace, 5)
    with pytest.raises(ValueError, match="rates has shape"):
        envelope(torch.zeros(2, 3))
