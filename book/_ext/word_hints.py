"""What a word means, where it stands: a link to the glossary has the first paragraph of the word's
entry as its title, which the theme shows (Bootstrap's tooltip, by a mark of `living_paper`) to who
points at it or tabs to it."""

from docutils import nodes
from sphinx.addnodes import glossary

PAGE = "book/notation"


def explain(app, doctree, docname):
    """Give each reference to the glossary its explanation."""
    by_anchor = {}
    for words in app.env.get_doctree(PAGE).findall(glossary):
        for entry in words.findall(nodes.definition_list_item):
            paragraph = next(entry.findall(nodes.paragraph)).astext()
            for term in entry.findall(nodes.term):
                by_anchor |= dict.fromkeys(term["ids"], paragraph.replace("\n", " "))
    for word in doctree.findall(nodes.inline):
        link = word.parent
        if "std-term" in word["classes"] and isinstance(link, nodes.reference):
            anchor = link.get("refid") or link["refuri"].partition("#")[2]
            link["classes"].append("word")
            link["reftitle"] = by_anchor[anchor]


def setup(app):
    """Connect it."""
    app.connect("doctree-resolved", explain)
