"""Transport against autograd through time, dense products, closed forms, and the expansion against
its definition as a derivative."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lwcore import transport
from lwcore.trace import Trace
from lwcore.transport import (
    at_steps,
    effective_rates,
    envelope,
    exact_rates_and_share,
    log_effective_rates,
    step_jacobian,
    stream_rates,
)
from tests import oracles
from tests.networks import CELLS, EVERY, draw, make

seeds = st.integers(0, 2**31)


@pytest.mark.parametrize("kind", EVERY)
@given(seed=seeds)
def test_exact_rates_are_the_diagonal_of_the_true_transport(kind, seed):
    """diag ∂h_t/∂h_{t−ℓ}, for the LSTM ∂h_t/∂c_{t−ℓ}, by autograd through the unrolled
    recurrence."""
    cell = make(kind, seed)
    inputs, initial = draw(2, 7, 3, seed=seed + 1), draw(2, cell.state_size, seed=seed + 2)
    lags, ends = [1, 2, 5], [5, 6]
    trace = Trace.of(cell, inputs, initial)
    rates, shares = exact_rates_and_share(trace, lags, ends=ends)
    torch.testing.assert_close(
        rates, effective_rates(trace, lags, order="exact", ends=ends), rtol=1e-13, atol=0
    )
    assert rates.shape == (2, 2, 3, 4)
    for b in range(2):
        for e, t in enumerate(ends):
            for i, lag in enumerate(lags):
                block = oracles.carried_block(
                    cell, oracles.transport(cell, inputs[b], initial[b], t, lag)
                )
                torch.testing.assert_close(rates[b, e, i], block.diagonal(), rtol=1e-10, atol=1e-12)
                share = (block - torch.diag(block.diagonal())).norm() / block.norm()
                torch.testing.assert_close(shares[b, e, i], share, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", EVERY)
def test_split_is_the_derivative_in_what_is_kept_and_in_what_is_seen(kind):
    """Eqs. (11), (23) and Appendix B. Mixing vanishes with the recurrent weights; without any it is
    nothing, and every order exact."""
    cell = make(kind)
    trace = cell.trace(draw(2, 9, 3))
    kept, mixing = transport.split(trace, slice(3, 9))
    torch.testing.assert_close(
        kept + mixing, trace.jacobian(slice(3, 9), closed=False).dense(), rtol=1e-10, atol=1e-12
    )
    x, state = trace.inputs[1, 5], trace.previous[1, 5]
    apart = (
        torch.autograd.functional.jacobian(step, state)
        for step in (lambda s: cell.step(x, s, state), lambda s: cell.step(x, state, s))
    )
    for ours, expected in zip((kept[1, 2], mixing[1, 2]), apart, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)
    if kind in CELLS:
        with torch.no_grad():
            cell.weight_hh.zero_()
        trace = cell.trace(draw(2, 9, 3))
    _, mixing = transport.split(trace, torch.tensor([2, 4]))
    assert mixing.shape[:2] == (2, 2)
    assert mixing.abs().max() <= 1e-15
    assert not trace.neurons.mixing.any()
    exact = effective_rates(trace, [1, 4, 8])
    for order in ("zeroth", "first"):
        torch.testing.assert_close(
            effective_rates(trace, [1, 4, 8], order=order), exact, rtol=1e-12, atol=0
        )


@pytest.mark.parametrize("kind", EVERY)
@given(seed=seeds)
def test_expansion_is_the_taylor_series_in_the_mixing_part(kind, seed):
    """Appendix A: with P(ε) = ∏ (A_j + ε R_j), zeroth order is diag P(0) and first order adds diag
    P'(0), here by autograd in ε."""
    trace = make(kind, seed).trace(draw(1, 7, 3, seed=seed + 1))
    lags, t = [1, 2, 6], 6
    kept, mixing = (part[0] for part in transport.split(trace, slice(None)))

    def product(eps):
        result, blocks = torch.eye(kept.shape[-1], dtype=torch.float64), []
        for lag in range(1, 7):
            result = result @ (kept[t - lag + 1] + eps * mixing[t - lag + 1])
            blocks.append(result[:4, -4:].diagonal())
        return torch.stack(blocks)[[lag - 1 for lag in lags]]

    zero, one = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
    at_zero, slope = torch.autograd.functional.jvp(product, zero, one)
    zeroth, first = (
        effective_rates(trace, lags, order=order, ends=[t])[0, 0] for order in ("zeroth", "first")
    )
    torch.testing.assert_close(zeroth, at_zero, rtol=1e-11, atol=1e-14)
    torch.testing.assert_close(first, at_zero + slope, rtol=1e-10, atol=1e-12)


def test_lstm_first_order_is_the_closed_form():
    """ζ = eΦ Σ_j diag(C_j) e_{j−1}/f_j + Φ diag(O_t) e_{t−1}/f_t, written out; the output gate's
    term counts."""
    trace = make("LSTM").trace(draw(2, 9, 3))
    dense = trace.jacobian(slice(None)).dense()
    f, e = trace.gates.keep, trace.gates.show * (1 - torch.tanh(trace.history[:, 1:, 4:]) ** 2)
    c = dense[..., 4:, :4].diagonal(dim1=-2, dim2=-1)
    o = dense[..., :4, :4].diagonal(dim1=-2, dim2=-1) - e * c
    t, lags = 8, [1, 2, 5]
    first = effective_rates(trace, lags, order="first", ends=[t])[:, 0]
    for i, lag in enumerate(lags):
        kept = f[:, t - lag + 1 : t + 1].prod(1)
        total = e[:, t] * kept
        for j in range(t - lag + 2, t + 1):
            total = total + e[:, t] * kept * c[:, j] * e[:, j - 1] / f[:, j]
        if lag > 1:
            output_gate = kept * o[:, t] * e[:, t - 1] / f[:, t]
            assert (output_gate.abs() > 1e-4 * total.abs()).any()
            total = total + output_gate
        torch.testing.assert_close(first[:, i], total, rtol=1e-11, atol=1e-14)


def test_reset_rates_are_products_of_gates():
    """Eq. (25): ∏ r + ∏ (1 − z) r; and at lag 1 first order is exact without them."""
    trace, lags, t = make("GRU").trace(draw(2, 9, 3)), [1, 3], 8
    z, r = trace.gates.let_in, trace.gates.reset
    found = transport.reset_rates(trace, lags, [t])
    for i, lag in enumerate(lags):
        window = slice(t - lag + 1, t + 1)
        expected = r[:, window].prod(1) + ((1 - z[:, window]) * r[:, window]).prod(1)
        torch.testing.assert_close(found[:, 0, i], expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(
        effective_rates(trace, [1], "first", [t]),
        effective_rates(trace, [1], ends=[t]),
        rtol=1e-11,
        atol=1e-13,
    )
    with pytest.raises(ValueError, match=r"^trace\.recurrence = 'DiagGate': must be a GRU"):
        transport.reset_rates(make("DiagGate").trace(draw(2, 9, 3)), lags)


@pytest.mark.parametrize("kind", EVERY)
def test_many_end_points_and_sequences_give_what_each_alone_gives(kind, monkeypatch):
    """Whatever the size of the groups they are worked through in."""
    cell = make(kind)
    trace, lags, ends = cell.trace(draw(5, 12, 3)), [1, 3, 4], [4, 5, 8, 11]
    for order in ("zeroth", "first", "exact"):
        whole = effective_rates(trace, lags, order=order, ends=ends)
        monkeypatch.setattr("lwcore.transport._PRODUCT_ENTRIES", 1)
        monkeypatch.setattr("lwcore.transport._RATE_ENTRIES", 1)
        torch.testing.assert_close(
            effective_rates(trace, lags, order=order, ends=ends), whole, rtol=1e-12, atol=1e-14
        )
        monkeypatch.undo()
        one = effective_rates(cell.trace(trace.inputs[2:3]), lags, order=order, ends=[8])
        torch.testing.assert_close(one, whole[2:3, 2:3], rtol=1e-11, atol=1e-13)


def test_without_end_points_all_are_taken_from_which_every_lag_fits():
    trace, lags = make("DiagGate").trace(draw(2, 9, 3)), [1, 2, 6]
    torch.testing.assert_close(
        effective_rates(trace, lags), effective_rates(trace, lags, ends=[6, 7, 8]), rtol=0, atol=0
    )


@pytest.mark.parametrize("kind", EVERY)
def test_logarithms_are_those_of_the_rates_and_streams_hold_all_of_them(kind):
    trace, lags, ends = make(kind).trace(draw(3, 12, 3)), [1, 3, 8], [8, 9, 11]
    for order in ("zeroth", "first", "exact"):
        rates = effective_rates(trace, lags, order=order, ends=ends)
        log, sign = log_effective_rates(trace, lags, order=order, ends=ends)
        torch.testing.assert_close(sign * log.exp(), rates, rtol=1e-12, atol=1e-300)
        for part, streamed in stream_rates(trace, lags, torch.tensor(ends), order):
            for i, scaled in enumerate(streamed):
                assert torch.equal(scaled.value(), rates[part, :, i])


@pytest.mark.slow
@pytest.mark.parametrize("order", ["zeroth", "first", "exact"])
@pytest.mark.parametrize("kind", ["ConstGate", "DiagGate", "GRU", "LSTM", "MinLSTM"])
def test_three_thousand_lags_neither_underflow_nor_overflow(kind, order):
    """Couplings off, so that the logarithm of every order is a plain sum; with them on, still
    finite."""
    cell = make(kind, gate_init=0.5)
    trace = cell.trace(draw(1, 3001, 3))
    log, _ = log_effective_rates(trace, [3000], order=order, ends=[3000])
    assert log.isfinite().all()
    if kind in CELLS:
        with torch.no_grad():
            cell.weight_hh.zero_()
    trace = cell.trace(draw(1, 3001, 3))
    log, sign = log_effective_rates(trace, [1, 3000], order=order, ends=[3000])
    factors = trace.neurons
    expected = factors.retention[:, 1:].log().sum(1) + (
        0 if factors.head is None else factors.head[:, -1].log()
    )
    assert (expected < -750).all(), "too near for a float to underflow"
    torch.testing.assert_close(log[:, 0, 1], expected, rtol=1e-11, atol=0)
    assert (sign == 1).all()
    assert (effective_rates(trace, [3000], order=order, ends=[3000]) == 0).all()


def test_exact_rates_and_share_neither_underflows_nor_overflows():
    trace = make("GRU", gate_init=0.5).trace(draw(1, 2001, 3))
    log, _ = log_effective_rates(trace, [2000], ends=[2000])
    assert (log < -375).all(), "too near for a square to underflow"
    _, share = exact_rates_and_share(trace, [2000], ends=[2000])
    assert 0 < share.item() < 1


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
    retention, mixing = trace.neurons.retention, trace.neurons.mixing
    assert (retention[:, 4] == 0).all()
    rates = effective_rates(trace, [1, 2, 5], order=order, ends=[5, 6, 11])
    torch.testing.assert_close(
        rates[:, 2, 2], _expanded(retention[:, 7:12], mixing[:, 7:12], order)
    )
    torch.testing.assert_close(rates[:, 0, 1], _expanded(retention[:, 4:6], mixing[:, 4:6], order))
    assert rates.isfinite().all()
    log, _ = log_effective_rates(trace, [1, 2, 5], order=order, ends=[5, 6, 11])
    torch.testing.assert_close(log.exp(), rates.abs(), rtol=1e-12, atol=1e-300)


def _expanded(retention, mixing, order):
    """Multiply out a window (B, ℓ, H) by leaving each factor out in turn."""
    result = retention.prod(1)
    if order == "first":
        for j in range(retention.shape[1]):
            others = torch.cat([retention[:, :j], retention[:, j + 1 :]], dim=1).prod(1)
            result = result + others * mixing[:, j]
    return result


def test_scaled_numbers_stay_next_to_one():
    """One power of two for all that share an exponent."""
    found, values = (
        transport.Scaled(torch.tensor([[3.0, -40.0], [1e-30, 1e-35]]), torch.zeros(2, 1)),
        torch.tensor([[3.0, -40.0], [1e-30, 1e-35]]),
    )
    for _ in range(2):
        found = found.rescaled()
        size = found.mantissa.abs().amax(1)
        assert ((size >= 0.5) & (size < 1)).all()
        torch.testing.assert_close(found.value(), values, rtol=1e-6, atol=0)
        torch.testing.assert_close(found.log(), values.abs().log(), rtol=1e-6, atol=0)


def test_numbers_at_the_end_of_a_floats_range_stay_what_they_are():
    for dtype in (torch.float32, torch.float64):
        limits = torch.finfo(dtype)
        values = torch.tensor(
            [[limits.smallest_normal], [limits.smallest_normal / 64], [-limits.max / 4], [0]],
            dtype=dtype,
        )
        found = transport.Scaled(values, torch.zeros_like(values)).rescaled()
        assert torch.equal(found.value(), values)
        assert (found.mantissa.abs() < 1).all()


@pytest.mark.parametrize("order", ["zeroth", "first", "exact"])
@pytest.mark.parametrize("kept", [0.3, 1.5e-5, 2.0**-24])
def test_logarithms_in_single_precision_are_those_of_nearly_open_gates(kept, order):
    """2^−24 is the least 1 − σ there is."""
    cell = make("ConstGate", gate_init=1 - kept).float()
    with torch.no_grad():
        cell.weight_hh.zero_()
    trace = cell.trace(draw(1, 40, 3).float())
    log, sign = log_effective_rates(trace, [1, 16, 39], order, [39])
    expected = trace.neurons.retention[:, :1].double().log() * torch.tensor([1, 16, 39]).unsqueeze(
        1
    )
    torch.testing.assert_close(log[:, 0].double(), expected, rtol=1e-5, atol=0)
    assert (sign == 1).all()


def test_evenly_spaced_steps_are_chosen_without_a_copy():
    values = draw(2, 12, 3)
    for times in ([4], [4, 5], [4, 8], [0, 3, 6, 9], [11], [1, 2, 5], [0, 2, 3, 5]):
        chosen = at_steps(values, torch.tensor(times))
        torch.testing.assert_close(chosen, values[:, times], rtol=0, atol=0)
        assert (chosen._base is values) == (len(set(np.diff(times))) < 2)


def test_envelope_is_the_mean_one_norm():
    rates = effective_rates(make("SharedGate").trace(draw(3, 8, 3)), [1, 2, 4], order="first")
    assert rates.shape == (3, 4, 3, 4)
    expected = torch.stack([rates[b, e].abs().sum(-1) for b in range(3) for e in range(4)]).mean(0)
    torch.testing.assert_close(envelope(rates), expected)
    torch.testing.assert_close(envelope(-7 * rates), 7 * expected)


def product(factors):
    """Newest on the left."""
    result = torch.eye(factors[0].shape[-1], dtype=torch.float64)
    for factor in factors:
        result = factor @ result
    return result


@given(seed=seeds, steps=st.integers(1, 5), size=st.integers(1, 3))
def test_coefficients_are_sums_over_the_steps_that_mix(seed, steps, size):
    """Eq. (45), and its like for every power: all ways to choose the k steps at which R stands."""
    kept, mixing = draw(2, steps, size, size, seed=seed)
    terms = transport.coefficients(kept, mixing, steps + 1)
    assert terms.shape == (steps + 2, size, size)
    for k in range(steps + 2):
        chosen = [
            product([mixing[j] if j in at else kept[j] for j in range(steps)])
            for at in combinations(range(steps), k)
        ]
        torch.testing.assert_close(
            terms[k],
            sum(chosen, torch.zeros(size, size, dtype=torch.float64)),
            rtol=1e-10,
            atol=1e-12,
        )


def test_polynomial_is_the_scaled_product():
    """Eqs. (44) and (46), batched."""
    kept, mixing = draw(2, 3, 6, 4, 4)
    terms = transport.coefficients(kept, mixing, 6)
    for epsilon in (0.0, 0.3, 1.0, -2.0):
        expected = sum(epsilon**k * term for k, term in enumerate(terms))
        torch.testing.assert_close(
            transport.scaled_product(kept, mixing, epsilon), expected, rtol=1e-10, atol=1e-10
        )


@pytest.mark.parametrize("kind", EVERY)
def test_diagonals_of_the_first_two_coefficients_are_the_rates(kind):
    trace = make(kind).trace(draw(2, 9, 3))
    constant, linear = transport.coefficients(*transport.split(trace, slice(3, 9)))
    diagonal = [
        term[:, :4, -4:].diagonal(dim1=-2, dim2=-1) for term in (constant, constant + linear)
    ]
    for order, expected in zip(("zeroth", "first"), diagonal, strict=True):
        torch.testing.assert_close(
            effective_rates(trace, [6], order, [8])[:, 0, 0], expected, rtol=1e-10, atol=1e-12
        )


def test_what_does_not_fit_a_trace_is_refused():
    trace = make("DiagGate").trace(draw(2, 5, 3))
    for function in (effective_rates, log_effective_rates, exact_rates_and_share):
        with pytest.raises(ValueError, match=r"^lags = \[1, 5\]: must be below 5"):
            function(trace, [1, 5])
        for wrong in ([1, 4], [3, 5]):
            with pytest.raises(
                ValueError, match=r"^ends = .*: must be from 3, the longest lag, to 4"
            ):
                function(trace, [1, 3], ends=wrong)
    assert step_jacobian(trace, 0).shape == step_jacobian(trace, 4).shape == (2, 4, 4)
    with pytest.raises(ValueError, match=r"^t = 5: must be one of the 5 steps"):
        step_jacobian(trace, 5)
    with pytest.raises(ValueError, match=r"^rates = .*: must be of at least one"):
        envelope(torch.zeros(2, 0, 3, 4))
    with pytest.raises(ValueError, match=r"^steps = slice\(50, 60, None\): must be some of the 5"):
        transport.split(trace, slice(50, 60))
    for function in (transport.coefficients, lambda *both: transport.scaled_product(*both, 1.0)):
        with pytest.raises(ValueError, match=r"^kept = .*: must be of at least one step"):
            function(torch.zeros(0, 2, 2), torch.zeros(0, 2, 2))
