"""The ledger in the book: badges beside statements, measured numbers in prose, the page of all
claims, and the counts of verdicts.

``{claim}`name` `` sets a badge that says the verdict and leads to the ledger, and marks the place
to which the ledger leads back. ``{measured}`name: some words` `` writes what was measured for the
reading of a claim in whose condition or quantity these words stand; a claim with one reading needs
no words. So a reading that moves takes its references along, and one that is reworded or goes stops
the build. Badges and numbers are filled in when a page is written, from the registry and what is on
record: no page holds a verdict or a number of its own.
"""

from functools import cache
from importlib.resources import files
from pathlib import Path

from docutils import nodes
from jinja2 import Environment, FileSystemLoader
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.logging import getLogger

from book.claims import registry
from book.claims.claim import Kind, Verdict
from book.claims.record import counts, counts_by_kind, outcomes

PAGE = "book/ledger"
SIGNS = {
    Verdict.HOLDS: "✓",
    Verdict.CONDITION: "◐",
    Verdict.LATER: "↻",
    Verdict.MISPRINT: "✎",
    Verdict.PART: "◔",
    Verdict.REFUTED: "✗",
    Verdict.OPEN: "○",
}
SHORT = {
    Verdict.HOLDS: "holds",
    Verdict.CONDITION: "on a condition",
    Verdict.LATER: "later versions",
    Verdict.MISPRINT: "misprint",
    Verdict.PART: "true in a part",
    Verdict.REFUTED: "refuted",
    Verdict.OPEN: "open",
}
PAPERS = {
    "livi": "Livi",
    "cayci": "Cayci & Eryilmaz",
    "code": "Livi's public code",
    "ours": "This book",
}

log = getLogger(__name__)
recorded = cache(lambda: outcomes(registry().values()))


class badge(nodes.Inline, nodes.TextElement):
    """A claim's badge."""


class measured(nodes.Inline, nodes.TextElement):
    """A measured number."""


class ledger(nodes.General, nodes.Element):
    """The table of all claims."""


class tally(nodes.General, nodes.Element):
    """The number of claims of each kind for each verdict."""


class ClaimRole(SphinxRole):
    """Set a claim's badge, once in the book."""

    def run(self):
        """Give the badge; say so if there is no such claim or if it has a place already."""
        places = claim_places(self.env)
        if self.text not in registry():
            return [], [
                self.inliner.reporter.error(
                    f"claim {self.text!r}: there is none of that name", line=self.lineno
                )
            ]
        if places.setdefault(self.text, self.env.docname) != self.env.docname:
            return [], [
                self.inliner.reporter.error(
                    f"claim {self.text!r} has a badge in {places[self.text]} already",
                    line=self.lineno,
                )
            ]
        return [badge(claim=self.text)], []


class MeasuredRole(SphinxRole):
    """Write what a claim's check measured."""

    def run(self):
        """Give the number; say so if no reading is meant, or several could be."""
        name, _, words = self.text.partition(":")
        try:
            position = reading_with(words.strip(), registry().get(name))
        except ValueError as error:
            return [], [
                self.inliner.reporter.error(f"measured {self.text!r}: {error}", line=self.lineno)
            ]
        return [measured(claim=name, reading=position)], []


class Ledger(SphinxDirective):
    """Stand where the table of all claims goes, or with the argument ``code`` that of the rows on
    the paper's public code."""

    optional_arguments = 1

    def run(self):
        """Give the place."""
        return [ledger(of_code=self.arguments == ["code"])]


class Tally(SphinxDirective):
    """Stand where the counts go."""

    def run(self):
        """Give the place."""
        return [tally()]


def reading_with(words, claim):
    """Find the one reading of a claim in whose condition or quantity some words stand: its
    position."""
    if claim is None:
        raise ValueError("there is no such claim")
    texts = [f"{reading.condition}: {reading.quantity}" for reading in claim.readings]
    found = [position for position, text in enumerate(texts) if words in text]
    if len(found) != 1:
        raise ValueError(f"{len(found)} readings have these words; the readings are {texts}")
    return found[0]


def claim_places(env):
    """Where each claim has its badge: documents by claim."""
    if not hasattr(env, "claim_places"):
        env.claim_places = {}
    return env.claim_places


def forget(app, env, docname):
    """Drop a page's badges before it is read again."""
    for claim in [claim for claim, place in claim_places(env).items() if place == docname]:
        del env.claim_places[claim]


def merge(app, env, docnames, other):
    """Take over the badges that another process has read."""
    claim_places(env).update(
        {claim: place for claim, place in claim_places(other).items() if place in docnames}
    )


def missing(app, env):
    """Warn of claims that no chapter mentions."""
    for claim in sorted(set(registry()) - set(claim_places(env))):
        log.warning("claim %r has no badge in any chapter", claim, type="ledger")


def fill_in(app, doctree, docname):
    """Put verdicts, numbers and tables where they go."""
    for node in list(doctree.findall(badge)):
        node.replace_self(badge_of(app, docname, node["claim"]))
    for node in list(doctree.findall(measured)):
        number = str(recorded()[node["claim"]].measured[node["reading"]])
        node.replace_self(link(app, docname, node["claim"], number, "measured"))
    for node in list(doctree.findall(ledger)):
        node.replace_self(nodes.raw("", ledger_html(app, docname, node["of_code"]), format="html"))
    for node in list(doctree.findall(tally)):
        node.replace_self(nodes.raw("", tally_html(app, docname), format="html"))


def link(app, docname, claim, text, style):
    """A link to a row of the ledger."""
    address = f"{app.builder.get_relative_uri(docname, PAGE)}#{claim}"
    return nodes.reference(
        "", text, internal=True, refuri=address, classes=[style], reftitle=registry()[claim].says
    )


def badge_of(app, docname, claim):
    """A badge: the verdict as a link, at a place of its own."""
    verdict = recorded()[claim].verdict
    shown = link(app, docname, claim, f"{SIGNS[verdict]} {SHORT[verdict]}", "claim")
    shown["classes"].append(f"claim-{verdict.name.lower()}")
    return nodes.inline("", "", shown, ids=[f"claim-{claim}"])


def tally_html(app, docname):
    """The counts of what the papers say, by kind, each leading to its rows of the ledger."""
    return render(
        "tally.html",
        counts=counts_by_kind(recorded()),
        short=SHORT,
        page=app.builder.get_relative_uri(docname, PAGE),
    )


def ledger_html(app, docname, of_code):
    """The table of the claims on the paper's public code, or of all others."""
    listed = {
        name: outcome
        for name, outcome in recorded().items()
        if (outcome.claim.paper == "code") == of_code
    }
    rows = [row(app, docname, outcome) for outcome in listed.values()]
    papers = {} if of_code else {key: name for key, name in PAPERS.items() if key != "code"}
    return render("ledger.html", counts=counts(listed), papers=papers, kinds=Kind, rows=rows)


def render(template, **values):
    """Fill in a template."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parents[1] / "_templates"), autoescape=True
    )
    return environment.get_template(template).render(signs=SIGNS, **values)


def row(app, docname, outcome):
    """What the table says of a claim."""
    claim, position, place = (
        outcome.claim,
        outcome.claim.telling(outcome.measured),
        claim_places(app.env).get(outcome.claim.id),
    )
    holds = {True: "holds", False: "fails", None: "left open"}
    pairs = list(zip(claim.readings, outcome.measured, strict=True))
    return {
        "outcome": outcome,
        "readings": [(reading, str(one), holds[reading.rule.holds(one)]) for reading, one in pairs],
        "remarks": {
            "Why it is open": outcome.why,
            "Settled by the configuration alone": claim.fixed,
            "Smallest counterexample": outcome.counterexample,
            "It could be put as": outcome.fair,
            "Changed after a number had been seen": claim.seen,
        },
        "code": [(name, address_of(app, docname, name)) for name in claim.code],
        "found": str(outcome.measured[position]),
        "value": outcome.measured[position].value,
        "rule": claim.readings[position].rule,
        "rank": list(Verdict).index(outcome.verdict),
        "chapter": place
        and {
            "title": app.env.titles[place].astext().partition(":")[0],
            "address": f"{app.builder.get_relative_uri(docname, place)}#claim-{claim.id}",
        },
    }


def address_of(app, docname, name):
    """Where the book describes a function, if it does."""
    known = app.env.get_domain("py").objects.get(name)
    return known and f"{app.builder.get_relative_uri(docname, known.docname)}#{known.node_id}"


def bring_table(app, pagename, templatename, context, doctree):
    """Put DataTables, which sorts and searches the ledger, on its page and no other."""
    if '<table class="ledger"' not in context.get("body", ""):
        return
    source = (files("itables") / "html" / "dt_bundle.js").read_text(encoding="utf-8")
    whole, _, exports = source.rpartition("export{")
    name = next(
        pair.split(" as ")[0]
        for pair in exports.partition("}")[0].split(",")
        if pair.endswith(" as default")
    )
    bundle = Path(app.outdir) / "_static" / "datatables.js"
    # a module would not load from a folder
    bundle.write_text(f"(() => {{{whole}\nwindow.DataTable = {name};}})();", encoding="utf-8")
    app.add_js_file(bundle.name, loading_method="defer")
    app.add_js_file("ledger.js", loading_method="defer")


def setup(app):
    """Connect roles, directives and what fills them in."""
    for node in (badge, measured, ledger, tally):
        app.add_node(node)
    app.add_role("claim", ClaimRole())
    app.add_role("measured", MeasuredRole())
    app.add_directive("ledger", Ledger)
    app.add_directive("tally", Tally)
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    app.connect("env-check-consistency", missing)
    app.connect("doctree-resolved", fill_in)
    app.connect("html-page-context", bring_table)
    return {
        "version": "1",
        "env_version": 1,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
