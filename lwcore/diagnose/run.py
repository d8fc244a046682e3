"""One call: network and data → window."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from lwcore import results, stable
from lwcore.arguments import integer_in, lag_list, one_of, real_in
from lwcore.config import DiagnosticSettings
from lwcore.diagnose.bands import ratio_bands, required
from lwcore.diagnose.diagnosis import Diagnosis
from lwcore.diagnose.numbers import Observation
from lwcore.diagnose.recurrence import first_end
from lwcore.diagnose.subject import SOURCES, Head, Loss, Sequences, Subject
from lwcore.inference import infer
from lwcore.progress import bar
from lwcore.window import learnability_window

FEWEST = 40  # sequences: half of them find directions, and a bootstrap needs twenty numbers
LEVEL = 0.95  # coverage of all intervals
BUDGETS = tuple(2**k for k in range(21))
_LAGS = 24  # lags measured if none are named


def diagnose(
    model: nn.Module,
    batches: Iterable[Any],
    lags: Sequence[int] | None = None,
    *,
    head: Head | None = None,
    loss: Loss | None = None,
    source: str = "error",
    sequences: int = 1024,
    n_sequences: int | None = None,
    budgets: Sequence[int] = BUDGETS,
    error: float = 0.1,
    significance: float = 0.01,
    seed: int = 0,
    progress: bool = True,
) -> Diagnosis:
    """Measure how far back a network's gradient can be seen, and how many sequences that takes.

    The gradient of each sequence's loss is taken apart by lag, Eq. (3), with nothing left out: all layers, all paths, the exact transport
    of the trained weights. A lag's part is looked at along its own mean direction, found on one half of the sequences, and held against
    the noise of the whole gradient along that direction, on the other half. That gives N(ℓ), the sequences needed to tell its sign, and
    the window H_N, the longest lag that N sequences show. A lag counts only if its mean is above zero by Holm's procedure over all lags.

    N(ℓ) and all intervals take noise with a variance, which bounded losses have. Beside them stand the reading with the tails of a stable
    law, and what tells the two apart: the law's goodness of fit, and the exponent with which means concentrate.
    Where a few giants make the noise (an exponent well above 2), intervals cover less than they say.

    With ``source="error"`` this is the loss as it is. What has been learned pulls no more, so a well trained network has a short window:
    it is what could *still* be learned. ``source="target"`` puts the best constant prediction in the place of the network's, as if nothing
    had been learned, with the trained network's transport: which lags carry what the targets ask for. Give a trained network sequences
    that it was not trained on.

    Memory is bounded: the sequences that are read, twice; some dozen arrays of 2²¹ numbers, more only where a single sequence's states or
    the parameters are more; and a number for each lag and parameter. Ctrl-C ends the measurement with what there is
    (`Diagnosis.interrupted`).

    Args:
        model: A `torch.nn.Module` that calls one `torch.nn.LSTM`, `GRU`, `RNN` or cell of `lwcore.cells` once, in one direction and on
            sequences of equal length; or such a module itself. It is run as it is, in evaluation mode, and not changed.
        batches: Pairs of inputs and targets, as a `DataLoader` gives them, or one such pair; read once. Sequences must be independent of
            one another: overlapping pieces of one series are fewer than they look.
        lags: Lags ℓ in steps, strictly increasing, each in 1..T−1; if None some two dozen, up to T−1 where only the last step has a loss
            and T/2 otherwise.
        head: For a recurrent module, what turns its outputs, in its own layout, into predictions; None if they are the predictions.
        loss: Loss of predictions and targets, like `torch.nn.CrossEntropyLoss()`. A sequence's loss is that of a batch which holds it
            alone; a batch's must be the sum or the mean of those. None for cross-entropy where targets are integers, else squared error.
        source: ``"error"`` or ``"target"``.
        sequences: Read so many at the most, at least 40.
        n_sequences: Number of sequences N that the summary speaks of: those you train on, say. As many as were read if None.
        budgets: Numbers of sequences N at which windows are stored, strictly increasing.
        error: Probability ε of naming a wrong sign that N(ℓ) sequences must reach, in (0, 0.5).
        significance: Chance allowed of any false detection among the lags, in (0, 1).
        seed: Seed of the split into halves and of resampling.
        progress: Draw a progress bar.

    Returns:
        The diagnosis.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the network cannot be diagnosed, there are fewer than 40 sequences, or an argument is out of range.
        KeyboardInterrupt: If interrupted before anything was measured.
    """
    one_of("source", source, SOURCES)
    for name, function in (("head", head), ("loss", loss)):
        if function is not None and not callable(function):
            raise TypeError(f"{name} = {function!r}: must be a function, or None.")
    integer_in("sequences", sequences, FEWEST)
    real_in("error", error, "(0, 0.5)")
    real_in("significance", significance, "(0, 1)")
    integer_in("seed", seed, 0)
    if n_sequences is not None:
        integer_in("n_sequences", n_sequences, 1)
    pairs = _pairs(batches)
    first_batch = next(pairs, None)
    if first_batch is None:
        raise ValueError("batches: there are none.")
    subject = Subject(model, head, loss, first_batch)
    data = _gather(subject, first_batch, pairs, sequences)
    scan, delta = subject.read(data.at(slice(0, 8)))
    first, length = first_end(delta), scan.length
    if lags is None:
        furthest = length - 1 if first == length - 1 else max(1, length // 2)
        spread = np.arange(1, furthest + 1) if furthest <= _LAGS else np.geomspace(1, furthest, _LAGS)
        lags = np.unique(spread.round().astype(int)).tolist()
    wanted = lag_list("lags", lags, length)
    settings = DiagnosticSettings(
        sequences=len(data),
        lags=tuple(wanted),
        ends=1,
        directions=1,
        orders=("exact",),
        error=error,
        significance=significance,
        budgets=tuple(budgets),
    )
    if source == "target":
        subject.set_constant([data.at(slice(i, i + 64)) for i in range(0, len(data), 64)])
    observation = Observation(subject, data, wanted, first, seed)
    interrupted = False
    with bar("lw diagnose", observation.total, "sequences", show=progress) as advance:
        try:
            observation.measure(advance)
        except KeyboardInterrupt:
            if not observation.started:
                raise
            interrupted = True
    measured = observation.transport()
    if observation.counted >= FEWEST // 2:
        measured = measured.merge(_inferred(measured, observation.numbers(), settings, seed))
    else:
        measured = measured.merge(_described(measured, settings))
    measured.attrs = _attributes(subject, settings, source, len(data), n_sequences or len(data), scan, seed, interrupted=interrupted)
    return Diagnosis(measured)


def _pairs(batches: Iterable[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Give pairs of tensors, from pairs of tensors or arrays, or one pair."""
    if isinstance(batches, tuple | list) and len(batches) == 2 and all(isinstance(part, Tensor | np.ndarray) for part in batches):
        batches = [batches]
    if not isinstance(batches, Iterable):
        raise TypeError(f"batches is a {type(batches).__name__}: must give pairs of inputs and targets.")
    for number, batch in enumerate(batches):
        if not isinstance(batch, tuple | list) or len(batch) != 2 or not all(isinstance(part, Tensor | np.ndarray) for part in batch):
            kinds = ", ".join(type(part).__name__ for part in batch) if isinstance(batch, tuple | list) else type(batch).__name__
            raise TypeError(f"batches[{number}] is ({kinds}): must be a pair of tensors, inputs and targets.")
        inputs, targets = (torch.as_tensor(part) for part in batch)
        for name, tensor in (("inputs", inputs), ("targets", targets)):
            if bad := int((~tensor.isfinite()).sum()):
                raise ValueError(f"batches[{number}]: {bad} of {tensor.numel()} {name} are NaN or infinite; all must be finite.")
        yield inputs, targets


def _gather(subject: Subject, first: tuple[Tensor, Tensor], rest: Iterator[tuple[Tensor, Tensor]], limit: int) -> Sequences:
    """Read sequences up to a limit and put them together."""
    parts = [subject.front(first)]
    while (have := sum(map(len, parts))) < limit:
        batch = next(rest, None)
        if batch is None:
            break
        part = subject.front(batch)
        for name, tensor, like in (("inputs", part.inputs, parts[0].inputs), ("targets", part.targets, parts[0].targets)):
            if tensor.shape[1:] != like.shape[1:]:
                raise ValueError(
                    f"batches: {name} of batch {len(parts)} do not have the shape of the first; all sequences must be equally long."
                )
        parts.append(part)
    if have < FEWEST:
        raise ValueError(f"batches: hold {have} sequences; at least {FEWEST} are needed, and some hundred give a useful interval.")
    return Sequences(torch.cat([p.inputs for p in parts])[:limit], torch.cat([p.targets for p in parts])[:limit])


def _described(transport: xr.Dataset, settings: DiagnosticSettings) -> xr.Dataset:
    """Infer what needs no numbers: the envelope and the time scales."""
    nothing = xr.DataArray(np.zeros((1, len(settings.lags), 20)), dims=("probe", "lag", "sequence"))
    return _infer(transport, xr.Dataset({"statistic": nothing, "projection": nothing}), settings)[["envelope", "time_scale"]]


def _infer(transport: xr.Dataset, numbers: xr.Dataset, settings: DiagnosticSettings) -> xr.Dataset:
    """Hand rates and numbers to `inference.infer`: one order, one probe."""
    observed = numbers.assign(rate=transport.rate.expand_dims(order=["exact"])).assign_coords(
        view=("probe", ["gradient"]), lag=transport.lag
    )
    return infer(observed, settings).isel(probe=0, order=0, drop=True).drop_vars("view", errors="ignore")


def _inferred(transport: xr.Dataset, numbers: xr.Dataset, settings: DiagnosticSettings, seed: int) -> xr.Dataset:
    """Infer all that follows from the numbers: the choice of chapter 6 among what `inference.infer` gives, with bands and tail fits."""
    inferred = _infer(transport, numbers.expand_dims("probe"), settings)
    rng = np.random.default_rng(seed)
    chosen = inferred.sel(noise_definition="total", reading=["variance", "mean"], drop=True).assign_coords(reading=["variance", "stable"])
    statistic, projection = numbers.statistic.values, numbers.projection.values
    ends = np.stack([required(ratio, settings.error) for ratio in ratio_bands(statistic, projection, rng, LEVEL)[::-1]])
    made = (
        inferred[["envelope", "time_scale", "signal", "signal_error", "detected", "exponent"]]
        .assign(numbers.data_vars)
        .assign(
            required=chosen.required.sel(rule="plug-in", drop=True),
            window=chosen.window.sel(rule="tested", drop=True),
            required_interval=(("bound", "lag"), ends, {"long_name": "interval of N(ℓ), for all lags together", "units": "sequences"}),
        )
    )
    made["window_interval"] = _window_interval(made, settings)
    names = {
        "tail_index": "tail index α of a stable law fitted to one sequence's numbers",
        "tail_scale": "stable scale σ of one sequence's numbers",
        "goodness_of_fit": "p-value of the fit: small where the numbers are not stable",
    }
    fits = [_tail(values, rng) for values in (statistic, projection)]
    for name, parts in zip(names, zip(*fits, strict=True), strict=False):
        made[name] = (("noise_definition", "lag"), np.stack(parts), {"long_name": names[name]})
    made["tail_index_interval"] = (
        ("bound", "noise_definition", "lag"),
        np.stack([fit[3] for fit in fits], axis=1),
        {"long_name": "interval of the tail index"},
    )
    return made.assign_coords(bound=["low", "high"], noise_definition=["lag", "total"])


def _window_interval(made: xr.Dataset, settings: DiagnosticSettings) -> xr.DataArray:
    """Read windows off the ends of the bands: what is certain, and what cannot be excluded."""
    ends = made.required_interval.assign_coords(bound=["low", "high"])
    needed = xr.concat([ends.sel(bound="high").where(made.detected, np.inf), ends.sel(bound="low")], xr.Variable("bound", ["low", "high"]))
    windows = [
        learnability_window(settings.lags, needed.transpose("bound", "lag").values, settings.budgets, definition=definition)
        for definition in made.definition.values
    ]
    return xr.DataArray(
        np.stack(windows, axis=1),
        dims=("bound", "definition", "budget"),
        attrs={"long_name": "interval of the learnability window H_N", "units": "steps"},
    )


def _tail(values: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Fit a stable law to every lag's numbers (lags, sequences): α, scale, p-value of the fit, and the ends of α's interval (2, lags)."""
    fitted = stable.fit(values.T, confidence=LEVEL)
    replicates = math.ceil(2 * len(values) / (1 - LEVEL))  # so many that a test over all lags can reject
    goodness = stable.goodness_of_fit(values.T, fitted, rng, max(199, replicates))
    return np.asarray(fitted.alpha), np.asarray(fitted.scale), np.asarray(goodness.p_value), np.stack(fitted.alpha_interval)


def _attributes(
    subject: Subject, settings: DiagnosticSettings, source: str, read: int, n_sequences: int, scan: Any, seed: int, *, interrupted: bool
) -> dict[str, Any]:
    """Say how the measurement was made."""
    recurrence = subject.recurrence
    layers = int(recurrence.layer[-1]) + 1
    hidden = len(recurrence.layer) // layers
    network = f"{type(subject.module).__name__}, {layers} layer{'s' * (layers > 1)} of {hidden}"
    described = {
        "name": "diagnosis",
        "description": "learnability window of a network trained elsewhere",
        "network": network,
        "loss": subject.loss_name,
        "source": source,
        "measured_on": f"{read} sequences of {scan.length} steps, half for directions, half for numbers",
        "n_sequences": n_sequences,
        "level": LEVEL,
        "seed": seed,
        "interrupted": int(interrupted),
        "configuration": json.dumps(settings.model_dump()),
    }
    fingerprint = hashlib.sha256(json.dumps(described).encode()).hexdigest()[:12]
    return described | {"fingerprint": fingerprint} | results.environment()
