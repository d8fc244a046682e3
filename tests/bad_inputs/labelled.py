"""Bad labelled arrays, and small good ones to go with other bad arguments."""

from __future__ import annotations

import numpy as np
import xarray as xr

from lwcore.config import Config
from tests.bad_inputs.rows import Argument, Bad, wrong

RESULTS = xr.Dataset(
    {
        "rate": (("model", "seed", "order", "lag", "unit"), np.full((1, 2, 2, 3, 2), 0.5)),
        "statistic": (
            ("model", "seed", "probe", "lag", "sequence"),
            np.random.default_rng(0).normal(size=(1, 2, 2, 3, 40)),
        ),
        "projection": (
            ("model", "seed", "probe", "lag", "sequence"),
            np.random.default_rng(1).normal(size=(1, 2, 2, 3, 40)),
        ),
        "envelope": (("model", "seed", "order", "lag"), np.full((1, 2, 2, 3), 0.5)),
        **{
            name: (("model", "seed", "order", "unit"), np.ones((1, 2, 2, 2)))
            for name in ("time_scale", "course_time_scale")
        },
        **{
            name: (("model", "seed", "source", "probe", "lag"), np.ones((1, 2, 3, 2, 3)))
            for name in ("signal", "signal_error")
        },
        **{
            name: (
                ("model", "seed", "source", "probe", "lag", "noise"),
                np.ones((1, 2, 3, 2, 3, 2)),
            )
            for name in ("scale", "deviation")
        },
        "alpha": (("model", "seed", "source", "probe", "noise"), np.full((1, 2, 3, 2, 2), 1.5)),
        "n_measured": 40,
        **{
            name: (("model", "seed", "delay"), np.ones((1, 2, 3)))
            for name in ("planted", "learned", "course_learned")
        },
    },
    coords={
        "model": ["GRU"],
        "seed": [1, 2],
        "order": ["zeroth", "exact"],
        "lag": [1, 2, 3],
        "delay": [1, 2, 3],
        "task_lag": [1, 2, 3],
        "view": ("probe", ["zeroth", "gradient"]),
        "source": ["error", "target", "noise"],
        "noise": ["own", "whole"],
        "snapshot": [0],
        "start": ["a"],
        "task": [1],
        "optimizer": ["sgd"],
        "gate_spread": [0.1],
        "sequences": [16],
    },
    attrs={"configuration": Config.named("smoke").model_dump_json()},
)
NO_DATASET = (
    wrong(None, TypeError, "NoneType"),
    wrong("results.nc", TypeError, "str"),
    wrong({"rate": 1.0}, TypeError, "dict"),
    Bad(RESULTS.rate, TypeError, "DataArray"),
    Bad(xr.Dataset(), ValueError, "holds nothing"),
    Bad(xr.Dataset({"Größe": 1.0}), ValueError, "holds Größe"),
)


def results() -> Argument:
    """A dataset with what a function reads."""
    return Argument(RESULTS, NO_DATASET)


def labelled(*dims: str) -> Argument:
    """An array with some dimensions."""
    good = xr.DataArray(
        np.full([2] * len(dims), 0.5), dims=dims, coords={dim: [1, 2] for dim in dims}
    )
    return Argument(
        good,
        (
            wrong(None, TypeError, "NoneType"),
            Bad(good.values, TypeError, "ndarray"),
            Bad(good.values.tolist(), TypeError, "list"),
            Bad(good.to_dataset(name="x"), TypeError, "Dataset"),
            Bad(good.astype(str), TypeError, "<U"),
            Bad(good.astype(complex), TypeError, "complex128"),
            Bad(good.rename({dims[0]: "Länge"}), ValueError, "Länge"),
            Bad(good.isel({dims[0]: []}), ValueError, f"{dims[0]} 0"),
        ),
    )
