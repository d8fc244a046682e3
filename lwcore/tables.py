"""Tables from results: the numbers that stand beside the figures, and what the paper says beside what was measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr

from lwcore.window import DecayFit, fit_decay


def decay(results: xr.Dataset) -> pd.DataFrame:
    """Compare the decay laws of every model's envelope, fitted for each seed.

    Args:
        results: A run.

    Returns:
        For each model and order: in how many seeds each law is the best by AICc, and the medians over seeds of R² on log f, of the
        exponential law's time scale −1/log λ (steps) and of the power law's exponent β.
    """
    rows = []
    for model in results.model.values:
        for order in results.order.values:
            fits = _fits(results.sel(model=model, order=order))
            best = [fit.best.law.name for fit in fits]
            rows.append(
                {
                    "model": model,
                    "order": order,
                    "exponential best": f"{best.count('exponential')} of {len(best)}",
                    "power best": f"{best.count('power')} of {len(best)}",
                    "R² exponential": np.median([fit.exponential.r_squared for fit in fits]),
                    "R² power": np.median([fit.power.r_squared for fit in fits]),
                    "τ (steps)": np.median([-1 / np.log(fit.exponential.law.decay) for fit in fits]),
                    "β": np.median([fit.power.law.decay for fit in fits]),
                }
            )
    return pd.DataFrame(rows).set_index(["model", "order"]).round(3)


def training(results: xr.Dataset) -> pd.DataFrame:
    """Show how far training got.

    Args:
        results: A run.

    Returns:
        For each model: mean squared error on fresh sequences, least and largest over seeds, and as a share of the target's variance.
    """
    error = results.test_loss
    share = (error / results.target_variance).mean("seed")
    columns = {"least error": error.min("seed"), "largest error": error.max("seed"), "share of the variance": share}
    models = pd.Index(results.model.values, name="model")
    return pd.DataFrame({name: column.values for name, column in columns.items()}, index=models).round(3)


def negative_rates(results: xr.Dataset, lags: list[int]) -> pd.DataFrame:
    """Show how many rates are below 0.

    Args:
        results: A run.
        lags: Some of its lags.

    Returns:
        For each model and order: the share of negative rates among all sequences, end points and neurons in percent, at each lag.
    """
    share = (100 * results.negative.mean("seed")).sel(lag=lags).round().astype(int)
    return share.to_series().unstack("lag").loc[list(results.model.values)].rename(columns=lambda lag: f"% at lag {lag}")


def tails(results: xr.Dataset) -> pd.DataFrame:
    """Show the tail index of the lags' statistics and of the whole gradient.

    Args:
        results: A run.

    Returns:
        For each model and order: the global α of either noise definition, least and largest over seeds.
    """
    alpha = results.alpha.sel(source="error", signs="transported")
    low, high = alpha.min("seed"), alpha.max("seed")
    rows = []
    for model in results.model.values:
        for order in results.order.values:
            row = {"model": model, "order": order}
            for noise in ("lag", "total"):
                at = {"model": model, "order": order, "noise_definition": noise}
                row[f"α, {noise}"] = f"{low.sel(at):.2f} to {high.sel(at):.2f}"
            rows.append(row)
    return pd.DataFrame(rows).set_index(["model", "order"])


def windows(results: xr.Dataset, n_sequences: int, rate: str = "mean") -> pd.DataFrame:
    """Show the learnability window at one number of sequences.

    Args:
        results: A run.
        n_sequences: N, one of the run's budgets.
        rate: Rate exponent by name.

    Returns:
        For each model and order: H_N in steps, median (and quartiles) over seeds × directions, with either noise definition.
    """
    chosen = results.window.sel(budget=n_sequences, rate_exponent=rate, rule="tested", source="error", signs="transported")
    low, middle, high = (chosen.quantile(q, ("seed", "direction")) for q in (0.25, 0.5, 0.75))
    rows = []
    for model in results.model.values:
        for order in results.order.values:
            row = {"model": model, "order": order}
            for noise in ("lag", "total"):
                at = {"model": model, "order": order, "noise_definition": noise}
                row[f"H_N, noise of the {noise}"] = f"{middle.sel(at):.0f} ({low.sel(at):.0f} to {high.sel(at):.0f})"
            rows.append(row)
    return pd.DataFrame(rows).set_index(["model", "order"])


def null_control(results: xr.Dataset) -> pd.DataFrame:
    """Count the null controls whose window is not empty at the largest number of sequences.

    Args:
        results: A run.

    Returns:
        For each rule and noise definition: how many networks have a window in any direction, by order.
    """
    null = results.window.sel(source="noise", signs="transported", rate_exponent="mean").isel(budget=-1)
    found = (null > 0).any("direction").sum(("model", "seed"))
    networks = results.sizes["model"] * results.sizes["seed"]
    rows = []
    for rule in results.rule.values:
        for noise in ("lag", "total"):
            counts = found.sel(rule=rule, noise_definition=noise)
            rows.append({"rule": rule, "noise": noise} | {o: f"{int(counts.sel(order=o))} of {networks}" for o in results.order.values})
    return pd.DataFrame(rows).set_index(["rule", "noise"])


def agreement(results: xr.Dataset, n_sequences: int) -> pd.DataFrame:
    """Put what the paper says (our wording) beside the number of networks for which it was measured to be so, at each order of transport.

    The verdict follows from the counts alone: a statement holds at an order if it does for every network it speaks of.

    Args:
        results: A run.
        n_sequences: N at which windows are read, one of the run's budgets.

    Returns:
        One row a statement: a count for each order, and the verdict.
    """
    scalar = ("ConstGate", "SharedGate")
    window = results.window.sel(budget=n_sequences, rate_exponent="mean", rule="tested", source="error", signs="transported")
    median_window = window.median("direction")
    spread = results.time_scale.std("unit") / results.time_scale.mean("unit")
    slope = _scale_slopes(results)

    def best_law(name: str) -> Callable[[str, str], list[bool]]:
        return lambda model, order: [fit.best.law.name == name for fit in _fits(results.sel(model=model, order=order))]

    def each(condition: xr.DataArray) -> Callable[[str, str], list[bool]]:
        return lambda model, order: list(condition.sel(model=model, order=order).values)

    closed, opened = median_window == 0, median_window > 0
    statements = [
        ("ConstGate and SharedGate: the envelope decays exponentially", scalar, best_law("exponential")),
        ("DiagGate: the envelope decays as a power of the lag", ("DiagGate",), best_law("power")),
        ("The envelope never rises with the lag (Lemma 5.1)", results.model.values, each((results.envelope.diff("lag") <= 0).all("lag"))),
        ("Rates are never negative (Lemma 5.1)", results.model.values, each((results.negative == 0).all("lag"))),
        ("The noise scale does not fall with the envelope (Lemma 5.2)", results.model.values, each(slope < 0.5)),
        ("ConstGate and SharedGate: no window, noise of the lag", scalar, each(closed.sel(noise_definition="lag"))),
        ("ConstGate and SharedGate: no window, noise of the total", scalar, each(closed.sel(noise_definition="total"))),
        ("DiagGate: an open window, noise of the lag", ("DiagGate",), each(opened.sel(noise_definition="lag"))),
        ("DiagGate: an open window, noise of the total", ("DiagGate",), each(opened.sel(noise_definition="total"))),
        ("ConstGate and SharedGate: all neurons share one time scale", scalar, each(spread < 0.01)),
        ("DiagGate: time scales differ between neurons", ("DiagGate",), each(spread > 0.1)),
    ]
    rows = []
    for statement, models, holds in statements:
        counts = {o: [h for m in models if m in results.model.values for h in holds(m, o)] for o in results.order.values}
        row = {"the paper says": statement} | {order: f"{sum(found)} of {len(found)}" for order, found in counts.items()}
        rows.append(row | {"verdict": _verdict({order: all(found) for order, found in counts.items()})})
    return pd.DataFrame(rows).set_index("the paper says")


def _fits(one: xr.Dataset) -> list[DecayFit]:
    """Fit the decay laws to the envelope of every seed."""
    return [fit_decay(one.lag.values, one.envelope.sel(seed=seed).values) for seed in one.seed.values]


def _scale_slopes(results: xr.Dataset) -> xr.DataArray:
    """Slope of log σ(ℓ) against log f(ℓ), network by network: 1 where the envelope cancels from N(ℓ), 0 where the scale is constant."""
    chosen = results.sel(source="error", signs="transported")
    log_scale, log_f = np.log(chosen.scale).mean("direction"), np.log(chosen.envelope)
    return xr.cov(log_scale, log_f, "lag") / log_f.var("lag", ddof=1)


def _verdict(holds: dict[str, bool]) -> str:
    """Say at which orders a statement holds."""
    orders = [order for order, held in holds.items() if held]
    if len(orders) == len(holds):
        return "holds"
    return f"holds at {' and '.join(orders)} order only" if orders else "does not hold here"
