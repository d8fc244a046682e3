"""The rule of the kernel, on data that were made up so that the answer is known."""

from dataclasses import asdict

import pandas as pd
import pytest

from benchmarks.recordings import tangent_kernel
from book.chapters import clock, kernel_rules


def made_up(kernel=0.2, unlearned=0, failing_seeds=()):
    """Make networks up of which the first conditions do not learn half."""
    rows = []
    for place, condition in enumerate(tangent_kernel.conditions()):
        for seed in clock.SEEDS["kernel"]:
            fails = place < unlearned or seed in failing_seeds
            found = {"seed": seed, "end": "settled" if fails else "half"}
            found |= {"kernel_4096": kernel, "kernel_1024": kernel - 0.05}
            rows.append(asdict(condition) | found)
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("varied", "verdict"),
    [
        ({"kernel": 0.499}, "supported"),
        ({"kernel": 0.5}, "refuted"),
        ({"unlearned": 44}, "supported"),
        ({"unlearned": 45}, "undecided"),
        ({"failing_seeds": (7,)}, "supported"),
        ({"failing_seeds": (7, 8)}, "undecided"),
    ],
)
def test_kernels_are_judged_by_the_registered_rule(varied, verdict):
    assert kernel_rules.kernel_shares(made_up(**varied)).verdict() == verdict
