"""The theory's doors: stable laws, bounds, decay, windows, modes, aggregation."""

from __future__ import annotations

import numpy as np

from book.chapters import aggregation, lan, modes
from lwcore.stable import SymmetricStable
from tests.bad_inputs.rows import (
    Bad,
    Door,
    array,
    generator,
    integer,
    object_of,
    real,
    word,
)

RNG = np.random.default_rng(0)
LAW = SymmetricStable(1.5)
NEGATIVE, ZERO = Bad([-1.0], ValueError, r"-1\.0"), Bad([0.0], ValueError, r"0\.0")
DATA = LAW.sample(200, RNG)
ALPHA = real(1.5, "(1, 2]")
ERROR = real(0.1, "(0, 0.5)")

DOORS = [
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
