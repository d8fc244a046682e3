"""Tables of the companion's chapters: constants beside the largest derivatives, classes and
kernels, every bound over what it bounds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from book.chapters import elman_bridge as bridge
from book.chapters.elman_extremes import QUANTITIES, largest
from book.chapters.elman_looseness import LETTERS, Comparison, compare, compare_descent, needed
from book.chapters.elman_measured import Scaling, Study, exit_time, study
from book.chapters.elman_spaces import class_kernel, least_norm, transport_norm
from lwcore.elman.bounds import Problem, local_constants, theorem_1, theorem_2
from lwcore.elman.descent import Descent
from lwcore.elman.kernel import limiting_kernel

Setting = tuple[int, int, int]  # m, T, τ


def slopes(scalings: Mapping[str, Scaling], rng: np.random.Generator) -> pd.DataFrame:
    """Return the slope of each scaling with its 95 % interval by resampling starts, and the mean at
    the largest size."""
    rows = {name: [*scaling.slope(rng), scaling.mean[-1]] for name, scaling in scalings.items()}
    table = pd.DataFrame(rows, index=["slope", "from", "to", "mean at the largest size"]).T
    return table.assign(
        **{column: table[column].map("{:+.2f}".format) for column in ("slope", "from", "to")}
    ).assign(**{"mean at the largest size": table["mean at the largest size"].map("{:.2g}".format)})


def constants(
    activations: Sequence[str], cases: Sequence[tuple[float, int]], seed: int = 0
) -> pd.DataFrame:
    """Hold the constants of C&E Lemma 1 and C&E Lemma 2 against the largest derivatives that a
    search finds.

    A row for each activation and case (α_m, T); for each constant the largest found, and both
    bounds over it.
    """
    rows = {}
    for name in activations:
        for alpha_m, length in cases:
            bounds = [
                local_constants(name, alpha_m, length, 1, as_printed=printed)
                for printed in (True, False)
            ]
            row = []
            for quantity in QUANTITIES:
                value = largest(quantity, name, alpha_m, length, seed=seed).value
                row += [
                    value,
                    *(math.exp(getattr(bound, f"log_{quantity}")) / value for bound in bounds),
                ]
            rows[name, alpha_m, length] = row
    index = pd.MultiIndex.from_tuples(rows, names=["σ", "α_m", "T"])
    columns = pd.MultiIndex.from_product(
        [LETTERS.values(), ["largest found", "printed / found", "repaired / found"]]
    )
    return pd.DataFrame(list(rows.values()), index=index, columns=columns)


def dimensions(activation: str, alpha_m: float, length: int, highest: int) -> pd.DataFrame:
    """Return the largest second derivative found for inputs of 1, 2 … dimensions, with both
    smoothness constants.

    A sequence of fewer dimensions is one of more, so what was found there counts further on.
    """
    found, rows = 0.0, {}
    for d in range(1, highest + 1):
        found = max(found, largest("smoothness", activation, alpha_m, length, d).value)
        bounds = [
            local_constants(activation, alpha_m, length, d, as_printed=printed).log_smoothness
            for printed in (True, False)
        ]
        rows[d] = [found, *map(math.exp, bounds)]
    return pd.DataFrame(rows, index=["largest found", "printed β", "repaired β"]).T.rename_axis("d")


def classes(case: Study) -> pd.DataFrame:
    """Compare, step by step, the class C&E Eq. (8) and its norm with the kernel's space. Tests C&E
    Section 3.2.

    Returns:
        For t = 1 … T: the trace of the class's kernel over that of κ_t; the norm that C&E Section
        3.2 gives the target; and the least norms that functions with the target's values at the
        inputs have in the kernel's space and in the class.
    """
    problem = case.problem
    options: Any = {"alpha": problem.alpha, "activation": problem.activation}
    kernel, smaller = (
        limiting_kernel(case.inputs, **options).value,
        class_kernel(case.inputs, **options).value,
    )  # type: ignore[arg-type]
    norm = float(transport_norm(case.maps, problem.dimension, alpha=problem.alpha).value)
    rows = {
        t + 1: [
            np.trace(smaller[..., t]) / np.trace(kernel[..., t]),
            norm,
            least_norm(kernel[..., t], case.targets[:, t]),
            least_norm(smaller[..., t], case.targets[:, t]),
        ]
        for t in range(problem.length)
    }
    columns = [
        "kernel of the class / κ",
        "norm by Section 3.2",
        "least norm, κ",
        "least norm, class",
    ]
    return pd.DataFrame(rows, index=columns).T.rename_axis("t")


def needs(problems: Mapping[str, tuple[Problem, float]]) -> pd.DataFrame:
    """Return the width and the steps at which C&E Theorem 1 first promises a given risk, as powers
    of ten."""
    rows = {
        name: [
            value / math.log(10)
            for printed in (True, False)
            for value in needed(problem, risk, as_printed=printed)
        ]
        for name, (problem, risk) in problems.items()
    }
    columns = ["log₁₀ m, printed", "log₁₀ τ, printed", "log₁₀ m, repaired", "log₁₀ τ, repaired"]
    return pd.DataFrame(rows, index=columns).T


def orders(problem: Problem, errors: Sequence[float]) -> pd.DataFrame:
    """Return the powers of 1/ε and of T in what C&E Theorem 1 and C&E Theorem 2 ask for.

    Slopes of the logarithms: in 1/ε between the given errors; in T between T and 2T, at the first
    error for each unit of time.

    Returns:
        A row for projected descent and one for free descent.
    """
    longer = dataclasses.replace(problem, length=2 * problem.length)
    rows = {}
    for name, plan in (
        ("projected, Theorem 1", lambda case, error: needed(case, error)),
        (
            "free, Theorem 2",
            lambda case, error: (
                theorem_2(case, error).log_width,
                theorem_2(case, error).log_steps,
            ),
        ),
    ):
        few, many = (np.array(plan(problem, error)) for error in (errors[0], errors[-1]))
        in_time = np.array(plan(longer, errors[-1])) - many
        rows[name] = [*(many - few) / math.log(errors[0] / errors[-1]), *in_time / math.log(2)]
    return pd.DataFrame(rows, index=["m in 1/ε", "τ in 1/ε", "m in T", "τ in T"]).T


def plan(case: Study, error: float, runs: Sequence[Descent], steps: int) -> pd.DataFrame:
    """Hold free descent against C&E Theorem 2: its promise, its radius, and the average iterate of
    C&E Remark 7.

    A row for each start, of `steps` steps at the theorem's step size and width.
    """
    asked = theorem_2(case.problem, error)
    promise, radius = math.exp(asked.log_risk), math.exp(asked.log_radius)
    rows = [
        [
            run.risks[0] / promise,
            run.least_risk / promise,
            float(np.square(run.average.outputs(case.inputs) - case.targets).sum(axis=1).mean())
            / promise,
            max(run.recurrent_moves.max(), run.input_moves.max()) / radius,
            "never" if (left := exit_time(run, radius)) is None else f"{left} of {steps}",
        ]
        for run in runs
    ]
    columns = [
        "first risk / promise",
        "least risk / promise",
        "at the average / promise",
        "farthest move / λ",
        "leaves λ at step",
    ]
    return pd.DataFrame(rows, columns=columns, index=pd.RangeIndex(1, len(rows) + 1, name="start"))


def looseness(problem: Problem, settings: Sequence[Setting], seed: int = 0) -> pd.DataFrame:
    """Measure every bound of the companion at several widths, lengths and numbers of steps.

    A row for each setting and result: the largest measured value, and the logarithms to base 10 of
    printed and repaired bound over it. What does not depend on τ is measured once for each (m, T).
    """
    rows: list[list[object]] = []
    known: dict[tuple[int, int], dict[str, Comparison]] = {}
    for width, length, steps in settings:
        rng = np.random.default_rng(seed)
        case = study(dataclasses.replace(problem, length=length), rng)
        if (width, length) not in known:
            known[width, length] = compare(case, width, rng)
        for name, found in (
            known[width, length] | compare_descent(case, width, steps, rng)
        ).items():
            printed, repaired = found.log_ratios
            rows.append(
                [
                    width,
                    length,
                    steps,
                    name,
                    found.measured.max(),
                    printed / math.log(10),
                    repaired / math.log(10),
                ]
            )
    return pd.DataFrame(rows, columns=["m", "T", "τ", "result", "measured", "printed", "repaired"])


def ratios(frame: pd.DataFrame, which: str = "printed") -> pd.DataFrame:
    """Lay `looseness` out, a row for each result and a column for each setting, as bound over
    largest measured value."""
    wide = frame.pivot_table(index="result", columns=["m", "T", "τ"], values=which, sort=False)
    return (
        (10**wide)
        .sort_index(axis=1)
        .map(
            lambda ratio: (
                f"{ratio:.0f}" if 10 <= ratio < 1000 else f"{ratio:.2g}".replace("e+0", "e")
            )
        )
    )


def bound_shares(case: Study, width: int, steps: Sequence[int], *, as_printed: bool) -> list[float]:
    """Return the bound of C&E Theorem 1 over the first risk, for several numbers of steps."""
    first = np.square(case.targets).sum(axis=1).mean()
    return [
        theorem_1(case.problem, width, tau, as_printed=as_printed).value / first for tau in steps
    ]


def windows(
    envelopes: Mapping[tuple[str, float], tuple[float, np.ndarray]], n_sequences: Sequence[float]
) -> pd.DataFrame:
    """Compare windows read off measured envelopes with those that the cut-off alone predicts.

    Envelopes are log f(ℓ)/m at ℓ = 1 … L, by activation and α, with the ratio α σ₁. A row for each:
    α σ₁, the factor by which it falls at first and at last, and for each N both windows; a window
    as long as the measurement is marked with ≥.
    """
    rows = {}
    for key, (ratio, log_f) in envelopes.items():
        falls = bridge.decay_rates(log_f)
        measured = bridge.window(log_f, n_sequences)
        predicted = bridge.predicted_window(bridge.cut_off_law(ratio), n_sequences)
        cells = [
            f"{'≥ ' if h == len(log_f) else ''}{h} / {p:.1f}"
            for h, p in zip(measured, predicted, strict=True)
        ]
        rows[key] = [
            f"{ratio:.3g}",
            f"{falls[0]:.2f}",
            f"{np.exp((log_f[-1] - log_f[-11]) / 10):.2f}",
            *cells,
        ]
    columns = ["α σ₁", "first factor", "last factor", *(f"N = {n:.0e}" for n in n_sequences)]
    return pd.DataFrame(rows, index=columns).T.rename_axis(["σ", "α"])
