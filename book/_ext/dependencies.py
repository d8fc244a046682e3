"""All packages that this environment needs for the book, with their licences: the directive
``dependencies``."""

from importlib import metadata

from docutils import nodes
from docutils.parsers.rst import Directive
from packaging.requirements import Requirement

PACKAGE, EXTRAS = "lwcore", ("", "book", "test", "cluster")


def needed(package: str = PACKAGE, extras: tuple[str, ...] = EXTRAS) -> dict[str, bool]:
    """Follow what packages ask for: the name of each that is installed here, and whether `package`
    asks for it by itself."""
    found: dict[str, bool] = {}
    waiting = [(package, extras)]
    while waiting:
        name, wanted = waiting.pop()
        for line in metadata.requires(name) or []:
            asked = Requirement(line)
            key = asked.name.lower().replace("_", "-")
            if key in found or (
                asked.marker
                and not any(asked.marker.evaluate({"extra": extra}) for extra in wanted)
            ):
                continue
            try:
                metadata.version(key)
            except metadata.PackageNotFoundError:  # an extra that is not installed
                continue
            found[key] = name == package
            waiting.append((key, ("", *asked.extras)))
    return found


def licence(package: str) -> str:
    """Read a package's licence: its own expression, or else what its classifiers say."""
    about = metadata.metadata(package)
    classified = [
        line.rpartition(" :: ")[2]
        for line in about.get_all("Classifier") or []
        if line.startswith("License ::")
    ]
    stated = about.get("License-Expression") or about.get("License") or ""
    if len(stated) > 80 or "\n" in stated:  # the whole text of a licence
        stated = ""
    return (
        about.get("License-Expression")
        or ", ".join(word for word in classified if word != "OSI Approved")
        or stated
        or "not stated"
    )


class Dependencies(Directive):
    """A table of them: name, version, licence, and whether we ask for it or another package
    does."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        rows = [
            (name, metadata.version(name), licence(name), "ours" if direct else "")
            for name, direct in sorted(needed().items())
        ]
        head = ("package", "version", "licence", "asked for by")
        group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in head), cols=len(head))
        group += nodes.thead("", row(head))
        group += nodes.tbody("", *map(row, rows))
        return [nodes.table("", group, classes=["dependencies"])]


def row(cells: tuple[str, ...]) -> nodes.row:
    """Make a row of plain text."""
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", cell)) for cell in cells))


def setup(app):
    """Add the directive."""
    app.add_directive("dependencies", Dependencies)
