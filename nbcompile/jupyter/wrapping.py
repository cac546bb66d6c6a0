"""Wrapping of a cell: which values are compiled, and how the cell's syntax tree is changed.

Definitions get one more decorator, the outermost; modules that a name is
bound to are compiled in place. Functions inside functions, methods and helpers need no decorator: the compiler inlines
the functions that are called.

    def f(x): ...                @WRAP
                          ->     def f(x): ...
    class Net(Module): ...       @WRAP                    its forward is compiled
                                 class Net(Module): ...
    net = Sequential(...)        net = WRAP(Sequential(...), "net")
    g = lambda x: x + 1          g = WRAP(lambda x: x + 1, "g")

In torch: nothing; there the user writes ``torch.compile`` at each of these.
Read next: nbcompile/api.py
"""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, MethodType

import torch
from IPython.core.error import UsageError

from nbcompile.dispatch import library_calls
from nbcompile.dispatch.skipping import code_skip_reason
from nbcompile.eval_frame.compiled_module import CompiledModule
from nbcompile.support import wrappers

WRAP = "__nbcompile_wrap__"
"""The name that the changed tree calls; the magic binds it while the cell runs."""

VALUE = "__nbcompile_value__"
"""The name that :func:`wrap_call` binds the value of an expression to."""

Compile = Callable[[Callable[..., object]], Callable[..., object]]

_BY_TORCH = (
    "is compiled by torch.compile, which nbcompile leaves alone: remove torch.compile to see here what is compiled."
)
_LEFT_ALONE = {
    "_torchdynamo_disable": "is not compiled: it is marked with torch.compiler.disable.",
    "_nbcompile_disable": "is not compiled: it is marked with nbcompile.disable.",
    "_torchdynamo_orig_callable": _BY_TORCH,
}
"""Attributes of functions that must not be compiled, and the message for each."""
_SUSPENDED = {
    inspect.isgeneratorfunction: "is a generator function, which is not compiled itself: "
    "call it inside a function that is compiled.",
    inspect.iscoroutinefunction: "is a coroutine function, which is not compiled itself: "
    "compile the functions that it calls.",
    inspect.isasyncgenfunction: "is an asynchronous generator function, which is not compiled itself: "
    "compile the functions that it calls.",
}
_PLAIN_CLASS = (
    "is a class, but not an nn.Module: its methods are compiled when a function that is compiled calls them. "
    "Call them in a function, or write %compile before a call."
)


@dataclass(frozen=True, slots=True)
class WrappedFunction:
    """A function or a module of a cell, and whether it is compiled."""

    name: str
    """Name under which its calls are recorded."""
    obstacle: str
    """Reason why it is not compiled, as the end of a sentence; "" if it is."""
    owner: str = ""
    """Class of the method, if the user's code names only the class."""

    @property
    def title(self) -> str:
        """Name to print: ``f``, or ``Net.forward``."""
        return f"{self.owner}.{self.name}" if self.owner else self.name


def decorate_definitions(tree: ast.Module) -> ast.Module:
    """Decorate every definition of a cell with :data:`WRAP`."""
    return ast.fix_missing_locations(_Decorate().visit(tree))


def wrap_call(tree: ast.Module) -> ast.Module:
    """Change the one statement of a ``%compile`` line so that the function that it names or calls is compiled.

        f(x)        ->  VALUE = WRAP(f)(x)
        y = f(x)    ->  y = WRAP(f)(x)
        f           ->  f = WRAP(f)

    Raises:
        UsageError: the statement is none of these.
    """
    match tree.body:
        case [ast.Assign(value=ast.Call() as call) as statement]:
            call.func = _wrap(call.func, _name_of(call.func))
        case [ast.Expr(value=ast.Call() as call)]:
            call.func = _wrap(call.func, _name_of(call.func))
            statement = ast.Assign([ast.Name(VALUE, ast.Store())], call)
        case [ast.Expr(value=(ast.Name() | ast.Attribute()) as function)]:
            target = copy.copy(function)
            target.ctx = ast.Store()
            statement = ast.Assign([target], _wrap(function, _name_of(function)))
        case _:
            raise UsageError("%compile expects a function or a call, as in: %compile f(x)")
    tree.body = [ast.copy_location(statement, tree.body[0])]
    return ast.fix_missing_locations(tree)


class _Decorate(ast.NodeTransformer):
    """Visitor of the statements at the cell's top level, also below ``if``, ``for``, ``with`` and ``try``."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        # The first decorator is the outermost: it gets what the others have returned.
        node.decorator_list.insert(0, _wrap_at(node.decorator_list[0] if node.decorator_list else node))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.decorator_list.insert(0, _wrap_at(node.decorator_list[0] if node.decorator_list else node))
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        node.decorator_list.insert(0, _wrap_at(node.decorator_list[0] if node.decorator_list else node))
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if len(names) == len(node.targets):
            node.value = _wrapped(node.value, names[0])
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        if isinstance(node.target, ast.Name) and node.value is not None:
            node.value = _wrapped(node.value, node.target.id)
        return node


def _name_of(expression: ast.expr) -> str:
    return expression.id if isinstance(expression, ast.Name) else ""


def _wrap_at(location: ast.expr | ast.stmt) -> ast.Name:
    return ast.copy_location(ast.Name(WRAP, ast.Load()), location)


def _wrapped(value: ast.expr, variable: str) -> ast.expr:
    # A call may create a module; a name or a constant cannot.
    return _wrap(value, variable) if isinstance(value, (ast.Call, ast.Lambda)) else value


def _wrap(value: ast.expr, variable: str = "") -> ast.expr:
    """A call of :data:`WRAP` with a value and, if it has one, its name."""
    name = [ast.copy_location(ast.Constant(variable), value)] if variable else []
    return ast.copy_location(ast.Call(_wrap_at(value), [value, *name], []), value)


def wrapper(compile_function: Compile, wrapped: list[WrappedFunction]) -> Callable[..., object]:
    """Function that :data:`WRAP` is bound to: compile functions and modules, return other values unchanged.

    Args:
        compile_function: the function that compiles a function.
        wrapped: is filled with the functions and modules that were called.
    """

    def wrap(value: object, variable: str = "") -> object:
        if isinstance(value, (FunctionType, MethodType)):
            obstacle = _obstacle(value)
            wrapped.append(WrappedFunction(inspect.unwrap(value).__name__, obstacle))
            return value if obstacle or wrappers.is_compiled_here(value) else compile_function(value)
        if isinstance(value, type) and issubclass(value, torch.nn.Module):
            _compile_class(value, compile_function, wrapped)
        elif isinstance(value, type):
            if any(isinstance(each, (FunctionType, classmethod, staticmethod)) for each in vars(value).values()):
                wrapped.append(WrappedFunction(value.__name__, _PLAIN_CLASS))
        elif isinstance(value, torch.nn.Module):
            _compile_instance(value, variable, compile_function, wrapped)
        elif callable(value) and hasattr(value, "__name__"):
            wrapped.append(
                WrappedFunction(value.__name__, "is not a Python function: there is nothing in it to compile.")
            )
        return value

    return wrap


def _obstacle(function: Callable[..., object]) -> str:
    """Reason why calling a function runs no frame that can be compiled; "" if it does."""
    message = next((text for name, text in _LEFT_ALONE.items() if hasattr(function, name)), "")
    if message and not wrappers.is_compiled_here(function):
        return message
    innermost = inspect.unwrap(function)
    return next((text for suspends, text in _SUSPENDED.items() if suspends(innermost)), "")


def _compile_class(cls: type[torch.nn.Module], compile_function: Compile, wrapped: list[WrappedFunction]) -> None:
    """Calls of instances run a compiled ``forward``; hooks stay outside, as in ``Module.__call__``."""
    forward = cls.forward
    if forward is torch.nn.Module.forward or not isinstance(forward, FunctionType):
        wrapped.append(WrappedFunction(cls.__name__, "has no `forward` method: there is nothing to compile."))
        return
    obstacle = _obstacle(forward)
    wrapped.append(WrappedFunction(forward.__name__, obstacle, cls.__name__))
    if not obstacle and not wrappers.is_compiled_here(forward):
        cls.forward = compile_function(forward)


def _compile_instance(
    module: torch.nn.Module, variable: str, compile_function: Compile, wrapped: list[WrappedFunction]
) -> None:
    """Compile one module in place, as ``Module.compile`` does; copies and pickles of it are not compiled."""
    name = type(module).__name__
    if isinstance(module, CompiledModule):
        wrapped.append(WrappedFunction(name, ""))
        return
    if hasattr(module, "_torchdynamo_orig_callable") or (
        module._compiled_call_impl is not None and not wrappers.is_compiled_here(module._compiled_call_impl)
    ):
        wrapped.append(WrappedFunction(name, _BY_TORCH))
        return
    forward = inspect.getattr_static(type(module), "forward")  # not by getattr, which fails for a scripted module
    if not isinstance(forward, FunctionType):
        wrapped.append(
            WrappedFunction(name, "has no `forward` that is a Python function: there is nothing to compile.")
        )
        return
    obstacle = _obstacle(forward)
    if code_skip_reason(forward.__code__) is not None:
        wrapped.append(WrappedFunction(name, obstacle))
    else:
        wrapped.append(WrappedFunction(forward.__name__, obstacle, name))
    if not obstacle and not wrappers.is_compiled_here(forward) and module._compiled_call_impl is None:
        # The frames of a library's own modules (torch.nn.Sequential) are not caught; a frame around them is.
        caught = code_skip_reason(forward.__code__) is None
        called = module._call_impl if caught else library_calls.caller_of(module, variable, "_call_impl")
        module._compiled_call_impl = compile_function(called)
