"""The whole diagnosis: against `measure`, on planted lags and on nothing; intervals that cover; interrupts; files and the command."""

from __future__ import annotations

import io
import os
import pickle
import re
import zipfile

import numpy as np
import pytest
import torch
from bs4 import BeautifulSoup
from torch import nn

from lwcore import results
from lwcore.calibration import binomial_interval
from lwcore.diagnose import Diagnosis, checkpoint, diagnose
from lwcore.diagnose.bands import ratio_bands, required
from tests.networks import draw
from tests.test_cli import lw


class Net(nn.Module):
    """A small classifier or regressor."""

    def __init__(self, kind="LSTM", outputs=2, hidden=8, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.rnn = getattr(nn, kind)(1, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1])


def planted(count=400, length=16, lag=3, seed=5):
    """Inputs, and a target that is the input of one lag before the end."""
    inputs = draw(count, length, 1, seed=seed).float()
    return inputs, inputs[:, -1 - lag]


@pytest.fixture(scope="module")
def found():
    return diagnose(Net(outputs=1), planted(), range(1, 13), progress=False)


def test_a_planted_lag_needs_fewest_sequences(found):
    """An untrained LSTM: the input of lag 3 is all that the target holds, so its part of the gradient stands out."""
    needed = found.data.required.sel(reading="variance")
    assert bool(found.data.detected.sel(lag=3))
    assert needed.sel(lag=3) == needed.min()
    assert found.window(100).low <= found.window(100).steps <= found.window(100).high
    assert found.window(1).steps <= found.window(10**6).steps


def test_three_lines_are_enough():
    inputs, targets = planted()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, (targets[:, 0] > 0).long()), batch_size=37)
    result = diagnose(Net().eval(), loader, progress=False)
    assert result.data.attrs["loss"] == "cross-entropy"
    assert result.data.lag.values.tolist() == list(range(1, 16))
    assert result.data.sizes["sequence"] == 200
    assert "In 400 sequences the gradient" in " ".join(str(result).split())
    assert result.data.attrs["measured_on"] == "read as 400 sequences of 16 steps of 1 number: half for directions, half for numbers"


@pytest.mark.slow
def test_pure_noise_has_no_window():
    """Targets that have nothing to do with the inputs, an error of mean zero: at a level of 1 %, one draw in eight may have one."""
    windows = []
    for seed in range(8):
        inputs, _ = planted(200, seed=seed)
        noise = draw(200, 1, seed=100 + seed).float()
        result = diagnose(Net(outputs=1, seed=seed), (inputs, noise), [1, 2, 4, 8], source="target", seed=seed, progress=False)
        windows.append(result.window(10**6).steps)
    assert windows.count(0) >= 7


def test_all_numbers_scale_with_the_loss(found):
    """Windows do not depend on the unit of the loss, however small."""
    tiny = diagnose(Net(outputs=1), planted(), range(1, 13), loss=lambda p, y: 1e-6 * (p - y).square().mean(), progress=False)
    np.testing.assert_allclose(tiny.data.required, found.data.required, rtol=1e-3)
    np.testing.assert_array_equal(tiny.data.detected, found.data.detected)


def test_the_same_seed_gives_the_same_and_batches_do_not_matter(found):
    inputs, targets = planted()
    again = diagnose(Net(outputs=1), zip(inputs.split(50), targets.split(50), strict=True), range(1, 13), progress=False)
    np.testing.assert_allclose(again.data.statistic, found.data.statistic, rtol=1e-4, atol=1e-12)
    other = diagnose(Net(outputs=1), planted(), range(1, 13), progress=False, seed=1)
    assert not np.allclose(other.data.statistic, found.data.statistic)


def test_windows_are_those_of_the_numbers(found):
    """Read again, plainly: the longest detected lag whose N(ℓ) is at most N; N(ℓ) by the central limit theorem."""
    data = found.data
    mean, spread = data.statistic.mean("sequence"), data.projection.std("sequence", ddof=1)
    needed = (1.2815515655446004 * spread / mean.where(mean > 0)) ** 2
    np.testing.assert_allclose(data.required.sel(reading="variance").where(mean > 0), needed, rtol=1e-9)
    for n in data.budget.values.tolist():
        seen = data.lag.values[(needed <= n).values & data.detected.values.astype(bool)]
        assert found.window(n).steps == max(seen, default=0) == int(data.window.sel(budget=n, definition="supremum", reading="variance"))
        for definition in ("supremum", "first_passage"):
            stable = data.window.sel(budget=n, definition=definition, reading="stable")
            assert found.window(n, definition, "stable").steps == int(stable)
        interval = data.window_interval.sel(budget=n, definition="supremum")
        assert (found.window(n).low, found.window(n).high) == tuple(interval.values.tolist())


def test_false_windows_are_counted_with_signs_at_random(found):
    """The planted lag is detected, and yet with signs at random hardly anything is."""
    false = found.data.false_windows
    assert binomial_interval(int(false), 1000, 0.999)[0] < false.attrs["nominal"] == 0.01
    assert "the test allows 1)" in found._repr_html_()


def test_variables_say_what_they_are(found):
    assert {name for name, variable in found.data.data_vars.items() if "long_name" not in variable.attrs} == set()
    for name in ("envelope", "off_diagonal", "tail_index", "goodness_of_fit", "required", "required_interval", "window", "time_scale"):
        assert name in found.data
    assert 0 <= float(found.data.goodness_of_fit.min()) <= float(found.data.goodness_of_fit.max()) <= 1


def test_it_shows_itself_is_stored_and_drawn(found, tmp_path):
    page = BeautifulSoup(found._repr_html_(), "html.parser")
    assert " ".join(str(found).split()) in " ".join(page.get_text().split())
    rows = [row.find("td").get_text() for row in page.select(".diagnosis > table tbody tr")]
    assert rows == ["1", "8", "64", "400", "512", "2,048", "16,384", "131,072", "1,048,576"], "with the N of the first sentence"
    assert any("time scales" in entry.get_text() for entry in page.select(".diagnosis > ul > li"))
    assert page.select_one("details").find("summary").get_text() == "All numbers"
    found.save(tmp_path / "mine.nc")
    again = Diagnosis.load(tmp_path / "mine.nc")
    assert str(again) == str(found)
    assert again.window(1000) == found.window(1000)
    assert not again.interrupted
    code, output = lw("show", tmp_path / "mine.nc", "--figure", tmp_path / "shown.png")
    assert code == 0, output
    assert f"\n{found}\n" in output
    row = ["400", str(found.window(400, "first_passage")), str(found.window(400))]
    assert " ".join(row) in [" ".join(line.split()) for line in output.splitlines()]
    assert (tmp_path / "shown.png").read_bytes().startswith(b"\x89PNG")
    results.save(found.data.drop_vars("required_interval"), tmp_path / "part.nc")
    code, output = lw("show", tmp_path / "part.nc")
    assert code == 2
    assert re.search("path = '.*part.nc': .*required_interval.*; must be a diagnosis", output)
    found.plot().savefig(tmp_path / "mine.svg")
    again.plot().savefig(tmp_path / "mine.png")
    found.data.drop_attrs().assign_attrs(fingerprint="x").to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="not a diagnosis"):
        Diagnosis.load(tmp_path / "other.nc")


@pytest.mark.parametrize("heavy", [False, True])
def test_bands_hold_all_ratios_at_once(heavy):
    """Of 300 draws of 100 sequences with known ratios, 95 % should have them all inside; fewer than 91.5 % would be four deviations off."""
    rng = np.random.default_rng(3)
    ratios = np.array([0.0, 0.2, 0.5, 0.4])[:, None]
    held = 0
    for _ in range(300):
        shared = rng.standard_t(8, size=(2, 1, 100)) / np.sqrt(8 / 6) if heavy else rng.standard_normal((2, 1, 100))
        own = rng.standard_normal((4, 100))
        whole = (shared[0] + own) / np.sqrt(2)
        low, high = ratio_bands(ratios + 0.3 * (own + shared[1]), whole + 7, rng, resamples=200)
        held += bool(((low <= ratios[:, 0]) & (ratios[:, 0] <= high)).all())
    assert held / 300 > 0.915


def test_bands_are_without_unit_and_know_silence():
    rng = np.random.default_rng(0)
    signal, whole = rng.standard_normal((2, 3, 80)) + 0.3
    signal[1] = whole[1] = 0
    plain = ratio_bands(signal, whole, np.random.default_rng(1))
    for factor in (1e-200, 1e200):
        np.testing.assert_allclose(ratio_bands(factor * signal, factor * whole, np.random.default_rng(1)), plain, rtol=1e-9)
    assert [end[1] for end in plain] == [0, 0]
    assert required(np.array([0.0, -1.0, 1.0]))[:2].tolist() == [np.inf, np.inf]


class Stops:
    """A loss that is interrupted at one of its calls."""

    def __init__(self, at):
        self.left = at

    def __call__(self, predictions, targets):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return nn.functional.mse_loss(predictions, targets)


def test_an_interrupt_leaves_what_there_is():
    whole = Stops(10**9)
    diagnose(Net(outputs=1), planted(), [1, 2, 4], loss=whole, progress=False)
    calls = 10**9 - whole.left
    late = diagnose(Net(outputs=1), planted(), [1, 2, 4], loss=Stops(calls - 30), progress=False)
    assert late.interrupted
    assert late.complete
    assert late.data.sizes["sequence"] == 128
    assert f"Interrupted: {late.data.sizes['sequence']} sequences" in str(late)
    early = diagnose(Net(outputs=1), planted(), [1, 2, 4], loss=Stops(calls - 300), progress=False)
    assert early.interrupted
    assert not early.complete
    assert "Interrupted before any window" in early._repr_html_()
    assert early.data.envelope.shape == (3,)
    early.plot()
    with pytest.raises(ValueError, match="broken off"):
        early.window(10)
    with pytest.raises(KeyboardInterrupt):
        diagnose(Net(outputs=1), planted(), [1, 2, 4], loss=Stops(3), progress=False)


def test_the_network_and_its_gradients_are_left_alone(found):
    net = Net(outputs=1)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    diagnose(net, planted(60), [1, 2], progress=False)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert not net.rnn._forward_hooks


def stored(tmp_path, net, **data):
    torch.save(net.state_dict(), tmp_path / "weights.pt")
    inputs, targets = planted(80)
    np.savez(tmp_path / "data.npz", **({"inputs": inputs.numpy(), "targets": targets.numpy()} | data))
    return tmp_path / "weights.pt", tmp_path / "data.npz"


@pytest.mark.parametrize("kind", ["LSTM", pytest.param("GRU", marks=pytest.mark.slow), pytest.param("RNN", marks=pytest.mark.slow)])
def test_the_command_does_what_the_function_does(kind, tmp_path):
    net = Net(kind, outputs=1)
    weights, data = stored(tmp_path, net)
    options = ["--lags", "1,3", "--output", tmp_path / "found.nc", "--figure", tmp_path / "found.png"]
    code, output = lw("diagnose", "--checkpoint", weights, "--data", data, *options)
    assert code == 0, output
    direct = diagnose(net.double(), [part.double() for part in planted(80)], [1, 3], progress=False)
    assert str(direct) in output
    assert "longest visible lag" in output
    np.testing.assert_allclose(Diagnosis.load(tmp_path / "found.nc").data.required, direct.data.required, rtol=1e-3)
    assert (tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")


def test_lags_are_given_with_commas_or_one_by_one(tmp_path):
    weights, data = stored(tmp_path, Net(outputs=1))
    for options in (["--lags", "1,3,4"], ["--lags", "1, 3", "--lags", 4]):
        code, output = lw("diagnose", "--checkpoint", weights, "--data", data, *options, "--output", tmp_path / "found.nc")
        assert code == 0, output
        assert Diagnosis.load(tmp_path / "found.nc").data.lag.values.tolist() == [1, 3, 4]
    for bad, message in (("1;3", "lags = '1;3': must be integers with commas"), ("3,1", "must be strictly increasing")):
        code, output = lw("diagnose", "--checkpoint", weights, "--data", data, "--lags", bad)
        assert (code, message in output) == (2, True), output


def test_places_of_files_are_checked_before_anything_is_measured(tmp_path):
    """No checkpoint and no data are there: what is wrong with the places of the results is said first."""
    (tmp_path / "file").write_text("")
    for option, path, message in (
        ("--output", tmp_path / "none" / "x.nc", "there is no folder"),
        ("--output", tmp_path, "is a folder; must be a file"),
        ("--output", tmp_path / "file" / "x.nc", "there is no folder"),
        ("--figure", tmp_path / "none" / "x.png", "there is no folder"),
        ("--figure", tmp_path / "x.xyz", "must end in one of ."),
        ("--figure", tmp_path / "x", "must end in one of"),
    ):
        code, output = lw("diagnose", "--checkpoint", tmp_path / "none.pt", "--data", tmp_path / "none.npz", option, path)
        assert code == 2
        assert f"{option[2:]} = {str(path)!r}" in output
        assert message in output


def test_a_figure_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    def breaks(self, path, **_):
        path.write_bytes(b"half")
        raise OSError("the disk is full")

    monkeypatch.setattr(Figure, "savefig", breaks)
    weights, data = stored(tmp_path, Net(outputs=1))
    (tmp_path / "found.png").write_bytes(b"old")
    code, output = lw("diagnose", "--checkpoint", weights, "--data", data, "--lags", 1, "--figure", tmp_path / "found.png")
    assert code == 2
    assert "the disk is full" in output
    assert (tmp_path / "found.png").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.npz", "found.png", "weights.pt"]


def test_the_command_warns_of_axes_that_may_be_swapped(tmp_path):
    inputs = draw(50, 60, 1).numpy()
    weights, data = stored(tmp_path, Net(outputs=1), inputs=inputs, targets=inputs)
    code, output = lw("diagnose", "--checkpoint", weights, "--data", data, "--lags", 1)
    assert code == 0, output
    assert "read as 50 sequences of 60 steps of 1 number, for the LSTM has batch_first=True" in output


def test_targets_at_every_step_and_classes_are_known_by_their_shape(tmp_path):
    inputs = draw(60, 10, 1).numpy()
    weights, data = stored(tmp_path, Net(outputs=3), inputs=inputs, targets=(inputs[..., 0] > 0).astype(int))
    code, output = lw("diagnose", "--checkpoint", weights, "--data", data, "--lags", 1)
    assert code == 0, output
    weights, data = stored(tmp_path, Net(outputs=3), inputs=inputs[..., 0], targets=np.arange(60) % 3)
    code, output = lw("diagnose", "--checkpoint", weights, "--data", data, "--lags", 1, "--source", "target", "--n-sequences", 77)
    assert code == 0, output
    assert "In 77 sequences" in output
    code, output = lw("diagnose", "--checkpoint", weights, "--data", data, "--lags", 99)
    assert (code, "lags[0] = 99" in output) == (2, True)


def test_safetensors_are_read(tmp_path):
    from safetensors.torch import save_file

    net = Net("GRU", outputs=1)
    save_file(net.state_dict(), tmp_path / "weights.safetensors")
    held = checkpoint.load_weights(tmp_path / "weights.safetensors")
    rebuilt = checkpoint.network(held)
    inputs = planted(3)[0]
    torch.testing.assert_close(rebuilt(inputs), net(inputs))
    (tmp_path / "bad.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match="not a safetensors file"):
        checkpoint.load_weights(tmp_path / "bad.safetensors")


class Evil:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("how", ["bare pickle", "torch.save", "inside a state dictionary"])
def test_pickled_code_is_refused_and_not_run(how, tmp_path):
    trap, file = str(tmp_path / "trapped"), tmp_path / "evil.pt"
    if how == "bare pickle":
        file.write_bytes(pickle.dumps(Evil(trap)))
    elif how == "torch.save":
        torch.save(Evil(trap), file)
    else:
        torch.save(Net().state_dict() | {"more": Evil(trap)}, file)
    code, output = lw("diagnose", "--checkpoint", file, "--data", stored(tmp_path, Net())[1])
    assert code == 2
    assert "refused" in output
    assert "nothing in a file is run" in " ".join(output.split())
    assert not os.path.exists(trap)
    if how != "bare pickle":
        torch.load(file, weights_only=False)  # the trap works where code is run
        assert os.path.exists(trap)


def test_a_whole_model_is_refused_with_what_to_do(tmp_path):
    torch.save(Net(), tmp_path / "model.pt")
    with pytest.raises(ValueError, match=r"asks to run .*Net.*torch\.save\(net\.state_dict\(\), path\)"):
        checkpoint.load_weights(tmp_path / "model.pt")


def test_data_with_pickled_objects_is_refused(tmp_path):
    trap = str(tmp_path / "trapped")
    weights, data = stored(tmp_path, Net(), targets=np.array([Evil(trap)] * 80, dtype=object))
    code, output = lw("diagnose", "--checkpoint", weights, "--data", data)
    assert code == 2
    assert "plain arrays" in output
    assert not os.path.exists(trap)
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("inputs.npy", io.BytesIO(b"no").getvalue())
    for path, message in (("other.npz", "plain arrays"), ("none.npz", "no such file")):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            checkpoint.load_data(tmp_path / path)
    _, data = stored(tmp_path, Net(), inputs=np.zeros(3))
    with pytest.raises(ValueError, match=r"must be numbers, \(B, T, D\)"):
        checkpoint.load_data(data)


def test_checkpoints_that_do_not_say_which_network_are_explained(tmp_path):
    def refused(net, message, **options):
        with pytest.raises(ValueError, match=message):
            checkpoint.network(net.state_dict(), **options)

    refused(nn.LSTM(1, 2, bidirectional=True), "it is bidirectional, .* not supported")
    refused(nn.LSTM(1, 2, proj_size=1), r"it projects its outputs \(proj_size\); not supported")
    refused(nn.ModuleDict({"a": nn.GRU(1, 2), "b": nn.GRU(1, 2)}), "recurrent = None: must be one of 'a', 'b'")
    refused(nn.ModuleDict({"a": nn.GRU(1, 2), "b": nn.Linear(2, 1), "c": nn.Linear(2, 1)}), "readout = None: must be one of 'b', 'c'")
    refused(nn.GRU(1, 2), "nonlinearity = 'elu'", nonlinearity="elu")
    broken = Net().state_dict()
    del broken["rnn.bias_hh_l0"]
    with pytest.raises(ValueError, match="do not fit together"):
        checkpoint.network(broken)
    (tmp_path / "noise.pt").write_bytes(b"noise")
    with pytest.raises(ValueError, match=r"noise.pt': not a file of weights; must be one that torch\.save"):
        checkpoint.load_weights(tmp_path / "noise.pt")
    with pytest.raises(FileNotFoundError, match="no such file"):
        checkpoint.load_weights(tmp_path / "none.pt")
    torch.save(nn.Linear(1, 2).state_dict(), tmp_path / "linear.pt")
    with pytest.raises(ValueError, match="no state dictionary with a recurrent module"):
        checkpoint.load_weights(tmp_path / "linear.pt")


def test_deeper_networks_and_wrapped_dictionaries_are_rebuilt(tmp_path):
    for module in (nn.LSTM(2, 3, 3, bias=False), nn.RNN(2, 3, 2, nonlinearity="relu"), nn.GRU(2, 3, 2)):
        torch.save(
            {"epoch": 3, "model_state_dict": nn.ModuleDict({"body": module, "out": nn.Linear(3, 1)}).state_dict()}, tmp_path / "w.pt"
        )
        nonlinearity = getattr(module, "nonlinearity", "tanh")
        net = checkpoint.network(checkpoint.load_weights(tmp_path / "w.pt"), nonlinearity=nonlinearity, readout="none", every_step=True)
        inputs = torch.randn(4, 5, 2, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(net(inputs), module(inputs.transpose(0, 1))[0].transpose(0, 1))


def test_weights_that_a_rebuilt_network_would_leave_out_are_refused(tmp_path):
    net = nn.ModuleDict({"rnn": nn.LSTM(1, 4), "norm": nn.LayerNorm(4), "out": nn.Linear(4, 1)})
    torch.save(net.state_dict(), tmp_path / "w.pt")
    weights = checkpoint.load_weights(tmp_path / "w.pt")
    with pytest.raises(ValueError, match=r"also holds 'norm\.bias', 'norm\.weight', for which a recurrent module and a linear readout"):
        checkpoint.network(weights)
    plain = {name: value for name, value in weights.items() if not name.startswith("norm")}
    assert checkpoint.network(plain).readout.out_features == 1


def test_a_small_loss_that_couples_sequences_is_refused():
    def coupled(predictions, targets):
        return 1e-6 * ((predictions - predictions.mean()) - (targets - targets.mean())).square().mean()

    torch.manual_seed(0)
    x = torch.randn(50, 12, 1)
    with pytest.raises(ValueError, match="one by one they sum to"):
        diagnose(nn.LSTM(1, 4, batch_first=True), (x, x[:, -1:, :1].squeeze(-1)), head=lambda h: h[:, -1, :1], loss=coupled, lags=[1, 2])
