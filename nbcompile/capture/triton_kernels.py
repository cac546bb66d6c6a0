"""Contents of a user's Triton kernel that decide its code, as data: its text, and the values of its global names.

    FACTOR = tl.constexpr(3)

    @triton.jit
    def scale(x, n, BLOCK: tl.constexpr): ...            ["JITFunction", "def scale(...", parameters, options,
        tl.store(x + at, twice(tl.load(x + at)))          [["FACTOR", ["constexpr", 3]], ["twice", [...]]]]

Triton's own key does not contain members of modules (``sizes.BLOCK``), and does not distinguish 1 from True.
Kernels are distinguished from other objects by the names of their classes: nothing here imports Triton.

In torch: nothing; JITFunction.cache_key of Triton. Read next: nbcompile/tracing/variables/triton_kernels.py
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

KINDS = ("JITFunction", "Autotuner", "Heuristics")
Describe = Callable[[Any], Any]
"""Callback that describes an object as JSON; it raises if no description is valid in another process."""
_OF_FUNCTIONS = ("noinline", "debug", "version")
"""Settings of ``triton.jit``."""
_HOOKS = ("pre_hook", "post_hook")


def is_triton_kernel(value: object) -> bool:
    """Return whether ``triton.jit``, or a decorator around it, created the value. Triton is not imported for it."""
    kind = type(value)
    return kind.__name__ in KINDS and kind.__module__.startswith("triton.runtime.")


def layers(kernel: Any) -> Iterator[Any]:
    """Iterate over the decorators around a kernel, from the outside, and over the kernel."""
    yield kernel
    while type(kernel).__name__ in KINDS[1:]:
        kernel = kernel.fn
        yield kernel


def function_of(kernel: Any) -> Any:
    """The function that ``triton.jit`` created."""
    return tuple(layers(kernel))[-1]


def contents(kernel: Any, describe: Describe) -> list[Any]:
    """A kernel with its decorators, and everything that it is compiled with; ``describe`` is for values of others."""
    walk = _Walk(describe)
    return [walk.layer(layer) for layer in layers(kernel)]


def constant(value: Any, describe: Describe) -> Any:
    """The same description of a constant argument of a kernel."""
    return _Walk(describe).value(value)


class _Walk:
    """Traversal of names from function to function; each function is described once."""

    def __init__(self, describe: Describe) -> None:
        self.describe = describe
        self.seen: dict[int, int] = {}

    def layer(self, layer: Any) -> list[Any]:
        """A decorator without its inner kernel, or the function."""
        kind = type(layer).__name__
        if kind == "Heuristics":
            return [kind, [[name, self.value(function)] for name, function in layer.values.items()]]
        if kind == "Autotuner":
            names = ("keys", "reset_to_zero", "restore_value", "early_config_prune", "perf_model")
            given = [[name, self.value(getattr(layer, name, None))] for name in names]
            # The hooks that Triton creates itself follow from the names above.
            hooks = [
                [name, self.value(getattr(layer, name))]
                for name in _HOOKS
                if getattr(layer, f"user_defined_{name}", False)
            ]
            return [kind, given, hooks, [self._config(config) for config in layer.configs]]
        return self.function(layer)

    def _config(self, config: Any) -> list[Any]:
        return [[name, self.value(value)] for name, value in sorted(vars(config).items())]

    def function(self, function: Any) -> list[Any]:
        """A function of Triton's language, or one that Triton runs while it compiles."""
        if id(function) in self.seen:
            # The number is the position of the function among those that were described before.
            return ["seen", self.seen[id(function)]]  # it calls itself, or two call it
        self.seen[id(function)] = len(self.seen)
        parameters = [self._parameter(parameter) for parameter in getattr(function, "params", ())]
        options = [[name, self.value(getattr(function, name, None))] for name in _OF_FUNCTIONS]
        names = [[path, self.value(value)] for path, value in _reached(function)]
        return [type(function).__name__, function.src, parameters, options, names]

    def _parameter(self, parameter: Any) -> list[Any]:
        default = self.value(parameter.default) if parameter.has_default else None
        special = parameter.do_not_specialize, parameter.do_not_specialize_on_alignment
        return [parameter.name, parameter.annotation, parameter.has_default, default, *map(bool, special)]

    def value(self, value: Any) -> Any:
        """A value that a kernel reads while it is compiled."""
        kind = type(value)
        if isinstance(value, dict):
            return ["dict", [[self.value(key), self.value(held)] for key, held in value.items()]]
        if kind in (list, tuple):
            return [kind.__name__, [self.value(part) for part in value]]
        if not kind.__module__.startswith("triton."):
            # Triton's own functions and classes: its version is a part of every key.
            module = str(getattr(value, "__module__", ""))
            if module.startswith("triton."):
                return ["triton", module, getattr(value, "__qualname__", "")]
            return self.describe(value)
        if kind.__name__ == "constexpr":
            return ["constexpr", self.value(value.value)]
        if kind.__name__ == "dtype":
            return ["dtype", value.name]
        if hasattr(value, "src") and hasattr(value, "fn"):
            if str(value.__module__).startswith("triton."):
                return ["triton", value.__module__, value.__qualname__]
            return self.function(value)
        return self.describe(value)


def _reached(function: Any) -> Iterator[tuple[str, Any]]:
    """The values that a function's names lead to outside of it: ``FACTOR``, ``sizes.BLOCK``, by way of the module.

    A class is followed, too: its description may not contain the member that is read.
    """
    python = function.fn
    cells = zip(python.__code__.co_freevars, python.__closure__ or (), strict=True)
    scope = {**python.__globals__, **{name: cell.cell_contents for name, cell in cells}}
    for path in _paths(function.src):
        #      sizes.BLOCK     the module sizes: followed, not described;  its BLOCK: described
        #      Table.ROWS      the class Table and its ROWS: both described
        name, *rest = path.split(".")
        if name not in scope:
            continue  # a builtin of Python, or undefined: then Triton raises an error for the kernel
        value, at = scope[name], name
        while True:
            is_way = isinstance(value, ModuleType | type)
            if not isinstance(value, ModuleType):
                yield at, value
            elif value.__name__.partition(".")[0] == "triton":
                break
            if not is_way or not rest or not hasattr(value, rest[0]):
                break
            value, at = getattr(value, rest[0]), f"{at}.{rest[0]}"
            rest = rest[1:]


@functools.lru_cache(maxsize=256)
def _paths(text: str) -> tuple[str, ...]:
    """The names that a function reads and does not bind, each with the attributes that are read of it."""
    tree = ast.parse(text)
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    # A default value is read outside of the function; but it is a constant, and described with the parameter.
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    found = {path for node in ast.walk(tree) if (path := _path(node)) and path.partition(".")[0] not in bound}
    return tuple(sorted(found))


def _path(node: ast.AST) -> str:
    """``sizes.BLOCK``; "" if it is no chain of names."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := _path(node.value)):
        return f"{base}.{node.attr}"
    return ""
