"""Claims on the open questions of Section 7, and on adaptive optimisers in later versions."""

from __future__ import annotations
