"""All packages that this environment needs for the book, with their licences: the directive
``dependencies``."""

from importlib import metadata

from docutils import nodes
from docutils.parsers.rst import Directive
from packaging.requirements import Requirement

PACKAGE = "lwcore"
EXTRAS = ("", "book", "test", "cluster")
HEAD = ("package", "version", "licence", "asked for by")


def needed(package: str = PACKAGE, extras: tuple[str, ...] = EXTRAS) -> dict[str, bool]:
    """Follow what packages ask for, as far as it is installed here.

    Returns the name of each, and whether `package` asks for it by itself.
    """
    by_name: dict[str, bool] = {}
    waiting = [(package, extras)]
    while waiting:
        asking, wanted = waiting.pop()
        for line in metadata.requires(asking) or []:
            requirement = Requirement(line)
            name = requirement.name.lower().replace("_", "-")
            if name in by_name or not applies(requirement, wanted) or not is_installed(name):
                continue
            by_name[name] = asking == package
            waiting.append((name, ("", *requirement.extras)))
    return by_name


def applies(requirement: Requirement, extras: tuple[str, ...]) -> bool:
    """Tell whether a requirement is for this machine and for one of some extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


def is_installed(package: str) -> bool:
    """Tell whether a package is here; one that an extra asks for may not be."""
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def licence(package: str) -> str:
    """Read a package's licence: its own expression, or else what its classifiers say."""
    about = metadata.metadata(package)
    expression = about.get("License-Expression")
    if expression:
        return expression
    classified = []
    for line in about.get_all("Classifier") or []:
        name = line.rpartition(" :: ")[2]
        if line.startswith("License ::") and name != "OSI Approved":
            classified.append(name)
    if classified:
        return ", ".join(classified)
    stated = about.get("License") or ""
    is_whole_text = len(stated) > 80 or "\n" in stated
    return "not stated" if is_whole_text or not stated else stated


class Dependencies(Directive):
    """A table of them: name, version, licence, and whether we ask for it or another package."""

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        group = nodes.tgroup("", cols=len(HEAD))
        for _ in HEAD:
            group += nodes.colspec(colwidth=1)
        group += nodes.thead("", row(HEAD))
        body = nodes.tbody("")
        for name, is_direct in sorted(needed().items()):
            asked_by = "ours" if is_direct else ""
            body += row((name, metadata.version(name), licence(name), asked_by))
        group += body
        return [nodes.table("", group, classes=["dependencies"])]


def row(cells: tuple[str, ...]) -> nodes.row:
    """Make a row of plain text."""
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", cell)) for cell in cells))


def setup(app):
    """Add the directive."""
    app.add_directive("dependencies", Dependencies)
