"""Lipschitz and smoothness constants of a neuron's state in its parameters, and bounds on outputs and targets.

The companion's letters and the names here: μ_{0,t}, μ_{1,t} ``log_mu``; L_t, β_t ``lipschitz`` and ``smoothness`` of ``Θ_i ↦ H_t``; Λ_t,
γ_t the same of ``Θ_i ↦ W_ii H_t``; ``α_m ≥ |W_ii|`` is ``recurrent_bound``. Beyond the cut-off ``α_m σ₁ = 1`` all grow exponentially with
t, so they are kept as logarithms.

``as_printed=True`` gives a formula as it stands in the companion. ``as_printed=False`` gives one whose proof closes; the two differ thus:

* L_t: the proof bounds the *square* of the gradient's norm by ``μ_{0,t}² (σ₀² + 1) σ₁²`` and takes this for the constant. The constant is
  its root. Where the printed value is below 1, as for the logistic activation, it is too small: ``σ(ux)`` has slope 1/4 there, against
  1/8.
* β_t: the printed terms have α where the proof has α_m; two second derivatives with σ₀σ₁μ₀μ₁ in place of σ₀σ₂μ₁(α_m σ₁μ₀ + 1) and without
  the derivative of ``W^k``. Surplus elsewhere in the sum covers this where it was tried. It grows with d. The other one does not: the
  Hessian obeys ``Q_t = σ″ A Aᵀ + σ′ (W Q_{t−1} + e_w G_{t−1}ᵀ + G_{t−1} e_wᵀ)``, whose terms have Frobenius norms that d does not enter.
* Λ_t: ``|H| + |W| ‖∂H‖ ≤ σ₀ + α_m L_t``; the printed √2 (σ₀ + 1 + α_m L_t) is larger, but for an L_t that is too small.
* γ_t: ``‖e_w Gᵀ + G e_wᵀ‖ + |W| ‖∂²H‖ ≤ 2 L_t + α_m β_t``; the printed first term, √2 L_t, counts the mixed derivative once too little.
  For the logistic activation and small α_m the printed γ_t is too small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lwcore.arguments import flag, integer_in, real_in
from lwcore.elman.activations import Activation, activation_named


def log_mu(z: float, length: int) -> tuple[float, float]:
    """Return ``log Σ_{k<t} z^k`` and ``log Σ_{k<t} (k + 1) z^k``. Implements C&E Eqs. (10) and (30), which are the same.

    Args:
        z: The ratio z > 0.
        length: Number t ≥ 1 of summands.

    Returns:
        log μ_{0,t}(z) and log μ_{1,t}(z).
    """
    k = np.arange(integer_in("length", length, 1))
    powers = k * math.log(real_in("z", z, "(0, inf)"))
    return float(np.logaddexp.reduce(powers)), float(np.logaddexp.reduce(powers + np.log1p(k)))


@dataclass(frozen=True)
class LocalConstants:
    """Constants of one neuron on a neighbourhood of its start, as natural logarithms. See `local_constants`.

    Attributes:
        log_lipschitz: log L_t, of the state.
        log_smoothness: log β_t, of the state.
        log_product_lipschitz: log Λ_t, of recurrent weight times state.
        log_product_smoothness: log γ_t, of recurrent weight times state.
    """

    log_lipschitz: float
    log_smoothness: float
    log_product_lipschitz: float
    log_product_smoothness: float


def local_constants(
    activation: str | Activation,
    recurrent_bound: float,
    length: int,
    dimension: int,
    *,
    alpha: float | None = None,
    as_printed: bool = True,
) -> LocalConstants:
    """Return L_t, β_t, Λ_t and γ_t. Implements C&E Eq. (31), C&E Lemma 1 and C&E Lemma 2.

    See the head of this module for what is printed and what holds.

    Args:
        activation: A smooth activation, or its name.
        recurrent_bound: ``α_m = α + ρ_w/√m > 0``, the largest ``|W_ii|`` in the neighbourhood.
        length: Step t ≥ 1.
        dimension: Dimension d ≥ 1 of an input; enters the printed β_t only.
        alpha: α > 0, which the printed β_t has in places of α_m; None for α_m there, too.
        as_printed: Whether to take the printed formulas.

    Returns:
        Their logarithms.
    """
    flag("as_printed", as_printed)
    sigma, bound = smooth(activation), real_in("recurrent_bound", recurrent_bound, "(0, inf)")
    length, dimension = integer_in("length", length, 1), integer_in("dimension", dimension, 1)
    inner = bound if alpha is None else real_in("alpha", alpha, "(0, inf)")
    s0, s1, s2 = (math.log(value) for value in (sigma.bound, sigma.slope_bound, sigma.curvature_bound))
    ratio, features = bound * sigma.slope_bound, math.log(sigma.bound**2 + 1)
    mu0, mu1 = log_mu(ratio, length)
    if not as_printed:
        k = np.arange(length)
        powers = k * math.log(ratio)
        mu = np.logaddexp.accumulate(powers)[::-1]  # log μ_{0,t−k}
        outer = np.logaddexp.reduce(powers + s2 + features + 2 * mu)
        mixed = np.logaddexp.reduce(powers[:-1] + math.log(2) + 2 * s1 + features / 2 + mu[1:]) if length > 1 else -math.inf
        lipschitz, smoothness = mu0 + features / 2 + s1, float(np.logaddexp(outer, mixed))
        return LocalConstants(
            lipschitz,
            smoothness,
            log_sum(s0, math.log(bound) + lipschitz),
            log_sum(math.log(2) + lipschitz, math.log(bound) + smoothness),
        )
    lipschitz = 2 * mu0 + features + 2 * s1
    slack = log_sum(math.log(inner) + s1 + mu0, 0)  # α σ₁ μ₀ + 1
    club = s2 + slack + mu1
    diamond = log_sum(2 * s1 + 2 * mu0, s0 + s1 + mu0 + mu1)
    heart = mu1 + log_sum(s1, s2, math.log(inner) + s1 + s2 + mu0)
    spade = log_sum(2 * s1 + 2 * mu0, s0 + club)
    smoothness = log_sum(math.log(dimension) + club, math.log(dimension) / 2 + log_sum(diamond, heart), spade)
    return LocalConstants(
        lipschitz,
        smoothness,
        math.log(2) / 2 + log_sum(s0, 0, math.log(bound) + lipschitz),
        math.log(2) / 2 + log_sum(lipschitz, math.log(bound) + smoothness),
    )


def log_output_bound(log_lipschitz: float, recurrent_radius: float, input_radius: float) -> float:
    """Return ``log F^max = log(L_T √(ρ_w² + ρ_u²))``, a bound on every output within the radii. Implements C&E Proposition 6, first part.

    It holds with a true Lipschitz constant; with the printed L_T of the logistic activation it does not.

    Args:
        log_lipschitz: log L_T.
        recurrent_radius: ρ_w ≥ 0.
        input_radius: ρ_u ≥ 0; not both may be 0.

    Returns:
        Its logarithm.

    Raises:
        ValueError: If an argument is out of range.
    """
    real_in("log_lipschitz", log_lipschitz, "(-inf, inf)")
    radii = [real_in("recurrent_radius", recurrent_radius, "[0, inf)"), real_in("input_radius", input_radius, "[0, inf)")]
    if not any(radii):
        raise ValueError("recurrent_radius = input_radius = 0: one must be above 0.")
    return log_lipschitz + math.log(math.hypot(*radii))


def log_target_bound(activation: str | Activation, alpha: float, length: int, recurrent_bound: float, input_bound: float) -> float:
    """Return ``log y^max``, a bound on every target F̃_t of the class, t ≤ T. Implements C&E Proposition 6, second part.

    Args:
        activation: A smooth activation, or its name.
        alpha: Size α > 0 of the recurrent weights at the start.
        length: T ≥ 1.
        recurrent_bound: ν̄_w ≥ 0.
        input_bound: ν̄_u ≥ 0; not both may be 0.

    Returns:
        ``log(σ₁ μ_{0,T}(α σ₁) (ν̄_u + σ₀ ν̄_w))``.

    Raises:
        ValueError: If an argument is out of range.
    """
    sigma, alpha = smooth(activation), real_in("alpha", alpha, "(0, inf)")
    reach = real_in("input_bound", input_bound, "[0, inf)") + sigma.bound * real_in("recurrent_bound", recurrent_bound, "[0, inf)")
    if reach == 0:
        raise ValueError("recurrent_bound = input_bound = 0: one must be above 0.")
    return math.log(sigma.slope_bound) + log_mu(alpha * sigma.slope_bound, length)[0] + math.log(reach)


def smooth(activation: str | Activation) -> Activation:
    """Return an activation after checking that C&E Eq. (4) holds for it."""
    sigma = activation_named(activation)
    if not sigma.smooth:
        raise ValueError(f"activation = {sigma.name!r}: must have bounded value, slope and curvature (C&E Eq. (4)).")
    return sigma


def log_sum(*terms: float) -> float:
    """Return the logarithm of a sum from the logarithms of its terms."""
    return float(np.logaddexp.reduce(terms))
