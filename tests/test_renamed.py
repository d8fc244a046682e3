"""A former name works for one release, gives what the new name gives, and warns with the new name."""

import pytest
import torch
import xarray as xr

from lwcore import cells, experiment, figures, gradient, inference, network
from lwcore.experiment import Config
from lwcore.trace import Trace


@pytest.mark.parametrize(
    ("module", "former", "new"),
    [(inference, "LETTER", "PAPER_V2"), (inference, "OPTIMISER", "OPTIMISER_VIEW")],
)
def test_a_former_constant_is_the_new_one(module, former, new):
    with pytest.warns(
        DeprecationWarning, match=rf"{former} is now lwcore\.inference\.{new}"
    ) as warned:
        value = getattr(module, former)
    assert value is getattr(module, new)
    assert warned[0].filename == __file__


def test_a_name_that_never_was_is_no_name():
    assert not hasattr(inference, "TWICE")


def test_a_former_option_is_the_new_one(small_run):
    view = inference.probes(small_run, "zeroth", "error")
    expected = inference.required(view, **inference.PAPER_V2)
    once = inference.required(view, detector="paper_v2")
    assert not expected.equals(once)
    for counted, twice in ((expected, True), (once, False)):
        with pytest.warns(DeprecationWarning, match="twice is now called envelope_squared"):
            former = inference.required(view, detector="paper_v2", twice=twice)
        xr.testing.assert_identical(former, counted)


def test_a_former_way_to_change_a_configuration_is_the_new_one():
    smoke = Config.named("smoke")
    with pytest.warns(DeprecationWarning, match="Config.but is now called Config.replace"):
        former = smoke.but(seeds=[7], training={"steps": 5})
    assert former == smoke.replace(seeds=[7], training={"steps": 5})


def test_former_processes_are_the_new_ones():
    with pytest.warns(DeprecationWarning, match="processes is now called process_pool"):
        former = experiment.processes()
    with former, experiment.process_pool() as new:
        assert type(former) is type(new)


def test_a_former_picture_of_a_run_is_the_new_one(small_run):
    with pytest.warns(DeprecationWarning, match=r"summary is now lwcore\.figures\.overview"):
        former = figures.summary(small_run)
    titles = [axes.get_title() for axes in figures.overview(small_run).axes]
    assert [axes.get_title() for axes in former.axes] == titles


def test_former_signal_and_noise_is_the_new_one():
    with pytest.warns(
        DeprecationWarning, match=r"summary is now lwcore\.inference\.signal_and_noise"
    ):
        assert inference.summary is inference.signal_and_noise


def test_a_former_training_is_the_new_one():
    with pytest.warns(DeprecationWarning, match=r"network\.fit is now lwcore\.network\.train"):
        assert network.fit is network.train


def test_former_gradients_that_are_carried_back_are_the_new_ones():
    with pytest.warns(DeprecationWarning, match=r"transported is now lwcore\.gradient\.carry_back"):
        assert gradient.transported is gradient.carry_back


def test_a_former_scan_is_the_new_one():
    cell = cells.GRU(2, 3, generator=torch.Generator().manual_seed(0))
    inputs = torch.ones(1, 4, 2)
    with pytest.warns(DeprecationWarning, match=r"Trace\.of is now called Trace\.scan") as warned:
        former = Trace.of(cell, inputs, torch.zeros(1, 3))
    assert warned[0].filename == __file__
    new = Trace.scan(cell, inputs, torch.zeros(1, 3))
    assert torch.equal(former.history, new.history)
