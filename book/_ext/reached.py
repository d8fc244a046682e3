"""What a run reaches: the functions of the package that `experiment.run` calls, or may call, found
by import and call in their sources.

A name leads to what its module imports or defines under it. An attribute leads to what an imported
module has under it, to any class where its name is computed; of anything else, to the methods of
that name of every class that is reached. A test watches a run, and fails if it calls what is not
found here.
"""

import ast
from functools import cache

from package_source import modules, parsed

ENTRY = "lwcore.experiment.run"


@cache
def reached(entry=ENTRY):
    """Name the functions, methods, classes and constants that an entry reaches: a set of dotted
    names."""
    found, asked, before = {entry}, set(), 0
    while len(found) > before:
        before = len(found)
        for name in tuple(found):
            names, attributes = references(name)
            found |= names
            asked |= attributes
        found |= {
            name
            for name, owner in methods().items()
            if owner in found and (last(name) in asked or by_others(name))
        }
    return frozenset(found)


def by_others(method):
    """Whether Python, PyTorch or pydantic may call a method, whose name nobody writes then."""
    decorators = {ast.unparse(decorator) for decorator in definitions()[method][1].decorator_list}
    return last(method).startswith(("__", "forward", "backward")) or any(
        word.startswith("model_validator") for word in decorators
    )


def last(name):
    """Give the part of a dotted name behind the last dot."""
    return name.rpartition(".")[2]


def statements(body):
    """Statements at the top of a module, those under an ``if TYPE_CHECKING`` among them."""
    for node in body:
        yield from [*node.body, *node.orelse] if isinstance(node, ast.If) else [node]


@cache
def definitions():
    """Index the package: dotted name → (module, node), of what stands at the top of a module and of
    methods."""
    table = {}
    for module, path in modules().items():
        for node in statements(parsed(path).body):
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            for name in [
                getattr(node, "name", None),
                *(getattr(target, "id", None) for target in targets),
            ]:
                if name:
                    table[f"{module}.{name}"] = module, node
            if isinstance(node, ast.ClassDef):
                inside = (inner for inner in node.body if isinstance(inner, ast.FunctionDef))
                table |= {f"{module}.{node.name}.{inner.name}": (module, inner) for inner in inside}
    return table


@cache
def methods():
    """Name the class of every method."""
    return {
        name: owner for name in definitions() if (owner := name.rpartition(".")[0]) in definitions()
    }


@cache
def known(module):
    """What a module means by a name: its own definitions, and what it imports from the package."""
    imports = (
        node for node in ast.walk(parsed(modules()[module])) if isinstance(node, ast.ImportFrom)
    )
    own = {
        last(name): name
        for name, (home, _) in definitions().items()
        if home == module and name not in methods()
    }
    return own | {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in imports
        if (node.module or "").startswith("lwcore")
        for alias in node.names
    }


@cache
def references(name):
    """Give the dotted names and the attributes that a definition refers to; of a class, without its
    methods."""
    module, node = definitions()[name]
    skipped = [
        inner
        for inner in getattr(node, "body", [])
        if isinstance(node, ast.ClassDef) and isinstance(inner, ast.FunctionDef)
    ]
    waiting, names, attributes = [node], set(), set()
    while waiting:
        part = waiting.pop()
        waiting += [inner for inner in ast.iter_child_nodes(part) if inner not in skipped]
        if isinstance(part, ast.Name):
            names.add(known(module).get(part.id))
        elif isinstance(part, ast.Call) and getattr(part.func, "id", None) == "getattr":
            # any class of a module
            home = known(module).get(getattr(part.args[0], "id", None))
            names |= {
                name
                for name, (where, found) in definitions().items()
                if where == home and isinstance(found, ast.ClassDef)
            }
        elif isinstance(part, ast.Attribute):
            home = known(module).get(getattr(part.value, "id", None))
            names.add(f"{home}.{part.attr}")
            if home not in modules():
                attributes.add(part.attr)
    return {found for found in map(followed, names) if found}, attributes


def followed(name):
    """Follow a name through the packages that import it from one of their modules; None if it is
    not the package's."""
    while name not in definitions():
        package, _, inner = (name or "").rpartition(".")
        if package not in modules() or inner not in known(package):
            return None
        name = known(package)[inner]
    return name
