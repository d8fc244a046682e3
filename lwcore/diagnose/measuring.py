"""The learnability window of your own network, trained elsewhere, on your own data.

In three lines::

    from lwcore.diagnose import diagnose
    found = diagnose(net.eval(), loader, loss=torch.nn.CrossEntropyLoss())
    found  # or print it, draw it with ``found.plot()``, take ``found.data``
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.data import Dataset

from lwcore import inference, results, stable
from lwcore.ambient import (
    gradients_followed,
    in_own_context,
    random_states_kept,
    settings_kept,
)
from lwcore.diagnose.adapter import Adapter, Bands, Function
from lwcore.diagnose.clock import Clock
from lwcore.diagnose.data import (
    FEWEST,
    Axes,
    Pair,
    _refuse_single_pairs,
    collect_sequences,
    given_bands,
    refuse_too_few,
)
from lwcore.diagnose.kept import kept_as_it_was
from lwcore.diagnose.losses import refuse_no_function
from lwcore.diagnose.models import _as_accepted, refuse_unmade
from lwcore.diagnose.passes import FINITE
from lwcore.diagnose.recurrent import Loop, Recurrent, recurrent_modules, step_of
from lwcore.diagnose.repeats import count_repeats
from lwcore.diagnose.report import LEVEL, SIGN_DRAWS, Diagnosis
from lwcore.diagnose.tensors import n_numbers
from lwcore.diagnose.uses import ENDS, Uses
from lwcore.gradient import unit_length
from lwcore.inference import described, sequences_needed
from lwcore.results import bar
from lwcore.signatures import Count, Index, Lags, checked, require, warn

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]  # jaxtyping cannot read NDArray

ERROR = 0.1  # chance of a wrong sign from N(ℓ) sequences
SIGNIFICANCE = 0.01  # chance that any lag is detected where there is none
_RESAMPLES = 1000  # of the bootstrap
# Lags measured one by one if none are named, fewer of them where there are very many parameters,
# and bands behind them. One lag alone is hidden by the noise of others in its band.
SINGLE_LAGS, FEWER_LAGS, BANDS = 192, 48, 16
_DIRECTIONS = 2**28  # numbers in the directions of all lags, up to which there are as many
UNSCALED = 10  # size of inputs above which states may be saturated
TOLD = 60  # seconds above which a forecast is printed


@contextmanager
def _undisturbed(batches: Any) -> Iterator[None]:
    """Keep a diagnosis from the caller's modes, and what is the caller's from the diagnosis."""
    with ExitStack() as stack:
        stack.enter_context(random_states_kept())
        stack.enter_context(settings_kept())
        stack.enter_context(kept_as_it_was(batches, copies=False))
        stack.enter_context(gradients_followed())
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))  # no derivatives in eval
        if "torch._dynamo" in sys.modules:  # else nothing is compiled, and its import is slow
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))  # ours; the reader's has its own again
        yield


@checked
@in_own_context
def diagnose(
    model: nn.Module,
    batches: Iterable[Any] | Dataset[Any],
    lags: Lags | Literal["auto"] = "auto",
    *,
    head: Function | None = None,
    loss: Any = None,
    step: nn.Module | None = None,
    parameters: Sequence[str] | None = None,
    batch_first: bool = True,
    time_axis: Index | None = None,
    horizon: bool = False,
    source: Literal["error", "target"] = "error",
    sequences: Count = 1024,
    n_sequences: Count | None = None,
    seed: Index = 0,
    limit_minutes: Count | None = None,
    progress: bool = True,
) -> Diagnosis:
    """Window of a network: how far back its gradient reaches, from how many sequences.

    The gradient of each sequence's loss is taken apart by lag, Eq. (3), with nothing left out. A
    lag's part is looked at along its own mean direction, found on one half of the sequences, and
    held against the noise of the whole gradient along that direction, on the other half. That gives
    N(ℓ), the sequences needed to tell its sign with a chance `ERROR` of the wrong one. A lag counts
    only if a signal is detected there: if its mean is above zero, against the lag's own noise, by
    Holm's procedure over all lags at the level `SIGNIFICANCE`.

    Times are measured: a step of the inputs is changed for that of another sequence, and what moves
    tells when parameters are used and when a prediction is made. A lag is the distance of the two.
    What cannot be told is refused, and says by what name it can be read.

    Model, head, loss and batches are left as they were, with all that they reach and write to:
    parameters, buffers, hooks, containers, global variables, attributes of functions and classes,
    and objects of the reader's classes or of Python's library. Not put back is what is noted
    elsewhere: in objects of installed libraries, such as a pandas frame (but for PyTorch's modules
    and optimizers), in files and logs, in caches of functions, in threads and other processes, in
    long arrays of a dataset, and in objects of Python's library that have no attributes, such as
    `queue.SimpleQueue`. An iterator that cannot be set back is refused.

    Args:
        model: A causal model in eval mode. It runs as it is. If it is one recurrence
            (`torch.nn.LSTM`, `GRU`, `RNN`, a cell of `lwcore.cells`, or one module that is called
            in every step as ``state = module(x, state)``) and all else acts within a step, its
            states are followed; any other is read by the uses of its parameters
            (`lwcore.diagnose.uses`).
        batches: Pairs of inputs (B, T, …) and targets (B, …), one pair, or a map-style dataset of
            single ones: independent sequences that a trained network has not seen.
        lags: Lags to look at. ``"auto"`` takes all up to 192 (in networks of more than a million
            parameters fewer, down to 48), and behind these bands up to the length. In a band one
            lag alone may be hidden by its neighbours: name those that you ask for.
        head: Makes predictions of all that the model gives.
        loss: Of a batch the sum or the mean of what each sequence has alone, of all that the model
            (or `head`) gives. None for what fits in one way only: cross-entropy where targets are
            whole numbers, else squared error.
        step: The module that is one step of the recurrence, where several could be.
        parameters: Names of parameters or modules whose gradient is taken apart, by their uses.
        batch_first: Whether inputs are (B, T, …), as PyTorch's layers say it, or (T, B, …).
        time_axis: The axis of the inputs that counts steps, where it is neither 1 nor 0, as for
            channels first, (B, C, T).
        horizon: Whether all predictions are made at the last step, where that cannot be told: as
            many as the inputs have steps, or read out behind a maximum over steps.
        source: ``"error"`` takes the loss as it is, ``"target"`` that of the best constant
            prediction: as if nothing had been learned, with the transport that there is. Take it
            for a network that has learned nothing: its errors show lags of what it adds itself.
        sequences: How many are read at the most.
        n_sequences: How many the summary speaks of: those you train on, say.
        seed: Of the generators that everything here draws from.
        limit_minutes: Refuse to go on if it would take longer, or if trials that come before the
            forecast do. A forecast is printed with `progress` if it is above a minute.
        progress: Show bars.
    """
    require("sequences", sequences, sequences >= FEWEST, f"a whole number, {FEWEST} or above")
    require("seed", seed, int(seed) < 2**63, "below 2^63")
    is_list = not isinstance(parameters, str)
    require("parameters", parameters, is_list, f"a list of names, [{parameters!r}]")
    refuse_no_function(loss)
    refuse_unmade(model)
    attrs: dict[str, Any] = {**results.environment()}  # before the work: what fails, fails now
    clock = Clock.start(limit_minutes)
    caveats = []
    with _undisturbed(batches), kept_as_it_was(model, loss, head) as kept:
        axes, (inputs, targets) = collect_sequences(batches, sequences, batch_first, time_axis)
        read_as = refuse_too_few(inputs)
        inputs = _as_accepted(model, inputs, axes)
        _refuse_single_pairs(model, inputs, axes)
        given = None if isinstance(lags, str) else given_bands(lags, inputs)
        data = inputs, targets
        how = {"head": head, "loss": loss, "axes": axes, "horizon": horizon, "clock": clock}
        network = _network(model, data, step, parameters, how)
        network.check(inputs, targets)
        caveats += _repeats(network, inputs)
        attrs["beats_constant"] = -1  # not asked
        if source == "target":
            differ = bool((targets != targets[:1]).any())
            require("source", source, differ, "'error' where all targets are the same")
            network.forget(inputs, targets)
        else:
            beats = network.objective.beats_constants(inputs, targets)
            attrs["beats_constant"] = int(beats)
            if not beats:
                caveats.append("The model predicts no better than a constant: use source='target'.")
        attrs["end_points"] = inputs.shape[1] - _first_loss(network, data)  # at the most
        n_parameters = n_numbers(network.chosen.values())
        bands = given or lag_bands(inputs.shape[1] - 1, n_parameters)
        measured = _Work(network, data, bands, int(seed), progress, clock).measured()
        found = _inferred(measured, int(seed))
        if not bool(found.detected.any()):
            caveats += _too_large(inputs)
        changed = [name for name in kept.changed() if name in model.state_dict()]
    if changed:
        warn(f"The model changed {', '.join(changed)} while it ran; they are put back.")
    settings = {
        "network": network.kind,
        "caveats": " ".join(caveats),
        "loss": network.loss_name,
        "source": source,
        "measured_on": f"{read_as}: half gave each lag's direction, half the numbers along it",
        "n_sequences": int(n_sequences or len(inputs)),
        "seed": int(seed),
    }
    attrs |= settings
    attrs["fingerprint"] = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:12]
    attrs["aside"] = attrs["caveats"]  # the former name
    attrs["length"] = inputs.shape[1]
    attrs["sequences_read"] = len(inputs)
    attrs["end_points_drawn"] = ENDS if isinstance(network, Uses) else inputs.shape[1]
    attrs |= _whose_gradient(model, network)
    return Diagnosis(found.assign_attrs(attrs))


def _network(
    model: nn.Module,
    data: Pair,
    step: nn.Module | None,
    parameters: Sequence[str] | None,
    how: dict[str, Any],
) -> Adapter:
    """Return the model as one recurrence if it is one, else by the uses of its parameters."""
    if step is not None:
        require("step", type(step).__name__, step in {*model.modules()}, "one of model's")
        require(
            "parameters",
            parameters,
            parameters is None,
            "None: name either the step of a recurrence, or parameters",
        )
        return Loop(model, data, module=step, **how)
    if parameters is None:
        recurrence = _recurrence(model, data, how)
        if recurrence is not None:
            return recurrence
    return Uses(model, data, parameters=parameters, **how)


def _recurrence(model: nn.Module, data: Pair, how: dict[str, Any]) -> Recurrent | None:
    """Return the model as one recurrence, or None."""
    axes: Axes = how["axes"]
    inputs, _ = data
    try:
        if len(recurrent_modules(model)) == 1:
            network = Recurrent(model, data, **how)
        else:
            looped = step_of(model, axes.inputs_back(inputs[:5]))
            if looped is None:
                return None
            network = Loop(model, data, module=looped, **how)
        return None if network.unfit(*data) else network
    except Exception:  # of the reader's code, or of ours on it: uses say what it is
        return None


def _repeats(network: Adapter, inputs: Tensor) -> list[str]:
    """Warn of sequences that repeat others, and return what a reader is told of it."""
    is_real = ~network.trials.padded.cpu().numpy()
    rows = inputs.reshape(*inputs.shape[:2], -1).cpu().double().numpy()
    count = count_repeats(rows, is_real)
    if not count:
        return []
    told = f"{count:,} sequences repeat half or more of another one."
    words = "worth fewer sequences than their number, and show lags that are not there"
    warn(f"{told} These are {words}. Take windows that do not overlap, and each sequence once.")
    return [told]


def _too_large(inputs: Tensor) -> list[str]:
    """Return what a reader is told of inputs that may saturate a network, tokens left out."""
    if not inputs.is_floating_point():
        return []
    size = float(inputs.double().square().mean((0, 1)).sqrt().max())
    if size <= UNSCALED:
        return []
    return [
        f"Inputs are as large as {size:.3g}, which may saturate gates and attention, and hide "
        "every lag. Scale them, as by their mean and deviation, and train with these."
    ]


def _first_loss(network: Adapter, data: Pair) -> int:
    """Return the first step of any sequence at which a prediction has a loss."""
    few = min(8, network.at_once)
    inputs, targets = data
    for pair in zip(inputs.split(few), targets.split(few), strict=True):
        first = network.read(*pair).first
        if first >= 0:
            return first
    require(
        "loss",
        network.loss_name,
        False,
        "one whose gradient is not always 0: is it cut on its way, by detach(), an argmax or "
        "NumPy?",
    )
    return -1


def _whose_gradient(model: nn.Module, network: Adapter) -> dict[str, Any]:
    """Return which parameters were measured, and how."""
    every = dict(model.named_parameters())
    chosen = set(map(id, network.chosen.values()))
    left_out = [name for name, part in every.items() if id(part) not in chosen]
    return {
        "route": "uses" if isinstance(network, Uses) else "recurrence",
        "measured_parameters": n_numbers(network.chosen.values()),
        "all_parameters": n_numbers(every.values()),
        "left_out_names": ", ".join(left_out),
        "kernels": ", ".join(_kernels(network)),
        "without_gradient": ", ".join(network.without_gradient),
    }


def _kernels(network: Adapter) -> list[str]:
    """Return the parameters of convolutions over steps, whose kernels look back within a lag."""
    found: list[str] = []
    sites = network.sites if isinstance(network, Uses) else []
    for site in sites:
        function, _, names = site.name.partition("() of ")
        runs_over_steps = site.axes == (len(site.values[0].shape) - 1,)  # behind the channels
        if function != "conv1d" or not runs_over_steps:
            continue
        for name in names.split(", "):
            part = network.chosen.get(name)
            if part is not None and part.ndim > 1 and part.shape[-1] > 1:  # no bias, no kernel of 1
                found.append(name)
    return list(dict.fromkeys(found))


def lag_bands(furthest: int, n_parameters: int = 1) -> list[list[int]]:
    """Return all lags: one by one up to `SINGLE_LAGS`, and behind these in bands.

    A band costs what one lag does. Beyond a million parameters or so, whose directions would take
    more than 2 GB, fewer lags are single: down to `FEWER_LAGS`.
    """
    n_single = min(SINGLE_LAGS, max(FEWER_LAGS, _DIRECTIONS // n_parameters - BANDS))
    bands = [[lag] for lag in range(1, min(furthest, n_single) + 1)]
    beyond = furthest - n_single
    if beyond > 0:
        edges = np.geomspace(n_single + 1, furthest + 1, min(BANDS, beyond) + 1)
        starts = np.unique(edges.round().astype(int)).tolist()
        for start, following in itertools.pairwise(starts):
            bands.append([*range(start, following)])
    return bands


class _Work:
    """Each sequence's part of each lag, and its whole gradient, along w(ℓ).

    A random half of the sequences gives each lag's mean gradient w(ℓ), the other half the numbers.
    """

    def __init__(
        self,
        network: Adapter,
        data: Pair,
        bands: Bands,
        seed: int,
        progress: bool,
        clock: Clock,
    ) -> None:
        """Plan the work on some sequences."""
        self.network = network
        self.data = data
        self.bands = bands
        self.progress = progress
        self.clock = clock
        self.count = len(data[0])
        generator = torch.Generator("cpu").manual_seed(seed)
        order = torch.randperm(self.count, generator=generator, device="cpu")
        order = order.to(data[0].device)
        self.finding, self.giving = order.tensor_split([self.count // 2])

    def measured(self) -> xr.Dataset:
        """Read all sequences."""
        lags = [band[0] for band in self.bands]
        directions = self._directions()
        numbers = []
        for reading in self._readings(self.giving, "numbers"):
            numbers.append(reading.band_numbers(directions, self.bands))
            is_finite = bool(numbers[-1].isfinite().all())
            require("gradient", "NaN or infinite for some sequence", is_finite, FINITE)
        statistic, projection = torch.cat(numbers, dim=-1).numpy()
        last = [band[-1] for band in self.bands]
        both = ("lag", "sequence")
        measured = {
            "lag_to": ("lag", last, "the last lag of a band, of which `lag` is the first"),
            "statistic": (both, statistic, "the lag's part along its mean direction"),
            "projection": (both, projection, "the whole gradient along the same"),
        }
        named = ("lag", lags, {"long_name": "lag ℓ", "units": "steps"})
        return described(measured).assign_coords(lag=named)

    def _directions(self) -> Tensor:
        """Return each lag's mean gradient, of length 1, and on the way foretell the time."""
        total: Any = 0
        started = time.monotonic()
        for place, reading in enumerate(self._readings(self.finding, "directions")):
            total += reading.band_vectors(self.bands)
            if place == 0:
                self._foretell(time.monotonic() - started)
        return unit_length(total)

    def _foretell(self, seconds: float) -> None:
        """Say how long it will take, before most of it, and refuse what is above the limit."""
        n_read = min(self.network.at_once, len(self.finding))
        left = seconds / n_read * (self.count - n_read)
        minutes = self.clock.minutes_in(left)
        self.clock.refuse(
            minutes,
            f"at least {math.ceil(minutes)}, the forecast for {self.count} sequences "
            "(fewer `sequences`, shorter ones, fewer `lags`, or another limit)",
        )
        self.network.passes.clock = Clock.start()  # what was forecast is let go on
        if self.progress and 60 * minutes > TOLD:
            # where the bar is: in a notebook on the page, where nothing is an error
            stream = sys.stdout if "ipykernel" in sys.modules else sys.stderr
            print(f"diagnose: about {minutes:.0f} minutes (limit_minutes refuses).", file=stream)

    def _readings(self, half: Tensor, of: str) -> Iterator[Any]:
        """Yield readings of half of the sequences, and show how many are done."""
        inputs, targets = self.data
        with bar(f"diagnose, {of}", len(half), self.progress) as advance:
            for places in half.split(self.network.at_once):
                yield self.network.read(inputs[places], targets[places])
                advance(len(places))


def _inferred(measured: xr.Dataset, seed: int) -> xr.Dataset:
    """Return what was measured, with N(ℓ), its bands, and tails."""
    statistic = measured.statistic.values
    projection = measured.projection.values
    count = statistic.shape[-1]
    rng = np.random.default_rng(seed)
    low, ratio, high = ratio_bands(statistic, projection, rng)
    scale, index = 1 / np.sqrt(2), 2.0  # the stable law of noise with the variance 1
    needed = sequences_needed(ratio, scale, index, error=ERROR)
    least = sequences_needed(high, scale, index, error=ERROR)
    most = sequences_needed(low, scale, index, error=ERROR)
    false = inference.false_detections(statistic[None], SIGNIFICANCE, rng, SIGN_DRAWS)
    mean = statistic.mean(-1)
    error = inference.deviation(statistic) / np.sqrt(count)
    (seen,) = inference.significant(mean[None], error[None], count, SIGNIFICANCE)
    exponent = inference.exponent_of_means(projection)
    fit = stable.fit(projection.T)
    around = [least, most]
    found = {
        "signal": ("lag", mean, "mean of the lag's part"),
        "detected": ("lag", seen, "mean above zero at the family-wise level"),
        "required": ("lag", needed, "sequences N(ℓ) needed, in the noise of the whole gradient"),
        "required_interval": (("bound", "lag"), around, "interval of N(ℓ), for all lags together"),
        "false_windows": ([], false, f"of {SIGN_DRAWS} draws of signs, those that show any lag"),
        "exponent": ("lag", exponent, "exponent p with which means of sequences concentrate"),
        "tail_index": ("lag", fit.alpha, "tail index α of a sequence's whole gradient"),
    }
    return measured.merge(described(found)).assign_coords(bound=["low", "high"])


@checked
def ratio_bands(
    statistic: Float[Array, "lags sequences"],
    projection: Float[Array, "lags sequences"],
    rng: np.random.Generator,
) -> Float[Array, "3 lags"]:
    """Return a band around every lag's signal-to-noise ratio: low, the ratio itself, high.

    By the bootstrap over sequences: standard errors times a quantile of the largest deviation of
    any lag, so that all true ratios lie inside with the chance `LEVEL`, about. In simulations 95 %
    held 93 to 98 % of the time for Gaussian and Student-t(5) numbers, 81 to 88 % for log-normal
    ones. That is along the directions found: of 1000 draws of 200 sequences from four networks 92
    to 96 % had all true ratios inside, and 17 to 82 % those along the mean gradients of all
    sequences there are.
    """
    # of each lag in units of its largest number, as squares of the smallest would vanish
    largest = np.abs(statistic).max(-1, keepdims=True)
    size = np.maximum(largest, np.abs(projection).max(-1, keepdims=True))
    unit = np.where(size > 0, size, 1)
    signal = (statistic / unit).T
    whole = (projection / unit).T
    centred = whole - whole.mean(0)
    count = len(signal)

    def ratio(weights: Array) -> Array:
        mean = weights @ signal
        variance = (weights @ centred**2 - (weights @ centred) ** 2) * count / (count - 1)
        noise = np.sqrt(np.maximum(variance, 0.0))
        return np.divide(mean, noise, where=variance > 0, out=np.zeros_like(mean))

    equal = np.full(count, 1 / count)
    plain = ratio(equal[None])[0]
    resampled = ratio(rng.multinomial(count, equal, size=_RESAMPLES) / count)
    deviations = resampled - plain
    error = deviations.std(0)
    in_errors = np.abs(deviations / np.where(error > 0, error, np.inf))
    half = np.quantile(in_errors.max(-1), LEVEL) * error
    return np.stack([plain - half, plain, plain + half])
