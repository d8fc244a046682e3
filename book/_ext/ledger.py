"""The ledger in the book: badges beside statements, measured numbers in prose, the page of all
claims, and the counts of verdicts.

``{claim}`name` `` sets a badge that says the verdict and unfolds the cell which measures it;
``{claim}`name, another` `` one badge for all claims behind a sentence. ``{measured}`name: words` ``
writes what was measured for the reading in whose condition or quantity these words stand, in the
unit and with the bracket of the reading; ``| value`` and the other `FORMS` write it otherwise. All
are filled in when a page is written: no page holds a verdict or a number of its own.
"""

import re
from importlib.resources import files
from pathlib import Path

import executed
from docutils import nodes
from jinja2 import Environment, FileSystemLoader
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
    Verdict.LATER: "later versions",
    Verdict.MISPRINT: "misprint",
    Verdict.PART: "true in a part",
    Verdict.REFUTED: "refuted",
    Verdict.OPEN: "open",
}
# where a number stands in front: 2 hold, 1 in later versions
COUNTED = SHORT | {Verdict.LATER: "in later versions"}
SEVERAL = COUNTED | {Verdict.HOLDS: "hold", Verdict.MISPRINT: "misprints"}
PAPERS = {
    "livi": "Livi",
    "cayci": "Cayci & Eryilmaz",
    "code": "Livi's public code",
    "ours": "This book",
}

UNKNOWN = "not measured"  # its cell raised an error, say

CALL = re.compile(r"^\s*judge\(\s*[\"']([a-z0-9-]+)[\"']", re.MULTILINE)

log = getLogger(__name__)


class badge(nodes.Inline, nodes.TextElement):
    """The badge of a claim, or of all claims behind a sentence."""


class measured(nodes.Inline, nodes.TextElement):
    """A measured number."""


class ledger(nodes.General, nodes.Element):
    """The table of all claims."""


class tally(nodes.General, nodes.Element):
    """The number of claims of each kind for each verdict."""


class ClaimRole(SphinxRole):
    """One badge for the claims behind a sentence, each of them once in the book."""

    def run(self):
        """Set the badge; an error if there is no such claim, or if it has a place already."""
        places = claim_places(self.env)
        names = [name.strip() for name in self.text.split(",")]
        for name in names:
            if name not in registry():
                return self.refused(name, "there is none of that name")
            if name in places:
                return self.refused(name, f"it has a badge in {places[name]} already")
            places[name] = self.env.docname
        return [badge(claims=names)], []

    def refused(self, name, why):
        """Report an error, with its line, in the place of the badge."""
        message = f"claim {name!r}: {why}"
        return [], [self.inliner.reporter.error(message, line=self.lineno)]


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


class Ledger(SphinxDirective):
    """The table of all claims, or with the argument ``code`` of those on the papers' code."""

    optional_arguments = 1

    def run(self):
        """Mark the place, which is filled in when the page is written."""
        return [ledger(of_code=self.arguments == ["code"])]


class Tally(SphinxDirective):
    """The counts of verdicts."""

    def run(self):
        """Mark the place, which is filled in when the page is written."""
        return [tally()]


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
    """Give the page of each claim's badge, which Sphinx keeps between builds."""
    if not hasattr(env, "claim_places"):
        env.claim_places = {}
    return env.claim_places


def forget(app, env, docname):
    """Drop the badges of a page before it is read again."""
    places = claim_places(env)
    env.claim_places = {claim: place for claim, place in places.items() if place != docname}


def measure(app, env):
    """Gather what the chapters measured; all pages are written again where anything changed."""
    measured_now = outcomes_of_chapters(env)
    for name in sorted(set(registry()) - set(measured_now)):
        log.warning("claim %r is measured in no chapter", name, type="ledger")
    for name in sorted(set(registry()) - set(claim_places(env))):
        log.warning("claim %r has no badge in any chapter", name, type="ledger")
    before = getattr(env, "outcomes", {})
    env.outcomes = {name: measured_now[name] for name in registry() if name in measured_now}
    return [] if before == env.outcomes else sorted(env.all_docs)


def outcomes_of_chapters(env):
    """Read what the chapters' executions have measured, by claim; warn of what is not in order."""
    by_name = {}
    before = getattr(env, "outcomes_by_key", {})
    env.outcomes_by_key = {}
    for page, path in notebooks(env).items():
        key = page, env.notebook_keys[page]
        try:
            outcomes = before[key] if key in before else outcomes_of(path, page)
        except KeyError as unknown:
            message = "claim %s is measured here, and no file in book/claims has it"
            log.warning(message, unknown, location=page, type="ledger")
            continue
        if outcomes is None:  # it failed
            continue
        env.outcomes_by_key[key] = outcomes
        for outcome in outcomes:
            name = outcome.claim.id
            if name in by_name:
                log.warning("claim %r is measured twice", name, location=page, type="ledger")
            by_name[name] = outcome
    return by_name


def outcomes_of(path, page):
    """Read what a chapter's execution has measured; None where it has left nothing."""
    notebook = executed.find(path)
    return list(gathered(notebook, page)) if notebook else None


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
            unfold_behind(paragraph_of(node), claims_behind(app, docname, names))
            node.replace_self(common_badge(app, names))
    for node in list(doctree.findall(measured)):
        outcome = app.env.outcomes.get(node["claim"])
        number = quoted(outcome, node) if outcome else UNKNOWN
        node.replace_self(link(app, docname, node["claim"], number, "measured"))
    for node in list(doctree.findall(ledger)):
        table = ledger_html(app, docname, node["of_code"])
        node.replace_self(nodes.raw("", table, format="html"))
    for node in list(doctree.findall(tally)):
        node.replace_self(nodes.raw("", tally_html(app, docname), format="html"))
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


def quoted(outcome, node):
    """Print a measured number in the form that a sentence asks for."""
    position = node["reading"]
    reading = outcome.claim.readings[position]
    return reading.printed(outcome.measured[position], node["form"])


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
    if len(verdicts) == len(names) and len(set(verdicts)) == 1:
        verdict = verdicts[0]
        text = f"{SIGNS[verdict]} {SHORT[verdict]}"
        style = f"claim-{verdict.name.lower()}"
    else:
        text = counted_in_words(names, verdicts)
        style = "claim-several"
    address = f"#behind-{names[0]}"
    shown = nodes.reference("", text, internal=True, refuri=address, classes=["claim", style])
    # a reader who hears the page hears what the badge unfolds
    shown += nodes.inline("", f": {', '.join(names)}", classes=["visually-hidden"])
    return nodes.inline("", "", shown, ids=[f"claims-{names[0]}"])


def counted_in_words(names, verdicts):
    """Say how many claims have which verdict: ``2 hold · 1 open``."""
    parts = []
    for verdict in Verdict:
        number = verdicts.count(verdict)
        names_of_verdicts = COUNTED if number == 1 else SEVERAL
        if number:
            parts.append(f"{number} {names_of_verdicts[verdict]}")
    missing = len(names) - len(verdicts)
    if missing:
        parts.append(f"{missing} {UNKNOWN}")
    return " · ".join(parts)


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


def paragraph_of(node):
    """Find the paragraph, or what else holds the text, in which something stands."""
    while isinstance(node.parent, nodes.TextElement):
        node = node.parent
    return node


def unfold_behind(paragraph, unfolded):
    """Put what a badge unfolds behind the paragraph of its sentence."""
    siblings = paragraph.parent
    siblings.insert(siblings.index(paragraph) + 1, unfolded)


def tally_html(app, docname):
    """Count what the papers say, by kind and verdict, each count leading to its rows."""
    counted = counts_by_kind(app.env.outcomes.values())
    page = app.builder.get_relative_uri(docname, PAGE)
    return render("tally.html", counts=counted, short=SHORT, page=page)


def ledger_html(app, docname, of_code):
    """Make the table of the claims on the paper's public code, or of all others."""
    listed = []
    for outcome in app.env.outcomes.values():
        if (outcome.claim.paper == "code") == of_code:
            listed.append(outcome)
    rows = [row(app, docname, outcome) for outcome in listed]
    papers = {} if of_code else {key: name for key, name in PAPERS.items() if key != "code"}
    return render("ledger.html", counts=counts(listed), papers=papers, kinds=Kind, rows=rows)


def render(template, **values):
    """Fill in a template."""
    folder = FileSystemLoader(Path(__file__).parents[1] / "_templates")
    environment = Environment(loader=folder, autoescape=True)
    return environment.get_template(template).render(signs=SIGNS, **values)


def row(app, docname, outcome):
    """Gather what the table says of a claim."""
    claim = outcome.claim
    place = claim_places(app.env).get(claim.id, outcome.chapter)
    anchor = "measured" if outcome.chapter == place else "claim"
    readings = []
    for reading, number in outcome.pairs:
        holds = {True: "holds", False: "fails", None: "left open"}[reading.holds(number)]
        readings.append((reading, reading.printed(number), holds))
    telling, number = outcome.pairs[claim.telling(outcome.measured)]
    return {
        "outcome": outcome,
        "readings": readings,
        "remarks": {
            "Why it is open": outcome.why,
            "Settled by the configuration alone": claim.fixed,
            "Smallest counterexample": outcome.counterexample,
            "It could be put as": outcome.fair,
            "Changed after a number had been seen": claim.seen,
        },
        "code": [(name, address_of(app, docname, name)) for name in claim.code],
        "found": telling.printed(number),
        "value": number.value,
        "rule": telling.rule,
        "rank": list(Verdict).index(outcome.verdict),
        "chapter": {
            "title": app.env.titles[place].astext().partition(":")[0],
            "address": f"{app.builder.get_relative_uri(docname, place)}#{anchor}-{claim.id}",
        },
    }


def address_of(app, docname, name):
    """Find where the book describes a function, if it does."""
    known = app.env.get_domain("py").objects.get(name)
    return known and f"{app.builder.get_relative_uri(docname, known.docname)}#{known.node_id}"


def bring_table(app, pagename, templatename, context, doctree):
    """Put DataTables, which sorts and searches the ledger, on its page and no other."""
    if '<table class="ledger"' not in context.get("body", ""):
        return
    source = (files("itables") / "html" / "dt_bundle.js").read_text(encoding="utf-8")
    whole, _, exports = source.rpartition("export{")
    # export{a as b,c as default};
    pairs = exports.partition("}")[0].split(",")
    (name,) = (pair.removesuffix(" as default") for pair in pairs if pair.endswith(" as default"))
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
    registry()  # a file of claims that cannot be read ends the build, which names it
    app.connect("env-purge-doc", forget)
    app.connect("env-updated", measure)
    app.connect("build-finished", store)
    app.connect("doctree-resolved", fill_in)
    app.connect("html-page-context", bring_table)
    # pages that were read when a badge named one claim only are read again
    return {"env_version": 3}
