"""Claims about Lemma 5.1 and the sentences of its proof: do rates and envelope never rise with the
lag?"""

from __future__ import annotations

LAGS, END = list(range(1, 40)), 39
