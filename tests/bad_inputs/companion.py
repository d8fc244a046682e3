"""The doors of the companion's networks: the network, its gradients, descent, kernel, transport
maps, bounds, and what measures them."""

from __future__ import annotations

import numpy as np

from book.chapters import (
    elman_bridge as bridge,
)
from book.chapters import (
    elman_looseness as looseness,
)
from book.chapters import (
    elman_measured as measured,
)
from book.chapters import (
    elman_spaces as spaces,
)
from lwcore.elman import bounds, descent, kernel, network
from lwcore.window import DecayLaw
from tests.bad_inputs.rows import (
    Argument,
    Bad,
    Door,
    array,
    generator,
    integer,
    lags,
    numbers,
    object_of,
    real,
    shaped,
    word,
    wrong,
)
from tests.bad_inputs.theory import NEGATIVE

NET = network.symmetric_initialisation(4, 2, 0.5, np.random.default_rng(0))
SEQUENCES = np.full((2, 3, 2), 0.5)
PROBLEM = bounds.Problem("tanh", 0.5, 3, 2, 1.0, 1.0)
MAPS = kernel.TransportMaps(np.sign, np.zeros_like, 1.0, 1.0)
CASE = measured.Study(PROBLEM, MAPS, SEQUENCES, np.zeros((2, 3)), 0.0)
RUN = descent.Descent(NET, NET, np.zeros(2), np.zeros(2), np.zeros(2))
SCALING = measured.Scaling(np.array([2.0, 4.0]), np.ones((2, 3)))

INPUTS = shaped(SEQUENCES, (2, 3), (2, 3, 3)).also(Bad(2 * SEQUENCES, ValueError, "norm 1.41"))
ANY_INPUTS = shaped(SEQUENCES, (2, 3)).also(Bad(2 * SEQUENCES, ValueError, "norm 1.41"))
TARGETS = shaped(np.zeros((2, 3)), (3,), (3, 2), (2, 4))
PARAMETERS = shaped(NET.parameters, (4, 2), (3, 3), (12,))
WIDTH = integer(4, 2).also(wrong(5))
WIDTHS = Argument(
    [4, 8],
    (
        wrong(4, TypeError),
        Bad([], ValueError, "0"),
        Bad([4, 5], ValueError, "5"),
        Bad([4.0], TypeError, r"4\.0"),
        Bad(["4"], TypeError, "'4'"),
    ),
)
STARTS = integer(1, 1)
SIZE = real(0.5, "(0, inf)")
RADIUS = real(1.0, "[0, inf)")
ACTIVATION = word("tanh")
SMOOTH = word("tanh").also(wrong("relu"))
PRINTED = Argument(True, tuple(wrong(value, TypeError) for value in (1, None, "yes")))
RADII = Argument(
    (1.0, 1.0),
    (
        wrong(1.0, TypeError),
        wrong((1.0,)),
        wrong((1.0, 1.0, 1.0)),
        Bad((1.0, np.nan), ValueError, "nan"),
        Bad((-1.0, 1.0), ValueError, r"-1\.0"),
        Bad(("1", 1.0), TypeError, "'1'"),
    ),
)
TOLERANCE = real(1e-2, "(0, inf)")
LOG_F = numbers([-1.0, -2.0], np.nan, np.inf)
BUDGETS = array([1.0], NEGATIVE)
net, problem, case, maps = (object_of(good) for good in (NET, PROBLEM, CASE, MAPS))

DOORS = [
    Door(measured.exit_time, run=object_of(RUN), radius=SIZE),
    Door(
        spaces.least_norm, kernel=shaped(np.eye(2), (2,), (2, 3), (3, 3)), values=array([1.0, 2.0])
    ),
    Door(
        measured.Scaling,
        sizes=array([2.0, 4.0], Bad([0.0, 1.0], ValueError, r"0\.0")),
        samples=shaped(np.ones((2, 3)), (3, 2), (2,)).also(
            Bad(-np.ones((2, 3)), ValueError, r"-1\.0")
        ),
    ),
    Door(SCALING.quantile, share=real(0.5, "[0, 1]")),
    Door(SCALING.slope, rng=generator(), level=real(0.95, "(0, 1)"), resamples=integer(2, 1)),
    Door(
        measured.study,
        problem=problem.also(Bad(bounds.Problem("tanh", 0.5, 3, 3, 1.0, 1.0), ValueError, "= 3")),
        rng=generator(),
        motion=word("turning"),
        tolerance=TOLERANCE,
    ),
    Door(looseness.needed, problem=problem, risk=SIZE, as_printed=PRINTED),
    Door(bridge.decay_rates, log_f=LOG_F),
    Door(bridge.wide_law, alpha=real(0.5, "(0, 1)"), dimension=integer(2, 1), lags=lags([1, 2])),
    Door(bridge.window, log_f=LOG_F, n_sequences=BUDGETS),
    Door(
        bridge.predicted_window,
        law=object_of(DecayLaw("power", 1.0, 0.5)),
        n_sequences=array([1.0], NEGATIVE),
    ),
    Door(bridge.cut_off_law, ratio=SIZE),
]
