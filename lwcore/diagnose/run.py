"""One call: network and data → window."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from torch import nn

from lwcore import results
from lwcore.arguments import increasing_integers, integer_in, lag_list, one_of, real_in
from lwcore.config import DiagnosticSettings
from lwcore.diagnose.batches import Batch, Sequences, pairs
from lwcore.diagnose.diagnosis import Diagnosis
from lwcore.diagnose.inferred import LEVEL, described, inferred
from lwcore.diagnose.listening import Head
from lwcore.diagnose.losses import Loss
from lwcore.diagnose.numbers import Observation
from lwcore.diagnose.recurrence import first_end
from lwcore.diagnose.subject import SOURCES, AxesWarning, Subject
from lwcore.diagnose.words import plural
from lwcore.progress import bar

FEWEST = 40  # sequences: half of them find directions, and a bootstrap needs twenty numbers
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

    Intervals speak of the directions that were found: of N(ℓ) and the window along them, as a very large sample would give them. They do
    not speak of the directions that all sequences there are would give: from few sequences a direction is found only in part, N(ℓ) along it
    is then mostly larger, and fresh sequences, or another ``seed``, find others. `lwcore.diagnose.bands` says how often each was covered.

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
            one another: overlapping pieces of one series are fewer than they look. The summary says how many sequences of how many steps
            were read; an `AxesWarning` says where the two may be swapped.
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
        if isinstance(function, type):
            kind = function.__name__
            raise TypeError(f"{name} = {kind}, a class: must be a function, or an instance of it, as {kind}(…) gives one.")
    integer_in("sequences", sequences, FEWEST)
    real_in("error", error, "(0, 0.5)")
    real_in("significance", significance, "(0, 1)")
    integer_in("seed", seed, 0, 2**63 - 1)
    if n_sequences is not None:
        integer_in("n_sequences", n_sequences, 1)
    budgets = increasing_integers("budgets", budgets, 1)
    lags = lags if lags is None else lag_list("lags", lags)
    given = pairs(batches)
    first_batch = next(given, None)
    if first_batch is None:
        raise ValueError("batches: there are none.")
    subject = Subject(model, head, loss, first_batch)
    length = subject.read_as[1]
    if lags is not None:
        lag_list("lags", lags, length)
    if doubt := subject.doubt(getattr(batches, "batch_size", None)):
        warnings.warn(doubt, AxesWarning, stacklevel=2)
    data = _gather(subject, first_batch, given, sequences)
    subject.check(data)  # the first batch may have held a single sequence
    if source == "target":
        if bool((data.targets == data.targets[:1]).all()):
            raise ValueError("batches: all targets are the same, so the best constant has no error; source must be 'error'.")
        subject.set_constant(list(data.parts(64)))
    first = _first_end(subject, data)
    wanted = _spread(length - 1 if first == length - 1 else max(1, length // 2)) if lags is None else list(lags)
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
        measured = measured.merge(inferred(measured, observation.numbers(), settings, seed))
    else:
        measured = measured.merge(described(measured, settings))
    measured.attrs = _attributes(subject, settings, source, len(data), n_sequences or len(data), seed, interrupted=interrupted)
    return Diagnosis(measured)


def _spread(furthest: int) -> list[int]:
    """Choose lags up to one: all, or some two dozen at about equal ratios."""
    every = np.arange(1, furthest + 1) if furthest <= _LAGS else np.geomspace(1, furthest, _LAGS)
    return np.unique(every.round().astype(int)).tolist()


def _gather(subject: Subject, first: Batch, rest: Iterator[Batch], limit: int) -> Sequences:
    """Read sequences up to a limit and put them together."""
    parts = [subject.front(first)]
    while (have := sum(map(len, parts))) < limit:
        batch = next(rest, None)
        if batch is None:
            break
        parts.append(subject.front(batch))
    data = Sequences.joined(parts, limit)
    if have < FEWEST:
        raise ValueError(
            f"batches: hold {have} sequences, the first batch read as {subject.reading}; at least {FEWEST} are needed, and some hundred "
            f"give a useful interval.{subject.ear.hint()}"
        )
    return data


def _first_end(subject: Subject, data: Sequences) -> int:
    """Say from which step on there is a loss, by a few sequences whose loss pulls at all."""
    for part in data.parts(8):
        _, delta = subject.read(part)
        if delta.any():
            return first_end(delta)
    raise ValueError(f"loss ({subject.loss_name}): its gradient is 0 for every one of {len(data)} sequences; nothing pulls at the network.")


def _attributes(
    subject: Subject, settings: DiagnosticSettings, source: str, read: int, n_sequences: int, seed: int, *, interrupted: bool
) -> dict[str, Any]:
    """Say how the measurement was made."""
    recurrence = subject.recurrence
    layers = int(recurrence.layer[-1]) + 1
    hidden = len(recurrence.layer) // layers
    network = f"{type(subject.module).__name__}, {plural(layers, 'layer')} of {hidden}"
    described = {
        "name": "diagnosis",
        "description": "learnability window of a network trained elsewhere",
        "network": network,
        "loss": subject.loss_name,
        "source": source,
        "measured_on": f"read as {subject.reading_of(read)}: half for directions, half for numbers",
        "n_sequences": n_sequences,
        "level": LEVEL,
        "seed": seed,
        "interrupted": int(interrupted),
        "configuration": json.dumps(settings.model_dump()),
    }
    fingerprint = hashlib.sha256(json.dumps(described).encode()).hexdigest()[:12]
    return described | {"fingerprint": fingerprint} | results.environment()
