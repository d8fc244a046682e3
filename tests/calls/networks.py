"""Good calls: Cells, networks, tasks and training."""

import numpy as np
import torch
from torch import nn

from lwcore import cells, network, tasks
from lwcore.network import Network
from tests.networks import draw, make

SIZES = {"input_size": 3, "hidden_size": 4}
START = {"gate_init": 0.3, "gate_spread": 0.0, "init": "uniform", "reset": "before"}
OPTIONS = START | {"layernorm": True, "generator": torch.Generator(), "dtype": torch.float64}
FAMILIES = (cells.Cell, cells.ConstGate, cells.SharedGate, cells.DiagGate, cells.LSTM)
SCAN = {"inputs": draw(2, 6, 3)}
TASK = {"length": 6, "lags": [1, 3], "coefficients": [0.5, -1.0], "noise": 0.1, "direction": [1, 2]}
SAMPLE = {"n_sequences": 2, "rng": np.random.default_rng(0), "dtype": torch.float32}
SEQUENCES = tasks.Sequences(draw(2, 6, 2), draw(2, 6))
OF_TASK = {"task": tasks.DelayedRegression(**TASK)}
NETWORK = Network(make("DiagGate"))

CALLS = [
    *((family, SIZES | OPTIONS) for family in (*FAMILIES, cells.MinGRU, cells.MinLSTM)),
    (cells.GRU, SIZES | {"reset": "after"}),
    (cells.GRU.from_torch, {"layer": nn.GRU(3, 4)}),
    (cells.LSTM.from_torch, {"layer": nn.LSTM(3, 4)}),
    *((scan, SCAN) for scan in (NETWORK.cell.forward, make("GRU").trace, make("GRU").unrolled)),
    (Network, {"cell": make("LSTM"), "generator": None}),
    (NETWORK.loss, {"inputs": draw(2, 6, 3), "targets": draw(2, 6)}),
    (NETWORK.residual, {"states": draw(2, 6, 4), "targets": draw(2, 6)}),
    (tasks.check, SEQUENCES._asdict()),
    (tasks.DelayedRegression, TASK),
    (tasks.sample, OF_TASK | SAMPLE),
    (
        tasks.recovered_coefficients,
        OF_TASK | {"sequences": SEQUENCES, "predictions": draw(2, 6), "delays": [1, 2]},
    ),
    (network.batch_indices, {"seed": 0, "step": 5, "n_sequences": 7, "batch_size": 3}),
    (
        network.fit,
        {
            "network": Network(make("GRU", input_size=2)),
            "sequences": SEQUENCES,
            **{"steps": 1, "batch_size": 1, "seed": 0, "optimizer": "sgd", "learning_rate": 0.1},
            **{"weight_decay": 0.0, "clip": 1.0, "resume_from": None, "on_step": None},
        },
    ),
]
