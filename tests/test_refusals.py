"""What is refused, and in which words: one table for the whole package.

A row: words that the refusal must contain, the callable, its arguments. `checked` holds every
signature by itself (`test_signatures.py`); here stand the conditions that functions require.
"""

import re

import numpy as np
import pytest

from lwcore.detection import kl_divergence, sample_complexity
from lwcore.printing import printed


def row(words, called, *args, **kwargs):
    return pytest.param(words, called, args, kwargs, id=f"{called.__qualname__}: {words}")


THEORY = [  # stable, detection, window, inference, stats, tables, elman, printing, figures, cells
    row("error = 0.7: must be a number in [1e-150, 0.5)", sample_complexity, 1, 1, 1, 1.5, 0.7),
    row("shift/scale = 1e+160: must be 0, or from 1e-150 to 1e+150", kl_divergence, 1e160, 1.5),
    row("low, high = 2, 1: must be in order", printed, 1.5, 2, 1),
    row("value = ndarray", printed, np.ones(2)),
]

RUNS = [  # signatures, reals, results, experiment, network, command line
]


@pytest.mark.parametrize(("words", "called", "args", "kwargs"), [*THEORY, *RUNS])
def test_a_refusal_names_what_is_wrong(words, called, args, kwargs):
    with pytest.raises(ValueError, match=re.escape(words)):
        called(*args, **kwargs)
