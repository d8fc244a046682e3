"""Figures made lighter: every corner of a line stays where it was, and curves are left alone."""

import re
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
from light_figures import lighten


def corners(path):
    """Follow a path of moves, lines and steps."""
    at, passed = np.zeros(2), []
    for letter, *number in re.findall(r"([MLlz])\s*(-?[\d.e-]+)?\s*(-?[\d.e-]+)?", path):
        if letter != "z":
            at = np.array(number, float) + (at if letter == "l" else 0)
            passed.append(at)
    return np.array(passed)


def test_corners_stay_where_they_were(tmp_path):
    figure, axes = plt.subplots()
    axes.plot(np.random.default_rng(0).normal(size=5000).cumsum())
    figure.savefig(tmp_path / "line.svg")
    plt.close(figure)
    before = (tmp_path / "line.svg").read_text()
    after = lighten(before)
    paths = [[element.get("d") for element in ElementTree.fromstring(text).iter() if element.get("d")] for text in (before, after)]
    assert len(after) < 0.6 * len(before)
    assert len(paths[0]) == len(paths[1])
    for old, new in zip(*paths, strict=True):
        if re.search("[QC]", old):
            assert new == old
        else:
            np.testing.assert_allclose(corners(new), corners(old), atol=0.00501)
    assert lighten(after) == after


def test_points_keep_their_places_and_their_look(tmp_path):
    figure, axes = plt.subplots()
    places = np.random.default_rng(0).normal(size=(2, 2, 500))
    for x, y in places:
        axes.scatter(x, y, alpha=0.5)
    figure.savefig(tmp_path / "points.svg")
    plt.close(figure)
    before = (tmp_path / "points.svg").read_text()
    after = lighten(before)
    looks = [seen(ElementTree.fromstring(text)) for text in (before, after)]
    assert len(after) < 0.7 * len(before)
    assert [look[1:] for look in looks[0]] == [look[1:] for look in looks[1]]
    np.testing.assert_allclose([look[0] for look in looks[1]], [look[0] for look in looks[0]], atol=0.00501)
    assert lighten(after) == after


def seen(element, style=None):
    """List what a picture uses: where, in which style, and which shape."""
    style = element.get("style", style)
    if element.tag.endswith("use"):
        shape = next(value for key, value in element.attrib.items() if key.endswith("href"))
        return [((float(element.get("x", 0)), float(element.get("y", 0))), style, shape, element.get("transform"))]
    return [found for child in element for found in seen(child, style)]
