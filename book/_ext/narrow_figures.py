"""Figures whose panels stand in one column on a telephone.

A notebook's picture holds that second one, hidden (`lwcore.figures.use_book_style`). Here it becomes
a file of its own, and a narrow window asks for it in the place of the wide one.
"""

import re
from pathlib import Path

HIDDEN = re.compile(r'(<svg) display="none"(.*</svg>)\s*(?=</svg>\s*\Z)', re.DOTALL)
SIZE = re.compile(r'width="([\d.]+)pt" height="([\d.]+)pt"')
SHOWN = re.compile(r'<img [^>]*src="((?:\.\./)*_images/[\w-]+)\.svg"[^>]*>')
SOURCE = (
    '<source media="screen and (max-width: 576px)" srcset="{address}-narrow.svg" '
    'width="{width}" height="{height}" />'
)


def split(picture: str) -> tuple[str, str]:
    """Take a picture and the hidden one in it apart; the second is empty where none is."""
    hidden = HIDDEN.search(picture)
    if hidden is None:
        return picture, ""
    return HIDDEN.sub("", picture), "".join(hidden.groups())


def offer_narrow(app, pagename, templatename, context, doctree):
    """Name both pictures in the page, the narrow one for narrow screens and not for paper."""
    if "body" not in context or app.builder.format != "html":
        return
    path_of = {Path(name).stem: path for path, name in app.builder.images.items()}

    def with_narrow(image):
        """Put an image into an element that offers its narrow picture, if it has one."""
        address = image[1]
        file = Path(app.srcdir) / path_of[Path(address).name]
        _, narrow = split(file.read_text("utf-8"))
        if not narrow:
            return image[0]
        width, height = SIZE.search(narrow).groups()
        source = SOURCE.format(
            address=address, width=round(float(width)), height=round(float(height))
        )
        has_panels = 'id="axes_2"' in narrow
        style = ' class="panels"' if has_panels else ""
        return f"<picture{style}>{source}{image[0]}</picture>"

    context["body"] = SHOWN.sub(with_narrow, context["body"])


def split_pictures(app, exception):
    """Write the narrow pictures into files of their own, once the pictures are copied."""
    if exception is not None or app.builder.format != "html":
        return
    for path in (Path(app.outdir) / "_images").glob("*.svg"):
        wide, narrow = split(path.read_text("utf-8"))
        if narrow:  # else an earlier build has split it
            path.write_text(wide, "utf-8")
            path.with_stem(f"{path.stem}-narrow").write_text(narrow, "utf-8")


def setup(app):
    """Connect both."""
    app.connect("html-page-context", offer_narrow, priority=950)
    app.connect("build-finished", split_pictures, priority=400)
