"""Claims of Section 6.1: the task, and how its measurements become numbers of sequences."""

from __future__ import annotations

from itertools import product

import numpy as np
import torch

from book.chapters import matched, robust
from book.chapters.prediction import learned_share
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, estimate, exactly, over, share
from book.claims.recorded import EXPANSIONS, numbers
from lwcore import experiment, gradient, stable, tasks
from lwcore.config import Config
from lwcore.detection import detection_threshold, sample_complexity
from lwcore.inference import config_of
from lwcore.stats import student
from lwcore.window import learnability_window

_LAGS, _COEFFICIENTS, _NOISE = (8, 16, 32, 64, 128), (0.6, 0.5, 0.4, 0.32, 0.26), 0.3


def _task(noise: float = _NOISE) -> tasks.DelayedRegression:
    """The task of the recorded runs `small` and `paper-v2`, with fewer inputs."""
    return tasks.DelayedRegression(
        256, _LAGS, _COEFFICIENTS, noise, np.random.default_rng(0).standard_normal(4)
    )


@measures("target-is-a-delayed-sum")
def _() -> Measured:
    task = _task(noise=0.0)
    sequences = tasks.sample(task, 8, np.random.default_rng(1), torch.float64)
    response = np.zeros(task.length)
    response[list(_LAGS)] = _COEFFICIENTS
    true = np.array(
        [
            np.convolve(one @ task.direction, response)[: task.length]
            for one in sequences.inputs.numpy()
        ]
    )
    return exactly(np.abs(sequences.targets.numpy() - true).max() / np.abs(true).max())


@measures("target-variance")
def _() -> Measured:
    task = _task()
    targets = tasks.sample(task, 1000, np.random.default_rng(2), torch.float64).targets[
        :, max(_LAGS) :
    ]
    ratio = (targets**2).mean(1).numpy() / (np.square(_COEFFICIENTS).sum() + _NOISE**2)
    half = 1.96 * ratio.std(ddof=1) / np.sqrt(len(ratio))
    return estimate(ratio.mean(), (ratio.mean() - half, ratio.mean() + half))


@measures("white-inputs-separate-lags")
def _() -> Measured:
    task, delays = _task(), range(1, 161)
    blocks = [
        tasks.sample(task, 50, np.random.default_rng(seed), torch.float64) for seed in range(20)
    ]
    found = np.array(
        [tasks.recovered_coefficients(task, one, one.targets, delays).numpy() for one in blocks]
    )
    planted = np.zeros(len(delays))
    planted[np.array(_LAGS) - 1] = _COEFFICIENTS
    steps = task.length - np.array(delays)  # over which a product is averaged
    errors = np.sqrt((found.var(0, ddof=1) * steps).mean() / steps / len(found))
    return exactly((np.abs(found.mean(0) - planted) / errors).max())


@measures("cells-learn-about-the-same")
def _(runs: Runs) -> tuple[Measured, Measured, Measured]:
    run = runs["small"]
    explained = numbers((1 - run.test_loss / run.target_variance).median("seed"))
    longest = learned_share(run).sel(lag=_LAGS[-1]).median("seed")
    return exactly(max(explained) - min(explained)), over(explained), over(numbers(longest))


@measures("empirical-window-by-count-or-threshold")
def _(runs: Runs) -> Measured:
    run = runs["paper-v2"].sel(source="error", noise="own")
    lags, budgets, differ = run.lag.values, np.array(config_of(run).diagnostics.budgets), 0
    for order, model, seed in product(EXPANSIONS, run.model.values, run.seed.values):
        one = run.sel(model=model, seed=seed)
        envelope, alpha = (
            one.envelope.sel(order=order).values,
            float(one.alpha.values[one.view.values == order][0]),
        )
        for probe in np.flatnonzero(one.view == order):
            alignment, scale = one.signal.values[probe] / envelope, one.scale.values[probe]
            by_count = learnability_window(
                lags, sample_complexity(envelope, alignment, scale, alpha, rate="paper_v2"), budgets
            )
            reached = envelope >= detection_threshold(
                budgets[:, None], alignment, scale, alpha, rate="paper_v2"
            )
            differ += int((by_count != np.where(reached, lags, 0).max(-1)).sum())
    return exactly(differ)


@measures("mean-statistic-stands-for-alignment")
def _() -> tuple[Measured, Measured, Facts]:
    rng, envelope, shift, trials = np.random.default_rng(3), 10.0, 0.2, 20_000
    measured = []
    for alignment in (shift, shift / envelope):
        count = int(np.ceil(sample_complexity(envelope, alignment, 1.0, 2.0)))
        means = shift + np.sqrt(2 / count) * rng.standard_normal(trials)
        measured.append(share(int((means < 0).sum()), trials))
    return measured[0], measured[1], {"needed": count}


@measures("one-tail-index-for-all-lags")
def _(runs: Runs) -> Measured:
    inside: list[float] = []
    for name in ("small", "paper-v2"):
        statistic = (
            robust.numbers(runs[name], "zeroth", "own")
            .stack(column=("probe", "lag"))
            .transpose("model", "seed", "sequence", ...)
        )
        for network in statistic.values.reshape(-1, *statistic.shape[2:]):
            # SharedGate's longest lags are 0 in the precision stored
            fitted = stable.fit(network[:, np.ptp(network, axis=0) > 0])
            alpha, (low, high) = np.asarray(fitted.alpha), fitted.alpha_interval
            middle = np.nanmedian(alpha)
            inside.append(((low <= middle) & (middle <= high))[np.isfinite(alpha)].mean())
    value, *ends = student(inside)
    return estimate(value, ends)


@measures("end-points-are-independent-samples")
def _() -> tuple[Measured, Measured, Facts]:
    config = Config.named("live").but(
        models=["LSTM"], seeds=[1001], network={"gate_init": 0.05}, task={"length": 128}
    )
    (network,) = experiment.networks(config, trained=False).values()
    trace, errors = network.observe(*experiment.fresh_sequences(config, 1001, 192))
    direction = gradient.random_direction(network.cell, torch.Generator().manual_seed(3))
    terms = matched.lag_terms(trace, errors, direction, [5], "zeroth")
    statistic = terms.of(slice(64, 192)).statistic(terms.of(slice(0, 64)).signs)
    worth = matched.effective_samples(statistic, np.random.default_rng(6))
    value, low, high = (
        float(part[0]) / statistic.shape[1] for part in (worth.value, worth.low, worth.high)
    )
    found = estimate(value, (low, high))
    return found, found, {"ends": statistic.shape[1], "worth": float(worth.value[0])}
