"""Claims of Section 6.2 on windows, and what a window must not hang on. Networks are those of the
recorded runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from book.chapters import controls
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, exactly, over
from book.claims.recorded import (
    BUDGET,
    EXPANSIONS,
    SCALAR,
    fits,
    lead,
    log,
    numbers,
    remaining,
    slope,
    windows,
)
from lwcore.detection import rate_exponent
from lwcore.inference import LETTER, OPTIMISER, probes, required, window_of
from lwcore.inference import windows as of_probes

_DELAYS = (8, 16, 32, 64)  # of the task of the run small, the first four


@measures("scalar-windows-empty")
def _(runs: Runs) -> tuple[Measured, Measured]:
    found = {
        order: windows(runs["paper-v2"], order, **LETTER).sel(model=SCALAR, budget=slice(8, 8192))
        for order in EXPANSIONS
    }
    return over(np.concatenate([one.values.ravel() for one in found.values()])), over(
        numbers(found["first"])
    )


@measures("fast-decay-hides-moderate-lags")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    found = over(
        numbers(
            windows(runs["paper-v2"], "zeroth", rate="paper_v2").sel(model=SCALAR, budget=BUDGET)
        )
    )
    left = remaining(runs["paper-v2"], 128).sel(model="ConstGate", order="zeroth").max()
    return found, found, {"left": float(left)}


@measures("scalar-horizons-logarithmic")
def _(runs: Runs) -> tuple[Measured, Measured]:
    run = runs["paper-v2"].sel(model=SCALAR)
    chosen = probes(run, "zeroth", "error")
    tau = np.array(
        [-1 / np.log(fit.exponential.law.decay) for fit in fits(run, SCALAR, ["zeroth"])]
    ).reshape(len(SCALAR), -1)
    found = []
    for twice in (False, True):
        needed = required(chosen, rule="plug-in", rate="paper_v2", twice=twice)
        steps = slope(log(needed), xr.zeros_like(needed) + run.lag) / chosen.alpha.sel(noise="own")
        found.append(over(numbers(steps.median("probe").transpose("model", "seed") * tau)))
    return found[0], found[1]


@measures("diagonal-gate-sees-furthest")
def _(runs: Runs) -> tuple[Measured | Facts, ...]:
    def ahead(order: str, **how: Any) -> list[float]:
        return numbers(
            *(
                lead(windows(runs[name], order, **how).sel(budget=BUDGET))
                for name in ("small", "paper-v2")
            )
        )

    once, letter = ({order: ahead(order, **how) for order in EXPANSIONS} for how in ({}, LETTER))
    one = windows(runs["small"], "zeroth").sel(budget=BUDGET, seed=1001)
    return (
        *(over(one["zeroth"] + one["first"]) for one in (once, letter)),
        over(once["first"]),
        over(once["zeroth"]),
        {"own": float(one.sel(model="DiagGate")), "other": float(one.sel(model="ConstGate"))},
    )


@measures("diagonal-gate-sees-furthest-in-the-gradient")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    found = [
        windows(runs[name], "gradient", **OPTIMISER).sel(budget=BUDGET)
        for name in ("small", "paper-v2")
    ]
    ahead, one = [numbers(lead(window)) for window in found], found[0].sel(seed=212)
    names = {"diagonal": "DiagGate", "constant": "ConstGate", "shared": "SharedGate"}
    return (
        over(ahead[0] + ahead[1]),
        over(ahead[1]),
        {name: float(one.sel(model=model)) for name, model in names.items()},
    )


@measures("fourth-delay-is-visible")
def _(runs: Runs) -> tuple[Measured, ...]:
    needed = xr.apply_ufunc(
        np.ceil, required(probes(runs["small"], "gradient", "error"), **OPTIMISER).squeeze("probe")
    )
    delays = list(_DELAYS)
    hidden = needed.sel(lag=slice(None, delays[-1])) > 128
    between, others = hidden.sel(lag=45), hidden.drop_sel(lag=45).any("lag")
    return (
        exactly(float(needed.sel(lag=delays[-1]).max())),
        exactly(int((~hidden.any("lag")).sum())),
        exactly(float(needed.sel(lag=delays).max())),
        exactly(int((~hidden.sel(lag=delays).any("lag")).sum())),
        exactly(int(between.sum())),
        exactly(int((between & ~others).sum())),
        exactly(int((~others).sum())),
    )


@measures("window-opens-at-some-hundred-sequences")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    found = [
        windows(runs["paper-v2"], order, **LETTER).sel(model="DiagGate") for order in EXPANSIONS
    ]
    opens = over(numbers(*(window.budget.where(window > 0).min("budget") for window in found)))
    first = numbers(*(window.sel(budget=8) for window in found))
    return opens, opens, {"least": min(first), "most": max(first)}


@measures("window-as-a-power-of-n")
def _(runs: Runs) -> Measured:
    run, found = runs["paper-v2"], []
    for order in EXPANSIONS:
        alphas = (
            probes(run, order, "error").alpha.sel(noise="own", model="DiagGate").median("probe")
        )
        for seed, fit in zip(run.seed.values, fits(run, ["DiagGate"], [order]), strict=True):
            window = windows(run, order, **LETTER).sel(model="DiagGate", seed=seed)
            height = window.values
            grows = slice(int((height > 0).argmax()), int(height.argmax()) + 1)
            steepness = np.polyfit(np.log(window.budget.values[grows]), np.log(height[grows]), 1)[0]
            found.append(
                steepness
                * rate_exponent(float(alphas.sel(seed=seed)), "paper_v2")
                * fit.power.law.decay
            )
    return over(found)


@measures("first-order-windows")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    ratio, facts = {}, {}
    for name in ("paper-v2", "small"):
        exact, first = (windows(runs[name], view).sel(budget=BUDGET) for view in ("whole", "first"))
        ratio[name] = exact / first
        facts = {
            order: float(one.sel(model="ConstGate").median())
            for order, one in (("exact", exact), ("first", first))
        }
    alike = sum(int(((one >= 0.5) & (one <= 2)).sum()) for one in ratio.values())
    return exactly(alike), over(numbers(ratio["small"].sel(model=SCALAR))), facts


@measures("windows-know-no-units")
def _(runs: Runs) -> Measured:
    table = controls.invariances(runs["small"], np.random.default_rng(8), ["DiagGate"])
    return exactly(table.loc[["statistic × 1,000,000", "statistic ÷ 1,000,000"], "changed"].sum())


@measures("all-lags-up-to-the-window")
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    chosen = probes(runs["paper-v2"], "zeroth", "error")
    differ = [
        (of_probes(chosen, **how) != of_probes(chosen, definition="first_passage", **how)).sum()
        for how in ({}, LETTER)
    ]
    needed = required(chosen).sel(model="SharedGate").stack(case=("seed", "probe"))
    longest, passage = (
        window_of(needed, BUDGET, definition) for definition in ("supremum", "first_passage")
    )
    worst = int((longest - passage).argmax("case"))
    one = needed.isel(case=worst)
    facts = {
        "seed": int(one.seed),
        "window": float(longest[worst]),
        "lag": float(one.lag.where(one > BUDGET).min()),
    }
    return exactly(int(differ[0])), exactly(int(differ[1])), facts
