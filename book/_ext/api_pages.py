"""The reference of the package: a directive that documents modules, and what their docstrings need
on the way to a page."""

import ast
import re

from docutils import nodes
from docutils.statemachine import StringList
from package_source import definitions, modules
from pydantic import BaseModel
from sphinx.domains.python import PyObject
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

BACK = re.compile(r'(class="viewcode-back" href="[^"#]*#)([a-z0-9_.]*?)((?:[A-Z]\w*\.)?\w+)(?=")')


class Modules(SphinxDirective):
    """Document modules, one a line: a heading, the docstring, and every public class and function
    under the name that a reader imports."""

    has_content = True

    def run(self):
        """Write reStructuredText, and have it read."""
        written = StringList()
        for number, module in enumerate(self.content, self.content_offset + 1):
            if module not in modules():
                raise self.error(f"{module}: the package has no such module.")
            for line in autodoc_of(module):
                written.append(line, self.env.doc2path(self.env.docname), number)
        holder = nodes.section()
        holder.document = self.state.document
        nested_parse_with_titles(self.state, written, holder, self.content_offset)
        return holder.children


def autodoc_of(module):
    """Write what autodoc is asked for one module."""
    yield from (module, "-" * len(module), "", f".. automodule:: {module}", "")
    for definition in definitions(module):
        if definition.kind == "function":
            yield from (f".. autofunction:: {definition.name}", "")
        elif definition.kind == "class":
            yield from (f".. autoclass:: {definition.name}", "   :members:")
            if any(
                isinstance(base, ast.Name) and base.id.startswith("_")
                for base in definition.node.bases
            ):
                # what a private base offers is documented nowhere else
                yield "   :inherited-members: BaseModel"
            if any(
                isinstance(node, ast.FunctionDef) and node.name == "__init__"
                for node in definition.node.body
            ):
                yield "   :class-doc-from: both"
            yield ""


def describe_settings(app, what, name, obj, options, lines):
    """List the fields of a configuration: pydantic keeps their descriptions in the code."""
    if (
        what == "class"
        and isinstance(obj, type)
        and issubclass(obj, BaseModel)
        and "Attributes:" not in lines
    ):
        fields = [
            f"    {key}: {field.description}"
            for key, field in obj.model_fields.items()
            if field.description
        ]
        lines += ["Attributes:", *fields, ""] if fields else []


def add_types(app, what, name, obj, options, lines):
    """Put types where Google's style has room for them, as the code writes them: ``Array``, not
    what that stands for.

    Napoleon takes for a type whatever stands before the first colon of what is returned, and so
    must be given one.
    """
    annotated = getattr(obj.fget if isinstance(obj, property) else obj, "__annotations__", {})
    if isinstance(obj, type):
        inherited = (vars(base).get("__annotations__", {}) for base in reversed(obj.__mro__))
        annotated = {
            key: kind
            for some in (*inherited, getattr(obj.__init__, "__annotations__", {}))
            for key, kind in some.items()
        }
    section = None
    for number, line in enumerate(lines):
        if line and not line.startswith(" "):
            section, fresh = line, True
        elif (
            section in ("Returns:", "Yields:")
            and fresh
            and isinstance(annotated.get("return"), str)
        ):
            lines[number], fresh = f"    ``{bare(annotated['return'])}``: {line.lstrip()}", False
        elif section in ("Args:", "Attributes:") and (
            entry := re.match(r"    \*{0,2}(\w+)(?=: )", line)
        ):
            kind = annotated.get(entry[1])
            # named tuples wrap theirs
            if isinstance(kind := getattr(kind, "__forward_arg__", kind), str):
                lines[number] = f"{entry[0]} (``{bare(kind)}``){line[entry.end() :]}"


def bare(annotation):
    """Leave out what pydantic and typer put into ``Annotated``, which is not the type."""
    return ast.unparse(WithoutMetadata().visit(ast.parse(annotation, mode="eval")))


class WithoutMetadata(ast.NodeTransformer):
    """Replace ``Annotated[type, ...]`` by the type."""

    def visit_Subscript(self, node):
        """Look inside, then at the name in front of the brackets."""
        self.generic_visit(node)
        return node.slice.elts[0] if getattr(node.value, "id", None) == "Annotated" else node


def skip_fields(app, what, name, obj, skip, options):
    """Leave out what pydantic adds, and the fields of named tuples: their class describes them, and
    Python knows them by number only."""
    return (
        True
        if name == "model_config"
        or (getattr(obj, "__doc__", None) or "").startswith("Alias for field number")
        else None
    )


def point_back(app, pagename, templatename, context, doctree):
    """Lead from a source back to where it is documented: viewcode believes that all names of a file
    come from one place."""
    if not pagename.startswith("_modules/lwcore/"):
        return
    defined = definitions(pagename.removeprefix("_modules/").replace("/", "."))
    known = {
        ".".join(one.name.split(".")[-1 - (one.kind == "method") :]): one.name for one in defined
    }
    context["body"] = BACK.sub(
        lambda link: link[1] + known.get(link[3], link[2] + link[3]), context["body"]
    )


def setup(app):
    """Connect the five; docstrings are changed before napoleon, priority 500, reads them."""
    app.add_directive("modules", Modules)
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"  # as the docstrings have it
    app.connect("autodoc-process-docstring", describe_settings, priority=400)
    app.connect("autodoc-process-docstring", add_types, priority=410)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("html-page-context", point_back)
