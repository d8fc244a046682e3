"""What a diagnosis found, in words, and as a piece of a page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lwcore.calibration import binomial_interval
from lwcore.diagnose.inferred import SIGN_DRAWS
from lwcore.inference import holm

if TYPE_CHECKING:
    from lwcore.diagnose.diagnosis import Diagnosis, Window

HEADINGS = ("sequences N", "every measured lag visible up to", "longest visible lag")
HELD = "in simulations 92 to 96 % held the truth along these, 17 to 82 % that along the mean directions of endless data"  # see `bands`
_LEVEL = 0.05  # at which tails are called other than stable
_USUAL = 1.0, 4.0  # exponents p of noise with a variance, 2 up to chance; beyond, a few sequences make the noise


def plural(count: int, noun: str) -> str:
    """Count some things.

    Args:
        count: How many.
        noun: What one is called.

    Returns:
        Number and noun, as in ``1 step`` and ``1,024 steps``.
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def sentences(found: Diagnosis) -> list[str]:
    """Say what was found.

    Only measured lags are spoken of: what a lag between two of them, or beyond the longest, would show is not known.

    Args:
        found: The diagnosis.

    Returns:
        A few sentences.
    """
    data, attrs = found.data, found.data.attrs
    if not found.complete:
        return [f"Interrupted before any window could be measured; the transport of {attrs['network']} is there."]
    n, lags = int(attrs["n_sequences"]), data.lag.values.tolist()
    past = "the loss" if attrs["source"] == "error" else "the loss, as if nothing had been learned yet,"
    level = f"{100 * float(attrs['level']):.0f} % interval"
    shown = _shown(lags, found.window(n), found.window(n, "first_passage"), level)
    said = [f"In {plural(n, 'sequence')} the gradient of {past} shows {shown}"]
    if found.interrupted:
        said.insert(0, f"Interrupted: {plural(data.sizes['sequence'], 'sequence')} gave numbers.")
    if (seen := int(data.detected.sum())) < len(lags):
        numbers = plural(data.sizes["sequence"], "sequence")
        said.append(
            f"Of {seen or 'none'} of {plural(len(lags), 'lag')} the {numbers} that gave the numbers tell the sign; "
            f"a lag is shown if they do and it needs no more than {n:,}."
        )
    if giants(found):
        said.append("Beware: a few sequences make most of the noise, so that intervals hold less often than they say; take more sequences.")
    read = str(attrs["measured_on"]).partition(":")[0]
    said.append(f"{read[0].upper()}{read[1:]}.")
    return said


def giants(found: Diagnosis) -> bool:
    """Say whether a few sequences make most of the noise: a tail index of 1 or less, or means that concentrate otherwise than they should.

    Args:
        found: A complete diagnosis.

    Returns:
        Whether at the median lag.
    """
    total = found.data.sel(noise_definition="total")
    low, high = _USUAL
    return bool(total.tail_index.median() <= 1) or not low <= float(total.exponent.median()) <= high


def _shown(lags: list[int], longest: Window, passage: Window, level: str) -> str:
    """Finish the sentence that begins with "the gradient shows"."""
    first, last = lags[0], lags[-1]
    around, further = (f"{window.low} to {window.high}" for window in (passage, longest))
    if len(lags) == 1:
        shown = f"{'' if longest.steps else 'nothing at '}the one lag measured, {plural(first, 'step')}"
        return f"{shown} ({level} {further})."
    if passage.steps == last:
        return f"every measured lag, up to the longest, {plural(last, 'step')} ({level} {around})."
    of = f"of {len(lags)} lags measured up to {plural(last, 'step')}."
    if not longest.steps:
        return (
            f"no measured lag, {f'though the {level} reaches to {longest.high}' if longest.high else f'and the {level} holds none'}, {of}"
        )
    if not passage.steps:
        return f"measured lags up to {longest.steps} ({level} {further}), but not the shortest, {first}, {of}"
    beyond = f"no measured lag beyond {longest.steps}" if longest.steps < last else "also the longest"
    return f"every measured lag up to {passage.steps} ({level} {around}), and {beyond} ({further}), {of}"


def facts(found: Diagnosis) -> list[tuple[str, str]]:
    """List what was measured besides.

    Args:
        found: The diagnosis.

    Returns:
        A name and a value each.
    """
    data = found.data
    tau = data.time_scale.values[np.isfinite(data.time_scale.values)]
    lag = data.lag.values
    places = sorted({0, len(lag) // 2, len(lag) - 1})
    listed = [("network", data.attrs["network"]), ("loss", data.attrs["loss"]), ("measured on", data.attrs["measured_on"])]
    if len(tau):
        low, middle, high = np.quantile(tau, [0.1, 0.5, 0.9])
        listed.append(("time scales τ, 10 %, 50 %, 90 % of neurons", f"{low:.3g}, {middle:.3g}, {high:.3g} steps"))
    listed.append(("envelope f(ℓ)", ", ".join(f"{float(data.envelope[i]):.3g} at lag {lag[i]}" for i in places)))
    listed.append(
        ("share of the transport beside its diagonal", ", ".join(f"{float(data.off_diagonal[i]):.2f} at {lag[i]}" for i in places))
    )
    if found.complete:
        total = data.sel(noise_definition="total")
        alpha = total.tail_index.values
        p = total.goodness_of_fit.values[np.isfinite(total.goodness_of_fit.values)]
        rejected = int(holm(p[None], _LEVEL).sum())
        listed.append(("tail index α of the whole gradient along a lag's direction", f"{np.nanmin(alpha):.2f} to {np.nanmax(alpha):.2f}"))
        exponent = float(total.exponent.median())
        written = (
            f"{exponent:.1f} (median)" if exponent >= _USUAL[0] else "none: at the median lag means spread as widely as single sequences"
        )
        listed.append(("exponent with which means of sequences concentrate, 2 for noise with a variance", written))
        listed.append(("lags at which a stable law does not fit those numbers", f"{rejected} of {len(p)} (Holm, {100 * _LEVEL:.0f} %)"))
        false, level = int(data.false_windows), float(data.false_windows.attrs["nominal"])
        low, high = (100 * float(end) for end in binomial_interval(false, SIGN_DRAWS))
        share = f"{100 * false / SIGN_DRAWS:.1f} % ({low:.1f} to {high:.1f}; the test allows {100 * level:g})"
        listed.append(("false windows: any lag seen with the sign of every sequence drawn at random", share))
        listed.append(("intervals", f"for all lags together, along the directions found: {HELD}; another seed finds other directions"))
    return listed


def page(found: Diagnosis) -> str:
    """Show a diagnosis as a piece of a page: sentences, windows, facts, and the dataset folded away.

    Args:
        found: The diagnosis.

    Returns:
        HTML.
    """
    first, *rest = map(html.escape, sentences(found))
    parts = [f"<p><strong>{first}</strong> {' '.join(rest)}</p>"]
    if found.complete:
        rows = []
        for n in found.table_budgets():
            stable = found.window(n, reading="stable").steps
            rows.append((f"{n:,}", str(found.window(n, "first_passage")), str(found.window(n)), str(stable)))
        level, longest = 100 * float(found.data.attrs["level"]), int(found.data.lag[-1])
        caption = f"Window in steps, with {level:.0f} % interval, of lags measured up to {longest}"
        parts.append(_table((*HEADINGS, "with stable tails"), rows, caption))
    listed = "".join(f"<li>{html.escape(name)}: {html.escape(value)}</li>" for name, value in facts(found))
    parts.append(f"<ul>{listed}</ul>")
    parts.append(f"<details><summary>All numbers</summary>{found.data._repr_html_()}</details>")
    return f'<div class="diagnosis">{"".join(parts)}</div>'


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], caption: str) -> str:
    """Write an HTML table."""

    def row(cells: tuple[str, ...], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return (
        f'<table class="dataframe"><caption>{html.escape(caption)}</caption><thead>{row(head, "th")}</thead><tbody>{body}</tbody></table>'
    )
