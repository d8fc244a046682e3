"""The reference of the package: autodoc, with signatures as the code writes them, the types that a
module names, and each name once, where a reader imports it."""

import inspect
import re
import sys
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from sphinx.util.inspect import stringify_signature

ROOT = Path(__file__).parents[2]
ASSIGNED = re.compile(r"^ *([A-Z][a-z]\w*): ?\w* = |^ *([A-Z][a-z]\w*) = (.*)", re.MULTILINE)
NO_PAGE = re.compile(r'<li><a href="builtins.html">builtins</a></li>')
LINK_BACK = re.compile(r'<a class="viewcode-back" .*?</a>')


@cache
def modules() -> list[str]:
    """List the public modules of the package."""
    names = []
    for path in sorted((ROOT / "lwcore").rglob("*.py")):
        dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        names.append(dotted.removesuffix(".__init__"))
    return [name for name in names if "._" not in name]


def is_given_on(module: str, name: str, value: Any) -> bool:
    """Tell whether the package around a module gives a value of it on as its own."""
    package = sys.modules.get(module.rpartition(".")[0])
    return name in getattr(package, "__all__", ()) and getattr(package, name) is value


@cache
def public() -> dict[str, Any]:
    """Collect the public functions, classes and methods, by the names that a reader imports."""
    found = {}
    for module in map(import_module, modules()):
        for name, value in vars(module).items():
            is_own = getattr(value, "__module__", "") == module.__name__
            if name.startswith("_") or not is_own or not callable(value):
                continue
            package = module.__name__.rpartition(".")[0]
            place = package if is_given_on(module.__name__, name, value) else module.__name__
            found[f"{place}.{name}"] = value
            members = vars(value) if isinstance(value, type) else {}
            for member, function in members.items():
                is_function = inspect.isroutine(function) or isinstance(function, property)
                if is_function and not member.startswith("_"):
                    found[f"{place}.{name}.{member}"] = function
    return found


def types_of(module: ModuleType) -> dict[str, str]:
    """Collect the types that a module names, for its signatures, each with what it allows."""
    found = {}
    for match in ASSIGNED.finditer(inspect.getsource(module)):
        name = match[1] or match[2]
        value = vars(module).get(name)
        if get_origin(value) is Literal:
            found[name] = "one of " + ", ".join(f"``{choice!r}``" for choice in get_args(value))
        elif description := getattr(getattr(value, "__metadata__", [0])[-1], "description", ""):
            found[name] = description
        elif re.match(r"(Float|Callable|tuple)\[|Tensor \| ", match[3] or ""):
            found[name] = f"``{match[3]}``"
    return found


def describe(app, what, name, obj, options, lines):
    """Add types to a module's docstring, and to a class's its own constructor, or its fields."""
    if what == "module":
        for alias, meaning in types_of(obj).items():
            lines += ["", f".. py:type:: {alias}", "", f"   {meaning}", ""]
    elif what == "class" and issubclass(obj, BaseModel):
        written = {}
        for base in reversed(obj.__mro__):
            written |= vars(base).get("__annotations__", {})
        lines.append("Attributes:")
        for key, field in obj.model_fields.items():
            kind = re.sub(r"Annotated\[(.*), _LIST\]", r"\1", written[key])
            default = "" if field.is_required() else f" = {field.default!r}"
            lines.append(f"    {key} (``{kind}{default}``): {field.description or ''}")
        lines.append("")
    elif what == "class" and "__init__" in vars(obj):
        lines += inspect.cleandoc(obj.__init__.__doc__ or "").split("\n")


def signature_as_written(app, what, name, obj, options, signature, returned):
    """Write a signature as the code has it: ``Lags`` and ``Float[Tensor, "B T D"]``."""
    if what not in ("class", "function", "method") or signature is None:
        return None
    if what == "class" and issubclass(obj, Enum):
        return "", None  # its members stand below
    if what == "class" and issubclass(obj, BaseModel):
        return f"(*, {', '.join(obj.model_fields)})", None  # their types stand below
    try:
        written = inspect.signature(obj)
    except ValueError:  # it is made in C
        return None
    kept = [one for one in written.parameters.values() if one.name != "self"]
    arguments, _, result = stringify_signature(written.replace(parameters=kept)).rpartition(" -> ")
    if what == "class" and "__init__" not in vars(obj):  # the settings stand at its base
        arguments = re.sub(r", \*, .*", ", **settings)", arguments)
    return (arguments or result, result if arguments and what != "class" else None)


def leave_out(app, what, name, obj, skip, options):
    """Leave out names that the package gives on, and what pydantic and named tuples add."""
    elsewhere = what == "module" and is_given_on(app.env.temp_data["autodoc:module"], name, obj)
    docstring = getattr(obj, "__doc__", None) or ""
    added = name == "model_config" or docstring.startswith("Alias for field number")
    return True if elsewhere or added else None  # None: as autodoc would have it


def find_type(app, env, node, content):
    """Lead from a type, or a function, to its entry, in whatever module of the package that is."""
    target = node.get("reftarget", "")
    domain = env.get_domain("py")
    entries = [name for name in domain.objects if name.endswith(f".{target}")]
    kinds = [domain.objects[name].objtype for name in entries]
    if node.get("refdomain") != "py" or not (target[:1].isupper() or kinds == ["function"]):
        return None  # an argument, perhaps, which has the name of a class's member
    own = f"{node.get('py:module')}.{target}"
    entry = own if own in entries else (entries or [target])[0]
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", entry, node, content)


def drop_links_back(app, pagename, templatename, context, doctree):
    """Leave out links back from sources: viewcode takes all names to stand where the first does."""
    if pagename.startswith("_modules/lwcore/"):
        context["body"] = LINK_BACK.sub("", context["body"])
    if pagename == "_modules/index":  # it lists a module without a page, too
        context["body"] = NO_PAGE.sub("", context["body"])


def setup(app):
    """Connect all; docstrings are changed before napoleon, priority 500, reads them."""
    app.connect("autodoc-process-docstring", describe, priority=400)
    app.connect("autodoc-process-signature", signature_as_written)
    app.connect("autodoc-skip-member", leave_out)
    app.connect("missing-reference", find_type)
    app.connect("html-page-context", drop_links_back)
