"""What is inferred from numbers of sequences, where these are few, tied, or none of a run."""

import numpy as np
import pytest
import xarray as xr

from lwcore import inference
from lwcore.signatures import ArgumentError
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
    [(2.0, 2.0, 64), (2.0, 2.0, 96), (2.0, 2.0, 128), (2.0, 2.0, 1024), (1.5, 3.0, 128)],
)
def test_exponent_of_means_is_that_of_the_law_however_many_numbers(alpha, exponent, count):
    found = inference.exponent_of_means(draws(alpha, (4000, count)))
    assert 1 / np.median(found) == pytest.approx(1 / exponent, abs=0.05)


@pytest.mark.parametrize("count", [1, 15, 16, 31, 32, 63])
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
    assert np.isnan(inference.signal_and_noise(numbers(tied)).alpha).all()


FOREIGN = xr.Dataset({"loss": 1.0})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: inference.signal_and_noise(FOREIGN), "numbers holds loss: it must hold statistic"),
        (
            lambda: inference.signal_and_noise(numbers(np.full((1, 1, 20), np.nan))),
            r"numbers\.statistic contains nan: every entry must be finite",
        ),
        (
            lambda: inference.signal_and_noise(numbers(np.full((1, 1, 20), 1e151))),
            r"numbers\.statistic contains 1e\+151: every entry must be finite, of a size up to 1e",
        ),
        (
            lambda: inference.signal_and_noise(numbers(np.ones((1, 1, 1)))),
            r"sizes\['sequence'\] = 1",
        ),
        (
            lambda: inference.signal_and_noise(numbers(np.ones((1, 1, 20))).drop_vars("view")),
            r"numbers holds .*: it must hold view \(probe\), as measured",
        ),
        (lambda: inference.required(FOREIGN), "results holds loss: it must hold signal, as meas"),
        (lambda: inference.detected(FOREIGN), "results holds loss: it must hold signal, as meas"),
        (lambda: inference.probes(FOREIGN, "whole"), "results holds loss: it must hold view, as m"),
        (
            lambda: inference.window_of(FOREIGN.loss, [1]),
            r"needed holds .*: it must hold lag \(lag",
        ),
        (
            lambda: inference.window_of(xr.DataArray([1.0, 2], {"lag": [2, 1]}, "lag"), [1]),
            r"lags = \[2, 1\]: must be",
        ),
        (
            lambda: inference.window_of(xr.DataArray([np.nan], {"lag": [1]}, "lag"), [1]),
            "required = .*nan.*: must be|required contains nan",
        ),
        (
            lambda: inference.window_of(xr.DataArray([1.0], {"lag": [1]}, "lag"), [[1]]),
            r"n_sequences = \[\[1\]\]: must be a number, or a list of numbers",
        ),
        (lambda: inference.sequences_needed(np.nan, 1.0, 1.5), "signal = nan: must be finite"),
        (lambda: inference.sequences_needed(1.0, 1.0, 2.5), r"alpha = 2\.5: must be 2 or below"),
        (
            lambda: inference.sequences_needed(1.0, np.nan, 1.5, detector="fast"),
            "detector = 'fast': must be one of",
        ),
        (lambda: inference.significant(1.0, 1.0, 10, 0.05), r"mean = 1\.0: must be of shape"),
        (
            lambda: inference.significant([[1.0]], [[1.0]], 0, 0.05),
            "count contains 0.0: every entry must be 1 or",
        ),
        (
            lambda: inference.significant([[1.0, 2.0, 3.0]], [[1.0, 2.0]], 5, 0.05),
            r"mean, error, count of shapes \(1, 3\), \(1, 2\), \(1, 1\): must broadcast",
        ),
        (lambda: inference.deviation([1.0]), r"numbers = \[1\.0\]: must be two or more"),
    ],
)
def test_what_is_no_run_and_no_number_is_refused_in_words(call, words):
    with pytest.raises(ArgumentError, match=words):
        call()
