"""Claim about the sign of first-order rates."""

from __future__ import annotations

from typing import Any

from book.claims.checks import measures
from book.claims.claim import Measured, over


@measures("first-order-rates-are-not-negative")
def _(runs: Any) -> tuple[Measured, Measured]:
    most = runs["small"].negative.max("lag")
    return over(most.sel(order="first").values.ravel()), over(
        most.sel(order="zeroth").values.ravel()
    )
