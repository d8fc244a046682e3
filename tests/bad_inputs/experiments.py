"""The doors of experiments: configurations, measuring, inference, controls, runs, results, the
reader's own network."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from pydantic import ValidationError
from torch import nn

from book.chapters import controls, seeds
from lwcore import (
    adaptive,
    config,
    course,
    diagnose,
    experiment,
    inference,
    measure,
    results,
)
from tests.bad_inputs.labelled import labelled
from tests.bad_inputs.labelled import results as run
from tests.bad_inputs.networks import FEW, NETWORK, SEQUENCES, TASK
from tests.bad_inputs.rows import (
    Argument,
    Bad,
    Door,
    array,
    generator,
    integer,
    numbers,
    object_of,
    real,
    word,
    wrong,
)
from tests.bad_inputs.theory import ERROR, NEGATIVE

CONFIG = config.Config.named("smoke")
SETTINGS = object_of(CONFIG.diagnostics, CONFIG, {"lags": [1]})
SEED = integer(1, 0)
DRAWN = Argument(SEQUENCES, FEW)
LEVEL = real(0.05, "(0, 1)")

MISSING = tuple(
    Bad(value, FileNotFoundError, str(value))
    for value in ("nothing.nc", ".", Path(), "Größe/Länge.nc")
)
MODEL, BATCH = nn.LSTM(3, 4, batch_first=True), (torch.zeros(2, 6, 3), torch.zeros(2, 6, 4))
WEIGHTS = {f"recurrent.{name}": value for name, value in MODEL.state_dict().items()}

DIAGNOSIS = diagnose.Diagnosis(
    xr.Dataset(
        {
            **{
                name: ("lag", [1.0, 2.0])
                for name in ("required", "signal", "tail_scale", "tail_index")
            },
            "detected": ("lag", [True, False]),
            "required_interval": (("bound", "lag"), [[1.0, 1.0], [2.0, 2.0]]),
        },
        {"lag": [1, 2]},
        {"error": 0.1},
    )
)
DOORS = [
    Door(config.shipped, kind=word("configs").also(wrong("../configs"), wrong("claims"))),
    Door(
        config.Config.named,
        name=word("smoke").also(wrong("../smoke"), wrong("smoke.toml"), wrong("schnell·ß")),
    ),
    Door(config.Sweep.named, name=word("spectra").also(wrong("smoke"))),
    Door(
        CONFIG.but,
        models=Argument(
            ("GRU",),
            (
                Bad(("RNN",), ValidationError, r"models\.0\n.*'RNN'"),
                *(
                    Bad(value, ValidationError, re.escape(repr(value)[:5]))
                    for value in ((), ("GRU", "GRU"), "GRU", 3, None)
                ),
            ),
        ),
        seeds=Argument(
            (1,),
            tuple(
                Bad(value, ValidationError, "seeds")
                for value in ((), (-1,), (1, 1), (2**63,), (1.5,), ("x",), 1)
            ),
        ),
        training=Argument(
            {"steps": 1},
            tuple(
                Bad(value, ValidationError, "training")
                for value in (
                    {"speed": 1},
                    {"learning_rate": "fast"},
                    {"learning_rate": np.inf},
                    {"steps": -1},
                    3,
                    None,
                )
            ),
        ),
        name=Argument(
            "a",
            tuple(
                Bad(value, ValidationError, "name")
                for value in (
                    "../../x",
                    "a/b",
                    "a\0b",
                    "x" * 300,
                    "-a",
                    ".a",
                    "",
                    "A",
                    "a b",
                    "ä",
                    "a\n",
                    {"a": 1},
                    3,
                )
            ),
        ),
    ),
    Door(inference.summary, numbers=run()),
    Door(inference.detected, results=run(), level=LEVEL),
    Door(
        inference.required,
        results=run(),
        rate=word("mean").also(wrong("letter_v2")),
        noise=word("own"),
        rule=word("tested"),
        error=ERROR,
    ),
    Door(inference.windows, results=run(), definition=word("supremum")),
    Door(
        inference.window_of,
        {"budgets": "(budgets|n_sequences)"},
        needed=labelled("lag").good,
        budgets=array([8.0], NEGATIVE),
        definition=word("supremum"),
    ),
    Door(
        inference.significant,
        mean=array(np.ones((2, 3))),
        error=array(np.ones((2, 3)), NEGATIVE),
        count=20,
        level=LEVEL,
    ),
    Door(inference.deviation, numbers=array([1.0, 2.0])),
    Door(
        inference.holm,
        p=array(
            np.full((2, 3), 0.5),
            Bad(np.full((2, 3), 1.5), ValueError, r"1\.5"),
            Bad([0.5], ValueError, "1"),
        ),
        level=LEVEL,
    ),
    Door(
        measure.measure,
        network=object_of(NETWORK, NETWORK.cell),
        sequences=DRAWN,
        settings=SETTINGS,
        seed=SEED,
    ),
    Door(
        measure.observe,
        network=object_of(NETWORK, NETWORK.cell),
        sequences=DRAWN,
        settings=SETTINGS,
        seed=SEED,
        sources=Argument(
            ["noise"],
            (
                Bad(["weight"], ValueError, "'weight'"),
                wrong(3, TypeError),
                wrong("noise", TypeError),
            ),
        ),
    ),
    Door(
        adaptive.base_rates,
        network=object_of(NETWORK, NETWORK.cell),
        optimizer=Argument(
            torch.optim.SGD(NETWORK.parameters(), 0.1).state_dict(),
            (
                Bad(None, ValueError, "NoneType"),
                Bad({}, ValueError, r"\[\]"),
                Bad({"state": {}}, ValueError, "state"),
            ),
        ),
    ),
    Door(adaptive.split_envelope, rate=labelled("unit"), base_rate=labelled("unit")),
    Door(
        course.course,
        network=object_of(NETWORK, NETWORK.cell),
        snapshots=Argument(
            {0: NETWORK.state_dict()},
            (
                wrong(None, TypeError),
                Bad([1], TypeError, r"\[1\]"),
                Bad({}, ValueError, "0"),
                Bad({"0": {}}, TypeError, "'0'"),
                Bad({-1: {}}, ValueError, "-1"),
            ),
        ),
        sequences=DRAWN,
        task=object_of(TASK, CONFIG.task),
        settings=SETTINGS,
    ),
    Door(
        controls.invariances,
        results=run(),
        rng=generator(),
        models=Argument(
            ["GRU"],
            (Bad(["RNN"], ValueError, "'RNN'"), wrong("GRU", TypeError), wrong(3, TypeError)),
        ),
    ),
    Door(controls.nulls, results=run(), rng=generator(), level=LEVEL, draws=integer(1, 1)),
    Door(
        controls.believed,
        results=run(),
        n_sequences=integer(16, 1),
        error=ERROR,
        view=word("zeroth"),
    ),
    Door(
        controls.believed_by_chance,
        results=run(),
        error=ERROR,
        rng=generator(),
        draws=integer(1, 1),
        view=word("zeroth"),
    ),
    Door(controls.other_directions, results=run(), n_sequences=integer(16, 1)),
    Door(
        controls.shuffled_lags,
        results=run(),
        n_sequences=integer(16, 1),
        rng=generator(),
        draws=integer(1, 1),
    ),
    Door(
        seeds.resamples,
        {"count": "(count|share)"},
        count=integer(3, 0).also(Bad(1, ValueError, "share has 1 seed")),
    ),
    Door(seeds.most_covered, count=integer(3, 2)),
    Door(
        seeds.interval,
        drawn=numbers([1.0, 2.0]).also(Bad([1.0], ValueError, r"\(1,\)")),
        weights=array([0.5, 0.5]),
        count=integer(3, 2),
        level=LEVEL,
    ),
    Door(results.load, path=Argument("a.nc", MISSING)),
    Door(
        experiment.run,
        directory=Argument(None, (wrong(os.devnull), wrong(f"{os.devnull}/below"))),
        config=CONFIG,
        progress=False,
    ),
]
