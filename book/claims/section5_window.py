"""Claims of Section 5.4 and Appendices E and F, Eqs. (35)–(39) and (58)–(60): threshold, window,
Lemma 5.2 and the three regimes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from book.chapters import regimes
from book.chapters.aggregation import MeasuredExponent, measured_exponent
from book.claims import cases
from book.claims.checks import Facts, measures
from book.claims.claim import Measured, exactly, over, share
from lwcore import detection, transport
from lwcore.gradient import matched_statistic
from lwcore.inference import LETTER, RATES, required, summary
from lwcore.stable import SymmetricStable
from lwcore.window import DecayLaw, learnability_window, window_bounds

Array = NDArray[np.float64]

_ALPHA = 1.5
_ODD = np.array([11, 101, 1001])
_RATES = ("mean", "optimal", "paper_v2")


@measures("threshold-inverts-the-number")
def _() -> Measured:
    f, worst = np.geomspace(1e-3, 1, 20), []
    for alpha in (1.2, 1.5, 2.0):
        for rate in _RATES:
            needed = detection.sample_complexity(f, 0.7, 2.0, alpha, rate=rate)
            worst.append(
                abs(detection.detection_threshold(needed, 0.7, 2.0, alpha, rate=rate) / f - 1).max()
            )
    return exactly(max(worst))


@measures("window-is-the-longest-detectable-lag")
def _() -> Measured:
    rng, lags, differ = np.random.default_rng(36), np.arange(1, 41), 0
    for _ in range(200):
        f, alignment, scale = np.exp(rng.normal(size=(3, lags.size)))
        budgets = rng.integers(1, 2000, 10)
        found = learnability_window(
            lags.tolist(), detection.sample_complexity(f, alignment, scale, _ALPHA), budgets
        )
        for n, window in zip(budgets, found, strict=True):
            seen = lags[f >= detection.detection_threshold(n, alignment, scale, _ALPHA)]
            differ += int(window != (seen[-1] if seen.size else 0))
    return exactly(differ)


@measures("inside-the-window-is-recoverable")
def _() -> tuple[Measured, Measured]:
    errors = {}
    for rate, test in (("paper_v2", "likelihood"), ("mean", "mean")):
        thresholds = detection.detection_threshold(_ODD, 1, 1, _ALPHA, rate=rate)
        errors[rate] = max(
            float(detection.detection_error(n, f, 1, _ALPHA, test))
            for n, f in zip(_ODD, thresholds, strict=True)
        )
    return exactly(errors["paper_v2"]), exactly(errors["mean"])


@measures("beyond-the-window-nothing-is-recoverable")
def _() -> tuple[Measured, ...]:
    def errors(rate: str, test: str, times: float) -> list[float]:
        thresholds = detection.detection_threshold(_ODD, 1, 1, _ALPHA, rate=rate)
        return [
            float(detection.detection_error(n, times * f, 1, _ALPHA, test))
            for n, f in zip(_ODD, thresholds, strict=True)
        ]

    return (
        exactly(max(errors("paper_v2", "likelihood", 2))),
        exactly(max(errors("mean", "mean", 2))),
        exactly(min(errors("paper_v2", "likelihood", 0.5))),
    )


@measures("later-beyond-the-window")
def _() -> tuple[Measured, Measured]:
    half = detection.detection_threshold(_ODD, 1, 1, _ALPHA) / 2
    least = {
        test: min(
            float(detection.detection_error(n, f, 1, _ALPHA, test))
            for n, f in zip(_ODD, half, strict=True)
        )
        for test in ("likelihood", "mean")
    }
    return exactly(least["likelihood"]), exactly(least["mean"])


@measures("number-suffices")
def _() -> tuple[Measured, Measured, Facts]:
    printed = np.ceil(detection.sample_complexity(1e-3, 1, 1, _ALPHA, rate="paper_v2"))
    count, rng = (
        int(np.ceil(detection.sample_complexity(0.25, 1, 1, _ALPHA))),
        np.random.default_rng(37),
    )
    wrong = sum(
        int((SymmetricStable(_ALPHA, loc=0.25).sample((1000, count), rng).mean(1) < 0).sum())
        for _ in range(10)
    )
    facts = {
        "printed": float(printed),
        "needed": float(
            np.ceil(detection.least_sequences([1e-3], 1, _ALPHA, test="likelihood")[0])
        ),
    }
    return (
        exactly(float(detection.detection_error(printed, 1e-3, 1, _ALPHA, "likelihood"))),
        share(wrong, 10_000),
        facts,
    )


def _wandering(rng: np.random.Generator) -> tuple[Any, Array, Array, Array]:
    """Lags, an envelope that falls by random steps, and alignments and scales between one half and
    two."""
    lags = np.arange(1, 201)
    f = np.exp(-np.cumsum(rng.exponential(0.03, lags.size)))
    alignment, scale = 2 ** rng.uniform(-1, 1, (2, lags.size))
    return lags, f, alignment, scale


@measures("number-follows-the-envelope")
def _() -> Measured:
    rng, outside = np.random.default_rng(38), 0
    for rate in _RATES * 20:
        _, f, alignment, scale = _wandering(rng)
        needed, p = (
            detection.sample_complexity(f, alignment, scale, _ALPHA, rate=rate),
            detection.rate_exponent(_ALPHA, rate),
        )
        low, high = (
            float(detection.sample_complexity(1, 1, edge, _ALPHA, rate=rate))
            for edge in ((scale / alignment).min(), (scale / alignment).max())
        )
        outside += int(
            ((needed < low * f**-p * (1 - 1e-12)) | (needed > high * f**-p * (1 + 1e-12))).sum()
        )
    return exactly(outside)


@measures("window-follows-the-envelope")
def _() -> Measured:
    rng, budgets, outside = np.random.default_rng(39), np.geomspace(1, 1e6, 30), 0
    for rate in _RATES * 20:
        lags, f, alignment, scale = _wandering(rng)
        window = learnability_window(
            lags, detection.sample_complexity(f, alignment, scale, _ALPHA, rate=rate), budgets
        )
        ratio = scale / alignment
        low, high = (
            np.where(
                f >= detection.detection_threshold(budgets, 1, edge, _ALPHA, rate=rate)[:, None],
                lags,
                0,
            ).max(axis=1)
            for edge in (ratio.max(), ratio.min())
        )
        outside += int(((window < low) | (window > high)).sum())
        again = window_bounds(lags, f, alignment, scale, budgets, _ALPHA, rate=rate)
        outside += int((again[0] != low).sum() + (again[1] != high).sum())
    return exactly(outside)


@measures("weaker-lags-cost-more-than-in-proportion")
def _() -> Measured:
    needed = [
        detection.least_sequences([0.01, 0.1], 1, a, test=t)
        for a in (1.2, 1.5, 1.8)
        for t in ("likelihood", "median", "mean")
    ]
    return over(np.log10([far / near for far, near in needed]))


@measures("envelope-cancels-from-the-number")
def _() -> Measured:
    lags, rng, changes = [1, 2, 4, 8], np.random.default_rng(28), []

    def measured(rates: torch.Tensor, alignments: torch.Tensor) -> xr.Dataset:
        signs = (rates * alignments).mean((0, 1)).sign()
        statistic = (
            ("probe", "lag", "sequence"),
            matched_statistic(rates, alignments, signs).T[None].numpy(),
        )
        numbers = xr.Dataset(
            {"statistic": statistic, "projection": statistic},
            {"lag": lags, "view": ("probe", ["first"])},
        )
        f = ("order", "lag"), transport.envelope(rates)[None].numpy()
        return summary(numbers).assign(envelope=f).assign_coords(order=["first"])

    for made in cases.cells().values():
        trace = cases.scan(made, sequences=64)
        rates = transport.effective_rates(trace, lags, "first")
        alignments, factor = cases.draw(*rates.shape), 1e3 ** rng.uniform(-1, 1, len(lags))
        before, after = (
            measured(rates, alignments),
            measured(rates * torch.as_tensor(factor)[:, None], alignments),
        )
        for how in (*({"rate": rate} for rate in RATES), LETTER):
            power = before.alpha.sel(noise="own") if how is LETTER else 0.0
            ratio = required(after, rule="plug-in", error=0.1, **how) / required(
                before, rule="plug-in", error=0.1, **how
            )
            changes.append(abs(ratio * xr.DataArray(factor, {"lag": lags}) ** power - 1).max())
    return exactly(max(map(float, changes)))


_LAWS = {
    "logarithmic": DecayLaw("logarithmic", 5),
    "power": DecayLaw("power", 5, 0.5),
    "exponential": DecayLaw("exponential", 5, 0.9),
}
_STEEPNESS = {"logarithmic": 1.0, "power": 0.5, "exponential": -np.log(0.9)}
_HEIGHTS: dict[str, Callable[[Array], Array]] = {  # axes that make each law straight
    "logarithmic": lambda lag: np.log(np.log(lag)),
    "power": np.log,
    "exponential": np.asarray,
}


@functools.cache
def _simulated() -> MeasuredExponent:
    return measured_exponent(
        _ALPHA, "mean", [8, 64, 512], np.random.default_rng(40), replicates=2000
    )


def _regime(name: str) -> tuple[Measured, Measured]:
    """Exponent from the lags that simulated means of 8, 64 and 512 sequences just show, over α and
    over κ: from N(ℓ) and from H_N."""
    found = _simulated()
    height, log_n = (
        _HEIGHTS[name](_LAWS[name].inverse(np.log(found.shifts))),
        np.log(found.n_sequences),
    )
    slopes = (
        np.array([np.polyfit(height, log_n, 1)[0], 1 / np.polyfit(log_n, height, 1)[0]])
        / _STEEPNESS[name]
    )
    ends = [end / found.exponent for end in found.interval]
    of_number = slopes[0], slopes.min() * ends[0], slopes.max() * ends[1]
    alpha, kappa = (detection.rate_exponent(_ALPHA, rate) for rate in ("paper_v2", "mean"))
    return Measured(*(one / alpha for one in of_number)), Measured(
        *(one / kappa for one in of_number)
    )


for _name in ("logarithmic", "power", "exponential"):
    measures(f"{_name}-regime")(functools.partial(_regime, _name))


@measures("regimes-by-inversion")
def _() -> Measured:
    table = regimes.growth(list(_LAWS.values()), _ALPHA)
    return over((table["measured slope"] / table["paper's slope"]).tolist())
