r"""Figures as light as they look: what matplotlib writes in full is written shortly, and nothing
moves by more than 0.005 points.

Corners and curves become steps of hundredths of a point. Letters get short names and places of two
numbers, groups that hold nothing of their own go, and points of one look say it once.
"""

import re
from pathlib import Path

PATHS = re.compile(r' d="((?:[MLQC] [^"\n]*\n|z\n)+)"')
POINTS = re.compile(r' *<use [^>]*?( style="[^"]*")/>\n(?: *<use [^>]*?\1/>\n)+')
PLACE = re.compile(r'(?<= [xy]=")-?\d+\.\d+(?=")')
LETTER = re.compile(r'<use href="(#[^"]*)" transform="translate\((\S+) (\S+)\)"/>')
NAME = re.compile(r'(?<= id=")[A-Z][\w-]*-[0-9a-f]+(?=")')
BARE = re.compile(
    r"<g>\n((?:<(?:use|path) [^>]*/>\n|<defs>\n(?:<path [^>]*/>\n)*</defs>\n)*)</g>\n"
)


def lighten(picture: str) -> str:
    """Rewrite an SVG picture by matplotlib."""
    short = PATHS.sub(lambda found: f' d="{steps(found[1])}"', picture)
    short = PLACE.sub(lambda found: f"{round(float(found[0]), 2)}", short)
    short = re.sub(r"^ +(?=<)", "", short, flags=re.MULTILINE)  # indentation
    short = re.sub(r"<!--(?:(?!-->).)*-->\n", "", short).replace("xlink:href=", "href=")
    # that matplotlib drew it, a half kB a figure
    short = re.sub(r"<metadata>.*?</metadata>\n", "", short, flags=re.DOTALL)
    short = re.sub(r'<g id="[^"]*"', "<g", short)  # nothing refers to a group
    short = re.sub(
        r' style="[^"]*"', lambda found: found[0].replace(": ", ":").replace("; ", ";"), short
    )
    short = LETTER.sub(lambda found: f'<use href="{found[1]}"{place(found[2], found[3])}/>', short)
    names = {name: f"g{number:x}" for number, name in enumerate(dict.fromkeys(NAME.findall(short)))}
    short = re.sub(
        r'(?<= id=")([^"]+)(?=")|(?<=href="#)([^"]+)(?=")',
        lambda found: names.get(found[0], found[0]),
        short,
    )
    while (bare := BARE.sub(r"\1", short)) != short:
        short = bare
    return POINTS.sub(lambda found: f"<g{found[1]}>\n{found[0].replace(found[1], '')}</g>\n", short)


def steps(path: str) -> str:
    """Take the steps between rounded corners, so that roundings do not add up; a step like the one
    before does not say so."""
    written, at, last = "", (0, 0), ""
    for command in path.splitlines():
        letter, *numbers = command.split()
        if letter == "z":
            written, last = written + "z", "z"
            continue
        corners = [round(100 * float(number)) for number in numbers]
        if letter != "M":
            corners = [corner - at[k % 2] for k, corner in enumerate(corners)]
            letter = letter.lower()
        words = "" if letter == last else letter
        for corner in corners:
            word = f"{corner / 100:.10g}"
            if abs(corner) < 100:
                word = word.replace("0.", ".")
            words += word if word[0] == "-" or words[-1:].isalpha() else f" {word}"
        written, last = written + words, letter
        x, y = corners[-2:]
        at = (x, y) if letter == "M" else (at[0] + x, at[1] + y)
    return written


def place(x: str, y: str) -> str:
    """Say where a letter stands, where that is not the beginning."""
    pairs = {"x": float(x), "y": float(y)}
    return "".join(f' {name}="{round(value, 2):g}"' for name, value in pairs.items() if value)


def lighten_pictures(app, exception):
    """Rewrite the pictures of the pages, once they are copied."""
    if exception is None and app.builder.format == "html":
        for path in (Path(app.outdir) / "_images").glob("*.svg"):
            picture = path.read_text(encoding="utf-8")
            if "<metadata>" in picture:  # else an earlier build has rewritten it
                path.write_text(lighten(picture), encoding="utf-8")


def setup(app):
    """Connect the one."""
    app.connect("build-finished", lighten_pictures)
