"""What a run reaches: the functions of the package that `experiment.run` calls, or may call, found by import and call in their sources.

A name leads to what its module imports or defines under it; an attribute to what an imported module has under it, or, of anything else, to
every method of that name. That may be too much, never too little but for names made at run time: a test compares it with what a run calls.
"""

import ast
from functools import cache

from package_source import modules

ENTRY = "lwcore.experiment.run"


@cache
def reached(entry=ENTRY):
    """Name the functions, methods and classes that an entry reaches: a set of dotted names."""
    table, methods = definitions()
    seen, waiting = set(), {entry}
    while waiting:
        seen.add(name := waiting.pop())
        module, node = table[name]
        waiting |= {found for found in references(module, node, table, methods) if found in table} - seen
    return frozenset(seen)


@cache
def definitions():
    """Index the package: dotted name → (module, node), and method name → dotted names."""
    table, methods = {}, {}
    for module, path in modules().items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                table[f"{module}.{node.name}"] = module, node
            for inner in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(inner, ast.FunctionDef):
                    table[name := f"{module}.{node.name}.{inner.name}"] = module, inner
                    methods.setdefault(inner.name, set()).add(name)
    return table, methods


@cache
def names(module):
    """What a module calls by which name: its own definitions, and what it imports from the package."""
    own = {}
    for node in ast.walk(ast.parse(modules()[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lwcore"):
            own |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            own.setdefault(node.name, f"{module}.{node.name}")
    return own


def references(module, node, table, methods):
    """What a definition refers to. Of a class only what makes an object: methods are reached when something asks for their name."""
    body = (
        node.body
        if isinstance(node, ast.FunctionDef)
        else [n for n in node.body if getattr(n, "name", "__init__").startswith("__")] + node.bases
    )
    known = names(module)
    for part in [*body, *getattr(node, "decorator_list", ())]:
        for inner in ast.walk(part):
            if isinstance(inner, ast.Name) and inner.id in known:
                yield from through(known[inner.id], table)
            elif isinstance(inner, ast.Attribute):
                home = known.get(inner.value.id) if isinstance(inner.value, ast.Name) else None
                if home in modules() or home in table:
                    yield from through(f"{home}.{inner.attr}", table)
                yield from methods.get(inner.attr, ()) if home not in modules() else ()


def through(name, table):
    """Follow a name through the packages that import it from one of their modules."""
    while name not in table:
        package, _, last = name.rpartition(".")
        if package not in modules() or names(package).get(last, name) == name:
            return
        name = names(package)[last]
    yield name
