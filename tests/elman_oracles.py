"""The companion's network written out for autodiff, neuron by neuron and step by step, in
float64."""

from __future__ import annotations

import numpy as np
import torch

SIGMA = {
    "tanh": torch.tanh,
    "logistic": torch.sigmoid,
    "gaussian": lambda z: torch.exp(-z * z),
    "relu": torch.relu,
}
SMOOTH = ["tanh", "logistic", "gaussian"]


def neuron(theta, sequence, activation, length=None):
    """The state H_t of one neuron, t the length: theta (1 + d,), sequence (T, d) -> scalar. C&E Eq.
    (2)."""
    state = torch.zeros((), dtype=torch.float64)
    for x in sequence[:length]:
        state = SIGMA[activation](theta[0] * state + theta[1:] @ x)
    return state


def output(parameters, readout, sequence, activation, length):
    """F_t of one sequence. C&E Eq. (3)."""
    states = torch.stack([neuron(theta, sequence, activation, length) for theta in parameters])
    return readout @ states / len(parameters) ** 0.5


def risk(parameters, readout, inputs, targets, activation):
    """C&E Eq. (1)."""
    total = 0.0
    for sequence, wanted in zip(inputs, targets, strict=True):
        for t in range(1, len(sequence) + 1):
            total = (
                total + (output(parameters, readout, sequence, activation, t) - wanted[t - 1]) ** 2
            )
    return total / len(inputs)


def sequences(n, length, dimension, seed, norm=1.0):
    """Inputs of a given norm at every step, in random directions: (n, T, d)."""
    x = np.random.default_rng(seed).standard_normal((n, length, dimension))
    return norm * x / np.linalg.norm(x, axis=-1, keepdims=True)


def double(array):
    """A tensor of the same numbers."""
    return torch.tensor(np.asarray(array), dtype=torch.float64)
