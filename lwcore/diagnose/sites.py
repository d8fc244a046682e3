"""Uses of parameters, and the step of each: where a value is, and its rows in a site.

A *use* is one call of a function of PyTorch that takes parameters and data. It makes a value z of
the sequences, with rows. The time k of a row is the last step of the inputs that moves it; this is
measured (`lwcore.diagnose.trials`), and not read off a shape.

In an example of two layers of attention, for sequences of T steps::

    h = read(x)
    for layer in layers:
        h = h + attend(layer.query(h), layer.key(h), layer.value(h))
    return show(h)

Every call of ``read``, ``query``, ``key``, ``value`` and ``show`` is a use, eight in all. Attention
itself takes no parameters and is none. Calls whose result is the same for all sequences, as
``softplus(decay)`` or a transposed weight, are no uses but steps on the way to one. So is the first
``U h`` of ``tanh(W x_t + U h)``, where h is all zeros: at step 0 the sum is the use of U, and has a
site of its own.

What ``layers[0].key`` gives is a tensor (B, T, H). A `Value` is its address: which use made it, and
its `Layout`, which says that sequences are along axis 0. Row k of it moves with the inputs up to
step k and with no later one, so that its time is k. The uses of one function with the same
parameters are a `Site`, whose rows are those of all its values: of the key one value with T rows,
of a cell that a loop calls T times T values of one row.

A value is *joined* where a function first makes something of it and of what is not made of its own
use alone: of data, or of another use. In ``tanh(W x_t + U h)`` the product U h moves with step
t − 1 and is joined with x_t: it *waits* for step t, which is its time. In ``h = h + f(U h)``,
followed by ``h = h + W x_t``, it is joined with h, waits for nothing, and its time is t − 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lwcore.diagnose.tape import Call, Plan, Slot
from lwcore.diagnose.tensors import in_reals
from lwcore.diagnose.times import (
    SIGHTINGS,
    Bounds,
    Evidence,
    Sightings,
    are_told,
    has_unknown,
    settled,
    waits_of,
)
from lwcore.diagnose.trials import Layout, Steps
from lwcore.signatures import require

LEAVE_OUT = "name in `parameters` those to look at, without it"


class Value(NamedTuple):
    """The address of a tensor that a use gives: which one, and where it has its sequences.

    `shape` is without the sequences: (1, 1, T, H) for a tensor (B, T, H), whose `Layout` has no
    other rows around or within the axis of sequences.
    """

    use: int  # its number in a pass
    output: int
    layout: Layout
    shape: tuple[int, ...]
    call: Call
    name: str  # for what a refusal says

    def of(self, made: Sequence[Sequence[Tensor]]) -> Tensor:
        """Return the tensor, (B, …), among all that the uses of a pass have made."""
        return self.layout.front(made[self.use][self.output])


@dataclass(eq=False)
class Site:
    """The uses of one function with the same parameters: N rows, and the step of each."""

    name: str
    values: list[Value]
    axes: tuple[int, ...]  # of a value's shape, along which its rows are
    times: Steps  # of the rows of the first value, then of the next; −1: before all data, no lag

    def series(self, made: Sequence[Sequence[Tensor]]) -> Float[Tensor, "B N F"]:
        """Return the site's rows from what all uses have made, or from gradients in that."""
        n_rows = len(self.times) // len(self.values)
        axes = [axis + 1 for axis in self.axes]  # behind that of sequences
        parts = []
        for value in self.values:
            rows = value.of(made).movedim(axes, [*range(1, len(axes) + 1)])
            rows = in_reals(rows)
            parts.append(rows.reshape(len(rows), n_rows, -1))
        return torch.cat(parts, 1)

    def in_band(self, band: Sequence[int], end: Tensor) -> Tensor:
        """Say which rows, (B, N), were used by a lag of a band before their end point.

        Each sequence has an end point of its own, (B,). A band goes from its first lag to its last.
        What is used later acts at the end point, if at all: as the readout of a padded sequence.
        """
        times = torch.from_numpy(self.times)
        lags = (end[:, None] - times).clamp(min=0)
        return (lags >= band[0]) & (lags <= band[-1]) & (times >= 0)


class _Group(NamedTuple):
    """The values of a site, with the steps that move their rows, one value after the other.

    `own` has the steps that move a row, `joined` those that move what it is first joined to.
    """

    values: list[Value]
    own: Bounds
    joined: Bounds


class Gathered(NamedTuple):
    """The values of a trial pass by their sites, and what was measured of them."""

    groups: list[_Group]
    plan: Plan

    @classmethod
    def of(cls, values: Sequence[Value], plan: Plan, found: Sequence[Sightings]) -> Gathered:
        """Gather values by site.

        `found` has what was seen of each value, and behind these of each join of the plan.
        """
        of_joins = dict(zip(plan.joins, found[len(values) :], strict=True))
        groups: dict[Any, _Group] = {}
        for value, sightings in zip(values, found[: len(values)], strict=True):
            own = sightings.bounds
            if own is None:
                own = _unmoved(1, sightings.n_pairs)
            joined = of_joins[value.use].bounds if value.use in of_joins else None
            # A join of other rows, as of all steps together, does not say what a row waits for.
            if joined is None or len(joined.low) != len(own.low):
                joined = _unmoved(len(own.low), SIGHTINGS)
            site = (*value.call.signature, value.output, value.shape, own.axes)
            if site not in groups:
                groups[site] = _Group([value], own, joined)
                continue
            before = groups[site]
            groups[site] = _Group(
                values=[*before.values, value],
                own=before.own.with_more(own),
                joined=before.joined.with_more(joined),
            )
        return cls([*groups.values()], plan)

    @property
    def evidence(self) -> Evidence:
        """What is known of all rows, and of what joins them."""
        rows = [group.own for group in self.groups]
        joins = [group.joined for group in self.groups]
        return Evidence(rows, joins, n_behind=1)

    def sites(self, starts: Sequence[Call], length: int) -> list[Site]:
        """Return the sites; `starts` are the steps on the way, which no data are in."""
        found = []
        for group in self.groups:
            name = group.values[0].name
            told = f"{name}: at some steps, nothing that was tried moves its value"
            is_known = not has_unknown(group.own)
            words = (
                "used on data alone: is it used on zeros, too, as in windows that are padded at "
            )
            words += f"the start, or on tokens that are learned? Else {LEAVE_OUT}"
            require("parameters", told, is_known, words)
            self._refuse_rare(group, length)
            rows = self._waited(group, starts)
            is_told = are_told(rows.low, rows.high)
            require(
                "parameters",
                f"{name}: its steps cannot be told in sequences of {length}",
                is_told,
                f"used at each step in turn. Else {LEAVE_OUT}",
            )
            times = settled(rows.low, rows.high, length)
            found.append(Site(name, group.values, rows.axes, times))
        return found

    def _refuse_rare(self, group: _Group, length: int) -> None:
        """Refuse rows whose last step was seen in so few trials that a later one may be missed."""
        for rows in (group.own, group.joined):
            require(
                "parameters",
                f"{group.values[0].name}: step {rows.low[rows.seen.argmin()]} moves it in only "
                f"{rows.seen.min()} of many trials, as behind a gate that is mostly closed",
                rows.are_sure(length, 1),
                f"used on data in most steps: open the gate to measure. Else {LEAVE_OUT}",
            )

    def _waited(self, group: _Group, starts: Sequence[Call]) -> Bounds:
        """Return the step of each row, later than the one that moves it where it waits for a join.

        One of six holds:

        1. Some row is joined with nothing, as a state after the last step, or is the join itself,
           as W x_0 + U 0 at the start: none waits.
        2. All wait for as many steps, mostly 0. The recurrent product U h waits for one.
        3. Rows of one call do not wait alike: they are no step of a recurrence, and are joined by
           what sees several steps at once, as attention sees a prefix or a chunk. None waits.
        4. Only rows of the first steps wait, where there is no state yet: none waits.
        5. Some wait and others do not, as in several iterations of a step. Then U h is known by
           its first call, which is made of a state without data: it waits for its join.
        6. A cell's own next call is the join: none waits.

        Anything else is refused, for its step cannot be told.
        """
        own = group.own
        waits = waits_of(own, group.joined) if len(own.low) > 1 else None
        call = group.values[0].call
        if waits is None or call.takes_any(self._states_begun(starts)):
            return own
        known = {*waits.tolist()} - {-1}
        if len(known) == 1:
            return own.shifted(known.pop())
        for of_call in np.split(waits, len(group.values)):
            if len({*of_call.tolist()} - {-1}) > 1:
                return own
        is_later = own.low >= np.median(own.low[own.low >= 0])
        if waits[is_later].max(initial=0) <= 0:
            return own
        if any(start.is_start_of(call) for start in starts):
            return own.later(group.joined)
        told = f"{group.values[0].name}: in some calls its value waits for the next step, in "
        told += "others not"
        require(
            "parameters",
            told,
            self._joined_by_a_use(group),
            f"used alike in all steps, so that its step can be told. Else {LEAVE_OUT}",
        )
        return own

    def _states_begun(self, starts: Sequence[Call]) -> set[Slot]:
        """Return the slots of what uses make of a state without data, as U 0."""
        uses = [group.values[0].call for group in self.groups]
        slots: set[Slot] = set()
        for start in starts:
            if any(start.is_start_of(use) for use in uses):
                slots.update(start.slots)
        return slots

    def _joined_by_a_use(self, group: _Group) -> bool:
        """Say whether the join of some value is itself a use, as the next call of a cell is."""
        for value in group.values:
            join = self.plan.joins.get(value.use)
            if join is not None and join.is_use:
                return True
        return False


def _unmoved(n_rows: int, n_pairs: int) -> Bounds:
    """Return rows that no input moves in so many pairs."""
    none = np.full(n_rows, -1)
    return Bounds((), none, none, np.full(n_rows, n_pairs))
