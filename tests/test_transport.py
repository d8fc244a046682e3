"""Transport against autograd through time, dense products, closed forms, and the first order's definition as a derivative."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lwcore import transport
from lwcore.transport import at_steps, effective_rates, envelope, exact_rates_and_share, log_effective_rates, step_jacobian, stream_rates
from tests import oracles
from tests.networks import CELLS, draw, initial_state, make

seeds = st.integers(0, 2**31)


@pytest.mark.parametrize("kind", CELLS)
@given(seed=seeds, hidden=st.integers(1, 6), batch=st.integers(1, 3))
def test_step_jacobian_is_the_same_three_ways(kind, seed, hidden, batch):
    """Eqs. (9)–(11), (19)–(22), (48), (50), (52): closed form, autodiff of the cell's step, autodiff of the oracle's."""
    cell = make(kind, seed, hidden_size=hidden)
    trace = cell.trace(draw(batch, 3, 3, seed=seed + 1), initial_state(cell, draw(batch, cell.state_size, seed=seed + 2)))
    ours = trace.jacobian(slice(None)).dense()
    torch.testing.assert_close(ours, cell.autodiff_jacobian(trace, slice(None)).dense(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(step_jacobian(trace, 1), ours[:, 1], rtol=1e-12, atol=1e-14)
    expected = oracles.step_jacobian(cell, trace.inputs[0, 2], trace.previous[0, 2])
    torch.testing.assert_close(ours[0, 2], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
@pytest.mark.parametrize("kind", CELLS)
def test_operators_equal_dense_matrices(kind, dtype, tolerance):
    """The one interface, by both implementations, in both dtypes."""
    cell = make(kind).to(dtype)
    trace = cell.trace(draw(2, 6, 3).to(dtype))
    for times in (torch.tensor([1, 3, 4]), slice(2, 5), 4):
        for operator in (trace.jacobian(times), cell.autodiff_jacobian(trace, times)):
            dense = operator.dense()
            rows = draw(*dense.shape[:-2], 5, cell.state_size).to(dtype)
            columns = draw(*dense.shape[:-2], cell.state_size, 5, seed=7).to(dtype)
            assert operator.pull(rows).dtype == dtype
            torch.testing.assert_close(operator.pull(rows), rows @ dense, rtol=tolerance, atol=tolerance / 10)
            torch.testing.assert_close(operator.apply(columns), dense @ columns, rtol=tolerance, atol=tolerance / 10)
        torch.testing.assert_close(dense, trace.jacobian(times).dense(), rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("kind", CELLS)
def test_factors_are_the_diagonals_of_the_dense_jacobian(kind):
    cell = make(kind)
    trace = cell.trace(draw(2, 6, 3))
    dense, factors = trace.jacobian(slice(None)).dense(), trace.neurons
    carried = dense[..., -4:, -4:].diagonal(dim1=-2, dim2=-1)
    if cell.state_size == 4:
        torch.testing.assert_close(factors.retention + factors.mixing, carried, rtol=1e-11, atol=1e-13)
        return
    torch.testing.assert_close(factors.retention, carried, rtol=1e-12, atol=0)
    shown = dense[..., :4, 4:].diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(factors.head * factors.retention, shown, rtol=1e-12, atol=1e-14)
    through_cell = dense[..., 4:, :4].diagonal(dim1=-2, dim2=-1)[:, 1:] * factors.head[:, :-1]
    torch.testing.assert_close(factors.mixing[:, 1:], through_cell, rtol=1e-11, atol=1e-13)
    through_both = dense[..., :4, :4].diagonal(dim1=-2, dim2=-1)[:, 1:] * factors.head[:, :-1]
    torch.testing.assert_close(factors.lead[:, 1:] + factors.head[:, 1:] * factors.mixing[:, 1:], through_both, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", CELLS)
@given(seed=seeds)
def test_exact_rates_are_the_diagonal_of_the_true_transport(kind, seed):
    """diag ∂h_t/∂h_{t−ℓ}, for the LSTM ∂h_t/∂c_{t−ℓ}, by autograd through the unrolled recurrence."""
    cell = make(kind, seed)
    inputs, initial = draw(2, 7, 3, seed=seed + 1), draw(2, cell.state_size, seed=seed + 2)
    lags, ends = [1, 2, 5], [5, 6]
    trace = cell.trace(inputs, initial_state(cell, initial))
    rates, shares = exact_rates_and_share(trace, lags, ends=ends)
    torch.testing.assert_close(rates, effective_rates(trace, lags, order="exact", ends=ends), rtol=1e-13, atol=0)
    assert rates.shape == (2, 2, 3, 4)
    for b in range(2):
        for e, t in enumerate(ends):
            for i, lag in enumerate(lags):
                block = oracles.carried_block(cell, oracles.transport(cell, inputs[b], initial[b], t, lag))
                torch.testing.assert_close(rates[b, e, i], block.diagonal(), rtol=1e-10, atol=1e-12)
                share = (block - torch.diag(block.diagonal())).norm() / block.norm()
                torch.testing.assert_close(shares[b, e, i], share, rtol=1e-10, atol=1e-12)


def split(kind, trace):
    """Retention A and mixing R = J − A of Eqs. (11), (23) and Appendix B, dense, from the dense Jacobian alone."""
    dense = trace.jacobian(slice(None)).dense()
    kept = torch.zeros_like(dense)
    if kind.startswith("LSTM"):
        kept[..., :, 4:] = dense[..., :, 4:]
    else:
        kept = torch.diag_embed(trace.neurons.retention)
    return kept, dense - kept


@pytest.mark.parametrize("kind", CELLS)
@given(seed=seeds)
def test_expansion_is_the_taylor_series_in_the_mixing_part(kind, seed):
    """Appendix A: with P(ε) = ∏ (A_j + ε R_j), zeroth order is diag P(0) and first order adds diag P'(0), here by autograd in ε."""
    trace = make(kind, seed).trace(draw(1, 7, 3, seed=seed + 1))
    lags, t = [1, 2, 6], 6
    kept, mixing = (part[0] for part in split(kind, trace))

    def product(eps):
        result, blocks = torch.eye(kept.shape[-1], dtype=torch.float64), []
        for lag in range(1, 7):
            result = result @ (kept[t - lag + 1] + eps * mixing[t - lag + 1])
            blocks.append(result[:4, -4:].diagonal())
        return torch.stack(blocks)[[lag - 1 for lag in lags]]

    zero, one = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
    at_zero, slope = torch.autograd.functional.jvp(product, zero, one)
    zeroth, first = (effective_rates(trace, lags, order=order, ends=[t])[0, 0] for order in ("zeroth", "first"))
    torch.testing.assert_close(zeroth, at_zero, rtol=1e-11, atol=1e-14)
    torch.testing.assert_close(first, at_zero + slope, rtol=1e-10, atol=1e-12)


def test_lstm_first_order_is_the_closed_form():
    """ζ = eΦ Σ_j diag(C_j) e_{j−1}/f_j + Φ diag(O_t) e_{t−1}/f_t, written out; the output gate's term counts."""
    trace = make("LSTM").trace(draw(2, 9, 3))
    dense = trace.jacobian(slice(None)).dense()
    f, e = trace.forget_gate, trace.output_gate * (1 - torch.tanh(trace.states[..., 4:]) ** 2)
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


def test_equation_26_in_both_readings():
    trace = make("GRU").trace(draw(2, 9, 3))
    lags, t = [1, 3], 8
    z, r = trace.update_gate, trace.reset_gate
    for order in ("zeroth", "first"):
        expansion = effective_rates(trace, lags, order=order, ends=[t])
        paper = effective_rates(trace, lags, order=order, ends=[t], reading="paper_v2")
        for i, lag in enumerate(lags):
            window = slice(t - lag + 1, t + 1)
            extra = r[:, window].prod(1) + ((1 - z[:, window]) * r[:, window]).prod(1)
            torch.testing.assert_close(paper[:, 0, i], expansion[:, 0, i] + extra, rtol=1e-12, atol=0)
    exact = effective_rates(trace, [1], ends=[t])
    torch.testing.assert_close(effective_rates(trace, [1], order="first", ends=[t]), exact, rtol=1e-11, atol=1e-13)
    for bad in ({"trace": trace, "order": "exact"}, {"trace": make("DiagGate").trace(draw(2, 9, 3)), "order": "first"}):
        with pytest.raises(ValueError, match=r"reading = 'paper_v2': must be of a GRU at zeroth or first order"):
            effective_rates(lags=[1], reading="paper_v2", **bad)


@pytest.mark.parametrize("kind", CELLS)
def test_orders_agree_where_there_is_no_coupling(kind):
    cell = make(kind)
    with torch.no_grad():
        cell.weight_hh.zero_()
    trace = cell.trace(draw(2, 9, 3))
    exact = effective_rates(trace, [1, 4, 8])
    for order in ("zeroth", "first"):
        torch.testing.assert_close(effective_rates(trace, [1, 4, 8], order=order), exact, rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", CELLS)
def test_many_end_points_and_sequences_give_what_each_alone_gives(kind, monkeypatch):
    """Whatever the size of the groups they are worked through in."""
    cell = make(kind)
    trace, lags, ends = cell.trace(draw(5, 12, 3)), [1, 3, 4], [4, 5, 8, 11]
    for order in ("zeroth", "first", "exact"):
        whole = effective_rates(trace, lags, order=order, ends=ends)
        monkeypatch.setattr("lwcore.transport._PRODUCT_ENTRIES", 1)
        monkeypatch.setattr("lwcore.transport._RATE_ENTRIES", 1)
        torch.testing.assert_close(effective_rates(trace, lags, order=order, ends=ends), whole, rtol=1e-12, atol=1e-14)
        monkeypatch.undo()
        one = effective_rates(cell.trace(trace.inputs[2:3]), lags, order=order, ends=[8])
        torch.testing.assert_close(one, whole[2:3, 2:3], rtol=1e-11, atol=1e-13)


def test_without_end_points_all_are_taken_from_which_every_lag_fits():
    trace, lags = make("DiagGate").trace(draw(2, 9, 3)), [1, 2, 6]
    assert transport.default_ends(trace, lags) == [6, 7, 8]
    torch.testing.assert_close(effective_rates(trace, lags), effective_rates(trace, lags, ends=[6, 7, 8]), rtol=0, atol=0)


@pytest.mark.parametrize("kind", CELLS)
def test_logarithms_and_weights_are_those_of_the_rates(kind):
    trace, lags, ends = make(kind).trace(draw(3, 12, 3)), [1, 3, 8], [8, 9, 11]
    weights = draw(3, 3, 4, seed=6)
    for order in ("zeroth", "first", "exact"):
        rates = effective_rates(trace, lags, order=order, ends=ends)
        log, sign = log_effective_rates(trace, lags, order=order, ends=ends)
        torch.testing.assert_close(sign * log.exp(), rates, rtol=1e-12, atol=1e-300)
        for part, streamed in stream_rates(trace=trace, lags=lags, order=order, ends=ends, weights=weights):
            for i, scaled in enumerate(streamed):
                assert scaled.exponent is None  # unless asked for
                torch.testing.assert_close(scaled.value(), weights[part] * rates[part, :, i], rtol=1e-12, atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["zeroth", "first", "exact"])
@pytest.mark.parametrize("kind", ["ConstGate", "DiagGate", "GRU", "LSTM"])
def test_three_thousand_lags_neither_underflow_nor_overflow(kind, order):
    """Couplings off, so that the logarithm of every order is a plain sum; with them on, still finite."""
    cell = make(kind, gate_init=0.5)
    trace = cell.trace(draw(1, 3001, 3))
    log, _ = log_effective_rates(trace, [3000], order=order, ends=[3000])
    assert log.isfinite().all()
    with torch.no_grad():
        cell.weight_hh.zero_()
    trace = cell.trace(draw(1, 3001, 3))
    log, sign = log_effective_rates(trace, [1, 3000], order=order, ends=[3000])
    factors = trace.neurons
    expected = factors.retention[:, 1:].log().sum(1) + (0 if factors.head is None else factors.head[:, -1].log())
    assert (expected < -750).all(), "too near for a float to underflow"
    torch.testing.assert_close(log[:, 0, 1], expected, rtol=1e-11, atol=0)
    assert (sign == 1).all()
    assert (effective_rates(trace, [3000], order=order, ends=[3000]) == 0).all()


def test_equation_26_holds_in_logarithms_too():
    trace = make("GRU").trace(draw(1, 12, 3))
    rates = effective_rates(trace, [1, 9], order="first", reading="paper_v2")
    log, sign = log_effective_rates(trace, [1, 9], order="first", reading="paper_v2")
    torch.testing.assert_close(sign * log.exp(), rates, rtol=1e-12, atol=0)


def test_equation_26_neither_underflows_nor_overflows():
    trace = make("GRU").trace(draw(1, 3001, 3))
    kept, reset = (1 - trace.update_gate[:, 1:]).log().sum(1), trace.reset_gate[:, 1:].log().sum(1)
    log, sign = log_effective_rates(trace, [1, 3000], order="zeroth", ends=[3000], reading="paper_v2")
    expected = torch.logsumexp(torch.stack([kept, reset, kept + reset]), 0)
    assert (expected < -750).any(), "too near for a float to underflow"
    torch.testing.assert_close(log[:, 0, 1], expected, rtol=1e-11, atol=0)
    assert (sign == 1).all()


def test_exact_rates_and_share_neither_underflows_nor_overflows():
    trace = make("GRU", gate_init=0.5).trace(draw(1, 2001, 3))
    log, _ = log_effective_rates(trace, [2000], ends=[2000])
    assert (log < -375).all(), "too near for a square to underflow"
    _, share = exact_rates_and_share(trace, [2000], ends=[2000])
    assert 0 < share.item() < 1


@pytest.mark.parametrize("order", ["zeroth", "first"])
def test_gate_that_opens_all_the_way_spoils_no_other_window(order):
    """Retention exactly 0 at one step: 0 or the mixing term in windows that contain it, untouched elsewhere."""
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
    torch.testing.assert_close(rates[:, 2, 2], _expanded(retention[:, 7:12], mixing[:, 7:12], order))
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
    values, exponent = [torch.tensor([3.0, 1e-30]), torch.tensor([-40.0, 1e-35])], None
    for _ in range(2):
        scaled, exponent = transport._rescaled(values, exponent)
        size = torch.stack(scaled).abs().amax(0)
        assert ((size >= 0.5) & (size < 1)).all()
        for value, mantissa in zip([torch.tensor([3.0, 1e-30]), torch.tensor([-40.0, 1e-35])], scaled, strict=True):
            torch.testing.assert_close(torch.ldexp(mantissa, exponent), value, rtol=1e-6, atol=0)
        values = scaled


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


def test_bad_input_is_named():
    trace = make("DiagGate").trace(draw(2, 5, 3))
    for function in (effective_rates, log_effective_rates, exact_rates_and_share):
        with pytest.raises(ValueError, match=r"lags\[1\] = 5: must be an integer from 1 to 4"):
            function(trace, [1, 5])
        with pytest.raises(ValueError, match=r"lags\[0\] = 0"):
            function(trace, [0, 1])
        with pytest.raises(ValueError, match="strictly increasing, but 2 follows 2"):
            function(trace, [2, 2])
        with pytest.raises(ValueError, match=r"ends\[0\] = 1: must be an integer from 3 to 4"):
            function(trace, [1, 3], ends=[1])
        with pytest.raises(ValueError, match=r"ends = \[4, 4\]: must be strictly increasing, but 4 follows 4"):
            function(trace, [1, 3], ends=[4, 4])
        with pytest.raises(ValueError, match=r"ends = \[\]"):
            function(trace, [1, 3], ends=[])
        with pytest.raises(TypeError, match="ends = 7: must be a sequence"):
            function(trace, [1, 3], ends=7)
        with pytest.raises(TypeError, match="lags = None: must be a sequence"):
            function(trace, None)
    with pytest.raises(ValueError, match="order = 'second'"):
        effective_rates(trace, [1], order="second")
    with pytest.raises(ValueError, match="reading = 'mine'"):
        effective_rates(trace, [1], order="first", reading="mine")
    with pytest.raises(ValueError, match="times = 99: must be an integer from 0 to 4"):
        trace.jacobian(99)
    assert step_jacobian(trace, 0).shape == step_jacobian(trace, 4).shape == (2, 4, 4)
    for outside in (-1, 5):
        with pytest.raises(ValueError, match=f"t = {outside}: must be an integer from 0 to 4"):
            step_jacobian(trace, outside)
    with pytest.raises(ValueError, match="rates has shape"):
        envelope(torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"rates has shape .* none of them 0"):
        envelope(torch.zeros(2, 0, 3, 4))
    assert envelope(torch.ones(1, 1, 1, 1)) == 1
