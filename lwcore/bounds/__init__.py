"""How well the sign of a lag's gradient can be told: divergences, information, exact errors, numbers of sequences (Section 5, C, D).

Everywhere the two hypotheses are the laws SαS(location +Δ, scale σ) and SαS(location −Δ, scale σ) of Eq. (31), with ``Δ = f(ℓ) m̄(ℓ)``.
The argument ``shift`` is Δ, so that the two laws lie 2Δ apart; results depend on Δ/σ only. The paper's letters and the names here: Δ
``shift``, f ``envelope``, m̄ ``alignment``, σ_α ``scale``, α ``alpha``, P_e or ε ``error``, N ``n_sequences``, ε_th ``detection_threshold``.

Arguments are checked once: what is not made of real numbers is a TypeError; what is not finite, out of range, of an unknown name or of a
shape that does not broadcast is a ValueError that names it.

* `divergence`: KL(P₁‖P₀) of N sequences, of their mean, its quadratic approximation and where that holds; Eqs. (32), (53)–(56)
* `information`: I(B; observation) by two independent routes, and the errors that Fano's and Hellman and Raviv's
  inequalities allow; Eqs. (33), (57)
* `detection`: the exact error of the mean, of the likelihood ratio and of the median
* `complexity`: rates by name, N(ℓ) and ε_th; Eqs. (34), (35), (37)
"""

from lwcore.bounds.complexity import (
    detection_threshold,
    log_detection_threshold,
    rate_exponent,
    sample_complexity,
)
from lwcore.bounds.detection import detection_error, large_sample_error, least_sequences, log_detection_error
from lwcore.bounds.divergence import Expansion, kl_divergence, lan_divergence, lan_expansion, lan_expansions, lan_range
from lwcore.bounds.information import binary_entropy, fano_error, hellman_raviv_error, mutual_information, necessary_sequences

__all__ = [
    "Expansion",
    "binary_entropy",
    "detection_error",
    "detection_threshold",
    "fano_error",
    "hellman_raviv_error",
    "kl_divergence",
    "lan_divergence",
    "lan_expansion",
    "lan_expansions",
    "lan_range",
    "large_sample_error",
    "least_sequences",
    "log_detection_error",
    "log_detection_threshold",
    "mutual_information",
    "necessary_sequences",
    "rate_exponent",
    "sample_complexity",
]
