"""Numbers of networks, against planted laws and NumPy."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats as scipy_stats

from book.chapters import by_network
from book.chapters.more_seeds import load_together
from lwcore.experiment.config import Config, config_of
from lwcore.results import save


def test_decay_laws_are_those_that_were_planted(small_run):
    planted = small_run.assign(envelope=3 * 0.7**small_run.lag + 0 * small_run.envelope)
    laws = by_network.decay_laws(planted)
    pure = laws.sel(law="exponential")
    np.testing.assert_allclose(pure.decay, 0.7)
    np.testing.assert_allclose(pure.r_squared, 1)
    assert (laws.aicc.idxmin("law") == "exponential").all()
    assert laws.slow.sel(law="two_exponentials").notnull().all()
    assert laws.slow.sel(law="power").isnull().all()


def test_learned_share_is_taken_at_the_tasks_lags(small_run):
    task = Config.named("smoke").task
    lags = list(task.lags)
    share = by_network.learned_share(small_run)
    assert share.dims == ("model", "seed", "lag")
    assert share.lag.values.tolist() == lags
    expected = small_run.learned.sel(delay=lags) / np.array(task.coefficients)
    np.testing.assert_allclose(share, expected)
    with pytest.raises(ValueError, match=rf"task's lags contains {task.lags[0]}\.0: .* among"):
        by_network.learned_share(small_run.drop_sel(lag=task.lags[0]))


def test_share_is_taken_at_the_tasks_own_delay():
    """Of a sweep as it is recorded: coefficients by delay, beyond a task's last delay NaN."""
    names = {"model": ["GRU"], "seed": [1, 2], "lag": [3, 6, 12], "sequences": [32, 64]}
    values = np.random.default_rng(0).uniform(size=(1, 2, 3, 2))
    share = xr.DataArray(values, names, tuple(names))
    delay = xr.DataArray(range(1, 31), {"delay": range(1, 31)}, ("delay",))
    of_task = xr.where(delay == share.lag, 0.5, 0.0).where(delay <= share.lag + 4)
    planted = of_task + 0 * share
    sweep = xr.Dataset({"learned": planted * share, "planted": planted})
    in_another_order = sweep.isel(lag=[2, 0, 1])
    learned = by_network.single_lag_share(in_another_order)
    assert learned.dims == share.dims
    np.testing.assert_allclose(learned, share)


def of_three_seeds(values):
    return xr.DataArray(values, dims=("model", "seed"), coords={"seed": [1, 2, 3]})


def test_what_has_no_sign_gets_it_on_the_logarithmic_scale():
    reading = by_network.by_seed(of_three_seeds([[1e-25, 1e-24, 1e-23]]))
    ends = scipy_stats.ttest_1samp([-25, -24, -23], 0).confidence_interval()
    assert np.log10(reading.low) == pytest.approx(ends.low)
    assert np.log10(reading.high) == pytest.approx(ends.high)


def test_range_over_networks_is_as_sure_as_their_seeds(small_run):
    f = small_run.envelope.isel(lag=0)
    n_seeds = f.seed.size
    kept = f.where(f.seed != f.seed[0])
    reading = by_network.ranged(kept, kept.isel(seed=[1]))
    assert reading.low == kept.min()
    assert reading.high == kept.max()
    assert reading.n == n_seeds - 1
    assert reading.covers == 1 - 2.0 ** (2 - n_seeds)


def test_conditions_with_unlike_numbers_of_seeds_each_get_an_interval_over_their_own():
    six = xr.DataArray([[-0.3, -0.31, -0.36, -0.37, -0.33, -0.34]], dims=("run", "seed"))
    three = of_three_seeds([[-0.32, -0.33, -0.30]])
    reading = by_network.by_seed(six, three, signed=True)
    assert reading.value == pytest.approx(-0.33)
    of_six = scipy_stats.ttest_1samp(np.ravel(six), 0).confidence_interval()
    of_three = scipy_stats.ttest_1samp(np.ravel(three), 0).confidence_interval()
    assert reading.low == pytest.approx(min(of_six.low, of_three.low))
    assert reading.high == pytest.approx(max(of_six.high, of_three.high))
    assert reading.n == 3
    assert reading.covers == 0.95
    assert reading.cases is None


def test_parts_of_a_run_give_back_the_whole(small_run, tmp_path):
    paths = []
    for seed in small_run.seed.values:
        config = Config.stored(small_run.attrs).replace(seeds=[int(seed)], name="part")
        named = {"name": config.name, "configuration": config.model_dump_json()}
        part = small_run.sel(seed=[seed]).assign_attrs(named | {"fingerprint": config.fingerprint})
        paths.append(tmp_path / f"{seed}.nc")
        save(part.drop_vars("loss") if len(paths) > 1 else part, paths[-1])
    together = load_together(*paths)
    xr.testing.assert_equal(together, small_run.drop_vars("loss"))
    assert config_of(together).replace(name="smoke") == config_of(small_run).replace(name="smoke")
