"""Good calls: traces, transport, gradients, measurements and inference."""

from types import SimpleNamespace

import numpy as np
import torch
import xarray as xr

from lwcore import gradient, inference, measure, transport
from lwcore.config import Config, DiagnosticSettings
from lwcore.network import Network
from lwcore.tasks import DelayedRegression, sample
from lwcore.trace import Trace
from tests.networks import draw, make

CELL = make("GRU")
TRACE, DELTA, LAGS, ENDS = CELL.trace(draw(2, 6, 3)), draw(2, 6, 4, seed=2), [1, 3], [4, 5]
W = gradient.random_direction(CELL, torch.Generator().manual_seed(0))
MOVED, SIGNS = gradient.immediate_sensitivity(TRACE, W), torch.ones(2, 4, dtype=torch.float64)
RATES = transport.effective_rates(TRACE, LAGS, ends=ENDS)
OF = SimpleNamespace(
    trace={"trace": TRACE},
    rates={"trace": TRACE, "lags": LAGS, "ends": ENDS},
    delta={"trace": TRACE, "loss_gradients": DELTA},
    statistic={"rates": RATES, "alignments": RATES, "signs": SIGNS},
    products={"kept": draw(3, 2, 2), "mixing": draw(3, 2, 2)},
)
SETTINGS = DiagnosticSettings(sequences=64, lags=LAGS, ends=1, directions=1, budgets=[9])
NETWORK = Network(CELL, torch.Generator().manual_seed(0))
TASK = DelayedRegression(6, [1], [1.0], 0.1, [1.0, 0.0, 0.0])
SEQUENCES = sample(TASK, 64, np.random.default_rng(0))
MEASURED = {"network": NETWORK, "sequences": SEQUENCES, "settings": SETTINGS}
NUMBERS = measure.observe(**MEASURED, seed=0)
RUN = {"configuration": Config.named("quick").model_dump_json()}
RESULTS = inference.summary(NUMBERS).assign(envelope=NUMBERS.envelope).assign_attrs(RUN)
NEEDED = xr.DataArray([3.0, np.inf], {"lag": LAGS}, ["lag"])
STATE = {"param_groups": [{}], "state": {}}

CALLS = [
    (Trace, {"recurrence": CELL, "inputs": TRACE.inputs, "history": TRACE.history}),
    (transport.step_jacobian, OF.trace | {"t": 0}),
    (transport.split, OF.trace | {"steps": slice(1, 3)}),
    (transport.effective_rates, OF.rates | {"order": "first"}),
    (transport.exact_rates_and_share, OF.rates),
    (transport.envelope, {"rates": RATES}),
    (transport.reset_rates, OF.rates),
    (transport.scaled_product, OF.products | {"epsilon": 0.5}),
    (transport.coefficients, OF.products | {"orders": 1}),
    (gradient.random_direction, {"cell": CELL, "generator": torch.Generator()}),
    (gradient.immediate_sensitivity, OF.trace | {"direction": W}),
    (gradient.total_sensitivity, OF.trace | {"direction": W}),
    (gradient.projected_gradient, OF.delta | {"direction": W}),
    (gradient.first_loss, {"loss_gradients": DELTA}),
    (gradient.unit_length, {"vectors": DELTA}),
    (gradient.transported, OF.delta | {"lags": [0, 2], "first": 1}),
    (gradient.total_transport, OF.rates | OF.delta | {"sensitivity": MOVED}),
    (gradient.lag_gradients, OF.delta | {"lags": [0, 2]}),
    (gradient.lag_vectors, OF.delta | {"lags": None}),
    (
        gradient.alignment,
        {"loss_gradients": DELTA, "sensitivity": MOVED, "lags": LAGS, "ends": ENDS},
    ),
    (gradient.matched_statistic, OF.statistic),
    (gradient.factorise, OF.statistic),
    (
        gradient.lag_statistics,
        OF.rates | {"aims": [gradient.Aim(DELTA, MOVED, SIGNS)], "order": "zeroth"},
    ),
    (measure.measure, MEASURED | {"seed": 0}),
    (measure.observe, MEASURED | {"seed": 0, "sources": ["target"]}),
    (
        measure.course,
        MEASURED | {"snapshots": {0: NETWORK.state_dict()}, "task": TASK},
    ),
    (measure.base_rates, {"network": NETWORK, "optimizer": STATE}),
    (inference.summary, {"numbers": NUMBERS}),
    (inference.config_of, {"results": RESULTS}),
    (inference.probes, {"results": RESULTS, "view": "zeroth", "source": "error"}),
    (
        inference.required,
        {"results": RESULTS, "rate": "mean", "noise": "own", "rule": "tested", "twice": True}
        | {"error": 0.1},
    ),
    (
        inference.sequences_needed,
        {"signal": [0.1], "scale": 1.0, "alpha": 2.0, "envelope": 1.0},
    ),
    (inference.windows, {"results": RESULTS, "budgets": [9], "definition": "first_passage"}),
    (inference.window_of, {"needed": NEEDED, "budgets": 9, "definition": "supremum"}),
    (inference.detected, {"results": RESULTS, "level": 0.05}),
    (
        inference.significant,
        {"mean": [[0.1]], "error": [[0.1]], "count": 9, "level": 0.05},
    ),
    (
        inference.false_detections,
        {"statistic": draw(1, 2, 9).numpy(), "level": 0.1, "rng": np.random.default_rng(0)}
        | {"draws": 9},
    ),
    (inference.deviation, {"numbers": [0.1, 0.9]}),
    (inference.exponent_of_means, {"numbers": draw(64).numpy()}),
]
