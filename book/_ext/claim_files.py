"""The files of claims, read before any page: one that cannot be read ends the build, which names it."""

from sphinx.errors import ExtensionError

from book.claims.ledger import CHAPTERS, ROOT, Claims, registry


def read_all(app):
    """Read every file of claims."""
    for path in CHAPTERS:
        try:
            Claims(path)
        except Exception as error:
            name = path.relative_to(ROOT).as_posix()
            raise ExtensionError(f"{name}: {in_words(error)}") from None
    registry()


def in_words(error):
    """Say what is wrong with a file of claims."""
    if isinstance(error, KeyError):
        return f"the line `{error.args[0]} = …` is missing at its top"
    return str(error)


def setup(app):
    """Connect it."""
    app.connect("builder-inited", read_all)
