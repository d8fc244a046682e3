"""From a trained network to one number a sequence, source, probe and lag, and to what
`inference.summary` keeps of them.

A **probe** is one way to look at the lag-ℓ part of the gradient with one number a sequence. Its
**view** says which:

* ``"zeroth"``, ``"first"``: the paper's matched statistic, Eq. (28), with rates of that order,
  along a random direction w;
* ``"whole"``: the lag's part of the gradient itself, ``Σ_t δ_tᵀ M_{t,ℓ} B_{t−ℓ} w``, nothing left
  out, along the same directions;
* ``"gradient"``: the same along the lag's own mean gradient, the direction in which this lag pulls
  the parameters.

A **source** says what makes the error: the network's own (``"error"``); the target alone, as if
nothing had been learned yet (``"target"``); or independent noise of the error's size, which carries
nothing about the past (``"noise"``, the null control).

The independent unit is the sequence: each fresh sequence gives one number a source, probe and lag,
averaged over all end points that leave room for the longest lag. Signs and mean gradients come from
one half of the sequences and the numbers from the other.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float
from torch import Tensor
from torch.func import vmap
from torch.nn import functional

from lwcore import window
from lwcore.arguments import instance_of, integer_in, one_of, sequence_of
from lwcore.config import DiagnosticSettings
from lwcore.gradient import (
    Aim,
    alignment,
    immediate_sensitivity,
    lag_statistics,
    random_direction,
    transported,
)
from lwcore.inference import summary
from lwcore.network import Network
from lwcore.tasks import Sequences
from lwcore.trace import Direction, Trace
from lwcore.transport import default_ends, effective_rates, envelope

SOURCES = ("error", "target", "noise")
PAPER = ("zeroth", "first")  # views that the paper's statistic has, one for each order
# sequences traced at a time, at the most: bounds memory, does not change the result beyond rounding
BATCH = 64
STATES = 2**20  # numbers B·T·H at a time, at the most; some hundred arrays of that size are held


def measure(
    network: Network, sequences: Sequences, settings: DiagnosticSettings, seed: int
) -> xr.Dataset:
    """Measure what a network's N(ℓ) and windows follow from, on sequences it was not trained on.

    Gives the variables of `inference.summary`, the rates of `observe` and, where the settings say
    so, its numbers for the network's own error. The seed is that of the directions and of the null
    control's noise.
    """
    observed = observe(network, sequences, settings, seed)
    measured = summary(observed).assign(observed.drop_dims("sequence"))
    if not settings.keep_numbers:
        return measured
    return measured.assign(
        observed[["statistic", "projection"]].sel(source="error", drop=True).astype(np.float32)
    )


def observe(
    network: Network,
    sequences: Sequences,
    settings: DiagnosticSettings,
    seed: int,
    sources: Collection[str] = SOURCES,
) -> xr.Dataset:
    """Read rates and, one number a sequence, statistics and projected gradients off a float64 copy
    of a network.

    Gives ``rate`` (order, lag, unit), the mean of ``|μ|``, with ``envelope``, ``time_scale`` and
    ``negative``, the share of rates below 0; ``statistic`` and ``projection`` (source, probe, lag,
    sequence): the lag's part as the probe sees it, and the whole gradient, all lags together, along
    the probe's direction.
    """
    instance_of("network", network, Network)
    instance_of("sequences", sequences, Sequences).check()
    instance_of("settings", settings, DiagnosticSettings)
    integer_in("seed", seed, 0)
    for source in sequence_of("sources", sources):
        one_of("sources", source, SOURCES)
    network = copy.deepcopy(network).double()
    generator = torch.Generator().manual_seed(seed)
    randoms = [random_direction(network.cell, generator) for _ in range(settings.directions)]
    lags = list(settings.lags)
    half = len(sequences.targets) // 2
    for_signs, for_numbers = (
        Sequences(*(s[:half] for s in sequences)),
        Sequences(*(s[half:] for s in sequences)),
    )
    with torch.no_grad():
        spread = (network(for_numbers.inputs.double()) - for_numbers.targets).std().item()

    def read(part: Sequences) -> Iterator[_Batch]:
        """Trace a part of the sequences batch by batch, with the errors of every source."""
        at_once = max(1, min(BATCH, STATES // (part.targets.shape[1] * network.cell.hidden_size)))
        for start in range(0, len(part.targets), at_once):
            x, y = (s[start : start + at_once].double() for s in part)
            trace = network.cell.trace(x)
            noise = spread * torch.randn(y.shape, generator=generator, dtype=torch.float64)
            every = {"error": network.residual(trace.outputs, y), "target": -y, "noise": noise}
            errors = torch.stack([every[source] for source in sources])
            errors[..., : lags[-1]] = 0.0
            yield _Batch(
                trace, errors, network.loss_gradients(torch.ones((), dtype=torch.float64)), lags
            )

    fixed = _fix(read(for_signs), randoms)
    averages, numbers = [], []
    for batch in read(for_numbers):
        ends, share = (
            _spread_out(batch.ends, settings.ends),
            len(batch.trace.inputs) / len(for_numbers.targets),
        )
        by_order = [
            _averages(effective_rates(batch.trace, lags, order, ends)) for order in settings.orders
        ]
        averages.append([share * torch.stack(parts) for parts in zip(*by_order, strict=True)])
        numbers.append(_numbers(batch, randoms, fixed))
    rate, f, negative = (torch.stack(parts).sum(0).numpy() for parts in zip(*averages, strict=True))
    statistic, projection = (torch.cat(parts, -1).numpy() for parts in zip(*numbers, strict=True))
    tau = window.time_scales(lags, rate)
    dims = ("source", "probe", "lag", "sequence")
    return xr.Dataset(
        {
            "rate": (("order", "lag", "unit"), rate, {"long_name": "mean absolute effective rate"}),
            "envelope": (
                ("order", "lag"),
                f,
                {"long_name": "envelope f(ℓ), per unit of global learning rate"},
            ),
            "negative": (("order", "lag"), negative, {"long_name": "share of rates below 0"}),
            "time_scale": (
                ("order", "unit"),
                tau,
                {"long_name": "time scale τ of a neuron", "units": "steps"},
            ),
            "statistic": (dims, statistic, {"long_name": "the lag's part, one number a sequence"}),
            "projection": (
                dims,
                projection,
                {"long_name": "the whole gradient along the same direction"},
            ),
        },
        coords={
            "order": list(settings.orders),
            "lag": ("lag", lags, {"long_name": "lag ℓ", "units": "steps"}),
            "source": list(sources),
            "view": (
                "probe",
                [view for view in (*PAPER, "whole") for _ in randoms] + ["gradient"],
                {"long_name": "how the probe looks at the lag's part of the gradient"},
            ),
        },
    )


class _Batch(NamedTuple):
    """Some sequences, scanned, and the errors of every source, 0 before the first end point; δ is
    the error times ``unit``."""

    trace: Trace
    errors: Float[Tensor, "source B T"]
    unit: Float[Tensor, " H"]
    lags: list[int]

    @property
    def ends(self) -> list[int]:
        """All end points that leave room for every lag."""
        return default_ends(self.trace, self.lags)

    @property
    def loss_gradients(self) -> Float[Tensor, "source B T H"]:
        """δ of every source."""
        return self.errors.unsqueeze(-1) * self.unit

    def gradients(self) -> Float[Tensor, "source B P"]:
        """The whole gradient of every sequence, averaged over end points."""
        return self._gathered(
            torch.stack([self.trace.backpropagate(delta) for delta in self.loss_gradients]),
            slice(None),
        )

    def lag_gradients(self) -> Iterator[Float[Tensor, "source B P"]]:
        """The part of each lag; transport is linear, so that an error of 1 is carried back for all
        sources."""
        first = self.ends[0]
        for lag, rows in transported(
            self.trace, self.unit.expand_as(self.trace.outputs), self.lags, first
        ):
            yield self._gathered(
                self.errors[..., first:, None] * rows, slice(first - lag, self.trace.length - lag)
            )

    def _gathered(
        self, rows: Float[Tensor, "source B n S"], steps: slice
    ) -> Float[Tensor, "source B P"]:
        return vmap(lambda of_source: self.trace.gathered_each(of_source, steps))(rows) / len(
            self.ends
        )


class _Fixed(NamedTuple):
    """What one half of the sequences fixes before the other is looked at.

    Attributes:
        signs: Eq. (28)'s ``sgn E[a]`` along each random direction.
        directions: For each source and lag the random directions w, and the lag's own mean
            gradient, scaled to unit length.
        upwards: The sign of the lag's mean part along each of them.
    """

    signs: Float[Tensor, "source direction lag H"]
    directions: Float[Tensor, "source lag w P"]
    upwards: Float[Tensor, "source lag w"]


def _fix(batches: Iterable[_Batch], randoms: list[Direction]) -> _Fixed:
    """Add up alignments and gradients over one half of the sequences."""
    aligned, gradients = [], []
    for batch in batches:
        moved = [batch.trace.carried(immediate_sensitivity(batch.trace, w)) for w in randoms]
        at_lags = [
            [
                torch.cat(
                    [alignment(delta, m, [lag], batch.ends).sum((0, 1)) for lag in batch.lags]
                )
                for m in moved
            ]
            for delta in batch.loss_gradients
        ]
        aligned.append(torch.stack([torch.stack(of_source) for of_source in at_lags]))
        gradients.append(torch.stack([of_lag.sum(1) for of_lag in batch.lag_gradients()], dim=1))
    total = torch.stack(gradients).sum(0).unsqueeze(2)
    random = torch.stack([_flat(w) for w in randoms]).expand(*total.shape[:2], -1, -1)
    # zero stays zero
    directions = torch.cat([random, functional.normalize(total, dim=-1, eps=1e-300)], dim=2)
    return _Fixed(
        torch.stack(aligned).sum(0).sign(), directions, (directions * total).sum(-1).sign()
    )


def _numbers(batch: _Batch, randoms: list[Direction], fixed: _Fixed) -> tuple[Tensor, Tensor]:
    """One number a sequence for every source, probe and lag, and the whole gradient along the same
    directions: (source, probe, lag, B)."""
    moved = [batch.trace.carried(immediate_sensitivity(batch.trace, w)) for w in randoms]
    deltas = batch.loss_gradients
    looks = itertools.product(range(len(deltas)), range(len(randoms)))
    aims = [Aim(deltas[s], moved[d], fixed.signs[s, d]) for s, d in looks]
    paper = [
        lag_statistics(batch.trace, aims, batch.lags, order, batch.ends).mT.unflatten(
            0, (len(deltas), -1)
        )
        for order in PAPER
    ]
    at_lags = zip(
        batch.lag_gradients(), fixed.directions.unbind(1), fixed.upwards.unbind(1), strict=True
    )
    exact = torch.stack(
        [up.unsqueeze(-1) * torch.einsum("sbp,swp->swb", part, w) for part, w, up in at_lags], dim=2
    )
    whole = torch.einsum("sbp,slwp->swlb", batch.gradients(), fixed.directions)
    random = whole[:, : len(randoms)]
    return torch.cat([*paper, exact], dim=1), torch.cat([random, random, whole], dim=1)


def _averages(rates: Float[Tensor, "B ends lags H"]) -> tuple[Tensor, Tensor, Tensor]:
    """Mean absolute rates, their sum over neurons, and the share of rates below 0."""
    return rates.abs().mean((0, 1)), envelope(rates), (rates < 0).double().mean((0, 1, 3))


def _flat(direction: Direction) -> Float[Tensor, " P"]:
    """Lay a vector in parameter space out."""
    return torch.cat([part.flatten() for part in direction.values()])


def _spread_out(ends: list[int], count: int) -> list[int]:
    """Choose end points, evenly spaced up to the last one."""
    return [ends[-1 - i * len(ends) // count] for i in range(count)][::-1]
