"""Networks that chapters train, once for their settings and the package's code.

Whichever chapter is executed first trains them; the others find them in the build.
"""

from pathlib import Path

from filelock import FileLock
from joblib import Memory

from lwcore import experiment
from lwcore.experiment import Config
from lwcore.network import Network
from lwcore.results import code_fingerprint

MEMORY = Memory(Path(__file__).parents[2] / "_build" / "networks", verbose=0)


def networks(config: Config, trained: bool = True) -> dict[tuple[str, int], Network]:
    """Return networks by model and seed, as `lwcore.experiment.networks` makes them.

    Only trained ones are kept; untrained ones are made faster than read.
    """
    if not trained:
        return experiment.networks(config, trained)
    settings = config.model_dump_json(include={"task", "network", "training"})
    code = code_fingerprint()
    by_member: dict[tuple[str, int], Network] = {}
    for model, seed in config.members:
        with FileLock(Path(MEMORY.location) / f"{model}-{seed}.lock"):  # chapters run in pairs
            by_member[model, seed] = _trained(model, seed, settings, code, config)
    return by_member


@MEMORY.cache(ignore=["config"])
def _trained(model: str, seed: int, settings: str, code: str, config: Config) -> Network:
    """Train one network; it is kept by model, seed, the settings it is made of, and the code."""
    return experiment.networks(config.replace(models=[model], seeds=[seed]))[model, seed]
