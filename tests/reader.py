# mypy: disallow-any-generics, disallow-subclassing-any, disallow-untyped-calls, disallow-untyped-defs
# mypy: disallow-incomplete-defs, check-untyped-defs, disallow-untyped-decorators, warn-return-any
# mypy: warn-unused-ignores, strict-equality, extra-checks
"""A reader's own file, as strict as a reader may be: mypy passes it, and knows what it gets.

`make check` holds it; nobody runs it.
"""

from typing import assert_type

import numpy as np
import torch

import lwcore
from lwcore.cells import GRU, LSTM
from lwcore.network import Network
from lwcore.stable import SymmetricStable, fit
from lwcore.stable.fits import StableFit
from lwcore.transport import effective_rates, envelope
from lwcore.window import fit_decay, learnability_window

lags = np.arange(1, 65)
inputs = torch.zeros(2, 70, 3)
cell = GRU(3, 4)
trace = cell.trace(inputs)
fit_decay(lags, 2.0 * np.exp(-lags / 8.0))
learnability_window(torch.arange(1, 4), [4.0, 5.0, 6.0], [5, 50])
assert_type(cell(inputs), torch.Tensor)
assert_type(Network(cell)(inputs), torch.Tensor)
assert_type(LSTM.from_torch(torch.nn.LSTM(3, 4)), LSTM)
assert_type(effective_rates(trace, [1, 2]), torch.Tensor)
assert_type(envelope(effective_rates(trace, lags)), torch.Tensor)
assert_type(fit(np.zeros(3)), StableFit)
assert_type(lwcore.stable.SymmetricStable(1.5), SymmetricStable)
