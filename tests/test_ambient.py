"""What surrounds a call: modes, random states, warnings, the interpreter and the machine. None of it
changes a number, and nothing of it is changed."""

import ast
import copy
import os
import random
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils.data import DataLoader, TensorDataset

import lwcore
from lwcore import ambient, cells, gradient, network, results, transport
from lwcore.detection import kl_divergence
from lwcore.diagnose import diagnose
from lwcore.experiment import running
from lwcore.network import Network, train
from lwcore.stable.law import log_ratio
from lwcore.tasks import DelayedRegression, sample
from tests.networks import FAMILIES, draw

PACKAGE = Path(lwcore.__file__).parent


def seeded():
    return torch.Generator().manual_seed(0)


class Net(nn.Module):
    """A regression by one recurrence, by attention, or by a loop over a cell."""

    def __init__(self, kind="GRU"):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.kind, self.fc = kind, nn.Linear(4, 1)
            if kind == "attention":
                self.q, self.k, self.v = (nn.Linear(1, 4) for _ in range(3))
            elif kind == "loop":
                self.step = nn.GRUCell(1, 4)
            else:
                self.rnn = getattr(nn, kind)(1, 4, batch_first=True)
        self.eval()

    def forward(self, x):
        if self.kind == "attention":
            three = self.q(x), self.k(x), self.v(x)
            read = nn.functional.scaled_dot_product_attention(*three, is_causal=True)[:, -1]
        elif self.kind == "loop":
            read = x.new_zeros(len(x), 4)
            for part in x.unbind(1):
                read = self.step(part, read)
        else:
            read = self.rnn(x)[0][:, -1]
        return self.fc(read)


def data(count=48, length=6):
    inputs = draw(count, length, 1).float()
    return inputs, inputs[:, -3]


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
    for kind in ("GRU", "attention", "loop"):
        whole = Net(kind)
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
    for name, call in calls().items():
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


def test_a_cell_takes_what_a_layer_before_it_gives_in_autocast():
    layer, cell = nn.Linear(2, 2), cells.GRU(2, 4, generator=seeded())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        between = layer(draw(3, 7, 2).float())
        outputs = cell(between)
    assert (between.dtype, outputs.dtype) == (torch.bfloat16, torch.float32)
    outputs.sum().backward()
    assert layer.weight.grad.isfinite().all()


def test_networks_and_data_of_inference_mode():
    """Data are copied; parameters, which nothing can learn, are refused by name."""
    with torch.inference_mode():
        inputs, targets = data()
        model = Net()
    found = diagnose(Net(), (inputs, targets), [1, 2], progress=False)
    wanted = diagnose(Net(), data(), [1, 2], progress=False)
    assert found.data.statistic.equals(wanted.data.statistic)
    with pytest.raises(ValueError, match=r"^parameters of model.* outside of torch.inf"):
        diagnose(model, (inputs, targets), progress=False)


DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial"}
HARMLESS = {"default_rng", "SeedSequence", "get_state", "set_state"}
DRAWS |= {"normal_", "uniform_", "random_", "orthogonal_", "rand_like", "randn_like"}


def test_every_draw_of_the_package_has_a_generator():
    """In its code, whether a test comes by or not."""
    seen = 0
    for path in PACKAGE.rglob("*.py"):
        code = path.read_text(encoding="utf-8")
        # where states are kept, not drawn from
        keeps = path.name in ("ambient.py", "results.py")
        assert keeps or not re.search(r"^import random$", code, re.MULTILINE)
        for node in ast.walk(ast.parse(code)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            called, name = ast.unparse(node.func), node.func.attr
            if name in DRAWS and (called.startswith(("torch.", "nn.")) or name.endswith("_")):
                seen += 1
                assert "generator" in {one.arg for one in node.keywords}, (path, called)
            of_numpy = re.fullmatch(r"np\.random\.(\w+)", called)
            assert not of_numpy or of_numpy[1] in HARMLESS, (path, called)
    assert seen >= 8


@pytest.mark.parametrize(("kind", "own"), [("LSTM", False), ("attention", True)])
def test_a_diagnosis_between_epochs_changes_no_training(kind, own):
    """A loader shuffles by PyTorch's generator, or its own; the model and its loss may draw, too."""

    def losses(diagnoses):
        random.seed(3), np.random.seed(3), torch.manual_seed(3)  # noqa: NPY002
        net, generator = Net(kind).train(), torch.Generator().manual_seed(5) if own else None
        loader = DataLoader(TensorDataset(*data()), 12, shuffle=True, generator=generator)
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
        diagnose(Net(), data(), loss=loss, progress=False)
    assert states() == before


def test_every_warning_points_at_the_line_that_called(tmp_path):
    inputs, targets = data()
    repeated = torch.cat([inputs, inputs]), torch.cat([targets, targets])
    damaged = tmp_path / "damaged.nc"
    damaged.write_bytes(b"nothing")

    for call in (
        lambda: diagnose(Net(), repeated, [1], progress=False),
        lambda: running._load_if_present(damaged, results.load),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert {one.filename for one in caught} == {__file__}


def python(program, *flags, **variables):
    """What a program prints in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", program],
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_first_uses_neither_warn_nor_draw():
    """PyTorch compiles its rules of forward mode by what it has deprecated; Rich draws when it is
    imported, and a run shows a bar."""
    program = """
import random, warnings, torch
from lwcore import cells, gradient, results
warnings.simplefilter("error")
cell = cells.GRU(2, 4, generator=torch.Generator())
trace = cell.trace(torch.zeros(3, 5, 2))
before = random.getstate(), torch.get_rng_state()
direction = gradient.random_direction(cell, torch.Generator())
print(gradient.immediate_sensitivity(trace, direction).shape[1])
with results.bar("t", 1, show=False) as advance:
    advance(1)
print(random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1]))
"""
    assert python(program) == ["5", "True"]


KEPT_NOWHERE = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []
from lwcore.cells import kernels

@kernels._kept_on_disk
def twice(value):
    return 2 * value

print(kernels.ENABLED, kernels.steps_forward.stats.cache_path, twice(21))
"""


@pytest.mark.slow
def test_what_is_compiled_works_where_nothing_of_it_can_be_kept():
    """As in a container: an installation that nobody can write, and no home. The kernels are made
    so; a small function runs, as theirs takes ten seconds to compile."""
    assert python(KEPT_NOWHERE) == ["True", "None", "42"]


CELL = """
import torch
from lwcore import cells
from lwcore.cells import kernels
cell = cells.LSTM(2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
inputs = torch.linspace(-1, 1, 42, dtype=torch.float64).reshape(3, 7, 2)
print(kernels.ENABLED, torch.allclose(cell(inputs), cell.unrolled(inputs), rtol=1e-12))
"""


@pytest.mark.parametrize(("asked", "compiled"), [({}, "False"), ({"LWCORE_COMPILED": "1"}, "True")])
def test_cells_work_where_numba_may_not_compile(asked, compiled):
    assert python(CELL, NUMBA_DISABLE_JIT="1", **asked) == [compiled, "True"]


def test_what_may_fail_is_asked_for_before_the_work(monkeypatch):
    """The environment; and numbers of NumPy's, which JSON does not know."""
    seen = []
    monkeypatch.setattr(results, "environment", lambda: seen.append(1) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        diagnose(Net(), iter([]), progress=False)
    monkeypatch.undo()
    how = {"seed": np.int64(1), "n_sequences": np.int32(77), "sequences": np.int64(44)}
    found = diagnose(Net(), data(), [1, 2], progress=False, **how)
    assert (found.data.attrs["seed"], found.data.attrs["n_sequences"]) == (1, 77)


def test_what_is_kept_for_later_calls_cannot_be_changed():
    before = float(kl_divergence(0.3, 1.5))
    for array in log_ratio(1.5, 0.15):
        with pytest.raises(ValueError, match="read-only"):
            array *= 2
    assert float(kl_divergence(0.3, 1.5)) == before
    order = network.batch_indices(0, 0, 8, 4)
    with pytest.raises(ValueError, match="read-only"):
        order[0] = 3


class NoDoubles(torch.utils._python_dispatch.TorchDispatchMode):
    """A device, beside the CPU, without float64."""

    def __torch_dispatch__(self, function, _, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for one in torch.utils._pytree.tree_leaves(made):
            if isinstance(one, torch.Tensor) and one.device.type == "mps":
                assert one.dtype != torch.float64
        return made


def test_numbers_leave_a_device_without_float64_before_they_are_widened(monkeypatch):
    with FakeTensorMode(), NoDoubles():
        far = torch.empty(3, device="mps")
        widened = ambient.in_double(far)
        assert (widened.dtype, widened.device.type) == (torch.float64, "cpu")
        with pytest.raises(AssertionError):
            far.double()
    monkeypatch.setattr(ambient, "_WITHOUT_DOUBLES", ("meta",))
    moved = ambient.placed(torch.empty(3, dtype=torch.float64), torch.device("meta"))
    assert (moved.dtype, moved.device.type) == (torch.float32, "meta")


def test_no_line_of_the_package_widens_before_it_moves():
    code = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    assert ".double().cpu(" not in code
    assert code.count(".read_text(") == code.count(".read_text(encoding=")
