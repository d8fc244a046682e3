"""Figures of the detection chapter: divergence and its square, what N sequences tell, how fast
averages concentrate, whether a fit fits.

Every function draws what the arguments name, Δ in units of σ, and gives the figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import special

from book.chapters.aggregation import MeasuredExponent
from book.chapters.lan import Expansion, lan_range
from lwcore.detection import (
    detection_error,
    fano_error,
    kl_divergence,
    lan_divergence,
    mutual_information,
)
from lwcore.figures import SHADES, canvas, done
from lwcore.stable import StableFit, SymmetricStable
from lwcore.stable.fits import characteristic_function

_LOCALISATIONS = {
    "optimal": "r = √N",
    "paper_v2": "r = N$^{1/α}$ (version 2)",
    "mean": "r = N$^{1−1/α}$",
}


def divergences(alphas: Sequence[float], shift: float, alpha: float) -> Figure:
    """Draw the divergence against Δ/σ for some tail indices, its share of the quadratic limit, and,
    for one, its growth with N."""
    figure, (one, share, many) = canvas(3, height=3.2)
    h, n = np.geomspace(0.03, 1e4, 100), np.unique(np.geomspace(1, 1e5, 40).astype(int))
    for a, colour in zip(alphas, SHADES, strict=False):
        exact, limit = kl_divergence(h, a), lan_divergence(h, a)
        one.plot(h, exact, color=colour, label=f"α = {a:g}")
        one.plot(h, limit, color=colour, ls=":", lw=1)
        share.plot(h, exact / limit, color=colour)
        if np.isfinite(end := lan_range(a)):
            one.plot(end, kl_divergence(end, a), "o", ms=5, color=colour)
            share.plot(end, kl_divergence(end, a) / lan_divergence(end, a), "o", ms=5, color=colour)
    one.set(xlabel="shift Δ/σ", ylabel="KL of one sequence (nats)", xscale="log", ylim=(0, 26))
    share.set(
        xlabel="shift Δ/σ",
        ylabel="KL over its quadratic limit",
        xscale="log",
        xlim=(0.03, 30),
        ylim=(0, 1.05),
    )
    many.plot(n, kl_divergence(shift, alpha, 1.0, n), color=SHADES[0], label="all N values")
    many.plot(n, kl_divergence(shift, alpha, 1.0, n, "mean"), color=SHADES[3], label="their mean")
    many.plot(
        n,
        lan_divergence(shift, alpha, 1.0, n, "paper_v2"),
        color="black",
        ls=":",
        label="(32) as printed",
    )
    many.set(xlabel="number of sequences N", ylabel="KL (nats)", xscale="log", yscale="log")
    return done(figure, one, many)


def expansion(simulated: Mapping[tuple[str, int], Expansion]) -> Figure:
    """Draw how the log-likelihood ratio spreads, and what is left of it, for expansions simulated
    at several rates and N."""
    figure, (spread, left) = canvas(2)
    for (rate, words), colour in zip(
        _LOCALISATIONS.items(), (SHADES[4], "black", SHADES[3]), strict=True
    ):
        terms = {n: term for (r, n), term in simulated.items() if r == rate}
        style = {"marker": "o", "ms": 4, "color": colour, "label": words}
        spread.plot(list(terms), [term.log_ratio.std() for term in terms.values()], **style)
        left.plot(
            list(terms), [np.sqrt(np.mean(term.remainder**2)) for term in terms.values()], **style
        )
    spread.set(
        xlabel="number of sequences N",
        ylabel="spread of the log ratio (nats)",
        xscale="log",
        yscale="log",
    )
    spread.set(yticks=(ticks := [0.1, 0.3, 1, 3]), yticklabels=ticks)
    spread.minorticks_off()
    left.set(
        xlabel="number of sequences N",
        ylabel="remainder, root mean square (nats)",
        xscale="log",
        yscale="log",
    )
    return done(figure, left)


def information(alphas: NDArray[np.float64]) -> Figure:
    """Draw the Fisher information of one sequence, and what the median uses of it, against the tail
    index."""
    figure, (axes,) = canvas(1, width=6.4)
    laws = [SymmetricStable(a) for a in alphas]
    axes.plot(
        alphas,
        [law.fisher_information() for law in laws],
        color=SHADES[0],
        label="likelihood: $I_α$",
    )
    axes.plot(
        alphas,
        [4 * law.pdf(0.0) ** 2 for law in laws],
        color=SHADES[1],
        ls="--",
        label="median: 4p(0)²",
    )
    axes.set(xlabel="tail index α", ylabel="information in a sequence (1/σ²)", ylim=(0, 0.6))
    return done(figure, axes)


def errors(shift: float, alpha: float, most: float = 1e4) -> Figure:
    """Draw against N the information on the sign, and above Fano's bound the exact errors of tests,
    pale their large-sample forms."""
    figure, (told, wrong) = canvas(2)
    n = np.unique(np.geomspace(1, most, 35).astype(int) | 1)  # odd, as a median has it
    law, everything = SymmetricStable(alpha), mutual_information(shift, alpha, 1.0, n)
    told.plot(n, everything / np.log(2), color=SHADES[0], label="all N values")
    told.plot(
        n,
        mutual_information(shift, alpha, 1.0, n, "mean") / np.log(2),
        color=SHADES[3],
        label="their mean",
    )
    told.set(
        xlabel="number of sequences N",
        ylabel="information on the sign (bits)",
        xscale="log",
        ylim=(0, 1.03),
    )
    for test, colour in (("mean", SHADES[3]), ("median", SHADES[1]), ("likelihood", SHADES[0])):
        wrong.plot(n, detection_error(n, shift, 1.0, alpha, test), color=colour, label=test)
        if test != "mean":
            efficacy = 2 * law.pdf(0.0) if test == "median" else np.sqrt(law.fisher_information())
            wrong.plot(
                n, special.ndtr(-efficacy * shift * np.sqrt(n)), color=colour, lw=4, alpha=0.25
            )
    wrong.plot(n, fano_error(everything), color="black", ls=":", label="Fano's bound")
    wrong.set(
        xlabel="number of sequences N",
        ylabel="probability of the wrong sign",
        xscale="log",
        yscale="log",
        ylim=(1e-6, 0.6),
    )
    return done(figure, told, wrong)


def exponents(measured: Mapping[tuple[str, float], MeasuredExponent]) -> Figure:
    """Draw measured exponents p, by method and tail index, with the three that versions of the
    paper and statistics name."""
    figure, (axes,) = canvas(1, width=6.4, height=4)
    alpha = np.linspace(1.15, 2, 200)
    axes.plot(alpha, alpha / (alpha - 1), color="black", lw=1, label="α/(α − 1)")
    axes.plot(alpha, np.full_like(alpha, 2), color="black", lw=1, ls="--", label="2")
    axes.plot(alpha, alpha, color="black", lw=1, ls=":", label="α (versions 1 and 2)")
    methods = list(dict.fromkeys(method for method, _ in measured))
    for offset, (method, colour, marker) in enumerate(zip(methods, SHADES, "osD^v", strict=False)):
        chosen = {a: result for (m, a), result in measured.items() if m == method}
        middle = np.array([result.exponent for result in chosen.values()])
        ends = np.array([result.interval for result in chosen.values()]).T
        # so that bars do not hide one another
        beside = np.array(list(chosen)) + 0.008 * (offset - 2)
        axes.errorbar(
            beside,
            middle,
            np.abs(ends - middle),
            fmt=marker,
            ms=5,
            capsize=3,
            color=colour,
            label=method,
        )
    axes.set(
        xlabel="tail index α",
        ylabel="exponent p in N ∝ Δ$^{-p}$",
        yscale="log",
        yticks=[1, 2, 3, 4, 6],
        yticklabels=[1, 2, 3, 4, 6],
    )
    axes.legend(ncols=2)
    return done(figure)


def fits(samples: Mapping[str, NDArray[np.float64]], fitted: Mapping[str, StableFit]) -> Figure:
    """Draw by how much characteristic functions of samples miss their fits, beside a band of two
    standard errors."""
    figure, panels = canvas(len(samples), height=2.8, sharey=True)
    step, points = 0.1, 40
    u = step * np.arange(1, points + 1)
    for axes, (name, sample) in zip(panels, samples.items(), strict=True):
        law = fitted[name]
        expected = np.exp(-(u**law.alpha))
        found = characteristic_function((sample[:, None] - law.loc) / law.scale, step, points)[
            :, 0
        ].real
        error = np.sqrt((1 + np.exp(-((2 * u) ** law.alpha)) - 2 * expected**2) / (2 * len(sample)))
        axes.fill_between(u, -2 * error, 2 * error, color="grey", alpha=0.25, lw=0)
        axes.plot(u, found - expected, color=SHADES[0])
        axes.axhline(0, color="black", lw=0.8, ls=":")
        axes.set(xlabel="frequency u (1/scale)", title=f"{name}; fitted α = {law.alpha:.2f}")
        axes.title.set_fontsize(9)
    panels[0].set_ylabel("empirical less fitted")
    return done(figure)
