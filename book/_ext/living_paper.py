"""What the book asks of Sphinx beyond Jupyter Book: pages and charts that load nothing from
elsewhere."""

import atexit
import gc
import os
import re
from functools import cache
from pathlib import Path

from pybtex import plugin

ROOT = Path(__file__).parents[2]
SIGNATURE = re.compile(r"<dl>\n((?:<dd><em class=\"sig-param\">.*</dd>\n)+)</dl>")
PARAMETER = re.compile(r"<dd>(.*)</dd>")
# What the theme and Sphinx write → what can be heard, or reached by keyboard.
MENDED = {
    '<summary aria-label="Toggle hidden content">': "<summary>",
    '<figure class="': '<figure tabindex="0" class="',
    'role="doc-biblioentry"': 'role="listitem"',
    # a figure is fetched when it comes near: a long chapter has a dozen
    "<img ": '<img loading="lazy" ',
    '<div class="math ': '<div tabindex="0" class="math ',
    '<div class="amsmath math ': '<div tabindex="0" class="amsmath math ',
    '<div class="pst-scrollable-table-container">': (
        '<div tabindex="0" class="pst-scrollable-table-container">'
    ),
    "<th></th>": "<td></td>",
    '<a class="word ': '<a data-bs-toggle="tooltip" class="word ',
}
# An opened fold that is wider than its place has to be reachable by keyboard. The theme looks at
# what scrolls when the window changes its size, and finds nothing in a closed one.
WATCH_FOLDS = """document.addEventListener("toggle", event => {
  if (event.target.open) window.dispatchEvent(new Event("resize"));
}, true);"""
SCROLLS = re.compile(
    r'(tag_output_scroll.*?<div class="cell_output docutils container")>', re.DOTALL
)


def watch_assets(app, config):
    """Write the pages again after an edit of styles, scripts, templates or notation.

    Sphinx would keep the old ones.
    """
    paths = [ROOT / "book" / "notation.md"]
    for folder in ("_static", "_templates", "_ext"):
        paths += (ROOT / "book" / folder).rglob("*.*")
    stamps = [(str(path), path.stat().st_mtime_ns) for path in paths if path.suffix != ".pyc"]
    config.page_assets = str(sorted(stamps))


def name_repository(app, config):
    """Add source, issue and Binder buttons where the repository's address is known.

    That is in continuous integration. The sidebar shows pages under others around the reader alone.
    """
    config.html_theme_options["collapse_navbar"] = True
    if "GITHUB_REPOSITORY" in os.environ:
        server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
        config.html_theme_options |= {
            "repository_url": f"{server}/{os.environ['GITHUB_REPOSITORY']}",
            "repository_branch": "main",
            "use_repository_button": True,
            "use_source_button": True,
            "use_issues_button": True,
            "launch_buttons": {
                "binderhub_url": "https://mybinder.org",
                "notebook_interface": "jupyterlab",
            },
        }


def trim_mathjax(app, config):
    """Load what pages use of MathJax, formulas for screen readers included.

    The usual single file brings a menu of 0.4 MB as well.
    """
    config.mathjax_path = "mathjax/startup.js"
    parts = ["core", "input/tex", "output/chtml", "a11y/assistive-mml"]
    config.mathjax3_config = (config.mathjax3_config or {}) | {"loader": {"load": parts}}


def mend_page(app, pagename, templatename, context, doctree):
    """Mend what those who hear the page would stumble over, and leave out what no page uses.

    Thebe is left out, which would be fetched from elsewhere. Folded code is named by the text it
    shows, an entry of the contents that unfolds by its title, and works in a bibliography are items
    of its list. A signature on several lines is a list of parameters, not of definitions without
    terms, and the empty corner of a table heads nothing. What may scroll can be reached by
    keyboard: figures, formulas and tables on narrow screens, long outputs everywhere.
    """
    scripts = context["script_files"]
    for script in list(scripts):
        if "thebe" in f"{script.filename} {script.attributes}".lower():
            scripts.remove(script)
    if "body" in context:
        body = context["body"]
        for written, better in MENDED.items():
            body = body.replace(written, better)
        body = SCROLLS.sub(r'\1 tabindex="0">', body)
        for signature in SIGNATURE.finditer(body):
            listed = PARAMETER.sub(r"<li>\1</li>", signature[1])
            body = body.replace(signature[0], f'<ul class="parameters">\n{listed}</ul>')
        context["body"] = body
    contents = context["generate_toctree_html"]
    context["generate_toctree_html"] = lambda *args, **options: name_folds(
        contents(*args, **options)
    )


def name_folds(contents):
    """Name the fold of an entry of the contents by the entry's title.

    The theme shows an arrow alone.
    """
    for fold in contents.select("li > details > summary") if contents else ():
        fold["aria-label"] = f"Pages of {fold.find_parent('li').a.get_text(strip=True)}"
    return contents


def bring_charts(app, pagename, templatename, context, doctree):
    """Put Vega and the script that draws charts on pages that hold one: about 300 kB, as sent.

    Vega, its compiler and vega-embed come out of vl-convert as one file, of the version that Altair
    writes for.
    """
    if '<div class="chart"' not in context.get("body", ""):
        return
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    bundle = Path(app.outdir) / "_static" / f"vega-lite-{version}.js"
    if not bundle.exists():
        bundle.write_text(f"(() => {{{vl_convert.javascript_bundle(vl_version=version)}}})();")
    app.add_js_file(bundle.name, loading_method="defer")
    app.add_js_file("charts.js", loading_method="defer")


def setup(app):
    """Connect them."""
    # A build keeps what it makes: looking for what could be freed takes ten seconds of it.
    gc.set_threshold(500_000)
    atexit.register(gc.freeze)
    # Else all that is installed is looked through for each citation.
    plugin.find_plugin = cache(plugin.find_plugin)
    app.add_config_value("page_assets", "", "html")
    app.connect("config-inited", watch_assets)
    app.connect("config-inited", name_repository)
    app.connect("config-inited", trim_mathjax)
    app.add_js_file(None, body=WATCH_FOLDS)
    app.connect("html-page-context", bring_charts)
    app.connect("html-page-context", mend_page, priority=900)
