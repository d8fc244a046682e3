"""Figures as light as they look: lines are written as steps of hundredths of a point, and points of one look say it once.

Matplotlib writes every corner of a line in full, to a millionth of a point, and the colours of every point. Curves (letters, in units of
their own) are left as they are.
"""

import re
from pathlib import Path

LINES = re.compile(r' d="((?:[ML] \S+ \S+ \n|z\n)+)"')
POINTS = re.compile(r' *<use [^>]*?( style="[^"]*")/>\n(?: *<use [^>]*?\1/>\n)+')
PLACE = re.compile(r'(?<= [xy]=")-?\d+\.\d+(?=")')


def lighten(picture: str) -> str:
    """Rewrite an SVG picture by matplotlib; nothing moves by more than 0.005 points."""
    lines = LINES.sub(lambda found: f' d="{steps(found[1])}"', picture)
    points = POINTS.sub(lambda found: f"<g{found[1]}>\n{found[0].replace(found[1], '')}</g>\n", lines)
    placed = PLACE.sub(lambda found: f"{round(float(found[0]), 2)}", points)
    return re.sub(r"^ +(?=<)", "", placed, flags=re.MULTILINE)  # indentation


def steps(path: str) -> str:
    """Take the steps between rounded corners, so that roundings do not add up."""
    written, at = [], (0, 0)
    for command in path.splitlines():
        if command == "z":
            written.append("z")
            continue
        letter, *corner = command.split()
        x, y = (round(100 * float(number)) for number in corner)
        written.append(f"M{x / 100} {y / 100}" if letter == "M" else f"l{(x - at[0]) / 100:g} {(y - at[1]) / 100:g}")
        at = x, y
    return "".join(written)


def lighten_pictures(app, exception):
    """Rewrite the pictures of the pages, once they are copied."""
    if exception is None and app.builder.format == "html":
        for path in (Path(app.outdir) / "_images").glob("*.svg"):
            picture = path.read_text(encoding="utf-8")
            if (light := lighten(picture)) != picture:
                path.write_text(light, encoding="utf-8")


def setup(app):
    """Connect the one."""
    app.connect("build-finished", lighten_pictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
