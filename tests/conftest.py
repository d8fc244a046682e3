"""What the tests share: the built book, served locally, and a real browser to read it with."""

import os
import shutil
import socket
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.built_book import BOOK, BROWSER, NO_BROWSER

collect_ignore = ["reader.py"]  # mypy alone reads it
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",
)
# Where the browser sends what is not for this machine: nobody listens at that port. To stop it on
# its way would cost the browser's cache, and every page would compile the same scripts again.
NOWHERE = {"server": "http://127.0.0.1:9", "bypass": "127.0.0.1"}


def stay_here(event, arguments):
    """Refuse every connection that leaves this machine: nothing installed needs the network."""
    if event != "socket.connect":
        return
    socket_, address = arguments
    if socket_.type != socket.SOCK_STREAM or not isinstance(address, tuple):
        # to connect a datagram's socket sends nothing: Dask asks in this way for the machine's own
        # address
        return
    host = str(address[0])
    if not host.startswith(("127.", "::1", "localhost")):
        raise PermissionError(f"a test asked for {address}: nothing may need the network")


sys.addaudithook(stay_here)


def pytest_configure(config):
    """Stop at once where the browser is compulsory and missing."""
    if BROWSER and not shutil.which(BROWSER):
        raise pytest.UsageError(f"LW_BROWSER = {BROWSER!r}: there is no such program.")
    if not BROWSER and os.environ.get("LW_REQUIRE_BROWSER") == "1":
        raise pytest.UsageError(f"LW_REQUIRE_BROWSER is set, but {NO_BROWSER}")


@pytest.fixture(scope="session")
def small_run():
    """Run three families of cells, small."""
    from lwcore.experiment import Config, run

    models = ["ConstGate", "SharedGate", "DiagGate"]
    return run(Config.named("smoke").replace(models=models), progress=False)


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line on the screen for each."""

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture(scope="session")
def site():
    """Serve the built book on this machine; give its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=BOOK))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser():
    """Start a browser without a window; tests that ask for it are skipped where there is none."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=QUIET, proxy=NOWHERE)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser, site):
    """Open one tab for all pages of a module; list complaints, and what is not of the book."""
    tab = browser.new_page()
    tab.complaints = complaints = []

    def asked(request):
        if not request.url.startswith((site, "data:", "blob:")):
            complaints.append(f"asks for {request.url}")

    def refused(response):
        if response.status >= 400:
            complaints.append(f"{response.status} {response.url}")

    def said(message):
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    tab.on("request", asked)
    tab.on("response", refused)
    tab.on("console", said)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    yield tab
    tab.close()
