"""Runs that were recorded in parts are read as one."""

import pytest
import xarray as xr

from book.chapters.more_seeds import load_together
from lwcore.experiment.config import Config, config_of
from lwcore.results import save


@pytest.fixture(scope="module")
def first(small_run, tmp_path_factory):
    """The first seed of a run, recorded as a run of its own."""
    return stored(tmp_path_factory.mktemp("first"), small_run, small_run.seed.values[:1])


def stored(folder, run, seeds, **changes):
    """Store some seeds of a run as a run of their own."""
    config = Config.stored(run.attrs).replace(seeds=seeds.tolist(), name="part", **changes)
    named = {"name": config.name, "configuration": config.model_dump_json()}
    path = folder / "part.nc"
    save(run.sel(seed=seeds).assign_attrs(named | {"fingerprint": config.fingerprint}), path)
    return path


def test_parts_give_back_the_whole_run(small_run, first, tmp_path):
    run = small_run
    second = stored(tmp_path, run.drop_vars("loss"), run.seed.values[1:])
    together = load_together(first, second)
    xr.testing.assert_equal(together, run.drop_vars("loss"))
    assert config_of(together).replace(name="smoke") == config_of(run).replace(name="smoke")


def test_what_is_no_part_of_the_same_run_is_refused(small_run, first, tmp_path):
    run = small_run
    others = run.seed.values[1:]
    with pytest.raises(ValueError, match="of one configuration"):
        load_together(first, stored(tmp_path, run, others, training={"learning_rate": 0.1}))
    with pytest.raises(ValueError, match="of different seeds"):
        load_together(first, first)
    with pytest.raises(ValueError, match="lag"):
        load_together(first, stored(tmp_path, run.assign_coords(lag=run.lag + 1), others))


@pytest.mark.parametrize("name", ["paper-v2", "spectra", "single-lag", "single-lag-start"])
def test_the_new_seeds_of_a_run_are_configured_as_the_old(name):
    old, new = (Config.named(one) for one in (name, f"{name}-more"))
    apart = {"name", "description", "seeds"}
    assert new.model_dump(exclude=apart) == old.model_dump(exclude=apart)
    assert not set(new.seeds) & set(old.seeds)
