"""Claims of Section 6.2 on the spectra of time scales, and on what they do to envelopes and
windows."""

from __future__ import annotations
