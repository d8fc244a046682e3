"""Tables about the neurons of a recorded run: how envelopes decay, spectra of time scales and their
modes, base rates.

Every function takes a dataset as `lwcore.experiment.run` returns it. A network is the unit: entries
are the least and the largest over the seeds of a model, or, where a table says so, means with 95 %
t-intervals over seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from book.chapters.five_laws import fit_laws
from book.chapters.modes import mode_test, rejection_rate
from book.chapters.spectra import split_envelope
from book.chapters.tables import verdict
from lwcore.inference import LETTER, OPTIMISER, probes, windows
from lwcore.stats import Interval, binomial, holm, student

Array = NDArray[np.float64]
_ALIKE = 1e-3  # spread of log τ below which all neurons of a network share one time scale


def decay(results: xr.Dataset) -> pd.DataFrame:
    """Fit the decay laws to the envelope of every network.

    Returns:
        For each model and order: how many networks each law fits best by AICc; ΔAICc, that of the
            power less that of the exponential; the
        median R² of both on log f; and of the tempered power ``ℓ^−β e^(−ℓ/τ)`` the exponent β and
        the cut-off τ, if it has one.
    """
    rows = {}
    for model, order in product(results.model.values, results.order.values):
        fits = [
            fit_laws(results.lag.values, results.envelope.sel(model=model, order=order, seed=seed))
            for seed in results.seed
        ]
        tempering = np.array([fit.tempered.law.tempering for fit in fits])
        cut = -1 / np.log(np.where(tempering < 1, tempering, np.nan))
        rows[model, order] = {
            "best law": ", ".join(
                f"{law.replace('_', ' ')} {n}"
                for law, n in Counter(fit.best.law.name for fit in fits).most_common()
            ),
            "ΔAICc": _range([fit.power.aicc - fit.exponential.aicc for fit in fits], ".0f"),
            "R² exp.": f"{np.median([fit.exponential.r_squared for fit in fits]):.2f}",
            "R² power": f"{np.median([fit.power.r_squared for fit in fits]):.2f}",
            "β": _range([fit.tempered.law.decay for fit in fits], ".2f"),
            "cut-off (steps)": _range(cut, ".0f"),
        }
    return pd.DataFrame(rows).T.rename_axis(["model", "order"])


def departure(results: xr.Dataset, lags: Sequence[int]) -> pd.DataFrame:
    """Show how far the expansions are from the exact envelope: f over the exact f, for each model
    and order, at some lags."""
    ratio = results.envelope / results.envelope.sel(order="exact", drop=True)
    rows = {
        (model, order): {
            f"lag {lag}": _range(ratio.sel(model=model, order=order, lag=lag), ".2g")
            for lag in lags
        }
        for model, order in product(results.model.values, results.order.values)
        if order != "exact"
    }
    return pd.DataFrame(rows).T.rename_axis(["f / exact f", "order"])


def head_factor(results: xr.Dataset) -> xr.DataArray:
    """Read the head factor ``e = o (1 − tanh² c)`` of each LSTM neuron off its rates.

    At zeroth order the rate at lag 1 is the mean of e·f, Eq. (13), over sequences and the end
    points measured, and the mean retention is that of f: their ratio is a mean of e there, weighted
    by f.

    Args:
        results: A run with an LSTM and snapshots, the last of them at the end of training.

    Returns:
        e by seed and unit, in (0, 1).
    """
    lstm = results.sel(model="LSTM")
    return lstm.rate.sel(order="zeroth", lag=1, drop=True) / lstm.retention.isel(
        snapshot=-1, drop=True
    )


def head(results: xr.Dataset) -> pd.Series:
    """Summarise the LSTM's head factor: over neurons, and its correlation with log τ at zeroth
    order."""
    e = head_factor(results)
    tau = results.time_scale.sel(model="LSTM", order="zeroth")
    return pd.Series(
        {
            "mean over neurons": _range(e.mean("unit"), ".2f"),
            "10 % quantile of neurons": _range(e.quantile(0.1, "unit"), ".2f"),
            "90 % quantile of neurons": _range(e.quantile(0.9, "unit"), ".2f"),
            "neurons with e below 0.001": _range((e < 1e-3).sum("unit")),
            "correlation of log e with log τ (mean, 95 %)": _interval(
                _correlations(_log(e), _log(tau)), np.arctanh, np.tanh
            ),
        },
        name="head factor e",
    )


def calibration(size: int, trials: int = 1000) -> pd.DataFrame:
    """Measure how often the dip test finds several modes, at a nominal level of 5 %, in samples of
    known laws.

    Args:
        size: Numbers in a sample.
        trials: Samples of each law.

    Returns:
        For each law: how many modes it has, and the share of its samples in which several were
            found, with a 95 % binomial interval.
    """

    def groups(distance: float, share: float) -> Callable[[np.random.Generator], Array]:
        return lambda rng: rng.standard_normal(size) + distance * (rng.random(size) < share)

    laws: list[tuple[str, int, Callable[[np.random.Generator], Array]]] = [
        ("uniform", 1, lambda rng: rng.random(size)),
        ("Gaussian", 1, groups(0, 0)),
        ("Student's t, 2 degrees of freedom", 1, lambda rng: rng.standard_t(2, size)),
        ("two equal groups, 4 deviations apart", 2, groups(4, 0.5)),
        ("two equal groups, 5 deviations apart", 2, groups(5, 0.5)),
        ("a group of one in five, 5 deviations apart", 2, groups(5, 0.2)),
    ]
    rng, rows = np.random.default_rng(7), {}
    for name, true, draw in laws:
        found = rejection_rate(draw, rng, trials=trials)
        _, low, high = binomial(round(found * trials), trials)
        rows[name] = {"modes": true, "several found": f"{found:.2f} ({low:.2f} to {high:.2f})"}
    return pd.DataFrame(rows).T.rename_axis(f"samples of {size}")


def modes(
    results: xr.Dataset, orders: Sequence[str] = ("zeroth", "exact"), level: float = 0.05
) -> pd.DataFrame:
    """Test in each network whether log τ of its neurons has more than one mode, by the dip test.

    Args:
        results: A run.
        orders: Orders of transport.
        level: Level of Holm's procedure over all networks and orders of the table.

    Returns:
        For each model and order: the number of neurons with a τ, and with one below a step; its
            median in steps; its 90 % over its 10 %
        quantile; the p-value of each network; all together by Fisher's method; and how many have
        more than one mode. A dash where all neurons of a network share one τ.
    """
    log_tau = _log(results.time_scale.sel(order=list(orders)))
    p_values = _mode_p_values(log_tau)
    found = _rejected(p_values, level)
    rows = {}
    for model, order in product(results.model.values, orders):
        at = {"model": model, "order": order}
        one, p = log_tau.sel(at), p_values.sel(at).values
        low, middle, high = np.exp(one.quantile([0.1, 0.5, 0.9], "unit"))
        tested = np.isfinite(p).all()
        rows[model, order] = {
            "neurons": _range(one.count("unit")),
            "τ < 1": _range((one < 0).sum("unit")),
            "median τ": _range(middle, ".2g"),
            "τ, 90 : 10 %": _range(high / low, ".2g"),
            "p of each network": " ".join(f"{value:.2f}" for value in p) if tested else "–",
            "together": f"{stats.combine_pvalues(p)[1]:.2f}" if tested else "–",
            "several modes": f"{int(found.sel(at).sum())} of {p.size}" if tested else "–",
        }
    return pd.DataFrame(rows).T.rename_axis(["model", "order"])


def base_rates(results: xr.Dataset, orders: Sequence[str] = ("zeroth", "exact")) -> pd.DataFrame:
    """Show what the optimiser's base rates Λ do to the envelope.

    Args:
        results: A run with an adaptive optimiser.
        orders: Orders of transport.

    Returns:
        For each model and order: the mean Λ and its 90 % over its 10 % quantile over neurons; the
            correlation of log Λ with log τ; and
        f/f_gates at the longest lag over that at lag 1, which is 1 where base rates only rescale.
        The last two: means and 95 % t-intervals over seeds.
    """
    split = split_envelope(results.rate, results.base_rate)
    ratio = split.f / split.f_gates
    reshaped = ratio.isel(lag=-1) / ratio.isel(lag=0)
    rows = {}
    for model, order in product(results.model.values, orders):
        rate = results.base_rate.sel(model=model)
        correlations = _correlations(
            _log(rate), _log(results.time_scale.sel(model=model, order=order))
        )
        rows[model, order] = {
            "mean Λ": _range(rate.mean("unit"), ",.0f"),
            "Λ, 90 : 10 %": _range(rate.quantile(0.9, "unit") / rate.quantile(0.1, "unit"), ".2g"),
            "correlation": _interval(correlations, np.arctanh, np.tanh),
            "reshaping": _interval(reshaped.sel(model=model, order=order), np.log, np.exp),
        }
    return pd.DataFrame(rows).T.rename_axis(["model", "order"])


def expectations(results: xr.Dataset, n_sequences: int) -> pd.DataFrame:
    """Put what the paper expects of GRU and LSTM (our wording) beside the number of networks for
    which it was measured to be so.

    Args:
        results: A run with all five models and all orders.
        n_sequences: N at which windows are read.

    Returns:
        One row a statement: for each order how many networks of GRU, plus how many of LSTM, it
            holds for, and the verdict that follows. The
        breadth of a spectrum is the standard deviation of log τ. Windows at zeroth and first order
        are those of version 2 to the letter; under ``"exact"`` stands the window along the lag's
        own gradient inside the noise of the whole gradient.
    """
    gated, orders = ["GRU", "LSTM"], ["zeroth", "first", "exact"]
    log_tau = _log(results.time_scale)
    width = log_tau.quantile(0.9, "unit") - log_tau.quantile(0.1, "unit")
    breadth = log_tau.std("unit")

    def is_power(envelope: Array) -> bool:
        fit = fit_laws(results.lag.values, envelope)
        return fit.power.aicc < fit.exponential.aicc

    def window(order: str) -> xr.DataArray:
        view, how = ("gradient", OPTIMISER) if order == "exact" else (order, LETTER)
        return windows(probes(results, view, "error"), n_sequences, **how).median("probe")

    reach = xr.concat(
        [window(order) for order in orders],
        pd.Index(orders, name="order"),
        coords="minimal",
        compat="override",
    )
    statements = {
        "a broad spectrum: τ, 90 : 10 %, above 2": width > np.log(2),
        "a broader spectrum than DiagGate's": breadth > breadth.sel(model="DiagGate", drop=True),
        "a spectrum with several modes": _rejected(_mode_p_values(log_tau.sel(model=gated)), 0.05),
        "f nearer to a power than to an exponential": _per_curve(
            is_power, results.envelope.sel(model=gated), "lag"
        ),
        "a longer window than both scalar gates": reach
        > reach.sel(model=["ConstGate", "SharedGate"]).max("model"),
        "a longer window than DiagGate": reach > reach.sel(model="DiagGate", drop=True),
    }
    rows = {}
    for statement, holds in statements.items():
        found = {
            order: holds.sel(model=gated, order=order).transpose("model", "seed").values
            for order in orders
        }
        cells = {
            order: f"{' + '.join(map(str, one.sum(-1)))} of {one.size}"
            for order, one in found.items()
        }
        rows[statement] = cells | {
            "verdict": verdict({order: bool(one.all()) for order, one in found.items()})
        }
    return pd.DataFrame(rows).T.rename_axis("GRU, LSTM")


def _log(values: xr.DataArray) -> xr.DataArray:
    """Take the logarithm of a number a neuron; NaN where a neuron has none, or zero."""
    return xr.apply_ufunc(np.log, values.where(np.isfinite(values) & (values > 0)))


def _per_curve(function: Callable[[Array], float], values: xr.DataArray, dim: str) -> xr.DataArray:
    """Apply a function to the numbers along one dimension, for each entry of the others."""
    return xr.apply_ufunc(function, values, input_core_dims=[[dim]], vectorize=True)


def _mode_p_values(log_tau: xr.DataArray) -> xr.DataArray:
    """Test every network's log τ for more than one mode; NaN where all neurons share one τ."""

    def p_value(values: Array) -> float:
        kept = values[np.isfinite(values)]
        return mode_test(kept).p_value if kept.size > 3 and kept.std() > _ALIKE else np.nan

    return _per_curve(p_value, log_tau, "unit")


def _rejected(p: xr.DataArray, level: float) -> xr.DataArray:
    """Say which hypotheses Holm's procedure rejects among all of them; NaN is none."""
    tested = np.isfinite(p.values)
    found = xr.zeros_like(p, dtype=bool)
    found.values[tested] = holm(p.values[tested], level)
    return found


def _correlations(left: xr.DataArray, right: xr.DataArray) -> Array:
    """Correlate over neurons, a number a seed; NaN where one side does not vary."""
    return xr.corr(left, right, "unit").where(right.std("unit") > _ALIKE).values


def _range(values: ArrayLike, form: str = ".0f") -> str:
    """Write the least and the largest of some numbers, once where they read the same; NaN counts as
    beyond all numbers."""
    ordered = np.sort(np.where(np.isnan(values), np.inf, values), axis=None)
    low, high = (
        format(value, form) if np.isfinite(value) else "none" for value in (ordered[0], ordered[-1])
    )
    return low if low == high else f"{low} to {high}"


def _interval(
    values: ArrayLike, forward: Callable[[Array], Array], back: Callable[[Array], Array]
) -> str:
    """Write the mean over seeds with its 95 % t-interval, both computed on a transformed scale; a
    dash where a seed has no value."""
    moved = forward(np.asarray(values, dtype=np.float64))
    if not np.isfinite(moved).all():
        return "–"
    return Interval(*map(back, student(moved))).words()[0]
