"""Charts that a reader can move; what a slider changes is computed in the page, which needs no
network.

* `theory`: the scaling laws of Section 5.4, and an explorer of envelope, threshold and window
* `gates`: from gate values over time scales and their envelope to the window
* `spectrum`: what envelope a spectrum of time scales makes, and which regime it looks like
* `browser`: recorded runs, network by network
* `crossing`: what the explorers share: the threshold and where it is met
* `style`: what all charts share
"""

from book.charts.browser import results_browser
from book.charts.gates import gate_explorer
from book.charts.spectrum import spectrum_explorer
from book.charts.style import use_book_style
from book.charts.theory import complexity, regimes, sandwich, thresholds, window_explorer

__all__ = [
    "complexity",
    "gate_explorer",
    "regimes",
    "results_browser",
    "sandwich",
    "spectrum_explorer",
    "thresholds",
    "use_book_style",
    "window_explorer",
]
