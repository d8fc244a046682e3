"""The ledger in the book: badges beside statements, measured numbers in prose, the page of all
claims, and the counts of verdicts.

``{claim}`name` `` sets a badge that says the verdict and unfolds the cell which measures it;
``{claim}`name, another` `` one badge for all claims behind a sentence. ``{measured}`name: words` ``
writes what was measured for the reading in whose condition or quantity these words stand, in the
unit and with the bracket of the reading; ``| value`` and the other `FORMS` write it otherwise. All
are filled in when a page is written: no page holds a verdict or a number of its own.
"""

import re
from collections import Counter
from functools import partial
from pathlib import Path

import executed
from docutils import nodes
from notebook_pool import notebooks
from sphinx.util.docutils import SphinxDirective, SphinxRole
from sphinx.util.logging import getLogger

from book.claims.claim import FORMS, Kind, Verdict
from book.claims.ledger import counts, counts_by_kind, gathered, readings_in_words, registry, write

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
    Verdict.LATER: "corrected later",
    Verdict.MISPRINT: "misprint",
    Verdict.PART: "true in a part",
    Verdict.REFUTED: "refuted",
    Verdict.OPEN: "open",
}
SEVERAL = SHORT | {Verdict.HOLDS: "hold", Verdict.MISPRINT: "misprints"}
PAPERS = {
    "livi": "Livi",
    "cayci": "Cayci & Eryilmaz",
    "ours": "This book",
}

UNKNOWN = "not measured"  # its cell raised an error, say

CALL = re.compile(r"^\s*judge\(\s*[\"']([a-z0-9-]+)[\"']", re.MULTILINE)

log = getLogger(__name__)


class badge(nodes.Inline, nodes.TextElement):
    """The badge of a claim, or of all claims behind a sentence."""


class measured(nodes.Inline, nodes.TextElement):
    """A measured number."""


class claim_table(nodes.General, nodes.Element):
    """A table of claims, or of the number of claims for each verdict."""


class ClaimRole(SphinxRole):
    """One badge for the claims behind a sentence, each of them once in the book."""

    def run(self):
        """Set the badge; an error if there is no such claim."""
        names = [name.strip() for name in self.text.split(",")]
        for name in names:
            if name not in registry():
                message = f"claim {name!r}: there is none of that name"
                return [], [self.inliner.reporter.error(message, line=self.lineno)]
        page = self.env.metadata[self.env.docname]  # Sphinx empties it when the page is read
        page.setdefault("claims", []).extend(names)
        return [badge(claims=names)], []


class MeasuredRole(SphinxRole):
    """What was measured of a claim."""

    def run(self):
        """Set the number; an error if no reading is meant, or several could be."""
        reference, _, form = self.text.partition("|")
        name, _, words = reference.partition(":")
        name = name.strip()
        form = form.strip() or "prose"
        try:
            position = reading_with(words.strip(), registry().get(name))
            if form not in FORMS:
                raise ValueError(f"form = {form!r}: must be one of {', '.join(FORMS)}")
        except ValueError as error:
            message = f"measured {self.text!r}: {error}"
            return [], [self.inliner.reporter.error(message, line=self.lineno)]
        return [measured(claim=name, reading=position, form=form)], []


class Table(SphinxDirective):
    """The table of all claims; of those on the papers' code, or the counts of verdicts, if named."""

    optional_arguments = 1

    def run(self):
        """Mark the place, which is filled in when the page is written."""
        return [claim_table(of="".join(self.arguments))]


def reading_with(words, claim):
    """Find the position of the one reading in whose condition or quantity some words stand.

    A quantity in full is that reading, though another one begins with the same words.
    """
    if claim is None:
        raise ValueError("there is no such claim")
    quantities = [reading.quantity for reading in claim.readings]
    if quantities.count(words) == 1:
        return quantities.index(words)
    texts = [f"{reading.condition}: {reading.quantity}" for reading in claim.readings]
    positions = [position for position, text in enumerate(texts) if words in text]
    if len(positions) != 1:
        raise ValueError(f"{len(positions)} readings have these words; the readings are {texts}")
    return positions[0]


def claim_places(env):
    """Give the page of each claim's badge."""
    places = {}
    for page, metadata in env.metadata.items():
        places |= dict.fromkeys(metadata.get("claims", ()), page)
    return places


def measure(app, env):
    """Gather what the chapters measured; all pages are written again where anything changed."""
    by_name = {}
    before = getattr(env, "outcomes_by_key", {})
    env.outcomes_by_key = {}
    for page, path in notebooks(env).items():
        key = page, env.execution_keys[page]
        if key not in before:
            notebook = executed.find(path)
            if notebook is None:  # it failed
                continue
            before[key] = list(gathered(notebook, page))
        env.outcomes_by_key[key] = before[key]
        for outcome in before[key]:
            name = outcome.claim.id
            if name in by_name:
                log.warning("claim %r is measured twice", name, location=page, type="ledger")
            by_name[name] = outcome
    for name in registry():
        if name not in by_name:
            log.warning("claim %r is measured in no chapter", name, type="ledger")
    badges = [name for page in env.metadata.values() for name in page.get("claims", ())]
    for name, count in Counter(badges).items():
        if count > 1:  # `claim_places` names the last of them
            place = claim_places(env)[name]
            log.warning("claim %r has %d badges", name, count, location=place, type="ledger")
    old = getattr(env, "outcomes", {})
    env.outcomes = {name: by_name[name] for name in registry() if name in by_name}
    return [] if old == env.outcomes else sorted(env.all_docs)


def store(app, error):
    """Write the ledger as data beside the pages."""
    if error is None and app.builder.format == "html":
        write(app.env.outcomes.values(), Path(app.outdir))


def fill_in(app, doctree, docname):
    """Put verdicts, numbers and tables where they go; cells that measure fold behind badges."""
    # from the last to the first: what one of them unfolds goes right behind its paragraph
    for node in reversed(list(doctree.findall(badge))):
        names = node["claims"]
        if len(names) == 1:
            node.replace_self(badge_of(app, docname, names[0]))
        else:
            unfold_behind(node, claims_behind(app, docname, names))
            node.replace_self(common_badge(app, names))
    for node in list(doctree.findall(measured)):
        outcome = app.env.outcomes.get(node["claim"])
        number = outcome.printed(node["reading"], node["form"]) if outcome else UNKNOWN
        node.replace_self(link(app, docname, node["claim"], number, "measured"))
    for node in list(doctree.findall(claim_table)):
        of_node = tally_html if node["of"] == "tally" else ledger_html
        node.replace_self(nodes.raw("", of_node(app, docname, node["of"]), format="html"))
    for cell in doctree.findall(nodes.container):
        if "tag_claim" in cell["classes"]:
            lead_to_claims(app, docname, cell)


def lead_to_claims(app, docname, cell):
    """Give a cell that measures claims an address for each, and links to their rows."""
    # one that no file has was warned of when the page was read
    names = [name for name in CALL.findall(cell.astext()) if name in registry()]
    if not names:  # it prepares the next one, with which it is shown
        return
    cell["ids"] += [f"measured-{name}" for name in names]
    children = [link(app, docname, name, f"{name} in the ledger", "row") for name in names]
    children.append(nodes.reference("", "fold", internal=True, refid=f"claim-{names[0]}"))
    cell.insert(0, nodes.paragraph("", "", *children, classes=["claim-links"]))


def link(app, docname, claim, text, style):
    """Link to a row of the ledger, from a page."""
    address = f"{app.builder.get_relative_uri(docname, PAGE)}#{claim}"
    return nodes.reference(
        "", text, internal=True, refuri=address, classes=[style], reftitle=registry()[claim].says
    )


def badge_of(app, docname, name):
    """Make a badge: the verdict as a link to what measures it, at a place of its own."""
    outcome = app.env.outcomes.get(name)
    if outcome is None:
        return nodes.inline("", UNKNOWN, ids=[f"claim-{name}"])
    verdict = outcome.verdict
    shown = link(app, docname, name, f"{SIGNS[verdict]} {SHORT[verdict]}", "claim")
    if outcome.chapter == docname:
        shown["refuri"] = f"#measured-{name}"
    shown["classes"].append(f"claim-{verdict.name.lower()}")
    return nodes.inline("", "", shown, ids=[f"claim-{name}"])


def common_badge(app, names):
    """Make the badge of several claims: their verdicts as a link to all of them."""
    verdicts = [app.env.outcomes[name].verdict for name in names if name in app.env.outcomes]
    parts = []
    for verdict in Verdict:
        number = verdicts.count(verdict)
        words = SHORT if number == 1 else SEVERAL
        if number:
            parts.append(f"{number} {words[verdict]}")
    text = " · ".join(parts) or UNKNOWN
    style = "claim-several"
    if len(parts) == 1:
        text = f"{SIGNS[verdicts[0]]} {SHORT[verdicts[0]]}"
        style = f"claim-{verdicts[0].name.lower()}"
    shown = nodes.reference(
        "", text, internal=True, refuri=f"#behind-{names[0]}", classes=["claim", style]
    )
    # a reader who hears the page hears what the badge unfolds
    shown += nodes.inline("", f": {', '.join(names)}", classes=["visually-hidden"])
    return nodes.inline("", "", shown, ids=[f"claims-{names[0]}"])


def claims_behind(app, docname, names):
    """List the claims behind a badge.

    Each has its own badge, its name and statement, and its readings, with number and rule.
    """
    listed = nodes.bullet_list()
    for name in names:
        line = nodes.paragraph("", "", badge_of(app, docname, name), nodes.Text(" "))
        line += link(app, docname, name, name, "claim-name")
        line += nodes.Text(f": {registry()[name].says}")
        listed += nodes.list_item("", line)
        outcome = app.env.outcomes.get(name)
        if outcome:
            readings = nodes.bullet_list()
            for sentence in readings_in_words(outcome):
                readings += nodes.list_item("", nodes.paragraph("", sentence))
            listed[-1] += readings
    back = nodes.reference("", "fold", internal=True, refid=f"claims-{names[0]}")
    fold = nodes.paragraph("", "", back, classes=["claim-links"])
    return nodes.container("", listed, fold, classes=["claims"], ids=[f"behind-{names[0]}"])


def unfold_behind(node, unfolded):
    """Put what a badge unfolds behind the paragraph, or what else holds the badge's text."""
    while isinstance(node.parent, nodes.TextElement):
        node = node.parent
    node.parent.insert(node.parent.index(node) + 1, unfolded)


def tally_html(app, docname, of):
    """Count what the papers say, by kind and verdict, each count leading to its rows."""
    outcomes = list(app.env.outcomes.values())
    page = app.builder.get_relative_uri(docname, PAGE)
    values = {"counts": counts_by_kind(outcomes), "outcomes": outcomes, "page": page}
    return app.builder.templates.render("tally.html", values | {"short": SHORT, "signs": SIGNS})


def ledger_html(app, docname, of):
    """Make the table of the claims on the paper's public code, or of all others."""
    listed = []
    for outcome in app.env.outcomes.values():
        if (outcome.claim.paper == "code") == (of == "code"):
            listed.append(outcome)
    values = {
        "outcomes": listed,
        "counts": counts(listed),
        "signs": SIGNS,
        "papers": {} if of else PAPERS,
        "kinds": Kind,
        "chapter_of": partial(chapter_of, app, docname),
        "address_of": partial(address_of, app, docname),
    }
    return app.builder.templates.render("ledger.html", values)


def chapter_of(app, docname, outcome):
    """Name the chapter with a claim's badge, and the place there that measures it."""
    name = outcome.claim.id
    place = claim_places(app.env).get(name, outcome.chapter)
    anchor = "measured" if outcome.chapter == place else "claim"
    address = f"{app.builder.get_relative_uri(docname, place)}#{anchor}-{name}"
    return app.env.titles[place].astext().partition(":")[0], address


def address_of(app, docname, name):
    """Find where the book describes a function, if it does."""
    known = app.env.get_domain("py").objects.get(name)
    return known and f"{app.builder.get_relative_uri(docname, known.docname)}#{known.node_id}"


def setup(app):
    """Connect roles, directives and what fills them in."""
    for node in (badge, measured, claim_table):
        app.add_node(node)
    app.add_role("claim", ClaimRole())
    app.add_role("measured", MeasuredRole())
    app.add_directive("ledger", Table)
    registry()  # a file of claims that cannot be read ends the build, which names it
    app.connect("env-updated", measure)
    app.connect("build-finished", store)
    app.connect("doctree-resolved", fill_in)
    return {"env_version": 5}  # pages that an older version has read are read again
