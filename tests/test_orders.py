"""What chapters on orders share, by hand."""

import pytest
import torch

from book.chapters.orders import without_norm
from tests.networks import close, draw, make


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
