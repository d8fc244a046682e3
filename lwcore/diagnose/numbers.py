"""From a network and its data to one number a sequence and lag, in two halves: one finds the directions, the other gives the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from lwcore.diagnose.batches import Sequences
from lwcore.diagnose.subject import Subject

TRANSPORTED = 16  # sequences whose whole transport is formed
ENDS = 4  # end points of each
AT_ONCE = 128  # sequences at a time, at the most
ENTRIES = 2**21  # numbers in an array, at the most, unless one sequence needs more; some dozen arrays of that size are held

Advance = Callable[[int], None]


class Observation:
    """What has been measured so far: filled step by step, so that an interrupt leaves what there is.

    Attributes:
        lags: Lags ℓ.
        for_directions: The half of the sequences that gives each lag's direction.
        for_numbers: The other half.
    """

    def __init__(self, subject: Subject, sequences: Sequences, lags: list[int], first: int, seed: int) -> None:
        """Split the sequences at random into halves.

        Args:
            subject: The network.
            sequences: Sequences.
            lags: Lags.
            first: First step with a loss.
            seed: Seed of the split.
        """
        self.subject, self.lags, self.first = subject, lags, first
        order = torch.randperm(len(sequences), generator=torch.Generator().manual_seed(seed)).to(sequences.inputs.device)
        half = len(order) // 2
        self.for_directions, self.for_numbers = sequences.at(order[:half]), sequences.at(order[half:])
        self._transported: list[tuple[Tensor, Tensor]] = []
        self._numbers: list[tuple[Tensor, Tensor]] = []

    @property
    def total(self) -> int:
        """Number of sequences to pass, all passes together."""
        return min(TRANSPORTED, len(self.for_numbers)) + len(self.for_directions) + len(self.for_numbers)

    @property
    def started(self) -> bool:
        """Whether anything is measured yet."""
        return bool(self._transported)

    @property
    def counted(self) -> int:
        """Sequences that have given their numbers."""
        return sum(statistic.shape[-1] for statistic, _ in self._numbers)

    def measure(self, advance: Advance) -> None:
        """Measure everything.

        Args:
            advance: Called with the number of sequences just passed.
        """
        self._transport(advance)
        directions = self._directions(advance)
        for part in self._parts(self.for_numbers):
            scan, delta = self.subject.read(part)
            whole = scan.whole_gradient(delta)
            carried = scan.lag_adjoints(delta, self.lags)
            along = [scan.along(rows, times, w) for (_, rows, times), w in zip(carried, directions, strict=True)]
            self._numbers.append((torch.stack(along), directions @ whole.T))
            advance(len(part))

    def _transport(self, advance: Advance) -> None:
        """Form the exact transport of a few sequences."""
        length = self.subject.read_as[1]
        ends = np.unique(np.linspace(max(self.lags[-1], self.first), length - 1, ENDS).round().astype(int)).tolist()
        recurrence = self.subject.recurrence
        size = len(ends) * len(recurrence.shown) * recurrence.state_size
        for part in self._parts(self.for_numbers.at(slice(0, TRANSPORTED)), size):
            rates, shares = zip(*self.subject.read(part)[0].rates(self.lags, ends), strict=True)
            self._transported.append((torch.stack(rates, dim=2), torch.stack(shares, dim=2)))
            advance(len(part))

    def _directions(self, advance: Advance) -> Tensor:
        """Find each lag's mean gradient, scaled to unit length, shape (lags, number of parameters)."""
        total = torch.zeros((), dtype=torch.float64)
        for part in self._parts(self.for_directions):
            scan, delta = self.subject.read(part)
            means = [scan.mean_gradient(rows, times) for _, rows, times in scan.lag_adjoints(delta, self.lags)]
            total = total + len(part) * torch.stack(means)
            advance(len(part))
        scaled = total / total.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)  # so that no square underflows
        return scaled / scaled.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)

    def _parts(self, sequences: Sequences, size: int | None = None) -> Iterator[Sequences]:
        """Cut sequences into parts of which arrays stay small; `size` numbers belong to one sequence."""
        recurrence = self.subject.recurrence
        parameters = sum(p.numel() for p in recurrence.parameters.values())
        at_once = max(1, min(AT_ONCE, ENTRIES // (size or max(self.subject.read_as[1] * recurrence.state_size, parameters))))
        return sequences.parts(at_once)

    def transport(self) -> xr.Dataset:
        """Give rates and off-diagonal shares, over the sequences passed.

        Returns:
            ``rate`` (lag, unit), the mean of ``|μ|``; ``off_diagonal`` (lag); ``envelope_error`` (lag).
        """
        rates, shares = (torch.cat(parts) for parts in zip(*self._transported, strict=True))
        envelopes = rates.abs().sum(-1).mean(1)
        return xr.Dataset(
            {
                "rate": (("lag", "unit"), rates.abs().mean((0, 1)).numpy(), {"long_name": "mean absolute effective rate"}),
                "off_diagonal": ("lag", shares.nanmean((0, 1)).numpy(), {"long_name": "share of the transport beside its diagonal"}),
                "envelope_error": (
                    "lag",
                    (envelopes.std(0) / len(envelopes) ** 0.5).numpy(),
                    {"long_name": "standard error of the envelope, over sequences"},
                ),
            },
            coords={"lag": ("lag", self.lags, {"long_name": "lag ℓ", "units": "steps"})}
            | {"layer": ("unit", self.subject.recurrence.layer.numpy(), {"long_name": "layer of the neuron, from 0"})},
        )

    def numbers(self) -> xr.Dataset:
        """Give one number a sequence.

        Returns:
            ``statistic`` and ``projection`` (lag, sequence): the lag's part, and the whole gradient, along the lag's direction.
        """
        dims = ("lag", "sequence")
        statistic, projection = (torch.cat(parts, -1).numpy() for parts in zip(*self._numbers, strict=True))
        return xr.Dataset(
            {
                "statistic": (dims, statistic, {"long_name": "the lag's part, one number a sequence"}),
                "projection": (dims, projection, {"long_name": "the whole gradient along the same direction"}),
            },
            coords={"lag": ("lag", self.lags, {"long_name": "lag ℓ", "units": "steps"})},
        )
