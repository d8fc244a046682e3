"""The rule of the kernel, on data that were made up so that the answer is known."""

from dataclasses import asdict

import pandas as pd
import pytest

from benchmarks.recordings import tangent_kernel
from book.chapters import clock, kernel_rules


def made_up(kernel=0.2, growth=0.05, unlearned=0, failing_seeds=(), kernel_where_unlearned=0.2):
    """Make networks up of which the first conditions do not learn half."""
    rows = []
    for place, condition in enumerate(tangent_kernel.conditions()):
        for seed in clock.SEEDS["kernel"]:
            fails = place < unlearned or seed in failing_seeds
            share = kernel_where_unlearned if fails else kernel
            found = {"end": "settled" if fails else "half", "kernel_4096": share}
            rows.append(
                asdict(condition) | {"seed": seed} | found | {"kernel_1024": share - growth}
            )
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("varied", "verdict"),
    [
        ({}, "supported"),
        ({"kernel": 0.499}, "supported"),
        ({"kernel": 0.5}, "refuted"),
        ({"unlearned": 44}, "supported"),
        ({"unlearned": 45}, "undecided"),
        ({"unlearned": 45, "kernel": 0.6}, "refuted"),
        ({"unlearned": 10, "kernel_where_unlearned": 0.9}, "supported"),
        ({"failing_seeds": (7,)}, "supported"),
        ({"failing_seeds": (7, 8)}, "undecided"),
    ],
)
def test_kernels_are_judged_by_the_registered_rule(varied, verdict):
    assert kernel_rules.kernel_shares(made_up(**varied)).verdict() == verdict
