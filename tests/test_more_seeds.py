"""Runs that were recorded in parts are read as one."""

import numpy as np
import pytest
import xarray as xr

from book.chapters.more_seeds import load_together
from lwcore.experiment.config import Config, config_of
from lwcore.inference import probes, windows
from lwcore.results import load, save
from tests.built_book import ROOT

PAPER = ROOT / "book" / "results" / "paper-v2.nc"


@pytest.fixture(scope="module")
def run():
    return load(PAPER)


def stored(folder, run, seeds, **changes):
    """Store some seeds of a run as a run of their own."""
    config = Config.stored(run.attrs).replace(seeds=seeds, name=f"part-{seeds[0]}", **changes)
    part = run.sel(seed=list(seeds))
    part.attrs = run.attrs | {
        "name": config.name,
        "configuration": config.model_dump_json(),
        "fingerprint": config.fingerprint,
        "revision": f"revision-{seeds[0]}",
    }
    path = folder / f"{config.name}.nc"
    save(part, path)
    return path


def test_parts_give_back_the_whole_run(run, tmp_path):
    first = stored(tmp_path, run, [212])
    second = stored(tmp_path, run, [1001, 2002])
    together = load_together(first, second)
    xr.testing.assert_equal(together, run)
    config = config_of(together)
    assert config.seeds == (212, 1001, 2002)
    assert config.replace(name="paper-v2") == config_of(run)
    window = windows(probes(together, "zeroth", "error"), 512)
    xr.testing.assert_equal(window, windows(probes(run, "zeroth", "error"), 512))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"training": {"learning_rate": 0.1}}, "of one configuration"),
        ({"network": {"gate_init": 0.4}, "task": {"noise": 0.2}}, "of one configuration"),
    ],
)
def test_another_setting_is_refused_by_name(run, tmp_path, changes, named):
    first = stored(tmp_path, run, [212])
    second = stored(tmp_path, run, [1001], **changes)
    with pytest.raises(ValueError, match=named):
        load_together(first, second)


def test_a_seed_in_two_parts_is_refused(run, tmp_path):
    first = stored(tmp_path, run, [212, 1001])
    second = stored(tmp_path, run, [1001, 2002])
    with pytest.raises(ValueError, match="of different seeds"):
        load_together(first, second)


def test_numbers_that_are_no_seeds_own_must_agree(run, tmp_path):
    first = stored(tmp_path, run, [212])
    second = stored(tmp_path, run.assign_coords(lag=run.lag + 1), [1001])
    with pytest.raises(ValueError, match="lag"):
        load_together(first, second)
    third = stored(tmp_path, run.assign(n_measured=run.n_measured + 1), [2002])
    with pytest.raises(ValueError, match="n_measured"):
        load_together(first, third)


@pytest.mark.parametrize("name", ["paper-v2", "spectra", "single-lag", "single-lag-start"])
def test_the_new_seeds_of_a_run_are_configured_as_the_old(name):
    folder = ROOT / "book" / "results"
    old = Config.stored(load(folder / f"{name}.nc").attrs)
    new = Config.named(f"{name}-more")
    apart = {"name", "description", "seeds"}
    assert new.model_dump(exclude=apart) == old.model_dump(exclude=apart)
    assert not set(new.seeds) & set(old.seeds)
    if (folder / f"{name}-more.nc").exists():
        together = load_together(folder / f"{name}.nc", folder / f"{name}-more.nc")
        assert together.seed.values.tolist() == [*old.seeds, *new.seeds]
        assert not np.isnan(together.learned).all(("delay",)).any()
