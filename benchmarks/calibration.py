"""How often windows are wrong: rules of detection on drawn numbers, and on networks whose error is
noise (``make calibration``)."""

from pathlib import Path

import numpy as np
import xarray as xr
from rich.progress import track

from book.chapters.calibration import PLANTED, counts, draw
from lwcore import experiment, results
from lwcore.experiment.config import Config, DiagnosticSettings
from lwcore.experiment.measure import observe

FOLDER = Path(__file__).parents[1] / "book" / "results" / "trust"
ALPHAS = (1.2, 1.5, 1.8, 2.0)
SIZES = (64, 256, 1024)
TRIALS = 1000
AT_ONCE = 50
SIGNIFICANCE = 0.05  # a level at which a thousand trials can tell right from wrong
TRUTHS = {"nothing": (0.0,) * len(PLANTED), "planted": PLANTED}
NETWORK_TRIALS = {64: 400, 256: 100}  # of the same numbers, taken together otherwise


def drawn() -> xr.Dataset:
    """Count on numbers drawn from stable laws."""
    settings = DiagnosticSettings(
        sequences=32,
        lags=(1,),
        ends=1,
        directions=1,
        orders=("exact",),
        significance=SIGNIFICANCE,
        budgets=(1,),
    )
    cases = [(truth, alpha, n) for truth in TRUTHS for alpha in ALPHAS for n in SIZES]
    parts = []
    for number, (truth, alpha, n) in enumerate(track(cases, "drawn numbers")):
        rng = np.random.default_rng([number, 20])
        true_window = sum(x >= 1 for x in TRUTHS[truth])
        batches = [
            counts(draw(alpha, n, AT_ONCE, rng, TRUTHS[truth]), settings, true_window)
            for _ in range(TRIALS // AT_ONCE)
        ]
        parts.append(
            sum(batches[1:], batches[0]).expand_dims(truth=[truth], alpha=[alpha], n_sequences=[n])
        )
    return xr.combine_by_coords(parts, combine_attrs="drop").assign_attrs(trials=TRIALS)  # type: ignore[union-attr, return-value]


def networks() -> xr.Dataset:
    """Count on trained networks whose error is replaced by noise."""
    most = max(n * trials for n, trials in NETWORK_TRIALS.items())
    models = ("ConstGate", "SharedGate", "DiagGate", "GRU", "LSTM")
    config = Config.named("quick").replace(
        models=models,
        seeds=(212,),
        diagnostics={"sequences": 2 * most, "significance": SIGNIFICANCE},
    )
    parts = []
    for (model, seed), network in track(experiment.networks(config).items(), "networks"):
        fresh = experiment.fresh_sequences(config, seed)
        observed = observe(network, fresh, config.diagnostics, seed).sel(source="noise", drop=True)
        for n, trials in NETWORK_TRIALS.items():
            regrouped = (
                observed.isel(sequence=slice(n * trials))
                .coarsen(sequence=n)
                .construct(sequence=("trial", "sequence"))
            )
            batches = [
                counts(regrouped.isel(trial=slice(start, start + AT_ONCE)), config.diagnostics)
                for start in range(0, trials, AT_ONCE)
            ]
            counted = sum(batches[1:], batches[0]).assign(trials=trials)
            parts.append(counted.expand_dims(model=[model], n_sequences=[n]))
    combined = xr.combine_by_coords(parts, combine_attrs="drop")
    return combined.assign_attrs(configuration=config.model_dump_json())  # type: ignore[union-attr, return-value]


def main() -> None:
    """Measure and record."""
    for name, measure in {"calibration": drawn, "calibration-networks": networks}.items():
        data = measure()
        made = {
            "name": name,
            "significance": SIGNIFICANCE,
            "fingerprint": name,
        } | results.environment()
        results.save(data.assign_attrs(data.attrs | made), FOLDER / f"{name}.nc")


if __name__ == "__main__":
    main()
