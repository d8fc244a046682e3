"""Time of the companion's gradients and kernels, on one thread: closed form against automatic
differentiation, all in float64.

Run with ``python -m benchmarks.elman``; some twenty seconds. Only ratios within one run mean
anything. All contestants give the derivative of every output F_t in every neuron's parameters, and
are compared before they are timed. Automatic differentiation is tried in the ways open to it:
backward from every output, each neuron by itself backward, and each neuron by itself forward, which
suits few parameters best.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.func import grad, jacfwd, jacrev, vmap

from benchmarks.harness import alternate, medians, record
from lwcore.elman.kernel import finite_kernel, limiting_kernel
from lwcore.elman.network import ElmanNetwork, output_gradients, symmetric_initialisation

WIDTH, LENGTH, DIMENSION = 4096, 64, 3
ROUNDS = 5

Array = NDArray[np.float64]


def draw(n: int, length: int, dimension: int) -> Array:
    """Draw sequences of unit vectors, shape (n, T, d)."""
    x = np.random.default_rng(1).standard_normal((n, length, dimension))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def contestants(network: ElmanNetwork, inputs: Array) -> dict[str, Callable[[], object]]:
    """Make the contestants for one sequence, inputs of shape (1, T, d); all return shape (T, m, 1 +
    d)."""
    parameters, sequence, weights = (
        torch.from_numpy(a)
        for a in (network.parameters, inputs[0], network.readout / network.width**0.5)
    )

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

    picks = torch.eye(len(sequence), dtype=torch.float64)
    ways: dict[str, Callable[[], Tensor]] = {
        "jacrev": lambda: jacrev(outputs)(parameters),
        "vmap(grad), outputs": lambda: vmap(
            lambda pick: grad(lambda theta: outputs(theta) @ pick)(parameters)
        )(picks),
        "vmap(jacrev), neurons": lambda: (
            vmap(jacrev(states))(parameters) * weights[:, None, None]
        ).transpose(0, 1),
        "vmap(jacfwd), neurons": lambda: (
            vmap(jacfwd(states))(parameters) * weights[:, None, None]
        ).transpose(0, 1),
    }
    ours = output_gradients(network, inputs)[0]
    for name, way in ways.items():
        np.testing.assert_allclose(
            way().detach().numpy(), ours, rtol=1e-9, atol=1e-14, err_msg=name
        )
    return {"closed form": lambda: output_gradients(network, inputs), **ways}


def main() -> None:
    """Time, print and record."""
    torch.set_num_threads(1)
    rng, console = np.random.default_rng(0), Console(width=120)
    network = symmetric_initialisation(WIDTH, DIMENSION, 0.8, rng)
    gradients = medians(alternate(contestants(network, draw(1, LENGTH, DIMENSION)), ROUNDS))
    shown = Table(
        "gradients of all outputs",
        "median, ms",
        "over the closed form",
        box=None,
        header_style="bold",
    )
    for name, taken in gradients.items():
        shown.add_row(name, f"{1e3 * taken:.1f}", f"{taken / gradients['closed form']:.1f}")
    console.print(
        f"m = {WIDTH}, T = {LENGTH}, d = {DIMENSION}, one sequence, tanh, float64, one thread, "
        f"median of {ROUNDS} rounds"
    )
    console.print(shown)

    inputs, flat = draw(10, 16, 3), draw(10, 16, 2)
    wide = symmetric_initialisation(100_000, 3, 0.8, rng)
    tasks: dict[str, Callable[[], object]] = {
        "finite, m = 100,000": lambda: finite_kernel(wide, inputs),
        "limit, d = 2": lambda: limiting_kernel(flat, alpha=0.8),
    }
    kernels = medians(alternate(tasks, 3))
    listed = Table(
        "kernel, 10 × 10 sequences of 16 steps", "median, s", box=None, header_style="bold"
    )
    for name, taken in kernels.items():
        listed.add_row(name, f"{taken:.2f}")
    console.print(listed)
    path = record(
        "elman",
        {
            "width": WIDTH,
            "length": LENGTH,
            "dimension": DIMENSION,
            "gradients": gradients,
            "kernels": kernels,
        },
    )
    console.print(f"recorded in {path}")


if __name__ == "__main__":
    main()
