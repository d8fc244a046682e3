"""Elman networks with a diagonal recurrent matrix: their kernel, and what gradient descent does with them.

The companion, "C&E" in these docstrings, is Cayci and Eryilmaz (2024), Convergence of gradient descent for recurrent neural networks: a
nonasymptotic analysis. Numbers of equations and results after "C&E" are those of that paper. NumPy and SciPy only.

* `activations`: tanh, logistic, Gaussian, ReLU, with the suprema of their derivatives; C&E Eq. (4), C&E Remark 2
* `network`: the network, its symmetric start, the empirical risk; C&E Eq. (1), C&E Eq. (2), C&E Eq. (3), C&E Definition 1
* `gradients`: of every output, of the risk, and the model linear in the parameters; C&E Proposition 1
* `descent`: gradient descent, free and projected; C&E Eq. (5)
* `expectation`, `kernel`: means over a neuron's start; the kernel at finite and infinite width; C&E Proposition 2
* `transport`: transport maps, the targets and the finite networks they make; C&E Eq. (8), C&E Eq. (9), C&E Remark 4
* `constants`: Lipschitz and smoothness constants, sizes of outputs; C&E Eq. (10), C&E Lemma 1, C&E Lemma 2, C&E Proposition 6
* `bounds`: right-hand sides of C&E Proposition 3, C&E Proposition 4, C&E Proposition 5, C&E Theorem 1, C&E Corollary 1, C&E Theorem 2
"""

from lwcore.elman.activations import ACTIVATIONS, Activation
from lwcore.elman.bounds import (
    Bound,
    Problem,
    TrainingPlan,
    approximation_bound,
    corollary_1,
    linearisation_bound,
    network_approximation_bound,
    theorem_1,
    theorem_2,
)
from lwcore.elman.constants import LocalConstants, local_constants, log_mu, log_output_bound, log_target_bound
from lwcore.elman.descent import Descent, gradient_descent
from lwcore.elman.expectation import Estimate
from lwcore.elman.gradients import hidden_gradients, linear_model, output_gradients, risk_gradient
from lwcore.elman.kernel import class_kernel, finite_kernel, least_norm, limiting_kernel
from lwcore.elman.network import ElmanNetwork, empirical_risk, symmetric_initialisation
from lwcore.elman.transport import TransportMaps, transport_norm, transport_target, transported

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Bound",
    "Descent",
    "ElmanNetwork",
    "Estimate",
    "LocalConstants",
    "Problem",
    "TrainingPlan",
    "TransportMaps",
    "approximation_bound",
    "class_kernel",
    "corollary_1",
    "empirical_risk",
    "finite_kernel",
    "gradient_descent",
    "hidden_gradients",
    "least_norm",
    "limiting_kernel",
    "linear_model",
    "linearisation_bound",
    "local_constants",
    "log_mu",
    "log_output_bound",
    "log_target_bound",
    "network_approximation_bound",
    "output_gradients",
    "risk_gradient",
    "symmetric_initialisation",
    "theorem_1",
    "theorem_2",
    "transport_norm",
    "transport_target",
    "transported",
]
