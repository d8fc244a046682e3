"""What the tests share: the built book, served locally, and a real browser to read it with."""

import os
import shutil
import signal
import socket
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.built_book import BOOK, BROWSER, NO_BROWSER

QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",
)


def stay_here(event, arguments):
    """Refuse every connection that leaves this machine: nothing here needs the network once it is
    installed."""
    if (
        event != "socket.connect"
        or arguments[0].type != socket.SOCK_STREAM
        or not isinstance(arguments[1], tuple)
    ):
        # to connect a datagram's socket sends nothing: Dask asks in this way for the machine's own
        # address
        return
    if not str(arguments[1][0]).startswith(("127.", "::1", "localhost")):
        raise PermissionError(f"a test asked for {arguments[1]}: nothing may need the network")


sys.addaudithook(stay_here)
# A shell has what it starts in the background ignore Ctrl-C, and all that starts in its turn: the
# tests of Ctrl-C would wait in vain.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """Stop at once where the browser is compulsory and missing."""
    if BROWSER and not shutil.which(BROWSER):
        raise pytest.UsageError(f"LW_BROWSER = {BROWSER!r}: there is no such program.")
    if not BROWSER and os.environ.get("LW_REQUIRE_BROWSER") == "1":
        raise pytest.UsageError(f"LW_REQUIRE_BROWSER is set, but {NO_BROWSER}")


def pytest_unconfigure(config):
    """Say on the last line what was not tested."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter and any(
        NO_BROWSER in str(report.longrepr) for report in reporter.stats.get("skipped", [])
    ):
        reporter.write_line(
            f"NOT TESTED: the built pages in a real browser ({NO_BROWSER}).", yellow=True
        )


class QuietHandler(SimpleHTTPRequestHandler):
    """Serve files without a line on the screen for each."""

    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def site():
    """Address of the built book on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=BOOK))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser():
    """A headless browser; tests that ask for it are skipped where there is none."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=QUIET)
        yield browser
        browser.close()
