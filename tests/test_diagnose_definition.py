"""The definition: the time of a value is the last input step that reaches it; a lag is a difference.

Parts are held against `tests.diagnosed`: one copy of the parameters for each time.
"""

import numpy as np
import pytest
import torch
from torch import nn

from lwcore.diagnose import diagnose, uses
from lwcore.diagnose.exchange import row_axes
from tests import diagnosed
from tests.diagnosed import MODELS, NEURONS, STEPS, Recurrent, by_lag, inputs_of, oracle, route


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_parts_are_those_of_one_copy_of_the_parameters_for_each_time(kind):
    model = kind()
    data = inputs_of(model)
    network = route(model, data, parameters=[name for name, _ in model.named_parameters()])
    wanted = oracle(model, data)
    torch.testing.assert_close(by_lag(network), wanted, rtol=1e-9, atol=1e-12)


def test_end_points_that_are_drawn_stand_for_all(monkeypatch):
    monkeypatch.setattr(uses, "ENDS", 3)
    model = diagnosed.Bare()
    data = inputs_of(model, 1000)
    wanted = oracle(model, data)
    apart = by_lag(route(model, data, parameters=["W", "U", "b", "out"])) - wanted
    assert 0 < apart.norm() < 0.2 * wanted.norm()


class Module(diagnosed.Bare):
    """The loop of bare matrices, in a module that is called once a step."""

    class Step(nn.Module):
        def __init__(self, weights):
            super().__init__()
            self.W, self.U, self.b = weights

        def forward(self, x, h):
            return torch.tanh(x @ self.W + h @ self.U + self.b)

    def __init__(self):
        super().__init__()
        self.step = self.Step((self.W, self.U, self.b))
        del self.W, self.U, self.b
        self.eval()

    def forward(self, x):
        h, states = x.new_zeros(len(x), NEURONS), []
        for t in range(STEPS):
            h = self.step(x[:, t], h)
            states.append(h)
        return torch.stack(states, 1) @ self.out


def test_a_module_called_once_a_step_counts_whole_steps_and_bare_matrices_what_is_known():
    """Eq. (3) counts U h at its step t; by what reaches it, it is a use of step t − 1. Parts of W
    and b are the same, those of U are one lag apart."""
    torch.manual_seed(0)
    model = Module()
    data = inputs_of(model)
    whole = route(model, data, step=model.step)
    assert whole.route == route(model, data).route == "recurrence"
    names = ["step.W", "step.U", "step.b"]
    bare = route(model, data, parameters=names)
    sizes = [part.numel() for part in model.step.parameters()]
    of_steps = by_lag(whole).split(sizes, 1)
    of_uses = by_lag(bare).split(sizes, 1)
    for place, moved in ((0, 0), (1, 1), (2, 0)):
        apart = of_uses[place][moved:] - of_steps[place][: STEPS - moved]
        assert apart.abs().max() < 1e-12
    assert of_uses[1][0].abs().max() == 0  # U h is never of the step of the prediction


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_layers_of_pytorch_have_the_same_parts_by_both_routes(kind):
    """What one call makes of x_t and h has the time t, as Eq. (3) counts it."""
    model = diagnosed.Recurrent(kind=kind, layers=2).double()
    data = inputs_of(model)
    one, two = route(model, data), route(model, data, parameters=["rnn"])
    assert (one.route, two.route) == ("recurrence", "uses")
    torch.testing.assert_close(by_lag(one), by_lag(two), rtol=1e-9, atol=1e-12)


def test_a_gate_that_is_closed_in_most_sequences_changes_no_time():
    """A step reaches a value if it moves it in any sequence, in any feature."""

    class Shut(diagnosed.Attention):
        def run(self, p, x):
            is_open = (x[:, :1, :1] > 0.3).to(x)
            return super().run(p, x * is_open)

    model = Shut()
    for site in route(model, inputs_of(model, 60)).sites:
        assert site.times.tolist() == [*range(STEPS)]


def test_what_no_step_reaches_is_left_out_by_name():
    model = diagnosed.Shops()
    found = route(model, inputs_of(model), parameters=["W", "U", *model.LEFT_OUT])
    said, _ = found.caveats[0].removeprefix("Left out: ").split(", used")
    assert {*said.split(", ")} == {*model.LEFT_OUT}
    assert {*found.chosen} == {"W", "U"}


def test_one_pair_of_pairs_is_one_pair():
    """((x, mask), (y, weight)) is the same as one tensor each, and never two batches."""

    class Masked(diagnosed.Attention):
        def forward(self, x, mask=None):
            return super().forward(x if mask is None else x * mask)

    inputs, targets = inputs_of(None)
    mask, weight = torch.ones_like(inputs), torch.ones_like(targets)

    def weighted(p, targets):
        y, w = targets
        return ((p - y).square() * w).mean()

    one = route(Masked(), ((inputs, mask), (targets, weight)), loss=weighted)
    assert one.data.count == len(inputs)
    wanted = by_lag(route(Masked(), (inputs, targets)))
    torch.testing.assert_close(by_lag(one), wanted, rtol=1e-12, atol=1e-14)


def test_nothing_of_the_readers_is_touched():
    """Model, head and loss are copied: a model that counts its passes, and frozen parameters."""

    class Counts(diagnosed.Cell):
        def forward(self, x):
            self.passes = getattr(self, "passes", 0) + 1
            return super().forward(x)

    model = Counts()
    model.W.requires_grad_(False)
    before = {name: part.clone() for name, part in model.state_dict().items()}
    diagnose(model, inputs_of(model), progress=False)
    assert not hasattr(model, "passes")
    assert [part.requires_grad for part in model.parameters()] == [False, True, True]
    assert all(part.grad is None for part in model.parameters())
    assert all(torch.equal(part, before[name]) for name, part in model.state_dict().items())


def test_entries_of_one_row_have_one_time():
    """But for those that no step reaches: they have the time of their row."""
    steps = np.arange(3)
    pairs = np.maximum.outer(steps, steps)
    slow = np.stack([steps, steps // 2 * 2], 1)
    dead = np.stack([steps, np.full(3, -1)], 1)
    assert [row_axes(last) for last in (pairs, slow, dead)] == [(0, 1), (0, 1), (0,)]


def test_a_state_that_is_read_out_later_is_read_by_uses():
    """At steps that a flag says, and not at the last one."""

    class Late(Recurrent):
        def forward(self, x):
            now = super().forward(x)
            is_late = (x[..., :1] > 1.5) & (torch.arange(STEPS) < STEPS - 1)[:, None]
            return torch.where(is_late, now.roll(3, 1) * (torch.arange(STEPS) > 2)[:, None], now)

    assert route(Late().double(), inputs_of(None, 100)).route == "uses"
