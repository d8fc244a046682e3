"""The theory's doors: stable laws, bounds, decay, windows, modes, aggregation."""

from __future__ import annotations

import numpy as np

from book.chapters import aggregation, lan, modes
from lwcore import detection, window
from lwcore.stable import SymmetricStable, fit, goodness_of_fit
from tests.bad_inputs.rows import (
    Bad,
    Door,
    array,
    generator,
    integer,
    lags,
    numbers,
    object_of,
    of_shape,
    real,
    shaped,
    word,
    wrong,
)

RNG = np.random.default_rng(0)
LAW = SymmetricStable(1.5)
DATA = LAW.sample(200, RNG)
DECAY = window.DecayLaw("power", amplitude=1.0, decay=0.7)
NEGATIVE, ZERO = Bad([-1.0], ValueError, r"-1\.0"), Bad([0.0], ValueError, r"0\.0")
positive = lambda: array([1.0], NEGATIVE, ZERO)  # noqa: E731
X = numbers([1.0])  # NaN stays NaN there, as said
ALPHA = real(1.5, "(1, 2]")
ERROR = real(0.1, "(0, 0.5)")
RATE, TEST, DEFINITION = word("mean"), word("mean"), word("supremum")

DOORS = [
    Door(
        SymmetricStable,
        alpha=real(1.5, "(0.5, 2]"),
        scale=real(1.0, "(0, inf)"),
        loc=real(0.0, "(-inf, inf)"),
    ),
    Door(LAW.pdf, x=X),
    Door(LAW.logpdf, x=X),
    Door(LAW.cdf, x=X),
    Door(LAW.sf, x=X),
    Door(LAW.ppf, p=array([0.5], NEGATIVE, Bad([1.5], ValueError, r"1\.5"))),
    Door(LAW.score, x=X),
    Door(LAW.kl, shift=array([1.0])),
    Door(
        LAW.sample,
        size=integer(3, 0).also(
            wrong((2, -1), ValueError, r"-1"), wrong((2.0,), TypeError, r"2\.0")
        ),
        rng=generator(),
    ),
    Door(fit, samples=array(DATA), method=word("mcculloch"), confidence=real(0.95, "(0, 1)")),
    Door(
        goodness_of_fit,
        samples=array(DATA),
        fitted=object_of(fit(DATA), LAW),
        rng=generator(),
        replicates=integer(19, 19),
    ),
    Door(detection.rate_exponent, alpha=ALPHA, rate=RATE),
    Door(
        detection.sample_complexity,
        envelope=array([1.0], NEGATIVE),
        alignment=array([1.0]),
        scale=positive(),
        alpha=ALPHA,
        error=ERROR,
        rate=RATE,
    ),
    Door(
        detection.detection_threshold,
        n_sequences=positive(),
        alignment=array([1.0]),
        scale=positive(),
        alpha=ALPHA,
        error=ERROR,
        rate=RATE,
    ),
    Door(
        detection.log_detection_threshold,
        n_sequences=positive(),
        alignment=array([1.0]),
        scale=positive(),
        alpha=ALPHA,
        error=ERROR,
        rate=RATE,
    ),
    Door(
        detection.detection_error,
        n_sequences=positive(),
        shift=array([1.0]),
        scale=positive(),
        alpha=ALPHA,
        test=TEST,
    ),
    Door(
        detection.log_detection_error,
        n_sequences=positive(),
        shift=array([1.0]),
        scale=positive(),
        alpha=ALPHA,
        test=TEST,
    ),
    Door(
        detection.least_sequences,
        shift=array([1.0]),
        scale=positive(),
        alpha=ALPHA,
        error=ERROR,
        test=TEST,
    ),
    Door(
        detection.mutual_information,
        shift=array([1.0]),
        alpha=ALPHA,
        scale=positive(),
        n_sequences=array([1], Bad([0], ValueError, "0")),
        statistic=word("mean"),
        route=word("fourier"),
    ),
    Door(
        detection.binary_entropy,
        probability=array([0.5], NEGATIVE, Bad([1.5], ValueError, r"1\.5")),
    ),
    Door(detection.fano_error, information=array([0.5], NEGATIVE)),
    Door(
        detection.hellman_raviv_error,
        information=array([0.5], NEGATIVE, Bad([0.7], ValueError, r"0\.7")),
    ),
    Door(
        detection.necessary_sequences,
        shift=array([1.0]),
        scale=positive(),
        alpha=ALPHA,
        error=ERROR,
    ),
    Door(
        detection.kl_divergence,
        shift=array([1.0]),
        alpha=ALPHA,
        scale=positive(),
        n_sequences=positive(),
        statistic=word("mean"),
    ),
    Door(
        detection.lan_divergence,
        shift=array([1.0]),
        alpha=ALPHA,
        scale=positive(),
        n_sequences=positive(),
        rate=RATE,
    ),
    Door(lan.lan_range, alpha=ALPHA, tolerance=real(0.05, "(0, 1)")),
    Door(
        lan.lan_expansions,
        alpha=ALPHA,
        n_sequences=integer(10, 1),
        rng=generator(),
        rates=object_of(["mean"]),
        h=real(1.0, "(-inf, inf)"),
        replicates=integer(10, 1),
    ),
    Door(
        window.DecayLaw,
        name=word("power"),
        amplitude=real(1.0, "(0, inf)"),
        decay=real(0.5, "(-inf, inf)"),
    ),
    Door(DECAY.envelope, lags=array([1.0], NEGATIVE, ZERO)),
    Door(DECAY.inverse, log_level=numbers([-1.0], np.nan)),
    Door(
        window.fit_decay,
        lags=lags([1, 2, 4, 8, 16, 32]),
        envelope=shaped(0.5 ** np.arange(6), (5,), (6, 2), ()),
    ),
    Door(
        window.learnability_window,
        lags=lags([1, 2]),
        required=numbers([1.0, 2.0], np.nan, -1.0).also(*of_shape((3,), ())),
        n_sequences=array([1.0], NEGATIVE),
        definition=DEFINITION,
    ),
    Door(
        window.window_bounds,
        lags=lags([1, 2]),
        envelope=shaped([1.0, 0.5], (3,), ()),
        alignment=shaped([1.0, 1.0], (3,)),
        scale=shaped([1.0, 1.0], (3,)),
        n_sequences=array([1.0], NEGATIVE),
        alpha=ALPHA,
        error=ERROR,
        rate=RATE,
        definition=DEFINITION,
    ),
    Door(
        window.regime_window,
        law=object_of(DECAY),
        n_sequences=positive(),
        alignment=array([1.0]),
        scale=positive(),
        alpha=ALPHA,
        error=ERROR,
        rate=RATE,
    ),
    Door(
        window.mixture_envelope,
        lags=array([1.0], NEGATIVE),
        time_scales=numbers([1.0], np.nan, -1.0, 0.0),
        weights=array([1.0], NEGATIVE, none=True),
    ),
    Door(window.time_scales, lags=lags([1, 2]), rates=shaped([[1.0], [0.5]], (3, 1), ())),
    Door(modes.mode_test, sample=array(DATA)),
    Door(
        modes.rejection_rate,
        draw=object_of(lambda rng: rng.normal(size=20)),
        rng=generator(),
        level=real(0.05, "(0, 1)"),
        trials=integer(5, 1),
    ),
    Door(
        aggregation.aggregate,
        samples=array(DATA),
        method=word("median"),
        law=object_of(LAW, none=True),
    ),
    Door(
        aggregation.detectable_shift,
        law=object_of(LAW),
        n_sequences=integer(10, 8),
        method=word("median"),
        error=ERROR,
        replicates=integer(10, 10),
        rng=generator(),
    ),
    Door(
        aggregation.measured_exponent,
        alpha=ALPHA,
        method=word("median"),
        n_sequences=array([8, 16, 32], Bad([8.5, 16, 32], TypeError, r"8\.5")),
        rng=generator(),
        error=ERROR,
        replicates=integer(20, 10),
        batches=integer(3, 3),
        confidence=real(0.95, "(0, 1)"),
    ),
]
