"""All calls of a tape made again with other parameters and the recorded data, and derivatives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from lwcore.ambient import in_double, placed
from lwcore.diagnose.sites import Site
from lwcore.diagnose.tape import Tape
from lwcore.diagnose.tensors import ZEROS, dense, in_reals


class Replay:
    """The values at all sites as a function of the parameters, whose derivative is J."""

    def __init__(self, parameters: Iterable[Tensor], tape: Tape, sites: Sequence[Site]) -> None:
        """Make the calls again with copies of the parameters."""
        self.theta = []  # complex ones as pairs
        copies = []
        for own in parameters:
            part = in_reals(own.detach()).clone().requires_grad_()
            self.theta.append(part)
            copies.append(torch.view_as_complex(part) if own.is_complex() else part)
        with torch.enable_grad():
            made = tape.replay(copies)
            self.values = [site.series(made) for site in sites]

    def vjp(self, cotangents: Sequence[Tensor]) -> Float[Tensor, " P"]:
        """Return gradients u in the values as one vector of gradients in the parameters, Jᵀu."""
        values = []
        given = []
        for value, cotangent in zip(self.values, cotangents, strict=True):
            if bool(cotangent.any()):
                values.append(value)
                given.append(cotangent)
        if not values:
            n_parameters = sum(part.numel() for part in self.theta)
            return torch.zeros(n_parameters, dtype=torch.float64)
        found = torch.autograd.grad(values, self.theta, given, retain_graph=True, **ZEROS)
        return torch.cat([in_double(dense(part).flatten()).cpu() for part in found])

    @cached_property
    def _backward(self) -> tuple[list[Tensor], Sequence[Tensor]]:
        """Zeros u, and Jᵀu as a function of them."""
        zeros = [torch.zeros_like(value, requires_grad=True) for value in self.values]
        with torch.enable_grad():
            found = torch.autograd.grad(self.values, self.theta, zeros, create_graph=True, **ZEROS)
        return zeros, found

    def jvp(self, direction: Float[Tensor, " P"]) -> Sequence[Tensor]:
        """Return how all values change as the parameters go in a direction, J w.

        By two reverse passes, since not all of PyTorch's functions have a forward mode: the
        derivative of ``Jᵀu · w`` in u is J w.
        """
        zeros, backward = self._backward
        reached = []
        along = []
        sizes = [part.numel() for part in self.theta]
        pieces = direction.split(sizes)
        for gradient, own, piece in zip(backward, self.theta, pieces, strict=True):
            if gradient.requires_grad:  # else no value depends on this parameter
                reached.append(gradient)
                along.append(placed(piece, own.device, own.dtype).reshape(own.shape))
        if not reached:
            return [torch.zeros_like(value) for value in self.values]
        return torch.autograd.grad(reached, zeros, along, retain_graph=True, **ZEROS)
