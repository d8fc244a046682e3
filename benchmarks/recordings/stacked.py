"""Many small networks trained side by side, each on its own sequences, as if it were alone.

A step of one network of 32 neurons is mostly overhead. `Stack` keeps the parameters of K networks
of one cell in one tensor each, (K, ...), so that a step of all costs little more than of one.
Nothing is shared between them: the loss is a sum over networks, gradients are clipped and
optimisers step for each network alone, and each draws its batches from its own generator.

Only the last output is computed, as recall asks for nothing else.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.recordings.learners import BATCH, DESCENTS, TASKS, TESTED, Learner, Task
from book.chapters.clock import Arm
from book.chapters.dose import EVERY, HALF, Condition

ENDLESS = 0  # instead of a number of sequences: every batch is new
WIDE = 31  # units between cell and readout, which train as many parameters as recurrent weights do


@dataclass(frozen=True)
class Member:
    """One network of a stack.

    Attributes:
        condition: Cell, gate, task and optimiser. Its `mixing` scales the recurrent weights at the
            start, None for 1; what becomes of them is the arm's.
        arm: ``"learned"`` trains the recurrent weights, ``"fixed"`` does not. ``"wide"`` does not
            either, and has a hidden layer between cell and readout instead.
        count: Number of training sequences, or `ENDLESS`.
        seed: Of the start, the sequences and the batches.
    """

    condition: Condition
    arm: Arm
    count: int
    seed: int


class Stack(nn.Module):
    """The parameters of K networks of one cell, (K, ...) each."""

    cell_weight_ih: nn.Parameter
    cell_weight_hh: nn.Parameter  # of ConstGate
    cell_bias: nn.Parameter
    between_weight: nn.Parameter  # of the wide arm
    between_bias: nn.Parameter
    out_weight: nn.Parameter
    out_bias: nn.Parameter

    def __init__(self, members: Sequence[Member]) -> None:
        """Draw each network's start as `Learner` does."""
        super().__init__()
        first = members[0]
        self.cell = first.condition.cell
        self.wide = first.arm == "wide"
        learners = [_learner(member) for member in members]
        self.gates = torch.tensor([member.condition.gate for member in members]).view(-1, 1, 1)
        self.names = [name for name, _ in learners[0].named_parameters()]
        for name in self.names:
            drawn = torch.stack([dict(learner.named_parameters())[name] for learner in learners])
            parameter = nn.Parameter(drawn.detach().clone())
            parameter.requires_grad_(name != "cell.weight_hh" or first.arm == "learned")
            self.register_parameter(name.replace(".", "_"), parameter)

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the last outputs, (K, B, O), from inputs (K or 1, B, T, D)."""
        hidden = self._const_gate(inputs) if self.cell == "ConstGate" else self._min_gru(inputs)
        if self.wide:
            hidden = torch.tanh(hidden @ self.between_weight.mT + self.between_bias.unsqueeze(1))
        return hidden @ self.out_weight.mT + self.out_bias.unsqueeze(1)

    def _driven(self, inputs: Tensor) -> Tensor:
        """Compute ``W x + b`` of every step, (K, B, T, rows)."""
        return inputs @ self.cell_weight_ih.mT.unsqueeze(1) + self.cell_bias[:, None, None]

    def _const_gate(self, inputs: Tensor) -> Tensor:
        """Scan ``h ← (1 − s) h + s tanh(W x + U h + b)``, Eq. (51), to the last state."""
        driven = self._driven(inputs).unbind(2)
        recurrent = self.cell_weight_hh.mT
        hidden = self.gates * torch.tanh(driven[0])
        for drive in driven[1:]:
            candidate = torch.tanh(torch.baddbmm(drive, hidden, recurrent))
            hidden = torch.lerp(hidden, candidate, self.gates)
        return hidden

    def _min_gru(self, inputs: Tensor) -> Tensor:
        """Scan ``h ← (1 − z) h + z g`` to the last state; z and g see the input alone."""
        opened, candidate = self._driven(inputs).chunk(2, dim=-1)
        hidden = torch.zeros_like(candidate[:, :, 0])
        for gate, written in zip(torch.sigmoid(opened).unbind(2), candidate.unbind(2), strict=True):
            hidden = torch.lerp(hidden, written, gate)
        return hidden

    def trained(self) -> list[nn.Parameter]:
        """List the parameters that training changes."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]

    def keep(self, chosen: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Drop all networks but the chosen ones, and what the optimiser remembers of the others."""
        self.gates = self.gates[chosen]
        for name, parameter in list(self.named_parameters()):
            # a new tensor: autograd does not let one change its shape
            smaller = nn.Parameter(parameter.detach()[chosen], parameter.requires_grad)
            setattr(self, name, smaller)
            remembered = optimizer.state.pop(parameter, {})
            for key, value in remembered.items():
                # a count of steps has no axes
                remembered[key] = value[chosen] if value.ndim else value
            if remembered:
                optimizer.state[smaller] = remembered
        optimizer.param_groups[0]["params"] = self.trained()


def _learner(member: Member) -> nn.Module:
    """Draw a network alone: a `Learner`, with a hidden layer in the wide arm."""
    condition = member.condition
    learner = Learner(condition, TASKS[condition.task](condition.lag), member.seed)
    if member.arm == "wide":
        generator = torch.Generator().manual_seed(member.seed + 1_000_000)
        hidden, outputs = learner.cell.hidden_size, learner.out.out_features
        learner.between = nn.Linear(hidden, WIDE)
        learner.out = nn.Linear(WIDE, outputs)
        with torch.no_grad():
            for layer in (learner.between, learner.out):
                drawn = torch.randn(layer.weight.shape, generator=generator)
                layer.weight.copy_(drawn / layer.in_features**0.5)
                layer.bias.zero_()
    return learner


class _Batches:
    """A network's training sequences, from which blocks of batches are drawn."""

    def __init__(self, member: Member, task: Task) -> None:
        self.rng = np.random.default_rng([member.seed, member.count])
        self.task, self.count = task, member.count
        if self.count != ENDLESS:
            self.inputs, self.targets = task.sample(self.count, self.rng)

    def draw(self, steps: int) -> tuple[Tensor, Tensor]:
        """Draw the batches of some steps: inputs (steps, B, T, D) and targets (steps, B)."""
        if self.count == ENDLESS:
            inputs, targets = self.task.sample(steps * BATCH, self.rng)
            return inputs.unflatten(0, (steps, BATCH)), targets.unflatten(0, (steps, BATCH))
        size = min(BATCH, self.count)
        chosen = [self.rng.choice(self.count, size, replace=False) for _ in range(steps)]
        # fewer sequences than a batch holds stand in it several times, equally often
        index = torch.from_numpy(np.tile(np.stack(chosen), BATCH // size))
        return self.inputs[index], self.targets[index]

    def shown(self) -> tuple[Tensor, Tensor]:
        """Return at most `TESTED` of the training sequences; of endless ones, fresh ones."""
        if self.count == ENDLESS:
            return self.task.sample(TESTED, self.rng)
        return self.inputs[:TESTED], self.targets[:TESTED]


def clip_each(parameters: Sequence[Tensor], largest: float) -> None:
    """Scale each network's gradient to a norm of at most `largest`, as `clip_grad_norm_` does."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    square = torch.stack([gradient.square().flatten(1).sum(1) for gradient in gradients]).sum(0)
    factor = (largest / (square.sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.view(-1, *[1] * (gradient.ndim - 1)))


def train(
    members: Sequence[Member],
    cap: int,
    watch: Callable[[int, Stack], None] = lambda step, stack: None,
) -> list[dict[str, object]]:
    """Train each network until it has learned half, or for `cap` steps.

    Every `EVERY` steps the share learned is measured on 512 fresh sequences, as in
    `book.chapters.dose`; a network that reaches the half leaves the stack. All members must have
    one cell, arm, optimiser, task, lag and seed.

    Returns:
        A row for each member, in their order: the best share, at how many steps it ended, why
        (``"half"`` or ``"cap"``), and `fitted`, the share of its own training sequences that it
        had learned then.
    """
    torch.set_num_threads(1)
    alike = {
        (m.condition.cell, m.condition.optimizer, m.condition.task, m.condition.lag, m.arm, m.seed)
        for m in members
    }
    if len(alike) != 1:
        raise ValueError(f"members = {sorted(alike)}: must be of one cell, optimiser, task, arm")
    condition, seed = members[0].condition, members[0].seed
    task = TASKS[condition.task](condition.lag)
    test_inputs, test_targets = task.sample(TESTED, np.random.default_rng([seed, 0]), fresh=True)
    stack = Stack(members)
    optimizer = DESCENTS[condition.optimizer](stack.trained())
    batches = [_Batches(member, task) for member in members]
    best = np.full(len(members), -np.inf)
    rows: dict[int, dict[str, object]] = {}
    alive = list(range(len(members)))

    for step in itertools.count():
        watch(step, stack)
        if step and step % EVERY == 0:
            shares = _shares(stack, test_inputs.unsqueeze(0), [test_targets] * len(alive), task)
            best[alive] = np.maximum(best[alive], shares)
            ended = [k for k in range(len(alive)) if best[alive[k]] >= HALF or step == cap]
            if ended:
                fitted = _fitted(stack, [batches[member] for member in alive], ended, task)
                for place, share in zip(ended, fitted, strict=True):
                    member = alive[place]
                    end = "half" if best[member] >= HALF else "cap"
                    found = {"share": best[member], "steps": step, "end": end, "fitted": share}
                    rows[member] = found
                going_on = [k for k in range(len(alive)) if k not in ended]
                if not going_on:
                    break
                stack.keep(torch.tensor(going_on), optimizer)
                alive = [alive[k] for k in going_on]
        if step % EVERY == 0:
            drawn = [batches[member].draw(EVERY) for member in alive]
            inputs = torch.stack([one for one, _ in drawn], dim=1)
            targets = torch.stack([one for _, one in drawn], dim=1)
        optimizer.zero_grad()
        outputs = stack(inputs[step % EVERY])
        goal = targets[step % EVERY]
        # a mean over each network's batch, summed over networks
        loss = functional.cross_entropy(outputs.flatten(0, 1), goal.flatten(), reduction="sum")
        (loss / BATCH).backward()
        clip_each(stack.trained(), 1.0)
        optimizer.step()
    return [rows[member] for member in range(len(members))]


@torch.no_grad()
def _shares(stack: Stack, inputs: Tensor, targets: Sequence[Tensor], task: Task) -> np.ndarray:
    """Measure what each network of a stack has learned."""
    outputs = stack(inputs)
    return np.array(
        [task.share(one[:, None], goal) for one, goal in zip(outputs, targets, strict=True)]
    )


def _fitted(
    stack: Stack, batches: Sequence[_Batches], ended: Sequence[int], task: Task
) -> list[float]:
    """Measure the share of its own training sequences that each network of some has learned."""
    found = []
    for place in ended:
        inputs, targets = batches[place].shown()
        with torch.no_grad():
            outputs = stack(inputs.unsqueeze(0))[place]
        found.append(task.share(outputs[:, None], targets))
    return found
