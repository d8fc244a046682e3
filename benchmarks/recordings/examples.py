"""What chapters show and measure no claim by: trained and diagnosed once, some ten minutes.

``python -m benchmarks.recordings.examples`` writes `book/results/examples`. A language model of
characters (*Measure your own network*) is diagnosed as if nothing had been learned; four
forecasters are trained; ConstGate is measured at four gates (*The matched statistic*), Elman
networks are trained (*The companion*), and adding's far number is detected (the first page).
"""

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from torch import Tensor, nn

from benchmarks.recordings.learners import TASKS, Learner
from benchmarks.recordings.visibility import gradients, visible
from book.chapters import dose, readers
from book.chapters.elman_measured import descents, study
from book.claims.companion_search import SMOOTH
from lwcore import experiment, results
from lwcore.diagnose import diagnose
from lwcore.elman.bounds import Problem
from lwcore.experiment.measure import observe
from lwcore.inference import signal_and_noise

FOLDER = Path(__file__).parents[2] / "book" / "results" / "examples"
LETTERS = 32  # characters in a sequence
TRAINED = 3000  # sequences of text
UNSEEN = 400
FORECAST_SEEDS = 6
PASSES = 40  # of a forecaster over its houses, between two looks at the others
LOOKS = 4
GATES = (0.1, 0.2, 0.34, 0.5)


class LanguageModel(nn.Module):
    """Predicts the next character from those before it: two layers of causal attention."""

    def __init__(self, characters: int, width: int = 32) -> None:
        """Start as PyTorch starts its layers."""
        super().__init__()
        self.letter = nn.Embedding(characters, width)
        self.place = nn.Embedding(LETTERS, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.next = nn.Linear(width, characters)

    def forward(self, text: Tensor) -> Tensor:
        """Return scores of the next character, (B, T, characters)."""
        steps = text.shape[1]
        hidden = self.letter(text) + self.place.weight[:steps]
        mask = nn.Transformer.generate_square_subsequent_mask(steps)
        return self.next(self.layers(hidden, mask, is_causal=True))


def text() -> tuple[Tensor, Tensor, int]:
    """Return pieces of Python's documentation, the characters that follow, and their number.

    A piece that shares half of its characters in a row with one before it is left out: sequences
    have to be independent.
    """
    documentation = " ".join(topics[name] for name in sorted(topics))
    letters = " ".join(documentation.split()).lower()
    length = LETTERS + 1
    half = LETTERS // 2
    starts = np.random.default_rng(0).permutation(len(letters) // length) * length
    seen: set[str] = set()  # runs of characters, half as long as a piece
    pieces: list[str] = []
    for start in starts.tolist():
        piece = letters[start : start + length]
        runs = {piece[place : place + half] for place in range(half + 2)}
        if seen.isdisjoint(runs):
            pieces.append(piece)
            seen |= runs
        if len(pieces) == TRAINED + UNSEEN:
            break
    alphabet = {letter: code for code, letter in enumerate(sorted(set(letters)))}
    codes = torch.tensor([[alphabet[letter] for letter in piece] for piece in pieces])
    return codes[:, :-1], codes[:, 1:], len(alphabet)


def language_model() -> None:
    """Train the language model, and diagnose it on text that it has not seen."""
    pieces, following, characters = text()
    torch.manual_seed(0)
    net = LanguageModel(characters)
    readers.fit(net, pieces[:TRAINED], following[:TRAINED], epochs=3)
    unseen = pieces[TRAINED:], following[TRAINED:]
    found = diagnose(net, unseen, source="target", n_sequences=TRAINED, progress=False)
    found.save(FOLDER / "language-model.nc")


def forecasts() -> None:
    """Train four forecasters on half of the houses, and record their errors on the other."""
    hours, next_hour = readers.loads()
    half = len(hours) // 2
    back = readers.DAY - 1
    with_yesterday = torch.cat([hours[:, back:], hours[:, :-back]], dim=-1)
    designs: dict[str, tuple[Tensor, Callable[[], nn.Module]]] = {
        "plain": (hours, readers.Forecaster),
        "keeping": (hours, functools.partial(readers.Forecaster, keep=3.0)),
        "the day before as an input": (
            with_yesterday,
            functools.partial(readers.Forecaster, inputs=2),
        ),
        "convolutions": (hours, readers.Convolutions),
    }
    constant = next_hour[half:].var().item()
    rows = []
    for seed in range(FORECAST_SEEDS):
        for name, (inputs, design) in designs.items():
            torch.manual_seed(seed)
            net = design()
            for look in range(1, LOOKS + 1):  # Adam begins anew after each
                readers.fit(net, inputs[:half], next_hour[:half], epochs=PASSES, seed=look)
                with torch.no_grad():
                    errors = (net(inputs) - next_hour).square() / constant
                row = {"forecaster": name, "seed": seed, "passes": look * PASSES}
                row["error, trained houses"] = errors[:half].mean().item()
                rows.append(row | {"error left": errors[half:].mean().item()})
    pd.DataFrame(rows).to_csv(FOLDER / "forecasts.csv", index=False)


def gates() -> None:
    """Measure untrained ConstGates at four gates, three seeds each, at lag 13."""
    observed = []
    for gate in GATES:
        config = experiment.Config.named("quick").replace(
            models=["ConstGate"],
            seeds=[212, 1001, 2002],
            network={"gate_init": gate},
            task={"lags": [13], "coefficients": [1.0]},
        )
        settings = config.diagnostics.model_copy(update={"lags": (13, 19), "orders": ("zeroth",)})
        for (_, seed), member in experiment.networks(config, trained=False).items():
            sequences = experiment.fresh_sequences(config, seed, 768)
            observed.append(observe(member, sequences, settings, seed, ["target"]))
    every = xr.concat(observed, "network")
    every = every.isel(probe=np.isin(every.view, ["zeroth", "gradient"]))
    measured = signal_and_noise(every).assign(envelope=every.envelope).sel(lag=13)
    about = {"name": "gates", "fingerprint": "gates"} | results.environment()
    results.save(measured.assign_attrs(about), FOLDER / "gates.nc")


def descent() -> None:
    """Descend as in the companion's Theorem 1, from three starts, for four numbers of steps."""
    rng = np.random.default_rng(13)
    problem = Problem(
        "tanh",
        alpha=0.5,
        length=8,
        dimension=2,
        sequences=4,
        recurrent_bound=0.4,
        input_bound=0.6,
    )
    study(problem, rng)  # of the chapter, which draws first
    rows = []
    names: tuple[Any, ...] = SMOOTH
    for name in names:
        one = study(replace(problem, activation=name), rng)
        first = np.square(one.targets).sum(axis=1).mean()
        for steps in (1, 10, 100, 1000):
            for start, run in enumerate(descents(one, 256, steps, 3, rng)):
                left = run.risks.min() / run.risks[0]
                rows.append((name, steps, start, left, first))
    columns = ["activation", "steps", "start", "risk left", "first risk"]
    pd.DataFrame(rows, columns=columns).to_csv(FOLDER / "descent.csv", index=False)


def far_number() -> None:
    """Detect the far number of adding from all lags at which it comes, before training."""
    rows = []
    for gate, seed in itertools.product(dose.GATES, range(1, 7)):
        condition = dose.Condition("MinGRU", gate, "adding", 20)
        learner = Learner(condition, TASKS["adding"](20), seed)
        # it comes 17 to 20 steps back
        found = visible(*gradients(learner, condition, seed, nearest=17))
        rows.append({"gate": gate, "seed": seed, **found})
    pd.DataFrame(rows).to_csv(FOLDER / "far-number.csv", index=False, float_format="%.4g")


def main() -> None:
    """Record all."""
    torch.set_num_threads(1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for record in (language_model, forecasts, gates, descent, far_number):
        record()


if __name__ == "__main__":
    main()
