"""What is refused, and in which words: one table for the whole package.

A row: words that the refusal must contain, and the call. What one argument alone must be,
`test_signatures.py` tries for every function; here stands what arguments must be to each other,
and where a range ends.
"""

import dataclasses
import re

import numpy as np
import pytest
import torch
import xarray as xr
from torch import nn

from lwcore import inference, results
from lwcore.cells import GRU, LSTM
from lwcore.detection import detection_error, hellman_raviv_error, kl_divergence, sample_complexity
from lwcore.elman import bounds, kernel
from lwcore.elman.network import linear_model, symmetric_initialisation
from lwcore.printing import printed
from lwcore.stable import SymmetricStable, fit, goodness_of_fit
from lwcore.stats import binomial, bootstrap
from lwcore.tasks import DelayedRegression
from lwcore.window import (
    DecayLaw,
    fit_decay,
    learnability_window,
    mixture_envelope,
    regime_window,
    time_scales,
)
from tests.networks import draw, make

POWER = DecayLaw("power", 0.5, 0.8)
LAW = SymmetricStable(1.5)
RNG = np.random.default_rng(0)
SAMPLES = LAW.sample((300, 2), RNG)
PROBLEM = bounds.Problem("tanh", 0.6, 5, 3, 0.3, 0.7, sequences=20, failure=0.1)
START = symmetric_initialisation(4, 2, 0.5, RNG)
FOREIGN = xr.Dataset({"loss": 1.0})
TASK = {"length": 12, "lags": [1, 4], "coefficients": [0.6, 0.5], "noise": 0.3, "direction": [1.0]}


def problem(**changes):
    return dataclasses.replace(PROBLEM, **changes)


def target(recurrent):
    maps = kernel.TransportMaps(recurrent, np.zeros_like, 0.5, 1.0)
    return kernel.transport_target(maps, [[[0.5]]], alpha=0.5)


def of_lags(values, lags):
    return xr.DataArray(values, {"lag": lags}, "lag")


# fmt: off
THEORY = [  # stable, detection, window, inference, stats, elman, printing
    ("error = 0.7: must be a number in [1e-150, 0.5)", lambda: sample_complexity(1, 1, 1, 1.5, 0.7)),
    ("scale/alignment = 0.0:", lambda: sample_complexity(1, 1e200, 1e-200, 1.5)),
    ("envelope contains -0.5", lambda: sample_complexity([1, -0.5], 1, 1, 1.5)),
    ("of shapes (2,), (3,), (): must broadcast", lambda: sample_complexity([1, 2], [1, 1, 1], 1, 1.5)),
    ("shift/scale = 1e+160: must be 0, or from 1e-150 to 1e+150", lambda: kl_divergence(1e160, 1.5)),
    ("n_sequences contains 2.5: every entry must be", lambda: kl_divergence(1, 1.5, 1, [2, 2.5])),
    ("must be of a size up to", lambda: kl_divergence(1e150, 1.5, 1, 1e150, "mean")),
    ("shift/scale = 1e-160: must be 0, or from", lambda: detection_error(1, 1e-160, 1, 1.5)),
    ("information contains 0.7", lambda: hellman_raviv_error([0.1, 0.7])),
    ("contains nan", lambda: learnability_window([1, 2], [np.nan, 1], [1])),
    ("each of the 2 lags", lambda: learnability_window([1, 2], [1, 2, 3], [1])),
    ("detection threshold = ", lambda: regime_window(POWER, 1e300, 1, 1e-300, 2)),
    ("and shape (0,): must be one or more", lambda: mixture_envelope([1], [])),
    ("time_scales, weights of shapes (2,)", lambda: mixture_envelope([1], [1, 2], [1, 2, 3])),
    ("weights contains -0.5", lambda: mixture_envelope([1], [1, 2], [1, -0.5])),
    ("law = 'tempered_power'", lambda: DecayLaw("tempered_power", 2.0, 0.6, 0.99).inverse(0)),
    ("envelope contains 0.0", lambda: fit_decay([1, 2, 3, 5, 9], [1, 1, 1, 0, 1])),
    ("a millionth of the last", lambda: fit_decay([2**53 + k for k in range(5)], [5, 4, 3, 2, 1.0])),
    ("each of the 2 lags", lambda: time_scales([1, 2], [1, 0.5])),
    ("scale = 1e-151: must be", lambda: SymmetricStable(1.5, scale=1e-151)),
    ("x contains 1e+151", lambda: LAW.sf([0, 1e151])),
    ("shift = 1e+151: must be", lambda: LAW.kl(1e151)),
    ("p = 1e-151: must be 0, or", lambda: LAW.ppf(1e-151)),
    ("size = 2.5: must be a whole number", lambda: LAW.sample(2.5, RNG)),
    ("samples contains 1e+151", lambda: fit([1.0, 1e151])),
    ("must be those fitted", lambda: goodness_of_fit(SAMPLES[:, 0], fit(SAMPLES), RNG)),
    ("numbers holds loss: it must hold statistic", lambda: inference.signal_and_noise(FOREIGN)),
    ("results holds loss: it must hold signal", lambda: inference.required(FOREIGN)),
    ("lags = [2, 1]: must be", lambda: inference.window_of(of_lags([1.0, 2], [2, 1]), [1])),
    ("nan", lambda: inference.window_of(of_lags([np.nan], [1]), [1])),
    ("signal = nan: must be finite", lambda: inference.sequences_needed(np.nan, 1.0, 1.5)),
    ("alpha = 2.5: must be 2 or below", lambda: inference.sequences_needed(1.0, 1.0, 2.5)),
    ("must broadcast", lambda: inference.significant([[1.0, 2, 3]], [[1.0, 2]], 5, 0.05)),
    ("draws = 2000: must be 8402 or more", lambda: bootstrap(np.mean, 4)),
    ("trials = 10000001: must be", lambda: binomial(0, 10**7 + 1)),
    ("hits contains 0.5", lambda: binomial([1, 0.5], 3)),
    ("must be at least (0.3, 0.7)", lambda: bounds.theorem_1(PROBLEM, 8, 10, (0.1, 1.0))),
    ("alpha = 1.0:", lambda: bounds.theorem_1(problem(alpha=1.0), 8, 10)),
    ("input_bound²) = 0", lambda: problem(recurrent_bound=0.0, input_bound=0.0)),
    ("must be an even whole number", lambda: bounds.approximation_bound(PROBLEM, 7)),
    ("must be within their bounds, (0.5, 1.0)", lambda: target(np.ones_like)),
    ("inputs.shape = (1, 2, 3): must be (1, 2, 2)", lambda: START.outputs(np.full((1, 2, 3), 0.5))),
    ("of norms up to 1", lambda: START.outputs(np.ones((1, 2, 2)))),
    ("must be (4, 3)", lambda: linear_model(START, np.ones((4, 4)), np.full((1, 2, 2), 0.5))),
    ("low, high = 2, 1: must be in order", lambda: printed(1.5, 2, 1)),
]

RUNS = [  # cells, network, tasks, results
    ("dtype = torch.int64: must be a floating type", lambda: GRU(3, 4, dtype=torch.int64)),
    ("reset = 'after': must be 'before'", lambda: LSTM(3, 4, reset="after")),
    ("must be of one layer", lambda: GRU.from_torch(nn.GRU(3, 4, num_layers=2))),
    ("one direction", lambda: LSTM.from_torch(nn.LSTM(3, 4, bidirectional=True))),
    ("no projection", lambda: LSTM.from_torch(nn.LSTM(3, 4, proj_size=2))),
    ("(B, T, 3)", lambda: make("GRU")(draw(2, 5, 7))),
    ("torch.float64", lambda: make("GRU")(draw(2, 5, 3).float())),
    ("must be finite", lambda: make("MinGRU").trace(draw(2, 5, 3) * torch.nan)),
    ("below the length, 12", lambda: DelayedRegression(**TASK | {"lags": [1, 12]})),
    ("must be a non-zero vector", lambda: DelayedRegression(**TASK | {"direction": [0.0, 0.0]})),
    ("path = '.': must be the path of a file", lambda: results.save(FOREIGN, ".")),
]
# fmt: on


@pytest.mark.parametrize(("words", "call"), [*THEORY, *RUNS])
def test_a_refusal_names_what_is_wrong(words, call):
    with pytest.raises(ValueError, match=re.escape(words)):
        call()
