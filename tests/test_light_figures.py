"""Figures made lighter: corners, curves, letters and points stay where they were and look as they
did."""

import re
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pytest
from light_figures import lighten

NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)")


def corners(path):
    """Follow a path of moves, lines and curves, absolute or in steps: its corners, those that shape
    a curve included."""
    at, passed = np.zeros(2), []
    for letter, rest in re.findall(r"([MLQClqcz])([^MLQClqcz]*)", path):
        pairs = np.array(NUMBER.findall(rest), float).reshape(-1, 2)
        size = {"Q": 2, "C": 3}.get(letter.upper(), 1)
        for k in range(0, len(pairs), size):
            one = pairs[k : k + size] + (at if letter.islower() else 0)
            at = one[-1]
            passed += [(letter.upper(), *corner) for corner in one]
        passed += [("Z", 0, 0)] if letter == "z" else []
    return passed


def a_line(axes):
    axes.plot(np.random.default_rng(0).normal(size=5000).cumsum())
    axes.set(xlabel="step $t$", title="curves: $\\sqrt{x}$")


def points(axes):
    for x, y in np.random.default_rng(0).normal(size=(2, 2, 500)):
        axes.scatter(x, y, alpha=0.5)


def bars_and_a_clip(axes):
    axes.fill_between([1, 2, 3], [1, 3, 2], alpha=0.3, hatch="//")
    axes.errorbar([1, 2, 3], [1, 2, 3], yerr=0.2, marker="o")
    axes.set(yscale="log", xlim=(1.5, 2.5))


@pytest.mark.parametrize("draw", [a_line, points, bars_and_a_clip])
def test_corners_letters_and_points_keep_their_place_and_their_look(tmp_path, draw):
    figure, axes = plt.subplots()
    draw(axes)
    figure.savefig(tmp_path / "picture.svg")
    plt.close(figure)
    before = (tmp_path / "picture.svg").read_text()
    after = lighten(before)
    assert lighten(after) == after
    assert len(after) < 0.65 * len(before)
    roots = [ElementTree.fromstring(text) for text in (before, after)]
    paths = [[one.get("d") for one in root.iter() if one.get("d")] for root in roots]
    for old, new in zip(*(map(corners, some) for some in paths), strict=True):
        assert [letter for letter, *_ in new] == [letter for letter, *_ in old]
        places = ([place for _, *place in some] for some in (new, old))
        np.testing.assert_allclose(*places, atol=0.00501)
    looks = [seen(root) for root in roots]
    assert len(looks[0]) > 20
    assert [look[1:] for look in looks[1]] == [look[1:] for look in looks[0]]
    places = ([look[0] for look in some] for some in looks)
    np.testing.assert_allclose(*places, atol=0.00501)


def style_of(element):
    """What an element says of its look."""
    parts = re.split(r";\s*", element.get("style", ""))
    written = dict(re.split(r":\s*", part, maxsplit=1) for part in parts if part)
    clip = element.get("clip-path")
    return written | ({"clip-path": clip} if clip else {})


def seen(root):
    """List what a picture uses: where, how often a corner its shape has, in which style, and within
    which moves of its groups."""
    shapes = {element.get("id"): element for element in root.iter() if element.get("id")}
    found = []

    def walk(element, style, moves):
        style, move = style | style_of(element), element.get("transform")
        if element.tag.endswith("use"):
            name = next(value for key, value in element.attrib.items() if key.endswith("href"))
            shape = shapes[name[1:]]
            place = [float(element.get("x", 0)), float(element.get("y", 0))]
            if move and (shift := re.fullmatch(r"translate\((\S+) (\S+)\)", move)):
                place, move = [float(number) for number in shift.groups()], None
            if shape.get("d"):
                found.append((place, len(corners(shape.get("d"))), style, (*moves, move)))
        for child in element:
            walk(child, style, (*moves, move) if move else moves)

    walk(root, {}, ())
    return found
