"""The networks' doors: tasks, cells, readout, training."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from lwcore import network, tasks
from tests.bad_inputs.rows import (
    Argument,
    Bad,
    integer,
    object_of,
    real,
    tensor,
    word,
    wrong,
)
from tests.networks import draw, make

TASK = tasks.DelayedRegression(
    length=6, lags=[1, 3], coefficients=[0.6, 0.4], noise=0.1, direction=[1.0, 0.0, 1.0]
)
SEQUENCES = tasks.sample(TASK, 4, np.random.default_rng(0), torch.float64)
CELL = make("LSTM")
NETWORK = network.Network(make("GRU"))
SMALL = draw(2, 6, 3)  # inputs (B, T, D)
SPOILED = SMALL.clone()
SPOILED[0, 0, 0] = torch.nan
NAN = Bad(SPOILED, ValueError, "1 of 36 entries are NaN or infinite")
INPUTS = tensor(SMALL, (2, 6), (2, 6, 4), (0, 6, 3), (2, 0, 3), dtype=ValueError).also(
    NAN, Bad(SMALL.float(), ValueError, "float32")
)
STATE = Argument(
    (draw(2, 4), draw(2, 4)),
    (
        Bad(draw(2, 4), ValueError, r"1 part"),
        Bad((draw(2, 4), draw(1, 4)), ValueError, r"\(1, 4\)"),
        Bad((draw(2, 4), draw(2, 4) * torch.nan), ValueError, "NaN"),
        Bad((draw(2, 4), None), ValueError, "must be 2 tensors"),
        Bad("state", TypeError, "'state'"),
        Bad(3, TypeError, "3"),
    ),
)
LAYERNORM = Argument(False, tuple(wrong(value, TypeError) for value in (1, "yes", None)))
DTYPE = Argument(
    torch.float64,
    (
        Bad(torch.int64, ValueError, "int64"),
        Bad(torch.complex64, ValueError, "complex64"),
        Bad("float", ValueError, "'float'"),
        Bad(np.float64, ValueError, "float64"),
    ),
)
TORCH_RNG = Argument(
    None,
    tuple(
        Bad(value, TypeError, shown)
        for value, shown in ((0, "= 0"), ("rng", "'rng'"), (np.random.default_rng(0), "Generator"))
    ),
)
SIZES = {"input_size": integer(3, 1), "hidden_size": integer(4, 1)}
START = {
    "gate_init": real(0.5, "(0, 1)"),
    "gate_spread": real(0.1, "[0, inf)"),
    "init": word("orthogonal"),
    "generator": TORCH_RNG,
}
TARGETS = tensor(draw(2, 6), (2, 5), (6, 2), (2, 6, 1), (0, 6))
LAYER = object_of(nn.LSTM(3, 4), nn.GRU(3, 4)).also(
    Bad(nn.LSTM(3, 4, num_layers=2), ValueError, "num_layers=2"),
    Bad(nn.LSTM(3, 4, bidirectional=True), ValueError, "bidirectional=True"),
    Bad(nn.LSTM(3, 4, proj_size=2), ValueError, "proj_size=2"),
)
OPTIONS = {
    "steps": integer(1, 0),
    "batch_size": integer(2, 1, 4),
    "optimizer": word("sgd"),
    "learning_rate": real(1e-3, "(0, inf)").also(wrong("1e-3", TypeError)),
    "weight_decay": real(0.0, "[0, inf)"),
    "clip": real(1.0, "(0, inf)"),
    "on_step": object_of(lambda states: None, none=True),
}
FEW: tuple = ()

DOORS: list = []  # signatures check: tests/calls/networks.py
