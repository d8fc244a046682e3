"""How often `diagnose` detects a lag where there is none: padded, masked, weighted, heavy, rare.

A small network's predictions are taken apart once, by brute force: one copy of the parameters for
each step. Targets are drawn anew many times, independent of the inputs (``source="target"``), or as
the predictions and noise whose mean is 0 (``source="error"``). The level is 1 %, over all lags.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.func import jacrev, vmap
from torch.nn import functional

from lwcore.diagnose.contract import Rows
from lwcore.diagnose.inferred import detected
from lwcore.diagnose.losses import Untrained
from lwcore.printing import Unit, printed
from lwcore.stats import binomial

FILE = Path(__file__).parents[1] / "book" / "results" / "trust" / "false-alarms.csv"
LENGTH, POOL, HIDDEN = 10, 600, 3
DRAWS = 200
SIZES = (40, 200)
SOURCES = ("target", "error")
PLANTED = 3  # the lag of those draws in which there is one
PADDINGS = ("none", "behind", "in front, weighted")
NOISES: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "Gaussian": lambda rng, shape: 5 + rng.standard_normal(shape),
    "Cauchy": lambda rng, shape: rng.standard_cauchy(shape),
    "log-normal": lambda rng, shape: rng.lognormal(0, 1, shape),
    "one in 10": lambda rng, shape: (rng.random(shape) < 0.1) * 1.0,
    "one in 30": lambda rng, shape: (rng.random(shape) < 1 / 30) * 1.0,
}
MEANS = {
    "Gaussian": 5,
    "Cauchy": 0,
    "log-normal": np.exp(0.5),
    "one in 10": 0.1,
    "one in 30": 1 / 30,
}
CLASSES = "3 classes"


class Parts(NamedTuple):
    """A network's predictions for some inputs, and their gradients taken apart by lag."""

    inputs: Tensor  # (B, T)
    weights: Tensor  # (B, T) of each loss; 0 where it is left out
    predictions: Tensor  # (B, K), K = T times the numbers of a step
    by_lag: np.ndarray  # (B, K, lags, P)


def parts(padding: str, n_outputs: int) -> Parts:
    """Take a network apart for inputs that are padded at one of their ends, or not."""
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    parameters = {
        "gate": 0.3 * drawn(HIDDEN, HIDDEN + 1),
        "state": 0.5 * drawn(HIDDEN, HIDDEN + 1),
        "bias": 0.1 * drawn(HIDDEN),
    }
    out = drawn(n_outputs, HIDDEN)
    inputs = drawn(POOL, LENGTH)
    lengths = torch.randint(3, LENGTH + 1, (POOL, 1), generator=generator)
    steps = torch.arange(LENGTH)
    weights = torch.ones_like(inputs)
    if padding == "behind":
        weights = (steps < lengths).double()
    elif padding != "none":  # each loss is a mean over the steps of its sequence
        weights = (steps >= LENGTH - lengths).double() / lengths
    inputs = inputs * weights.ne(0)

    def predict(copies: dict[str, Tensor], sequence: Tensor) -> Tensor:
        state = torch.zeros(HIDDEN, dtype=torch.float64)
        given = []
        for step in range(LENGTH):
            both = torch.cat([state, sequence[step : step + 1]])
            gate = torch.sigmoid(copies["gate"][step] @ both)
            new = torch.tanh(copies["state"][step] @ both + copies["bias"][step])
            state = (1 - gate) * state + gate * new
            given.append(out @ state)
        return torch.stack(given)

    copies = {}
    for name, own in parameters.items():
        copies[name] = own.expand(LENGTH, *own.shape)
    predictions = vmap(predict, (None, 0))(copies, inputs)
    gradients = vmap(jacrev(predict), (None, 0))(copies, inputs)  # (B, T, outputs, T, …)
    by_use = torch.cat([own.flatten(4) for own in gradients.values()], -1)
    by_lag = torch.zeros_like(by_use)
    for lag in range(LENGTH):
        for step in range(lag, LENGTH):
            by_lag[:, step, :, lag] = by_use[:, step, :, step - lag]
    return Parts(inputs, weights, predictions.flatten(1), by_lag.flatten(1, 2).numpy())


def squared(predictions: Tensor, targets: tuple[Tensor, Tensor]) -> Tensor:
    """Return each sequence's weighted squared errors."""
    wanted, weights = targets
    return (weights * (predictions - wanted).square()).sum(1)


def cross_entropy(predictions: Tensor, targets: tuple[Tensor, Tensor]) -> Tensor:
    """Return each sequence's weighted cross-entropy."""
    wanted, weights = targets
    logits = predictions.unflatten(1, (LENGTH, -1)).mT
    return (weights * functional.cross_entropy(logits, wanted, reduction="none")).sum(1)


def pulls(source: str, loss: Callable[..., Tensor], given: Tensor, targets: tuple) -> np.ndarray:
    """Return the gradient of each sequence's loss in its predictions, as `diagnose` takes it."""
    if source == "target":
        rows = Rows(targets)

        def losses(predictions: Tensor, some: Rows, _: int) -> Tensor:
            return loss(predictions, some.leaves)

        untrained = Untrained(losses, given.mean(0, keepdim=True), [rows])
        return untrained.pulls(rows).numpy()
    leaf = given.clone().requires_grad_()
    (gradients,) = torch.autograd.grad(loss(leaf, targets).sum(), leaf)
    return gradients.numpy()


def lags_detected(own: np.ndarray, pulls: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return which lags are detected, from 1 on, with directions of one half of the sequences."""
    of_lags = np.einsum("bklp,bk->blp", own, pulls, optimize=True)[:, 1:]
    order = rng.permutation(len(of_lags))
    finding, giving = np.array_split(order, 2)
    directions = of_lags[finding].mean(0)
    lengths = np.linalg.norm(directions, axis=-1, keepdims=True)
    directions = np.divide(directions, lengths, out=np.zeros_like(directions), where=lengths > 0)
    statistic = np.einsum("blp,lp->lb", of_lags[giving], directions)
    sizes = np.linalg.norm(pulls[giving], axis=-1)
    return detected(np.ascontiguousarray(statistic), sizes)


def count(source: str, padding: str, noise: str, size: int, own: Parts, planted: bool) -> int:
    """Count the draws in which any lag is detected, or the planted one."""
    rng = np.random.default_rng(1)
    n_found = 0
    for _ in range(DRAWS):
        places = rng.choice(POOL, size, replace=False)
        given = own.predictions[places]
        weights = own.weights[places]
        if noise == CLASSES:
            shares = np.full((size, LENGTH, 3), [0.6, 0.3, 0.1])
            if source == "error":
                shares = given.unflatten(1, (LENGTH, 3)).softmax(-1).numpy()
            drawn = (rng.random((size, LENGTH, 1)) > shares.cumsum(-1)).sum(-1)
            wanted = torch.from_numpy(drawn).clamp(max=2)
        else:
            wanted = torch.from_numpy(NOISES[noise](rng, (size, LENGTH)))
            if source == "error":
                wanted = given + wanted - MEANS[noise]
            if planted:
                wanted = wanted + own.inputs[places].roll(PLANTED, 1)
        loss = cross_entropy if noise == CLASSES else squared
        try:
            pulling = pulls(source, loss, given, (wanted, weights))
        except ValueError:  # all targets are the same: refused
            continue
        found = lags_detected(own.by_lag[places], pulling, rng)
        n_found += bool(found[PLANTED - 1] if planted else found.any())
    return n_found


def main() -> None:
    """Measure, print and record."""
    torch.set_num_threads(1)
    rows = []
    for padding in PADDINGS:
        of_outputs = {n_outputs: parts(padding, n_outputs) for n_outputs in (1, 3)}
        for noise, source, size in itertools.product((*NOISES, CLASSES), SOURCES, SIZES):
            own = of_outputs[3 if noise == CLASSES else 1]
            for planted in (False, True) if noise == "Gaussian" else (False,):
                hits = count(source, padding, noise, size, own, planted)
                _, low, high = binomial(hits, DRAWS)
                share = printed(hits / DRAWS, low, high, unit=Unit.SHARE)
                what = "planted" if planted else "none"
                rows.append((source, padding, noise, size, what, DRAWS, hits, low, high))
                print(*rows[-1][:7], share, flush=True)
    names = ["source", "padding", "noise", "sequences", "lag", "draws", "detected", "low", "high"]
    pd.DataFrame(rows, columns=names).round(4).to_csv(FILE, index=False)


if __name__ == "__main__":
    main()
