"""The whole diagnosis: planted lags and nothing; what is read off its numbers; interrupts; files
and the command."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
import torch
from bs4 import BeautifulSoup
from safetensors.torch import save_file
from scipy import stats
from torch import nn
from typer.testing import CliRunner

from lwcore import adapter
from lwcore.cli import app
from lwcore.config import Config
from lwcore.diagnose import Diagnosis, diagnose, ratio_bands
from lwcore.inference import sequences_needed
from lwcore.measure import observe
from lwcore.network import Network
from lwcore.tasks import Sequences
from tests.networks import draw, make


class Net(nn.Module):
    """A small classifier or regressor."""

    def __init__(self, kind="LSTM", outputs=2, hidden=8, layers=1):
        super().__init__()
        torch.manual_seed(0)
        self.rnn = getattr(nn, kind)(1, hidden, layers, batch_first=True)
        self.fc = nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1])


def planted(count=400, length=16, lag=3, seed=5):
    """Inputs, and a target that is the input of one lag before the end."""
    inputs = draw(count, length, 1, seed=seed).float()
    return inputs, inputs[:, -1 - lag]


def lw(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def found():
    return diagnose(Net(outputs=1), planted(), range(1, 13), progress=False)


@pytest.mark.parametrize(
    ("kind", "layers"), [("LSTM", 1), ("GRU", 1), ("RNN", 1), ("LSTM", 2), ("GRU", 2)]
)
def test_the_window_ends_at_a_planted_lag(kind, layers):
    """An untrained network, the input of lag 3 all that the target holds: from as many sequences as
    that lag needs, and five times."""
    found = diagnose(
        Net(kind, 1, layers=layers), planted(), range(1, 9), source="target", progress=False
    )
    enough = int(np.ceil(found.data.required.sel(lag=3)))
    assert [found.window(n).steps for n in (enough, 5 * enough)] == [3, 3]
    assert found.window(enough).low <= 3 <= found.window(enough).high
    assert found.window(1).steps <= found.window(10**6).steps


def last(predictions, targets):
    return (predictions[:, -1] - targets[:, -1]).square().sum()


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "DiagGate"])
def test_numbers_are_those_of_measure(kind):
    """Of one of the package's own networks with a loss behind the last step, the halves being the
    same."""
    network, lags = Network(make(kind, input_size=1)).double(), (1, 2, 5, 11)
    inputs = draw(120, 12, 1)
    targets = inputs[..., 0].roll(3, 1)
    order = torch.randperm(120, generator=torch.Generator().manual_seed(0))
    settings = Config.named("smoke").diagnostics.model_copy(update={"lags": lags, "ends": 1})
    wanted = (
        observe(network, Sequences(inputs[order], targets[order]), settings, 0)
        .sel(source="error")
        .isel(probe=-1)
    )
    found = diagnose(network, (inputs, targets), lags, loss=last, progress=False).data
    for name in ("statistic", "projection"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-9, atol=1e-12)


def test_three_lines_are_enough():
    inputs, targets = planted()
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(inputs, (targets[:, 0] > 0).long()), batch_size=37
    )
    found = diagnose(Net().eval(), loader, progress=False)
    assert found.data.attrs["loss"] == "cross_entropy"
    assert found.data.lag.values.tolist() == list(range(1, 16))
    assert found.data.sizes["sequence"] == 200
    assert "In 400 sequences the longest lag that the gradient of the loss shows is" in " ".join(
        str(found).split()
    )
    assert (
        found.data.attrs["measured_on"]
        == "read as 400 sequences of 16 steps of width 1: half for directions, half for numbers"
    )


@pytest.mark.slow
def test_pure_noise_has_no_window():
    """Targets that have nothing to do with the inputs: at a level of 1 %, one draw in eight may
    have one."""
    windows = []
    for seed in range(8):
        noise = planted(200, seed=seed)[0], draw(200, 1, seed=100 + seed).float()
        found = diagnose(
            Net(outputs=1), noise, [1, 2, 4, 8], source="target", seed=seed, progress=False
        )
        windows.append(found.window(10**6).steps)
    assert windows.count(0) >= 7


def test_windows_do_not_depend_on_the_unit_of_the_loss_or_on_batches(found):
    tiny = diagnose(
        Net(outputs=1),
        planted(),
        range(1, 13),
        loss=lambda p, y: 1e-6 * (p - y).square().mean(),
        progress=False,
    )
    np.testing.assert_allclose(tiny.data.required, found.data.required, rtol=1e-3)
    np.testing.assert_array_equal(tiny.data.detected, found.data.detected)
    inputs, targets = planted()
    again = diagnose(
        Net(outputs=1),
        zip(inputs.split(50), targets.split(50), strict=True),
        range(1, 13),
        progress=False,
    )
    np.testing.assert_allclose(again.data.statistic, found.data.statistic, rtol=1e-4, atol=1e-12)
    other = diagnose(Net(outputs=1), planted(), range(1, 13), progress=False, seed=1)
    assert not np.allclose(other.data.statistic, found.data.statistic)


def test_windows_are_those_of_the_numbers(found):
    """Read again, plainly: N(ℓ) by the central limit theorem, or the stable law; the longest
    detected lag whose N(ℓ) is at most N."""
    data = found.data
    mean, spread = data.statistic.mean("sequence"), data.projection.std("sequence", ddof=1)
    quantile = stats.norm.isf(0.1)
    needed = (quantile * spread / mean.where(mean > 0)) ** 2
    np.testing.assert_allclose(found.required()[mean > 0], needed[mean > 0], rtol=1e-9)
    assert np.isposinf(found.required()[mean <= 0]).all()
    alpha = float(data.tail_index.median())
    power = alpha / (alpha - 1)
    by_tails = (
        stats.levy_stable.isf(0.1, alpha, 0) * data.tail_scale / mean.where(mean > 0)
    ) ** power
    np.testing.assert_allclose(found.required("mean")[mean > 0], by_tails[mean > 0], rtol=1e-4)
    for n in (1, 30, 1000, 10**5):
        for rate, numbers in (("variance", needed), ("mean", by_tails)):
            seen = ((numbers <= n) & data.detected).values.astype(bool)
            assert found.window(n, rate=rate).steps == max(data.lag.values[seen], default=0)
            assert found.window(n, "first_passage", rate).steps == max(
                data.lag.values[np.logical_and.accumulate(seen)], default=0
            )
        perhaps, surely = (
            (data.required_interval.sel(bound=end) <= n).values for end in ("low", "high")
        )
        surely = surely & data.detected.values.astype(bool)
        assert found.window(n)[1:] == (
            max(data.lag.values[surely], default=0),
            max(data.lag.values[perhaps], default=0),
        )


def test_false_windows_are_counted_with_signs_at_random(found):
    """The planted lag is detected, and yet with signs at random hardly anything is."""
    assert (
        stats.binomtest(int(found.data.false_windows), 1000, 0.01, alternative="greater").pvalue
        > 1e-3
    )


def test_it_shows_itself_is_stored_and_drawn(found, tmp_path):
    assert {
        name for name, variable in found.data.data_vars.items() if "long_name" not in variable.attrs
    } == set()
    page = BeautifulSoup(found._repr_html_(), "html.parser")
    assert " ".join(str(found).split()) in " ".join(page.get_text().split())
    rows = [
        row.find("th").get_text() for row in page.select(".diagnosis > table")[0].select("tbody tr")
    ]
    assert rows == ["1", "8", "64", "400", "512", "4,096", "32,768", "262,144"], (
        "with the N of the first sentence"
    )
    found.save(tmp_path / "mine.nc")
    again = Diagnosis.load(tmp_path / "mine.nc")
    assert str(again) == str(found)
    assert again.window(1000) == found.window(1000)
    assert again.table().equals(found.table())
    code, output = lw("show", tmp_path / "mine.nc", "--figure", tmp_path / "shown.png")
    assert (code, f"\n{found}\n" in output) == (0, True), output
    assert f"400 {found.window(400, 'first_passage')} {found.window(400)}" in " ".join(
        output.split()
    )
    assert (tmp_path / "shown.png").read_bytes().startswith(b"\x89PNG")
    found.data.drop_attrs().assign_attrs(fingerprint="x").to_netcdf(
        tmp_path / "other.nc", engine="h5netcdf"
    )
    with pytest.raises(ValueError, match="must be a diagnosis"):
        Diagnosis.load(tmp_path / "other.nc")


def test_bands_are_without_unit_and_know_silence():
    rng = np.random.default_rng(0)
    signal, whole = rng.standard_normal((2, 3, 80)) + 0.3
    signal[1] = whole[1] = 0
    plain = ratio_bands(signal, whole, np.random.default_rng(1))
    for factor in (1e-200, 1e200):
        np.testing.assert_allclose(
            ratio_bands(factor * signal, factor * whole, np.random.default_rng(1)), plain, rtol=1e-9
        )
    np.testing.assert_allclose(plain[1, ::2], signal[::2].mean(-1) / whole[::2].std(-1, ddof=1))
    assert plain[:, 1].tolist() == [0, 0, 0]
    assert sequences_needed([0.0, -1.0], 1 / np.sqrt(2), 2).tolist() == [np.inf, np.inf]


def test_an_interrupt_leaves_the_network_as_it_was():
    net, calls = Net(outputs=1), []
    before = {name: value.clone() for name, value in net.state_dict().items()}

    def loss(predictions, targets):
        calls.append(1)
        if len(calls) == 100:
            raise KeyboardInterrupt
        return nn.functional.mse_loss(predictions, targets)

    with pytest.raises(KeyboardInterrupt):
        diagnose(net, planted(), [1, 2, 4], loss=loss, progress=False)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert not net.rnn._forward_hooks


def stored(folder, state, inputs=None, targets=None):
    """A checkpoint and data, as the command takes them."""
    torch.save(state, folder / "weights.pt")
    x, y = planted(80)
    np.savez(
        folder / "data.npz",
        inputs=x.numpy() if inputs is None else inputs,
        targets=y.numpy() if targets is None else targets,
    )
    return (
        "diagnose",
        "--checkpoint",
        folder / "weights.pt",
        "--data",
        folder / "data.npz",
        "--lags",
        "1,3",
    )


@pytest.mark.parametrize(
    "kind",
    [
        "LSTM",
        pytest.param("GRU", marks=pytest.mark.slow),
        pytest.param("RNN", marks=pytest.mark.slow),
    ],
)
def test_the_command_does_what_the_function_does(kind, tmp_path):
    net = Net(kind, outputs=1, layers=2)
    command = stored(tmp_path, {"epoch": 3, "model": net.state_dict()})
    code, output = lw(
        *command,
        "--output",
        tmp_path / "found.nc",
        "--figure",
        tmp_path / "found.png",
        "--n-sequences",
        77,
    )
    assert code == 0, output
    direct = diagnose(
        net.double(),
        [part.double() for part in planted(80)],
        [1, 3],
        n_sequences=77,
        progress=False,
    )
    assert str(direct) in output
    assert "longest visible lag" in output
    np.testing.assert_allclose(
        Diagnosis.load(tmp_path / "found.nc").data.required, direct.data.required, rtol=1e-3
    )
    assert (tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")


def test_targets_at_every_step_and_classes_are_known_by_their_shape(tmp_path):
    inputs = draw(60, 70, 1).numpy()
    with pytest.warns(
        UserWarning, match="read as 60 sequences of 70 steps, for the LSTM has batch_first=True"
    ):
        code, output = lw(
            *stored(tmp_path, Net(outputs=3).state_dict(), inputs, (inputs[..., 0] > 0).astype(int))
        )
    assert (code, "60 sequences of 70 steps" in " ".join(output.split())) == (0, True), output
    code, output = lw(
        *stored(tmp_path, Net(outputs=3).state_dict(), inputs[..., 0], np.arange(60) % 3),
        "--source",
        "target",
    )
    assert (code, "as if nothing had been learned yet" in " ".join(output.split())) == (0, True), (
        output
    )


def test_safetensors_are_read(tmp_path):
    net, inputs = Net("GRU", outputs=1), planted(3)[0]
    save_file(net.state_dict(), tmp_path / "weights.safetensors")
    module, weight, bias = adapter.rebuild(adapter.load_weights(tmp_path / "weights.safetensors"))
    torch.testing.assert_close(
        nn.functional.linear(module(inputs)[0][:, -1], weight, bias), net(inputs)
    )


class Evil:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_pickled_code_is_refused_and_not_run(tmp_path):
    trap = tmp_path / "trapped"
    for state in (Evil(trap), Net().state_dict() | {"more": Evil(trap)}, Net()):
        code, output = lw(*stored(tmp_path, state))
        assert (code, "must hold weights alone" in output) == (2, True), output
    (tmp_path / "weights.pt").write_bytes(pickle.dumps(Evil(trap)))
    assert (
        lw("diagnose", "--checkpoint", tmp_path / "weights.pt", "--data", tmp_path / "data.npz")[0]
        == 2
    )
    code, output = lw(
        *stored(tmp_path, Net().state_dict(), targets=np.array([Evil(trap)] * 80, dtype=object))
    )
    assert (code, "plain arrays" in output) == (2, True), output
    assert not trap.exists()
    pickle.loads(pickle.dumps(Evil(trap)))  # the trap works where code is run
    assert trap.exists()


LINEAR = nn.Linear(8, 1).state_dict()
FILES = {
    "no recurrent module": ({"state": LINEAR}, [], "must hold weights alone, of one nn.LSTM"),
    "two recurrent modules": (
        {"state": nn.ModuleDict({"a": nn.GRU(1, 2), "b": nn.GRU(1, 2)}).state_dict()},
        [],
        "must be weights of one recurrent module",
    ),
    "two directions": (
        {"state": nn.LSTM(1, 2, bidirectional=True).state_dict()},
        [],
        "of one direction",
    ),
    "projections": ({"state": nn.LSTM(1, 2, proj_size=1).state_dict()}, [], "without projections"),
    "a norm between": (
        {"state": Net().state_dict() | nn.LayerNorm(8).state_dict()},
        [],
        "must be weights of one recurrent module",
    ),
    "another nonlinearity": (
        {"state": Net().state_dict()},
        ["--nonlinearity", "elu"],
        "'elu' is not one of 'tanh', 'relu'",
    ),
    "no file": (
        {"state": Net().state_dict()},
        ["--checkpoint", "none.pt"],
        "No such file or directory",
    ),
    "inputs of one axis": (
        {"state": Net().state_dict(), "inputs": np.zeros(80)},
        [],
        r"must be numbers, (B, T, D)",
    ),
}


@pytest.mark.parametrize("row", FILES)
def test_files_that_do_not_say_which_network_are_explained(row, tmp_path):
    given, options, message = FILES[row]
    code, output = lw(*stored(tmp_path, **given), *options)
    assert (code, message in output) == (2, True), output
