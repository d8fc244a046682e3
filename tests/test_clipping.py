"""What clipping does, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from book.chapters import clipping, tables_robust
from lwcore.stable import SymmetricStable


def test_clip_leaves_the_share():
    x = np.random.default_rng(0).standard_cauchy((3, 1001))
    clipped = clipping.clip(x, 0.9)
    np.testing.assert_allclose((clipped == x).mean(-1), 0.9, atol=1.5e-3)
    reach = np.quantile(np.abs(x), 0.9, axis=-1)
    np.testing.assert_array_equal(np.abs(clipped).max(-1), reach)
    np.testing.assert_array_equal(clipping.clip(x, 1.0), x)


def test_information_of_a_clipped_gaussian_is_the_closed_form():
    """Variance 2: I = ½ [c − 2 k φ(k)] + 4 φ(k)²/(2 (1 − c)) with k = Φ⁻¹((1 + c)/2), and the mean
    uses c²/E clip²."""
    c = 0.8
    k = stats.norm.ppf((1 + c) / 2)
    second = 2 * (c - 2 * k * stats.norm.pdf(k) + k**2 * (1 - c))
    fisher = (c - 2 * k * stats.norm.pdf(k)) / 2 + 4 * stats.norm.pdf(k) ** 2 / (2 * (1 - c))
    whole, clipped = clipping.information(2.0, [1.0, c]).values
    np.testing.assert_allclose(whole, [0.5, 0.5], rtol=1e-9)
    np.testing.assert_allclose(clipped, [fisher, c**2 / second], rtol=1e-6)


@pytest.mark.parametrize("alpha", [1.2, 1.5, 1.8])
def test_information_falls_and_what_the_mean_uses_stays_below_it(alpha):
    table = clipping.information(alpha)
    inside, used = table["in the clipped number"], table["used by their mean"]
    assert (inside.diff().dropna() < 1e-6).all(), "clipping harder cannot add information"
    assert inside.iloc[0] == pytest.approx(SymmetricStable(alpha).fisher_information(), rel=1e-6)
    assert (used <= inside + 1e-6).all()
    assert used.iloc[0] == 0
    assert (used.iloc[1:] > 0).all()


def test_mean_of_clipped_numbers_sees_the_shift_that_theory_says():
    """Slope of E clip(x + Δ) and variance by simulation, fixed C, within four standard errors."""
    rng = np.random.default_rng(1)
    law, share, shift = SymmetricStable(1.5), 0.9, 0.05
    reach = float(law.ppf((1 + share) / 2))
    x = law.sample(1_000_000, rng)
    moved, still = np.clip(x + shift, -reach, reach), np.clip(x, -reach, reach)
    slope = (moved - still).mean() / shift
    used = clipping.information(1.5, [share])["used by their mean"].iloc[0]
    assert slope**2 / still.var() == pytest.approx(used, rel=0.01)


def test_effects_on_stable_noise():
    """Quantiles blind to what is clipped read the same α; the exponent goes to 2 and fewer
    sequences are needed."""
    rng = np.random.default_rng(2)
    found = clipping.effects(
        SymmetricStable(1.3).sample((30, 1024), rng), "whole", rng, (1.0, 0.95, 0.5)
    )
    before, lightly, hard = (found.sel(share=s) for s in found.share.values)
    assert (
        float(before.alpha.sel(fit="mcculloch"))
        == float(lightly.alpha.sel(fit="mcculloch"))
        == pytest.approx(1.3, abs=0.06)
    )
    assert (hard.alpha == 2).all()
    assert float(before.exponent) > 3
    for one in (lightly, hard):
        assert float(one.exponent) == pytest.approx(2, abs=0.06)
        assert float(one.gain) > 2
    np.testing.assert_allclose(found.kept, found.share)


def test_effects_on_gaussian_noise_are_losses():
    """Without heavy tails clipping at c wins nothing: the gain is 2 c²/(E clip² in unit scale),
    below 1."""
    rng = np.random.default_rng(3)
    found = clipping.effects(SymmetricStable(2.0).sample((60, 1024), rng), "whole", rng, (1.0, 0.5))
    assert float(found.gain[1]) == pytest.approx(
        2 * clipping.information(2.0, [0.5])["used by their mean"].iloc[0], rel=0.1
    )


def test_signal_of_a_lag_is_clipped_too():
    rng = np.random.default_rng(4)
    x = rng.exponential(size=(20, 1024))
    kept = float(clipping.effects(x, "own", rng, (0.5,)).kept[0])
    reach = np.log(2)
    assert kept == pytest.approx(1 - np.exp(-reach), abs=0.03)  # E min(x, C)


def test_table_counts_rises():
    rng = np.random.default_rng(5)
    stable_noise = clipping.effects(
        SymmetricStable(1.5).sample((20, 1024), rng), "whole", rng, (1.0, 0.95)
    )
    networks = stable_noise.expand_dims(model=["GRU"], seed=[1, 2, 3])
    table = tables_robust.clipping(1.5, stable_noise, {"case": networks}, 0.95)
    assert table.loc["signal", "case"] == "1.00 → 0.95; rises in 0 of 3"
    assert table.loc["1 / sequences needed", "case"].endswith("rises in 3 of 3")
    assert table.loc["information in the clipped number (1/σ²)"].iloc[0] == "0.43 → 0.43"
