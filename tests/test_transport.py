"""Transport against autograd through time, dense products, closed forms, and the expansion against
its definition as a derivative."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lwcore import transport
from lwcore.trace import Trace
from lwcore.transport import (
    effective_rates,
    envelope,
    exact_rates_and_share,
    step_jacobian,
    stream_rates,
)
from tests import oracles
from tests.networks import CELLS, EVERY, close, draw, few_examples, make

seeds = st.integers(0, 2**31)
ORDERS = ("zeroth", "first", "exact")


@pytest.mark.parametrize("kind", EVERY)
@few_examples
@given(seed=seeds)
def test_exact_rates_are_the_diagonal_of_the_true_transport(kind, seed):
    """diag ∂h_t/∂h_{t−ℓ}, for the LSTM ∂h_t/∂c_{t−ℓ}, by autograd through the unrolled
    recurrence."""
    cell = make(kind, seed)
    inputs = draw(2, 7, 3, seed=seed + 1)
    initial = draw(2, cell.state_size, seed=seed + 2)
    trace = Trace.scan(cell, inputs, initial)
    lags = [1, 5]
    ends = [5, 6]
    rates, shares = exact_rates_and_share(trace, lags, ends)
    close(rates, effective_rates(trace, lags, "exact", ends))
    for i, lag in enumerate(lags):
        whole = oracles.transport(cell, inputs[1], initial[1], 6, lag)
        block = oracles.carried_block(cell, whole)
        close(rates[1, 1, i], block.diagonal())
        off_diagonal = block - torch.diag(block.diagonal())
        close(shares[1, 1, i], off_diagonal.norm() / block.norm())


@pytest.mark.parametrize("kind", EVERY)
def test_split_is_the_derivative_in_what_is_kept_and_in_what_is_seen(kind):
    """Eqs. (11), (23) and Appendix B. Mixing vanishes with the recurrent weights; without any it is
    nothing, and every order exact."""
    cell = make(kind)
    trace = cell.trace(draw(2, 9, 3))
    kept, mixing = transport.split(trace, slice(3, 9))
    x, state = trace.inputs[1, 5], trace.previous[1, 5]
    jacobian = torch.autograd.functional.jacobian
    close(kept[1, 2], jacobian(lambda s: cell.step(x, s, state), state))
    close(mixing[1, 2], jacobian(lambda s: cell.step(x, state, s), state))
    if kind in CELLS:
        with torch.no_grad():
            cell.weight_hh.zero_()
        trace = cell.trace(draw(2, 9, 3))
    _, mixing = transport.split(trace, torch.tensor([2, 4]))
    assert mixing.shape[:2] == (2, 2)
    assert mixing.abs().max() <= 1e-15
    assert not trace.neurons.mixing.any()
    zeroth, first, exact = (effective_rates(trace, [1, 4, 8], order) for order in ORDERS)
    close(zeroth, exact, atol=0)
    close(first, exact, atol=0)


@pytest.mark.parametrize("kind", EVERY)
@few_examples
@given(seed=seeds)
def test_expansion_is_the_taylor_series_in_the_mixing_part(kind, seed):
    """Appendix A: with P(ε) = ∏ (A_j + ε R_j), zeroth order is diag P(0) and first order adds diag
    P'(0), here by autograd in ε."""
    trace = make(kind, seed).trace(draw(1, 7, 3, seed=seed + 1))
    kept, mixing = transport.split(trace, slice(None))
    one = torch.ones((), dtype=torch.float64)
    for i, lag in enumerate([1, 2, 6]):
        window = kept[0, 7 - lag :], mixing[0, 7 - lag :]

        def diagonal(epsilon, window=window):
            return transport.scaled_product(*window, epsilon)[:4, -4:].diagonal()

        at_zero, slope = torch.autograd.functional.jvp(diagonal, 0 * one, one)
        zeroth, first = (
            effective_rates(trace, [1, 2, 6], order, [6])[0, 0, i] for order in ("zeroth", "first")
        )
        close(zeroth, at_zero)
        close(first, at_zero + slope)


def test_reset_rates_are_products_of_gates():
    """Eq. (25): ∏ r + ∏ (1 − z) r, also of a gate that is shut all the way; and at lag 1 first
    order is exact without them."""
    cell = make("GRU")
    with torch.no_grad():
        cell.bias[0] = -1000.0
    trace = cell.trace(draw(2, 9, 3))
    assert not trace.gates.reset[..., 0].any()
    lags = [1, 3]
    t = 8
    rates = transport.reset_rates(trace, lags, [t])
    for i, lag in enumerate(lags):
        window = slice(t - lag + 1, t + 1)
        z = trace.gates.let_in[:, window]
        r = trace.gates.reset[:, window]
        close(rates[:, 0, i], r.prod(1) + ((1 - z) * r).prod(1))
    close(effective_rates(trace, [1], "first"), effective_rates(trace, [1], "exact"))
    with pytest.raises(ValueError, match=r"^trace\.recurrence = 'DiagGate': must be a GRU"):
        transport.reset_rates(make("DiagGate").trace(draw(2, 9, 3)), lags)


@pytest.mark.parametrize("kind", ["GRU+norm", "LSTM", "MinGRU"])
def test_rates_do_not_depend_on_what_they_are_worked_through_with(kind, monkeypatch):
    """Neither on the size of groups, nor on other sequences and end points; streams hold the
    same."""
    cell = make(kind)
    trace = cell.trace(draw(5, 12, 3))
    lags = [1, 3, 4]
    ends = [4, 5, 8, 11]
    for order in ORDERS:
        whole = effective_rates(trace, lags, order, ends)
        close(effective_rates(trace, lags, order)[:, [0, 1, 4, 7]], whole)
        close(effective_rates(cell.trace(trace.inputs[2:3]), lags, order, [8]), whole[2:3, 2:3])
        # one sequence and end point at a time; all end points of a sequence; with J never condensed
        for entries, condensed in ((1, 2**23), (2**9, 2**23), (2**18, 0)):
            monkeypatch.setattr(transport, "_PRODUCT_ENTRIES", entries)
            monkeypatch.setattr(transport, "_RATE_ENTRIES", entries)
            monkeypatch.setattr(transport, "_CONDENSED_ENTRIES", condensed)
            close(effective_rates(trace, lags, order, ends), whole)
            for group, streamed in stream_rates(trace, lags, torch.tensor(ends), order):
                for i, rates in enumerate(streamed):
                    close(rates, whole[group, :, i])
        monkeypatch.undo()


def test_share_beside_the_diagonal_does_not_depend_on_the_size_of_the_transport():
    """Products of some 1e-240, whose squares no float holds."""
    cell = make("ConstGate", gate_init=1 - 1e-4)
    with torch.no_grad():
        cell.weight_hh *= 1e-4
    trace = cell.trace(draw(2, 61, 3))
    _, share = exact_rates_and_share(trace, [60], [60])
    newest_first = trace.jacobian(slice(1, 61)).dense()[0].flip(0)
    block = torch.linalg.multi_dot(list(1e4 * newest_first))
    off_diagonal = block - block.diagonal().diag()
    close(share[0, 0, 0], off_diagonal.norm() / block.norm())


@pytest.mark.parametrize("order", ["zeroth", "first"])
def test_gate_that_opens_all_the_way_spoils_no_other_window(order):
    """Retention exactly 0 at one step: 0 or the mixing term in windows that contain it, untouched
    elsewhere."""
    cell = make("DiagGate")
    inputs = draw(2, 12, 3)
    with torch.no_grad():
        cell.weight_ih[:4] = 0
        cell.weight_ih[:4, 0] = 1000.0
    inputs[:, :, 0] = 0
    inputs[:, 4, 0] = 1
    trace = cell.trace(inputs)
    assert (trace.neurons.retention[:, 4] == 0).all()
    rates = effective_rates(trace, [2, 5], order, [5, 11])
    for i, end in enumerate((5, 11)):
        for k, lag in enumerate((2, 5)):
            window = slice(end - lag + 1, end + 1)
            terms = transport.coefficients(*transport.split(trace, window))
            expected = terms[0] if order == "zeroth" else terms.sum(0)
            close(rates[:, i, k], expected.diagonal(dim1=-2, dim2=-1))


@given(seed=seeds, steps=st.integers(1, 5), size=st.integers(1, 3))
def test_coefficients_are_sums_over_the_steps_that_mix(seed, steps, size):
    """Eqs. (44)–(46), batched, for every power: all ways to choose the k steps at which R stands,
    newest on the left."""
    kept, mixing = draw(2, 2, steps, size, size, seed=seed)
    terms = transport.coefficients(kept, mixing, steps + 1)
    assert terms.shape == (steps + 2, 2, size, size)
    assert torch.equal(transport.coefficients(kept, mixing, np.int64(steps + 1)), terms)
    for k in range(steps + 2):
        expected = torch.zeros(2, size, size, dtype=torch.float64)
        for mixing_steps in combinations(range(steps), k):
            product = torch.eye(size, dtype=torch.float64)
            for j in range(steps):
                factors = mixing if j in mixing_steps else kept
                product = factors[:, j] @ product
            expected = expected + product
        close(terms[k], expected)
    for epsilon in (0.0, 0.3, 1.0, -2.0):
        expected = sum(epsilon**k * term for k, term in enumerate(terms))
        close(transport.scaled_product(kept, mixing, epsilon), expected, atol=1e-10)


def test_what_does_not_fit_a_trace_is_refused():
    trace = make("DiagGate").trace(draw(2, 5, 3))
    assert step_jacobian(trace, 0).shape == step_jacobian(trace, 4).shape == (2, 4, 4)
    with pytest.raises(ValueError, match=r"^t = 5: must be one of the 5 steps"):
        step_jacobian(trace, 5)
    with pytest.raises(ValueError, match=r"^lags = \[1, 5\]: must be below 5"):
        effective_rates(trace, [1, 5])
    with pytest.raises(ValueError, match=r"^ends = .*: must be from 3, the longest lag, to 4"):
        exact_rates_and_share(trace, [1, 3], [3, 5])
    with pytest.raises(ValueError, match="must be from 3"):
        effective_rates(trace, [3], ends=[2])
    with pytest.raises(ValueError, match=r"^rates = .*: must be of at least one"):
        envelope(torch.zeros(2, 0, 3, 4))
    with pytest.raises(ValueError, match="must be some of the 5"):
        transport.split(trace, slice(50, 60))
