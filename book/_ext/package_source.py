"""The package read as text, without importing it: which names are public, what a reader imports
them as, and what their docstrings say."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Definition(NamedTuple):
    """A public class or function of a module, or a public method of such a class.

    Attributes:
        name: What it is imported as: ``lwcore.stable.fit``, though it stands in
            ``lwcore.stable.fits``.
        kind: ``"class"``, ``"function"`` or ``"method"``.
        node: Its source.
    """

    name: str
    kind: str
    node: ast.ClassDef | ast.FunctionDef

    @property
    def docstring(self) -> str:
        """What it says of itself, without indentation."""
        return ast.get_docstring(self.node) or ""


def modules() -> dict[str, Path]:
    """List the public modules of the package: dotted name → file."""
    files = {}
    for path in sorted((ROOT / "lwcore").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        if "._" not in name:
            files[name] = path
    return files


@cache
def parsed(path: Path) -> ast.Module:
    """Read a file once."""
    return ast.parse(path.read_text())


def definitions(module: str) -> Iterator[Definition]:
    """Give what a module defines for others, in the order of its source.

    Methods follow their class. A name is that under which a reader imports it: the package's, where
    the package exports it.
    """
    package = module.rpartition(".")[0]
    exported = exported_from(module, package) if package else set()
    for node in public(parsed(modules()[module])):
        name = f"{package if node.name in exported else module}.{node.name}"
        if isinstance(node, ast.FunctionDef):
            yield Definition(name, "function", node)
            continue
        yield Definition(name, "class", node)
        for method in public(node):
            yield Definition(f"{name}.{method.name}", "method", method)


def exported_from(module: str, package: str) -> set[str]:
    """List the names that a package imports from one of its modules."""
    names = set()
    for node in ast.walk(parsed(modules()[package])):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            names.update(alias.name for alias in node.names)
    return names


def public(parent: ast.Module | ast.ClassDef) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    """Give the classes and functions in a body whose names do not begin with an underscore."""
    kinds = (ast.ClassDef, ast.FunctionDef) if isinstance(parent, ast.Module) else ast.FunctionDef
    for node in parent.body:
        if isinstance(node, kinds) and not node.name.startswith("_"):
            yield node


class Alias(NamedTuple):
    """A name that a module gives to a type, for its signatures.

    Attributes:
        name: Dotted name, such as ``lwcore.transport.Order``.
        meaning: What is allowed, in reStructuredText.
    """

    name: str
    meaning: str


def aliases(module: str) -> Iterator[Alias]:
    """Give the types that a module names: choices, ranges, and shapes of arrays."""
    for node in assignments(parsed(modules()[module])):
        name = node.targets[0].id
        meaning = meaning_of(node.value)
        if meaning and re.fullmatch("[A-Z][a-z]+([A-Z][a-z]+)*", name):
            yield Alias(f"{module}.{name}", meaning)


def assignments(module: ast.Module) -> Iterator[ast.Assign]:
    """Give a module's assignments to a name; of two, for checkers and at work, the one at work."""
    for node in module.body:
        branch = node.orelse if isinstance(node, ast.If) else [node]
        for inner in branch:
            if isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
                yield inner


def meaning_of(value: ast.expr) -> str:
    """Say what a type allows; nothing for what is no type."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("constrained", "kind"):
        return str(ast.literal_eval(value.args[1]))
    if not isinstance(value, ast.Subscript | ast.BinOp):
        return ""
    written = ast.unparse(value)
    if not written.startswith(("Literal[", "Float[", "Callable[", "tuple[", "Tensor | ")):
        return ""
    if written.startswith("Literal["):
        choices = ast.literal_eval(written.removeprefix("Literal"))
        return "one of " + ", ".join(f"``{choice!r}``" for choice in choices)
    return f"``{written}``"
