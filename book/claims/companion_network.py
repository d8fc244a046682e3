"""Claims of the companion's Section 2 and of its Proposition 1: the network, its start, its
gradients, descent."""

from __future__ import annotations

import numpy as np
import torch
from scipy import optimize

from book.claims import companion_cases as cases
from book.claims.cases import relative
from book.claims.checks import measures
from book.claims.claim import Measured, exactly
from lwcore.elman.descent import gradient_descent
from lwcore.elman.network import (
    ACTIVATIONS,
    ElmanNetwork,
    hidden_gradients,
    symmetric_initialisation,
)


def _network(activation: str, seed: int = 0) -> ElmanNetwork:
    """A network of six neurons with Gaussian parameters and readout, not symmetric, for inputs of
    two dimensions."""
    rng = np.random.default_rng(seed)
    return ElmanNetwork(rng.standard_normal((6, 3)), rng.standard_normal(6), activation)


def _on_all(network: ElmanNetwork, sequence: cases.Array) -> tuple[torch.Tensor, torch.Tensor]:
    """Parameters, and the sequence once for each neuron."""
    x = torch.tensor(sequence)
    return torch.tensor(network.parameters), x.expand(network.width, *x.shape)


@measures("activations-are-smooth-and-bounded")
def _() -> Measured:
    worst = []
    for name in cases.SMOOTH:
        sigma, z = (
            ACTIVATIONS[name],
            torch.linspace(-30, 30, 60_001, dtype=torch.float64, requires_grad=True),
        )
        levels = [cases.SIGMA[name](z)]
        for _ in range(2):
            levels.append(torch.autograd.grad(levels[-1].sum(), z, create_graph=True)[0])
        for level, bound in zip(
            levels, (sigma.bound, sigma.slope_bound, sigma.curvature_bound), strict=True
        ):
            worst.append(abs(float(level.detach().abs().max()) / bound - 1))
    return exactly(max(worst))


@measures("elman-recurrence")
def _() -> Measured:
    worst = []
    for name in cases.SIGMA:
        network, x = _network(name), cases.sequences(3, 6, 2, seed=1)
        states = torch.stack([cases.states(*_on_all(network, one), name) for one in x])  # (n, m, T)
        outputs = torch.einsum("m,nmt->nt", torch.tensor(network.readout), states) / 6**0.5
        worst += [
            relative(network.hidden(x), states.transpose(1, 2).detach()),
            relative(network.outputs(x), outputs.detach()),
        ]
    return exactly(max(worst))


@measures("no-memory-without-recurrence")
def _() -> Measured:
    worst = []
    for name in cases.SIGMA:
        network, x = _network(name), cases.sequences(3, 6, 2, seed=1)
        cut = network.at(network.parameters * [0, 1, 1])
        layer = (
            cases.SIGMA[name](torch.tensor(x) @ torch.tensor(network.parameters[:, 1:]).T)
            @ torch.tensor(network.readout)
            / 6**0.5
        )
        worst.append(relative(cut.outputs(x), layer.detach()))
    return exactly(max(worst))


@measures("symmetric-start-outputs-zero")
def _() -> Measured:
    rng, worst = np.random.default_rng(0), []
    for name in cases.SIGMA:
        for start in range(25):
            network = symmetric_initialisation(20, 3, 0.8, rng, name)
            states = cases.states(*_on_all(network, cases.sequences(1, 8, 3, seed=start)[0]), name)
            worst.append(
                float(
                    (torch.tensor(network.readout) @ states).abs().max()
                    / 20**0.5
                    / states.abs().max()
                )
            )
    return exactly(max(worst))


@measures("descent-on-the-risk")
def _() -> Measured:
    worst = []
    for name in cases.SMOOTH:
        start, x = (
            symmetric_initialisation(6, 2, 0.5, np.random.default_rng(0), name),
            cases.sequences(3, 4, 2, seed=1),
        )
        y = np.random.default_rng(2).standard_normal((3, 4))
        first = parameters = torch.tensor(start.parameters)
        for _ in range(5):
            parameters = parameters.detach().requires_grad_()
            (slope,) = torch.autograd.grad(
                cases.risk(
                    parameters, torch.tensor(start.readout), torch.tensor(x), torch.tensor(y), name
                ),
                parameters,
            )
            parameters = parameters.detach() - 0.05 * slope
        worst.append(
            relative(
                gradient_descent(start, x, y, 0.05, 5).network.parameters - start.parameters,
                (parameters - first).detach(),
            )
        )
    return exactly(max(worst))


@measures("projection-keeps-every-neuron-near")
def _() -> Measured:
    worst, radii = [], (0.3, 0.5)
    for name in cases.SMOOTH:
        for seed in range(3):
            start, x = (
                symmetric_initialisation(30, 2, 0.5, np.random.default_rng(seed), name),
                cases.sequences(5, 4, 2, seed),
            )
            y = 3 * np.random.default_rng(seed + 10).standard_normal((5, 4))
            run = gradient_descent(start, x, y, 1.0, 40, radii=radii)
            moved = run.network.parameters - start.parameters
            for part, along, radius in (
                (moved[:, :1], run.recurrent_moves, radii[0]),
                (moved[:, 1:], run.input_moves, radii[1]),
            ):
                worst += [
                    along.max() / radius,
                    30**0.5 * np.linalg.norm(part, axis=1).max() / radius,
                    np.linalg.norm(part) / radius,
                ]
    return exactly(max(worst))


@measures("gradient-in-closed-form")
def _() -> Measured:
    return exactly(max(max(_from_autograd(name)) for name in cases.SMOOTH))


def _from_autograd(activation: str) -> tuple[float, float]:
    """Distance of Proposition 1 written out, and of the code, from autograd, at one step, slopes in
    other neurons' weights included."""
    network, x = _network(activation, seed=4), cases.sequences(1, 6, 2, seed=5)
    true = torch.autograd.functional.jacobian(
        lambda parameters: cases.states(parameters, torch.tensor(x[0]).expand(6, 6, 2), activation)[
            :, -1
        ],
        torch.tensor(network.parameters),
    ).reshape(6, 18)  # of every state in all parameters
    past = np.concatenate([np.zeros((1, 6)), network.hidden(x)[0]])
    slopes = [
        network.sigma.slope(
            network.parameters[:, 0] * past[s] + network.parameters[:, 1:] @ x[0, s]
        )
        for s in range(6)
    ]
    written, coded = np.zeros((2, 6, 6, 3))
    for i in range(6):
        for k in range(6):  # I_{t−1} … I_{t−k−1} with t = 6
            product = np.prod([slopes[s][i] for s in range(5 - k, 6)])
            written[i, i] += (
                network.parameters[i, 0] ** k
                * product
                * np.concatenate([past[5 - k, i : i + 1], x[0, 5 - k]])
            )
        coded[i, i] = hidden_gradients(network, x)[0, -1, i]
    return relative(written.reshape(6, 18), true), relative(coded.reshape(6, 18), true)


@measures("closed-form-gradient-of-relu")
def _() -> Measured:
    return exactly(max(_from_autograd("relu")))


@measures("relu-gradient-is-no-subgradient")
def _() -> Measured:
    x = np.array([[[1.0], [0.0]]])  # H_2 = W U where both are above 0: a saddle

    def below(move: cases.Array) -> float:
        network = ElmanNetwork(np.ones((2, 2)), np.array([1.0, -1.0]), "relu")
        there = network.at(network.parameters + move)
        return float(there.hidden(x)[0, 1, 0] - 1 - hidden_gradients(network, x)[0, 1, 0] @ move)

    return exactly(-float(optimize.minimize(below, [0.1, -0.1], bounds=[(-0.5, 0.5)] * 2).fun))
