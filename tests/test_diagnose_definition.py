"""The definition: the time of a value is the last input step that reaches it; a lag is a difference.

Parts are held against `tests.diagnosed`: one copy of the parameters for each time.
"""

from typing import ClassVar

import pytest
import torch
from torch import nn

from lwcore.diagnose import diagnose, parts_by_lag, uses
from lwcore.signatures import ArgumentError
from tests import diagnosed
from tests.diagnosed import MODELS, STEPS, Recurrent, by_lag, inputs_of, oracle, route


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_parts_are_those_of_one_copy_of_the_parameters_for_each_time(kind):
    model = kind()
    data = inputs_of(model)
    network = route(model, data, parameters=[name for name, _ in model.named_parameters()])
    wanted = oracle(model, data)
    torch.testing.assert_close(by_lag(network), wanted, rtol=1e-9, atol=1e-12)


def test_end_points_that_are_drawn_stand_for_all():
    model = diagnosed.Bare()
    data = inputs_of(model, 1000)
    network = route(model, data)
    network.ends_drawn = 3
    wanted = oracle(model, data)
    apart = by_lag(network) - wanted
    assert 0 < apart.norm() < 0.2 * wanted.norm()


@pytest.mark.parametrize("kind", [Recurrent, diagnosed.Attends, diagnosed.Diagonal])
def test_all_lags_add_up_to_the_gradient_by_the_names_of_parameters(kind):
    """Also where there are more predictions than end points are drawn."""
    drawn = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(2, 40, uses.ENDS + 4, 2, generator=drawn)
    model, targets = kind(), targets[..., :1]
    loss = nn.MSELoss(reduction="sum")
    parts = parts_by_lag(model, (inputs, targets), range(uses.ENDS + 4), loss=loss, sequences=40)
    loss(model(inputs), targets).backward()
    for name, own in parts.items():
        wanted = model.get_parameter(name).grad.to(own)
        torch.testing.assert_close(own.sum(0), wanted, rtol=1e-4, atol=1e-3)


class Step(nn.Module):
    """A step of a loop of bare matrices, which has them."""

    def __init__(self, bare):
        super().__init__()
        self.W, self.U, self.b = bare.W, bare.U, bare.b

    def forward(self, x, h):
        return torch.tanh(x @ self.W + h @ self.U + self.b)


class Module(diagnosed.Bare):
    """The loop of bare matrices, by a module that is called once a step."""

    def __init__(self):
        super().__init__()
        self.step = Step(self).eval()
        del self.W, self.U, self.b

    def next_state(self, p, t, x, h):
        return self.step(x, h)


def test_a_module_called_once_a_step_counts_whole_steps_and_bare_matrices_what_is_known():
    """Eq. (3) counts U h at its step t, one lag apart; parts of W and b are the same."""
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


def test_what_no_step_reaches_is_left_out_by_name():
    model = diagnosed.Shops()
    found = route(model, inputs_of(model), parameters=["W", "U", *model.LEFT_OUT])
    said, _ = found.caveats[0].removeprefix("Left out: ").split(", used")
    assert {*said.split(", ")} == {*model.LEFT_OUT}
    assert {*found.chosen} == {"W", "U"}


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


def test_a_state_that_is_read_out_later_is_read_by_uses():
    """At steps that a flag says, and not at the last one."""

    class Late(Recurrent):
        def forward(self, x):
            now = super().forward(x)
            is_late = (x[..., :1] > 1.5) & (torch.arange(STEPS) < STEPS - 1)[:, None]
            return torch.where(is_late, now.roll(3, 1) * (torch.arange(STEPS) > 2)[:, None], now)

    assert route(Late().double(), inputs_of(None, 100)).route == "uses"


def test_one_number_a_sequence_is_a_prediction():
    inputs, targets = torch.randn(2, 40, STEPS, 1, generator=torch.Generator().manual_seed(0))
    how = {"lags": range(STEPS), "loss": nn.MSELoss(reduction="sum")}
    heads = {(40,): lambda y: y[:, -1, 0], (40, 1): lambda y: y[:, -1]}
    flat, wide = (
        parts_by_lag(Recurrent(1), (inputs, targets[:, -1].reshape(shape)), head=head, **how)
        for shape, head in heads.items()
    )
    torch.testing.assert_close(flat, wide)


def test_states_that_begin_earlier_in_few_sequences_are_refused():
    """U·0 leads nowhere, but for these."""

    def padded(begins):
        return (torch.randn(600, STEPS, 2).double(), begins), torch.randn(600, 1).double()

    torch.manual_seed(0)

    class Padded(diagnosed.Oracle):
        SIZES: ClassVar[dict] = {"W": (2, 3), "U": (3, 3)}

        def run(self, p, x, begins):
            h = x.new_zeros(len(x), 3)
            for t in range(STEPS):
                new = torch.tanh(x[:, t] @ p("W", t) + h @ p("U", t - 1))
                h = torch.where((begins <= t)[:, None], new, h)
            return h @ p("out", STEPS)

    begins = torch.randint(3, 5, (600,))
    assert parts_by_lag(Padded(), padded(begins), range(STEPS))["U"][4:].eq(0).all()
    begins[::100] = 0
    with pytest.raises(ArgumentError, match="few out"):
        parts_by_lag(Padded(), padded(begins), range(STEPS))


class Decays(nn.Module):
    """h_t = (1 − z_t) h_{t−1} + z_t v_t, by a loop, or at once in logarithms as in minGRU."""

    def __init__(self, at_once):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.read, self.show = nn.Linear(1, 8), nn.Linear(4, 1)
        nn.init.constant_(self.read.bias[4:], 1.5)  # which decays to e^(−160) in 96 steps
        self.at_once = at_once
        self.eval()

    def forward(self, x):
        v, z = self.read(x).sigmoid().chunk(2, -1)
        if self.at_once:
            decay = (1 - z).log().cumsum(1)
            return self.show((decay + ((z * v).log() - decay).logcumsumexp(1)).exp())
        states = [torch.zeros_like(v[:, 0])]
        for t in range(x.shape[1]):
            states.append((1 - z[:, t]) * states[-1] + z[:, t] * v[:, t])
        return self.show(torch.stack(states[1:], 1))


def test_single_precision_is_refused_where_rounding_grows_and_read_where_it_does_not():
    """A loop is exact to rounding; sums of logarithms lose what little comes from far back."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(60, 96, 1, generator=generator)
    data = inputs, inputs.roll(8, 1)
    exact = data[0].double(), data[1].double()
    how = {"lags": [1, 4, 8], "source": "target"}
    loop = parts_by_lag(Decays(False).double(), exact, **how)
    at_once = parts_by_lag(Decays(True).double(), exact, **how)
    single = parts_by_lag(Decays(False), data, **how)
    for name, wanted in loop.items():
        torch.testing.assert_close(at_once[name], wanted, rtol=1e-7, atol=1e-12)
        torch.testing.assert_close(single[name], wanted, rtol=1e-3, atol=1e-5)
    with pytest.raises(ArgumentError, match=r"Is it rounding\? Try model\.double\(\)"):
        parts_by_lag(Decays(True), data, **how)
