"""The reference of the package: a directive that documents modules, and what their docstrings need
on the way to a page."""

import ast
import copy
import functools
import re

from docutils import nodes
from docutils.statemachine import StringList
from package_source import aliases, definitions, modules, parsed
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
    for alias in aliases(module):
        written_in, _, name = alias.name.rpartition(".")
        yield from (f".. py:type:: {name}", f"   :module: {written_in}", "")
        yield from (f"   {alias.meaning}", "")
    for definition in definitions(module):
        if definition.kind == "function":
            yield from (f".. autofunction:: {definition.name}", "")
        elif definition.kind == "class":
            yield from (f".. autoclass:: {definition.name}", "   :members:")
            if has_private_base(definition.node):
                # what a private base offers is documented nowhere else
                yield "   :inherited-members: BaseModel"
            if initialiser(definition.node):
                yield "   :class-doc-from: both"
            yield ""


def has_private_base(node):
    """Tell whether a class inherits from one whose name begins with an underscore."""
    return any(isinstance(base, ast.Name) and base.id.startswith("_") for base in node.bases)


def initialiser(node):
    """Find the ``__init__`` of a class; None if it has none of its own."""
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__":
            return member
    return None


def describe_settings(app, what, name, obj, options, lines):
    """List the fields of a configuration: pydantic keeps their descriptions in the code."""
    if what != "class" or not isinstance(obj, type) or not issubclass(obj, BaseModel):
        return
    written = {}
    for base in reversed(obj.__mro__):
        written |= vars(base).get("__annotations__", {})
    lines.append("Attributes:")
    for key, field in obj.model_fields.items():
        if field.description:
            lines.append(f"    {key} (``{without_metadata(written[key])}``): {field.description}")
    lines.append("")


def write_signature(app, what, name, obj, options, signature, returned):
    """Write a signature as the code has it: ``Lags`` and ``Float[Tensor, "B T D"]``.

    What these stand for after Python has read them is no text for a reader.
    """
    definition = defined().get(name)
    if definition is None:
        return None
    node = definition.node
    if what == "class" and issubclass(obj, BaseModel):
        return f"(*, {', '.join(obj.model_fields)})", None  # their types stand below
    if isinstance(node, ast.ClassDef):
        return signature_of_class(node)
    arguments = argument_list(node, method=definition.kind == "method")
    return arguments, ast.unparse(node.returns) if node.returns else None


def signature_of_class(node):
    """Write what makes an object: the arguments of ``__init__``, or the fields."""
    function = initialiser(node)
    if function:
        return argument_list(function, method=True), None
    makers = {ast.unparse(part).partition("(")[0] for part in (*node.bases, *node.decorator_list)}
    if not makers & {"NamedTuple", "dataclass"}:
        return None
    fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
    public = [field for field in fields if not ast.unparse(field.target).startswith("_")]
    return f"({', '.join(map(field_as_argument, public))})", None


def field_as_argument(field):
    """Write a field of a dataclass or named tuple as an argument: its factory is no default."""
    written = f"{ast.unparse(field.target)}: {ast.unparse(field.annotation)}"
    if field.value is None or isinstance(field.value, ast.Call):
        return written
    return f"{written} = {ast.unparse(field.value)}"


def argument_list(function, method):
    """Write the arguments of a function, without the object or class that a method is called on."""
    arguments = copy.deepcopy(function.args)
    decorators = {ast.unparse(decorator) for decorator in function.decorator_list}
    if method and "staticmethod" not in decorators:
        first = arguments.posonlyargs or arguments.args
        del first[0]
    return f"({ast.unparse(WithoutMetadata().visit(arguments))})"


def find_type(app, env, node, content):
    """Lead from a type in a signature to its entry, in whatever module of the package that is."""
    if node.get("refdomain") != "py" or "." in node["reftarget"]:
        return None
    ending = f".{node['reftarget']}"
    domain = env.get_domain("py")
    entries = {name for name in domain.objects if name.endswith(ending)}
    if len(entries) > 1:  # of one name: that of the module itself, or the one that it imports
        module = node.get("py:module") or ""
        entries &= {f"{place}{ending}" for place in (module, *imported(module, node["reftarget"]))}
    if len(entries) != 1:
        return None
    (entry,) = entries
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", entry, node, content)


def imported(module, name):
    """List the modules from which a module imports a name."""
    path = modules().get(module)
    if path is None:
        return []
    sources = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            sources.append(node.module)
    return sources


@functools.cache
def defined():
    """Collect all public definitions by the names that a reader imports."""
    by_name = {}
    for module in modules():
        for definition in definitions(module):
            by_name[definition.name] = definition
    return by_name


def without_metadata(annotation):
    """Leave out what pydantic and typer put into ``Annotated``, which is not the type."""
    return ast.unparse(WithoutMetadata().visit(ast.parse(annotation, mode="eval")))


class WithoutMetadata(ast.NodeTransformer):
    """Replace ``Annotated[type, ...]`` by the type."""

    def visit_Subscript(self, node):
        """Look inside, then at the name in front of the brackets."""
        self.generic_visit(node)
        return node.slice.elts[0] if getattr(node.value, "id", None) == "Annotated" else node


def skip_fields(app, what, name, obj, skip, options):
    """Leave out what pydantic adds, and the fields of named tuples.

    Their class describes these, and Python knows them by number only.
    """
    docstring = getattr(obj, "__doc__", None) or ""
    if name == "model_config" or docstring.startswith("Alias for field number"):
        return True
    return None  # as autodoc would have it


def point_back(app, pagename, templatename, context, doctree):
    """Lead from a source back to where it is documented.

    viewcode believes that all names of a file come from one place.
    """
    if not pagename.startswith("_modules/lwcore/"):
        return
    module = pagename.removeprefix("_modules/").replace("/", ".")
    documented = {}
    for definition in definitions(module):
        n_parts = 2 if definition.kind == "method" else 1  # Class.method, or a name alone
        name_in_module = ".".join(definition.name.split(".")[-n_parts:])
        documented[name_in_module] = definition.name

    def corrected(link):
        """Put the documented name into the place of viewcode's."""
        return link[1] + documented.get(link[3], link[2] + link[3])

    context["body"] = BACK.sub(corrected, context["body"])


def forget_modules_without_source(app):
    """Leave out of the index of sources what has none, such as Python's own module of builtins."""
    modules_seen = getattr(app.env, "_viewcode_modules", {})
    for name in [name for name, entry in modules_seen.items() if not entry]:
        del modules_seen[name]
    return []


def setup(app):
    """Connect all; docstrings are changed before napoleon, priority 500, reads them."""
    app.add_directive("modules", Modules)
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"  # as the docstrings have it
    app.connect("autodoc-process-docstring", describe_settings, priority=400)
    app.connect("autodoc-process-signature", write_signature)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("missing-reference", find_type)
    app.connect("html-collect-pages", forget_modules_without_source, priority=400)
    app.connect("html-page-context", point_back)
