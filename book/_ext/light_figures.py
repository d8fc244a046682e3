"""Figures as light as they look: lines are written as steps of hundredths of a point, at a third of the size that matplotlib gives them.

Matplotlib writes every corner of a line in full, to a millionth of a point. Curves (letters, in units of their own) are left as they are.
"""

import re
from pathlib import Path

LINES = re.compile(r' d="((?:[ML] \S+ \S+ \n|z\n)+)"')


def lighten(picture: str) -> str:
    """Write the lines of an SVG picture by matplotlib as steps; no corner moves by more than 0.005 points."""
    return LINES.sub(lambda found: f' d="{steps(found[1])}"', picture)


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
