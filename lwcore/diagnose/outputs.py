"""What a model gives, as one row of numbers for each sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils import _pytree as trees

from lwcore.diagnose.tensors import dense, few, in_order, tensors_in
from lwcore.diagnose.trials import Layout
from lwcore.signatures import require


class Leaf(NamedTuple):
    """One tensor of what a model gives: where it has its sequences, and its shape without them."""

    place: int  # among all that the model gives
    layout: Layout
    shape: torch.Size

    def fits(self, part: Tensor, count: int) -> bool:
        """Say whether a tensor has so many sequences where that of the trial has them."""
        like = torch.empty((count, *self.shape), device="meta")
        return part.shape == self.layout.back(like).shape


@dataclass(frozen=True)
class Outputs:
    """Where what a model gives has the predictions of each sequence, (B, K) of them in all."""

    spec: Any
    leaves: list[Leaf]

    @classmethod
    def of(cls, given: Any) -> Outputs:
        """Find the tensors with sequences in what a model gives for a trial batch."""
        parts, spec = trees.tree_flatten(given)
        leaves = []
        for place, part in enumerate(parts):
            is_numeric = isinstance(part, Tensor) and (
                part.is_floating_point() or part.is_complex()
            )
            layout = Layout.of(part) if is_numeric else None
            if layout is not None:
                leaves.append(Leaf(place, layout, layout.front(part).shape[1:]))
        return cls(spec, leaves)

    @property
    def n_left_out(self) -> int:
        """How many things there are beside the predictions of each sequence."""
        return self.spec.num_leaves - len(self.leaves)

    @property
    def sizes(self) -> list[int]:
        """How many numbers each tensor has for a sequence."""
        return [leaf.shape.numel() for leaf in self.leaves]

    @property
    def entries(self) -> int:
        """How many numbers there are for a sequence."""
        return sum(self.sizes)

    def fit(self, given: Any, count: int) -> bool:
        """Say whether what the model gives for so many sequences has the tensors of the trial."""
        parts = trees.tree_leaves(given)
        if len(parts) != self.spec.num_leaves:
            return False
        for leaf in self.leaves:
            part = parts[leaf.place]
            if not isinstance(part, Tensor) or not leaf.fits(part, count):
                return False
        return True

    def rows(self, given: Any) -> Float[Tensor, "B K"]:
        """Return all numbers of each sequence side by side."""
        parts = trees.tree_leaves(given)
        rows = []
        for leaf in self.leaves:
            front = leaf.layout.front(parts[leaf.place])
            rows.append(front.reshape(len(front), -1))
        return torch.cat(rows, 1) if len(rows) > 1 else rows[0]

    def parted(self, rows: Float[Tensor, "B K"]) -> list[Tensor]:
        """Return each tensor with its sequences in front, (B, …)."""
        parts = rows.split(self.sizes, 1)
        pairs = zip(parts, self.leaves, strict=True)
        return [part.reshape(len(rows), *leaf.shape) for part, leaf in pairs]

    def restored(self, rows: Float[Tensor, "B K"]) -> Any:
        """Return predictions as the model gives them, for the loss: copies, which it may change."""
        parts: list[Any] = [None] * self.spec.num_leaves
        for part, leaf in zip(self.parted(rows), self.leaves, strict=True):
            parts[leaf.place] = in_order(leaf.layout.back(part))
        return trees.tree_unflatten(parts, self.spec)

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes that the loss gets, without the axis of sequences."""
        shapes = []
        one = self.restored(torch.zeros(1, self.entries))
        for part, leaf in zip(tensors_in(one), self.leaves, strict=True):
            shape = [*part.shape]
            del shape[leaf.layout.axis]
            shapes.append(tuple(shape))
        return shapes


def only_tensor(given: Any) -> Any:
    """Return the one tensor of a named output, as of `logits` and a cache, or all that there is."""
    if isinstance(given, Tensor):
        return given
    values = [*given.values()] if isinstance(given, Mapping) else given
    if isinstance(values, list | tuple):
        tensors = [part for part in values if isinstance(part, Tensor)]
        if len(tensors) == 1:
            return tensors[0]
    return given


def shown(given: Any) -> str:
    """Write which tensors there are in what a model gives."""
    if isinstance(given, Tensor):
        return f"{tuple(given.shape)}"
    if isinstance(given, Mapping):
        names = map(str, given)
        parts = [*given.values()]
    elif isinstance(given, list | tuple):
        names = map("[{}]".format, range(len(given)))
        parts = [*given]
    else:
        return f"a {type(given).__name__}"
    words = []
    for name, part in zip(names, parts, strict=True):
        is_tensor = isinstance(part, Tensor)
        words.append(f"{name} {tuple(part.shape) if is_tensor else f'({type(part).__name__})'}")
    return ", ".join(words)


def require_finite(
    model: nn.Module,
    predictions: Sequence[Tensor],
    inputs: Tensor | None = None,
    data: Tensor | None = None,
) -> None:
    """Refuse predictions that are not finite: for parameters that are not, or of which sequence.

    Sequences `inputs` may be some of the `data`, among which the place is counted.
    """
    if all(bool(part.isfinite().all()) for part in predictions):
        return
    spoilt = []
    for name, part in [*model.named_parameters(), *model.named_buffers()]:
        numbers = dense(part.detach())
        is_learned = part.requires_grad  # a mask may hold infinities
        if bool(numbers.isnan().any()) or (is_learned and bool(numbers.isinf().any())):
            spoilt.append(name)
    words = "finite. Has training diverged? Take weights from before that"
    told = f"NaN or infinite in {few(spoilt)}"
    require("parameters", told, not spoilt, words)
    told = "NaN or infinite somewhere"
    if inputs is not None and data is not None:
        (rows,) = (~predictions[0].isfinite().flatten(1).all(1)).nonzero(as_tuple=True)
        sequence = inputs[int(rows[0])].to(data.device)
        places = (data == sequence).flatten(1).all(1).nonzero()
        told = f"NaN or infinite for sequence {places[:1, 0].tolist()}"
    words = "finite: look for a division by 0, a logarithm or root of 0, or numbers that grow"
    require("predictions", told, False, words)
