"""Every checkable statement of the two papers: our wording, rules fixed beforehand, the verdict.

A statement is data, in a TOML file for each chapter. Its numbers come from a cell of the
chapter that discusses it, which calls `Claims.judge`; the ledger is gathered from executed chapters.
"""

from book.claims.claim import Kind, Measured, Verdict, estimate, exactly, over, share, throughout
from book.claims.ledger import Claims, Outcome, registry

__all__ = [
    "Claims",
    "Kind",
    "Measured",
    "Outcome",
    "Verdict",
    "estimate",
    "exactly",
    "over",
    "registry",
    "share",
    "throughout",
]
