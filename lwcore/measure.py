"""The one pipeline from a trained network to its learnability window: rates → statistic → tails → N(ℓ) → H_N.

The independent unit is the sequence: each fresh sequence gives one number a lag and direction. Neurons' signs come from one half of the
sequences and the statistic from the other. Beside the network's own error stands a null control, independent noise of the same size in its
place, which carries nothing about the past, so that its window must be empty.

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
from lwcore.bptt import alignment, immediate_sensitivity, matched_statistic, projected_gradient, random_direction
from lwcore.config import DiagnosticSettings
from lwcore.network import Network
from lwcore.tasks import Sequences
from lwcore.transport import effective_rates

BATCH = 64  # sequences traced at a time: bounds memory, does not change the result beyond rounding


def measure(network: Network, sequences: Sequences, settings: DiagnosticSettings, ends: list[int], seed: int) -> xr.Dataset:
    """Measure a network's rates, envelope, sample complexity and learnability window on fresh sequences.

    Args:
        network: A trained network; it is not changed. All is computed on a float64 copy.
        sequences: Sequences it was not trained on; inputs (S, T, D), targets (S, T).
        settings: What to measure.
        ends: End points t, each in max(lags)..T−1.
        seed: Seed of the directions and of the null control's noise.

    Returns:
        The variables of `infer`, with the rates of `observe`.
    """
    observed = observe(network, sequences, settings, ends, seed)
    return observed.drop_dims("sequence").merge(infer(observed, settings))


def observe(network: Network, sequences: Sequences, settings: DiagnosticSettings, ends: list[int], seed: int) -> xr.Dataset:
    """Read rates and, one number a sequence, statistics and projected gradients off a network.

    The signs of Eq. (28) are offered in two readings. ``"printed"`` takes ``sgn E[a]``, as the paper does. ``"transported"`` takes
    ``sgn E[μ a]``: the same where μ ≥ 0, but it alone makes the mean of T nonnegative, ``f(ℓ) m̄(ℓ)`` with ``f = Σ|μ|``, where rates go
    negative.

    Args:
        network: A trained network; it is not changed.
        sequences: Sequences it was not trained on.
        settings: What to measure.
        ends: End points t, each in max(lags)..T−1.
        seed: Seed of the directions and of the null control's noise.

    Returns:
        ``rate`` (order, lag, unit), the mean of |μ|; ``negative`` (order, lag), the share of rates below 0; ``statistic`` (signs, source,
        direction, order, lag, sequence); ``projection`` (source, direction, sequence), the gradient of the end points' losses, all lags
        together.
    """
    network = copy.deepcopy(network).double()
    generator = torch.Generator().manual_seed(seed)
    directions = [random_direction(network.cell, generator) for _ in range(settings.directions)]
    half = len(sequences.targets) // 2
    spread = (network(sequences.inputs[half:].double()) - sequences.targets[half:]).std().item()

    def read(part: Sequences) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rates (order, B, ends, lags, H), alignments (source, direction, B, ends, lags, H) and projections (source, direction, B)."""
        for start in range(0, len(part.targets), BATCH):
            inputs, targets = (s[start : start + BATCH].double() for s in part)
            trace = network.cell.trace(inputs)
            rates = torch.stack([effective_rates(trace, settings.lags, order, ends) for order in settings.orders])
            noise = spread * torch.randn(targets.shape, generator=generator, dtype=torch.float64)
            errors = [network.residual(trace.states, targets), noise]
            at_ends = torch.zeros_like(targets)
            at_ends[:, ends] = 1 / len(ends)
            alignments, projections = [], []
            for delta in (network.loss_gradients(e) for e in errors):
                alignments.append(torch.stack([alignment(delta, immediate_sensitivity(trace, w), settings.lags, ends) for w in directions]))
                projections.append(torch.stack([projected_gradient(trace, delta * at_ends.unsqueeze(-1), w) for w in directions]))
            yield rates, torch.stack(alignments), torch.stack(projections)

    total = torch.zeros((), dtype=torch.float64)
    for rates, alignments, _ in read(Sequences(*(s[:half] for s in sequences))):
        transported = torch.einsum("obelh,sdbelh->sdolh", rates, alignments)
        printed = alignments.sum((2, 3)).unsqueeze(2).expand_as(transported)
        total = total + torch.stack([transported, printed])
    signs = total.sign()

    absolute, negative, statistics, everything = [], [], [], []
    for rates, alignments, projections in read(Sequences(*(s[half:] for s in sequences))):
        absolute.append(rates.abs().mean(2))
        negative.append((rates < 0).double().mean((2, 4)))
        statistic = rates.new_empty(*signs.shape[:-1], rates.shape[1])
        for reading, s, d, o in np.ndindex(*signs.shape[:4]):
            statistic[reading, s, d, o] = matched_statistic(rates[o], alignments[s, d], signs[reading, s, d, o]).t()
        statistics.append(statistic)
        everything.append(projections)
    return xr.Dataset(
        {
            "rate": (
                ("order", "lag", "unit"),
                torch.cat(absolute, 1).mean(1).numpy(),
                {"long_name": "mean absolute effective learning rate"},
            ),
            "negative": (
                ("order", "lag"),
                torch.cat(negative, 1).mean(1).numpy(),
                {"long_name": "share of effective learning rates below 0"},
            ),
            "statistic": (("signs", "source", "direction", "order", "lag", "sequence"), torch.cat(statistics, -1).numpy()),
            "projection": (("source", "direction", "sequence"), torch.cat(everything, -1).numpy()),
        },
        coords={
            "order": list(settings.orders),
            "lag": ("lag", list(settings.lags), {"long_name": "lag ℓ", "units": "steps"}),
            "signs": ["transported", "printed"],
            "source": ["error", "noise"],
        },
    )


def infer(observed: xr.Dataset, settings: DiagnosticSettings) -> xr.Dataset:
    """Turn one number a sequence into tails, sample complexity N(ℓ) and the learnability window H_N. Implements Eqs. (34)–(37).

    N(ℓ) is given with two definitions of the noise: ``"lag"``, the paper's plug-in, takes the scale of the lag's own statistic, ``"total"``
    that of the whole projected gradient, in which an optimiser meets the lag's part. The alignment is m̄ = mean(T)/f. Windows follow two
    rules: ``"plug-in"`` believes every positive mean, as the paper does; ``"tested"`` only those that `significant` declares above zero.

    Args:
        observed: ``rate``, ``statistic`` and ``projection`` as `observe` gives them.
        settings: Error, significance and budgets.

    Returns:
        The dataset; every variable says in ``long_name`` what it is.
    """
    statistic = observed.statistic
    alpha, scale = _tails(statistic)
    total_alpha, total_scale = _tails(observed.projection)
    envelope = observed.rate.sum("unit")
    signal = statistic.mean("sequence")
    signal_error = statistic.std("sequence", ddof=1) / np.sqrt(statistic.sizes["sequence"])
    detected = xr.apply_ufunc(
        significant,
        statistic,
        input_core_dims=[["direction", "lag", "sequence"]],
        output_core_dims=[["direction", "lag"]],
        kwargs={"level": settings.significance},
    )
    # The paper's tail index is global, one a network: here the median over lags and directions.
    global_alpha = _both_noises(alpha.median(["direction", "lag"]), total_alpha.median("direction"))
    noise = _both_noises(scale, total_scale)
    # Where rates have underflowed to 0 nothing is carried: no alignment is defined, no law can be fitted, and N(ℓ) is infinite.
    carried = (envelope > 0) & (noise > 0)
    plug_in = [
        xr.apply_ufunc(
            bounds.sample_complexity,
            envelope,
            (signal / envelope).where(carried, 0.0),
            noise.where(carried, 1.0),
            global_alpha,
            input_core_dims=[["lag"], ["direction", "lag"], ["direction", "lag"], []],
            output_core_dims=[["direction", "lag"]],
            kwargs={"error": settings.error, "rate": rate},
            vectorize=True,
        )
        for rate in ("mean", "optimal", "paper_v2")
    ]
    required = xr.concat(plug_in, "rate_exponent").assign_coords(rate_exponent=["mean", "optimal", "paper_v2"])
    required = xr.concat([required.where(detected, np.inf), required], "rule").assign_coords(rule=["tested", "plug-in"])
    windows = xr.apply_ufunc(
        lambda needed: window.learnability_window(settings.lags, needed, settings.budgets),
        required,
        input_core_dims=[["lag"]],
        output_core_dims=[["budget"]],
    )
    time_scale = xr.apply_ufunc(
        lambda rates: window.time_scales(settings.lags, rates),
        observed.rate,
        input_core_dims=[["lag", "unit"]],
        output_core_dims=[["unit"]],
    )
    names = {
        "envelope": (envelope, "envelope f(ℓ), per unit of global learning rate", ""),
        "time_scale": (time_scale, "time scale τ of a neuron", "steps"),
        "signal": (signal, "mean of the matched statistic", ""),
        "signal_error": (signal_error, "standard error of the mean", ""),
        "detected": (detected, "mean above zero at the family-wise level", ""),
        "scale": (scale, "stable scale σ of the lag's statistic", ""),
        "total_scale": (total_scale, "stable scale σ of the projected gradient", ""),
        "alpha": (global_alpha, "global tail index α", ""),
        "required": (required, "sequences N(ℓ) needed to detect the lag", "sequences"),
        "window": (windows, "learnability window H_N", "steps"),
    }
    result = xr.Dataset({name: array.assign_attrs(long_name=meaning, units=units) for name, (array, meaning, units) in names.items()})
    return result.assign_coords(budget=("budget", list(settings.budgets), {"long_name": "number of sequences N", "units": "sequences"}))


def significant(statistics: NDArray[np.float64], level: float) -> NDArray[np.bool_]:
    """Say for which directions and lags a statistic's mean is above zero, with the error of any false claim among them held at a level.

    One-sided t-tests with Holm's correction. For symmetric laws the t-test keeps its level however heavy the tails (Efron 1969).

    Args:
        statistics: One number a sequence, shape (..., directions, lags, sequences).
        level: Error allowed for all directions and lags together, in (0, 1).

    Returns:
        Shape (..., directions, lags).
    """
    count = statistics.shape[-1]
    with np.errstate(invalid="ignore"):  # a statistic that is 0 throughout shows nothing: 0/0, read as p = 1
        t = statistics.mean(-1) / (statistics.std(-1, ddof=1) / np.sqrt(count))
    p = np.nan_to_num(special.stdtr(count - 1, -t), nan=1.0).reshape(*t.shape[:-2], -1)
    tests = p.shape[-1]
    rank = p.argsort(-1).argsort(-1)  # 0 for the smallest
    first_failure = np.where(p > level / (tests - rank), rank, tests).min(-1, keepdims=True)
    return (rank < first_failure).reshape(t.shape)


def _tails(samples: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Fit a symmetric stable law along the sequences: α and scale over the other dimensions."""

    def fit(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        fitted = stable.fit(values.reshape(-1, values.shape[-1]).T)
        return np.reshape(fitted.alpha, values.shape[:-1]), np.reshape(fitted.scale, values.shape[:-1])

    return xr.apply_ufunc(fit, samples, input_core_dims=[["sequence"]], output_core_dims=[[], []])


def _both_noises(of_lag: xr.DataArray, of_total: xr.DataArray) -> xr.DataArray:
    """Put a quantity of the lag's statistic and the same of the projected gradient side by side."""
    return xr.concat(xr.broadcast(of_lag, of_total), "noise_definition").assign_coords(noise_definition=["lag", "total"])
