"""What surrounds a call, as modes and random states, changes no number, and is not changed."""

import copy
import random
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils.data import BatchSampler, DataLoader, TensorDataset

import lwcore
from lwcore import ambient, gradient, network, results, transport
from lwcore.detection import kl_divergence
from lwcore.diagnose import diagnose
from lwcore.experiment import running
from lwcore.network import Network, train
from lwcore.stable.law import log_ratio
from lwcore.tasks import DelayedRegression, sample
from tests.diagnosed import Attends, Recurrent, last
from tests.networks import FAMILIES, draw

PACKAGE = Path(lwcore.__file__).parent


def seeded():
    return torch.Generator().manual_seed(0)


MODELS = {
    "GRU": lambda: Recurrent(after=last),
    "LSTM": lambda: Recurrent(kind="LSTM", after=last),
    "attention": lambda: Attends(after=last),
}


def data(count=48, length=6):
    inputs = draw(count, length, 2).float()
    return inputs, inputs[:, -3, :1]


def calls():
    """Calls that compute with tensors, by name; what each gives is one tensor."""
    inputs, found = draw(3, 7, 2).float(), {}
    sequences = sample(DelayedRegression(7, [2], [1.0], 0.1, [1, 0]), 8, np.random.default_rng(0))
    for kind in ("DiagGate", "GRU", "LSTM"):
        cell = FAMILIES[kind](2, 4, layernorm=kind == "DiagGate", generator=seeded())
        net, trace, seen = Network(cell, seeded()), cell.trace(inputs), torch.ones(3, 7, 4)
        w = gradient.random_direction(cell, seeded())
        found |= {
            f"{kind} forward": lambda cell=cell: cell(inputs),
            f"{kind} trace": lambda cell=cell: cell.trace(inputs).history,
            f"{kind} rates": lambda t=trace: transport.effective_rates(t, [1, 3]),
            f"{kind} autodiff": lambda t=trace: t.jacobian(3, closed=False).dense(),
            f"{kind} lags": lambda t=trace, d=seen: gradient.lag_vectors(t, d, [0, 2]),
            f"{kind} whole": lambda t=trace, d=seen, w=w: gradient.projected_gradient(t, d, w),
            f"{kind} loss": lambda net=net: net.loss(*sequences),
            f"{kind} fit": lambda net=net: trained(net, sequences),
        }
    for kind, model in MODELS.items():
        whole = model()
        found[f"diagnose {kind}"] = lambda net=whole: torch.as_tensor(
            diagnose(net, data(), [1, 2], progress=False).data.statistic.values
        )
    return found


def trained(net, sequences):
    with torch.inference_mode(False):
        net = copy.deepcopy(net)
    return torch.tensor(train(net, sequences, steps=2, batch_size=4, seed=0, optimizer="sgd"))


MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
}


def states():
    numpy = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().tolist(), numpy[1].tolist(), numpy[2], random.getstate()


@pytest.fixture(scope="module")
def plain():
    """Every call, and what it gives in no mode; none draws from anybody's generator."""
    made = {}
    at_first = states()
    named_calls = calls()
    assert states() == at_first  # of making cells, networks and data
    for name, call in named_calls.items():
        before = states()
        with torch.inference_mode(False):
            made[name] = call, call().detach().clone()
        assert states() == before, name
    return made


@pytest.mark.parametrize("mode", MODES)
def test_modes_of_the_caller_change_no_number(mode, plain):
    for name, (call, wanted) in plain.items():
        with MODES[mode]():
            found = call().detach()
        assert found.dtype == wanted.dtype, name
        assert torch.equal(found, wanted), name


class Shuffled:
    """A sampler that is none of PyTorch's."""

    def __init__(self, generator):
        self.generator = generator

    def __iter__(self):
        return iter(torch.randperm(48, generator=self.generator).tolist())


@pytest.mark.parametrize(("kind", "own"), [("LSTM", False), ("attention", True)])
def test_a_diagnosis_between_epochs_changes_no_training(kind, own):
    """A loader shuffles by PyTorch's generator, or its own; the model and its loss may draw, too."""

    def losses(diagnoses):
        random.seed(3), np.random.seed(3), torch.manual_seed(3)  # noqa: NPY002
        net = MODELS[kind]().train()
        of_order, of_loader = (seeded(), seeded()) if own else (None, None)
        batches = BatchSampler(Shuffled(of_order), 12, drop_last=False)
        loader = DataLoader(TensorDataset(*data()), batch_sampler=batches, generator=of_loader)
        descent, found = torch.optim.SGD(net.parameters(), 0.1), []
        for _ in range(2):
            for x, y in loader:
                noisy = x + 0.1 * torch.randn_like(x) + np.random.rand() + random.random()  # noqa: NPY002
                loss = nn.functional.mse_loss(net(noisy), y)
                descent.zero_grad()
                loss.backward()
                descent.step()
                found.append(loss.item())
            if diagnoses:
                diagnose(net.eval(), loader, [1, 2], progress=False)
                net.train()
        return found

    assert losses(True) == losses(False)


def test_random_states_are_put_back_when_a_diagnosis_fails():
    before = states()

    def loss(*_):
        torch.rand(1), np.random.rand(), random.random()  # noqa: NPY002
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        diagnose(MODELS["GRU"](), data(), loss=loss, progress=False)
    assert states() == before


def test_every_warning_points_at_the_line_that_called(tmp_path):
    inputs, targets = data()
    repeated = torch.cat([inputs, inputs]), torch.cat([targets, targets])
    damaged = tmp_path / "damaged.nc"
    damaged.write_bytes(b"nothing")

    for call in (
        lambda: diagnose(MODELS["GRU"](), repeated, [1], progress=False),
        lambda: running._load_if_present(damaged, results.load),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert {one.filename for one in caught} == {__file__}


def test_what_is_kept_for_later_calls_cannot_be_changed():
    before = float(kl_divergence(0.3, 1.5))
    for array in log_ratio(1.5, 0.15):
        with pytest.raises(ValueError, match="read-only"):
            array *= 2
    assert float(kl_divergence(0.3, 1.5)) == before
    order = network._batch_indices(0, 0, 8, 4)
    with pytest.raises(ValueError, match="read-only"):
        order[0] = 3


def test_numbers_leave_a_device_without_float64_before_they_are_widened(monkeypatch):
    with FakeTensorMode():
        widened = ambient.in_double(torch.empty(3, device="mps"))
        assert (widened.dtype, widened.device.type) == (torch.float64, "cpu")
    monkeypatch.setattr(ambient, "_WITHOUT_DOUBLES", ("meta",))
    moved = ambient.placed(torch.empty(3, dtype=torch.float64), torch.device("meta"))
    assert (moved.dtype, moved.device.type) == (torch.float32, "meta")
