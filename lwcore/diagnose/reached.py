"""Which steps a prediction of the data reaches, by its gradient: where each sequence is read out.

Trials tell at which step a prediction is made: the last one that moves it if it is changed. But
what a sequence holds may decide where it is read out, as at the end of a mask, or at a flag. In a
trial that step moves the prediction too, for the change sets the flag there. In the sequence as it
is the gradient of the prediction then reaches no use behind the flag.

A gate that skips steps looks much the same. It leaves gaps between steps that are reached, too,
which a readout does not.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from lwcore.diagnose.sites import Site


class Reached(NamedTuple):
    """The steps whose uses the gradient of each sequence's prediction reaches."""

    steps: Bool[Tensor, "B T"]
    exist: Bool[Tensor, " T"]  # steps with uses that can be reached

    @classmethod
    def of(
        cls, sites: Sequence[Site], gradients: Sequence[Tensor], end: Tensor, length: int
    ) -> "Reached":
        """Gather them over sites, of predictions made at the end of each sequence, (B,).

        What is used at the end alone is a readout, whose step is the one in question: left out.
        """
        steps = torch.zeros(len(end), length, dtype=torch.bool)
        exist = torch.zeros(length, dtype=torch.bool)
        for site, gradient in zip(sites, gradients, strict=True):
            times = torch.from_numpy(site.times).long()
            is_used = gradient.ne(0).any(-1).cpu() & (times >= 0)
            first = torch.where(is_used, times, length).min(1).values
            is_used[first >= end] = False
            rows, places = is_used.nonzero().mT
            steps[rows, times[places]] = True
            if len(rows):
                exist[times[times >= 0]] = True
        return cls(steps, exist)

    @property
    def last(self) -> Int[Tensor, " B"]:
        """The last step reached in each sequence; −1 if none is."""
        places = torch.arange(self.steps.shape[1])
        return torch.where(self.steps, places, -1).max(1).values

    def behind(self, end: Tensor) -> Int[Tensor, " B"]:
        """Count the steps behind the last one reached, up to the end; −1 where none is reached."""
        places = torch.arange(self.steps.shape[1])
        last = self.last
        is_behind = (places > last[:, None]) & (places <= end[:, None]) & self.exist
        return torch.where(last >= 0, is_behind.sum(1), -1)

    def longest_gap(self) -> int:
        """Return the most steps in a row that are not reached between two that are."""
        longest = 0
        for row in self.steps[:, self.exist]:
            places = row.nonzero()[:, 0]
            if len(places) > 1:
                longest = max(longest, int(places.diff().max()) - 1)
        return longest

    def leaves_out(self, chosen: Bool[Tensor, "B T"]) -> bool:
        """Say whether a chosen step is not reached that stands between two that are."""
        before = self.steps.cumsum(1) > 0
        behind = self.steps.flip(1).cumsum(1).flip(1) > 0
        is_left_out = ~self.steps & before & behind & self.exist & chosen
        return bool(is_left_out.any())
