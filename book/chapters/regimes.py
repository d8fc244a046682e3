"""Tables on the three regimes of Section 5.4: slopes of the window, constants behind them, and what
gates buy beside data.

Envelopes follow decay laws that fall (no tempered one); the noise has unit scale, so that
``alignment`` is m̄/σ_α, and α, ε and N are called as in `lwcore.detection`. Every table has a row
for each law and each rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lwcore.detection import detection_threshold, rate_exponent, sample_complexity
from lwcore.window import DecayLaw, learnability_window, regime_window

_RATES = ("mean", "optimal", "paper_v2")
# lag of the grid on which windows are read
_LAST = {"exponential": 500, "power": 10**6, "logarithmic": 10**15}
_FEWEST = 20  # lags that make a grid
_HEIGHT: dict[str, Callable[[NDArray[np.int64]], NDArray[np.float64]]] = {
    "exponential": np.asarray,
    "power": np.log,
    "logarithmic": lambda window: np.log(np.log(window)),
}


def regime_slope(law: DecayLaw, alpha: float, rate: str = "mean") -> float:
    """Return the slope against log N, by Section 5.4, of H_N, log H_N or log log H_N (exponential,
    power, logarithmic law that falls)."""
    return float(1 / (rate_exponent(alpha, rate) * _steepness(law)))


def _steepness(law: DecayLaw) -> float:
    """Return log(1/λ), β or 1, after checking that the law falls."""
    if law.name == "logarithmic":
        return 1.0
    decay = -np.log(law.decay) if law.name == "exponential" else law.decay
    if decay <= 0:
        allowed = "λ below 1" if law.name == "exponential" else "β above 0"
        raise ValueError(f"law = {law.name} with decay {law.decay!r}: must fall, {allowed}.")
    return float(decay)


def _cases(laws: Sequence[DecayLaw]) -> list[tuple[DecayLaw, str]]:
    """Return every law with every rate, after checking that the laws fall."""
    for law in laws:
        _steepness(law)
    return [(law, rate) for law in laws for rate in _RATES]


def growth(laws: Sequence[DecayLaw], alpha: float, error: float = 0.1) -> pd.DataFrame:
    """Read windows off N(ℓ) on a fine grid of lags by their definition alone, and fit a line on the
    axes where the law is one.

    It inverts Eq. (37) and compares with Eq. (60). The line is fitted to 400 numbers of sequences
    between what the fifth lag needs and what the last does; in the power and logarithmic regimes,
    to windows above the root of the last lag. The grid ends where N(ℓ) leaves the range of a float.

    Returns:
        Measured slope and the paper's, their difference in percent, and by how many grid steps the
        closed form lies above the window at most.
    """
    rows = []
    for law, rate in _cases(laws):
        slope = regime_slope(law, alpha, rate)
        lags = np.unique(np.geomspace(1, _LAST[law.name], 4000).astype(np.int64))
        needed = sample_complexity(law.envelope(lags), 1, 1, alpha, error, rate)
        lags, needed = lags[countable := (needed > 0) & np.isfinite(needed)], needed[countable]
        if lags.size < _FEWEST:
            raise ValueError(
                f"law = {law!r}: N(ℓ) must stay in the range of a float for {_FEWEST} lags, but "
                f"does so for {lags.size}."
            )
        last = int(lags[-1])
        budgets = np.geomspace(needed[4], needed[-1], 400)
        window = learnability_window(lags.tolist(), needed, budgets)
        used = window >= (0 if law.name == "exponential" else np.sqrt(last))
        measured = np.polyfit(np.log(budgets[used]), _HEIGHT[law.name](window[used]), 1)[0]
        step = np.append(np.diff(lags), np.inf)[np.searchsorted(lags, window)]
        gap = (regime_window(law, budgets, 1, 1, alpha, error, rate) - window) / step
        rows.append([law.name, rate, measured, slope, 100 * (measured / slope - 1), gap.max()])
    columns = [
        "law",
        "rate",
        "measured slope",
        "paper's slope",
        "difference (%)",
        "gap to closed form (grid steps)",
    ]
    return pd.DataFrame(rows, columns=columns).set_index(["law", "rate"])


def constants(
    laws: Sequence[DecayLaw], n_sequences: float, alignment: float, alpha: float, error: float = 0.1
) -> pd.DataFrame:
    """Compare the window, constants included, with the paper's form with all of them set to one,
    ``f^←(c N^(−1/p))``.

    Returns:
        N_c, the sequences needed where f = c; the window; the plain form; and window over plain
        form.
    """
    rows = []
    for law, rate in _cases(laws):
        window = float(regime_window(law, n_sequences, alignment, 1, alpha, error, rate))
        plain = float(
            law.inverse(np.log(law.amplitude) - np.log(n_sequences) / rate_exponent(alpha, rate))
        )
        n_c = float(sample_complexity(law.amplitude, alignment, 1, alpha, error, rate))
        rows.append([alignment, law.name, rate, n_c, window, plain, np.divide(window, plain)])
    columns = ["m̄/σ", "law", "rate", "N_c", "window", "plain form", "ratio"]
    return pd.DataFrame(rows, columns=columns).set_index(columns[:3])


def gates_or_data(
    laws: Sequence[DecayLaw], n_sequences: float, alpha: float, error: float = 0.1
) -> pd.DataFrame:
    """Compare doubled data with a halved decay, ``f/c`` replaced by its root, at m̄ = σ_α; the
    question of Section 5.5 (i).

    Returns:
        Windows as things are, with the data doubled, with the decay halved, and with N/N_c times
        the data; and N/N_c.
    """
    rows = []
    for law, rate in _cases(laws):
        worth = n_sequences / float(sample_complexity(law.amplitude, 1, 1, alpha, error, rate))
        plain, doubled, squared = regime_window(
            law, n_sequences * np.array([1, 2, worth]), 1, 1, alpha, error, rate
        )
        level = np.log(detection_threshold(n_sequences, 1, 1, alpha, error, rate))
        halved = law.inverse(2 * level - np.log(law.amplitude))  # c √(f/c) ≥ ε where f ≥ ε²/c
        rows.append([law.name, rate, plain, doubled, float(halved), squared, worth])
    columns = ["law", "rate", "window", "data doubled", "decay halved", "data × N/N_c", "N/N_c"]
    return pd.DataFrame(rows, columns=columns).set_index(["law", "rate"])
