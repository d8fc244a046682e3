"""What predictors are made of, on a small run."""

import numpy as np
import pytest

from book.chapters import prediction
from book.chapters.prediction import learned_share, predictors
from lwcore.config import Config
from lwcore.inference import LETTER, probes, required

SMOKE = Config.named("smoke")


def test_learned_share_is_taken_at_the_tasks_lags(small_run):
    share, task = learned_share(small_run), SMOKE.task
    assert (share.dims, share.lag.values.tolist()) == (("model", "seed", "lag"), list(task.lags))
    expected = small_run.learned.sel(delay=list(task.lags)) / np.array(task.coefficients)
    np.testing.assert_allclose(share, expected)
    with pytest.raises(ValueError, match=rf"task's lags contains {task.lags[0]}\.0: .* among"):
        learned_share(small_run.drop_sel(lag=task.lags[0]))


def test_predictors_are_the_numbers_of_the_run(small_run):
    measured = small_run.sel(lag=learned_share(small_run).lag)
    scores = predictors(measured)
    names, hidden = scores.predictor.values.tolist(), SMOKE.network.hidden_size
    assert not scores.isnull().any()
    assert len(set(names)) == len(names)
    assert names[:3] == list(prediction.TRIVIAL)
    for model, blocks in {"ConstGate": 1, "DiagGate": 2}.items():
        # weights and biases of the gates, and of the readout
        count = blocks * hidden * (SMOKE.task.input_size + hidden + 1) + hidden + 1
        lag, size, both = scores.sel(model=model).isel(predictor=slice(3), seed=0)
        np.testing.assert_array_equal(lag, -measured.lag)
        np.testing.assert_allclose(np.exp(-size), count)
        np.testing.assert_allclose(np.exp(-2 * both), measured.lag**2 * count)
    target, own = (probes(measured, "gradient", source) for source in ("target", "error"))
    expected = {"envelope, exact": np.log(measured.envelope.sel(order="exact"))}
    for noise, words in {"own": "own noise", "whole": "noise of the whole gradient"}.items():
        needed = required(target, rule="plug-in", rate="variance", noise=noise)
        expected[f"N: gradient, {words}, variance"] = -np.log(needed).median("probe")
        ratio = (own.signal / own.scale.sel(noise=noise)).median("probe")
        expected[f"signal/scale: gradient, {words}, own error"] = ratio
    letter = required(probes(measured, "first", "error"), rule="plug-in", **LETTER)
    name = "N: first, own noise, letter of version 2, own error"
    expected[name] = -np.log(letter).median("probe")
    for name, score in expected.items():
        np.testing.assert_allclose(scores.sel(predictor=name), score, err_msg=name)
    letters = [name for name in names if "letter" in name]
    assert letters
    assert not any("gradient" in name or "whole" in name for name in letters)
