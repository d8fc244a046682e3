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
STEPS = 60  # of Adam, from each start
Place = tuple[float, int, int]  # α_m, length, dimension
Objective = Callable[[Tensor, Tensor], Tensor]  # of neurons (k, 1 + d) and inputs (k, T, d)


def states(neurons: Tensor, inputs: Tensor, names: Sequence[str]) -> Tensor:
    """Compute states H_1 … H_T, (k, T), of neurons, each on its own sequence: C&E Eq. (2).

    Args:
        neurons: ``[W_ii, U_i]``, (k, 1 + d), as many blocks of one size as activations are named.
        inputs: (k, T, d).
        names: Of activations, keys of `SIGMA`.
    """
    of_inputs = (neurons[:, None, 1:] * inputs).sum(2)
    state = neurons.new_zeros(len(neurons))
    path = []
    for of_input in of_inputs.unbind(1):
        blocks = (neurons[:, 0] * state + of_input).chunk(len(names))
        state = torch.cat([SIGMA[name](block) for name, block in zip(names, blocks, strict=True)])
        path.append(state)
    return torch.stack(path, dim=1)


def gradients(neurons: Tensor, inputs: Tensor, names: Sequence[str], product: bool) -> Tensor:
    """Differentiate H_T in a neuron's parameters: (k, 1 + d), to be differentiated further.

    Args:
        product: Whether the second half of every block is differentiated in ``W H_T`` instead.
    """
    last = states(neurons, inputs, names)[:, -1]
    if product:
        halves = last.view(len(names), 2, -1)
        recurrent = neurons[:, 0].view_as(halves)
        last = torch.cat([halves[:, 0], (recurrent * halves)[:, 1]])
    return torch.autograd.grad(last.sum(), neurons, create_graph=True)[0]


def curvatures(neurons: Tensor, inputs: Tensor, names: Sequence[str], product: bool) -> Tensor:
    """Compute the spectral norms, (k,), of the Hessians of what `gradients` differentiates."""
    slope = gradients(neurons, inputs, names, product)
    units = torch.eye(slope.shape[1], dtype=slope.dtype)
    directions = units[:, None].expand(-1, *slope.shape)
    (rows,) = torch.autograd.grad(
        slope, neurons, directions, create_graph=True, is_grads_batched=True
    )
    eigenvalues = torch.linalg.eigvalsh(rows.transpose(0, 1))
    return eigenvalues.abs().amax(1)


def largest(objective: Objective, place: Place, blocks: int, starts: int = 48) -> list[float]:
    """Search for the largest value in each block of neurons, by Adam from many starts.

    Recurrent weights lie within the largest, inputs have norms up to 1, input weights are free.

    Args:
        objective: Gives a value for each neuron with its inputs.
        place: Largest recurrent weight, length and dimension of the inputs.
        blocks: Number of blocks, which begin with the same draws.
        starts: Number of neurons in a block.
    """
    bound, length, dimension = place
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        """Draw where all blocks begin; what is returned can be moved."""
        drawn = 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
        return torch.cat([drawn] * blocks).requires_grad_()

    recurrent = draw(starts)
    of_inputs = draw(starts, dimension)
    inputs = draw(starts, length, dimension)
    ascent = torch.optim.Adam([recurrent, of_inputs, inputs], lr=0.1, maximize=True)
    best = torch.full((blocks,), -torch.inf)
    for _ in range(STEPS):
        within_ball = inputs / inputs.norm(dim=-1, keepdim=True).clamp(min=1)
        within_bound = bound * torch.tanh(recurrent)
        neurons = torch.cat([within_bound[:, None], of_inputs], dim=1)
        value = objective(neurons, within_ball)
        best = torch.maximum(best, value.detach().view(blocks, starts).amax(1))
        ascent.zero_grad()
        value.sum().backward()
        ascent.step()
    return best.tolist()
