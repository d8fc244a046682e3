"""Networks trained side by side are what each would be alone."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from book.chapters import dose, stacked
from book.chapters.stacked import ENDLESS, Member, Stack

GATES = (0.05, 0.3, 0.7)


def members(cell, arm="learned", counts=(16, 64, 256), optimizer="adamw", seed=991):
    conditions = [dose.Condition(cell, gate, "recall", 10, optimizer) for gate in GATES]
    pairs = zip(conditions, counts, strict=True)
    return [Member(condition, arm, count, seed) for condition, count in pairs]


@pytest.mark.parametrize("cell", ["ConstGate", "MinGRU"])
def test_last_outputs_are_those_of_the_cells_alone(cell):
    asked = members(cell)
    inputs = torch.randn(7, 11, 5, generator=torch.Generator().manual_seed(0))
    outputs = Stack(asked)(inputs.unsqueeze(0))
    for member, found in zip(asked, outputs, strict=True):
        alone = dose.Learner(member.condition, dose.Recall(10), member.seed)
        assert found.detach().numpy() == pytest.approx(
            alone(inputs)[:, -1].detach().numpy(), abs=1e-5
        )


@pytest.mark.parametrize("cell", ["ConstGate", "MinGRU"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_training_side_by_side_is_training_alone(cell, optimizer):
    asked = members(cell, optimizer=optimizer)
    ended = {}

    def watch(step, stack):
        if step == 30:
            ended.update({k: p.detach().clone() for k, p in stack.named_parameters()})

    stacked.train(asked, 50, watch)
    for k, member in enumerate(asked):
        alone = dose.Learner(member.condition, dose.Recall(10), member.seed)
        descent = dose.OPTIMIZERS[optimizer](alone.parameters())
        batches = stacked._Batches(member, dose.Recall(10))
        inputs, targets = batches.draw(dose.EVERY)
        for step in range(30):
            descent.zero_grad()
            functional.cross_entropy(alone(inputs[step])[:, -1], targets[step]).backward()
            nn.utils.clip_grad_norm_(alone.parameters(), 1.0)
            descent.step()
        for name, parameter in alone.named_parameters():
            found = ended[name.replace(".", "_")][k]
            difference = (found - parameter).abs().max().item()
            assert difference < 1e-4, (name, difference)


def test_networks_that_have_ended_leave_the_others_as_they_are():
    easy = Member(dose.Condition("ConstGate", 0.1, "recall", 10), "learned", 256, 991)
    hard = Member(dose.Condition("ConstGate", 0.7, "recall", 10), "learned", 16, 991)
    both = stacked.train([easy, hard], 400)
    alone = stacked.train([hard], 400)
    assert both[0]["end"] == "half"
    assert both[0]["steps"] < 400
    assert both[1]["steps"] == alone[0]["steps"]
    assert both[1]["share"] == pytest.approx(alone[0]["share"], abs=0.02)


def test_few_sequences_fill_a_batch_equally_often_and_endless_ones_never_come_back():
    condition = dose.Condition("ConstGate", 0.1, "recall", 10)
    batches = stacked._Batches(Member(condition, "learned", 16, 3), dose.Recall(10))
    inputs, _ = batches.draw(4)
    _, times = np.unique(inputs[0].flatten(1).numpy(), axis=0, return_counts=True)
    assert times.tolist() == [2] * 16
    endless = stacked._Batches(Member(condition, "learned", ENDLESS, 3), dose.Recall(10))
    seen = torch.cat([endless.draw(4)[0] for _ in range(3)]).flatten(0, 1).flatten(1)
    assert len(seen.unique(dim=0)) == len(seen) == 12 * dose.BATCH


def test_each_gradient_is_clipped_as_pytorch_clips_one():
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 4, 2), (3, 4)]
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in shapes]
    for parameter in parameters:
        drawn = torch.randn(parameter.shape, generator=generator)
        parameter.grad = drawn * torch.tensor([0.01, 1, 10]).view(-1, *[1] * (drawn.ndim - 1))
    expected = []
    for k in range(3):
        alone = [nn.Parameter(torch.zeros(shape[1:])) for shape in shapes]
        for one, parameter in zip(alone, parameters, strict=True):
            one.grad = parameter.grad[k].clone()
        nn.utils.clip_grad_norm_(alone, 1.0)
        expected.append([one.grad for one in alone])
    stacked.clip_each(parameters, 1.0)
    for k, gradients in enumerate(expected):
        for parameter, gradient in zip(parameters, gradients, strict=True):
            assert torch.allclose(parameter.grad[k], gradient, rtol=1e-5)


def test_arms_start_from_one_cell_and_differ_in_what_they_train():
    start = dose.Condition("ConstGate", 0.1, "recall", 10, mixing=0.5)
    stacks = {arm: Stack([Member(start, arm, 64, 5)]) for arm in ("learned", "fixed", "wide")}
    trained = {
        arm: sum(p.numel() for p in stack.parameters() if p.requires_grad)
        for arm, stack in stacks.items()
    }
    assert trained == {"learned": 1348, "fixed": 324, "wide": 1343}
    for name in ("cell_weight_ih", "cell_weight_hh", "cell_bias"):
        drawn = [getattr(stack, name) for stack in stacks.values()]
        assert torch.equal(drawn[0], drawn[1])
        assert torch.equal(drawn[0], drawn[2])
    scales = torch.linalg.svdvals(stacks["fixed"].cell_weight_hh[0])
    assert scales.detach().numpy() == pytest.approx(np.full(32, 0.5), rel=1e-5)


def test_members_that_are_not_alike_are_refused():
    other = Member(dose.Condition("MinGRU", 0.1, "recall", 10), "learned", 64, 5)
    with pytest.raises(ValueError, match="one cell"):
        stacked.train([*members("ConstGate", seed=5), other], 50)
