"""Every checkable statement of the two papers: our wording, rules fixed beforehand, the verdict.

A statement is data, in a TOML file for each part of the papers. Its numbers come from a cell of the
chapter that discusses it, which calls `measured`; the ledger is gathered from executed chapters.
"""

from book.claims.claim import Kind as Kind
from book.claims.claim import Measured as Measured
from book.claims.claim import Verdict as Verdict
from book.claims.claim import estimate as estimate
from book.claims.claim import exactly as exactly
from book.claims.claim import over as over
from book.claims.claim import share as share
from book.claims.ledger import Outcome as Outcome
from book.claims.ledger import measured as measured
from book.claims.ledger import registry as registry

__all__ = [
    "Kind",
    "Measured",
    "Outcome",
    "Verdict",
    "estimate",
    "exactly",
    "measured",
    "over",
    "registry",
    "share",
]
