"""Learnability windows of gated recurrent networks: the paper's equations as functions.

Two halves meet in `lwcore.measure`. The law of the noise, detection and window (`stable`,
`detection`, `window`) need NumPy and SciPy only; the networks (`cells`, `network`, `trace`,
`transport`, `gradient`, `tasks`) need PyTorch. `experiment` runs a configuration from
training to results, `diagnose` measures a network of your own. Nothing is imported here, so that
``import lwcore`` stays instant.
"""

__version__ = "0.1.0"
