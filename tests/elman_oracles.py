"""The companion's network written out for autodiff, and neuron by neuron.

A neuron is a row ``[W_ii, U_i]``: its recurrent weight, then its input weights.
"""

import numpy as np
import torch

SIGMA = {
    "tanh": torch.tanh,
    "logistic": torch.sigmoid,
    "gaussian": lambda z: torch.exp(-z * z),
    "relu": torch.relu,
}
SMOOTH = ("tanh", "logistic", "gaussian")


def sequences(n, length, dimension, seed):
    """Draw inputs of norm 1 in random directions, shape (n, T, d)."""
    drawn = np.random.default_rng(seed).standard_normal((n, length, dimension))
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


def states(neurons, inputs, name):
    """Return states H_1 … H_T, (k, T), of neurons, each on its own sequence: C&E Eq. (2)."""
    recurrent = neurons[:, 0]
    input_weights = neurons[:, 1:]
    state = neurons.new_zeros(len(neurons))
    path = []
    for x in inputs.unbind(1):
        state = SIGMA[name](recurrent * state + (input_weights * x).sum(1))
        path.append(state)
    return torch.stack(path, dim=1)


def double(array):
    """Return a tensor of the same numbers."""
    return torch.tensor(np.asarray(array), dtype=torch.float64)


def outputs(rows, readout, inputs, name):
    """Return F_1 … F_T, (n, T), of rows that may need derivatives. C&E Eqs. (2), (3)."""
    weights = double(readout)
    each = []
    for sequence in double(inputs):
        for_all_neurons = sequence.expand(len(rows), -1, -1)
        each.append(weights @ states(rows, for_all_neurons, name))
    return torch.stack(each) / len(rows) ** 0.5


def risk(rows, readout, inputs, targets, name):
    """Return the empirical risk: C&E Eq. (1)."""
    errors = outputs(rows, readout, inputs, name) - double(targets)
    return errors.square().sum() / len(errors)


def echo(sigma, w, u, x, first=0):
    """Return the sum of C&E Proposition 1 from k = `first`, at the last step, for scalar inputs."""
    h = 0.0
    total = np.zeros(2)
    for value in x:
        slope = sigma.slope(w * h + u * value)
        older = w * total
        total = slope * (older + np.array([h, value]))
        h = float(sigma.value(np.array(w * h + u * value)))
    return slope * older if first else total
