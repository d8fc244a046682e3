"""What a type checker learns from the package: a reader's own file passes, and results have types."""

import os
import subprocess
import sys

import pytest

from tests.built_book import ROOT

A_READERS_FILE = """
import numpy as np
import torch

import lwcore
from lwcore.cells import GRU, LSTM
from lwcore.detection import sample_complexity
from lwcore.network import Network
from lwcore.stable import fit
from lwcore.transport import effective_rates, envelope
from lwcore.window import fit_decay, learnability_window

lags = np.arange(1, 65)
inputs = torch.zeros(2, 70, 3)
cell = GRU(3, 4)
trace = cell.trace(inputs)
fit_decay(lags, 2.0 * np.exp(-lags / 8.0))
learnability_window(torch.arange(1, 4), [4.0, 5.0, 6.0], [5, 50])
reveal_type(cell(inputs))
reveal_type(Network(cell)(inputs))
reveal_type(LSTM.from_torch(torch.nn.LSTM(3, 4)))
reveal_type(effective_rates(trace, [1, 2]))
reveal_type(envelope(effective_rates(trace, lags)))
reveal_type(fit(np.zeros(3)))
reveal_type(lwcore.stable.SymmetricStable(1.5))
"""


@pytest.mark.slow
def test_a_readers_file_passes_a_type_checker_and_learns_what_it_gets(tmp_path):
    path = tmp_path / "reader.py"
    path.write_text(A_READERS_FILE)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", str(path)],
        env=os.environ | {"MYPYPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in done.stdout.splitlines() if "reader.py" in line]
    types = [line.partition("Revealed type is ")[2].strip('"') for line in told]
    assert types == [
        "torch._tensor.Tensor",
        "torch._tensor.Tensor",
        "lwcore.cells.gated.LSTM",
        "torch._tensor.Tensor",
        "torch._tensor.Tensor",
        "lwcore.stable.fits.StableFit",
        "lwcore.stable.law.SymmetricStable",
    ], done.stdout
