"""Activation functions of the Elman network, each with the suprema of its size and of its first two derivatives.

The companion's letters and the names here: σ ``value``, σ′ ``slope``, σ″ ``curvature``; σ₀ ``bound``, σ₁ ``slope_bound``, σ₂
``curvature_bound``, C&E Eq. (4). The bounds are the suprema themselves, not just any upper bounds:

* tanh: σ₀ = 1 (a limit), σ₁ = 1 at 0, σ₂ = 4/(3√3). With h = tanh z, σ″ = −2h(1 − h²), largest where h² = 1/3.
* logistic: σ₀ = 1 (a limit), σ₁ = 1/4 at 0, σ₂ = 1/(6√3). It is ½ + ½ tanh(z/2): a factor ¼ and a factor ⅛ on the two above.
* Gaussian, exp(−z²): σ₀ = 1 at 0, σ₁ = √(2/e) at z = 1/√2, σ₂ = 2 at 0. σ″ = (4z² − 2) exp(−z²), at its other extremum, z² = 3/2, only
  4 exp(−3/2) = 0.89. The companion gives no formula for its Gaussian; this is the usual one.
* ReLU, outside C&E Eq. (4), with the derivative that C&E Remark 2 gives it (1 at zero): σ₀ and σ₂ are infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.arguments import one_of, real_array

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Activation:
    """A smooth bounded function with its derivatives. Implements C&E Eq. (4).

    Attributes:
        name: Its name in `ACTIVATIONS`.
        value: σ, any shape to the same shape.
        slope_from: σ′ from the pre-activation z and from h = σ(z), which is often the cheaper of the two.
        curvature_from: σ″ from the same two.
        bound: ``σ₀ = sup |σ|``.
        slope_bound: ``σ₁ = sup |σ′|``.
        curvature_bound: ``σ₂ = sup |σ″|``.
    """

    name: str
    value: Callable[[Array], Array]
    slope_from: Callable[[Array, Array], Array]
    curvature_from: Callable[[Array, Array], Array]
    bound: float
    slope_bound: float
    curvature_bound: float

    def slope(self, z: ArrayLike) -> Array:
        """Return σ′(z), of the shape of z."""
        z = real_array("z", z)
        return self.slope_from(z, self.value(z))

    def curvature(self, z: ArrayLike) -> Array:
        """Return σ″(z), of the shape of z."""
        z = real_array("z", z)
        return self.curvature_from(z, self.value(z))

    @property
    def smooth(self) -> bool:
        """Whether all three bounds are finite, as C&E Eq. (4) asks."""
        return all(map(math.isfinite, (self.bound, self.slope_bound, self.curvature_bound)))


TANH = Activation(
    "tanh", np.tanh, lambda z, h: 1 - h * h, lambda z, h: -2 * h * (1 - h * h), bound=1.0, slope_bound=1.0, curvature_bound=4 / 27**0.5
)
LOGISTIC = Activation(
    "logistic",
    lambda z: 0.5 + 0.5 * np.tanh(0.5 * z),  # overflows nowhere
    lambda z, h: h * (1 - h),
    lambda z, h: h * (1 - h) * (1 - 2 * h),
    bound=1.0,
    slope_bound=0.25,
    curvature_bound=1 / 108**0.5,
)
GAUSSIAN = Activation(
    "gaussian",
    lambda z: np.exp(-z * z),
    lambda z, h: -2 * z * h,
    lambda z, h: (4 * z * z - 2) * h,
    bound=1.0,
    slope_bound=(2 / math.e) ** 0.5,
    curvature_bound=2.0,
)
RELU = Activation(
    "relu",
    lambda z: np.maximum(z, 0.0),
    lambda z, h: (z >= 0).astype(np.float64),
    lambda z, h: np.zeros_like(z),
    bound=math.inf,
    slope_bound=1.0,
    curvature_bound=math.inf,
)
ACTIVATIONS = {activation.name: activation for activation in (TANH, LOGISTIC, GAUSSIAN, RELU)}


def activation_named(activation: str | Activation) -> Activation:
    """Return an activation from its name, or as it came.

    Args:
        activation: A name in `ACTIVATIONS`, or an activation of one's own.

    Returns:
        The activation.
    """
    return activation if isinstance(activation, Activation) else ACTIVATIONS[one_of("activation", activation, ACTIVATIONS)]
