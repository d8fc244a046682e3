"""A search for a neuron and inputs at which something is largest, by automatic differentiation of
the companion's recurrence, written out once more."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

SIGMA: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "logistic": torch.sigmoid,
    "gaussian": lambda z: torch.exp(-z * z),
    "relu": torch.relu,
}
SMOOTH = ("tanh", "logistic", "gaussian")
Place = tuple[float, int, int]  # α_m, length, dimension
Objective = Callable[[Tensor, Tensor], Tensor]  # of neurons (k, 1 + d) and inputs (k, T, d)


def states(neurons: Tensor, inputs: Tensor, names: Sequence[str]) -> Tensor:
    """States H_1 … H_T, (k, T), of neurons ``[W_ii, U_i]``, each on its own sequence: C&E Eq. (2).

    The neurons are as many blocks of one size as activations are named.
    """
    state, path = neurons.new_zeros(len(neurons)), []
    for now in (neurons[:, None, 1:] * inputs).sum(2).unbind(1):
        blocks = (neurons[:, 0] * state + now).chunk(len(names))
        state = torch.cat([SIGMA[name](block) for name, block in zip(names, blocks, strict=True)])
        path.append(state)
    return torch.stack(path, dim=1)


def gradients(neurons: Tensor, inputs: Tensor, names: Sequence[str], product: bool) -> Tensor:
    """Gradients, (k, 1 + d), of H_T in a neuron's parameters, to be differentiated further; for a
    product, of H_T in the first half of every block and of ``W H_T`` in the second."""
    value = states(neurons, inputs, names)[:, -1].view(len(names), 1 + product, -1)
    if product:
        value = torch.cat([value[:, 0], (neurons[:, 0].view_as(value) * value)[:, 1]])
    return torch.autograd.grad(value.sum(), neurons, create_graph=True)[0]


def curvatures(neurons: Tensor, inputs: Tensor, names: Sequence[str], product: bool) -> Tensor:
    """Spectral norms, (k,), of the Hessians of the same."""
    slope = gradients(neurons, inputs, names, product)
    each = torch.eye(slope.shape[1], dtype=slope.dtype)[:, None].expand(-1, *slope.shape)
    rows = torch.autograd.grad(slope, neurons, each, create_graph=True, is_grads_batched=True)[0]
    return torch.linalg.eigvalsh(rows.transpose(0, 1)).abs().amax(1)


def largest(objective: Objective, place: Place, blocks: int, starts: int = 48) -> list[float]:
    """The largest value met in each block of neurons, with 120 steps of Adam from many starts.

    Recurrent weights lie within the largest, inputs have norms up to 1, input weights are free.
    """
    bound, length, dimension = place
    generator = torch.Generator().manual_seed(0)
    shapes = (starts,), (starts, dimension), (starts, length, dimension)
    drawn = [2 * torch.randn(*one, generator=generator, dtype=torch.float64) for one in shapes]
    free = [torch.cat([one] * blocks).requires_grad_() for one in drawn]
    ascent, best = torch.optim.Adam(free, lr=0.1, maximize=True), torch.full((blocks,), -torch.inf)
    for _ in range(120):
        x = free[2] / free[2].norm(dim=-1, keepdim=True).clamp(min=1)
        neurons = torch.cat([bound * torch.tanh(free[0])[:, None], free[1]], dim=1)
        value = objective(neurons, x)
        best = torch.maximum(best, value.detach().view(blocks, starts).amax(1))
        ascent.zero_grad()
        value.sum().backward()
        ascent.step()
    return best.tolist()
