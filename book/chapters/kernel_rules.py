"""The rule of *Kernel* in `book/registration_clock.md`: does the tangent kernel at the start learn?

Committed before the data were in. Nothing here is trained.
"""

from dataclasses import dataclass

import pandas as pd

from book.chapters.clock import KERNEL_COUNTS
from book.chapters.clock_rules import Verdict
from book.chapters.dose import HALF, VARIED

LEAST_CONDITIONS = 10  # that networks must learn, for a verdict without a counterexample


@dataclass(frozen=True)
class KernelShares:
    """What the rule of the kernel asks.

    Attributes:
        learned: Networks that learned half, conditions and seeds together.
        conditions: Conditions in which most seeds did.
        explained: Of those networks, the kernels that explain half or more.
        largest: The largest share that any of these kernels explains.
        growth: The largest growth of such a kernel's share from the smaller number of sequences to
            the larger: what a noisy kernel would still gain.
        would_grow_to: The largest of shares to which one more such growth would bring a kernel.
    """

    learned: int
    conditions: int
    explained: int
    largest: float
    growth: float
    would_grow_to: float

    def verdict(self) -> Verdict:
        """Judge the hypothesis; one kernel that explains half refutes it."""
        if self.explained:
            return "refuted"
        return "supported" if self.conditions >= LEAST_CONDITIONS else "undecided"


def kernel_shares(rows: pd.DataFrame) -> KernelShares:
    """Compare networks with their kernels, from the rows of part ``kernel``."""
    few, many = (f"kernel_{count}" for count in KERNEL_COUNTS)
    learned = rows[rows["end"] == "half"]
    # where no scale is set a table holds None or NaN
    reached = (rows["end"] == "half").groupby([rows[name] for name in VARIED], dropna=False).mean()
    growth = learned[many] - learned[few]
    return KernelShares(
        learned=len(learned),
        conditions=int((reached > 0.5).sum()),
        explained=int((learned[many] >= HALF).sum()),
        largest=float(learned[many].max()),
        growth=float(growth.max()),
        would_grow_to=float((learned[many] + growth).max()),
    )
