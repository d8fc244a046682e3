"""Figures whose panels stand in one column on a telephone.

A notebook's picture holds that second one, hidden (`lwcore.figures.use_book_style`). Here it becomes
a file of its own, and a narrow window asks for it in the place of the wide one.
"""

import re
from pathlib import Path

HIDDEN = re.compile(r'(<svg) display="none"(.*</svg>)\s*(?=</svg>\s*\Z)', re.DOTALL)
SIZE = re.compile(r'width="([\d.]+)pt" height="([\d.]+)pt"')
SHOWN = re.compile(r'<img [^>]*src="((?:\.\./)*_images/[\w-]+)\.svg"[^>]*>')


def split(picture: str) -> tuple[str, str]:
    """Take a picture and the hidden one in it apart; the second is empty where none is."""
    hidden = HIDDEN.search(picture)
    return HIDDEN.sub("", picture), "".join(hidden.groups()) if hidden else ""


def offer_narrow(app, pagename, templatename, context, doctree):
    """Name both pictures in the page, the narrow one for narrow screens and not for paper."""
    paths = {Path(name).stem: path for path, name in app.builder.images.items()}

    def both(found):
        _, narrow = split((Path(app.srcdir) / paths[Path(found[1]).name]).read_text("utf-8"))
        if not narrow:
            return found[0]
        width, height = (round(float(size)) for size in SIZE.search(narrow).groups())
        source = f'<source media="screen and (max-width: 576px)" srcset="{found[1]}-narrow.svg" width="{width}" height="{height}" />'
        several = ' class="panels"' if 'id="axes_2"' in narrow else ""
        return f"<picture{several}>{source}{found[0]}</picture>"

    if "body" in context and app.builder.format == "html":
        context["body"] = SHOWN.sub(both, context["body"])


def split_pictures(app, exception):
    """Write the narrow pictures into files of their own, once the pictures are copied."""
    if exception is None and app.builder.format == "html":
        for path in (Path(app.outdir) / "_images").glob("*.svg"):
            wide, narrow = split(path.read_text("utf-8"))
            if narrow:  # else an earlier build has split it
                path.write_text(wide, "utf-8")
                path.with_stem(f"{path.stem}-narrow").write_text(narrow, "utf-8")


def setup(app):
    """Connect both."""
    app.connect("html-page-context", offer_narrow, priority=950)
    app.connect("build-finished", split_pictures, priority=400)
