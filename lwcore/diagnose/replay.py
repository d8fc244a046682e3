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
from lwcore.diagnose.tensors import ZEROS, dense, flat, in_reals, n_numbers


class Replay:
    """The values at all sites as a function of the parameters, whose derivative is J."""

    def __init__(self, parameters: Iterable[Tensor], tape: Tape, sites: Sequence[Site]) -> None:
        """Make the calls again with copies of the parameters."""
        self.theta = []  # copies of the parameters, complex ones as pairs of real numbers
        copies = []
        for parameter in parameters:
            reals = in_reals(parameter.detach()).clone().requires_grad_()
            self.theta.append(reals)
            copies.append(torch.view_as_complex(reals) if parameter.is_complex() else reals)
        with torch.enable_grad():
            made = tape.replay(copies)
            self.values = [site.series(made) for site in sites]

    def vjp(self, cotangents: Sequence[Tensor]) -> Float[Tensor, " P"]:
        """Return the gradient Jᵀu in all parameters, as one vector, from gradients u in the values.

        Values with no gradient are left out, which saves their way back.
        """
        values = []
        pulls = []
        for value, cotangent in zip(self.values, cotangents, strict=True):
            if bool(cotangent.any()):
                values.append(value)
                pulls.append(cotangent)
        if not values:
            n_parameters = n_numbers(self.theta)
            return torch.zeros(n_parameters, dtype=torch.float64)
        gradients = torch.autograd.grad(values, self.theta, pulls, retain_graph=True, **ZEROS)
        return flat([in_double(dense(part)).cpu() for part in gradients])

    @cached_property
    def _backward(self) -> tuple[list[Tensor], Sequence[Tensor]]:
        """Some u, and Jᵀu as what autograd can differentiate in u; it is linear, and u is zero."""
        u = [torch.zeros_like(value, requires_grad=True) for value in self.values]
        with torch.enable_grad():
            pulled = torch.autograd.grad(self.values, self.theta, u, create_graph=True, **ZEROS)
        return u, pulled

    def jvp(self, direction: Float[Tensor, " P"]) -> Sequence[Tensor]:
        """Return J w, how all values change as the parameters go in a direction w.

        By two reverse passes, since not all of PyTorch's functions have a forward mode: ``w · Jᵀu``
        is a number, and its gradient in u is J w.
        """
        u, pulled = self._backward
        gradients = []
        weights = []
        sizes = [part.numel() for part in self.theta]
        for gradient, part, w in zip(pulled, self.theta, direction.split(sizes), strict=True):
            if gradient.requires_grad:  # else no value depends on this parameter
                gradients.append(gradient)
                weights.append(placed(w, part.device, part.dtype).reshape(part.shape))
        if not gradients:
            return [torch.zeros_like(value) for value in self.values]
        return torch.autograd.grad(gradients, u, weights, retain_graph=True, **ZEROS)
