"""The learnability window of your own network, trained elsewhere, on your own data.

In three lines::

    from lwcore.diagnose import diagnose
    found = diagnose(net.eval(), loader, source="target")  # before training, or on unseen data
    found  # or print it, draw it with found.plot(), take found.data
"""

from lwcore.diagnose.answer import Diagnosis, Window
from lwcore.diagnose.measuring import diagnose, parts_by_lag

__all__ = ["Diagnosis", "Window", "diagnose", "parts_by_lag"]
