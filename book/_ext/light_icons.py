r"""Icons as light as the few that are used: Font Awesome's font and style sheet hold two thousand,
a page of this book a dozen.

Once the pages are written, the icons that any page, script or style sheet names are put into one
font, ``icons.woff``, and what their classes say into one style sheet, ``icons.css``: 20 kB in the
place of 260 kB. ``_templates/static/webpack-macros.html`` links it.
"""

import re
from io import BytesIO
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

ICON = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"\\([0-9a-f]+)"\}')
FACE = re.compile(r"@font-face\{[^}]*\}")
NAMED = re.compile(r"\bfa-[a-z0-9-]+")
# in a style sheet, as a code or as it is
DRAWN = re.compile(r"\\([ef][0-9a-f]{3})\b|([\ue000-\uf8ff])")
OUR_FACE = '@font-face{font-display:block;font-family:Font Awesome\\ 6 Free;font-style:normal;font-weight:900;src:url(icons.woff) format("woff")}'


def pick(sheet: str, names: set[str]) -> tuple[str, set[int]]:
    """Keep of a style sheet of icons what some names need.

    Args:
        sheet: Font Awesome's style sheet, minified.
        names: The classes that are used, such as ``fa-download``.

    Returns:
        The sheet with these icons alone and our font, and the characters that they are.
    """
    characters = set()

    def kept(rule):
        own = [name for name in rule[1].split(",") if name[1:].removesuffix(":before") in names]
        if own:
            characters.add(int(rule[2], 16))
        return f'{",".join(own)}{{content:"\\{rule[2]}"}}' if own else ""

    return OUR_FACE + ICON.sub(kept, FACE.sub("", sheet)), characters


def subset(font: Path, characters: set[int]) -> bytes:
    """Keep some characters of a font, as WOFF."""
    with TTFont(font, recalcTimestamp=False) as whole:
        whole.flavor = "woff"
        options = Options()
        options.flavor = "woff"
        subsetter = Subsetter(options)
        subsetter.populate(unicodes=sorted(characters))
        subsetter.subset(whole)
        made = BytesIO()
        whole.save(made)
    return made.getvalue()


def lighten_icons(app, exception):
    """Write the icons that the built pages use."""
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    (sheet,) = static.glob("vendor/fontawesome/*/css/all.min.css")
    (font,) = static.glob("vendor/fontawesome/*/webfonts/fa-solid-900.ttf")
    pages = [
        path.read_text(encoding="utf-8")
        for kind in ("html", "js")
        for path in Path(app.outdir).rglob(f"*.{kind}")
    ]
    sheets = [
        path.read_text(encoding="utf-8")
        for path in static.rglob("*.css")
        if path != sheet and path.name != "icons.css"
    ]
    names = {name for text in pages + sheets for name in NAMED.findall(text)}
    drawn = {
        int(code or f"{ord(sign):x}", 16) for text in sheets for code, sign in DRAWN.findall(text)
    }
    style, characters = pick(sheet.read_text(encoding="utf-8"), names)
    (static / "icons.css").write_text(style, encoding="utf-8")
    (static / "icons.woff").write_bytes(subset(font, characters | drawn))
    # the theme keeps these among what pages load
    for template in static.glob("*webpack-macros.html"):
        template.unlink()


def setup(app):
    """Connect the one."""
    app.connect("build-finished", lighten_icons)
