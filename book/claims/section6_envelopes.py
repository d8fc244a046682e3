"""Claims of Section 6.2 on envelopes, and on what the closed forms leave out.

The networks are those of the recorded runs. `paper-v2` is version 2's training at our size and
learning rate; the paper's are not recoverable, and its figures may have come from others.
"""

from __future__ import annotations
