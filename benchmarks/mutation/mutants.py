"""Mutants: a module with one operator, number or condition changed. cosmic-ray makes them."""

import ast
import random
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SEED = 1

# One or two changes for each operator: those that stay within its type. A shift in the place of a
# sum of floats would only raise an error.
BINARY = (
    "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul LShift_RShift BitAnd_BitOr "
    "BitOr_BitAnd"
)
COMPARISON = (
    "Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
)
UNARY = "USub_UAdd Delete_Invert Delete_Not"
OTHERS = (
    "AddNot ReplaceTrueWithFalse ReplaceFalseWithTrue ReplaceAndWithOr ReplaceOrWithAnd "
    "ReplaceBreakWithContinue ReplaceContinueWithBreak ExceptionReplacer NumberReplacer "
    "RemoveDecorator ZeroIterationForLoop"
)
OPERATORS = [
    *(f"ReplaceBinaryOperator_{pair}" for pair in BINARY.split()),
    *(f"ReplaceComparisonOperator_{pair}" for pair in COMPARISON.split()),
    *(f"ReplaceUnaryOperator_{pair}" for pair in UNARY.split()),
    *OTHERS.split(),
]


class Mutant(NamedTuple):
    """One change of one module."""

    module: str
    function: str  # or class, around the line; empty outside of all
    line: int
    operator: str
    occurrence: int
    before: str  # the line as it is
    after: str  # the line as changed


def changed(source: str, operator: str, occurrence: int) -> str | None:
    """The source with one of cosmic-ray's operators applied at one of the places for it; None if
    there are fewer."""
    from cosmic_ray.mutating import mutate_code  # here, as it is no dependency of the tests
    from cosmic_ray.plugins import get_operator

    return mutate_code(source, get_operator(f"core/{operator}")(), occurrence)


def mutants(module: str) -> list[Mutant]:
    """The mutants of a module that differ from it in more than an annotation."""
    source = (ROOT / module).read_text()
    original, lines, found = evaluated(source), source.splitlines(), []
    for operator in OPERATORS:
        occurrence = 0
        while (mutated := changed(source, operator, occurrence)) is not None:
            after = [*mutated.splitlines(), *lines]  # a removed decorator takes its line with it
            line = next((i for i, a in enumerate(lines) if a.strip() and a != after[i]), None)
            if line is not None and evaluated(mutated) != original:
                becomes = "" if operator == "RemoveDecorator" else after[line].strip()
                place = module, function_around(source, line + 1), line + 1
                found.append(Mutant(*place, operator, occurrence, lines[line].strip(), becomes))
            occurrence += 1
    return found


def function_around(source: str, line: int) -> str:
    """The name of the innermost function or class that holds a line, decorators included."""
    innermost, begin = "", 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min(part.lineno for part in (node, *node.decorator_list))
            if begin <= first <= line <= node.end_lineno:
                innermost, begin = node.name, first
    return innermost


def evaluated(source: str) -> str:
    """The syntax tree without annotations and without formatted text."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            node.values = []
        for name in ("annotation", "returns"):
            if hasattr(node, name):
                setattr(node, name, None)
    return ast.dump(tree)


def chosen(modules: tuple[str, ...], most: int) -> tuple[list[Mutant], int]:
    """The mutants to run, in random order, and how many there are."""
    everything = [mutant for module in modules for mutant in mutants(module)]
    random.Random(SEED).shuffle(everything)
    return everything[:most], len(everything)
