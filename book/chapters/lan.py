"""Local asymptotic normality (LAN): its expansion, simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lwcore.detection import Rate, rate_exponent
from lwcore.stable import SymmetricStable

Array = NDArray[np.float64]

_CHUNK = 1 << 20  # values drawn at a time


class Expansion(NamedTuple):
    """Terms of Eq. (53) in simulated experiments, each of shape (replicates,)."""

    log_ratio: Array  # of N values, of the location h/r_N against 0
    central: Array  # Δ_N, the sum of the scores over r_N
    remainder: Array  # what h Δ_N − ½ h² I_α leaves of the log-likelihood ratio


def lan_expansions(
    alpha: float,
    n: int,
    rng: np.random.Generator,
    rates: Sequence[Rate],
    *,
    h: float = 1.0,
    replicates: int = 1000,
) -> dict[Rate, Expansion]:
    """LAN expansion of a location at N sequences, for several localisations ``r_N = N^(1/p)``.

    By Eq. (53), ``log dP_{h/r_N}/dP_0 = h Δ_N − ½ h² I_α + o(1)``, under P_0 and at unit scale; the
    experiments are the same for all `rates`. For ``"optimal"`` the remainder tends to 0. To
    leading order the log-likelihood ratio spreads by ``h √I_α N^(1/2 − 1/p)``: for ``"paper_v2"``
    that shrinks to nothing, as the two laws merge; for ``"mean"`` it grows without limit.
    """
    roots = {rate: n ** (1 / rate_exponent(alpha, rate)) for rate in rates}
    law = SymmetricStable(alpha)
    scores, log_ratios = np.empty(replicates), np.empty((len(roots), replicates))
    for block in np.array_split(np.arange(replicates), -(-replicates * n // _CHUNK)):
        values = law.sample((block.size, n), rng)
        log_density, scores[block] = law.logpdf(values), law.score(values).sum(1)
        for ratio, root in zip(log_ratios, roots.values(), strict=True):
            ratio[block] = (law.logpdf(values - h / root) - log_density).sum(1)
    half, terms = h**2 * law.fisher_information() / 2, {}
    for ratio, (rate, root) in zip(log_ratios, roots.items(), strict=True):
        terms[rate] = Expansion(ratio, scores / root, ratio - h * scores / root + half)
    return terms
