"""Several networks of one shape, of other seeds say, whose losses and gradients are computed at once, each on its own sequences."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lwcore.arguments import instance_of, sequence_of
from lwcore.cells import compiled
from lwcore.network import Network
from lwcore.tensors import floating


class Ensemble:
    """Networks that differ in the values of their parameters only; nothing passes from one to another.

    On a GPU a small matrix product costs its launch, not its size, so a product of S pairs at once takes little longer than one. The
    compiled loops gain nothing from this: there each member runs by itself.

    Attributes:
        members: The networks. Their parameters stay theirs.
    """

    def __init__(self, members: Sequence[Network]) -> None:
        """Make room for the parameters side by side.

        Args:
            members: The networks, at least one, on one device.

        Raises:
            ValueError: If there are none, or their cells or shapes differ.
        """
        members = [instance_of(f"members[{i}]", member, Network) for i, member in enumerate(sequence_of("members", members))]
        if len({_shape(member) for member in members}) != 1:
            raise ValueError(f"members: {len(members)} given; must be at least one, all of one cell, shape and dtype.")
        self.members = members
        self._stacked = copy.deepcopy(self.members[0])
        for name, parameter in self.members[0].named_parameters():
            owner, _, own_name = name.rpartition(".")
            room = parameter.detach().new_empty(len(members), *parameter.shape)
            setattr(self._stacked.get_submodule(owner), own_name, nn.Parameter(room))

    def backward(self, inputs: Tensor, targets: Tensor, chunk: int | None = None) -> Tensor:
        """Compute every member's loss and leave its gradients in its parameters' `grad`, which must be None before.

        Args:
            inputs: x of each member, shape (S, B, T, D).
            targets: y of each member, shape (S, B, T).
            chunk: As for `Network.loss`.

        Returns:
            The mean squared error of each member, shape (S,).
        """
        several = len(self.members)
        floating("inputs", inputs, (several, None, None, None), "S, B, T, D")
        floating("targets", targets, tuple(inputs.shape[:3]), "S, B, T")
        if several == 1 or compiled.usable(inputs):
            losses = []
            for member, xs, ys in zip(self.members, inputs, targets, strict=True):
                loss = member.loss(xs, ys, chunk)
                loss.backward()
                losses.append(loss.detach())
            return torch.stack(losses)
        together = list(self._stacked.parameters())
        apart = list(zip(*(member.parameters() for member in self.members), strict=True))
        with torch.no_grad():
            for stacked, own in zip(together, apart, strict=True):
                torch.stack(own, out=stacked)
        of_all = self._stacked.loss(inputs, targets, chunk)
        for gradient, own in zip(torch.autograd.grad(of_all.sum(), together), apart, strict=True):
            for parameter, of_member in zip(own, gradient, strict=True):
                parameter.grad = of_member
        return of_all.detach()


def _shape(network: Network) -> tuple[object, ...]:
    """All that members must have in common."""
    sizes = tuple((name, parameter.shape, parameter.dtype) for name, parameter in network.named_parameters())
    return type(network.cell), getattr(network.cell, "constant_gate", None), sizes
