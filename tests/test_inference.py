"""What is inferred from numbers of sequences, where these are few, tied, or none of a run."""

import numpy as np
import pytest
import xarray as xr

from lwcore import inference
from lwcore.stable import SymmetricStable


def numbers(samples):
    """A dataset of numbers as they are measured, (probes, lags, sequences)."""
    probes, lags, _ = samples.shape
    dims = ("probe", "lag", "sequence")
    coordinates = {"view": ("probe", list("abcd")[:probes]), "lag": np.arange(1, lags + 1)}
    held = {"statistic": (dims, samples), "projection": (dims, samples)}
    return xr.Dataset(held, coordinates)


def draws(alpha, size):
    return SymmetricStable(alpha).sample(size, np.random.default_rng(4))


@pytest.mark.parametrize(
    ("alpha", "exponent", "count"),
    [(2.0, 2.0, 64), (2.0, 2.0, 96), (1.5, 3.0, 128)],
)
def test_exponent_of_means_is_that_of_the_law_however_many_numbers(alpha, exponent, count):
    found = inference.exponent_of_means(draws(alpha, (4000, count)))
    assert 1 / np.median(found) == pytest.approx(1 / exponent, abs=0.05)


@pytest.mark.parametrize("count", [1, 63])
def test_too_few_numbers_have_no_exponent(count):
    assert np.isnan(inference.exponent_of_means(draws(2.0, count)))
    assert np.isnan(inference.exponent_of_means(draws(2.0, (2, 3, count)))).all()


def test_numbers_of_any_size_have_the_deviation_and_the_exponent_of_the_usual_ones():
    usual = draws(2.0, 640)
    for unit in (1e-250, 1e100):
        assert inference.deviation(unit * usual) == pytest.approx(unit * usual.std(ddof=1))
        exponent = inference.exponent_of_means(usual)
        assert inference.exponent_of_means(unit * usual) == pytest.approx(exponent, rel=1e-9)
    assert np.isnan(inference.exponent_of_means(np.ones(64)))


def test_tail_index_is_taken_where_numbers_are_not_tied():
    samples = draws(1.8, (2, 3, 640))
    whole = inference.signal_and_noise(numbers(samples)).alpha
    tied = samples.copy()
    tied[0, :2, :200] = 0.0
    found = inference.signal_and_noise(numbers(tied)).alpha
    np.testing.assert_array_equal(found.isel(probe=1), whole.isel(probe=1))
    alone = inference.signal_and_noise(numbers(samples[:1, 2:])).alpha
    np.testing.assert_array_equal(found.isel(probe=0), alone.isel(probe=0))
    tied[:, :, :200] = 0.0
    for without in (tied, draws(0.8, (1, 2, 640))):  # means of these do not concentrate
        assert np.isnan(inference.signal_and_noise(numbers(without)).alpha).all()
    assert inference.sequences_needed(1.0, 1.0, [1.0, np.nan]).tolist() == [np.inf, np.inf]


@pytest.mark.parametrize(
    ("samples", "words"), [(np.full((1, 1, 9), 1e160), "size up to"), (np.ones((1, 1, 1)), "2 or")]
)
def test_numbers_too_large_or_too_few_are_refused(samples, words):
    with pytest.raises(ValueError, match=words):
        inference.signal_and_noise(numbers(samples))


def test_a_summary_is_of_double_precision_whatever_holds_the_numbers():
    drawn = np.random.default_rng(0).integers(-8, 9, (2, 2, 128))
    found, expected = (
        inference.signal_and_noise(numbers(drawn.astype(dtype))) for dtype in (np.float16, float)
    )
    xr.testing.assert_identical(found, expected)
    assert {found[name].dtype for name in ("signal", "scale", "deviation")} == {np.dtype(float)}
