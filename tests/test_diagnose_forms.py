"""Models and losses in forms that readers give them: right, as a twin has it, or refused by name.

A twin computes the same in another way, which diagnoses took from the beginning."""

from __future__ import annotations

import itertools
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from lwcore.diagnose import diagnose
from lwcore.signatures import ArgumentError
from tests.networks import draw

LAGS, LENGTH, COUNT = [1, 2, 3, 4], 8, 60
TOKENS = 7


def attended(layers, h):
    """Pass values through one head of causal attention."""
    given = layers.query(h), layers.key(h), layers.value(h)
    return h + functional.scaled_dot_product_attention(*given, is_causal=True)


class Attention(nn.Module):
    """One block of causal attention, of numbers or of tokens."""

    def __init__(self, width=1, outputs=1, tokens=0, hidden=8):
        super().__init__()
        torch.manual_seed(0)
        self.read = nn.Embedding(tokens, hidden) if tokens else nn.Linear(width, hidden)
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.places = nn.Parameter(0.3 * torch.randn(LENGTH, hidden))
        self.head = nn.Linear(hidden, outputs)

    def seen(self, x):
        return attended(self, self.read(x) + self.places)

    def forward(self, x):
        return self.head(self.seen(x))


class Loop(nn.Module):
    """A recurrent cell in a loop."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.head = nn.GRUCell(1, 6), nn.Linear(6, 1)

    def forward(self, x):
        h, outputs = x.new_zeros(len(x), 6), []
        for step in x.unbind(1):
            h = self.cell(step, h)
            outputs.append(self.head(h))
        return torch.stack(outputs, 1)


def planted(lag=2):
    inputs = draw(COUNT, LENGTH, 1).float()
    targets = inputs.roll(lag, 1)
    targets[:, :lag] = 0
    return inputs, targets


def tokens(lag=2):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(TOKENS, (COUNT, LENGTH), generator=generator)
    return inputs, inputs.roll(lag, 1)


def diagnosed(model, batches=None, **options):
    how = {"lags": LAGS, "progress": False, "source": "error"} | options
    return diagnose(model.eval(), planted() if batches is None else batches, **how)


def numbers(model, batches=None, **options):
    """Each sequence's part of each lag, and its whole gradient."""
    data = diagnosed(model, batches, **options).data
    assert data.statistic.any()
    return np.stack([data.statistic, data.projection])


def alike(found, wanted, tolerance=1e-4):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * abs(wanted).max())


def refused(message, model, batches=None, **options):
    with pytest.raises(ArgumentError, match=message):
        diagnosed(model, batches, **options)


def swapped(*tensors):
    return [part.transpose(0, 1).contiguous() for part in tensors]


class Words(nn.Module):
    """A language model, time first."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.read, self.rnn, self.head = nn.Embedding(TOKENS, 8), nn.GRU(8, 8), nn.Linear(8, TOKENS)

    def forward(self, x):
        return self.head(self.rnn(self.read(x))[0])


def test_outputs_with_time_first_may_be_viewed():
    class Twin(Words):
        def forward(self, x):
            return super().forward(x.mT)

    def viewed(p, y):
        return functional.cross_entropy(p.view(-1, TOKENS), y.view(-1))

    def reshaped(p, y):
        return functional.cross_entropy(p.reshape(-1, TOKENS), y.mT.reshape(-1))

    found = numbers(Words(), swapped(*tokens()), batch_first=False, loss=viewed)
    alike(found, numbers(Twin(), tokens(), loss=reshaped))


def test_inputs_with_time_first_may_be_viewed():
    class Viewing(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.read, self.rnn, self.head = nn.Linear(1, 8), nn.LSTM(8, 8), nn.Linear(8, 1)

        def forward(self, x):
            length, count, width = x.shape
            h = self.read(x.view(length * count, width)).view(length, count, 8)
            return self.head(self.rnn(h)[0].view(length * count, 8)).view(length, count, 1)

    class Twin(Viewing):
        def forward(self, x):
            return super().forward(x.transpose(0, 1).contiguous()).transpose(0, 1)

    found = numbers(Viewing(), swapped(*planted()), batch_first=False)
    alike(found, numbers(Twin(), planted()))


def test_inputs_with_channels_first_may_be_viewed():
    class Filters(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second = nn.Conv1d(1, 4, 3), nn.Conv1d(8, 1, 3)

        def forward(self, x):
            count, channels, length = x.shape
            each = functional.pad(x.view(count * channels, 1, length), (2, 0))
            h = self.first(each).relu().view(count, channels * 4, length)
            return self.second(functional.pad(h, (2, 0))).squeeze(1)

    class Twin(Filters):
        def forward(self, x):
            return super().forward(x.mT.contiguous())

    inputs, targets = draw(COUNT, LENGTH, 2).float(), planted()[1][..., 0]
    found = numbers(Filters(), (inputs.mT.contiguous(), targets), time_axis=2)
    alike(found, numbers(Twin(), (inputs, targets)))


def test_losses_may_write_to_predictions():
    def writing(p, y):
        p *= y != 0
        return ((p - y) ** 2).mean()

    def twin(p, y):
        return ((p * (y != 0) - y) ** 2).mean()

    alike(numbers(Attention(), loss=writing), numbers(Attention(), loss=twin))


def test_losses_may_write_to_targets_which_stay_as_they_are():
    def writing(p, y):
        y[y < 0] = 0
        y -= 0.1
        return ((p - y) ** 2).mean()

    def twin(p, y):
        return ((p - y.clamp(min=0) + 0.1) ** 2).mean()

    inputs, targets = planted()
    before = targets.clone()
    alike(numbers(Attention(), (inputs, targets), loss=writing), numbers(Attention(), loss=twin))
    torch.testing.assert_close(targets, before, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")  # PyTorch's, of `nn.KLDivLoss()`
def test_the_divergence_as_a_mean_is_that_of_its_formula():
    class LogShares(Attention):
        def forward(self, x):
            return super().forward(x).log_softmax(-1)

    def formula(p, y):
        return (y * (y.log() - p)).mean()

    inputs, targets = planted()
    shares = torch.cat([targets, -targets], -1).softmax(-1)
    found = numbers(LogShares(outputs=2), (inputs, shares), loss=nn.KLDivLoss())
    alike(found, numbers(LogShares(outputs=2), (inputs, shares), loss=formula))


@pytest.mark.parametrize("loss", [nn.BCEWithLogitsLoss(), nn.HuberLoss()])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64])
def test_targets_that_are_no_real_numbers_are_to_be_made_real(loss, dtype):
    """Huber's loss fails only where its gradient is taken."""
    inputs, targets = planted()
    classes = (targets > 0).to(dtype)
    message = rf"Targets are {dtype}, and must be real: y.float\(\)"
    refused(message, Attention(), (inputs, classes), loss=loss)
    numbers(Attention(), (inputs, classes.float()), loss=loss)


def test_predictions_that_lose_the_axis_of_one_sequence_are_refused():
    class Squeezed(Attention):
        axis = None

        def forward(self, x):
            p = super().forward(x)
            return p.squeeze() if self.axis is None else p.squeeze(self.axis)

    inputs, targets = planted()
    batches = inputs, targets[..., 0]
    model = Squeezed()
    refused(r"predictions = '\(8,\) for 1'.*\(7, 8\).*name the axis, squeeze\(-1\)", model, batches)
    model.axis = -1
    alike(numbers(model, batches), numbers(Attention(), loss=nn.MSELoss()))


def test_steps_with_whole_numbers_in_their_state_are_refused():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(1, 6)

        def forward(self, x, state):
            return self.cell(x, state[0]), state[1] + 1

    class Model(Loop):
        def __init__(self):
            super().__init__()
            self.cell = Counting()

        def forward(self, x):
            count = torch.zeros(len(x), 1, dtype=torch.int64)
            state, outputs = (x.new_zeros(len(x), 6), count), []
            for step in x.unbind(1):
                state = self.cell(step, state)
                outputs.append(self.head(state[0]))
            return torch.stack(outputs, 1)

    model = Model()
    refused("step = 'Counting'.*of real numbers.*`parameters`", model, step=model.cell)
    numbers(model, parameters=["cell", "head"])


def test_conditions_of_pytorch_are_refused():
    class Conditional(Loop):
        def forward(self, x):
            outputs = super().forward(x)
            is_long = torch.tensor(x.shape[1] > 4)
            return torch.cond(is_long, lambda h: h * 2, lambda h: h, (outputs,))

    refused(r"model = 'cond\(\)'.*conditions of Python", Conditional())


class CachedAtFirst(Attention):
    """A model that makes a kernel in its first pass, and holds it."""

    kernel = None

    def seen(self, x):
        if self.kernel is None:
            self.kernel = functional.softplus(self.places)
        return attended(self, self.read(x) + self.kernel)


class MadeBefore(Attention):
    """A model that makes a kernel of a parameter as it is made."""

    def __init__(self):
        super().__init__()
        self.kernel = functional.softplus(self.places)

    def seen(self, x):
        return attended(self, self.read(x) + self.kernel)


@pytest.mark.parametrize("kind", [CachedAtFirst, MadeBefore])
def test_models_that_hold_what_they_made_of_parameters_are_refused(kind):
    refused(f"model = '{kind.__name__}, which holds kernel'.*None as each pass begins", kind())

    class AsTold(CachedAtFirst):
        def seen(self, x):
            self.kernel = None
            return super().seen(x)

    class Twin(Attention):
        def seen(self, x):
            return attended(self, self.read(x) + functional.softplus(self.places))

    alike(numbers(AsTold()), numbers(Twin()))


class Tokened(Attention):
    """A model that writes a learned token where there is no input, or at the first step."""

    def __init__(self, where):
        super().__init__()
        self.where, self.token = where, nn.Parameter(torch.randn(8))

    def seen(self, x):
        h = self.read(x) + self.places
        if self.where == "mask":
            h[x[..., 0] == 0] = self.token
        else:
            h[:, 0] = self.token
        return attended(self, h)


@pytest.mark.parametrize("where", ["mask", "first"])
def test_parameters_written_into_values_are_refused(where):
    inputs, targets = planted()
    inputs[::3, 4] = 0
    message = r"model = '__setitem__\(\) of a parameter'.*torch.where or torch.cat"
    refused(message, Tokened(where), (inputs, targets))

    class AsTold(Tokened):
        def seen(self, x):
            h = self.read(x) + self.places
            is_token = x == 0 if self.where == "mask" else torch.arange(LENGTH)[:, None] == 0
            return attended(self, torch.where(is_token, self.token, h))

    numbers(AsTold(where), (inputs, targets))


class Experts(Attention):
    """A model whose steps are sent to one of two layers, by index or by a choice of values."""

    def __init__(self, by_index):
        super().__init__()
        self.by_index = by_index
        self.experts = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])

    def forward(self, x):
        h = self.seen(x)
        sent = torch.zeros_like(h)
        for place, expert in enumerate(self.experts):
            chosen = (x[..., 0] > 0) == bool(place)
            if self.by_index:
                sent[chosen] = expert(h[chosen])
            else:
                sent = torch.where(chosen[..., None], expert(h), sent)
        return self.head(h + sent)


@pytest.mark.parametrize("seed", range(4))
def test_steps_that_are_sent_to_layers_by_index_are_refused_whatever_the_data(seed):
    """In some trials as many steps of each sequence are sent, as if they were those of each."""
    inputs = draw(COUNT, LENGTH, 1, seed=seed).float()
    refused("to layers by index|more rows of some data", Experts(True), (inputs, inputs))
    numbers(Experts(False), (inputs, inputs))


class CopiesSome(Loop):
    """A loop whose outputs are shown at some steps alone, copied by index or chosen."""

    def __init__(self, by_index):
        super().__init__()
        self.by_index = by_index

    def forward(self, x):
        made = super().forward(x)
        chosen = x > 0
        if not self.by_index:
            return torch.where(chosen, made, torch.zeros_like(made))
        shown = torch.zeros_like(made)
        shown[chosen] = made[chosen]
        return shown


def test_values_that_are_copied_by_index_are_those_of_a_choice():
    alike(numbers(CopiesSome(True)), numbers(CopiesSome(False)))


@pytest.mark.filterwarnings("ignore")  # PyTorch's, of its own quantisation
def test_quantised_models_are_refused():
    quantised = torch.ao.quantization.quantize_dynamic(Attention().eval(), {nn.Linear})
    refused("model = 'Linear.*as it was before it was quantised", quantised)


def test_losses_with_a_value_and_no_gradient_are_refused():
    """By the sequence: where predictions are exactly the targets, as at a first step of zeros."""

    class Masked(Attention):
        def forward(self, x):
            return super().forward(x) * (torch.arange(LENGTH) > 0)[:, None]

    inputs, targets = planted()
    targets[:7, 0] = 1.0
    message = r"loss \(rooted\) = 'with a gradient that is NaN or infinite, for sequence \[7\]'"

    def rooted(p, y):
        return (p - y).square().sqrt().mean()

    refused(f"{message}.*root or a norm of 0", Masked(), (inputs, targets), loss=rooted)
    numbers(Masked(), (inputs, targets), loss=nn.L1Loss())


def test_what_is_written_to_and_needed_for_gradients_is_refused():
    class Writing(Attention):
        def seen(self, x):
            h = super().seen(x)
            gates = self.query(h).sigmoid().mul_(self.key(h))
            return functional.relu(gates, inplace=True).add_(h)

    refused("model .Writing. fails where its gradient is taken.*inplace operation", Writing())


def test_tokens_beyond_the_embedding_are_refused():
    inputs, targets = tokens()
    inputs[5, 5] = 9
    model = Attention(tokens=TOKENS, outputs=TOKENS)
    refused(
        "Tokens of the data are 0 to 9: has each a row of the embedding", model, (inputs, targets)
    )


def test_sparse_parameters_are_refused():
    class Sparse(Attention):
        def __init__(self):
            super().__init__()
            weights = 0.5 * torch.eye(8) + torch.eye(8).roll(1, 0)
            self.graph = nn.Parameter(weights.to_sparse())

        def forward(self, x):
            h = self.seen(x).flatten(0, 1)
            return self.head(torch.sparse.mm(self.graph, h.t()).t()).unflatten(0, (len(x), -1))

    refused("parameters = .*of graph.*without it", Sparse())
    names = [name for name, _ in Attention().named_parameters()]
    numbers(Sparse(), parameters=names)


def training(forward, model, x):
    """Take a step's gradient in each pass, as in training at test time."""
    with torch.enable_grad():
        forward(model, x).square().mean().backward()
    return forward(model, x)


def clearing(forward, model, x):
    model.zero_grad()
    return forward(model, x)


@pytest.mark.parametrize(("pass_", "held"), [(training, None), (training, 1.0), (clearing, 1.0)])
def test_gradients_that_a_model_takes_or_clears_are_put_back(pass_, held):
    class Model(Attention):
        def forward(self, x):
            return pass_(Attention.forward, self, x)

    model = Model()
    for parameter in model.parameters():
        parameter.grad = None if held is None else torch.full_like(parameter, held)
    before = [parameter.grad for parameter in model.parameters()]
    alike(numbers(model), numbers(Attention()))
    for parameter, own in zip(model.parameters(), before, strict=True):
        assert parameter.grad is own
        assert own is None or bool((own == held).all())


@pytest.mark.parametrize("held", [None, 1.0])
def test_gradients_that_a_loss_takes_are_put_back(held):
    def loss(p, y):
        value = functional.mse_loss(p, y)
        if value.requires_grad:
            value.backward(retain_graph=True)
        return value

    model = Attention()
    for parameter in model.parameters():
        parameter.grad = None if held is None else torch.full_like(parameter, held)
    alike(numbers(model, loss=loss), numbers(Attention(), loss=nn.MSELoss()))
    for parameter in model.parameters():
        own = parameter.grad
        assert own is None if held is None else bool((own == held).all())


class Slotted:
    """A count, and a list in slots of a base, without a dictionary."""

    __slots__ = ("count", "log")

    def __init__(self):
        self.count, self.log = 0, [1]


class Derived(Slotted):
    __slots__: ClassVar = ("last",)


@pytest.mark.parametrize("kind", [Slotted, Derived])
def test_attributes_in_slots_are_put_back(kind):
    class Noting(Attention):
        def __init__(self):
            super().__init__()
            self.notes = kind()

        def forward(self, x):
            self.notes.count += 1
            self.notes.log.append(len(x))
            return super().forward(x)

    model = Noting()
    alike(numbers(model), numbers(Attention()))
    assert (model.notes.count, model.notes.log) == (0, [1])


GLOBAL = itertools.count(5)


@pytest.mark.parametrize("place", ["attribute", "dictionary", "closure", "global", "class"])
def test_counters_go_on_from_where_they_were(place):
    own = itertools.count(5, 2)

    class Counting(Attention):
        of_class: ClassVar = itertools.count(5)

        def __init__(self):
            super().__init__()
            self.counter, self.counters = itertools.count(5), {"calls": itertools.count(5)}

        def next(self):
            if place == "attribute":
                return next(self.counter)
            if place == "dictionary":
                return next(self.counters["calls"])
            if place == "closure":
                return next(own)
            return next(GLOBAL) if place == "global" else next(self.of_class)

        def forward(self, x):
            self.next()
            return super().forward(x)

    model = Counting()
    held = model.counter
    diagnosed(model)
    assert model.counter is held
    assert repr(own) == "count(5, 2)"
    for counter in (held, model.counters["calls"], GLOBAL, model.of_class):
        assert repr(counter) == "count(5)"


SETTINGS = {
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "type": (torch.get_default_dtype, torch.set_default_dtype),
    "deterministic": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
}


@pytest.mark.parametrize(
    ("setting", "others"),
    [
        ("threads", (1, 2)),
        ("type", (torch.float32, torch.float64)),
        ("deterministic", (False, True)),
    ],
)
def test_settings_that_a_model_changes_are_put_back(setting, others):
    read, write = SETTINGS[setting]
    before = read()
    other = next(one for one in others if one != before)

    class Setting(Attention):
        def forward(self, x):
            write(other)
            return super().forward(x)

    try:
        diagnosed(Setting())
        assert read() == before
    finally:
        write(before)


def test_a_head_of_one_number_under_autocast_has_the_times_of_others():
    """What it gives moves by less than bfloat16 tells from its size."""

    class Coarse(Attention):
        @torch.autocast("cpu", torch.bfloat16)
        def forward(self, x):
            return super().forward(x).float()

    alike(numbers(Coarse()), numbers(Attention()), tolerance=0.03)


def test_models_that_leave_gradients_off_are_refused():
    class Leaving(Attention):
        def forward(self, x):
            predictions = super().forward(x)
            torch.set_grad_enabled(False)
            return predictions

    refused("leaves torch.set_grad_enabled.False. behind.*with torch.no_grad", Leaving())
    assert torch.is_grad_enabled()


def test_flags_are_read_as_the_numbers_that_a_model_takes_for_them():
    """With targets that are flags, and a loss that takes them, too."""
    flags = draw(COUNT, LENGTH, 1) > 0
    targets = flags.roll(2, 1)
    loss = nn.SmoothL1Loss()
    said = {"loss": loss, "progress": False, "source": "target"}
    by_flags = diagnose(Attention().eval(), (flags, targets), LAGS, **said)
    by_numbers = diagnose(Attention().eval(), (flags.float(), targets.float()), LAGS, **said)
    np.testing.assert_array_equal(by_flags.data.required, by_numbers.data.required)
