"""Windows of architectures: the task against a perfect guess, the table, training, what is recorded."""

import numpy as np
import pandas as pd
import pytest

from book.chapters import architectures, layers
from tests.built_book import ROOT

OURS = [name for name, one in layers.ARCHITECTURES.items() if one.package == "torch"]


def guess(weights):
    """A network that gives a weighted sum of the delayed inputs."""

    return lambda inputs: sum(w * inputs.roll(lag, 1) for lag, w in weights.items()) / 3**0.5


def test_shares_are_of_each_delay_alone():
    inputs, targets = architectures.sample(4000, 1)
    assert targets.shape == (4000, 16, 1)
    assert targets.square().mean().item() == pytest.approx(1, abs=0.03)
    perfect = guess(dict.fromkeys((4, 12, 24), 1))
    assert architectures.loss(perfect(inputs), targets).item() == pytest.approx(0, abs=1e-10)
    assert architectures.shares(perfect, inputs) == pytest.approx({4: 1, 12: 1, 24: 1}, abs=0.01)
    # half of an amplitude leaves a quarter of its variance; twice it is as far off as nothing
    some = architectures.shares(guess({4: 0.5, 12: 2, 24: 0, 8: 1}), inputs)
    assert some == pytest.approx({4: 0.75, 12: 0, 24: 0}, abs=0.06)


@pytest.mark.parametrize("name", OURS)
def test_pytorch_s_own_are_causal_and_as_large_as_they_should_be(name):
    network = architectures.begun(name, 1)
    assert layers.numbers(network) == pytest.approx(layers.PARAMETERS, rel=layers.WITHIN)
    inputs, _ = architectures.sample(4, 1)
    other = inputs.clone()
    other[:, 40:] += 1
    moved = (network(other) - network(inputs)).abs().amax((0, 2))
    assert moved[:40].max().item() < 1e-5
    assert moved[40].item() > 1e-3


def test_every_architecture_names_a_released_package_and_a_layer():
    pinned = r"torch|[a-z][A-Za-z-]*[a-z0-9-]*==\d+\.\d+\.\d+"
    packages = pd.Series({name: one.package for name, one in layers.ARCHITECTURES.items()})
    assert packages.str.fullmatch(pinned).all()
    assert set(architectures.NULL) <= set(layers.ARCHITECTURES)


def test_measuring_gives_a_row_a_lag_or_the_words_of_a_refusal(monkeypatch):
    monkeypatch.setattr(architectures, "MOMENTS", (0, 2))
    monkeypatch.setattr(architectures, "SEQUENCES", 64)
    rows = architectures.measured("GRU", 1)
    assert rows.groupby(["step", "source"])["lag"].apply(list).map(len).to_dict() == {
        (0, "error"): 10, (0, "target"): 10, (2, "target"): 10,
    }  # fmt: skip
    assert rows.loc[rows["share"].notna(), "lag"].unique().tolist() == list(architectures.DELAYS)
    assert np.isinf(rows.loc[~rows["detected"], "needed"]).all()
    noisy = architectures.begun("GRU", 1).train()
    refused = architectures.read(noisy, architectures.sample(64, 1), "target", 1)
    assert refused["refused"].str.contains("eval").all()


def test_recorded_architectures_are_as_large_as_each_other():
    folder = ROOT / architectures.FOLDER
    found = pd.concat(map(pd.read_csv, folder.glob("measured-*.csv")))
    read = found[found["lag"].notna()]
    assert set(read["architecture"]) <= set(layers.ARCHITECTURES)
    assert (read["parameters"] / layers.PARAMETERS - 1).abs().max() <= layers.WITHIN
    assert read["share"].max() <= 1
    assert np.isinf(read.loc[read["detected"] != True, "needed"]).all()  # noqa: E712
