"""The companion's network written out for autodiff, and neuron by neuron."""

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
    """Inputs of norm 1 in random directions, shape (n, T, d)."""
    drawn = np.random.default_rng(seed).standard_normal((n, length, dimension))
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


def states(neurons, inputs, name):
    """States H_1 … H_T, (k, T), of neurons ``[W_ii, U_i]``, each on its own sequence: C&E Eq. (2)."""
    state, path = neurons.new_zeros(len(neurons)), []
    for step in inputs.unbind(1):
        state = SIGMA[name](neurons[:, 0] * state + (neurons[:, 1:] * step).sum(1))
        path.append(state)
    return torch.stack(path, dim=1)


def double(array):
    """A tensor of the same numbers."""
    return torch.tensor(np.asarray(array), dtype=torch.float64)


def outputs(rows, readout, inputs, name):
    """F_1 … F_T, (n, T), of rows ``[W_ii, U_i]`` that may need derivatives. C&E Eqs. (2), (3)."""
    each = [states(rows, x.expand(len(rows), -1, -1), name) for x in double(inputs)]
    return torch.stack([double(readout) @ h for h in each]) / len(rows) ** 0.5


def risk(rows, readout, inputs, targets, name):
    """C&E Eq. (1)."""
    errors = outputs(rows, readout, inputs, name) - double(targets)
    return errors.square().sum() / len(errors)


def echo(sigma, w, u, x, first=0):
    """The sum of C&E Proposition 1 from k = `first`, at the last step, for scalar inputs."""
    h, total = 0.0, np.zeros(2)
    for value in x:
        slope, older = sigma.slope(w * h + u * value), w * total
        total = slope * (older + np.array([h, value]))
        h = float(sigma.value(np.array(w * h + u * value)))
    return slope * older if first else total
