"""The networks' doors: tasks, cells, readout, training."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from lwcore import network, tasks, train
from lwcore.cells import GRU, LSTM, ConstGate, DiagGate, MinGRU, MinLSTM, SharedGate
from tests.bad_inputs.rows import (
    Argument,
    Bad,
    Door,
    array,
    generator,
    integer,
    lags,
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
FEW = (
    Bad(tasks.Sequences(SMALL, draw(2, 5)), ValueError, r"\(2, 5\)"),
    Bad(tasks.Sequences(SPOILED, draw(2, 6)), ValueError, "inputs: 1 of 36 entries are NaN"),
    Bad(tasks.Sequences(SMALL.numpy(), draw(2, 6)), TypeError, "ndarray"),
    Bad(tasks.Sequences(SMALL[:0], draw(0, 6)), ValueError, r"\(0, 6, 3\)"),
    Bad((SMALL, draw(2, 6)), TypeError, "tuple"),
)

DOORS = [
    Door(
        tasks.DelayedRegression,
        length=integer(6, 2),
        lags=lags([1, 3], 6),
        coefficients=array([0.6, 0.4], Bad([1.0], ValueError, "1 given for 2 lags")),
        noise=real(0.1, "[0, inf)"),
        direction=array([1.0, 0.0], Bad([0.0, 0.0], ValueError, "direction = 0")),
    ),
    Door(
        tasks.sample,
        task=object_of(TASK),
        n_sequences=integer(2, 1),
        rng=generator(),
        dtype=Argument(
            torch.float64,
            (Bad(torch.int64, ValueError, "int64"), Bad("float", TypeError, "'float'")),
        ),
    ),
    Door(
        tasks.recovered_coefficients,
        task=object_of(TASK),
        sequences=object_of(SEQUENCES, (SMALL, SMALL)),
        predictions=tensor(draw(4, 6), (4, 5), (3, 6), (4,)),
        delays=lags([1], 6),
    ),
    *(
        Door(kind, **SIZES, layernorm=LAYERNORM, **START, dtype=DTYPE)
        for kind in (ConstGate, SharedGate, DiagGate, LSTM, MinGRU, MinLSTM)
    ),
    Door(GRU, **SIZES, layernorm=LAYERNORM, **START, dtype=DTYPE, reset=word("before")),
    Door(LSTM.from_torch, layer=LAYER),
    Door(GRU.from_torch, layer=object_of(nn.GRU(3, 4), nn.LSTM(3, 4), nn.RNN(3, 4))),
    Door(CELL.forward, inputs=INPUTS, state=STATE),
    Door(CELL.trace, inputs=INPUTS, state=STATE),
    Door(CELL.unrolled, inputs=INPUTS, state=STATE),
    Door(network.Network, cell=object_of(CELL, nn.LSTM(3, 4)), generator=TORCH_RNG),
    Door(NETWORK.forward, inputs=INPUTS),
    Door(NETWORK.readout, states=tensor(draw(2, 6, 4), (2, 6, 3), (4,), (6, 4))),
    Door(NETWORK.loss, inputs=INPUTS, targets=TARGETS),
    Door(NETWORK.residual, states=tensor(draw(2, 6, 4), (2, 6, 3), (4,), (6, 4)), targets=TARGETS),
    Door(NETWORK.loss_gradients, residual=tensor(draw(2, 6), (2,), (2, 6, 1), (0, 6))),
    Door(
        NETWORK.observe,
        inputs=INPUTS,
        targets=TARGETS.also(Bad(draw(2, 6) * torch.nan, ValueError, "12 of 12 entries are NaN")),
    ),
    Door(
        train.fit,
        network=object_of(NETWORK, CELL),
        sequences=Argument(SEQUENCES, FEW),
        seed=integer(0, 0),
        resume_from=object_of(None, none=True),
        **OPTIONS,
    ),
]
