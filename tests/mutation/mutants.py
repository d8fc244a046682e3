"""Mutants: a module with one operator, number or condition changed. cosmic-ray makes them."""

from __future__ import annotations

import ast
import hashlib
import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
WORK = ROOT / "_build" / "mutants"
SEED = 1

# One or two changes for each operator: those that stay within its type. A shift in the place of a
# sum of floats would only raise an error.
BINARY = "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul LShift_RShift BitAnd_BitOr BitOr_BitAnd"
COMPARISON = (
    "Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
)
UNARY = "USub_UAdd Delete_Invert Delete_Not"
OPERATORS = [
    *(f"ReplaceBinaryOperator_{pair}" for pair in BINARY.split()),
    *(f"ReplaceComparisonOperator_{pair}" for pair in COMPARISON.split()),
    *(f"ReplaceUnaryOperator_{pair}" for pair in UNARY.split()),
    *[
        "AddNot",
        "ReplaceTrueWithFalse",
        "ReplaceFalseWithTrue",
        "ReplaceAndWithOr",
        "ReplaceOrWithAnd",
        "ReplaceBreakWithContinue",
    ],
    *[
        "ReplaceContinueWithBreak",
        "ExceptionReplacer",
        "NumberReplacer",
        "RemoveDecorator",
        "ZeroIterationForLoop",
    ],
]


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    module: str
    operator: str
    occurrence: int
    line: int
    before: str  # the line as it is
    after: str  # the line as changed

    @property
    def key(self) -> str:
        """Name of the mutant."""
        return f"{self.module}:{self.operator}:{self.occurrence}"


def changed(source: str, operator: str, occurrence: int) -> str | None:
    """Apply one of cosmic-ray's operators at one of the places for it; None if there are fewer."""
    from cosmic_ray.mutating import mutate_code  # here, as it is no dependency of the tests
    from cosmic_ray.plugins import get_operator

    return mutate_code(source, get_operator(f"core/{operator}")(), occurrence)


def mutants(module: str) -> list[Mutant]:
    """List the mutants of a module that differ from it in more than an annotation."""
    kept = WORK / f"{fingerprint(module)}.json"
    if kept.exists():
        return [Mutant(**fields) for fields in json.loads(kept.read_text())]
    source = (ROOT / module).read_text()
    original, lines = evaluated(source), source.splitlines()
    found = []
    for operator in OPERATORS:
        occurrence = 0
        while (mutated := changed(source, operator, occurrence)) is not None:
            after = mutated.splitlines()
            line = next(
                (
                    i
                    for i, a in enumerate(lines)
                    if a.strip() and (i >= len(after) or a != after[i])
                ),
                None,
            )
            if line is not None and evaluated(mutated) != original:
                # a removed decorator takes its line with it
                becomes = "" if operator == "RemoveDecorator" else after[line].strip()
                found.append(
                    Mutant(module, operator, occurrence, line + 1, lines[line].strip(), becomes)
                )
            occurrence += 1
    WORK.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps([asdict(mutant) for mutant in found]))
    return found


def evaluated(source: str) -> str:
    """Return the syntax tree without annotations and without formatted text."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            node.values = []
        for name in ("annotation", "returns"):
            if hasattr(node, name):
                setattr(node, name, None)
    return ast.dump(tree)


def chosen(modules: tuple[str, ...], most: int) -> tuple[list[Mutant], int]:
    """Draw the mutants to run, in random order; also return how many there are."""
    everything = [mutant for module in modules for mutant in mutants(module)]
    random.Random(SEED).shuffle(everything)
    return everything[:most], len(everything)


def fingerprint(*files: str) -> str:
    """Return a hash of files of the repository."""
    return hashlib.sha256(b"".join((ROOT / file).read_bytes() for file in files)).hexdigest()[:16]
