"""What predictors are made of, on a dataset of plain numbers and on a run."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from book.chapters import prediction
from book.chapters.prediction import (
    learned_share,
    left_over,
    predictors,
    share_table,
    task_predictors,
)
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


def test_share_table_shows_median_and_range():
    share = xr.DataArray(
        [[[0.1, 1.0], [0.2, 1.0], [0.9, 1.0]]],
        {"model": ["GRU"], "lag": [4, 8]},
        ["model", "seed", "lag"],
    )
    assert share_table(share).loc["GRU", "% at lag 4"] == "20 (10 to 90)"


def test_left_over_divides_the_signals_of_the_own_gradient(smoke):
    changed = smoke.copy(deep=True)
    gradient = changed.view == "gradient"
    changed["signal"] = (
        xr.where((changed.source == "error") & gradient, 0.25, xr.where(gradient, 0.5, 7.0))
        + 0 * changed.signal
    )
    assert (left_over(changed) == 0.5).all()


def chosen(scores, name, source="–"):
    (at,) = np.flatnonzero((scores.predictor == name) & (scores.source == source))
    return scores.isel(predictor=at, drop=True)


def test_predictors_are_the_numbers_of_the_run(smoke):
    measured = smoke.sel(lag=learned_share(smoke).lag)
    scores = predictors(measured)
    assert not scores.isnull().any()
    labels = list(zip(scores.predictor.values, scores.source.values, strict=True))
    assert len(set(labels)) == len(labels)
    assert labels[:3] == [(name, "–") for name in prediction.TRIVIAL]
    assert (chosen(scores, "plain lag") == -measured.lag).all()
    smoke_config = Config.named("smoke")
    hidden, inputs = smoke_config.network.hidden_size, smoke_config.task.input_size
    for model, blocks in {"ConstGate": 1, "DiagGate": 2}.items():
        # weights and biases of the gates, and of the readout
        count = blocks * hidden * (inputs + hidden + 1) + hidden + 1
        np.testing.assert_allclose(
            np.exp(-chosen(scores, "number of parameters").sel(model=model)), count
        )
        products = np.exp(-2 * chosen(scores, "lag × √parameters").sel(model=model)).transpose(
            "lag", "seed"
        )
        np.testing.assert_allclose(products.isel(seed=0), measured.lag**2 * count)
    np.testing.assert_allclose(
        np.exp(chosen(scores, "envelope, exact")), measured.envelope.sel(order="exact")
    )
    for noise in ("own", "whole"):
        needed = required(
            probes(measured, "gradient", "target"), rule="plug-in", rate="variance", noise=noise
        ).squeeze("probe")
        np.testing.assert_allclose(
            np.exp(-chosen(scores, f"N: gradient, {noise} noise, variance", "target")), needed
        )
        own = probes(measured, "gradient", "error").squeeze("probe")
        ratio = own.signal / own.scale.sel(noise=noise)
        np.testing.assert_allclose(
            chosen(scores, f"signal/scale: gradient, {noise} noise", "error"), ratio
        )
    middle = -np.log(required(probes(measured, "first", "error"), rule="plug-in", **LETTER)).median(
        "probe"
    )
    np.testing.assert_allclose(
        chosen(scores, "N: first, own noise, v2 to the letter", "error"), middle
    )
    assert not any(
        "letter" in name and ("gradient" in name or "whole" in name) for name, _ in labels
    )


def test_predictors_of_a_run_are_those_at_the_lags_of_its_task(smoke):
    scores = task_predictors(smoke)
    xr.testing.assert_identical(scores, predictors(smoke.sel(lag=learned_share(smoke).lag)))
    assert (scores.stage.values[:3] == "–").all()
    assert (scores.stage.values[3:] == "after").all()
