"""What a word means, where it stands: a link to the glossary shows the word's explanation to those
who point at it or tab to it.

The explanation is the first paragraph of the word's entry, as plain text. The theme draws it
(Bootstrap's tooltip); where scripts are off, the browser shows it as a title.
"""

from docutils import nodes
from sphinx.addnodes import glossary

PAGE = "book/notation"
MARK = 'data-bs-toggle="tooltip"'


def explanations(doctree) -> dict[str, str]:
    """Read off a page what its glossary says: anchor → first paragraph."""
    by_anchor = {}
    for words in doctree.findall(glossary):
        for entry in words.findall(nodes.definition_list_item):
            paragraph = next(entry.findall(nodes.paragraph)).astext()
            for term in entry.findall(nodes.term):
                for anchor in term["ids"]:
                    by_anchor[anchor] = paragraph.replace("\n", " ")
    return by_anchor


def explain(app, doctree, docname):
    """Give each reference to the glossary its explanation."""
    links = []
    for word in doctree.findall(nodes.inline):
        if "std-term" in word["classes"] and isinstance(word.parent, nodes.reference):
            links.append(word.parent)
    if not links or PAGE not in app.env.all_docs:
        return
    by_anchor = explanations(app.env.get_doctree(PAGE))
    for link in links:
        anchor = link.get("refid") or link["refuri"].partition("#")[2]
        link["classes"].append("word")
        link["reftitle"] = by_anchor[anchor]


def mark(app, pagename, templatename, context, doctree):
    """Mark these links as what the theme draws explanations for."""
    if "body" in context:
        context["body"] = context["body"].replace('<a class="word ', f'<a {MARK} class="word ')


def setup(app):
    """Connect them."""
    app.connect("doctree-resolved", explain)
    app.connect("html-page-context", mark)
