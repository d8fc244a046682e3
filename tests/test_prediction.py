"""What predictors are made of, on a dataset of plain numbers and on a run."""

from __future__ import annotations

import numpy as np
import pytest

from book.chapters import prediction
from book.chapters.prediction import learned_share, predictors
from lwcore.experiment import Config, run
from lwcore.inference import LETTER, probes, required


@pytest.fixture(scope="module")
def smoke():
    return run(Config.named("smoke").but(models=["ConstGate", "DiagGate"]), progress=False)


def test_learned_share_is_taken_at_the_tasks_lags(smoke):
    share = learned_share(smoke)
    task = Config.named("smoke").task
    assert share.lag.values.tolist() == list(task.lags)
    assert share.dims == ("model", "seed", "lag")
    for lag, coefficient in zip(task.lags, task.coefficients, strict=True):
        np.testing.assert_allclose(share.sel(lag=lag), smoke.learned.sel(delay=lag) / coefficient)
    with pytest.raises(ValueError, match=rf"lags \[{task.lags[0]}\] were not measured"):
        learned_share(smoke.sel(lag=[lag for lag in smoke.lag.values if lag != task.lags[0]]))


def test_predictors_are_the_numbers_of_the_run(smoke):
    measured = smoke.sel(lag=learned_share(smoke).lag)
    scores = predictors(measured)
    assert not scores.isnull().any()
    names = scores.predictor.values.tolist()
    assert len(set(names)) == len(names)
    assert names[:3] == list(prediction.TRIVIAL)

    def chosen(name):
        return scores.sel(predictor=name, drop=True)

    assert (chosen("plain lag") == -measured.lag).all()
    smoke_config = Config.named("smoke")
    hidden, inputs = smoke_config.network.hidden_size, smoke_config.task.input_size
    for model, blocks in {"ConstGate": 1, "DiagGate": 2}.items():
        # weights and biases of the gates, and of the readout
        count = blocks * hidden * (inputs + hidden + 1) + hidden + 1
        np.testing.assert_allclose(np.exp(-chosen("number of parameters").sel(model=model)), count)
        products = np.exp(-2 * chosen("lag × √parameters").sel(model=model)).transpose(
            "lag", "seed"
        )
        np.testing.assert_allclose(products.isel(seed=0), measured.lag**2 * count)
    np.testing.assert_allclose(
        np.exp(chosen("envelope, exact")), measured.envelope.sel(order="exact")
    )
    for noise in ("own", "whole"):
        needed = required(
            probes(measured, "gradient", "target"), rule="plug-in", rate="variance", noise=noise
        ).squeeze("probe")
        np.testing.assert_allclose(np.exp(-chosen(f"N: gradient, {noise} noise, variance")), needed)
        own = probes(measured, "gradient", "error").squeeze("probe")
        ratio = own.signal / own.scale.sel(noise=noise)
        np.testing.assert_allclose(
            chosen(f"signal/scale: gradient, {noise} noise, own error"), ratio
        )
    middle = -np.log(required(probes(measured, "first", "error"), rule="plug-in", **LETTER)).median(
        "probe"
    )
    np.testing.assert_allclose(chosen("N: first, own noise, v2 to the letter, own error"), middle)
    letters = [name for name in names if "letter" in name]
    assert letters
    assert not any("gradient" in name or "whole" in name for name in letters)
