"""Claims of Section 7 and of the abstracts: what decides how many sequences a delay needs, and what
is learned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import xarray as xr

from book.chapters import agreement, frontier, prediction
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, estimate, over
from book.claims.recorded import EXPANSIONS, SCALAR, lead, log, numbers
from lwcore.stats import most_covered

_LETTER = "N: zeroth, own noise, v2 to the letter"
_OWN_GRADIENT = "N: gradient, whole noise, variance"
_ZEROTH = "envelope, zeroth order"


def _over_seeds(values: Iterable[float], seeds: xr.DataArray) -> Measured:
    """Numbers of networks on a few seeds: median, least and largest, with what a range over so many
    seeds covers."""
    return replace(over(values), covers=most_covered(seeds.size))


def _over_cells(correlation: float, cells: int) -> Measured:
    """A rank correlation that speaks of cells: its interval has them as its units, one less where
    another number is given."""
    return estimate(correlation, agreement.correlation_interval(correlation, cells))


def _position(scores: xr.DataArray, predictor: str, source: str) -> int:
    """Where a predictor stands; of those without an error, whatever source is asked for."""
    return int(
        np.flatnonzero((scores.predictor == predictor) & np.isin(scores.source, (source, "–")))[0]
    )


def _compared(
    scores: xr.DataArray, learned: xr.DataArray, predictor: str, source: str, less: str = ""
) -> Measured:
    """Rank correlation of one predictor with what was learned, over all pairs, or by how much it
    exceeds another's; interval over seeds."""
    chosen = scores.isel(
        predictor=[
            _position(scores, less or predictor, source),
            _position(scores, predictor, source),
        ]
    )
    found = agreement.compare(chosen, learned, {"all pairs": ()}).isel(stratum=0, predictor=1)
    names = ("gain", "gain_low", "gain_high") if less else ("value", "low", "high")
    value, low, high = (float(found[name]) for name in names)
    return estimate(value, (low, high), most_covered(learned.sizes["seed"]))


def _within_lags(
    scores: xr.DataArray, learned: xr.DataArray, predictor: str, given: str = ""
) -> Measured:
    """Rank correlation of one predictor with what was learned, within lags, also with another's
    part taken out; interval over cells."""
    at = _position(scores, predictor, "target")
    one, within_lags = scores.isel(predictor=[at]), ("lag",)
    if not given:
        return _over_cells(
            float(agreement.rank_correlation(one, learned, within_lags)[0]), learned.model.size
        )
    third = scores.isel(predictor=_position(scores, given, "–"))
    return _over_cells(
        float(agreement.partial_rank_correlation(one, learned, third, within_lags)[0]),
        learned.model.size - 1,
    )


def _after(runs: Runs, name: str = "small") -> tuple[xr.DataArray, xr.DataArray]:
    """A run: what its measurements after training predict, and the share learned."""
    return prediction.task_predictors(runs[name]), prediction.learned_share(runs[name])


def _designed(runs: Runs) -> tuple[xr.DataArray, xr.Dataset]:
    """The experiment with one delay at a time: share learned, and the same networks measured before
    training."""
    learned = frontier.single_lag_share(runs["single-lag"])
    return learned, frontier.at_task(runs["single-lag-start"]).sel(lag=learned.lag)


def _before(runs: Runs) -> tuple[xr.DataArray, xr.DataArray]:
    """The same experiment: what measurements before training predict, and −log of the number of
    sequences that each network took."""
    learned, start = _designed(runs)
    return prediction.predictors(start, "before"), frontier.ease(learned)


@measures("window-tells-what-is-learned")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    after, paper = _after(runs), _after(runs, "paper-v2")
    literal, less = (
        _compared(*after, _LETTER, "error", plain) for plain in ("", prediction.BASELINE)
    )
    facts = {
        "lag": literal.value - less.value,
        "target": _compared(*after, _LETTER, "target").value,
    }
    facts |= {
        name: _compared(*paper, one, "error").value
        for name, one in (("paper", _LETTER), ("paper_lag", prediction.BASELINE))
    }
    return literal, less, facts


@measures("window-tells-more-than-the-lag")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    facts: Facts = {}
    before = _before(runs)
    for name, run in (("small", "small"), ("paper", "paper-v2")):
        scores, learned = _after(runs, run)
        found = agreement.rank_correlation(scores, learned)
        gains = (
            found[len(prediction.TRIVIAL) :] - found[prediction.TRIVIAL.index(prediction.BASELINE)]
        )
        # those of paper-v2 come last
        facts |= {name: int((gains > 0).sum()), "readings": gains.size, "gain": gains.max()}
        within_lags = agreement.rank_correlation(scores, learned, ["lag"])
        ours, size = (
            within_lags[_position(scores, one, "target")]
            for one in (_OWN_GRADIENT, prediction.SIZE)
        )
        facts |= {"within": ours, "size": size}
    return (
        _compared(*before, _OWN_GRADIENT, "target", prediction.BOTH),
        _within_lags(*before, _OWN_GRADIENT, given=prediction.SIZE),
        facts,
    )


@measures("larger-envelope-learns-more")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    scores, learned = _after(runs)
    longest = learned.sel(lag=128).median("seed")
    facts = {"more": float(longest.sel(model="ConstGate") / longest.sel(model="LSTM"))}
    paper, share_learned = _after(runs, "paper-v2")
    at_zeroth = paper.isel(predictor=[_position(paper, _ZEROTH, "–")])
    facts["paper"] = agreement.rank_correlation(at_zeroth, share_learned, ["lag"])[0]
    return (
        _within_lags(scores, learned, _ZEROTH),
        _within_lags(*_before(runs), _ZEROTH, given=prediction.SIZE),
        facts,
    )


@measures("diagonal-gate-learns-longer-delays")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    ease, run = frontier.ease(_designed(runs)[0]).sel(lag=[6, 9, 13]), runs["paper-v2"]
    ratios = np.exp(numbers(ease.sel(model=SCALAR).max("model") - ease.sel(model="DiagGate")))
    took = ease.sel(lag=13).median("seed")
    facts = {
        name: np.exp(-took.sel(model=model).item())
        for name, model in (("const", "ConstGate"), ("diag", "DiagGate"))
    }
    counts = prediction.parameter_counts(runs["single-lag"])
    facts["size"] = float(counts.sel(model="DiagGate") / counts.sel(model="ConstGate"))
    explained, in_small = (
        lead(1 - one.test_loss / one.target_variance) for one in (run, runs["small"])
    )
    facts |= {"least": float(in_small.min()), "most": float(in_small.max())}
    return _over_seeds(ratios, ease.seed), _over_seeds(numbers(explained), run.seed), facts


@measures("number-of-sequences-to-learn")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    learned, _ = _designed(runs)
    took = log(frontier.sequences_needed(learned).sel(lag=[6, 13])).diff("lag", label="upper")
    height = log(
        runs["single-lag-start"].envelope.sel(order=EXPANSIONS, lag=[6, 13]).mean("seed")
    ).diff("lag", label="upper")
    power = over(numbers(-took / height))
    fall = height.sel(model="ConstGate", order="zeroth").isel(task=0).item()
    return power, power, {"fall": np.exp(-fall), "more": np.exp(took.sel(model="ConstGate").item())}


@measures("window-after-training")
def _(runs: Runs) -> tuple[Measured, Measured]:
    lags = [8, 16, 32, 64]
    left, learned = (
        prediction.left_over(runs["small"].sel(lag=lags)),
        prediction.learned_share(runs["small"]).sel(lag=lags),
    )
    slopes = [
        np.polyfit(learned.sel(seed=seed).values.ravel(), left.sel(seed=seed).values.ravel(), 1)[0]
        for seed in learned.seed
    ]
    return over(numbers(left.sel(lag=8))), over(slopes)


@measures("more-data-or-more-gates-to-learn")
def _(runs: Runs) -> Measured:
    learned = _designed(runs)[0].mean("lag")
    few = learned.sel(sequences=64)
    by_gates = few.sel(model="DiagGate") - few.sel(model="ConstGate")
    by_data = learned.sel(sequences=256, model="ConstGate") - few.sel(model="ConstGate")
    return _over_seeds(numbers(by_data - by_gates), learned.seed)
