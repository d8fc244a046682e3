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
    """Networks by model and seed, as `lwcore.experiment.networks` makes them."""
    if not trained:
        return experiment.networks(config, trained)
    made, code = config.model_dump_json(include={"task", "network", "training"}), code_fingerprint()
    found: dict[tuple[str, int], Network] = {}
    for member in config.members:
        lock = Path(MEMORY.location) / "{}-{}.lock".format(*member)
        with FileLock(lock):  # chapters run in pairs
            found[member] = _trained(*member, made, code, config)
    return found


@MEMORY.cache(ignore=["config"])
def _trained(model: str, seed: int, made: str, code: str, config: Config) -> Network:
    """One network, kept by model, seed, the settings it is made of, and the code."""
    return experiment.networks(config.replace(models=[model], seeds=[seed]))[model, seed]
