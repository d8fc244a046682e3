"""Tables of the chapter on robust averaging: estimators compared, and what Section 5.5 (iv) says
beside what was measured.

Numbers are medians over all networks, models and seeds alike, with the least and the largest in
brackets, unless a docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from book.chapters.clipping import information
from lwcore.stats import span, summary

_NETWORK = ("model", "seed")
_FOUND = ("probe", "lag")


def exponents(studies: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Show the exponent p of every estimator, beside that of stable noise.

    Args:
        studies: As `robust.studies` gives them.

    Returns:
        For each case: fitted α, the exponent it implies for a mean, the one measured on as many
            stable numbers, and the measured ones.
    """
    rows = {}
    for case, study in studies.items():
        columns = {
            "α fitted": study.alpha,
            "p implied": study.implied,
            "p, mean of stable numbers": study.control.sel(estimator="mean"),
        }
        columns |= {
            f"p, {name}": study.exponent.sel(estimator=name) for name in study.estimator.values
        }
        rows[case] = {name: span(values) for name, values in columns.items()}
    return pd.DataFrame(rows).rename_axis("case", axis="columns")


def by_model(study: xr.Dataset) -> pd.DataFrame:
    """Show for each model what the fitted α, the exponents and the largest number say of the tails;
    medians over seeds."""
    quantities = {
        "α fitted": study.alpha,
        "p implied": study.implied,
        "p, mean of stable numbers": study.control.sel(estimator="mean"),
        "p, mean": study.exponent.sel(estimator="mean"),
        "p, clipped mean": study.exponent.sel(estimator="clipped mean"),
        "largest of stable numbers": study.largest_control,
        "largest number": study.largest,
    }
    return summary(quantities, ("model",)).T.rename_axis(columns=None)


def gains(studies: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Show by which factor each estimator needs fewer sequences than the mean; median over a
    network's probes and lags."""
    others = {
        case: study.gain.isel(estimator=slice(1, None)).median(_FOUND)
        for case, study in studies.items()
    }
    table = summary(others, ("estimator",)).T
    return table.rename_axis("N of the mean over N of the").rename_axis(columns=None)


def biases(studies: Mapping[str, xr.Dataset]) -> pd.DataFrame:
    """Show how far the estimators' locations lie from the mean, and what that costs.

    Args:
        studies: As `robust.studies` gives them.

    Returns:
        For clipped mean and median (that of means tends to the mean): the size of the bias over
        probes and lags, in standard deviations of one number; the share of biases more than two of
        their standard errors from 0 (about a twentieth if there were none), mean over networks ±
        its standard error; and the judged lags whose sign is never told, with the number judged.
    """
    rows = []
    for case, study in studies.items():
        for name in ("clipped mean", "median"):
            one = study.sel(estimator=name)
            judged = one.required.notnull()
            seen = 100 * (abs(one.bias) > 2 * one.bias_error).mean(_FOUND)
            off = float(seen.std(ddof=1)) / seen.size**0.5
            never = int(np.isinf(one.required).sum())
            rows.append(
                {
                    "case": case,
                    "estimator": name,
                    "|bias|": span(abs(one.bias).median(_FOUND)),
                    "% of biases beyond 2 errors": f"{float(seen.mean()):.0f} ± {off:.0f}",
                    "lags never told": f"{never} of {int(judged.sum())}",
                }
            )
    return pd.DataFrame(rows).set_index(["case", "estimator"])


def clipping(
    alpha: float, stable: xr.Dataset, measured: Mapping[str, xr.Dataset], share: float
) -> pd.DataFrame:
    """Put the senses in which clipping could "increase α" side by side: before → after.

    Args:
        alpha: Tail index of the simulated noise.
        stable: `clipping.effects` on it.
        measured: `clipping.effects_on_run` by case.
        share: Share of the numbers left as they are, one of those measured.

    Returns:
        For each sense: on stable noise; for each case, medians over networks, and in how many of
            them the quantity rises. Information is
        computed from the law, and not known for measured numbers.
    """
    senses = {
        "exponent p of the mean": lambda data: data.exponent,
        "α read by McCulloch's quantiles": lambda data: data.alpha.sel(fit="mcculloch"),
        "α read by the characteristic function": lambda data: data.alpha.sel(fit="ecf"),
        "signal": lambda data: data.kept,
        "1 / sequences needed": lambda data: data.gain,
    }
    columns: dict[str, dict[str, str]] = {case: {} for case in (f"stable, α = {alpha}", *measured)}
    exact = information(alpha, [1.0, share])
    for sense, of in senses.items():
        first, *others = columns.values()
        first[sense] = _arrow(of(stable).sel(share=1.0), of(stable).sel(share=share))
        for column, data in zip(others, measured.values(), strict=True):
            before, after = (
                of(data).sel(share=s).stack(network=_NETWORK).dropna("network")
                for s in (1.0, share)
            )
            column[sense] = (
                f"{_arrow(before.median(), after.median())}; rises in "
                f"{int((after > before).sum())} of {before.size}"
            )
        if sense.startswith("α read by the"):
            for name in exact.columns:
                first[f"information {name} (1/σ²)"] = _arrow(*exact[name])
                for column in others:
                    column[f"information {name} (1/σ²)"] = "–"
    return pd.DataFrame(columns).rename_axis(f"clipped to the {share:.0%} quantile of |x|")


def _arrow(before: float, after: float) -> str:
    """Write what was and what is."""
    return f"{float(before):.2f} → {float(after):.2f}"
