"""The doors of the companion's networks: the network, its gradients, descent, kernel, transport
maps, bounds, and what measures them."""

from __future__ import annotations

import numpy as np

from book.chapters import (
    elman_bridge as bridge,
)
from book.chapters import (
    elman_cutoff as cutoff,
)
from book.chapters import (
    elman_extremes as extremes,
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
    Door(network.TANH.slope, z=numbers([1.0])),
    Door(network.TANH.curvature, z=numbers([1.0])),
    Door(
        network.ElmanNetwork,
        parameters=array(
            NET.parameters,
            Bad(np.ones((4, 1)), ValueError, r"\(4, 1\)"),
            Bad(np.ones(4), ValueError, r"\(4,\)"),
            Bad(np.ones((3, 3)), ValueError, "3"),
        ),
        readout=shaped(NET.readout, (3,), (4, 1)),
        activation=ACTIVATION,
    ),
    Door(NET.at, parameters=PARAMETERS),
    Door(NET.hidden, inputs=INPUTS),
    Door(NET.outputs, inputs=INPUTS),
    Door(NET.read, states=numbers(np.ones(4)).also(Bad(np.ones(3), ValueError, r"\(3,\)"))),
    Door(
        network.symmetric_initialisation,
        width=WIDTH,
        dimension=integer(2, 1),
        alpha=SIZE,
        rng=generator(),
        activation=ACTIVATION,
    ),
    Door(network.empirical_risk, network=net, inputs=INPUTS, targets=TARGETS),
    Door(network.even_width, {"value": "width"}, name="width", value=WIDTH),
    Door(network.checked_inputs, inputs=ANY_INPUTS),
    Door(network.checked_radii, radii=RADII),
    Door(network.hidden_gradients, network=net, inputs=INPUTS),
    Door(network.output_gradients, network=net, inputs=INPUTS),
    Door(descent.risk_gradient, network=net, inputs=INPUTS, targets=TARGETS),
    Door(network.linear_model, initial=net, parameters=PARAMETERS, inputs=INPUTS),
    Door(
        descent.gradient_descent,
        initial=net,
        inputs=INPUTS,
        targets=TARGETS,
        step_size=SIZE,
        steps=integer(1, 1),
        radii=RADII,
    ),
    Door(measured.exit_time, run=object_of(RUN), radius=SIZE),
    Door(
        kernel.finite_kernel,
        network=net,
        inputs=INPUTS,
        others=Argument(SEQUENCES, tuple(bad for bad in INPUTS.bad if bad.value is not None)),
    ),
    Door(
        kernel.limiting_kernel,
        inputs=ANY_INPUTS,
        alpha=SIZE,
        activation=ACTIVATION,
        as_printed=PRINTED,
        tolerance=TOLERANCE,
    ),
    Door(
        spaces.class_kernel,
        inputs=ANY_INPUTS,
        alpha=SIZE,
        activation=ACTIVATION,
        tolerance=TOLERANCE,
    ),
    Door(
        spaces.least_norm, kernel=shaped(np.eye(2), (2,), (2, 3), (3, 3)), values=array([1.0, 2.0])
    ),
    Door(
        kernel.TransportMaps,
        recurrent=object_of(np.sign),
        inputs=object_of(np.sign),
        recurrent_bound=RADIUS,
        input_bound=RADIUS,
        directions=array([[1.0, 0.0]], Bad([1.0], ValueError, r"\(1,\)"), none=True),
    ),
    Door(kernel.transported, initial=net, maps=maps),
    Door(
        kernel.transport_target,
        maps=maps,
        inputs=ANY_INPUTS,
        alpha=SIZE,
        activation=ACTIVATION,
        tolerance=TOLERANCE,
    ),
    Door(
        spaces.transport_norm, maps=maps, dimension=integer(2, 1), alpha=SIZE, tolerance=TOLERANCE
    ),
    Door(bounds.log_mu, z=SIZE, length=integer(3, 1)),
    Door(
        bounds.local_constants,
        activation=SMOOTH,
        recurrent_bound=SIZE,
        length=integer(3, 1),
        dimension=integer(2, 1),
        alpha=SIZE,
        as_printed=PRINTED,
    ),
    Door(
        bounds.log_output_bound,
        log_lipschitz=real(1.0, "(-inf, inf)"),
        recurrent_radius=RADIUS,
        input_radius=RADIUS,
    ),
    Door(network.activation_named, activation=ACTIVATION),
    Door(
        bounds.Problem,
        activation=SMOOTH,
        alpha=SIZE,
        length=integer(3, 1),
        dimension=integer(2, 1),
        recurrent_bound=RADIUS,
        input_bound=RADIUS,
        sequences=integer(1, 1),
        failure=real(0.05, "(0, 1)"),
    ),
    Door(PROBLEM.radii, radii=RADII.also(Bad((0.5, 1.0), ValueError, r"0\.5"))),
    Door(bounds.approximation_bound, problem=problem, width=WIDTH, as_printed=PRINTED),
    Door(bounds.linearisation_bound, problem=problem, width=WIDTH, radii=RADII, as_printed=PRINTED),
    Door(bounds.network_approximation_bound, problem=problem, width=WIDTH, as_printed=PRINTED),
    Door(
        bounds.theorem_1,
        problem=problem,
        width=WIDTH,
        steps=integer(2, 1),
        radii=RADII,
        as_printed=PRINTED,
    ),
    Door(
        bounds.corollary_1,
        problem=problem,
        width=WIDTH,
        steps=integer(2, 2),
        radii=RADII,
        as_printed=PRINTED,
    ),
    Door(bounds.theorem_2, problem=problem, error=SIZE, as_printed=PRINTED),
    Door(
        extremes.largest,
        quantity=word("lipschitz"),
        activation=SMOOTH,
        recurrent_bound=SIZE,
        length=integer(2, 1),
        dimension=integer(1, 1),
        seed=integer(0, 0),
        draws=integer(1, 1),
        climbs=integer(1, 1),
    ),
    Door(
        cutoff.kernel_growth,
        activation=SMOOTH,
        alpha=SIZE,
        length=integer(2, 1),
        rng=generator(),
        inputs=word("impulse"),
        width=WIDTH,
        starts=STARTS,
    ),
    Door(cutoff.memory, {"ratio": "z"}, ratio=SIZE, length=integer(3, 1)),
    Door(
        measured.Scaling,
        sizes=array([2.0, 4.0], Bad([0.0, 1.0], ValueError, r"0\.0")),
        samples=shaped(np.ones((2, 3)), (3, 2), (2,)).also(
            Bad(-np.ones((2, 3)), ValueError, r"-1\.0")
        ),
    ),
    Door(SCALING.quantile, share=real(0.5, "[0, 1]")),
    Door(SCALING.slope, rng=generator(), level=real(0.95, "(0, 1)"), resamples=integer(2, 1)),
    Door(CASE.start, width=WIDTH, rng=generator()),
    Door(
        measured.study,
        problem=problem.also(Bad(bounds.Problem("tanh", 0.5, 3, 3, 1.0, 1.0), ValueError, "= 3")),
        rng=generator(),
        motion=word("turning"),
        tolerance=TOLERANCE,
    ),
    Door(
        measured.kernel_convergence,
        widths=WIDTHS,
        starts=STARTS,
        inputs=ANY_INPUTS,
        rng=generator(),
        alpha=SIZE,
        activation=ACTIVATION,
    ),
    Door(measured.approximation_errors, case=case, widths=WIDTHS, starts=STARTS, rng=generator()),
    Door(
        measured.worst_in_ball,
        initial=net,
        sequence=shaped(SEQUENCES[0], (2,), (2, 3, 2)),
        radii=RADII,
        error=PRINTED,
        steps=integer(1, 1),
    ),
    Door(
        measured.descents,
        case=case,
        width=WIDTH,
        steps=integer(1, 1),
        starts=STARTS,
        rng=generator(),
        step_size=SIZE,
        project=PRINTED,
    ),
    Door(
        looseness.compare,
        case=case,
        width=WIDTH,
        rng=generator(),
        starts=STARTS,
        searches=integer(1, 1),
    ),
    Door(
        looseness.compare_descent,
        case=case,
        width=WIDTH,
        steps=integer(2, 2),
        rng=generator(),
        runs=integer(1, 1),
    ),
    Door(looseness.needed, problem=problem, risk=SIZE, as_printed=PRINTED),
    Door(bridge.log_rates, network=net, inputs=INPUTS),
    Door(bridge.log_envelope, network=net, inputs=INPUTS),
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
