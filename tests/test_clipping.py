"""What clipping does, against closed forms."""

import numpy as np
import pytest
from scipy import stats

from book.chapters import clipping
from lwcore.stable import SymmetricStable


def test_clip_leaves_the_share():
    x = np.random.default_rng(0).standard_cauchy((3, 1001))
    clipped = clipping.clip(x, 0.9)
    np.testing.assert_allclose((clipped == x).mean(-1), 0.9, atol=1.5e-3)
    reach = np.quantile(np.abs(x), 0.9, axis=-1)
    np.testing.assert_array_equal(np.abs(clipped).max(-1), reach)
    np.testing.assert_array_equal(clipping.clip(x, 1.0), x)


def test_effects_on_stable_noise():
    """Quantiles blind to what is clipped read the same α; the exponent goes to 2 and fewer
    sequences are needed."""
    rng = np.random.default_rng(2)
    found = clipping.effects(
        SymmetricStable(1.3).sample((30, 1024), rng), "whole", rng, (1.0, 0.95, 0.5)
    )
    before, lightly, _ = found.alpha.sel(fit="mcculloch").values
    assert before == lightly == pytest.approx(1.3, abs=0.06)
    assert (found.alpha[2] == 2).all()
    assert float(found.exponent[0]) > 3
    np.testing.assert_allclose(found.exponent[1:], 2, atol=0.06)
    assert (found.gain[1:] > 2).all()
    np.testing.assert_allclose(found.kept, found.share)


def test_effects_on_gaussian_noise_are_losses():
    """Without heavy tails clipping at c wins nothing: the gain is 2 c²/(E clip² in unit scale),
    below 1."""
    rng = np.random.default_rng(3)
    found = clipping.effects(SymmetricStable(2.0).sample((60, 1024), rng), "whole", rng, (1.0, 0.5))
    k = stats.norm.ppf(0.75)
    second = 0.5 - 2 * k * stats.norm.pdf(k) + k**2 * 0.5
    assert float(found.gain[1]) == pytest.approx(0.5**2 / second, rel=0.1)


def test_signal_of_a_lag_is_clipped_too():
    rng = np.random.default_rng(4)
    x = rng.exponential(size=(20, 1024))
    kept = float(clipping.effects(x, "own", rng, (0.5,)).kept[0])
    reach = np.log(2)
    assert kept == pytest.approx(1 - np.exp(-reach), abs=0.03)  # E min(x, C)
