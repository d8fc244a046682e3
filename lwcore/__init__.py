"""Learnability windows of gated recurrent networks: the paper's equations as functions.

Two halves that meet in `lwcore.measure`. The theory half (`stable`, `bounds`, `window`) needs NumPy
and SciPy only; the network half (`tasks`, `cells`, `network`, `transport`, `gradient`, `train`)
needs PyTorch. `experiment` runs a configuration from training to results, `plots` draws them.
Nothing is imported here, so that ``import lwcore`` stays instant.
"""

__version__ = "0.1.0"
