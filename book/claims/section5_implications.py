"""Claims of Section 5.5 and of the abstracts: the exponent of N(ℓ), gates against data, heavy
tails, clipping."""

from __future__ import annotations

import numpy as np

from book.chapters import regimes
from book.chapters.aggregation import measured_exponent
from book.claims.checks import Facts, measures
from book.claims.claim import Measured, estimate, exactly, over
from lwcore import detection
from lwcore.window import DecayLaw, regime_window

_ALPHA = 1.5
_LAWS = [DecayLaw("exponential", 1, 0.9), DecayLaw("power", 1, 1), DecayLaw("logarithmic", 1)]


@measures("number-grows-as-alpha")
def _() -> tuple[Measured, Measured, Measured, Facts]:
    rng = np.random.default_rng(551)
    found = {
        m: measured_exponent(_ALPHA, m, [64, 1024], rng, replicates=600)
        for m in ("likelihood", "median", "mean")
    }
    best = min(("likelihood", "median", "mean"), key=lambda method: found[method].exponent)

    def over_printed(method: str, printed: float) -> Measured:
        low, high = found[method].interval
        return estimate(found[method].exponent / printed, (low / printed, high / printed))

    facts = {
        "best": 10 ** found[best].exponent,
        "mean": 10 ** found["mean"].exponent,
        "printed": 10**_ALPHA,
    }
    return (
        over_printed(best, _ALPHA),
        over_printed("mean", detection.rate_exponent(_ALPHA)),
        over_printed("likelihood", 2),
        facts,
    )


@measures("signal-enters-squared")
def _() -> tuple[Measured, Measured]:
    shifts = np.geomspace(1e-3, 1e3, 13)
    powers = np.diff(np.log(detection.mutual_information(shifts, _ALPHA))) / np.diff(np.log(shifts))
    return exactly(powers.min()), over(powers[:4])


@measures("data-count-less-than-in-proportion")
def _() -> tuple[Measured, Measured]:
    n = np.array([100, 200])
    printed = detection.lan_divergence(1e-3, _ALPHA, 1, n, "paper_v2")
    exact = detection.mutual_information(1e-3, _ALPHA, 1, n, "mean")
    return exactly(printed[1] / printed[0]), exactly(exact[1] / exact[0])


@measures("gates-beat-data")
def _() -> tuple[Measured, Measured, Facts]:
    every: list[float] = []
    enough: list[float] = []
    for alpha in (1.5, 2.0):
        for n in np.geomspace(2, 1e5, 60):
            table = regimes.gates_or_data(_LAWS, n, alpha)
            table = table[
                np.isfinite(table["decay halved"]) & (table["window"] > 0) & (table["N/N_c"] >= 1)
            ]
            quotient = (table["decay halved"] / table["data doubled"]).to_numpy()
            every += quotient.tolist()
            enough += quotient[(table["N/N_c"] >= 2).to_numpy()].tolist()
    few = regimes.gates_or_data(_LAWS[1:2], 12, 1.5).iloc[0]
    facts = {"plain": few["window"], "doubled": few["data doubled"], "halved": few["decay halved"]}
    return exactly(min(every)), exactly(min(enough)), facts


@measures("heavy-tails-take-more-sequences")
def _() -> tuple[Measured, Measured, Measured, Facts]:
    shifts = np.array([1, 0.3, 0.1, 0.03, 0.01])
    gaussian, heavy = (
        detection.sample_complexity(shifts, 1, 1, alpha, rate="paper_v2") for alpha in (2.0, 1.2)
    )
    quotients = {
        t: np.divide(*(detection.least_sequences(shifts, 1, a, test=t) for a in (1.2, 2.0)))
        for t in ("mean", "likelihood")
    }
    facts = {"heavy": heavy[-1], "gaussian": gaussian[-1]}
    return (
        exactly((heavy / gaussian).min()),
        exactly(quotients["mean"].min()),
        over(quotients["likelihood"][1:]),
        facts,
    )


@measures("smaller-alpha-shortens-the-window")
def _() -> tuple[Measured, Measured, Facts]:
    largest, printed = (
        {},
        [
            regime_window(_LAWS[1], [1000], 1, 1, alpha, rate="paper_v2").item()
            for alpha in (1.2, 1.8)
        ],
    )
    for rate in ("paper_v2", "mean"):
        heavy, light = (
            [regime_window(law, [10, 100, 1000], 3, 1, alpha, rate=rate) for law in _LAWS]
            for alpha in (1.2, 1.8)
        )
        largest[rate] = exactly(np.log10(np.array(heavy) / np.array(light)).max())
    return largest["paper_v2"], largest["mean"], dict(zip(("heavy", "light"), printed, strict=True))


@measures("heavy-tails-shorten-every-window")
def _() -> tuple[Measured, Measured]:
    quotients = {
        t: float(
            detection.least_sequences(0.01, 1, 1.2, test=t)
            / detection.least_sequences(0.01, 1, 2.0, test=t)
        )
        for t in ("likelihood", "median", "mean")
    }
    return exactly(min(quotients.values())), exactly(quotients["mean"])
