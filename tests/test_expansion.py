"""What orders leave out against powers written out and plain numbers."""

from __future__ import annotations

import torch

from book.chapters.expansion import orders_needed, remainders
from lwcore.transport import coefficients
from tests.networks import draw


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
