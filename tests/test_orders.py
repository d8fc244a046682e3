"""Approximations of the rates judged against the exact diagonal, by hand."""

import numpy as np
import pytest
import torch

from book.chapters.orders import compare_orders, span, without_norm
from lwcore.transport import effective_rates, exact_rates_and_share, split
from tests.networks import close, draw, make

LAGS, ENDS = [1, 2, 5], [6, 8]


@pytest.mark.parametrize("kind", ["SharedGate+norm", "LSTM"])
def test_errors_are_relative_one_norms(kind):
    traces = {(kind, s): make(kind, s).trace(draw(3, 9, 3, seed=s + 10)) for s in (0, 1)}
    data = compare_orders(traces, LAGS, ENDS)
    assert data.order.values.tolist() == ["zeroth", "first", "exact"]
    trace, one = traces[kind, 1], data.sel(model=kind, seed=1)
    exact, shares = exact_rates_and_share(trace, LAGS, ENDS)
    for order in data.order.values:
        rates, found = effective_rates(trace, LAGS, order, ENDS), one.sel(order=order)
        size, missed = rates.abs(), (rates - exact).abs().sum((0, 1, 3))
        np.testing.assert_allclose(found.envelope, size.sum(-1).mean((0, 1)))
        expected = missed / exact.abs().sum((0, 1, 3))
        np.testing.assert_allclose(found.error, expected, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(one.off_diagonal, shares.mean((0, 1)))
    norms = [part.square().sum((-2, -1)).sqrt() for part in split(trace, slice(1, None))]
    assert float(one.coupling) == pytest.approx(float((norms[1] / norms[0]).mean()))


@pytest.mark.parametrize("kind", ["ConstGate+norm", "GRU-after+norm", "LSTM+norm"])
def test_norm_left_out_is_the_identity_in_its_place(kind):
    trace = make(kind).trace(draw(3, 9, 3))
    short = without_norm(trace)
    if kind == "ConstGate+norm":  # Eq. (52) as it stands
        slope = (0.3 * (1 - trace.gates.candidate**2)).unsqueeze(-1) * trace.parameters["weight_hh"]
        expected = 0.7 * torch.eye(4, dtype=torch.float64) + slope
        close(short.jacobian(slice(None)).dense(), expected)
    assert not torch.allclose(short.neurons.mixing, trace.neurons.mixing, rtol=1e-3)
    assert torch.equal(short.states, trace.states)


def test_span_is_the_median_with_the_least_and_the_largest():
    assert span([3.0, 1.0, 2.04], ".1f") == "2.0 (1.0 to 3.0)"
    assert span([3.0, np.nan, 2.0], never="> 8") == "3 (2 to > 8)"
    assert span([2.0, 2.0]) == "2"
