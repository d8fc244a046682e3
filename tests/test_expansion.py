"""What orders leave out against powers written out and plain numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from book.chapters.expansion import falls_for_sure, orders_needed, remainders
from lwcore.transport import coefficients, effective_rates
from tests.networks import EVERY, draw, make


def test_remainders_are_of_second_order():
    """Eq. (46)'s, by the second coefficient where ε is small."""
    kept, mixing = draw(2, 3, 6, 4, 4)
    left_out = remainders(kept, mixing, [1e-4, 1e-3])
    assert left_out.shape == (2, 3)
    size = torch.linalg.matrix_norm(coefficients(kept, mixing, 2))
    torch.testing.assert_close(left_out[0], 1e-8 * size[2] / size[0], rtol=2e-2, atol=0)
    torch.testing.assert_close(
        left_out[1] / left_out[0], torch.full((3,), 100.0, dtype=torch.float64), rtol=2e-1, atol=0
    )


def test_orders_needed_are_those_of_a_binomial():
    """Plain numbers, (1 + 1)^4 = 1 + 4 + 6 + 4 + 1: three orders leave 1/16 out, two leave 5/16."""
    one = torch.ones(2, 4, 1, 1, dtype=torch.float64)
    assert [orders_needed(one, one, level) for level in (0.05, 0.1, 0.4, 0.95)] == [4, 3, 2, 0]
    assert orders_needed(one, 0 * one) == 0


@pytest.mark.parametrize("kind", [kind for kind in EVERY if not kind.startswith("LSTM")])
@given(seed=st.integers(0, 2**31))
def test_rates_fall_where_they_must(kind, seed):
    """The proposition of Appendix A, on cells with strong couplings; and zeroth order never
    rises."""
    trace = make(kind, seed).trace(draw(2, 12, 3, seed=seed + 1))
    ends, lags = [9, 11], list(range(1, 9))
    sure = falls_for_sure(trace, 8, ends)
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
    sure = falls_for_sure(cell.trace(0 * draw(1, 30, 3)), 29, [29])[0, 0]
    assert sure[:, :2].all()
    assert sure[0, 2]
    assert not sure[-1, 2]


def test_rates_of_an_lstm_are_not_its_subject():
    with pytest.raises(ValueError, match="trace: must be of a cell whose state is h"):
        falls_for_sure(make("LSTM").trace(draw(1, 5, 3)), 2, [4])
