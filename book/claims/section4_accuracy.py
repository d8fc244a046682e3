"""Claims of Section 4 on what the rates do: many rates, mixing, and how far the first order
describes the transport."""

from __future__ import annotations
