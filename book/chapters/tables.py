"""Tables from results: the numbers that stand beside the figures, and what the paper says beside
what was measured.

Every function takes a dataset as `lwcore.experiment.run` returns it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from book.chapters.five_laws import FiveLaws, fit_laws
from lwcore import inference
from lwcore.detection import rate_exponent
from lwcore.inference import LETTER, NOISES, OPTIMISER, RULES, probes, required


def training(results: xr.Dataset) -> pd.DataFrame:
    """How far training got: mean squared error on fresh sequences, over seeds, and as a share."""
    error = results.test_loss
    columns = {
        "least error": error.min("seed"),
        "largest error": error.max("seed"),
        "share of the variance": (error / results.target_variance).mean("seed"),
    }
    return pd.DataFrame({name: one.to_series() for name, one in columns.items()}).round(3)


def decay(results: xr.Dataset) -> pd.DataFrame:
    """Compare the decay laws of every model's envelope, fitted for each seed.

    Returns:
        For each model and order: the best laws by AICc with their seeds; the medians over seeds of
            R² on log f and of the AICc of the
        power law less that of the exponential, and less that of two exponentials (positive: the
        power fits worse); and the exponential's time scale −1/log λ (steps), the power's exponent β
        and the two exponentials' time scales, median (least to largest seed).
    """
    short, rows = {"tempered_power": "tempered", "two_exponentials": "two exp."}, []
    for model in results.model.values:
        for order in results.order.values:
            fits = _fits(results.sel(model=model, order=order))
            best = Counter(short.get(fit.best.law.name, fit.best.law.name) for fit in fits)
            rows.append(
                {
                    "model": model,
                    "order": order,
                    "best law": ", ".join(f"{law} {count}" for law, count in best.most_common()),
                    "R² exponential": np.median([fit.exponential.r_squared for fit in fits]),
                    "R² power": np.median([fit.power.r_squared for fit in fits]),
                    "R² two exp.": np.median([fit.two_exponentials.r_squared for fit in fits]),
                    "AICc, power − exponential": np.median(
                        [fit.power.aicc - fit.exponential.aicc for fit in fits]
                    ),
                    "AICc, power − two exp.": np.median(
                        [fit.power.aicc - fit.two_exponentials.aicc for fit in fits]
                    ),
                    "τ (steps)": _with_range(
                        [-1 / np.log(fit.exponential.law.decay) for fit in fits]
                    ),
                    "β": _with_range([fit.power.law.decay for fit in fits]),
                    "two exp., fast τ": _with_range(
                        [-1 / np.log(fit.two_exponentials.law.decay) for fit in fits]
                    ),
                    "slow τ": _with_range(
                        [-1 / np.log(fit.two_exponentials.law.slow) for fit in fits]
                    ),
                }
            )
    return pd.DataFrame(rows).set_index(["model", "order"]).round(3)


def negative_rates(results: xr.Dataset, lags: list[int]) -> pd.DataFrame:
    """Show how many rates are below 0.

    Args:
        results: A run.
        lags: Some of its lags.

    Returns:
        For each model and order: the share of negative rates among all sequences, end points and
            neurons in percent, at each lag.
    """
    share = (100 * results.negative.mean("seed")).sel(lag=lags).round().astype(int)
    return (
        share.to_series()
        .unstack("lag")
        .loc[list(results.model.values)]
        .rename(columns=lambda lag: f"% at lag {lag}")
    )


def concentration(results: xr.Dataset) -> pd.DataFrame:
    """Compare how fast means over sequences concentrate with what the fitted tail index says.

    If means of N sequences spread as N^(−1/p), stable noise of index α has p = α/(α − 1) and noise
    with a variance has p = 2. The measured p comes from the interquartile range of block means,
    median over probes and lags; the range is that over seeds.

    Returns:
        For each model and noise, over all views: α by McCulloch's estimator, the p it implies, and
            the p measured.
    """
    rows = []
    for model in results.model.values:
        for noise in results.noise.values:
            one = results.sel(model=model, noise=noise, source="error")
            alpha = one.alpha.median("probe").values
            measured = one.exponent.median(("probe", "lag")).values
            rows.append(
                {
                    "model": model,
                    "noise": noise,
                    "α fitted": f"{alpha.min():.2f} to {alpha.max():.2f}",
                    "p if stable": f"{rate_exponent(alpha.max()):.2f} to "
                    f"{rate_exponent(alpha.min()):.2f}",
                    "p measured": f"{measured.min():.2f} to {measured.max():.2f}",
                }
            )
    return pd.DataFrame(rows).set_index(["model", "noise"])


def windows(results: xr.Dataset, n_sequences: int) -> pd.DataFrame:
    """Show the learnability window at one number of sequences, computed in several ways.

    Args:
        results: A run.
        n_sequences: N.

    Returns:
        For each model and view: H_N in steps, median (and quartiles) over seeds × probes. Columns:
            v2 to the letter, f counted once, the
        latter as first passage, and inside the noise of the whole gradient.
    """
    columns: dict[str, dict[str, Any]] = {
        "v2 to the letter": LETTER,
        "f once": {"rate": "mean"},
        "f once, first passage": {"rate": "mean", "definition": "first_passage"},
        "in the whole gradient": OPTIMISER,
    }
    found = {
        name: inference.windows(results.sel(source="error"), n_sequences, **how)
        for name, how in columns.items()
    }
    rows = []
    for model in results.model.values:
        for view in dict.fromkeys(results.view.values):
            own = results.view.values == view
            quartiles = {
                name: one.sel(model=model).isel(probe=own).quantile([0.25, 0.5, 0.75]).values
                for name, one in found.items()
            }
            row = {
                name: f"{middle:.0f} ({low:.0f} to {high:.0f})"
                for name, (low, middle, high) in quartiles.items()
            }
            if view not in results.order.values:
                row["v2 to the letter"] = "–"  # there is no envelope in this view
            rows.append({"model": model, "view": view} | row)
    return pd.DataFrame(rows).set_index(["model", "view"])


def hardest_lag(results: xr.Dataset) -> pd.DataFrame:
    """Show how many sequences the hardest lag takes along its own gradient, inside the noise of the
    whole gradient.

    Returns:
        For each model: the largest N(ℓ) over lags, least, median and largest over seeds, in
            sequences.
    """
    needed = required(probes(results, "gradient", "error"), **OPTIMISER).max("lag").squeeze("probe")
    columns = {
        "least seed": needed.min("seed"),
        "median seed": needed.median("seed"),
        "largest seed": needed.max("seed"),
    }
    models = pd.Index(results.model.values, name="sequences for the hardest lag")
    return pd.DataFrame(
        {name: np.ceil(column.values) for name, column in columns.items()}, index=models
    ).map("{:.0f}".format)


def null_control(results: xr.Dataset) -> pd.DataFrame:
    """Count the null controls whose window is not empty at the largest number of sequences.

    Returns:
        For each rule and noise: how many networks have a window in any probe, by view.
    """
    networks = results.sizes["model"] * results.sizes["seed"]
    rows = []
    for rule, noise in itertools.product(RULES, NOISES):
        row: dict[str, str] = {"rule": rule, "noise": noise}
        for view in dict.fromkeys(results.view.values):
            found = (
                inference.windows(probes(results, view, "noise"), rule=rule, noise=noise).isel(
                    budget=-1
                )
                > 0
            ).any("probe")
            row[view] = f"{int(found.sum())} of {networks}"
        rows.append(row)
    return pd.DataFrame(rows).set_index(["rule", "noise"])


def agreement(results: xr.Dataset, n_sequences: int) -> pd.DataFrame:
    """Put what the paper says (our wording) beside the number of networks for which it was measured
    to be so, at each order of transport.

    The verdict follows from the counts alone: a statement holds at an order if it does for every
    network (or seed) it speaks of. A dash stands where a statement is not about that order.

    Args:
        results: A run.
        n_sequences: N at which windows are read.

    Returns:
        One row a statement: a count for each order, and the verdict.
    """
    scalar, diagonal, every = ["ConstGate", "SharedGate"], ["DiagGate"], list(results.model.values)
    missing = {*scalar, *diagonal, "zeroth", "first"} - {*every, *results.order.values}
    if missing:
        raise ValueError(
            f"results: {', '.join(sorted(missing))} missing, of which the paper's statements speak."
        )
    fits = {
        (m, o): _fits(results.sel(model=m, order=o)) for m in every for o in results.order.values
    }
    decaying = results.time_scale.where(np.isfinite(results.time_scale))
    spread = decaying.std("unit") / decaying.mean("unit")
    negative, monotone = (
        (results.negative > 0).any("lag"),
        (results.envelope.diff("lag") <= 0).all("lag"),
    )
    slope = _scale_slopes(results)

    def exponential(model: str, order: str) -> list[bool]:
        return [fit.exponential.aicc < fit.power.aicc for fit in fits[model, order]]

    def power(model: str, order: str) -> list[bool]:
        return [fit.power.aicc < fit.exponential.aicc for fit in fits[model, order]]

    def each(condition: xr.DataArray) -> Callable[[str, str], list[bool]]:
        return lambda model, order: list(condition.sel(model=model, order=order).values)

    def longest(**how: Any) -> Callable[[str, str], list[bool]]:
        def holds(model: str, order: str) -> list[bool]:
            median = inference.windows(probes(results, order, "error"), n_sequences, **how).median(
                "probe"
            )
            return list((median.sel(model=model) > median.sel(model=scalar).max("model")).values)

        return holds

    expansions, orders = ["zeroth", "first"], list(results.order.values)
    statements = [
        (
            "ConstGate, SharedGate: f decays exponentially rather than as a power",
            scalar,
            orders,
            exponential,
        ),
        ("DiagGate: f decays as a power rather than exponentially", diagonal, orders, power),
        ("f never rises with the lag (Lemma 5.1)", every, expansions, each(monotone)),
        ("no rate is negative (Lemma 5.1)", every, expansions, each(~negative)),
        (
            "the noise scale stays up as f falls (assumed by Lemma 5.2; slope below ½)",
            every,
            expansions,
            each(slope < 0.5),
        ),
        (
            "DiagGate has the longest window: v2 to the letter",
            diagonal,
            expansions,
            longest(**LETTER),
        ),
        (
            "DiagGate has the longest window: f counted once",
            diagonal,
            expansions,
            longest(rate="mean"),
        ),
        (
            "ConstGate, SharedGate: all neurons share one τ (to 1 %)",
            scalar,
            orders,
            each(spread < 0.01),
        ),
        (
            "DiagGate: τ differs between neurons (by over 10 %)",
            diagonal,
            orders,
            each(spread > 0.1),
        ),
    ]
    rows = []
    for statement, models, about, holds in statements:
        counts = {
            order: [bool(h) for model in models for h in holds(model, order)] for order in about
        }
        cells = {
            order: f"{sum(counts[order])} of {len(counts[order])}" if order in counts else "–"
            for order in orders
        }
        rows.append(
            {"the paper says": statement}
            | cells
            | {"verdict": verdict({order: all(found) for order, found in counts.items()})}
        )
    return pd.DataFrame(rows).set_index("the paper says")


def _with_range(values: list[float]) -> str:
    """Write a median with the least and the largest value."""
    return f"{np.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def _fits(one: xr.Dataset) -> list[FiveLaws]:
    """Fit the decay laws to the envelope of every seed."""
    return [
        fit_laws(one.lag.values, one.envelope.sel(seed=seed).values) for seed in one.seed.values
    ]


def _scale_slopes(results: xr.Dataset) -> xr.DataArray:
    """Slope of log σ(ℓ) against log f(ℓ), network by network: 1 where the envelope cancels from
    N(ℓ), 0 where the scale is constant."""
    slopes = []
    for order in ("zeroth", "first"):
        log_scale = np.log(probes(results, order, "error").scale.sel(noise="own", drop=True)).mean(
            "probe"
        )
        log_f = np.log(results.envelope.sel(order=order, drop=True))
        slopes.append(xr.cov(log_scale, log_f, "lag") / log_f.var("lag", ddof=1))
    return xr.concat(slopes, "order").assign_coords(order=["zeroth", "first"])


def verdict(holds: dict[str, bool]) -> str:
    """Say in words at which orders of transport a statement holds."""
    orders = [order for order, held in holds.items() if held]
    if len(orders) == len(holds):
        return "holds"
    return f"holds at {' and '.join(orders)} order only" if orders else "does not hold here"
