"""The figures of the gradient chapters show what was computed."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from lwcore import matched, plots_gradient
from tests.networks import draw
from tests.test_matched import noise_terms

STATES = ("untrained", "trained")
RNG = np.random.default_rng(0)


def line(axes, label):
    (found,) = [curve for curve in axes.lines if curve.get_label() == label]
    return np.asarray(found.get_xdata(), float), np.asarray(found.get_ydata(), float)


@pytest.fixture
def vectors():
    """Lag parts of two cells and three seeds, before and after training: 8 lags, 5 parameters."""
    return {
        (state, model, seed): draw(8, 5, seed=10 * i + seed)
        for i, (state, model) in enumerate((s, m) for s in STATES for m in ("GRU", "LSTM"))
        for seed in (1, 2, 3)
    }


def test_lag_norms_are_medians_over_seeds(vectors):
    figure = plots_gradient.lag_norms(vectors, [2])
    assert figure.number not in plt.get_fignums()
    assert [axes.get_title() for axes in figure.axes] == list(STATES)
    lags, drawn = line(figure.axes[1], "LSTM")
    assert lags.tolist() == list(range(8))
    expected = torch.stack([vectors["trained", "LSTM", seed].norm(dim=1) for seed in (1, 2, 3)]).median(0).values
    np.testing.assert_allclose(drawn, expected)


def test_truncation_misses_what_is_left_out(vectors):
    _, drawn = line(plots_gradient.truncation(vectors, [4]).axes[0], "GRU")
    shares = []
    for seed in (1, 2, 3):
        parts = vectors["untrained", "GRU", seed]
        shares.append([(parts[kept + 1 :].sum(0).norm() / parts.sum(0).norm()).item() for kept in range(8)])
    np.testing.assert_allclose(drawn, np.median(shares, axis=0), atol=1e-14)
    assert drawn[-1] == pytest.approx(0, abs=1e-14)


def test_inflation_is_drawn_as_given():
    ratios = {("untrained", "GRU", 1): torch.tensor([1.5, 2.0]), ("trained", "GRU", 1): torch.tensor([3.0, 4.0])}
    figure = plots_gradient.inflation(ratios, [1, 4])
    assert [line(axes, "GRU")[1].tolist() for axes in figure.axes] == [[1.5, 2.0], [3.0, 4.0]]
    assert all(axes.get_xlabel() for axes in figure.axes)


def test_panels_by_order_show_shares_and_ratios():
    terms = noise_terms(50)
    keys = [(state, order, "DiagGate", seed) for state in STATES for order in ("zeroth", "exact") for seed in (1, 2)]
    agreements = {key: matched.agreement(terms, RNG) for key in keys}
    figure = plots_gradient.explained(agreements, [1, 3])
    assert [axes.get_title() for axes in figure.axes] == [f"{s}, {o}" for s in STATES for o in ("zeroth order", "exact diagonal")]
    np.testing.assert_allclose(line(figure.axes[3], "DiagGate")[1], agreements[keys[0]].explained.value)
    assert figure.get_supylabel()
    splits = {key: matched.factorisation(terms, terms.signs, RNG) for key in keys}
    figure = plots_gradient.factorised(splits, [1, 3])
    np.testing.assert_allclose(line(figure.axes[0], "DiagGate")[1], splits[keys[0]].ratio.value)


def test_own_signs_lie_on_the_closed_form():
    terms = noise_terms(400)
    raw, standard = plots_gradient.own_signs(terms, terms.signs, [1, 3], [10, 50]).axes
    curves = [curve for curve in raw.lines if len(curve.get_xdata()) == 2 and curve.get_linestyle() == "-"]
    np.testing.assert_allclose(curves[0].get_ydata(), [float(matched.own_sign_bias(terms, n)[0]) for n in (10, 50)])
    dots = {container.get_label(): container[0].get_ydata() for container in raw.containers}
    np.testing.assert_allclose(dots["lag 3"], [float(matched.own_sign_means(terms, n)[:, 1].mean()) for n in (10, 50)])
    assert len(standard.containers) == 4
    assert [text.get_text() for text in standard.get_legend().get_texts()] == ["own signs", "signs of others"]
