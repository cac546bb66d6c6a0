"""Compilation of a function's syntax tree, and the objects that are its constants, to a code object.

While the tree is compiled, a large integer is the placeholder of each object (a
string would be folded, another object rejected); in the constants of the code
object the objects then replace the placeholders.

In torch: torch/_dynamo/output_graph.py (install_global puts them among the
user's globals). Read next: nbcompile/dispatch/hook.py
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Mapping
from types import CodeType

from nbcompile.bytecode.assemble import assemble
from nbcompile.bytecode.disassemble import disassemble
from nbcompile.rewriting.syntax import identifier, located, parameters, parameters_of

_PLACEHOLDER = 0x6E62_6370_0000_0000_0000
"""The first placeholder of an object, until the code object is built: no constant folding changes it."""


_OUT_OF_THE_WAY = "__nbcompile_frame__"
"""Name of the function while it is compiled: one that calls itself by its global name means the global."""


def compile_function(
    replaced: CodeType, statements: list[ast.stmt], kept: Mapping[str, object]
) -> tuple[CodeType, str]:
    """Compile a code object with the signature, free variables and location of another; return it and its text.

    Args:
        replaced: the code that it replaces.
        statements: its body.
        kept: the objects that some of its names are bound to.
    """
    free, line = list(replaced.co_freevars), replaced.co_firstlineno
    # Declared, so that the code object has exactly these free variables, used or not: the hook demands it.
    body: list[ast.stmt] = [*([ast.Nonlocal(free)] if free else []), *statements]
    function = ast.FunctionDef(identifier(replaced.co_name), parameters_of(replaced), body, [])
    # Before the placeholders: what a reader sees has the names of the objects.
    shown = ast.unparse(located(function, line))
    placeholders = {each: _PLACEHOLDER + number for number, each in enumerate(kept)}
    bound = _BindConstants(placeholders).visit(function)
    bound.name = _OUT_OF_THE_WAY
    #     def factory(x, y):                    the free variables of the replaced code
    #          def __nbcompile_frame__(a, b):    so that x and y are free here, too
    #              nonlocal x, y
    #              ...
    # Only a function inside of another one has free variables; the inner one's code is taken out.
    factory = ast.FunctionDef("factory", parameters(free), [bound], [])
    module = ast.Module([located(factory, line)], [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # a placeholder is called: a function will replace it
        compiled = compile(module, replaced.co_filename, "exec", dont_inherit=True)
    code = _with_constants(_nested(_nested(compiled)), {number: kept[each] for each, number in placeholders.items()})
    code = code.replace(co_name=replaced.co_name, co_qualname=replaced.co_qualname, co_firstlineno=line)
    code = _with_slots_for_cells(code, replaced)
    assert code.co_freevars == replaced.co_freevars, (code.co_freevars, replaced.co_freevars)
    return code, shown


class _BindConstants(ast.NodeTransformer):
    def __init__(self, placeholders: dict[str, int]) -> None:
        self.placeholders = placeholders

    def visit_Name(self, node: ast.Name) -> ast.expr:
        number = self.placeholders.get(node.id)
        return node if number is None else ast.copy_location(ast.Constant(number), node)


def _with_constants(code: CodeType, values: dict[int, object]) -> CodeType:
    def bound(constant: object) -> object:
        if type(constant) is int and constant in values:
            return values[constant]
        # The compiler folds a tuple of constants into one constant.
        if type(constant) is tuple:
            return tuple(map(bound, constant))
        return _with_constants(constant, values) if isinstance(constant, CodeType) else constant

    return code.replace(co_consts=tuple(map(bound, code.co_consts)))


def _with_slots_for_cells(code: CodeType, replaced: CodeType) -> CodeType:
    """Add locals: the hook stores the cells of the replaced frame in the last locals, which may not be arguments."""
    flags = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    arguments = code.co_argcount + code.co_kwonlyargcount + flags
    # A cell variable that is an argument has the argument's slot.
    cells = sum(each not in replaced.co_varnames[:arguments] for each in replaced.co_cellvars)
    free_slots = len({*code.co_varnames, *code.co_cellvars}) - arguments
    if cells <= free_slots:
        return code
    more = tuple(f"slot_{number}" for number in range(cells - free_slots))
    # Assembled again: cells and free variables have the slots behind the locals, and their numbers change.
    return assemble(disassemble(code), code, co_varnames=(*code.co_varnames, *more))


def _nested(code: CodeType) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType))
