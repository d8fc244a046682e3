"""Claims of Section 6.2 on windows, and what a window must not hang on. Networks are those of the
recorded runs."""

from __future__ import annotations
