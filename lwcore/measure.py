"""The one pipeline from a trained network to its learnability window: rates → statistic → tails → N(ℓ) → H_N.

A **probe** is one way to look at the lag-ℓ part of the gradient with one number a sequence. Its **view** says which:

* ``"zeroth"``, ``"first"``: the paper's matched statistic, Eq. (28), with rates of that order, along a random direction w;
* ``"whole"``: the lag's part of the gradient itself, ``Σ_t δ_tᵀ M_{t,ℓ} B_{t−ℓ} w``, nothing left out, along the same random directions;
* ``"gradient"``: the same along the lag's own mean gradient, the direction in which this lag pulls the parameters.

A **source** says what makes the error: the network's own (``"error"``); the target alone, as if nothing had been learned yet
(``"target"``); or independent noise of the error's size, which carries nothing about the past (``"noise"``, the null control).

The independent unit is the sequence: each fresh sequence gives one number a source, probe and lag, averaged over all end points that
leave room for the longest lag. Signs and mean gradients come from one half of the sequences and the numbers from the other.

`observe` reads the numbers off the network; `infer` turns them into windows and knows nothing of networks.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from scipy import special
from torch import Tensor

from lwcore import bounds, stable, window
from lwcore.bptt import adjoints, alignment, immediate_sensitivity, matched_statistic, random_direction, transported
from lwcore.cells import Trace
from lwcore.config import DiagnosticSettings
from lwcore.network import Network
from lwcore.tasks import Sequences
from lwcore.transport import default_ends, effective_rates

SOURCES = ("error", "target", "noise")
NOISES = ("lag", "total")
READINGS = ("mean", "variance", "optimal", "paper_v2", "letter_v2")
BATCH = 64  # sequences traced at a time: bounds memory, does not change the result beyond rounding
BLOCK = 16  # sequences a block mean takes together, to see how fast means concentrate


def measure(network: Network, sequences: Sequences, settings: DiagnosticSettings, seed: int) -> xr.Dataset:
    """Measure a network's rates, envelope, sample complexity and learnability window on fresh sequences.

    Args:
        network: A trained network; it is not changed. All is computed on a float64 copy.
        sequences: Sequences it was not trained on; inputs (S, T, D), targets (S, T).
        settings: What to measure.
        seed: Seed of the directions and of the null control's noise.

    Returns:
        The variables of `infer`, with the rates of `observe`.
    """
    observed = observe(network, sequences, settings, seed)
    return infer(observed, settings).assign(observed.drop_dims("sequence"))


def observe(network: Network, sequences: Sequences, settings: DiagnosticSettings, seed: int) -> xr.Dataset:
    """Read rates and, one number a sequence, statistics and projected gradients off a network.

    Args:
        network: A trained network; it is not changed.
        sequences: Sequences it was not trained on.
        settings: What to measure.
        seed: Seed of the directions and of the null control's noise.

    Returns:
        ``rate`` (order, lag, unit), the mean of |μ|; ``negative`` (order, lag), the share of rates below 0; ``statistic`` and
        ``projection`` (source, probe, lag, sequence): the lag's part as the probe sees it, and the whole gradient, all lags together,
        along the probe's direction.
    """
    network = copy.deepcopy(network).double()
    generator = torch.Generator().manual_seed(seed)
    randoms = [random_direction(network.cell, generator) for _ in range(settings.directions)]
    lags = list(settings.lags)
    half = len(sequences.targets) // 2
    for_signs, for_numbers = Sequences(*(s[:half] for s in sequences)), Sequences(*(s[half:] for s in sequences))
    with torch.no_grad():
        spread = (network(for_numbers.inputs.double()) - for_numbers.targets).std().item()

    def read(part: Sequences) -> Iterator[tuple[Trace, list[Tensor]]]:
        """Trace a part of the sequences batch by batch, with δ of every source."""
        for start in range(0, len(part.targets), BATCH):
            inputs, targets = (s[start : start + BATCH].double() for s in part)
            trace = network.cell.trace(inputs)
            noise = spread * torch.randn(targets.shape, generator=generator, dtype=torch.float64)
            yield trace, [network.loss_gradients(error) for error in (network.residual(trace.states, targets), -targets, noise)]

    expected: list[Tensor] = []
    pulls: list[list[dict[str, Tensor]]] = []
    for trace, gradients in read(for_signs):
        moved = [immediate_sensitivity(trace, w) for w in randoms]
        ends = default_ends(trace, lags)
        expected.append(torch.stack([torch.stack([alignment(delta, m, lags, ends).sum((0, 1)) for m in moved]) for delta in gradients]))
        pulls.append([_lag_pulls(trace, delta, lags) for delta in gradients])
    signs = torch.stack(expected).sum(0).sign()  # (source, direction, lag, H), Eq. (28)'s sgn E[a]
    own = [_unit_directions([batch[s] for batch in pulls]) for s in range(len(SOURCES))]
    upwards = [[_along(own[s], w).sign() for w in randoms] for s in range(len(SOURCES))]  # (source, direction, lag)

    rates, negative, statistics, projections = [], [], [], []
    for trace, gradients in read(for_numbers):
        ends = default_ends(trace, lags)
        compared = torch.stack([effective_rates(trace, lags, order, _spread_out(ends, settings.ends)) for order in settings.orders])
        rates.append(compared.abs().mean(2))
        negative.append((compared < 0).double().mean((2, 4)))
        by_order = [effective_rates(trace, lags, order, ends) for order in ("zeroth", "first")]
        moved = [immediate_sensitivity(trace, w) for w in randoms]
        statistic, projection = [], []
        for s, delta in enumerate(gradients):
            aligned = [alignment(delta, m, lags, ends) for m in moved]
            rows = [torch.stack([matched_statistic(r, a, signs[s, d]).t() for d, a in enumerate(aligned)]) for r in by_order]
            carried = torch.stack([rows_of_lag[:, -len(ends) :] for _, rows_of_lag in transported(trace, delta, lags)], dim=2)
            starts = torch.tensor(ends).unsqueeze(1) - torch.tensor(lags)
            whole = [torch.einsum("belh,belh->lb", carried, m[:, starts]) / len(ends) for m in moved]
            rows.append(torch.stack([u.unsqueeze(1) * w for u, w in zip(upwards[s], whole, strict=True)]))
            moved_own = [immediate_sensitivity(trace, _lag(own[s], i)) for i in range(len(lags))]
            mine = [torch.einsum("beh,beh->b", carried[:, :, i], m[:, starts[:, i]]) / len(ends) for i, m in enumerate(moved_own)]
            statistic.append(torch.cat([*rows, torch.stack(mine).unsqueeze(0)]))
            at_ends = torch.zeros_like(delta)
            at_ends[:, ends] = delta[:, ends] / len(ends)
            back = adjoints(trace, at_ends)
            random = torch.stack([torch.einsum("bth,bth->b", back, m).expand(len(lags), -1) for m in moved])
            projection.append(
                torch.cat([random, random, random, torch.stack([torch.einsum("bth,bth->b", back, m) for m in moved_own]).unsqueeze(0)])
            )
        statistics.append(torch.stack(statistic))
        projections.append(torch.stack(projection))
    views = [view for view in ("zeroth", "first", "whole") for _ in randoms] + ["gradient"]
    dims = ("source", "probe", "lag", "sequence")
    return xr.Dataset(
        {
            "rate": (("order", "lag", "unit"), torch.cat(rates, 1).mean(1).numpy(), {"long_name": "mean absolute effective learning rate"}),
            "negative": (
                ("order", "lag"),
                torch.cat(negative, 1).mean(1).numpy(),
                {"long_name": "share of effective learning rates below 0"},
            ),
            "statistic": (dims, torch.cat(statistics, -1).numpy()),
            "projection": (dims, torch.cat(projections, -1).numpy()),
        },
        coords={
            "order": list(settings.orders),
            "lag": ("lag", lags, {"long_name": "lag ℓ", "units": "steps"}),
            "source": list(SOURCES),
            "view": ("probe", views, {"long_name": "how the probe looks at the lag's part of the gradient"}),
        },
    )


def infer(observed: xr.Dataset, settings: DiagnosticSettings) -> xr.Dataset:
    """Turn one number a sequence into tails, sample complexity N(ℓ) and the learnability window H_N. Implements Eqs. (34)–(37).

    N(ℓ) is given with two definitions of the noise. ``"lag"``, the paper's, takes the scale of the lag's own statistic, ``"total"`` that
    of the whole gradient along the same direction, in which an optimiser meets the lag's part. And in five readings:

    * ``"mean"``: p = κ_α and m̄ = mean(T)/f, the later versions' exponent; ``"optimal"`` and ``"paper_v2"``: the other exponents of
    `bounds`; * ``"variance"``: the central limit theorem with the sample's variance, for noise that is not stable;
    * ``"letter_v2"``: v2's Section 6.1 to the letter, p = α and the mean of T, which is f m̄, in the place of m̄, so that f enters
    twice. Infinite for
      views that have no envelope.

    Windows follow two rules, ``"plug-in"``: every positive mean is believed; ``"tested"``: only those that `significant` declares above
    zero; and two definitions, ``"supremum"``, Eq. (36), and ``"first_passage"``, the longest lag up to which all are detectable.

    Args:
        observed: ``rate``, ``statistic`` and ``projection`` as `observe` gives them.
        settings: Error, significance and budgets.

    Returns:
        The dataset; every variable says in ``long_name`` what it is.
    """
    envelope = observed.rate.sum("unit").assign_attrs(long_name="envelope f(ℓ), per unit of global learning rate")
    time_scale = xr.apply_ufunc(
        lambda rates: window.time_scales(settings.lags, rates),
        observed.rate,
        input_core_dims=[["lag", "unit"]],
        output_core_dims=[["unit"]],
    )
    by_view = []
    for view in dict.fromkeys(observed.view.values):
        part = observed[["statistic", "projection"]].isel(probe=np.flatnonzero(observed.view == view))
        by_view.append(_infer_view(part, envelope.sel(order=view, drop=True) if view in envelope.order.values else None, settings))
    result = xr.concat(by_view, "probe")
    result["envelope"] = envelope
    result["time_scale"] = time_scale.assign_attrs(long_name="time scale τ of a neuron", units="steps")
    return result.assign_coords(budget=("budget", list(settings.budgets), {"long_name": "number of sequences N", "units": "sequences"}))


def _infer_view(observed: xr.Dataset, envelope: xr.DataArray | None, settings: DiagnosticSettings) -> xr.Dataset:
    """Infer from the probes of one view; the tail index is global, as in the paper, and so is the test's level."""
    samples = xr.concat([observed.statistic, observed.projection], "noise_definition").assign_coords(noise_definition=list(NOISES))
    statistic = observed.statistic
    signal = statistic.mean("sequence")
    detected = xr.apply_ufunc(
        significant,
        statistic,
        input_core_dims=[["probe", "lag", "sequence"]],
        output_core_dims=[["probe", "lag"]],
        kwargs={"level": settings.significance},
    )
    alpha_at_lag, scale = _tails(samples)
    alpha = alpha_at_lag.median(["probe", "lag"])
    deviation = _deviation(samples)
    f = xr.ones_like(signal) if envelope is None else envelope
    readings = [
        _required(signal, scale, alpha, settings.error, "mean"),
        _required(signal, deviation / np.sqrt(2), xr.full_like(alpha, 2.0), settings.error, "mean"),
        _required(signal, scale, alpha, settings.error, "optimal"),
        _required(signal, scale, alpha, settings.error, "paper_v2"),
        _required(signal * f, scale, alpha, settings.error, "paper_v2").where(envelope is not None, np.inf),
    ]
    required = xr.concat(readings, "reading").assign_coords(reading=list(READINGS))
    required = xr.concat([required.where(detected, np.inf), required], "rule").assign_coords(rule=["tested", "plug-in"])
    definitions = ["supremum", "first_passage"]
    windows = [
        xr.apply_ufunc(
            lambda needed, definition=definition: window.learnability_window(
                settings.lags, needed, settings.budgets, definition=definition
            ),
            required,
            input_core_dims=[["lag"]],
            output_core_dims=[["budget"]],
        )
        for definition in definitions
    ]
    names = {
        "signal": (signal, "mean of the lag's statistic", ""),
        "signal_error": (_deviation(statistic) / np.sqrt(statistic.sizes["sequence"]), "standard error of the mean", ""),
        "detected": (detected, "mean above zero at the family-wise level", ""),
        "scale": (scale, "stable scale σ of one sequence's number", ""),
        "alpha": (alpha.broadcast_like(signal.isel(lag=0, drop=True)), "tail index α, one for all probes and lags of a view", ""),
        "exponent": (_concentration(samples), f"exponent p with which means of {BLOCK} sequences concentrate", ""),
        "required": (required, "sequences N(ℓ) needed to detect the lag", "sequences"),
        "window": (xr.concat(windows, "definition").assign_coords(definition=definitions), "learnability window H_N", "steps"),
    }
    return xr.Dataset({name: array.assign_attrs(long_name=meaning, units=units) for name, (array, meaning, units) in names.items()})


def significant(statistics: NDArray[np.float64], level: float) -> NDArray[np.bool_]:
    """Say for which probes and lags a statistic's mean is above zero, with the error of any false claim among them held at a level.

    One-sided t-tests with Holm's correction. For symmetric laws the t-test keeps its level however heavy the tails (Efron 1969).

    Args:
        statistics: One number a sequence, shape (..., probes, lags, sequences).
        level: Error allowed for all probes and lags together, in (0, 1).

    Returns:
        Shape (..., probes, lags).
    """
    count = statistics.shape[-1]
    with np.errstate(invalid="ignore"):  # a statistic that is 0 throughout shows nothing: 0/0, read as p = 1
        unit = statistics / np.abs(statistics).max(-1, keepdims=True)  # of order 1, so that no square underflows
        t = unit.mean(-1) / (unit.std(-1, ddof=1) / np.sqrt(count))
    p = np.nan_to_num(special.stdtr(count - 1, -t), nan=1.0).reshape(*t.shape[:-2], -1)
    tests = p.shape[-1]
    rank = p.argsort(-1).argsort(-1)  # 0 for the smallest
    first_failure = np.where(p > level / (tests - rank), rank, tests).min(-1, keepdims=True)
    return (rank < first_failure).reshape(t.shape)


def _required(shift: xr.DataArray, scale: xr.DataArray, alpha: xr.DataArray, error: float, rate: str) -> xr.DataArray:
    """N(ℓ) for a shift ``Δ = f m̄``. A number that is 0 throughout carries nothing: no law can be fitted to it, and N(ℓ) is infinite."""
    carries = scale > 0
    return xr.apply_ufunc(
        lambda shift, scale, alpha: bounds.sample_complexity(1.0, shift, scale, alpha, error, rate),
        shift.where(carries, 0.0),
        scale.where(carries, 1.0),
        alpha,
        input_core_dims=[["probe", "lag"], ["probe", "lag"], []],
        output_core_dims=[["probe", "lag"]],
        vectorize=True,
    )


def _tails(samples: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Fit a symmetric stable law along the sequences: α and scale over the other dimensions."""

    def fit(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        fitted = stable.fit(values.reshape(-1, values.shape[-1]).T)
        return np.reshape(fitted.alpha, values.shape[:-1]), np.reshape(fitted.scale, values.shape[:-1])

    return xr.apply_ufunc(fit, samples, input_core_dims=[["sequence"]], output_core_dims=[[], []])


def _deviation(samples: xr.DataArray) -> xr.DataArray:
    """Standard deviation over sequences, in units of the largest value meanwhile, so that no square leaves the range of a float."""
    unit = np.abs(samples).max("sequence")
    return unit * (samples / unit.where(unit > 0, 1.0)).std("sequence", ddof=1)


def _concentration(samples: xr.DataArray) -> xr.DataArray:
    """Exponent p with which means concentrate, spread ∝ N^(−1/p), from the interquartile ranges of block means and of single sequences."""
    means = samples.coarsen(sequence=BLOCK, boundary="trim").mean()
    block, single = (q.quantile([0.25, 0.75], "sequence").diff("quantile").squeeze("quantile", drop=True) for q in (means, samples))
    with np.errstate(divide="ignore", invalid="ignore"):  # a number that is 0 throughout has no spread, and p is NaN
        return -np.log(BLOCK) / np.log(block / single)


def _spread_out(ends: list[int], count: int) -> list[int]:
    """Choose end points, evenly spaced up to the last one."""
    return [ends[-1 - i * len(ends) // count] for i in range(count)][::-1]


def _lag_pulls(trace: Trace, delta: Tensor, lags: list[int]) -> dict[str, Tensor]:
    """The parameter gradient of each lag's part, from the end points that leave room for all lags; each (lags, *shape of the parameter)."""
    length, first = trace.length, lags[-1]
    parts = [trace.cotangent(rows[:, first - lag :], slice(first - lag, length - lag)) for lag, rows in transported(trace, delta, lags)]
    return {name: torch.stack([part[name] for part in parts]) for name in parts[0]}


def _unit_directions(batches: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Add up each lag's gradient over batches and scale it to unit length over all parameters."""
    total = {name: torch.stack([batch[name] for batch in batches]).sum(0) for name in batches[0]}
    norm = torch.stack([part.flatten(1).square().sum(1) for part in total.values()]).sum(0).sqrt()
    safe = torch.where(norm > 0, norm, 1.0)
    return {name: part / safe.view(-1, *[1] * (part.ndim - 1)) for name, part in total.items()}


def _along(directions: dict[str, Tensor], w: dict[str, Tensor]) -> Tensor:
    """Inner products of each lag's direction with w, shape (lags,)."""
    return torch.stack([(directions[name] * w[name]).flatten(1).sum(1) for name in directions]).sum(0)


def _lag(directions: dict[str, Tensor], index: int) -> dict[str, Tensor]:
    """One lag's direction."""
    return {name: part[index] for name, part in directions.items()}
