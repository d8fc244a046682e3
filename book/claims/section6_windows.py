"""Claims of Section 6.2 on windows, and what a window must not hang on. Networks are those of the
recorded runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from book.chapters import controls
from book.claims.claim import (
    Chapter,
    Facts,
    Kind,
    Measured,
    as_stated,
    at_least,
    at_most,
    estimate,
    exactly,
    in_part,
    over,
    rather,
    share,
    when,
    within,
)
from book.claims.record import Runs
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
from lwcore.inference import LETTER, OPTIMISER, false_detections, probes, required, window_of
from lwcore.inference import windows as of_probes
from lwcore.stats import student

chapter = Chapter("livi", Kind.NETWORK)

_DELAYS = (8, 16, 32, 64)  # of the task of the run small, the first four


@chapter.claim(
    "scalar-windows-empty",
    "§6.2, Fig. 2",
    "The windows of ConstGate and SharedGate are essentially zero for every number of sequences.",
    as_stated(
        "window (steps) by version 2's letter, both cells in the run paper-v2, 8 to 8192 "
        "sequences, zeroth and first order (least to "
        "largest); shorter than the task's shortest delay",
        at_most(7),
    ),
    in_part("to first order", "the same, first order", at_most(7)),
    code=("lwcore.inference.windows", "lwcore.window.learnability_window"),
    reported=True,
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    found = {
        order: windows(runs["paper-v2"], order, **LETTER).sel(model=SCALAR, budget=slice(8, 8192))
        for order in EXPANSIONS
    }
    return over(np.concatenate([one.values.ravel() for one in found.values()])), over(
        numbers(found["first"])
    )


@chapter.claim(
    "fast-decay-hides-moderate-lags",
    "§6.2, by Eqs. (34) and (36)",
    "In ConstGate and SharedGate the fast decay of the envelope, in heavy-tailed noise, leaves "
    "moderate lags undetectable by the theory's"
    " criterion.",
    as_stated(
        "window (steps) by Eqs. (34) and (36), f counted once, both cells in the run paper-v2, "
        f"zeroth order, N = {BUDGET} (range)",
        at_most(32),
    ),
    rather(
        "the noise of a lag's statistic falls with the envelope as fast as its mean, and nearly "
        "every lag is detectable",
        "the same",
        at_least(64),
    ),
    code=("lwcore.inference.windows", "lwcore.window.learnability_window"),
    counterexample=(
        "ConstGate with gate one half: at lag 128 its envelope is {left:.0e} of "
        "that at lag 1, and 512 sequences detect it."
    ),
    fair=(
        "Moderate lags are undetectable if each is held against a noise that does not fall "
        "with its envelope."
    ),
)
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    found = over(
        numbers(
            windows(runs["paper-v2"], "zeroth", rate="paper_v2").sel(model=SCALAR, budget=BUDGET)
        )
    )
    left = remaining(runs["paper-v2"], 128).sel(model="ConstGate", order="zeroth").max()
    return found, found, {"left": float(left)}


@chapter.claim(
    "scalar-horizons-logarithmic",
    "§6.2",
    "In ConstGate and SharedGate N(ℓ) grows exponentially with the lag, at the rate of their time "
    "constant.",
    as_stated(
        "slope of log N(ℓ) on ℓ over α/τ, N(ℓ) by Eq. (37), both cells in the run paper-v2, "
        "zeroth order (least to largest)",
        within(0.9, 1.1),
    ),
    when(
        "if N(ℓ) is computed as in version 2's §6.1, where f stands twice; what is left of f is "
        "then this law, whatever the networks do",
        "the same by version 2's letter (least to largest)",
        within(0.9, 1.1),
    ),
    code=("lwcore.inference.windows", "lwcore.window.fit_decay"),
    fair=(
        "By Eq. (37) itself N(ℓ) does not grow with the lag in these cells, for its noise "
        "falls with the envelope."
    ),
    counterexample=(
        "ConstGate and SharedGate in the run paper-v2: by Eq. (37) the slope is at "
        "most {0.high:.2g} of that."
    ),
    reported=True,
    seen=(
        "It held as stated while the letter of §6.1 stood for N(ℓ); another row finds that "
        "letter wrong."
    ),
)
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


@chapter.claim(
    "diagonal-gate-sees-furthest",
    "§6.2, Fig. 2",
    "DiagGate has a longer window than ConstGate and SharedGate.",
    as_stated(
        f"steps by which it is longer at N = {BUDGET}, f counted once as in Eq. (37), seeds of "
        "the runs small and paper-v2, zeroth and"
        " first order (least to largest)",
        at_least(1),
    ),
    when(
        "if N(ℓ) is computed as in version 2's §6.1, where f stands twice",
        "the same by version 2's letter",
        at_least(1),
    ),
    in_part(
        "to first order, where the mean of the statistic turns negative in the other two",
        "f once, first order only",
        at_least(1),
    ),
    rather(
        "as far as gates go it is not longer in any network",
        "f once, zeroth order only",
        at_most(0),
    ),
    code="lwcore.inference.windows",
    reported=True,
    counterexample=(
        "Run small, seed 1001, 512 sequences, zeroth order: ConstGate's window is "
        "{other:.0f} steps, DiagGate's {own:.0f}."
    ),
    fair="With f counted once no cell has the longer window as far as gates go; to first order DiagGate has, for its rates keep their"
    " sign.",
    seen=(
        "The letter of §6.1 stood as the literal reading, and f counted once in a row of its "
        "own; another row finds that letter wrong."
    ),
)
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


@chapter.claim(
    "diagonal-gate-sees-furthest-in-the-gradient",
    "§6.2, asked of the gradient itself",
    "Gradient information remains recoverable over longer lags in DiagGate than in ConstGate and "
    "SharedGate.",
    as_stated(
        "steps by which its window is longer, along each lag's mean gradient in the noise of the "
        f"whole gradient, N = {BUDGET}, seeds of"
        " the runs small and paper-v2 (least to largest)",
        at_least(1),
    ),
    in_part(
        "for version 2's own training (run paper-v2, three seeds), where DiagGate has also "
        "learned most",
        "the same, run paper-v2",
        at_least(1),
    ),
    code=("lwcore.measure.measure", "lwcore.inference.windows"),
    counterexample="Run small, seed 212, 512 sequences: {diagonal:.0f} steps in DiagGate, {constant:.0f} in ConstGate and {shared:.0f} in"
    " SharedGate.",
    fair="Which cell's gradient can be seen furthest back hangs on the training.",
    paper="ours",
)
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


@chapter.claim(
    "fourth-delay-is-visible",
    "§6.2, asked of the gradient itself",
    "In every network of the run small the fourth delay is visible to a hundred sequences, along "
    "the delay's own mean gradient.",
    as_stated(
        "largest number of sequences that lag 64 takes in the noise of the whole gradient, of 25 "
        "networks; the direction comes from 1,024"
        " others",
        at_most(100),
    ),
    rather(
        "not all shorter lags are visible in every network",
        "networks, of 25, in which 128 sequences show every lag measured up to that delay",
        at_most(24),
    ),
    rather(
        "not all shorter delays of the task are visible to so few",
        "largest number of sequences that one of the first four delays takes, of 25 networks",
        at_least(128),
    ),
    rather(
        "in most networks they are",
        "networks, of 25, in which 128 sequences show the four shortest delays of the task",
        within(13, 24),
    ),
    rather(
        "what is missing is mostly lag 45, at which nothing was planted",
        "networks, of 25, in which 128 sequences do not show lag 45",
        at_least(13),
    ),
    rather(
        "in some it is all that is missing",
        "networks, of 25, in which lag 45 alone is not shown",
        at_least(1),
    ),
    rather(
        "the others seldom are",
        "networks, of 25, in which 128 sequences show each of the lags but for lag 45",
        at_least(13),
    ),
    code=("lwcore.measure.measure", "lwcore.inference.windows"),
    paper="ours",
    seen="It took the place of a sentence on all lags up to that delay, which the run contradicts. What holds instead was split into"
    " planted lags and others after the numbers had been seen.",
)
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


@chapter.claim(
    "window-opens-at-some-hundred-sequences",
    "§6.2, Fig. 2",
    "DiagGate's window is zero for few sequences and opens at some hundreds.",
    as_stated(
        "least N, of 8 and its doubles, with a window, by version 2's letter; DiagGate in the run "
        "paper-v2, both orders",
        within(64, 1024),
    ),
    rather("a short window is open from the fewest sequences on", "the same", at_most(8)),
    code="lwcore.inference.windows",
    counterexample=(
        "DiagGate in the run paper-v2: 8 sequences have a window of {least:.0f} to "
        "{most:.0f} steps."
    ),
    fair="Where a window opens hangs on the noise, on the shortest lag looked at and on the constant in N(ℓ), which the theory leaves"
    " open.",
    reported=True,
)
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    found = [
        windows(runs["paper-v2"], order, **LETTER).sel(model="DiagGate") for order in EXPANSIONS
    ]
    opens = over(numbers(*(window.budget.where(window > 0).min("budget") for window in found)))
    first = numbers(*(window.sel(budget=8) for window in found))
    return opens, opens, {"least": min(first), "most": max(first)}


@chapter.claim(
    "window-as-a-power-of-n",
    "§6.2, Fig. 3",
    "DiagGate's window grows as the power 1/(αβ) of N, β from the power law fitted to its "
    "envelope.",
    as_stated(
        "slope of log H_N on log N times αβ, version 2's letter, from the first window to the "
        "longest; DiagGate in the run paper-v2, zeroth"
        " order, where it is the larger, and first (least to largest)",
        within(0.8, 1.25),
    ),
    code="lwcore.inference.windows",
    fair=(
        "DiagGate's window grows with N; from so few lags a power cannot be told from a logarithm."
    ),
    reported=True,
    seen=(
        "A first form of what holds instead (a logarithm) had failed; later both orders were "
        "taken together, as in other rows."
    ),
)
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


@chapter.claim(
    "first-order-windows",
    "§5.4, after Definition 5.1, with the closed forms of §6.1",
    "The window computed from the closed forms is the longest lag at which the gradient that is "
    "carried back can be recovered.",
    as_stated(
        "networks of the runs small and paper-v2, of 34, whose first-order window is within a "
        "factor of 2 of that of the lag's exact part "
        f"along the same directions, f counted once, N = {BUDGET}",
        at_least(34),
    ),
    rather(
        "in ConstGate and SharedGate the gradient itself shows lags several times longer",
        "window of the exact part over the first-order one, ConstGate and SharedGate in the run "
        "small (least to largest)",
        at_least(3),
    ),
    code="lwcore.measure.measure",
    counterexample="ConstGate in the run small: {first:.2g} steps by the closed form, {exact:.0f} for the lag's part of the gradient itself"
    " (medians over seeds).",
    fair=(
        "The closed forms give the window as far as gates and the first-order diagonal "
        "carry; the gradient itself is carried further."
    ),
)
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


@chapter.claim(
    "nothing-to-see-no-window",
    "§5.2, of the empirical window of §6.1",
    "Where the error carries nothing about the past, the empirical window is empty.",
    as_stated(
        "share of networks and random directions of the runs small and paper-v2 with a window "
        "although noise replaces the error,"
        " version 2's letter, zeroth order, N as many as were measured",
        at_most(0.05),
    ),
    when(
        "if ε is divided by the number of lags and directions looked at",
        "share of networks with a window along either direction, the same but for ε = 0.05 over "
        "lags times directions",
        at_most(0.05),
    ),
    when(
        "if, besides, f is counted once and N(ℓ) is that of noise with a variance",
        "share of 200 draws with a window if every sequence's sign is random, ε as before; mean "
        "over the 34 networks of both runs with its"
        " 95 % interval",
        at_most(0.05),
    ),
    rather(
        "it is if lags count only where a test at 5 % declares their mean above zero",
        "share of 200 draws, signs drawn at random, in which the test declares a lag, zeroth "
        "order; mean over the same 34 networks with its"
        " 95 % interval",
        at_most(0.05),
    ),
    rather(
        "with f once, noise in the place of the error gives a window in few networks",
        "share of networks with a window, that noise instead of the error, f once, ε = 0.05 over "
        "lags times directions",
        at_most(0.2),
    ),
    code=(
        "lwcore.inference.false_detections",
        "book.chapters.controls.believed",
        "book.chapters.controls.believed_by_chance",
    ),
    fixed="With f once, ε divided by the number of lags and directions bounds the share of false windows by Bonferroni's inequality,"
    " wherever the sign of a mean is as likely to be wrong as ε says.",
    counterexample=(
        "Nearly every network of the run small: independent noise in the place of "
        "the error, and some mean is large by chance."
    ),
    fair="The paper fixes no ε and promises no rate of false windows. With f counted once and ε divided by the number of lags and"
    " directions, false windows are rare; by version 2's letter, where f stands twice, ε hardly "
    "matters: {once:.0%} and {letter:.0%} of"
    " networks and directions at ε = 0.01.",
    seen="Changed in the author's favour and then to his own recipe, after a first number had been seen; the conditions came later still."
    " The test had been measured in another view of one run, at a hundredth of that level; and "
    "draws, in the place of networks, had been"
    " the units of the interval.",
)
def _(runs: Runs) -> tuple[Measured | Facts, ...]:
    counts = (("small", 1024), ("paper-v2", 512))
    found = [
        of_probes(probes(runs[name], "zeroth", "noise"), n, rule="plug-in", **LETTER) > 0
        for name, n in counts
    ]
    divided, draws, rng = (
        0.05 / (runs["small"].sizes["lag"] * found[0].sizes["probe"]),
        200,
        np.random.default_rng(12),
    )
    ways = {"letter": LETTER, "once": {"rate": "variance"}}
    few, some = (
        {
            way: [controls.believed(runs[name], n, error, **how) for name, n in counts]
            for way, how in ways.items()
        }
        for error in (divided, 0.01)
    )
    networks, once = ([one.any("probe") for one in few[way]] for way in ways)
    chance = [
        controls.believed_by_chance(runs[name], divided, rng, draws)
        for name in ("small", "paper-v2")
    ]
    tested = []
    for name in ("small", "paper-v2"):
        statistic = (
            probes(runs[name], "zeroth")
            .statistic.transpose("model", "seed", "probe", "lag", "sequence")
            .values.astype(float)
        )
        tested += [
            false_detections(one, 0.05, rng, draws) / draws
            for one in statistic.reshape(-1, *statistic.shape[2:])
        ]
    facts = {
        way: float(np.concatenate([one.values.ravel() for one in of_way]).mean())
        for way, of_way in some.items()
    }
    return (
        share(sum(int(one.sum()) for one in found), sum(one.size for one in found)),
        share(sum(int(one.sum()) for one in networks), sum(one.size for one in networks)),
        _mean([count / draws for count in numbers(*chance)]),
        _mean(tested),
        share(sum(int(one.sum()) for one in once), sum(one.size for one in once)),
        facts,
    )


def _mean(values: list[float]) -> Measured:
    """Give networks' mean with its interval by Student's t: a network is one sample."""
    value, *ends = student(values)
    return estimate(value, ends)


@chapter.claim(
    "windows-know-no-units",
    "Eqs. (34) to (36)",
    "A window does not depend on the unit in which the gradient is measured.",
    as_stated(
        "windows that change, DiagGate in the run small, when the statistic is a million times as "
        "large or as small",
        at_most(0),
    ),
    code="book.chapters.controls.invariances",
    kind=Kind.IDENTITY,
)
def _(runs: Runs) -> Measured:
    table = controls.invariances(runs["small"], np.random.default_rng(8), ["DiagGate"])
    return exactly(table.loc[["statistic × 1,000,000", "statistic ÷ 1,000,000"], "changed"].sum())


@chapter.claim(
    "all-lags-up-to-the-window",
    "Eq. (36) and the abstracts",
    "Up to the window every lag is detectable.",
    as_stated(
        "windows that end later than the first lag not detected, of those of all networks, "
        "directions and N in the run paper-v2, f"
        " counted once, zeroth order",
        at_most(0),
    ),
    when(
        "if N(ℓ) rises with the lag throughout, as with f counted twice",
        "the same by version 2's letter",
        at_most(0),
    ),
    code="lwcore.window.learnability_window",
    counterexample="SharedGate in the run paper-v2, seed {seed:.0f}, 512 sequences: the window is {window:.0f} steps, and lag {lag:.0f} is"
    " not detected.",
    fair=(
        "The window is the longest detectable lag. It is a horizon, up to which all lags are "
        "detectable, where N(ℓ) rises with the lag."
    ),
)
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
