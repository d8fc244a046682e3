"""Claims of Section 5.4 on the condition of Lemma 5.2, the envelope inside its own noise."""

from __future__ import annotations
