"""Good calls of stable laws, detection and windows."""

from typing import Any

import numpy as np

from lwcore import detection, window
from lwcore.stable import SymmetricStable, fit, goodness_of_fit

SAMPLES = SymmetricStable(1.5).sample(200, np.random.default_rng(0))
FITTED = {"samples": SAMPLES, "fitted": fit(SAMPLES), "rng": np.random.default_rng(0)}
TEMPERED = {"name": "tempered_power", "amplitude": 1.0, "decay": 0.7, "tempering": 0.9}
LAW = window.DecayLaw(**TEMPERED | {"name": "power"})
NEEDS = {"alignment": [1.0], "scale": 1.0, "alpha": 1.5, "error": 0.1, "rate": "mean"}
SHIFTED = {"shift": [0.5], "scale": 1.0, "alpha": 1.5}
ONE = {"n_sequences": 1, "statistic": "product", "route": "mixture"}
LAGS = [1, 2, 3, 5, 9]
FALLING = [0.9, 0.7, 0.5, 0.3, 0.2]
READ = {"required": [1, 2, 3, 4, np.inf], "n_sequences": [3], "definition": "supremum"}
MIXED = {"lags": [0.0, 2.0], "time_scales": [3.0, np.inf], "weights": [1.0, 2.0]}

CALLS: list[tuple[Any, dict[str, Any]]] = [
    (SymmetricStable, {"alpha": 1.5, "scale": 2.0, "loc": 0.0}),
    (fit, {"samples": SAMPLES, "method": "ecf", "confidence": 0.9}),
    (goodness_of_fit, FITTED | {"replicates": 2}),
    (detection.rate_exponent, {"alpha": 1.5, "rate": "mean"}),
    (detection.sample_complexity, {"envelope": FALLING, **NEEDS}),
    (detection.detection_threshold, {"n_sequences": [10, 20], **NEEDS}),
    (detection.kl_divergence, {**SHIFTED, "n_sequences": 2, "statistic": "mean"}),
    (detection.lan_divergence, {**SHIFTED, "n_sequences": 2, "rate": "mean"}),
    (detection.mutual_information, SHIFTED | ONE),
    (detection.binary_entropy, {"probability": [0.0, 0.5]}),
    (detection.fano_error, {"information": [0.1, 0.5]}),
    (detection.hellman_raviv_error, {"information": [0.1, 0.5]}),
    (detection.necessary_sequences, {**SHIFTED, "error": 0.1}),
    (detection.detection_error, {**SHIFTED, "n_sequences": 3, "test": "median"}),
    (detection.least_sequences, {**SHIFTED, "error": 0.1, "test": "mean"}),
    (window.learnability_window, {"lags": LAGS, **READ}),
    (window.window_bounds, {"lags": LAGS, "envelope": FALLING, "n_sequences": [3], **NEEDS}),
    (window.DecayLaw, TEMPERED),
    (window.regime_window, {"law": LAW, "n_sequences": [10, 20], **NEEDS}),
    (window.fit_decay, {"lags": LAGS, "envelope": FALLING}),
    (window.time_scales, {"lags": LAGS, "rates": np.transpose([FALLING])}),
    (window.mixture_envelope, MIXED),
]
