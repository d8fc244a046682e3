"""The doors of what lies beyond the paper: resampling, robust averaging, clipping, spectra,
mixtures, starts, prediction, frontiers."""

from __future__ import annotations

import numpy as np

from book.chapters import (
    agreement,
    calibration,
    clipping,
    frontier,
    mixtures,
    prediction,
    regimes,
    resampling,
    robust,
    spectra,
    starts,
)
from lwcore.config import Config
from lwcore.window import DecayLaw
from tests.bad_inputs.labelled import labelled, results
from tests.bad_inputs.networks import NETWORK
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
    word,
    wrong,
)
from tests.bad_inputs.theory import ALPHA, ERROR, NEGATIVE, ZERO

CONFIG = Config.named("smoke")
SETTINGS = object_of(CONFIG.diagnostics, CONFIG, {"lags": [1]})
VALUES = array(np.arange(20.0))
LAWS = Argument(
    [DecayLaw("power", 1.0, 0.5)],
    (
        wrong(3, TypeError),
        wrong("power", TypeError),
        Bad(["power"], TypeError, "'power'"),
        Bad([], ValueError, "0"),
        Bad([DecayLaw("power", 1.0, -0.5)], ValueError, r"-0\.5"),
        Bad([DecayLaw("exponential", 1.0, 1.5)], ValueError, r"1\.5"),
    ),
)
METHODS = Argument(
    ("mean",),
    (
        Bad(("mode",), ValueError, "'mode'"),
        wrong("mean", TypeError),
        wrong(3, TypeError),
        Bad((1,), ValueError, "1"),
    ),
)
SHARES = Argument(
    (0.9,),
    (
        Bad((0.0,), ValueError, r"0\.0"),
        Bad((1.5,), ValueError, r"1\.5"),
        Bad((np.nan,), ValueError, "nan"),
        Bad(("0.9",), TypeError, r"'0\.9'"),
        wrong(0.9, TypeError),
    ),
)
SHARE = labelled("model", "seed", "lag")
SCORES = labelled("predictor", "model", "seed", "lag")
WITHIN = Argument(
    ("lag",),
    (
        Bad(("place",), ValueError, "'place'"),
        wrong("lag", TypeError),
        wrong(3, TypeError),
        Bad((1,), ValueError, "1"),
    ),
)
BOTH = {"share": "(share|scores)"}  # whose dimensions do not fit together
GRID = labelled("model", "seed", "lag", "sequences")
SCALE = labelled("unit", "seed")

DOORS = [
    Door(
        resampling.resampled, values=VALUES, count=integer(8, 8), rng=generator(), methods=METHODS
    ),
    Door(resampling.concentration, values=VALUES, rng=generator(), methods=METHODS, error=ERROR),
    Door(resampling.spread, estimates=numbers([1.0, 2.0]), error=ERROR),
    Door(robust.numbers, results=results(), view=word("zeroth"), noise=word("own")),
    Door(robust.largest, samples=labelled("sequence")),
    Door(
        robust.sequences_for_sign,
        shift=numbers([1.0], -1.0),
        bias=numbers([0.0]),
        deviation=numbers([1.0], -1.0),
        error=ERROR,
    ),
    Door(robust.studies, results=results(), rng=generator(), error=ERROR),
    Door(
        robust.study,
        results=results(),
        view=word("zeroth"),
        noise=word("own"),
        rng=generator(),
        error=ERROR,
    ),
    Door(clipping.clip, values=VALUES, share=real(0.9, "(0, 1]")),
    Door(
        clipping.effects,
        samples=VALUES,
        noise=word("own"),
        rng=generator(),
        shares=SHARES,
        error=ERROR,
    ),
    Door(
        clipping.effects_on_run,
        results=results(),
        case=word("the paper's statistic"),
        rng=generator(),
    ),
    Door(
        clipping.information,
        alpha=ALPHA,
        shares=array([0.9], NEGATIVE, ZERO, Bad([1.5], ValueError, r"1\.5")),
    ),
    Door(spectra.quantile, time_scale=SCALE, level=real(0.9, "[0, 1]")),
    Door(spectra.width, time_scale=SCALE),
    Door(spectra.learned_share, results=results()),
    Door(
        spectra.variance_shares,
        values=SCALE.only_bad(lambda bad: "Länge" not in bad.shown),
        factors=Argument(("seed",), WITHIN.bad),
    ),
    Door(spectra.width_shares, sweep=results()),
    Door(spectra.learning_and_optimiser, sweep=results()),
    Door(spectra.at_equal_share, sweep=results(), gate_spread=real(0.1, "(0, inf)", 0.2)),
    Door(spectra.ranges, values=labelled("seed"), form="{:.2f}"),
    Door(spectra.lining_up, time_scale=SCALE, lags=lags([1, 2])),
    Door(mixtures.mixtures, results=results(), spectrum=word("zeroth")),
    Door(mixtures.relative_error, mixture=labelled("lag"), measured=labelled("lag")),
    Door(
        mixtures.local_slopes,
        lags=array(
            [1.0, 2.0],
            Bad([2.0, 1.0], ValueError, r"\(2,\)"),
            Bad([-1.0, 2.0], ValueError, r"-1\.0"),
            Bad([1.0], ValueError, r"\(1,\)"),
        ),
        envelope=array(
            [1.0, 0.5], Bad([1.0, 0.0], ValueError, r"0\.0"), Bad([1.0], ValueError, r"\(1,\)")
        ),
    ),
    *(
        Door(
            function,
            lags=array([1.0, 2.0], Bad([1.0], ValueError, r"\(1,\)")),
            envelope=array([1.0, 0.5], Bad([1.0, -1.0], ValueError, r"-1\.0")),
            factor=real(1.5, "(1, inf)"),
        )
        for function in (mixtures.power_stretch, mixtures.exponential_stretch)
    ),
    *(
        Door(function, results=results())
        for function in (
            mixtures.reconstruction,
            mixtures.power_ranges,
            mixtures.shapes,
            mixtures.bumps,
        )
    ),
    Door(mixtures.closer_to_power, rates=labelled("lag")),
    Door(
        starts.spread_gates,
        network=object_of(NETWORK, NETWORK.cell),
        time_scales=array([1.0] * 4, NEGATIVE, ZERO, Bad([1.0] * 3, ValueError, r"\(3,\)")),
    ),
    Door(
        starts.run_from,
        config=object_of(CONFIG, "smoke", {}),
        starts=Argument(
            {"a": 1.0},
            (
                wrong(None, TypeError),
                Bad([1.0], TypeError, r"\[1\.0\]"),
                Bad({}, ValueError, "0"),
                Bad({"a": 1.0, "b": -1.0}, ValueError, r"-1\.0"),
                Bad({"b": "long"}, TypeError, "<U"),
            ),
        ),
    ),
    Door(starts.compare, runs=results(), n_sequences=integer(16, 1)),
    Door(agreement.rank_correlation, BOTH, scores=SCORES, share=SHARE, within=WITHIN),
    Door(
        agreement.partial_rank_correlation,
        BOTH,
        scores=SCORES,
        share=SHARE,
        given=SHARE,
        within=WITHIN,
    ),
    Door(
        agreement.compare,
        BOTH,
        scores=SCORES,
        share=SHARE,
        strata=Argument(
            {"all": ()},
            (
                wrong(None, TypeError),
                wrong("all", TypeError),
                Bad({"all": ("place",)}, ValueError, "'place'"),
            ),
        ),
    ),
    Door(agreement.correlation_interval, value=real(0.5, "(-1, 1)"), count=integer(5, 4)),
    Door(
        agreement.over_orders, BOTH, scores=SCORES, share=SHARE, within=WITHIN, unit=word("model")
    ),
    Door(agreement.ranking, compared=results(), by="all pairs"),
    Door(prediction.learned_share, results=results()),
    Door(prediction.left_over, results=results()),
    Door(prediction.share_table, share=SHARE),
    Door(prediction.task_predictors, measured=results()),
    Door(prediction.parameter_counts, results=results()),
    Door(prediction.predictors, measured=results(), stage=word("after")),
    Door(frontier.single_lag_share, results=results()),
    Door(frontier.settled_table, results=results()),
    Door(frontier.end_table, results=results(), row="more"),
    Door(frontier.at_task, start=results()),
    Door(frontier.sequences_needed, share=labelled("seed", "sequences")),
    Door(frontier.ease, share=GRID),
    Door(frontier.frontier, share=GRID),
    Door(frontier.needed_table, found=results()),
    Door(
        frontier.predicted_needed,
        {"start": "results"},
        start=results(),
        view=word("zeroth"),
        source="error",
        rate=word("mean"),
    ),
    Door(
        regimes.regime_slope,
        law=object_of(LAWS.good[0]).also(
            *(Bad(bad.value[0], bad.error, bad.shown) for bad in LAWS.bad[-2:])
        ),
        alpha=ALPHA,
        rate=word("mean"),
    ),
    Door(regimes.growth, {"laws": "laws?"}, laws=LAWS, alpha=ALPHA, error=ERROR),
    Door(
        regimes.constants,
        {"laws": "laws?"},
        laws=LAWS,
        n_sequences=real(100.0, "(0, inf)"),
        alignment=real(1.0, "(0, inf)"),
        alpha=ALPHA,
        error=ERROR,
    ),
    Door(
        regimes.gates_or_data,
        {"laws": "laws?"},
        laws=LAWS,
        n_sequences=real(100.0, "(0, inf)"),
        alpha=ALPHA,
        error=ERROR,
    ),
    Door(
        calibration.draw,
        alpha=ALPHA,
        n_sequences=integer(20, 20),
        trials=integer(1, 1),
        rng=generator(),
        planted=array([1.0], NEGATIVE),
        error=ERROR,
    ),
    Door(calibration.whole_scale, alpha=ALPHA),
    Door(calibration.counts, numbers=results(), settings=SETTINGS, true_window=integer(0, 0)),
    Door(
        calibration.nominal_power,
        alpha=ALPHA,
        planted=array([1.0], NEGATIVE),
        noise=real(1.0, "(0, inf)"),
        error=ERROR,
    ),
    Door(
        calibration.false_windows,
        numbers=results(),
        settings=SETTINGS,
        rng=generator(),
        draws=integer(2, 1),
    ),
    Door(
        calibration.binomial_interval,
        hits=array([1.0], NEGATIVE, Bad([4.0], ValueError, r"4\.0")),
        trials=integer(3, 1),
        level=real(0.95, "(0, 1)"),
    ),
]
