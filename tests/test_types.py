"""What a type checker learns from the package: a reader's own file passes, and results have types."""

import subprocess
import sys
import tomllib

from tests.built_book import ROOT

# As strict as a reader may be: `--strict`, as far as a file can say it of itself.
A_READERS_FILE = """
# mypy: disallow-any-generics, disallow-subclassing-any, disallow-untyped-calls, disallow-untyped-defs
# mypy: disallow-incomplete-defs, check-untyped-defs, disallow-untyped-decorators, warn-return-any
# mypy: warn-unused-ignores, strict-equality, extra-checks
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


def test_types_hold_and_a_readers_file_passes_and_learns_what_it_gets(tmp_path):
    """The house, and a file that is none of its own, in one go: most of the time goes into
    PyTorch's types."""
    path = tmp_path / "reader.py"
    path.write_text(A_READERS_FILE)
    house = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["files"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *house, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if ": note: " in line]
    types = [line.partition("Revealed type is ")[2].strip('"') for line in said]
    assert types == [
        "torch._tensor.Tensor",
        "torch._tensor.Tensor",
        "lwcore.cells.gated.LSTM",
        "torch._tensor.Tensor",
        "torch._tensor.Tensor",
        "lwcore.stable.fits.StableFit",
        "lwcore.stable.law.SymmetricStable",
    ], done.stdout
