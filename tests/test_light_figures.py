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
