"""Runs that were recorded in parts are read as one."""

import numpy as np
import pytest
import xarray as xr

from book.chapters.more_seeds import load_together
from lwcore.experiment.config import Config, config_of
from lwcore.results import save


def stored(folder, run, seeds):
    """Store some seeds of a run as a run of their own."""
    config = Config.stored(run.attrs).replace(seeds=seeds.tolist(), name="part")
    named = {"name": config.name, "configuration": config.model_dump_json()}
    path = folder / f"{seeds[0]}.nc"
    save(run.sel(seed=seeds).assign_attrs(named | {"fingerprint": config.fingerprint}), path)
    return path


def test_parts_give_back_the_whole_run(small_run, tmp_path):
    first, *others = small_run.seed.values
    one = stored(tmp_path, small_run, np.array([first]))
    rest = stored(tmp_path, small_run.drop_vars("loss"), np.array(others))
    together = load_together(one, rest)
    xr.testing.assert_equal(together, small_run.drop_vars("loss"))
    assert config_of(together).replace(name="smoke") == config_of(small_run).replace(name="smoke")


@pytest.mark.parametrize("name", ["paper-v2", "spectra", "single-lag", "single-lag-start"])
def test_the_new_seeds_of_a_run_are_configured_as_the_old(name):
    old, new = (Config.named(one) for one in (name, f"{name}-more"))
    apart = {"name", "description", "seeds"}
    assert new.model_dump(exclude=apart) == old.model_dump(exclude=apart)
    assert not set(new.seeds) & set(old.seeds)
