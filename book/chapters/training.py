"""Networks that chapters train: recorded once for their settings, like larger runs.

Where nothing is recorded for some settings, they are trained and recorded while the chapter runs.
"""

from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray

from lwcore import experiment
from lwcore.experiment import Config
from lwcore.network import Network

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "book" / "results" / "networks"


def networks(config: Config, trained: bool = True) -> dict[tuple[str, int], Network]:
    """Return networks by model and seed, as `lwcore.experiment.networks` makes them."""
    members = experiment.networks(config, trained=False)
    if not trained:
        return members
    weights = trained_weights(config)
    for (model, seed), network in members.items():
        for name, parameter in network.state_dict().items():
            parameter.copy_(torch.from_numpy(weights[f"{model}-{seed}/{name}"]))
    return members


def trained_weights(config: Config) -> dict[str, NDArray[Any]]:
    """Read what training left of all members, by model, seed and name; train what is missing."""
    settings = config.model_dump_json(include={"task", "network", "training"})
    path = RECORDED / f"{sha256(settings.encode()).hexdigest()[:16]}.npz"
    lock = ROOT / "_build" / f"{path.stem}.lock"
    lock.parent.mkdir(exist_ok=True)
    with FileLock(lock):  # chapters run in pairs
        weights = dict(np.load(path)) if path.exists() else {"settings": np.array(settings)}
        known = {key.partition("/")[0] for key in weights}
        missing = [
            (model, seed) for model, seed in config.members if f"{model}-{seed}" not in known
        ]
        for model, seed in missing:
            alone = config.replace(models=[model], seeds=[seed])
            network = experiment.networks(alone)[model, seed]
            for name, parameter in network.state_dict().items():
                weights[f"{model}-{seed}/{name}"] = parameter.float().numpy()
        if missing:
            path.parent.mkdir(exist_ok=True)
            unfinished = path.with_suffix(".unfinished.npz")
            np.savez_compressed(unfinished, **weights)
            unfinished.replace(path)
    return weights
