"""The whole diagnosis: planted lags and nothing; what is read off its numbers; files."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch.utils.data import DataLoader, TensorDataset

from lwcore.diagnose import Diagnosis, diagnose, route
from lwcore.diagnose.inferred import LEVEL, ratio_bands
from lwcore.experiment.config import Config
from lwcore.experiment.measure import observe
from lwcore.network import Network
from lwcore.tasks import Sequences
from tests.built_book import variables_in
from tests.diagnosed import Recurrent, last
from tests.networks import draw, make


def at_last(kind="LSTM", outputs=1, layers=1):
    """A small classifier or regressor."""
    return Recurrent(1, outputs, kind, 8, layers, after=last)


def planted(count=400, lag=3, seed=5):
    """Inputs, and a target that is the input of one lag before the end."""
    inputs = draw(count, 16, 1, seed=seed).float()
    return inputs, inputs[:, -1 - lag]


def measured(net=None, batches=None, lags=range(1, 13), **options):
    return diagnose(net or at_last(), batches or planted(), lags, progress=False, **options)


@pytest.fixture(scope="module")
def found():
    return measured()


@pytest.mark.parametrize(("kind", "layers"), [("LSTM", 2), ("GRU", 1), ("RNN", 1)])
def test_the_window_ends_at_a_planted_lag(kind, layers):
    """An untrained network, the input of lag 3 all that the target holds: from as many sequences as
    that lag needs, and five times. With signs at random hardly anything is detected."""
    found = measured(at_last(kind, 1, layers), lags=range(1, 9), source="target")
    enough = int(np.ceil(found.data.required.sel(lag=3)))
    assert [found.window(n).steps for n in (enough, 5 * enough)] == [3, 3]
    assert found.window(enough).low <= 3 <= found.window(enough).high
    false = int(found.data.false_windows)
    assert stats.binomtest(false, 1000, 0.01, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("kind", ["ConstGate", "GRU", "LSTM+norm"])
def test_numbers_are_those_of_measure(kind):
    """Of one of the package's own networks with a loss behind the last step, and the same halves."""

    def at_end(predictions, targets):
        return (last(predictions) - last(targets)).square().sum()

    network, lags = Network(make(kind, input_size=1)).double().eval(), (1, 2, 5, 11)
    inputs = draw(120, 12, 1)
    targets = inputs[..., 0].roll(3, 1)
    order = torch.randperm(120, generator=torch.Generator().manual_seed(0))
    settings = Config.named("smoke").diagnostics.model_copy(update={"lags": lags, "ends": 1})
    wanted = observe(network, Sequences(inputs[order], targets[order]), settings, 0)
    wanted = wanted.sel(source="error").isel(probe=-1)
    found = measured(network, (inputs, targets), lags, loss=at_end).data
    for name in ("statistic", "projection"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-9, atol=1e-12)


def test_three_lines_are_enough():
    inputs, targets = planted()
    loader = DataLoader(TensorDataset(inputs, (targets[:, 0] > 0).long()), batch_size=37)
    counts = {"sequences": np.int64(100), "n_sequences": np.int32(77), "seed": np.int64(1)}
    found = diagnose(at_last(outputs=2), loader, **counts, progress=False)
    data = found.data.data_vars
    assert variables_in("diagnose") == {name: {*value.dims} for name, value in data.items()}
    known = found.data.attrs
    assert (known["loss"], known["seed"], known["n_sequences"]) == ("cross_entropy", 1, 77)
    assert (found.data.lag.values.tolist(), found.data.sizes["sequence"]) == ([*range(1, 16)], 50)


def test_windows_do_not_depend_on_the_unit_of_the_loss_or_on_batches(found, monkeypatch):
    tiny = measured(loss=lambda p, y: 1e-6 * (p - y).square().mean())
    np.testing.assert_allclose(tiny.data.required, found.data.required, rtol=1e-3)
    np.testing.assert_array_equal(tiny.data.detected, found.data.detected)
    monkeypatch.setattr(route, "_ENTRIES", 2**14)  # so that few sequences are read at once
    batches = zip(*(part.split(50) for part in planted()), strict=True)
    again = measured(batches=batches).data.statistic
    np.testing.assert_allclose(again, found.data.statistic, rtol=1e-4, atol=1e-12)
    assert not np.allclose(measured(seed=1).data.statistic, found.data.statistic)


def test_windows_are_those_of_the_numbers(found):
    """N(ℓ) by the central limit theorem; the longest detected lag whose N(ℓ) is at most N."""
    data = found.data.copy(deep=True)
    data.detected[data.required_interval[1].values.argmin()] = False  # though surely visible
    found = Diagnosis(data)
    mean = data.statistic.mean("sequence").where(lambda mean: mean > 0)
    spread = data.projection.std("sequence", ddof=1)
    needed = ((stats.norm.isf(0.1) * spread / mean) ** 2).fillna(np.inf)
    np.testing.assert_allclose(data.required, needed, rtol=1e-9)
    lags = data.lag.values

    def longest(seen):
        return max(lags[np.asarray(seen)], default=0)

    detected, (low, high) = data.detected.astype(bool), data.required_interval
    for n in (1, 30, 1000, 10**5):
        seen = (needed <= n) & detected
        assert found.window(n).steps == longest(seen)
        passage = found.window(n, "first_passage").steps
        assert passage == longest(np.logical_and.accumulate(seen.values))
        assert found.window(n)[1:] == (longest((high <= n) & detected), longest(low <= n))


def test_bands_hold_all_true_ratios_and_know_silence():
    """In 95 % of draws, of two lags that depend on one another and a third that is silent."""
    rng, held = np.random.default_rng(0), 0
    truth = np.array([[0.3], [0.1], [0]])
    for _ in range(200):
        noise = rng.standard_normal((3, 150))
        noise[1] = (noise[0] + noise[1]) / np.sqrt(2)
        signal, whole = truth + 0.5 * noise, truth + noise
        signal[2] = whole[2] = 0
        low, ratio, high = bands = ratio_bands(signal, whole, rng)
        held += bool(((low <= truth[:, 0]) & (truth[:, 0] <= high)).all())
    assert stats.binomtest(held, 200, LEVEL).pvalue > 1e-3
    np.testing.assert_allclose(ratio[:2], signal[:2].mean(-1) / whole[:2].std(-1, ddof=1))
    assert bands[:, 2].tolist() == [0, 0, 0]
    both = (ratio_bands(u * signal, u * whole, np.random.default_rng(1)) for u in (1, 1e-200))
    np.testing.assert_allclose(*both)
