"""A peer program: a few lines of PyTorch, and calls of them.

    @program()
    def scaled():                                  # the name of the program
        def f(x, k):                               # what is compiled
            return x * k
        return f, [(ones(3), 2), (ones(3), 3)]     # one tuple of arguments a call

    @case((ones(3), 2))                            # the same in short, for one function
    def doubled(x, k): return x * k

    @program(variants={"static": {"dynamic": False}, "dynamic": {"dynamic": True}})
    def sized(): ...                               # two programs, sized_static and sized_dynamic

A call may also be a function that receives the compiled function: it can rebind
a global, enter a grad mode or pass keywords. Program files are executed again
for each compiler, so that functions, code objects, globals and arguments are
never shared.

In torch: nothing. Read next: tests/peer/harness.py
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

FOLDER = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings with which both compilers compile a program."""

    options: Mapping[str, object] = field(default_factory=dict)
    """Arguments of ``compile``: ``dynamic``, ``fullgraph``."""
    config: Mapping[str, object] = field(default_factory=dict)
    """Settings of the configuration during the run, with torch's names."""
    torch_differs: str = ""
    """The reason why torch.compile's result differs from eager mode's; "" if they are equal. (Both are checked.)"""
    oracle: str = "eager"
    """The compiler with the right results: torch.compile if the program checks whether it is compiled."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program with its name."""

    name: str
    family: str
    settings: Settings
    function: str
    """The name of the function in the program file that builds it: the program's name without the variant."""

    def build(self) -> tuple[Callable[..., object], list[Any], ModuleType]:
        """Return a new function, its calls, and the module with its globals."""
        module = _execute(self.family)
        function, calls = getattr(module, self.function)()
        return function, calls, module


def program(
    *,
    config: Mapping[str, object] | None = None,
    torch_differs: str = "",
    differs_on: tuple[tuple[int, int], ...] = ((3, 11), (3, 12), (3, 13)),
    oracle: str = "eager",
    variants: Mapping[str, Mapping[str, object]] | None = None,
    **options: object,
) -> Callable[[FunctionType], FunctionType]:
    """Mark a function of a program file as a program.

    ``differs_on``: the versions of Python in which torch differs. ``variants``: several programs of one function: the
    suffix of each name with the settings: ``config``, or options of ``compile``.
    """
    if sys.version_info[:2] not in differs_on:
        torch_differs = ""

    def settings(more: Mapping[str, Any]) -> Settings:
        given = {**options, **more}
        return Settings(given, given.pop("config", config or {}), torch_differs, oracle)

    def mark(function: FunctionType) -> FunctionType:
        ends = {f"_{end}" if end else "": settings(more) for end, more in (variants or {"": {}}).items()}
        function.variants = ends  # type: ignore[attr-defined]
        return function

    return mark


def case(*calls: tuple[object, ...], **settings: Any) -> Callable[[FunctionType], FunctionType]:
    """The short form of a program: the decorated function is compiled and called with each tuple, or one tensor."""

    def mark(function: FunctionType) -> FunctionType:
        def build() -> tuple[FunctionType, list[Any]]:
            return function, list(calls) or [(torch.arange(4.0) + 1,)]

        return program(**settings)(build)  # type: ignore[arg-type]

    return mark


@functools.cache
def programs() -> dict[str, Program]:
    """All programs of the folder by name, in the order of the files."""
    found: dict[str, Program] = {}
    for path in sorted(FOLDER.glob("*.py")):
        for name, value in vars(_execute(path.stem)).items():
            if not isinstance(value, FunctionType):
                continue
            for end, settings in vars(value).get("variants", {}).items():
                assert name + end not in found, f"two programs are called {name + end!r}"
                found[name + end] = Program(name + end, path.stem, settings, name)
    return found


def _execute(family: str) -> ModuleType:
    module = ModuleType(f"peer_programs_{family}")
    module.__file__ = str(FOLDER / f"{family}.py")
    sys.modules[module.__name__] = module  # dataclasses and pickle find the module there
    exec(_renewed(_compiled(family)), vars(module))
    return module


@functools.cache
def _compiled(family: str) -> CodeType:
    path = FOLDER / f"{family}.py"
    return compile(path.read_text(), str(path), "exec", dont_inherit=True)


def _renewed(code: CodeType) -> CodeType:
    # The cache belongs to the code object: each run needs new code objects.
    constants = (_renewed(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_consts=tuple(constants))
