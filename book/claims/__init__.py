"""Every checkable statement of the two papers: our wording, a check that measures, a rule fixed
beforehand, and the verdict that follows.

A claim is written down once, above the function that measures it (`section3` to `appendices`, and
`companion_network` to `companion_descent`). `record` keeps what was measured last; the ledger page,
the badges in the chapters and the tests read the same registry.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from book.claims import (
    appendices,
    companion_bounds,
    companion_costs,
    companion_descent,
    companion_kernel,
    companion_network,
    monotonicity,
    section3,
    section4,
    section4_accuracy,
    section5_detection,
    section5_implications,
    section5_statistic,
    section5_window,
    section6,
    section6_envelopes,
    section6_spectra,
    section6_windows,
    section7,
    section7_open,
)
from book.claims.claim import Claim, Kind, Measured, Reading, Rule, Verdict
from book.claims.record import FOLDER, Outcome, Runs, measure, outcomes, table
from lwcore.signatures import require

__all__ = [
    "Claim",
    "Kind",
    "Measured",
    "Outcome",
    "Reading",
    "Rule",
    "Runs",
    "Verdict",
    "check",
    "ledger",
    "registry",
]

_SECTIONS = (
    section3,
    section4,
    section4_accuracy,
    monotonicity,
    section5_statistic,
    section5_detection,
    section5_window,
    section5_implications,
    section6,
    section6_envelopes,
    section6_windows,
    section6_spectra,
    section7,
    section7_open,
    appendices,
    companion_network,
    companion_kernel,
    companion_bounds,
    companion_costs,
    companion_descent,
)


def registry() -> dict[str, Claim]:
    """List all claims, in the order of the papers.

    Returns:
        Claims by name.

    Raises:
        ValueError: If two claims have the same name.
    """
    claims = [claim for section in _SECTIONS for claim in section.chapter.claims]
    found = {claim.id: claim for claim in claims}
    if len(found) < len(claims):
        raise ValueError("Two claims have the same name.")
    return found


def check(id: str, folder: Path = FOLDER) -> Outcome:
    """Measure a claim now.

    Args:
        id: Its name in the registry.
        folder: Where the recorded runs lie.

    Returns:
        What was measured, and the verdict that follows.

    Raises:
        ValueError: If there is no such claim.
    """
    claims = registry()
    require("id", id, id in claims, "the name of a claim")
    return measure(claims[id], Runs(folder))


def ledger(folder: Path = FOLDER) -> pd.DataFrame:
    """Give the verdict on every claim, from what was measured last.

    Args:
        folder: Where the recorded measurements lie.

    Returns:
        One row a claim, as `book.claims.record.table` says.
    """
    return table(outcomes(registry().values(), folder))
