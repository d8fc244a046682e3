"""The expansion against subsets written out, autograd and hand-made numbers."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lwcore import expansion
from lwcore.transport import effective_rates
from tests.networks import CELLS, draw, make

seeds = st.integers(0, 2**31)


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
    terms = expansion.coefficients(kept, mixing, steps + 1)
    assert terms.shape == (steps + 2, size, size)
    for k in range(steps + 2):
        chosen = [product([mixing[j] if j in at else kept[j] for j in range(steps)]) for at in combinations(range(steps), k)]
        torch.testing.assert_close(terms[k], sum(chosen, torch.zeros(size, size, dtype=torch.float64)), rtol=1e-10, atol=1e-12)


def test_polynomial_is_the_scaled_product():
    """Eqs. (44) and (46), batched; the remainder by its definition, and of second order."""
    kept, mixing = draw(2, 3, 6, 4, 4)
    terms = expansion.coefficients(kept, mixing, 6)
    for eps in (0.0, 0.3, 1.0, -2.0):
        expected = sum(eps**k * term for k, term in enumerate(terms))
        torch.testing.assert_close(expansion.scaled_product(kept, mixing, eps), expected, rtol=1e-10, atol=1e-10)
    left_out = expansion.remainders(kept, mixing, [1e-4, 1e-3])
    assert left_out.shape == (2, 3)
    size = torch.linalg.matrix_norm(terms)
    torch.testing.assert_close(left_out[0], 1e-8 * size[2] / size[0], rtol=2e-2, atol=0)
    torch.testing.assert_close(left_out[1] / left_out[0], torch.full((3,), 100.0, dtype=torch.float64), rtol=2e-1, atol=0)


def test_remainders_want_finite_values_of_the_dial():
    kept, mixing = draw(2, 3, 6, 4, 4)
    with pytest.raises(ValueError, match=r"epsilons has shape .* must not be empty"):
        expansion.remainders(kept, mixing, [])
    with pytest.raises(ValueError, match="epsilons: 1 of 2 entries are NaN"):
        expansion.remainders(kept, mixing, [0.1, float("nan")])


@pytest.mark.parametrize("times", [slice(5, 50), slice(-50, 5), slice(5, 5)])
def test_split_wants_steps_of_the_trace(times):
    trace = make("ConstGate").trace(draw(2, 9, 3))
    with pytest.raises(ValueError, match=r"times = slice\(.*at least one step and stay within the 9"):
        expansion.split(trace, times)


@pytest.mark.parametrize("kind", CELLS)
def test_split_is_retention_and_mixing(kind):
    """Their sum is J; mixing vanishes with the recurrent weights; the first two terms hold the rates on their diagonal."""
    cell = make(kind)
    trace = cell.trace(draw(2, 9, 3))
    kept, mixing = expansion.split(trace, slice(3, 9))
    torch.testing.assert_close(kept + mixing, trace.jacobian(slice(3, 9)).dense(), rtol=1e-12, atol=1e-14)
    constant, linear = expansion.coefficients(kept, mixing)
    diagonal = [term[:, :4, -4:].diagonal(dim1=-2, dim2=-1) for term in (constant, constant + linear)]
    for order, expected in zip(("zeroth", "first"), diagonal, strict=True):
        torch.testing.assert_close(effective_rates(trace, [6], order, [8])[:, 0, 0], expected, rtol=1e-10, atol=1e-12)
    with torch.no_grad():
        cell.weight_hh.zero_()
    _, mixing = expansion.split(cell.trace(draw(2, 9, 3)), torch.tensor([2, 4]))
    assert mixing.shape[:2] == (2, 2)
    assert mixing.abs().max() < 1e-15


def test_orders_needed_are_those_of_a_binomial():
    """Plain numbers, (1 + 1)^4 = 1 + 4 + 6 + 4 + 1: three orders leave 1/16 out, two leave 5/16."""
    one = torch.ones(2, 4, 1, 1, dtype=torch.float64)
    assert [expansion.orders_needed(one, one, level) for level in (0.05, 0.1, 0.4, 0.95)] == [4, 3, 2, 0]
    assert expansion.orders_needed(one, 0 * one) == 0


@pytest.mark.parametrize("kind", [kind for kind in CELLS if not kind.startswith("LSTM")])
@given(seed=seeds)
def test_rates_fall_where_they_must(kind, seed):
    """The proposition of Appendix A, on cells with strong couplings; and zeroth order never rises."""
    trace = make(kind, seed).trace(draw(2, 12, 3, seed=seed + 1))
    ends, lags = [9, 11], list(range(1, 9))
    sure = expansion.falls_for_sure(trace, 8, ends)
    assert sure.shape == (2, 2, 7, 4)
    first = effective_rates(trace, lags, "first", ends).abs()
    slack = 1e-12 * first[:, :, :-1]
    assert (first[:, :, 1:] <= first[:, :, :-1] + slack)[sure].all()
    zeroth = effective_rates(trace, lags, "zeroth", ends)
    assert (zeroth.diff(dim=2) <= 0).all()


def test_condition_is_met_at_every_lag_where_mixing_is_positive_and_small():
    cell = make("ConstGate", hidden_size=3)
    with torch.no_grad():
        cell.weight_hh.copy_(torch.diag(torch.tensor([0.9, 0.5, -0.3], dtype=torch.float64)))
    sure = expansion.falls_for_sure(cell.trace(0 * draw(1, 30, 3)), 29, [29])[0, 0]
    assert sure[:, :2].all()
    assert sure[0, 2]
    assert not sure[-1, 2]


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"must be the same \(\.\.\., steps, S, S\)"):
        expansion.coefficients(torch.zeros(3, 2, 2), torch.zeros(2, 2, 2))
    with pytest.raises(ValueError, match=r"must be the same \(\.\.\., steps, S, S\)"):
        expansion.scaled_product(torch.zeros(0, 2, 2), torch.zeros(0, 2, 2), 1.0)
    with pytest.raises(ValueError, match="orders = -1"):
        expansion.coefficients(torch.zeros(1, 2, 2), torch.zeros(1, 2, 2), -1)
    with pytest.raises(ValueError, match="LSTMTrace"):
        expansion.falls_for_sure(make("LSTM").trace(draw(1, 5, 3)), 2, [4])
    with pytest.raises(ValueError, match="last = 9"):
        expansion.falls_for_sure(make("GRU").trace(draw(1, 5, 3)), 9, [4])
