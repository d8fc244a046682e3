"""Exchange: whose an entry of a value is, and when it was made. Both are planted here."""

import numpy as np
import torch

from lwcore.diagnose.contract import collect
from lwcore.diagnose.exchange import MIXED, STILL, UNEVEN, Exchange, Layout, row_axes, spread

COUNT, STEPS, WIDTH, GATES = 300, 6, 3, 12
T = np.arange(STEPS)
DRAWN = torch.randn(COUNT, STEPS, WIDTH, generator=torch.Generator().manual_seed(0))
DRAWN[:, 0] = 0.5  # the same in all sequences
DRAWN[::33, 4, 2] = 9.0  # a flag, which few sequences have


def exchange(inputs=DRAWN):
    return Exchange(collect((inputs, inputs), COUNT, True, None))


def seldom(x, share):
    """The first step; each entry in a few sequences the last step, too."""
    places = torch.special.ndtr(x[:, 1, :2, None])  # uniform
    is_open = (places - torch.arange(GATES) * share).remainder(1) < share
    return x[:, 0, :1] + is_open.flatten(1) * x[:, -1, :1]


def shifted(x):
    return torch.cat([x[:, :3] * torch.nan, x[:, :-3]], 1)


VALUES = {  # a value, and the first and the last step that reach it
    "the sum so far": (lambda x: x.cumsum(1)[..., 0], T * 0, T),
    "three steps before": (lambda x: shifted(x)[..., 0], [6, 6, 6, 0, 1, 2], [-1, -1, -1, 0, 1, 2]),
    "pairs": (lambda x: x @ x.mT, np.minimum.outer(T, T), np.maximum.outer(T, T)),
    "a flag": (lambda x: (x[:, 2:, 2] > 5).float(), [6, 6, 4, 6], [-1, -1, 4, -1]),
    "seldom": (lambda x: seldom(x, 0.06), [0] * 2 * GATES, [STEPS - 1] * 2 * GATES),
}


def test_the_first_and_the_last_step_that_reach_a_value_are_found():
    for kind, (value, first, last) in VALUES.items():
        (times,) = exchange().times(lambda inputs, value=value: [value(inputs.leaves[0])], 64)
        np.testing.assert_array_equal(times.last, last, kind)
        np.testing.assert_array_equal(times.first, first, kind)


def test_a_step_stands_for_the_same_one_of_another_sequence_where_these_differ():
    numbered = 10.0 * torch.arange(STEPS) + torch.rand(COUNT, 1)
    numbered[:, 0] = 0
    base, others = (rows.leaves[0] for rows in exchange(numbered).drawn(torch.arange(8)))
    assert torch.equal(others[:, 1:] // 10, base[:, 1:] // 10)
    assert (others != base).all()


END = torch.eye(STEPS)[:, -1:]
LAYOUTS = {
    "steps within": (lambda x: x.flatten(0, 1), Layout(0, 1, STEPS)),
    "one step of it": (lambda x: (x * END).flatten(0, 1), Layout(0, 1, STEPS)),
    "steps around": (lambda x: x.transpose(0, 1).flatten(0, 1), Layout(0, STEPS, 1)),
    "behind": (lambda x: x[:, 1].T, Layout(1, 1, 1)),
    "some dead": (lambda x: torch.cat([x, 0 * x], 1), Layout(0, 1, 1)),
    "two of them": (lambda x: x + x.roll(1, 0), MIXED),
    "none of them": (lambda x: 0 * x, STILL),
    "some of them": (lambda x: x[1:4], UNEVEN),
    "in another order": (lambda x: torch.cat([x[::2], x[1::2]]), UNEVEN),
}


def test_the_axis_of_sequences_is_found():
    for kind, (value, wanted) in LAYOUTS.items():
        (found,) = exchange().layouts(lambda inputs, value=value: [value(inputs.leaves[0])])
        assert found == wanted, kind
        if isinstance(found, Layout):
            front = found.front(value(DRAWN))
            assert len(front) == COUNT
            assert torch.equal(found.back(front), value(DRAWN))


def test_entries_of_one_row_have_one_time():
    """But for those that no step reaches: they have the time of their row."""
    slow = np.stack([T, T // 2 * 2], 1)
    dead = np.stack([T, np.full(STEPS, -1)], 1)
    axes = [row_axes(last) for last in (np.maximum.outer(T, T), slow, dead)]
    assert axes == [(0, 1), (0, 1), (0,)]
    np.testing.assert_array_equal(spread(dead), np.stack([T, T], 1))
