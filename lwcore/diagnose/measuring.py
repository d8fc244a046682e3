"""The call: a network is read, its gradient is measured by lag, and N(ℓ) follows from that."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Literal

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler

from lwcore import results
from lwcore.ambient import gradients_followed, random_states_kept, warn
from lwcore.diagnose.answer import Diagnosis
from lwcore.diagnose.contract import AXES, FEWEST, Copies, Data, collect, count_repeats, few
from lwcore.diagnose.inferred import inferred
from lwcore.diagnose.losses import Objective
from lwcore.diagnose.passes import Passes
from lwcore.diagnose.recurrent import Recurrent, the_recurrence
from lwcore.diagnose.route import FINITE, Route, in_reals
from lwcore.diagnose.uses import Uses
from lwcore.gradient import unit_length
from lwcore.inference import described
from lwcore.results import bar
from lwcore.signatures import ArgumentError, Count, Index, Lags, Seed, checked, require

# Lags looked at if none are named, fewer of them where there are very many parameters, and some
# behind them.
EVERY_LAG, FEWER_LAGS, LONGER_LAGS = 192, 48, 16
_WIDE = 2  # times as many features as steps: then steps may be channels
_DIRECTIONS = 2**28  # numbers in the directions of all lags, up to which there are as many

_NOT_CUT = (
    "one whose gradient is not always 0: is it cut on its way, by detach(), an argmax or NumPy? "
    "With source='target', is it the same for all targets, or is it of log-probabilities, as "
    "NLLLoss? Give the logits to a cross-entropy, or take source='error'"
)


def _generators(holder: Any, known: set[int]) -> Iterator[torch.Generator]:
    """Yield the generators of a loader, of its data, and of its samplers, one within another."""
    known.add(id(holder))
    for part in getattr(holder, "__dict__", {}).values():
        if isinstance(part, torch.Generator):
            yield part
        elif isinstance(holder, DataLoader | Dataset | Sampler) and id(part) not in known:
            yield from _generators(part, known)


@contextmanager
def _undisturbed(batches: Any) -> Iterator[None]:
    """Keep a diagnosis from the caller's modes, and what is the caller's from the diagnosis."""
    with ExitStack() as stack:
        for generator in _generators(batches, set()):
            stack.callback(generator.set_state, generator.get_state())
        stack.enter_context(random_states_kept())
        stack.enter_context(gradients_followed())
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))  # no derivatives in eval
        if "torch._dynamo" in sys.modules:  # else nothing is compiled, and its import is slow
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))  # ours; the reader's has its own again
        yield


@checked
def diagnose(
    model: nn.Module,
    batches: Iterable[Any] | Dataset[Any],
    lags: Lags | Literal["auto"] = "auto",
    *,
    head: Callable[..., Any] | None = None,
    loss: Any = None,
    step: nn.Module | None = None,
    parameters: Sequence[str] | None = None,
    batch_first: bool = True,
    time_axis: Index | None = None,
    horizon: bool = False,
    source: Literal["error", "target"] = "error",
    sequences: Count = 1024,
    n_sequences: Count | None = None,
    seed: Seed = 0,
    progress: bool = True,
) -> Diagnosis:
    """Measure the window of a network: how far back its gradient reaches, from how many sequences.

    The gradient of each sequence's loss is taken apart by lag, at all end points for one recurrence
    and at 16 at most for others. A lag's part is looked at along its own mean direction, found on
    one half of the sequences, and held against the noise of the whole gradient along it, on the
    other half. That gives N(ℓ), the sequences needed to tell its sign with a chance of 10 % of the
    wrong one. A lag counts only if a signal is found there: if its mean is above zero, against the
    lag's own noise, by Holm's procedure over all lags at the level 1 %.

    **The time of a value is the last input step that reaches it.** It is measured: that step is
    exchanged for the step of another sequence, and the value moves in some sequence. A use of a
    parameter has the time of what it gives, a prediction its own; a lag is the difference of the
    two. Of one recurrence, `torch.nn.LSTM`, ``GRU``, ``RNN``, a cell of `lwcore.cells`, or a module
    that is called once a step as ``state = module(x, state)``, the lag is that of Eq. (3): steps of
    the module back from the state that the prediction is made of.

    What is asked of the model, and tried: it treats each sequence by itself, and all by the same
    operations; no prediction moves with later inputs (or the same few steps ahead in all); all lags
    together are the gradient, for each sequence alone; the loss is a sum or mean over sequences.
    What fails is refused by name, with a way out. Model, head and loss are copied together and stay
    as they are. What they note outside of themselves, as in a global variable or a file, is not
    undone, and an iterator is used up.

    Args:
        model: A causal model in eval mode. It runs as it is. If it is one recurrence and all else
            acts within a step, its states are followed; else the uses of its parameters are read.
        batches: Pairs (inputs, targets), a tuple of two as one pair, or a map-style dataset of
            single ones: independent sequences that a trained network has not seen. Inputs are a
            tensor (B, T, …), or a tuple or dictionary of tensors, which the model gets in their own
            type, as arguments or keywords if it takes them so. The first one's steps are counted;
            others with as many steps share them, and what has none, as a category (B,), is known
            at all steps. Targets go to the loss as they are.
        lags: Lags to look at. ``"auto"`` takes all up to 192 (in networks of more than a million
            parameters fewer, down to 48), and 16 behind these.
        head: Makes one tensor of predictions of all that the model gives; a method of its, say.
        loss: Of a batch the sum or the mean of what each sequence has alone, as a function of
            predictions and targets. None for what fits in one way only: cross-entropy where targets
            are whole numbers, else squared error.
        step: The module that is one step of the recurrence, where several could be.
        parameters: Names of parameters or modules whose gradient is taken apart, by their uses.
        batch_first: Whether inputs are (B, T, …), as PyTorch's layers say it, or (T, B, …).
        time_axis: The axis of the inputs that counts steps, where it is neither 1 nor 0, as for
            channels first, (B, C, T), or where it must be said.
        horizon: Whether all predictions are made at the last step where there are as many as steps,
            or one fewer, as in a forecast of the next day.
        source: ``"target"`` takes the loss of the best constant prediction: as if nothing had been
            learned, with the transport that there is. Take it before training, or later to see all
            there is to learn. ``"error"`` takes the loss as it is, in which a learned lag hardly
            shows, and the errors of an untrained network show what it adds itself.
        sequences: How many are read at the most.
        n_sequences: How many the summary speaks of: those you train on, say.
        seed: Of the generators that everything here draws from.
        progress: Show bars.

    Raises:
        ArgumentError: Where something is not so: it says what, and what to do.

    Examples:
        >>> _ = torch.manual_seed(0)
        >>> net = torch.nn.GRU(1, 4, batch_first=True).eval()
        >>> inputs = torch.randn(400, 9, 1)
        >>> how = {"head": lambda out: out[0][:, -1, :1], "source": "target", "progress": False}
        >>> found = diagnose(net, (inputs, inputs[:, 5]), **how)
        >>> print(found.by_lag()[["lag", "enough"]].head(3).to_string(index=False))
         lag     enough
           1 none found
           2 none found
           3        yes
    """
    attrs: dict[str, Any] = {**results.environment()}  # before the work: what fails, fails now
    how = sequences, source, head, loss, step, parameters, batch_first, time_axis, horizon
    with _undisturbed(batches):
        network = _read(model, batches, *how)
        data, objective = network.data, network.objective
        caveats = [*_repeats(data), *network.caveats]
        ahead = network.passes.look_ahead
        if ahead:
            caveats.append(f"Predictions see {ahead} steps ahead: lag 0 is the last of these.")
        if isinstance(lags, str):
            looked_at = usual_lags(data.length - 1, network.n_parameters)
        else:
            looked_at = [*map(int, lags)]
        _refuse_lags(looked_at, data)
        found = inferred(_measured(network, looked_at, seed, progress), seed)
    settings = {
        "network": network.kind,
        "caveats": " ".join(caveats),
        "loss": objective.name,
        "source": source,
        "measured_on": f"{data.read_as}: half gave each lag's direction, half the numbers",
        "n_sequences": int(n_sequences or data.count),
        "seed": int(seed),
        "length": data.length,
        "sequences_read": data.count,
        "end_points": len(network.passes.end_steps),  # at the most
        "end_points_drawn": network.ends_drawn,
    }
    attrs["fingerprint"] = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:12]
    return Diagnosis(found.assign_attrs(attrs | settings | _whose_gradient(network)))


@checked
def _read(
    model: nn.Module,
    batches: Any,
    sequences: Count = 1024,
    source: Literal["error", "target"] = "error",
    head: Any = None,
    loss: Any = None,
    step: nn.Module | None = None,
    parameters: Sequence[str] | None = None,
    batch_first: bool = True,
    time_axis: int | None = None,
    horizon: bool = False,
) -> Route:
    """Copy the model, collect the sequences, and find how the gradient can be taken apart."""
    require(
        "parameters",
        parameters,
        parameters is None or step is None,
        "None: name either the step of a recurrence, or parameters",
    )
    copies = Copies.of(model, head, loss, step)
    data = collect(batches, sequences, batch_first, time_axis)
    words = f"{FEWEST} sequences or more, of 2 steps or more. {AXES}"
    require("batches", data.read_as, data.count >= FEWEST and data.length > 1, words)
    passes = Passes(copies, data, horizon)
    objective = Objective(copies.loss, passes)
    objective.check(model)
    if source == "target":
        objective.forget()
    network: Route | None = None
    if step is not None:
        network = Recurrent(passes, objective, copies.step)
        network.check()
    elif parameters is None:
        with suppress(ArgumentError, RuntimeError):  # uses say what it is, if it is no recurrence
            recurrence = the_recurrence(passes, objective)
            recurrence.check()
            network = recurrence
    if network is None:
        network = Uses(passes, objective, parameters)
        network.check()
    if time_axis is None and batch_first and data.first.ndim == 3:
        _ask_for_time_axis(network, data)
    return network


@checked
def parts_by_lag(
    model: nn.Module, batches: Any, lags: Sequence[int], **how: Any
) -> dict[str, Float[Tensor, "lags ..."]]:
    """Return each lag's part of the gradient in each parameter, (lags, …), summed over sequences.

    It is what `diagnose` measures. Parts of all lags from 0 on add up to the gradient of the loss,
    if this is a sum over sequences. No end points are drawn.

    Args:
        lags: Whole numbers from 0 on, that increase.
        how: Options of `diagnose` on model and data: head, loss, step, parameters, batch_first,
            time_axis, horizon, source and sequences.
    """
    with _undisturbed(batches):
        network = _read(model, batches, **how)
        network.ends_drawn = network.data.length
        _refuse_lags(lags, network.data)
        total: Any = 0
        for reading in _readings(network, torch.arange(network.data.count), "parts", False):
            total += reading.lag_vectors(lags)
    found = {}
    for name, own in network.chosen.items():
        shape = in_reals(own).shape
        part, total = total.tensor_split([shape.numel()], 1)
        part = part.reshape(-1, *shape).contiguous()
        found[name] = torch.view_as_complex(part) if own.is_complex() else part
    return found


def _refuse_lags(lags: Sequence[int], data: Data) -> None:
    """Refuse no lags, and those that sequences do not have."""
    in_order = [lag for lag in range(data.length) if lag in lags]
    require(
        "lags",
        [*lags],
        [] != in_order == [*lags],
        f"whole numbers up to {data.length - 1} that increase: sequences have {data.length} steps",
    )


def _ask_for_time_axis(network: Route, data: Data) -> None:
    """Ask for the axis of time where it may be another.

    Where steps are few and wide, or are read one by one and then at once.
    """
    _, length, width = data.first.shape
    is_plain = width == 1 or (network.looks_back and width < _WIDE * length)
    require(
        "time_axis",
        f"None, with inputs (B, {length}, {width})",
        is_plain,
        "named where steps are few and wide, or the model's values are made of one step or of the "
        "whole window: time_axis=2 for channels first, (B, C, T), and time_axis=1 for (B, T, D)",
    )


def _repeats(data: Data) -> list[str]:
    """Warn of sequences that repeat others, and return what a reader is told of it."""
    steps = data.first.reshape(data.count, data.length, -1)
    count = count_repeats(steps.cpu().double().numpy())
    if not count:
        return []
    told = f"{count:,} sequences repeat half or more of another one."
    warn(
        f"{told} These are worth fewer than their number, and show lags that are not there. Take "
        "windows that do not overlap, and each sequence once."
    )
    return [told]


def _whose_gradient(network: Route) -> dict[str, Any]:
    """Return which parameters were measured, and how."""
    every = dict(network.passes.model.named_parameters())
    left_out = {name.partition(".")[0]: None for name in every if name not in network.chosen}
    return {
        "route": network.route,
        "measured_parameters": network.n_parameters,
        "all_parameters": sum(part.numel() for part in every.values()),
        "left_out_names": few([*left_out]),
    }


def usual_lags(furthest: int, n_parameters: int = 1) -> list[int]:
    """Return all lags up to `EVERY_LAG` (fewer for very many parameters), and some behind these."""
    nearest = min(EVERY_LAG, max(FEWER_LAGS, _DIRECTIONS // n_parameters - LONGER_LAGS), furthest)
    longer = np.geomspace(nearest, furthest, LONGER_LAGS + 1).round().astype(int)
    return sorted({*range(1, nearest + 1), *longer.tolist()})


def _measured(network: Route, lags: Sequence[int], seed: int, progress: bool) -> xr.Dataset:
    """Return each sequence's part of each lag, and its whole gradient, along w(ℓ).

    A random half of the sequences gives each lag's mean gradient w(ℓ), the other half the numbers.
    """
    count = network.data.count
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    finding, giving = order.tensor_split([count // 2])
    total: Any = 0
    for reading in _readings(network, finding, "directions", progress):
        total += reading.lag_vectors(lags)
    directions = unit_length(total)
    numbers = []
    for reading in _readings(network, giving, "numbers", progress):
        numbers.append(reading.lag_numbers(directions, lags))
        is_finite = bool(numbers[-1].isfinite().all())
        require("gradient", "NaN or infinite for some sequence", is_finite, FINITE)
    statistic, projection = torch.cat(numbers, dim=-1).numpy()
    sizes = network.objective.error_sizes(giving)
    require("loss", network.objective.name, sizes.any(), _NOT_CUT)
    both = ("lag", "sequence")
    measured = {
        "statistic": (both, statistic, "the lag's part along its mean direction"),
        "projection": (both, projection, "the whole gradient along the same"),
        "error_size": ("sequence", sizes, "length of the gradient in a sequence's predictions"),
    }
    named = ("lag", [*lags], {"long_name": "lag ℓ", "units": "steps"})
    return described(measured).assign_coords(lag=named)


def _readings(network: Route, half: Tensor, of: str, progress: bool) -> Iterator[Any]:
    """Yield readings of half of the sequences, and show how many are done."""
    data = network.data
    with bar(f"diagnose, {of}", len(half), progress) as advance:
        for places in half.split(network.at_once):
            yield network.read(data.inputs[places], data.targets[places])
            advance(len(places))
