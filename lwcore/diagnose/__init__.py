"""The learnability window of your own network, trained elsewhere, on your own data.

Three lines::

    from lwcore.diagnose import diagnose
    found = diagnose(net.eval(), loader, loss=torch.nn.CrossEntropyLoss())
    found

`net` is any module that calls one `torch.nn.LSTM`, `GRU` or `RNN` once, or such a module itself, with its ``head``; `loader` gives pairs of
inputs and targets. Show `found` in a notebook, print it, ``found.plot()`` it, or take ``found.data``, an `xarray.Dataset`.
"""

from lwcore.diagnose.diagnosis import Diagnosis, Window
from lwcore.diagnose.run import AxesWarning, diagnose

__all__ = ["AxesWarning", "Diagnosis", "Window", "diagnose"]
