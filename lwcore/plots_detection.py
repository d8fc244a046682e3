"""Figures of the detection chapter: how fast each way of averaging beats the noise down."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

from lwcore.aggregation import MeasuredExponent


def exponents(measured: Mapping[tuple[str, float], MeasuredExponent]) -> Figure:
    """Draw measured exponents p against the tail index, with the three that versions of the paper and statistics name.

    Args:
        measured: Exponents by method and tail index α.

    Returns:
        The figure; bars are confidence intervals.
    """
    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    alpha = np.linspace(1.15, 2, 200)
    axes.plot(alpha, alpha / (alpha - 1), color="black", lw=1, label="α/(α − 1)")
    axes.plot(alpha, np.full_like(alpha, 2), color="black", lw=1, ls="--", label="2")
    axes.plot(alpha, alpha, color="black", lw=1, ls=":", label="α (versions 1 and 2)")
    methods = list(dict.fromkeys(method for method, _ in measured))
    for offset, (method, colour, marker) in enumerate(zip(methods, sns.color_palette("colorblind"), "osD^v", strict=False)):
        chosen = {a: result for (m, a), result in measured.items() if m == method}
        middle = np.array([result.exponent for result in chosen.values()])
        ends = np.array([result.interval for result in chosen.values()]).T
        beside = np.array(list(chosen)) + 0.008 * (offset - 2)  # so that bars do not hide one another
        axes.errorbar(beside, middle, np.abs(ends - middle), fmt=marker, ms=5, capsize=3, color=colour, label=method)
    axes.set(xlabel="tail index α", ylabel="exponent p in N ∝ Δ$^{-p}$", yscale="log", yticks=[1, 2, 3, 4, 6], yticklabels=[1, 2, 3, 4, 6])
    axes.legend(ncols=2)
    sns.despine(figure)
    plt.close(figure)
    return figure
