"""What the companion's claims are checked on: its network written out for autograd, inputs,
transport maps, searches for the worst."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from book.claims.claim import Measured, estimate, share
from lwcore.elman.bounds import LocalConstants, local_constants
from lwcore.elman.kernel import TransportMaps

Array = NDArray[np.float64]

SMOOTH = ("tanh", "logistic", "gaussian")
SIGMA: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "logistic": torch.sigmoid,
    "gaussian": lambda z: torch.exp(-z * z),
    "relu": torch.relu,
}
# α_m, length and dimension on which constants are searched for: weak and strong recurrence, one
# step and several
PLACES = ((0.001, 2, 2), (0.05, 2, 1), (0.3, 3, 1), (0.8, 1, 1), (0.8, 4, 2), (1.5, 5, 2))


def states(parameters: Tensor, inputs: Tensor, activation: str) -> Tensor:
    """Run neurons ``[W_ii, U_i]``, (k, 1 + d), each on its own sequence, (k, T, d), as C&E Eq. (2)
    says: H_1 … H_T, shape (k, T)."""
    state, path = torch.zeros(len(parameters), dtype=torch.float64), []
    for step in range(inputs.shape[1]):
        state = SIGMA[activation](
            parameters[:, 0] * state + (parameters[:, 1:] * inputs[:, step]).sum(1)
        )
        path.append(state)
    return torch.stack(path, dim=1)


def risk(
    parameters: Tensor, readout: Tensor, inputs: Tensor, targets: Tensor, activation: str
) -> Tensor:
    """Write C&E Eq. (1) out, for rows ``[W_ii, U_i]``, (m, 1 + d), readout (m,), inputs (n, T, d)
    and targets (n, T)."""
    m = len(parameters)
    errors = [
        readout @ states(parameters, one.expand(m, *one.shape), activation) / m**0.5 - y
        for one, y in zip(inputs, targets, strict=True)
    ]
    return torch.stack(errors).square().sum(1).mean()


def sequences(n: int, length: int, dimension: int, seed: int) -> Array:
    """Draw n inputs of norm 1 at every step, in random directions: shape (n, T, d)."""
    x = np.random.default_rng(seed).standard_normal((n, length, dimension))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def turning_maps(recurrent_bound: float = 0.4, input_bound: float = 0.6) -> TransportMaps:
    """Make maps for two-dimensional inputs that have their largest size, ν̄_w and ν̄_u,
    everywhere."""
    return TransportMaps(
        lambda w: recurrent_bound * np.sign(w),
        lambda u: input_bound * np.stack([np.cos(u[:, 0]), np.sin(u[:, 0])], axis=1),
        recurrent_bound,
        input_bound,
    )


def pushing_maps() -> TransportMaps:
    """Make maps, ν̄_w = 0 and ν̄_u = 1, that push all input weights along the first of two
    coordinates: the largest target near it."""
    return TransportMaps(
        np.zeros_like,
        lambda u: np.broadcast_to([1.0, 0.0], u.shape),
        0.0,
        1.0,
        directions=np.zeros((1, 2)),
    )


# of parameters (k, 1 + d), inputs (k, T, d), an activation's name: shape (k,)
Objective = Callable[[Tensor, Tensor, str], Tensor]


def largest(
    objective: Objective,
    activation: str,
    place: tuple[float, int, int],
    starts: int = 48,
    steps: int = 120,
) -> float:
    """Search for the largest value of a function of one neuron and its inputs: Adam from many
    random starts at once.

    Args:
        objective: The function.
        activation: A key of `SIGMA`.
        place: Largest recurrent weight, length, dimension.
        starts: Number of starts.
        steps: Steps of each.

    Returns:
        The largest value met. Recurrent weights lie within the largest, inputs have norms up to 1,
        input weights are free.
    """
    bound, length, dimension = place
    generator = torch.Generator().manual_seed(0)
    shapes = ((starts,), (starts, dimension), (starts, length, dimension))
    free = [
        (2 * torch.randn(*shape, generator=generator, dtype=torch.float64)).requires_grad_()
        for shape in shapes
    ]
    descent, best = torch.optim.Adam(free, lr=0.1), -math.inf
    for _ in range(steps):
        recurrent, weights, x = bound * torch.tanh(free[0]), free[1], free[2]
        x = x / x.norm(dim=-1, keepdim=True).clamp(min=1)
        value = objective(torch.cat([recurrent[:, None], weights], dim=1), x, activation)
        best = max(best, float(value.detach().max()))
        descent.zero_grad()
        (-value.sum()).backward()
        descent.step()
    return best


def slope(parameters: Tensor, inputs: Tensor, activation: str, product: bool = False) -> Tensor:
    """Norm of the gradient of the last state, or of recurrent weight times it, in the neuron's
    parameters: shape (k,)."""
    return gradient(parameters, inputs, activation, product)[1].norm(dim=1)


def curvature(parameters: Tensor, inputs: Tensor, activation: str, product: bool = False) -> Tensor:
    """Spectral norm of the Hessian of the same: shape (k,)."""
    leaf, first = gradient(parameters, inputs, activation, product)
    rows = [
        torch.autograd.grad(column.sum(), leaf, create_graph=True)[0] for column in first.unbind(1)
    ]
    return torch.linalg.eigvalsh(torch.stack(rows, dim=1)).abs().amax(1)


def gradient(
    parameters: Tensor, inputs: Tensor, activation: str, product: bool = False
) -> tuple[Tensor, Tensor]:
    """Parameters and the gradient in them, shape (k, 1 + d) each, to be differentiated further."""
    leaf = parameters if parameters.requires_grad else parameters.requires_grad_()
    value = states(leaf, inputs, activation)[:, -1] * (leaf[:, 0] if product else 1)
    return leaf, torch.autograd.grad(value.sum(), leaf, create_graph=True)[0]


def constants(place: tuple[float, int, int], activation: str, as_printed: bool) -> LocalConstants:
    """Constants to hold a search against. As printed, β_t has α beside α_m; α may be as small as
    one likes, and is α_m/100 here."""
    bound, length, dimension = place
    return local_constants(
        activation,
        bound,
        length,
        dimension,
        alpha=bound / 100 if as_printed else None,
        as_printed=as_printed,
    )


def over_places(objective: Objective, constant: str) -> list[tuple[str, float, float]]:
    """Search everywhere with every smooth activation: largest value over a constant of
    `LocalConstants`, as printed and as repaired."""
    ratios = []
    for activation in SMOOTH:
        for place in PLACES:
            found = math.log(largest(objective, activation, place))
            printed, repaired = (
                math.exp(found - getattr(constants(place, activation, way), constant))
                for way in (True, False)
            )
            ratios.append((activation, printed, repaired))
    return ratios


def rate(sizes: Array, errors: Array) -> Measured:
    """Fit an exponent to errors (groups, k): the mean over groups of the slope of log error over
    log size, with Student's 95 % interval."""
    slopes = np.polyfit(np.log(sizes), np.log(errors).T, 1)[0]
    half = float(stats.t.ppf(0.975, len(slopes) - 1) * stats.sem(slopes))
    return estimate(slopes.mean(), (slopes.mean() - half, slopes.mean() + half))


def failures(hits: int, of: int, allowed: float) -> Measured:
    """Count how often a bound fails that may fail with probability δ: the share over δ, with
    Clopper and Pearson's interval."""
    found = share(hits, of)
    return Measured(found.value / allowed, found.low / allowed, found.high / allowed)
