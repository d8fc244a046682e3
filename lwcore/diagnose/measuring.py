"""The learnability window of your own network, trained elsewhere, on your own data.

In three lines::

    from lwcore.diagnose import diagnose
    found = diagnose(net.eval(), loader, loss=torch.nn.CrossEntropyLoss())
    found  # or print it, draw it with ``found.plot()``, take ``found.data``
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
import xarray as xr
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.data import Dataset

from lwcore import inference, results, stable
from lwcore.ambient import generators_of, gradients_followed, random_states_kept
from lwcore.diagnose.adapter import Adapter, Function, Pair, gathered, on_trial
from lwcore.diagnose.recurrent import Loop, Recurrent, recurrent_modules, step_of
from lwcore.diagnose.report import LEVEL, SIGN_DRAWS, Diagnosis
from lwcore.diagnose.uses import Uses
from lwcore.gradient import unit_length
from lwcore.inference import described, sequences_needed
from lwcore.results import bar
from lwcore.signatures import Count, Index, Lags, checked, require, warn
from lwcore.trace import Trace
from lwcore.transport import exact_rates_and_share
from lwcore.window import time_scales

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]  # jaxtyping cannot read NDArray

FEWEST = 40  # sequences: half of them find directions, and a bootstrap needs twenty numbers
TRANSPORTED, ENDS = 16, 4  # sequences whose whole transport is formed, and end points of each
ERROR = 0.1  # chance of a wrong sign from N(ℓ) sequences
SIGNIFICANCE = 0.01  # chance that any lag is detected where there is none
_RESAMPLES, _LAGS = 1000, 24  # of the bootstrap; lags measured if none are named


def _undisturbed(function: Callable[..., Diagnosis]) -> Callable[..., Diagnosis]:
    """A diagnosis that the caller's modes do not change, and that changes no random numbers."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Diagnosis:
        batches = inspect.signature(function).bind(*args, **kwargs).arguments["batches"]
        with random_states_kept(generators_of(batches)), gradients_followed():
            return function(*args, **kwargs)

    return call


@checked
@_undisturbed
def diagnose(
    model: nn.Module,
    batches: Iterable[Any] | Dataset[Any],
    lags: Lags | Literal["auto"] = "auto",
    *,
    head: Function | None = None,
    loss: Function | None = None,
    step: nn.Module | None = None,
    parameters: Sequence[str] | None = None,
    source: Literal["error", "target"] = "error",
    sequences: Count = 1024,
    n_sequences: Count | None = None,
    seed: Index = 0,
    progress: bool = True,
) -> Diagnosis:
    """Window of a network: how far back its gradient can be seen, and from how many sequences.

    The gradient of each sequence's loss is taken apart by lag, Eq. (3), with nothing left out. A
    lag's part is looked at along its own mean direction, found on one half of the sequences, and
    held against the noise of the whole gradient along that direction, on the other half. That gives
    N(ℓ), the sequences needed to tell its sign with a chance `ERROR` of the wrong one. A lag counts
    only if its mean is above zero by Holm's procedure over all lags, at the level `SIGNIFICANCE`.
    ``source="error"`` takes the loss as it is, ``"target"`` that of the best constant prediction:
    as if nothing had been learned, with the transport that there is. ``lags="auto"`` takes up to
    24, to the first step or, with a loss before the last step, to half the length.

    `model` is causal, and takes sequences of equal length. If it calls one `torch.nn.LSTM`, `GRU`,
    `RNN` or cell of `lwcore.cells` once, or one module in every step (which `step` names, of
    several), as ``state = module(x, state)``, it is read as that recurrence; otherwise by the times
    at which its parameters are used (see `lwcore.diagnose.uses`). Frozen parameters are not learned
    and do not count, and a module that holds some is no such recurrence; `parameters` chooses
    others, by names of parameters or modules. `head` turns what the model gives into predictions.
    The model runs as it is. What the chosen way assumes is tried, and refused if it fails.

    `batches` are pairs of inputs and targets, or one pair, of independent sequences that a trained
    network has not seen; or a map-style dataset of such pairs, of one sequence each. Random numbers
    are drawn from generators of its own, and the states of all others are left as they were.

    `loss` is, of a batch, the sum or mean of what each sequence has alone;
    None for cross-entropy where targets are integers, else squared error. The summary speaks of
    `n_sequences`, those you train on, say.
    """
    require("sequences", sequences, sequences >= FEWEST, f"a whole number, {FEWEST} or above")
    trainable = not any(part.is_inference() for part in model.parameters())
    words = "one that was made outside of torch.inference_mode()"
    require("model", type(model).__name__, trainable, words)
    environment = results.environment()  # before the work: what fails, fails now
    seed = int(seed)
    wanted = None if n_sequences is None else int(n_sequences)

    def adapter(batch: Pair) -> Adapter:
        if step is None and parameters is not None:
            return Uses(model, batch, head, loss, parameters)
        if step is None and len(recurrent_modules(model)) == 1:
            return Recurrent(model, batch, head, loss)
        looped = step or step_of(model, next(on_trial(*batch))[1])
        if looped is None:
            return Uses(model, batch, head, loss)
        require("step", type(looped).__name__, looped in {*model.modules()}, "one of model's")
        return Loop(model, batch, head, loss, looped)

    network, (inputs, targets) = gathered(adapter, batches, sequences)
    _, length, width = network.shape
    read_as = f"read as {len(inputs):,} sequences of {length:,} steps of width {width}"
    words = f"at least {FEWEST} sequences of at least 2 steps (are axes swapped?)"
    require("batches", read_as, len(inputs) >= FEWEST and length >= 2, words)
    network.check(inputs, targets)
    aside = network.aside(inputs)
    if again := repeated(inputs.reshape(*inputs.shape[:2], -1).cpu().double().numpy()):
        told = f"{again:,} sequences repeat half or more of another one."
        aside += f" {told}"
        worth = "worth fewer sequences than their number, and show lags that are not there"
        warn(f"{told} These are {worth}.")
    if source == "target":
        differ = bool((targets != targets[:1]).any())
        require("source", source, differ, "'error' where all targets are the same")
        targets = network.forget(inputs, targets)
    elif not network.beats_constants(inputs, targets):
        aside += " The model predicts no better than a constant: use source='target'."
    few = min(8, network.at_once)
    readings = map(network.read, inputs.split(few), targets.split(few))
    first = next((at for reading in readings if (at := reading.first) >= 0), -1)
    require("loss", network.loss_name, first >= 0, "one whose gradient is not always 0")
    if isinstance(lags, str):
        furthest = length - 1 if first == length - 1 else max(1, length // 2)
        spaced = np.linspace if furthest <= _LAGS else np.geomspace
        lags = np.unique(spaced(1, furthest, min(_LAGS, furthest)).round().astype(int)).tolist()
    lags = [int(lag) for lag in lags]
    require("lags", lags, lags[-1] < length, f"below the number of steps, {length}")
    found = _inferred(_measured(network, (inputs, targets), lags, first, seed, progress), seed)
    attrs = {
        "network": network.kind,
        "aside": aside,
        "loss": network.loss_name,
        "source": source,
        "measured_on": f"{read_as}: half for directions, half for numbers",
        "n_sequences": wanted or len(inputs),
        "seed": seed,
    }
    attrs["fingerprint"] = hashlib.sha256(json.dumps(attrs).encode()).hexdigest()[:12]
    attrs["end_points"] = length - first  # of a sequence, at the most
    return Diagnosis(found.assign_attrs(attrs | environment))


def repeated(inputs: Float[Array, "B T D"]) -> int:
    """How many sequences begin with half or more of the steps of another one, in their order.

    None where steps are so few of a kind that chance alone would do it.
    """
    count, length, width = inputs.shape
    half, vector = max(1, length // 2), np.random.default_rng(0).standard_normal(width)
    codes = pd.factorize((inputs @ vector).ravel())[0].reshape(count, length)
    often = np.bincount(codes.ravel()) / codes.size
    if 2 * np.log(count) + np.log(length) + half * np.log(np.square(often).sum()) > np.log(0.01):
        return 0
    while (steps := length - codes.shape[1] + 1) < half:  # of pieces; next to twice as many
        more = min(steps, half - steps)
        both = codes[:, :-more] * codes.size + codes[:, more:]
        codes = pd.factorize(both.ravel())[0].reshape(both.shape)
    owners = np.repeat(np.arange(count), codes.shape[1])
    held = pd.Series(owners).groupby(codes.ravel()).nunique()
    return int((held[codes[:, 0]] > 1).sum())


def _measured(
    network: Adapter, data: Pair, lags: list[int], first: int, seed: int, progress: bool
) -> xr.Dataset:
    """The transport, and each sequence's part of each lag and whole gradient along w(ℓ).

    A random half of the sequences gives each lag's mean gradient w(ℓ), the other half the numbers;
    `first` is the first step with a loss. The transport is that of the one recurrence, if any.
    """
    order = torch.randperm(len(data[0]), generator=torch.Generator().manual_seed(seed))
    finding, giving = order.to(data[0].device).tensor_split([len(order) // 2])

    def readings(half: Tensor, of: str) -> Iterator[Any]:
        with bar(f"lw diagnose, {of}", len(half), progress) as advance:
            for piece in zip(*(part[half].split(network.at_once) for part in data), strict=True):
                yield network.read(*piece)
                advance(len(piece[0]))

    directions: Any = 0
    for reading in readings(finding, "directions"):
        directions += reading.lag_vectors(lags)
    directions = unit_length(directions)
    numbers, carried = [], []
    for place, reading in enumerate(readings(giving, "numbers")):
        left = TRANSPORTED - place * network.at_once
        if isinstance(network, Recurrent) and left > 0:
            carried.append(_transport(reading.trace, left, lags, first))
        numbers.append(reading.numbers(directions, lags))
    measured = _envelope(carried, lags) if carried else {}
    statistic, projection = torch.cat(numbers, dim=-1).numpy()
    measured |= {
        "statistic": (("lag", "sequence"), statistic, "the lag's part along its mean direction"),
        "projection": (("lag", "sequence"), projection, "the whole gradient along the same"),
    }
    named = ("lag", lags, {"long_name": "lag ℓ", "units": "steps"})
    return described(measured).assign_coords(lag=named)


def _transport(trace: Trace, few: int, lags: list[int], first: int) -> tuple[Tensor, Tensor]:
    """Exact rates, and the share beside them, of the first few sequences at some end points."""
    some = replace(trace, inputs=trace.inputs[:few], history=trace.history[:few])
    ends = np.linspace(max(lags[-1], first), trace.length - 1, ENDS).round().astype(int)
    ends, kept = np.unique(ends), _diagonals(some)
    if kept is None:
        return exact_rates_and_share(some, lags, ends.tolist())
    rates = torch.stack([kept.unfold(1, n, 1)[:, ends + 1 - n].prod(-1) for n in lags], 2)
    return rates, 0 / rates.any(-1).to(rates)  # NaN where nothing arrives, as there


def _diagonals(trace: Trace) -> Tensor | None:
    """The diagonals of all one-step Jacobians, (B, T, S), if there is nothing beside them.

    Then a row of random numbers through each is the row of ones through it, times these numbers:
    exactly, as rounding could hide something. Else all is carried back.
    """
    rows, diagonals = torch.ones(2, trace.history.shape[-1]).to(trace.history), None
    rows[1].normal_(generator=torch.Generator(rows.device).manual_seed(0))
    for steps in (slice(1), slice(None)):  # the first tells most recurrences
        each = rows.expand(*trace.states[:, steps].shape[:2], -1, -1)
        diagonals, drawn = trace.jacobian(steps).pull(each).unbind(-2)
        if trace.hidden_size < rows.shape[1] or not torch.equal(drawn, diagonals * rows[1]):
            return None
    return diagonals


def _envelope(carried: list[tuple[Tensor, Tensor]], lags: list[int]) -> dict[str, Any]:
    """Envelope, time scales and share beside the diagonal, of all that was carried back."""
    size, share = (torch.cat(parts).abs() for parts in zip(*carried, strict=True))
    rate, envelopes = size.mean((0, 1)).numpy(), size.sum(-1).mean(1)
    error = envelopes.std(0).numpy() / len(envelopes) ** 0.5
    beside = share.nanmean((0, 1)).numpy()
    return {
        "rate": (("lag", "unit"), rate, "mean absolute effective rate"),
        "envelope": ("lag", rate.sum(-1), "envelope f(ℓ), per unit of global learning rate"),
        "envelope_error": ("lag", error, "standard error of the envelope, over sequences"),
        "off_diagonal": ("lag", beside, "share of the transport beside its diagonal"),
        "time_scale": ("unit", time_scales(lags, rate), "time scale τ of a neuron, in steps"),
    }


def _inferred(measured: xr.Dataset, seed: int) -> xr.Dataset:
    """What was measured, with N(ℓ), its bands, and tails, from a statistic and projections."""
    statistic, projection = measured.statistic.values, measured.projection.values
    rng, count = np.random.default_rng(seed), statistic.shape[-1]
    low, ratio, high = ratio_bands(statistic, projection, rng)
    gaussian = 1 / np.sqrt(2), 2.0  # stable scale and index of noise with the variance 1
    needed, *around = (sequences_needed(r, *gaussian, error=ERROR) for r in (ratio, high, low))
    false = inference.false_detections(statistic[None], SIGNIFICANCE, rng, SIGN_DRAWS)
    mean, error = statistic.mean(-1), inference.deviation(statistic) / np.sqrt(count)
    seen = inference.significant(mean[None], error[None], count, SIGNIFICANCE)[0]
    exponent, fit = inference.exponent_of_means(projection), stable.fit(projection.T)
    middle = pd.Series(fit.alpha).median()  # NaN where every lag's part is zero
    stably = sequences_needed(mean, fit.scale, middle, error=ERROR)
    found = {
        "signal": ("lag", mean, "mean of the lag's part"),
        "detected": ("lag", seen, "mean above zero at the family-wise level"),
        "required": ("lag", needed, "sequences N(ℓ) needed to detect the lag"),
        "required_interval": (("bound", "lag"), around, "interval of N(ℓ), for all lags together"),
        "required_if_stable": ("lag", stably, "N(ℓ) by a stable law of the median α"),
        "false_windows": ([], false, f"of {SIGN_DRAWS} draws of signs, those that show any lag"),
        "exponent": ("lag", exponent, "exponent p with which means of sequences concentrate"),
        "tail_index": ("lag", fit.alpha, "tail index α of a sequence's whole gradient"),
    }
    return measured.merge(described(found)).assign_coords(bound=["low", "high"])


def ratio_bands(
    statistic: Float[Array, "lags sequences"],
    projection: Float[Array, "lags sequences"],
    rng: np.random.Generator,
) -> Float[Array, "3 lags"]:
    """Band around every lag's signal-to-noise ratio: low, the ratio itself, high.

    By the bootstrap over sequences: standard errors times a quantile of the largest deviation of
    any lag, so that all true ratios lie inside with the chance `LEVEL`, about. In simulations 95 %
    held 93 to 98 % of the time for Gaussian and Student-t(5) numbers, 81 to 88 % for log-normal
    ones. That is along the directions found: of 1000 draws of 200 sequences from four networks 92
    to 96 % had all true ratios inside, and 17 to 82 % those along the mean gradients of all
    sequences there are.
    """
    # of each lag in units of its largest number, as squares of the smallest would vanish
    size = np.maximum(*(np.abs(part).max(-1, keepdims=True) for part in (statistic, projection)))
    signal, whole = ((part / np.where(size > 0, size, 1)).T for part in (statistic, projection))
    count, centred = len(signal), whole - whole.mean(0)

    def ratio(weights: Array) -> Array:
        variance = (weights @ centred**2 - (weights @ centred) ** 2) * count / (count - 1)
        mean, noise = weights @ signal, np.sqrt(np.maximum(variance, 0.0))
        return np.divide(mean, noise, where=variance > 0, out=np.zeros_like(mean))

    equal = np.full(count, 1 / count)
    plain = ratio(equal[None])[0]
    deviations = ratio(rng.multinomial(count, equal, size=_RESAMPLES) / count) - plain
    error = deviations.std(0)
    largest = np.abs(deviations / np.where(error > 0, error, np.inf)).max(-1)
    half = np.quantile(largest, LEVEL) * error
    return np.stack([plain - half, plain, plain + half])
