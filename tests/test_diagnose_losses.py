"""Losses, outputs and data of several kinds, as `diagnose` takes them."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from lwcore.signatures import ArgumentError
from tests.diagnosed import by_lag, route
from tests.networks import draw

LENGTH = 8


class Attention(nn.Module):
    """One block of causal attention, of numbers or of tokens."""

    def __init__(self, outputs=1, tokens=0, hidden=4):
        super().__init__()
        torch.manual_seed(0)
        self.read = nn.Embedding(tokens, hidden) if tokens else nn.Linear(1, hidden)
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.head = nn.Linear(hidden, outputs)
        self.double().eval()

    def forward(self, x):
        h = self.read(x)
        given = self.query(h), self.key(h), self.value(h)
        return self.head(h + functional.scaled_dot_product_attention(*given, is_causal=True))


class Second(Attention):
    """Classes second, as PyTorch's losses take them."""

    def forward(self, x):
        return super().forward(x).mT


DATA = draw(60, LENGTH, 1).double(), draw(60, LENGTH, 1, seed=1).double()


def tokens(classes=7):
    inputs = torch.randint(classes, (60, LENGTH), generator=torch.Generator().manual_seed(0))
    return inputs, inputs.roll(2, 1)


def parts(model, data=DATA, **how):
    return by_lag(route(model, data, **how), range(LENGTH))


def refused(words, model, data=DATA, **how):
    with pytest.raises(ArgumentError, match=words):
        route(model, data, **how)


def test_labels_that_are_ignored_are_left_out():
    """−100, whole sequences among them, with classes last or second. The oracle is cross-entropy
    over what is left, as a sum over sequences."""
    inputs, labels = tokens()
    labels[:, :2] = labels[::3, 6:] = labels[5] = -100

    def summed(predictions, targets):
        is_left = targets >= 0
        logs = predictions.log_softmax(-1).gather(-1, targets.clamp(min=0)[..., None])[..., 0]
        return -logs[is_left].sum()

    wanted = parts(Attention(7, 7), (inputs, labels), loss=summed)
    torch.testing.assert_close(parts(Attention(7, 7), (inputs, labels)), wanted)
    for loss in (None, nn.CrossEntropyLoss(reduction="sum")):
        torch.testing.assert_close(parts(Second(7, 7), (inputs, labels), loss=loss), wanted)


def test_labels_that_are_not_shifted_or_no_classes_are_refused():
    inputs, labels = tokens()
    refused("labels of Hugging Face's are shifted", Attention(7, 7), (inputs, inputs))
    labels[:, 0] = -1
    refused("out of bounds", Attention(7, 7), (inputs, labels))


def test_of_several_things_none_is_guessed():
    class Several(Attention):
        def forward(self, x):
            mean, other = super().forward(x).split(1, -1)
            return {"mean": mean, "variance": other.exp()}

    def likelihood(p, y):
        mean, variance = p
        return functional.gaussian_nll_loss(mean, y, variance)

    model = Several(2)
    refused("head=lambda out: out.0., out.'logits'", model)
    assert route(model, DATA, head=lambda out: out["mean"]).chosen
    head = lambda out: torch.stack([out["mean"], out["variance"]])  # noqa: E731
    assert route(model, DATA, head=head, loss=likelihood).chosen


def test_a_loss_takes_the_one_tensor_that_the_model_gives():
    """As logits and a cache."""

    class Cached(Attention):
        def forward(self, x):
            return super().forward(x), "a cache"

    wanted = parts(Attention())
    for loss in (
        None,
        nn.MSELoss(),
        functional.mse_loss,
        lambda p, y: functional.mse_loss(p, y),
    ):
        assert torch.equal(parts(Cached(), loss=loss), wanted)


def test_as_many_classes_as_steps_are_said():
    """PyTorch's losses take classes second, whatever they are; a function of one's own says it."""
    model, data = Attention(LENGTH, LENGTH), tokens(LENGTH)
    refused(r"which axis has the classes.*p\.mT", model, data, loss=nn.CrossEntropyLoss())
    wanted = parts(model, data, loss=lambda p, y: functional.cross_entropy(p.mT, y))
    found = parts(Second(LENGTH, LENGTH), data, loss=lambda p, y: functional.cross_entropy(p, y))
    torch.testing.assert_close(found, wanted)


def test_losses_that_take_parameters_draw_keep_a_state_or_compare_are_refused():
    model = Attention()

    def decayed(p, y):
        return functional.mse_loss(p, y) + 0.01 * model.head.weight.square().sum()

    refused("leave a weight decay out", model, loss=decayed)
    refused("Does it draw", model, loss=lambda p, y: ((p - y) * torch.rand_like(y)).square().sum())
    for loss in (
        lambda p, y: functional.mse_loss(p[1:] - p[:-1], y[1:] - y[:-1]),
        lambda p, y: functional.mse_loss(p - p.mean(0), y),
    ):
        refused("compare sequences", model, loss=loss)


def test_complex_parameters_are_read():
    class Diagonal(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.inward = nn.Parameter(torch.randn(4, dtype=torch.cdouble))
            self.decay = nn.Parameter(torch.rand(4, dtype=torch.double) - 1)
            self.head = nn.Linear(8, 1).double()
            self.eval()

        def forward(self, x):
            kept = torch.exp(torch.complex(-self.decay.exp(), torch.ones_like(self.decay)))
            state, shown = 0, []
            for step in x.unbind(1):
                state = kept * state + step * self.inward
                shown.append(torch.cat([state.real, state.imag], -1))
            return self.head(torch.stack(shown, 1))

    found = parts(Diagonal())
    assert found[1].abs().max() > found[7].abs().max() > 0


def test_a_function_of_ones_own_with_parameters_in_it_is_refused():
    class Square(Attention):
        def __init__(self):
            super().__init__(4)
            self.head = nn.Identity()
            self.more = nn.Parameter(torch.ones(4, 1, dtype=torch.double))
            self.eval()

        def forward(self, x):
            return torch.vmap(lambda one: one @ self.more)(super().forward(x))

    refused("torch.vmap", Square())
