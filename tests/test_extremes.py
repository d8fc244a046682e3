"""One argument at the end of its range, the others as usual: the right value, without a warning, or
a refusal in words. Oracles: mpmath, closed forms, limits."""

import mpmath as mp
import numpy as np
import pytest
import xarray as xr

from lwcore import inference, results
from lwcore.detection import (
    detection_error,
    detection_threshold,
    kl_divergence,
    least_sequences,
    mutual_information,
    rate_exponent,
    sample_complexity,
)
from lwcore.elman.bounds import Problem
from lwcore.elman.descent import gradient_descent, risk_gradient
from lwcore.elman.kernel import TransportMaps, finite_kernel, limiting_kernel
from lwcore.elman.network import (
    empirical_risk,
    hidden_gradients,
    linear_model,
    output_gradients,
    symmetric_initialisation,
)
from lwcore.signatures import ArgumentError
from lwcore.stable import SymmetricStable, fit, goodness_of_fit
from lwcore.stats import binomial, bootstrap, most_covered, student
from lwcore.window import DecayLaw, regime_window, window_bounds

LARGEST = np.finfo(float).max


def mass_beyond(a, b, end, side):
    """The mass of Beta(a, b) beyond a number, by quadrature of the density."""
    with mp.workdps(30):
        a, b, end = mp.mpf(a), mp.mpf(b), mp.mpf(end)
        spread = mp.sqrt(a * b / (a + b) / (a + b) / (a + b + 1))
        constant = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)
        edges = {min(max(end + side * k * spread, 0), 1) for k in (0, 1, 2, 4, 8, 16, 30)}

        def density(x):
            if not 0 < x < 1:
                return mp.mpf(0)
            return mp.exp(constant + (a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x))

        return float(mp.quad(density, sorted(edges)))


@pytest.mark.parametrize(
    ("hits", "trials"),
    [
        (999, 10**9),  # a parameter of 1,000, at which SciPy's inverse fails
        (10**9 - 999, 10**9),
        (1000, 10**11),
        (30, 10**12),
        (3 * 10**11, 10**12),
        (7 * 10**15, 10**16),
        (20_000, 10**13),
        (9_999, 10**11),
        (36071641092455208, 55043371023804504),
    ],
)
@pytest.mark.parametrize("level", [0.95, 0.999])
def test_a_binomial_interval_leaves_out_what_it_says_at_any_number_of_trials(hits, trials, level):
    tail = (1 - level) / 2
    value, low, high = binomial(hits, trials, level)
    assert low < value < high
    assert mass_beyond(hits, trials - hits + 1, low, -1) == pytest.approx(tail, rel=1e-5)
    assert mass_beyond(hits + 1, trials - hits, high, 1) == pytest.approx(tail, rel=1e-5)


@pytest.mark.parametrize("detector", ["mean", "likelihood", "paper_v2"])
@pytest.mark.parametrize("count", [1, 3, 8, 17])
def test_minus_zero_is_zero(detector, count):
    """At any length of an array: NumPy takes the larger of 0 and −0 in several ways."""
    zeros = np.full(count, -0.0)
    assert np.all(sample_complexity(zeros, 1, 1, 1.5, detector=detector) == np.inf)
    assert np.all(sample_complexity(1, zeros, 1, 1.5, detector=detector) == np.inf)
    assert np.all(detection_threshold(10, zeros, 1, 1.5, detector=detector) == np.inf)
    lags = [1, 2, 3]
    bounds = [
        window_bounds(lags, [0.9, 0.5, 0.1], [1, zero, 1], 1, [10, 1e4], 1.5, detector=detector)
        for zero in (0.0, -0.0)
    ]
    np.testing.assert_array_equal(*bounds)
    means = np.array([[2.0, 0.0, -1.0]])
    found = [inference.significant(means, zero, 30, 0.05).tolist() for zero in (0.0, -0.0)]
    assert found == [[[True, False, False]]] * 2


def test_with_as_many_sequences_as_a_float_can_count_the_sign_is_known():
    """Beyond them nothing is left to learn; of shifts too small for even these, nothing is told."""
    for alpha in (1.2, 1.5, 1.99):
        for shift in (1e-3, 1.0, 1e6, 1e300, LARGEST):
            assert mutual_information(shift, alpha, 1, LARGEST) == pytest.approx(np.log(2))
            assert detection_error(LARGEST, shift, 1, alpha, "likelihood") == 0
        assert mutual_information(1e-200, alpha, 1, LARGEST) < 1e-80
        assert detection_error(LARGEST, 1e-200, 1, alpha, "likelihood") == 0.5


DURATION = np.timedelta64(2, "D")


@pytest.mark.parametrize(
    "call",
    [
        lambda: rate_exponent(DURATION),
        lambda: most_covered(DURATION),
        lambda: sample_complexity(1, 1, 1, 1.5, error=np.timedelta64(0, "s")),
        lambda: bootstrap(np.mean, DURATION),
        lambda: sample_complexity(np.array([DURATION], object), 1, 1, 1.5),
        lambda: sample_complexity([[DURATION]], 1, 1, 1.5),
    ],
)
def test_a_duration_is_no_number(call):
    """NumPy has it among its whole numbers."""
    with pytest.raises(ArgumentError, match=r"^\w+ = .*: must be "):
        call()


@pytest.mark.parametrize("detector", ["mean", "likelihood", "paper_v2"])
@pytest.mark.parametrize(
    ("scale", "alignment", "count"),
    [(5e-324, 1.0, 100.0), (1e-300, 1e300, 1e300), (1e300, 1e-300, 1.0), (LARGEST, 5e-324, 7.0)],
)
def test_a_window_under_a_law_is_finite_where_its_threshold_is_no_float(
    detector, scale, alignment, count
):
    """``log_λ(ε_th/c)``, from the logarithms of the threshold's factors."""
    law = DecayLaw("exponential", amplitude=1e200, decay=0.9)
    at_unit = mp.mpf(float(detection_threshold(1, 1, 1, 1.5, 0.1, detector)))
    log_threshold = mp.log(at_unit) + mp.log(scale) - mp.log(alignment)
    log_threshold -= mp.log(count) / rate_exponent(1.5, detector)
    expected = (mp.log("1e200") - log_threshold) / -mp.log(mp.mpf(0.9))
    found = regime_window(law, count, alignment, scale, 1.5, 0.1, detector)
    assert found == pytest.approx(float(max(expected, 0)), rel=1e-9)


def test_a_shift_beyond_all_scales_takes_one_sequence():
    for detector in ("mean", "median", "likelihood"):
        assert least_sequences([1.0, LARGEST], 5e-324, 1.5, 0.1, detector).tolist() == [1, 1]


def test_a_divergence_out_of_range_is_refused_by_the_name_of_what_is_out_of_range():
    with pytest.raises(ArgumentError, match=r"^shift/scale · n_sequences\^\(1 − 1/alpha\) = "):
        kl_divergence(1e150, 1.5, 1e-140, 1e300, "mean")


@pytest.mark.parametrize("level", [0.9999999, 1 - 2**-53])
def test_students_interval_holds_at_a_level_next_to_1(level):
    """Of two numbers the law is Cauchy's, whose quantile is a cotangent."""
    value, low, high = student([1.0, 3.0], level)
    half = float(mp.cot(mp.pi * (1 - mp.mpf(level)) / 2))
    assert (value, low, high) == pytest.approx((2, 2 - half, 2 + half), rel=1e-9)


def test_a_level_that_no_draw_reaches_is_refused_by_its_name():
    with pytest.raises(ArgumentError, match=r"^level = 0\.99999"):
        bootstrap(np.mean, 12, level=1 - 2**-53)


@pytest.mark.parametrize("method", ["mcculloch", "ecf", "mle"])
def test_a_fit_takes_the_largest_float(method):
    """An outlier at the end of the floats: it changes a fit no more than one at 1e200."""
    samples = SymmetricStable(1.5).sample(400, np.random.default_rng(0))
    far, farther = samples.copy(), samples.copy()
    far[0], farther[0] = 1e200, LARGEST
    found, expected = fit(farther, method), fit(far, method)
    assert found.alpha == pytest.approx(float(expected.alpha), rel=1e-2)
    assert found.scale == pytest.approx(float(expected.scale), rel=1e-2)
    goodness_of_fit(farther, found, np.random.default_rng(0), 5)


@pytest.mark.parametrize("confidence", [0.9999999, 1 - 2**-53])
@pytest.mark.parametrize("method", ["mcculloch", "ecf", "mle"])
def test_an_interval_at_a_confidence_next_to_1_holds_that_at_a_lower_one(method, confidence):
    samples = SymmetricStable(1.5).sample(400, np.random.default_rng(0))
    narrow, wide = fit(samples, method, 0.999), fit(samples, method, confidence)
    assert 0.51 <= wide.alpha_interval[0] < narrow.alpha_interval[0]
    assert narrow.alpha_interval[1] <= wide.alpha_interval[1] <= 2


@pytest.mark.parametrize(
    "samples", [1.0, [1.0], np.empty((5, 0)), [[1.0, 2.0]], np.ma.array([1.0, 2], mask=[0, 1])]
)
def test_goodness_of_fit_takes_what_was_fitted(samples):
    fitted = fit(SymmetricStable(1.5).sample(300, np.random.default_rng(0)))
    with pytest.raises(ArgumentError, match=r"^samples = "):
        goodness_of_fit(samples, fitted, np.random.default_rng(0))


@pytest.mark.parametrize("replicates", [10**9, 2**63 - 1])
def test_a_test_that_would_take_hours_is_refused(replicates):
    samples = SymmetricStable(1.5).sample(300, np.random.default_rng(0))
    with pytest.raises(ArgumentError, match=r"^samples · replicates = .* takes minutes"):
        goodness_of_fit(samples, fit(samples), np.random.default_rng(0), replicates)


@pytest.mark.parametrize("activation", ["tanh", "relu", "gaussian", "logistic"])
@pytest.mark.parametrize("alpha", [1e100, 1e160, 1e300, LARGEST])
def test_a_kernel_at_huge_weights_is_finite_or_refused(activation, alpha):
    inputs = [[[0.5], [0.4], [-0.3], [0.2]]]

    def call():
        return limiting_kernel(inputs, alpha=alpha, activation=activation, tolerance=1e-3)

    for part in finite_or_refused(call):
        assert np.isfinite(part).all()


@pytest.mark.parametrize("size", [1e160, LARGEST])
def test_inputs_of_any_size_are_refused_without_a_warning(size):
    with pytest.raises(ArgumentError, match="of norms up to 1"):
        limiting_kernel([[[size, 0.1]]], alpha=0.5)


HUGE = [1e160, 1e300, LARGEST]
ELMAN_INPUTS = 0.4 * np.random.default_rng(0).standard_normal((2, 4, 2)).clip(-1, 1)


@pytest.mark.parametrize("activation", ["tanh", "relu", "gaussian", "logistic"])
@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("entry", [(0, 0), (0, 1), ...])
def test_a_network_of_huge_parameters_gives_finite_numbers_or_a_refusal(activation, size, entry):
    start = symmetric_initialisation(4, 2, 0.7, np.random.default_rng(0), activation)
    parameters = start.parameters.copy()
    parameters[entry] = size
    targets = np.zeros((2, 4))
    made = start.at(parameters)
    calls = [
        lambda: made.hidden(ELMAN_INPUTS),
        lambda: made.outputs(ELMAN_INPUTS),
        lambda: hidden_gradients(made, ELMAN_INPUTS),
        lambda: output_gradients(made, ELMAN_INPUTS),
        lambda: linear_model(start, parameters, ELMAN_INPUTS),
        lambda: empirical_risk(made, ELMAN_INPUTS, targets),
        lambda: finite_kernel(made, ELMAN_INPUTS),
        lambda: np.concatenate([np.ravel(x) for x in risk_gradient(made, ELMAN_INPUTS, targets)]),
        lambda: gradient_descent(made, ELMAN_INPUTS, targets, 0.1, 2).risks,
    ]
    for call in calls:
        assert np.isfinite(finite_or_refused(call)).all()


def finite_or_refused(call):
    """What a call gives; nothing where it is refused in words."""
    try:
        return call()
    except ArgumentError as error:
        if "range of a float" in str(error) or "are floats" in str(error):
            return []
        raise


@pytest.mark.parametrize("size", HUGE)
def test_huge_targets_are_refused_by_their_name(size):
    network = symmetric_initialisation(4, 2, 0.7, np.random.default_rng(0))
    targets = np.full((2, 4), size)
    for call in (
        lambda: empirical_risk(network, ELMAN_INPUTS, targets),
        lambda: risk_gradient(network, ELMAN_INPUTS, targets),
        lambda: gradient_descent(network, ELMAN_INPUTS, targets, 0.1, 2),
    ):
        with pytest.raises(ArgumentError, match=r"^targets or .* must be smaller"):
            call()


def test_sizes_that_no_memory_holds_are_refused_by_their_name():
    rng = np.random.default_rng(0)
    network = symmetric_initialisation(4, 2, 0.7, rng)
    for width, dimension in ((2**62, 1), (10**300, 1), (4, 2**62), (2**31, 2**31)):
        with pytest.raises(ArgumentError, match=r"^width · \(1 \+ dimension\) = "):
            symmetric_initialisation(width, dimension, 0.7, rng)
    with pytest.raises(ArgumentError, match=r"^steps = .* takes days"):
        gradient_descent(network, ELMAN_INPUTS, np.zeros((2, 4)), 0.1, 2**62)
    with pytest.raises(ArgumentError, match=r"^length = "):
        Problem("tanh", 0.5, 10**400, 3, 1.0, 1.0)


def test_bounds_of_maps_may_be_as_large_as_floats():
    maps = TransportMaps(np.tanh, np.tanh, LARGEST, LARGEST)
    assert np.isfinite(maps.at(np.ones((4, 3)))).all()


def test_a_budget_below_0_is_refused_by_its_name():
    needed = xr.DataArray([10.0, 40.0], dims="lag", coords={"lag": [1, 2]})
    with pytest.raises(ArgumentError, match=r"^n_sequences contains -1\.0"):
        inference.window_of(needed, [5.0, -1.0])


def numbers(dtype, size=1.0):
    """Numbers of sequences, as measured, of a type that holds them exactly."""
    drawn = np.random.default_rng(0).integers(-8, 9, (2, 3, 2, 128)) * size
    dims = ("probe", "lag", "sequence")
    held = {name: (dims, part.astype(dtype)) for name, part in zip(NAMES, drawn, strict=True)}
    return xr.Dataset(
        held, coords={"view": ("probe", ["zeroth"] * 2 + ["gradient"]), "lag": [1, 2]}
    )


NAMES = ("statistic", "projection")


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, np.int8, np.int64, ">f8"])
def test_a_summary_is_of_double_precision_whatever_holds_the_numbers(dtype):
    found, expected = (inference.signal_and_noise(numbers(kind)) for kind in (dtype, float))
    xr.testing.assert_identical(found, expected)
    assert {found[name].dtype for name in ("signal", "scale", "deviation")} == {np.dtype(float)}


def test_numbers_whose_sums_are_no_floats_are_refused_by_their_name():
    with pytest.raises(ArgumentError, match=r"^numbers\.statistic contains .*1e290"):
        inference.signal_and_noise(numbers(float, 1e300))
    statistic = numbers(float, 1e300).statistic.values
    rng = np.random.default_rng(0)
    with pytest.raises(ArgumentError, match=r"^statistic contains .*1e290"):
        inference.false_detections(statistic, 0.05, rng)
    with pytest.raises(ArgumentError, match=r"^draws · sequences = .*1e\+09"):
        inference.false_detections(numbers(float).statistic.values, 0.05, rng, 2**62)
    assert inference.deviation([LARGEST, -LARGEST]) == np.inf
    assert inference.deviation([LARGEST, LARGEST / 2]) == pytest.approx(LARGEST / np.sqrt(8))


@pytest.mark.parametrize("path", ["", ".", "/"])
def test_a_path_without_a_name_is_refused(path):
    with pytest.raises(ArgumentError, match=r"^path = '.*': must be the path of a file"):
        results.save(xr.Dataset({"a": 1.0}), path)
