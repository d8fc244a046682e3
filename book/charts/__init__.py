"""Charts that a reader can move; what a slider changes is computed in the page, without a network.

* `explorers`: from a decay law to the threshold and the window
* `browser`: recorded runs, network by network
* `style`: what both share
"""

from book.charts.browser import results_browser
from book.charts.explorers import window_explorer
from book.charts.style import use_book_style

__all__ = ["results_browser", "use_book_style", "window_explorer"]
