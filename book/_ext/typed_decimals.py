"""Decimals in prose: a result is computed beside its sentence or comes from a claim; what may be
typed is a setting.

``{setting}`ALPHA` `` writes what the code of the page gives ALPHA, so that who changes the code
changes the sentence.

What may be typed stands in ``book/settings_in_prose.toml``, with what it is. Places in a paper
("Lemma 5.1") and values of symbols ("α = 1.5") may always be typed. The build warns of every other
decimal, with its line.
"""

import re
import tomllib
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxRole
from sphinx.util.logging import getLogger

SETTINGS = Path(__file__).parents[1] / "settings_in_prose.toml"
# Chapters on the papers' theory, whose decimals are those of formulas and of their examples
THEORY = re.compile(r"notebooks/(0[345]|A_|B_)")
OTHER_PAGES = ("book/intro",)

DECIMAL = re.compile(r"(?<![\w.])(?:\d[\d,]*)?\.\d+")
VALUE_OF_A_SYMBOL = re.compile(
    r"(?<![\w)])[A-Za-zα-ωΔΛ][\w̄]?(?:_\w+)? [=<>≤≥] [−-]?(?:[σ\d][\d.,]*)?"
    r"(?:/\d[\d.,]*)?(?:, [\d.,]*\d)*(?: (?:and|or|to) [\d.,]*\d)?"
)
PLACE = re.compile(
    r"(?:Section|Lemma|lemma\}|Definition|Proposition|Theorem|Corollary|Remark|Appendix|Eq\.|Eqs\.|"
    r"Fig\.|Figs\.|version|chapter|§)s?\s*"
    r"\(?\d[\d.,–]*\)?(?:(?:,| and| to| or|–)\s*\(?\d[\d.]*\)?)*",
    re.IGNORECASE,
)
NO_PROSE = [
    re.compile(r"(?s)\A---\n.*?\n?---\n"),  # front matter
    re.compile(r"(?sm)^(`{3,})\{(code-cell|math)\}.*?^\1|^```python.*?^```"),
    re.compile(r"(?s)\]\([^)]*\)|`[^`]*`|\$[^$]*\$"),  # addresses, code, computed numbers, formulas
    re.compile(r"(?m)^(?::[\w-]+:.*|\([\w-]+\)=)$"),  # options of directives, anchors
]

ADVICE = (
    "%s is typed. If it is a result, have it written by the build: "
    "{measured}`name-of-a-claim: words of the reading`. If it is a setting, say what it is in "
    'book/settings_in_prose.toml: a row "%s" = "…" under ["%s"].'
)

log = getLogger(__name__)


def blank(match: re.Match) -> str:
    """Leave nothing but the ends of lines."""
    return "\n" * match[0].count("\n")


def prose(text: str) -> str:
    """Blank out what is no prose in a page's text; every line keeps its number."""
    for pattern in NO_PROSE:
        text = pattern.sub(blank, text)
    return text


def typed(text: str) -> list[tuple[int, str]]:
    """List the decimals in some prose, each with its line, counted from 1."""
    for pattern in (VALUE_OF_A_SYMBOL, PLACE):
        text = pattern.sub(blank, text)
    decimals = []
    for match in DECIMAL.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        decimals.append((line, match[0]))
    return decimals


def settings(page: str) -> dict[str, str]:
    """Say which decimals may be typed on a page, or in the words of a claim, and what they are."""
    return tomllib.loads(SETTINGS.read_text(encoding="utf-8")).get(page, {})


def is_checked(page: str) -> bool:
    """Say whether a page's decimals must be settings."""
    return page in OTHER_PAGES or (page.startswith("notebooks/") and not THEORY.match(page))


def warn_of_results(app, page, source):
    """Warn of each decimal on a page that is no setting."""
    if not is_checked(page):
        return
    allowed = settings(page)
    for line, number in typed(prose(source[0])):
        if number not in allowed:
            log.warning(ADVICE, number, number, page, location=(page, line), type="typed_decimal")


class Setting(SphinxRole):
    """The number that a constant has in the code of a page."""

    def run(self):
        """Write the number; an error if the page gives the constant none, or several."""
        source = Path(self.env.doc2path(self.env.docname)).read_text(encoding="utf-8")
        assigned = re.findall(rf"^{re.escape(self.text)} = ([\d.]+)$", source, re.MULTILINE)
        if len(assigned) == 1:
            return [nodes.Text(assigned[0])], []
        reason = f"{len(assigned)} lines of the page's code give {self.text} a number"
        return [], [self.inliner.reporter.error(reason, line=self.lineno)]


def setup(app):
    """Connect it."""
    app.add_role("setting", Setting())
    app.connect("source-read", warn_of_results)
