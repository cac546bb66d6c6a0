"""Referents of weak references, and waiting generators: the residual program releases them when eager mode does.

    node = new(Node)
    reference = ref(node)
    del node                         nothing below reads it: the user's code deleted it, or it was an inner one
    result = print("...")
    return resume(result, reference)    reference() is None there, as in eager

A generator that is suspended in a block runs its cleanup once nothing refers to it any more.

In torch: nothing (the object is created for the reference, and freed at once).
Read next: nbcompile/rewriting/residual.py
"""

from __future__ import annotations

import ast
import itertools
import weakref
from collections.abc import Iterator, Mapping, Sequence

from nbcompile.rewriting.values import waiting


def delete_weak_referents(
    statements: Sequence[ast.stmt], constants: Mapping[str, object], users: frozenset[str]
) -> list[ast.stmt]:
    """Insert a ``del`` after the last use of each referent, and each generator, that the program creates itself.

    Args:
        statements: of the program.
        constants: of the program, by name.
        users: variables of the user's function, which closures may share.
    """
    references = {name for name, value in constants.items() if value is weakref.ref}
    generators = set(_generators(statements, {name for name, value in constants.items() if value is waiting}))
    if not references and not generators:
        return list(statements)
    # What the program reads but does not create itself is referenced elsewhere, and stays alive.
    assigned = {each.id for each in _names(statements) if isinstance(each.ctx, ast.Store)} - users
    return list(_with_deletes(statements, sorted(assigned & {*_referents(statements, references), *generators})))


def _with_deletes(statements: Sequence[ast.stmt], held: Sequence[str]) -> Iterator[ast.stmt]:
    """The statements, with a ``del`` after the last one that uses some locals."""
    # By name, the last statement that uses it: later ones replace earlier ones in the dict.
    last = {each.id: at for at, statement in enumerate(statements) for each in _names([statement])}
    ends: dict[int, list[str]] = {}
    for name in held:
        ends.setdefault(last[name], []).append(name)
    for at, statement in enumerate(statements):
        yield statement
        # After a return nothing runs; the local is freed with the frame.
        if at in ends and not isinstance(statement, ast.Return):
            yield ast.copy_location(ast.Delete([ast.Name(name, ast.Del()) for name in ends[at]]), statement)


def _names(statements: Sequence[ast.stmt]) -> Iterator[ast.Name]:
    return (each for statement in statements for each in ast.walk(statement) if isinstance(each, ast.Name))


def _referents(statements: Sequence[ast.stmt], references: set[str]) -> Iterator[str]:
    """Names of the arguments of ``weakref.ref``."""
    for node in itertools.chain.from_iterable(map(ast.walk, statements)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in references:
            yield from (given.id for given in node.args[:1] if isinstance(given, ast.Name))


def _generators(statements: Sequence[ast.stmt], makers: set[str]) -> Iterator[str]:
    """Names of locals that hold a generator which was created again at a ``yield``."""
    for statement in statements:
        match statement:
            case ast.Assign([ast.Name(local)], ast.Call(ast.Name(maker))) if maker in makers:
                yield local
