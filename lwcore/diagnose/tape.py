"""A tape of the calls of PyTorch's functions that take parameters, and of what they give.

A call is either a *use*, which makes of parameters and data a value of the sequences, or a *step on
the way* to one, whose value is the same for all sequences: ``softplus(decay)``, a transposed
weight, an embedding of positions. Calls can be made again with other parameters.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as trees

from lwcore.diagnose.tensors import tensors_in
from lwcore.diagnose.trials import PATTERN, Layout
from lwcore.signatures import require

_SCANS = ("lstm", "gru", "rnn_tanh", "rnn_relu")  # functions of many steps
_IN_PLACE = ("__iadd__", "__isub__", "__imul__", "__itruediv__")
_DEVICES = ("cpu", "cuda")


class Slot(int):
    """The place among a tape's values of a parameter, or of what is made of parameters."""


class Call(NamedTuple):
    """A function that took parameters: its arguments, and where its values have sequences."""

    function: Callable[..., Any]
    leaves: list[Any]  # its arguments, flat, with a `Slot` in the place of each parameter
    spec: Any  # how they are nested
    outputs: list[int]  # which of its values carry gradients
    layout: Layout | None  # None: a step on the way from parameters to a use
    autocasts: list[tuple[str, torch.dtype]]  # devices on which it was made in autocast
    slots: list[Slot]  # of what it gives, of a step on the way alone

    @property
    def is_use(self) -> bool:
        """Whether its values are of the sequences, and not a step on the way."""
        return self.layout is not None

    @property
    def slots_taken(self) -> list[Slot]:
        """The slots of its arguments."""
        return [part for part in self.leaves if isinstance(part, Slot)]

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", "a function")

    def __call__(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Return what it gives for other parameters, in the precision that it was made in."""
        leaves = [values[part] if isinstance(part, Slot) else part for part in self.leaves]
        args, named = trees.tree_unflatten(leaves, self.spec)
        with ExitStack() as stack:
            for device, dtype in self.autocasts:
                stack.enter_context(torch.autocast(device, dtype, cache_enabled=False))
            given = trees.tree_leaves(self.function(*args, **named))
        return [given[place] for place in self.outputs]

    @property
    def signature(self) -> tuple[Any, ...]:
        """The function and its arguments, without the data: uses of one site share it."""
        signature: list[Any] = [self.function]
        for part in self.leaves:
            if isinstance(part, Slot):
                signature.append(part)
            else:
                signature.append(Tensor if isinstance(part, Tensor) else repr(part))
        return tuple(signature)

    def takes_any(self, slots: Collection[Slot]) -> bool:
        """Say whether some of its arguments are in these slots."""
        return not {*slots}.isdisjoint(self.slots_taken)

    def is_start_of(self, other: Call) -> bool:
        """Say whether it is another one's call with what no data are in, in the place of data.

        As U h with the zeros, or the parameters, that a state begins with.
        """
        own, theirs = self.signature, other.signature
        if self.layout is not None or len(own) != len(theirs):
            return False
        for a, b in zip(own, theirs, strict=True):
            is_slot_for_data = b is Tensor and isinstance(a, Slot)
            if a != b and not is_slot_for_data:
                return False
        return True


class Join(NamedTuple):
    """A function that made something of a use's value and of other data, as the first one."""

    number: int  # of the function, among all that were called
    function: Any
    layout: Layout  # of what it made
    is_use: bool  # whether it took parameters itself, as the next call of a cell does


@dataclass
class Plan:
    """What trial passes found: of each call that takes parameters where its values belong.

    `with_data` has the same of uses, by the number of the function among all that were called.
    `joins` has the uses whose values are joined with other data: the number of the function, and of
    its argument, is in `data`. Functions that gave now more, now fewer rows in trials are `uneven`,
    and join nothing.
    """

    layouts: list[Layout | None] = field(default_factory=list)
    joins: dict[int, Join] = field(default_factory=dict)
    with_data: dict[int, Layout] = field(default_factory=dict)
    data: set[tuple[int, int]] = field(default_factory=set)  # that functions join with uses
    uneven: set[int] = field(default_factory=set)

    def add(self, other: Plan) -> bool:
        """Add what another trial found, which began with this plan; say if there are more uses."""
        has_more = self.with_data.keys() != other.with_data.keys()
        joins = {} if has_more else self.joins  # which go by the numbers of uses
        self.uneven |= other.uneven
        for use, join in other.joins.items():
            if use not in joins or join.number < joins[use].number:
                joins[use] = join
        for use, join in [*joins.items()]:
            if join.number in self.uneven:
                del joins[use]
        self.joins = joins
        self.layouts = other.layouts
        self.with_data = other.with_data
        self.data |= other.data
        return has_more


class Tape(TorchFunctionMode):
    """The calls of a pass that take parameters, in order, and the values that they give.

    Without a plan the pass is a trial of the sequences of `trials.PATTERN`, which makes one. With a
    plan it takes any sequences, and `fits` says whether the calls were those of the trial. What
    other trials have found may be given to a trial by `others`: a gate may be closed in it.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        plan: Plan | None = None,
        watch: bool = False,
        others: Plan | None = None,
    ) -> None:
        """Record one pass; with `watch` also what first joins each use with other data."""
        super().__init__()
        self.calls: list[Call] = []
        self.made: list[list[Tensor]] = []  # of each use
        self.kept: list[Any] = list(parameters)  # alive, so that no other has its id
        self.slots: dict[int, Slot] = {}  # of what carries parameters, by its id
        self.origins: list[list[int]] = []  # the parameters in what is in each slot
        for place, part in enumerate(parameters):
            self.slots[id(part)] = Slot(place)
            self.origins.append([place])
        self.known: dict[Any, list[Slot]] = {}  # steps on the way that were taken before
        self.unfollowed: set[int] = set()  # parameters used where no gradient is followed
        self.is_trial = plan is None
        self.plan = plan or Plan()
        self.others = others or Plan()
        self.open: set[int] = set()  # functions of a trial that made something of data
        self.n_placed = 0  # calls whose place is known
        self.n_functions = 0
        self.joined: dict[int, Tensor] = {}  # of uses, what is first made of them and others
        self.alone: dict[int, set[int]] = {}  # uses that a tensor is made of alone, in a trial
        self.watched: dict[int, list[int]] = {}  # uses that a function joins with other data
        if watch:
            for use, join in self.plan.joins.items():
                self.watched.setdefault(join.number, []).append(use)

    @property
    def fits(self) -> bool:
        """Whether the pass made as many calls as its plan has, and found all joins, if watched."""
        has_joins = not self.watched or self.joined.keys() == self.plan.joins.keys()
        return has_joins and self.n_placed == len(self.plan.layouts)

    @property
    def uses(self) -> list[Call]:
        """The calls that made values of the sequences."""
        return [call for call in self.calls if call.is_use]

    @property
    def starts(self) -> list[Call]:
        """The calls that no data are in: steps on the way to a use."""
        return [call for call in self.calls if not call.is_use]

    def uneven_call(self, count: int) -> Call | None:
        """Return a use whose value is not of so many sequences, or what it is joined to is not."""
        for use, (call, made) in enumerate(zip(self.uses, self.made, strict=True)):
            assert call.layout is not None
            if not call.layout.holds(made[0], count):
                return call
            joined = self.joined.get(use)
            if joined is not None and not self.plan.joins[use].layout.holds(joined, count):
                return call
        return None

    @property
    def may_lack_data(self) -> bool:
        """Whether a call took real numbers that were no data, as zeros behind a closed gate."""
        return any(_has_reals(call.leaves) for call in self.starts)

    def sources(self, call: Call) -> list[int]:
        """Return the places of the parameters that a call takes."""
        return self._origins_of(call.slots_taken)

    def _origins_of(self, slots: Iterable[Slot]) -> list[int]:
        """Return the places of the parameters in what is in some slots."""
        places: set[int] = set()
        for slot in slots:
            places.update(self.origins[slot])
        return sorted(places)

    def replay(self, parameters: Sequence[Tensor]) -> list[list[Tensor]]:
        """Return the values of all uses, for other parameters and the same data."""
        values = list(parameters)
        made = []
        for call in self.calls:
            given = call(values)
            if call.is_use:
                made.append(given)
            else:
                values += given
        return made

    def __torch_function__(
        self, function: Any, _: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run a call of any of PyTorch's functions, and record it if it takes parameters."""
        named = kwargs or {}
        if function is functional.multi_head_attention_forward:
            with self:
                return _seen_through(function)(*args, **named)
        self.n_functions += 1
        number = self.n_functions
        leaves = trees.tree_leaves((args, named))
        takes_parameters = not self.slots.keys().isdisjoint(map(id, leaves))
        name = getattr(function, "__name__", "")
        if takes_parameters and name in _SCANS:
            with self:
                return _unrolled(name, *args)
        if takes_parameters:
            given = self._record(*_recordable(function, args, named))
        else:
            given = function(*args, **named)
        if self.is_trial:
            self._follow(leaves, given, number, function, takes_parameters)
        elif number in self.watched:
            self._note_join(given, number, function)
        return given

    def _record(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Run a function of parameters, and note it as a use or as a step on the way."""
        leaves, spec = trees.tree_flatten((args, named))
        made = function(*args, **named)
        given = trees.tree_leaves(made)
        held = []
        for part in leaves:
            data = part.detach() if isinstance(part, Tensor) else part
            held.append(self.slots.get(id(part), data))
        outputs = []
        for place, part in enumerate(given):
            if getattr(part, "requires_grad", False):
                outputs.append(place)
        if not outputs:
            if not torch.is_grad_enabled() and _has_reals(given):
                slots = [part for part in held if isinstance(part, Slot)]
                self.unfollowed.update(self._origins_of(slots))
            return made  # else it is a shape, say
        layout = self._layout_of(given[outputs[0]])
        call = Call(function, held, spec, outputs, layout, _autocasts_now(), [])
        if call.is_use:
            return self._note_use(call, made)
        self._note_step(call, leaves, given)
        return made

    def _layout_of(self, value: Tensor) -> Layout | None:
        """Find where a value has its sequences, in a trial; later this is known."""
        if self.is_trial:
            number = self.n_functions
            layout = Layout.of(value)
            if layout is not None:
                self.open.add(number)
            layout = layout or self.others.with_data.get(number)
            if layout is not None:
                self.plan.with_data[number] = layout
            self.plan.layouts.append(layout)
        elif self.n_placed >= len(self.plan.layouts):
            self.n_placed += 1  # one call too many
            return None
        self.n_placed += 1
        return self.plan.layouts[self.n_placed - 1]

    def _note_use(self, call: Call, made: Any) -> Any:
        """Keep a use and its values; return what the model goes on with."""
        if len(call.outputs) > 1:  # h, which may be made of c: copies are not made of one another
            made = trees.tree_map_only(Tensor, Tensor.clone, made)
        values = trees.tree_leaves(made)
        use = len(self.made)
        self.calls.append(call)
        self.made.append([values[place] for place in call.outputs])
        shown = trees.tree_map_only(Tensor, Tensor.clone, made)  # which may be written to
        if self.is_trial:
            for part in trees.tree_leaves(shown):
                self.alone[id(part)] = {use}
        return shown

    def _note_step(self, call: Call, leaves: list[Any], given: list[Any]) -> None:
        """Keep a step on the way from parameters to a use, once if a loop takes it anew."""
        carried = [given[place] for place in call.outputs]
        self.kept += tensors_in(leaves) + carried
        data = []
        for part, held in zip(leaves, call.leaves, strict=True):
            if isinstance(held, Tensor):
                data.append(id(part))
        slots = self.known.setdefault((call.signature, *data), [])
        if not slots:
            for _ in carried:
                slots.append(Slot(len(self.origins)))
                self.origins.append(self.sources(call))
            self.calls.append(call)
            call.slots.extend(slots)
        for part, slot in zip(carried, slots, strict=True):
            self.slots[id(part)] = slot

    def _follow(
        self, leaves: list[Any], given: Any, number: int, function: Any, is_use: bool
    ) -> None:
        """Note in a trial pass what a function makes of uses.

        With ``q = query(h)``, all of ``relu(q)`` is made of that use alone. ``q + k``, of another
        use, and ``q * x``, of data, join it with something else.
        """
        tensors = tensors_in(leaves)
        uses: set[int] = set()
        for part in tensors:
            uses |= self.alone.get(id(part), set())
        if not uses:
            return
        is_joined = False
        for place, part in enumerate(tensors):
            if id(part) in self.alone:
                is_joined |= self.alone[id(part)] != uses
                continue
            if Layout.of(part) is not None:
                self.plan.data.add((number, place))
            is_joined |= (number, place) in self.plan.data | self.others.data
        results = tensors_in(given)
        self.kept += results + tensors
        if not is_joined:
            for part in results:
                self.alone[id(part)] = self.alone.get(id(part), set()) | uses
            return
        for part in results:  # of what is written in place, the same tensor
            self.alone.pop(id(part), None)
        layout = Layout.of(results[0]) if results else None
        for use in uses:
            known = self.others.joins.get(use)
            if known is not None and known.number == number:
                if known.layout.holds(results[0], len(PATTERN)):
                    self.plan.joins.setdefault(use, known)
                else:
                    self.plan.uneven.add(number)
            elif layout is not None:
                self.plan.joins.setdefault(use, Join(number, function, layout, is_use))

    def _note_join(self, given: Any, number: int, function: Any) -> None:
        """Keep what a function made of uses and of other data, if it is that of the trial."""
        uses = self.watched[number]
        if function != self.plan.joins[uses[0]].function:
            return
        for part in trees.tree_leaves(given):
            if isinstance(part, Tensor):
                self.joined.update(dict.fromkeys(uses, part))
                return


def _autocasts_now() -> list[tuple[str, torch.dtype]]:
    """Return the devices that are in autocast, and its types."""
    found = []
    for device in _DEVICES:
        if torch.is_autocast_enabled(device):
            found.append((device, torch.get_autocast_dtype(device)))
    return found


def _has_reals(parts: Iterable[Any]) -> bool:
    """Say whether there are real numbers in some tensor."""
    return any(part.is_floating_point() for part in tensors_in([*parts]))


def _recordable(
    function: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a function, with its arguments, that does the same and can be made again.

    What writes in place makes a new tensor, and look-ups have a dense gradient. What changes
    parameters, or weighs a sequence by others, is refused.
    """
    name = getattr(function, "__name__", "")
    if name in _IN_PLACE:
        name = name.replace("i", "", 1)
        function = getattr(Tensor, name)
    writes = name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
    require(
        "model",
        f"{name}() of a parameter",
        not writes,
        "one that writes no parameter in place, nor what is made of it: by torch.where or "
        "torch.cat, say. Are steps sent to layers by index? Then name in `parameters` those to "
        "look at, without these",
    )
    if function not in (functional.embedding, functional.embedding_bag):
        return function, args, named
    bound = inspect.signature(function).bind(*args, **named)
    bound.apply_defaults()
    given = bound.arguments
    require(
        "max_norm",
        given["max_norm"],
        given["max_norm"] is None,
        "None: it writes to the weights in a forward pass. Scale them once, and leave it out",
    )
    by_count = given["scale_grad_by_freq"]
    require(
        "scale_grad_by_freq",
        by_count,
        not by_count,
        "False: it weighs gradients of a sequence by what others hold",
    )
    given["sparse"] = False
    return function, bound.args, bound.kwargs


def _seen_through(function: Any) -> Any:
    """Return PyTorch's own function in Python, with the calls in it seen by a mode."""
    names = {**function.__globals__, "has_torch_function": lambda _: False}
    made = types.FunctionType(function.__code__, names, None, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _unrolled(name: str, x: Tensor, second: Any, third: Any, *options: Any) -> tuple[Tensor, ...]:
    """Run a stack of PyTorch's recurrent layers step by step, each by its cell."""
    is_packed = isinstance(second, Tensor) and second.dtype == torch.int64  # sizes of its batches
    require(
        f"inputs of {name}()",
        "packed",
        not is_packed,
        "sequences that are padded and not packed: leave out pack_padded_sequence, and read each "
        "sequence at its last real step, as by out[torch.arange(len(out)), lengths - 1] in place "
        "of h_n[-1]",
    )
    state, weights = second, third
    _, n_layers, _, _, bidirectional, batch_first = options
    require("bidirectional", bidirectional, not bidirectional, "False, for a causal model")
    per_layer = len(weights) // n_layers
    is_projected = per_layer in (3, 5)  # one weight more than two, and than four with biases
    require(
        "proj_size",
        "above 0",
        not is_projected,
        "0: steps with projections are not read. Leave its parameters out, by `parameters`",
    )
    cell = getattr(torch, f"{name}_cell")
    has_two_states = name == "lstm"
    time_axis = int(batch_first)
    steps = list(x.unbind(time_axis))
    ends = []
    for layer in range(n_layers):
        own = weights[layer * per_layer : (layer + 1) * per_layer]
        now = [part[layer] for part in state] if has_two_states else state[layer]
        for t, step in enumerate(steps):
            now = cell(step, now, *own)
            steps[t] = now[0] if has_two_states else now
        ends.append(now if has_two_states else (now,))
    last = [torch.stack(parts) for parts in zip(*ends, strict=True)]
    return torch.stack(steps, time_axis), *last
