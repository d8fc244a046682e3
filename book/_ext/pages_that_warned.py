"""Pages that warned are read again by the next build: Sphinx takes a page that has not changed for
read, and would pass it without a word.

Their names are kept beside the pages' trees, also for a build by another command.
"""

import json
import logging
from copy import copy
from pathlib import Path

from sphinx.util.logging import WarningLogRecordTranslator, is_suppressed_warning


class Listener(logging.Handler):
    """Collects the pages that warnings are about, as Sphinx would print them."""

    def __init__(self, app):
        """Listen to a build."""
        super().__init__(logging.WARNING)
        self.app = app
        self.pages = set()

    def emit(self, record):
        """Note the page of a warning: the one it names, or else the one that is being read."""
        env = getattr(self.app, "env", None)
        kind = getattr(record, "type", "")
        subkind = getattr(record, "subtype", "")
        suppressed = self.app.config.suppress_warnings
        if env is None or is_suppressed_warning(kind, subkind, suppressed):
            return
        record = copy(record)  # others read it, too
        WarningLogRecordTranslator(self.app).filter(record)  # writes the place as a path and a line
        place = str(getattr(record, "location", None) or "")
        page = env.path2doc(place.partition(":")[0]) if place else None
        if page not in env.all_docs:
            page = env.temp_data.get("docname")
        if page is not None:
            self.pages.add(page)


def record(app):
    """Say where the names are kept."""
    return Path(app.doctreedir) / "pages_that_warned.json"


def begin(app, env, *_):
    """Have the pages read again that warned the last time."""
    app.pages_that_warned.pages.clear()
    known = json.loads(record(app).read_text()) if record(app).exists() else []
    return [page for page in known if page in env.found_docs]


def end(app, exception):
    """Keep the names of the pages that warned."""
    record(app).write_text(json.dumps(sorted(app.pages_that_warned.pages)))


def setup(app):
    """Connect it."""
    app.pages_that_warned = Listener(app)
    logging.getLogger("sphinx").addHandler(app.pages_that_warned)
    app.connect("env-get-outdated", begin)
    app.connect("build-finished", end)
