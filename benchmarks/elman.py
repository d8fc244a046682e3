"""Time of the companion's gradients and kernels: closed form against autodiff (`make bench`).

All in float64. All contestants give the derivative of every output F_t in every neuron's
parameters, and are compared before they are timed: backward from every output, each neuron by
itself backward, and each neuron by itself forward, which suits few parameters best.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import grad, jacfwd, jacrev, vmap

from benchmarks.harness import Task, alone, medians, record
from lwcore.elman.kernel import finite_kernel, limiting_kernel
from lwcore.elman.network import ElmanNetwork, output_gradients, symmetric_initialisation

WIDTH, LENGTH, DIMENSION = 4096, 64, 3
Array = NDArray[np.float64]


def draw(n: int, length: int, dimension: int) -> Array:
    """Sequences of unit vectors, shape (n, T, d)."""
    x = np.random.default_rng(1).standard_normal((n, length, dimension))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def contestants(network: ElmanNetwork, inputs: Array) -> dict[str, Task]:
    """Gradients (T, m, 1 + d) of one sequence, inputs of shape (1, T, d), in every way."""
    parameters, sequence, weights = (
        torch.from_numpy(a)
        for a in (network.parameters, inputs[0], network.readout / network.width**0.5)
    )
    weight, picks = weights[:, None], torch.eye(len(sequence), dtype=torch.float64)

    def states(theta: Tensor) -> Tensor:
        """Run neurons, theta (..., 1 + d) -> (T, ...)."""
        drive = sequence @ theta[..., 1:].mT if theta.ndim > 1 else sequence @ theta[1:]
        state, path = torch.zeros_like(theta[..., 0]), []
        for now in drive:
            state = torch.tanh(theta[..., 0] * state + now)
            path.append(state)
        return torch.stack(path)

    def outputs(theta: Tensor) -> Tensor:
        return states(theta) @ weights

    def of_one(pick: Tensor) -> Tensor:
        return grad(lambda theta: outputs(theta) @ pick)(parameters)

    ways: dict[str, Callable[[], Tensor]] = {
        "jacrev": lambda: jacrev(outputs)(parameters),
        "vmap(grad), outputs": lambda: vmap(of_one)(picks),
        "vmap(jacrev), neurons": lambda: weight * vmap(jacrev(states))(parameters).transpose(0, 1),
        "vmap(jacfwd), neurons": lambda: weight * vmap(jacfwd(states))(parameters).transpose(0, 1),
    }
    ours = output_gradients(network, inputs)[0]
    for name, way in ways.items():
        found = way().detach().numpy()
        np.testing.assert_allclose(found, ours, rtol=1e-9, atol=1e-14, err_msg=name)
    return {"closed form": lambda: output_gradients(network, inputs), **ways}


def main() -> None:
    """Time, print and record."""
    alone()
    rng = np.random.default_rng(0)
    network = symmetric_initialisation(WIDTH, DIMENSION, 0.8, rng)
    gradients = medians(contestants(network, draw(1, LENGTH, DIMENSION)), 5)
    wide = symmetric_initialisation(100_000, 3, 0.8, rng)
    kernels = {
        "finite, m = 100,000": lambda: finite_kernel(wide, draw(10, 16, 3)),
        "limit, d = 2": lambda: limiting_kernel(draw(10, 16, 2), alpha=0.8),
    }
    sizes = {"width": WIDTH, "length": LENGTH, "dimension": DIMENSION}
    found = {"gradients": gradients, "kernels": medians(kernels, 3)}
    print(f"seconds: {found}")
    record("elman", sizes | found)


if __name__ == "__main__":
    main()
