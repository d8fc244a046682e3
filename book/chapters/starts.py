"""Networks that start from given time scales, and what becomes of them: an intervention on the
spectrum."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import ArrayLike

from book.chapters.spectra import learned_share, ranges, width
from lwcore import results
from lwcore.config import Config, Model
from lwcore.experiment import run_member
from lwcore.inference import LETTER, OPTIMISER, probes, windows
from lwcore.network import Network
from lwcore.signatures import require

# Two windows, by title: the view, and how N(ℓ) is computed. The paper's, to the letter of version
# 2, and what an optimiser meets.
WINDOWS = (("the paper's", "zeroth", LETTER), ("the optimiser's", "gradient", OPTIMISER))


@torch.no_grad()
def spread_gates(network: Network, time_scales: ArrayLike) -> None:
    """Set the gates' biases so that neurons start with given time scales τ, (H,) or one for all; in
    place, and nothing else changes.

    A retention of exp(−1/τ) keeps 1/e of the state over τ steps. Log-uniform τ is the chrono
    initialisation of Tallec and Ollivier (2018) with its spacing made even. Every cell lets in what
    it does not keep; the LSTM, i = 1 − f.
    """
    cell, tau = network.cell, np.asarray(time_scales, float)
    require("time_scales", tau, tau > 0, "above 0")
    if tau.shape not in ((), (cell.hidden_size,)):
        raise ValueError(
            f"time_scales has shape {tau.shape}: must hold one entry, or one for each of the "
            f"{cell.hidden_size} neurons."
        )
    if cell.shared or "let_in" not in cell.blocks:
        raise ValueError(
            f"network: a {type(cell).__name__} has no gate for every neuron; must be DiagGate, "
            "GRU, LSTM, MinGRU or MinLSTM."
        )
    # exp(−1/τ)/(1 − exp(−1/τ)) is the odds of keeping
    kept = torch.from_numpy(
        np.broadcast_to(-np.log(np.expm1(1 / tau)), cell.hidden_size).copy()
    ).to(cell.bias)
    for block, bias in zip(cell.blocks, cell.bias.split(cell.rows), strict=True):
        if block in ("keep", "let_in"):
            bias.copy_(kept if block == "keep" else -kept)


def run_from(config: Config, starts: Mapping[str, ArrayLike]) -> xr.Dataset:
    """Train and measure a configuration's networks from several starts that differ in the gates'
    biases alone.

    Starts are time scales for `spread_gates`, by name; all starts of a seed share weights, task and
    sequences. What comes out is as from `experiment.run`, with the dimension ``start`` in front.
    """
    for name, tau in starts.items():
        scales = np.asarray(tau, float)
        require(f"starts[{name!r}]", scales, scales > 0, "above 0")

    def member(model: Model, seed: int, tau: ArrayLike) -> xr.Dataset:
        return run_member(config, model, seed, prepare=partial(spread_gates, time_scales=tau))

    by_start = []
    for tau in starts.values():
        by_model = [
            xr.concat([member(model, seed, tau) for seed in config.seeds], "seed")
            for model in config.models
        ]
        by_start.append(xr.concat(by_model, "model"))
    labels = {"start": list(starts), "model": list(config.models), "seed": list(config.seeds)}
    return (
        xr.concat(by_start, "start").assign_coords(labels).assign_attrs(results.provenance(config))
    )


def compare(runs: xr.Dataset, n_sequences: int) -> pd.DataFrame:
    """Compare starts of one model, as `run_from` gives them, with the first one, at a number of
    sequences N.

    For each start: width of the zeroth-order spectrum behind training (decades), share of the task
    learned, what that is more than from the first start, seed by seed, and windows in steps; means
    over seeds (and probes) with the least and the largest seed.
    """
    end = runs.isel(snapshot=-1, model=0)
    share = learned_share(end)
    columns = {
        "width": ranges(width(end.course_time_scale.sel(order="zeroth")), "{:.2f}"),
        "learned": ranges(share, "{:.2f}"),
        f"more than {runs.start.values[0]}": ranges(share - share.isel(start=0), "{:+.2f}"),
    }
    for title, view, how in WINDOWS:
        found = windows(probes(end, view, "error"), n_sequences, **how).mean("probe")
        columns[f"{title} window"] = ranges(found, "{:.0f}")
    return pd.DataFrame(columns)
