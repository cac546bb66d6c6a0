"""``python -m nbcompile explain NB0005``: a kind of graph break, with an example that is compiled when it is shown.

    NB0005: Data-dependent branching           the registry's row
    Example        def f(x): ...               from docs/graph_breaks/examples.py
    What happened  Detected data-dependent ... the compiler's message for the example
    What to do     ...                         its hints
    Without the break                          the same program, rewritten

The example is compiled and has to lead to this kind of break, and the rewritten program must not, so that no page is
wrong about its example. The documentation and ``%compile_explain`` show the same pages.

In torch: the site of https://meta-pytorch.github.io/compile-graph-break-site. Read next: nbcompile/tracing/breaks.py
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import io
import linecache
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from nbcompile import api, config
from nbcompile.record.model import Break
from nbcompile.tracing import breaks

_FILES = (
    Path(__file__).parent / "break_examples.txt",  # in a wheel (pyproject.toml)
    Path(__file__).parents[2] / "docs" / "graph_breaks" / "examples.py",
)
TORCHS_SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb"
WIDTH = 96


class ExampleFailed(Exception):
    """An example does not show what its page states."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a page: ``heading``, ``text``, ``items`` (one a line) or ``code``."""

    kind: str
    text: str


def kinds() -> tuple[breaks.BreakKind, ...]:
    """The kinds that have a page, by id."""
    return tuple(breaks.KINDS[name] for name in sorted(breaks.KINDS))


def page(name: str) -> tuple[Part, ...]:
    """The page of a kind, given by its id: ``NB0005``, in any case.

    Raises:
        ValueError: there is no such kind.
    """
    kind = breaks.KINDS.get(name.strip().upper())
    if kind is None:
        close = _same_number(name) or difflib.get_close_matches(name.strip().upper(), breaks.KINDS, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ValueError(f"{name!r} is no kind of graph break.{hint} They are NB0001 to {max(breaks.KINDS)}.")
    return tuple(_parts(kind, load_examples()))


def _same_number(name: str) -> list[str]:
    """The kind that ``NB07`` or ``7`` means: ``NB0007``."""
    number = re.fullmatch(r"(?:NB)?(\d+)", name.strip().upper())
    written = f"NB{int(number[1]):04}" if number else ""
    return [written] if written in breaks.KINDS else []


def as_markdown(parts: tuple[Part, ...]) -> str:
    """A page for Sphinx and for notebooks."""
    write = {
        "heading": lambda text: f"## {text}",
        "items": lambda text: "\n".join(f"- {each}" for each in text.split("\n")),
        "code": lambda text: f"```python\n{text}\n```",
    }
    title, *rest = parts
    return "\n\n".join([f"# {title.text}", *(write.get(each.kind, str)(each.text) for each in rest)]) + "\n"


def as_text(parts: tuple[Part, ...]) -> str:
    """A page for a terminal."""

    def prose(text: str, first: str = "", rest: str = "") -> str:
        return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)

    write: dict[str, Callable[[str], str]] = {
        "heading": lambda text: f"{text}\n{'-' * len(text)}",
        "items": lambda text: "\n".join(prose(each, "- ", "  ") for each in text.split("\n")),
        "code": lambda text: textwrap.indent(text, "    "),
    }
    title, *rest = parts
    heading = f"{title.text}\n{'=' * len(title.text)}"
    return "\n\n".join([heading, *(write.get(each.kind, prose)(each.text) for each in rest)]) + "\n"


# --- content of a page -------------------------------------------------------------------------


def _parts(kind: breaks.BreakKind, examples: ModuleType) -> Iterator[Part]:
    yield Part("heading", f"{kind.id}: {kind.title}")
    general = "{" not in kind.explanation
    if general:
        yield Part("text", kind.explanation)
    example = Example.of(examples, kind.id.lower())
    found = example.break_of(kind)
    yield Part("heading", "Example")
    yield Part("code", example.text)
    yield from _with_settings(example)
    explanation = _readable(found.explanation) if found else _without_names(kind.explanation)
    if not general:
        yield Part("text", explanation)
    if found and found.context:
        context = _readable(found.context)
        yield Part("text", "The compiler's own details: " + (context if "`" in context else f"`{context}`"))
    hints = tuple(map(_readable, found.hints)) if found else tuple(map(_without_names, kind.hints))
    if hints:
        yield Part("heading", "What to do")
        yield Part("items", "\n".join(each.replace("\n", " ") for each in hints))
    fixed = Example.of(examples, f"{kind.id.lower()}_fixed")
    if fixed.can_run() and any(each.kind == kind.id for each in fixed.breaks()):
        raise ExampleFailed(f"{fixed.name} leads to {kind.id}, too")
    yield Part("heading", "Without the break")
    yield Part("code", fixed.text)
    yield from _with_settings(fixed)
    if kind.gb_id:
        yield Part("text", f"In torch: [{kind.gb_id}]({TORCHS_SITE}/{kind.gb_id.lower()}.html)")


def _with_settings(example: Example) -> Iterator[Part]:
    lines = [
        f"nbcompile.config.{name}.add({', '.join(each.__qualname__ for each in value)})"
        if isinstance(value, set)
        else f"nbcompile.config.{name} = {value}"
        for name, value in example.settings.items()
    ]
    if lines:
        yield Part("text", "with")
        yield Part("code", "\n".join(lines))


def _readable(text: str) -> str:
    """A message without the folders of this machine."""
    text = re.sub(r"[\w./~-]*/(?:site|dist)-packages/", "", text)
    text = re.sub(r"[\w./~-]*/lib/python3\.\d+/", "", text)
    return re.sub(r"\s+", " ", re.sub(r" at 0x[0-9a-f]+", "", text)).strip()


def _without_names(template: str) -> str:
    """A text of the registry without its placeholders, if no example can fill them."""
    return re.sub(r"\{\w+\}", "...", template)


# --- the examples ------------------------------------------------------------------------------


@functools.cache
def load_examples() -> ModuleType:
    """The module of examples, which is outside of the package: user code that is compiled."""
    path = next(filter(Path.exists, _FILES))
    text = path.read_text(encoding="utf-8")
    module = ModuleType("break_examples")
    module.__file__ = f"<{module.__name__}>"
    _register_source(module.__file__, text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about prototypes that an example uses
        exec(compile(text, module.__file__, "exec"), vars(module))
    return module


def _register_source(file: str, text: str) -> None:
    """Register source text without a file in ``linecache``, for stacks and for ``inspect``."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)


@dataclass(frozen=True, slots=True)
class Example:
    """A function of the examples as the page shows it: named ``f``, below the helpers that it uses."""

    name: str
    text: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    settings: dict[str, Any]

    @classmethod
    def of(cls, examples: ModuleType, name: str) -> Example:
        """The example of this name, defined again by the text that is shown."""
        original: FunctionType = getattr(examples, name)
        lines = linecache.getlines(str(examples.__file__))
        definition = _definitions(examples)[name]
        parts = [_source(node, lines) for node in (*_helpers(examples, definition), definition)]
        given = _given(definition)
        call = [f"{name}({', '.join(ast.unparse(_argument(each)) for each in given.args)})"] if given else []
        text = re.sub(rf"\b{name}\b", "f", "\n\n\n".join(parts + call))
        arguments = getattr(original, "arguments", ()) or (vars(examples)["x"],)
        return cls(name, text, _define(text, f"{name}.py", examples), arguments, getattr(original, "settings", {}))

    def can_run(self) -> bool:
        """Return whether the example's modules are installed: NumPy is optional."""
        needs_numpy = re.search(r"\bnp\.", self.text) or any(inspect.isfunction(each) for each in self.arguments)
        return not needs_numpy or self.function.__globals__["np"] is not None

    def break_of(self, kind: breaks.BreakKind) -> Break | None:
        """The break of this kind to which the example leads; None if it cannot run here."""
        if not self.can_run():
            return None
        found = next((each for each in self.breaks() if each.kind == kind.id), None)
        if found is None:
            raise ExampleFailed(f"{self.name} does not lead to {kind.id}")
        return found

    def breaks(self) -> tuple[Break, ...]:
        """The breaks of one call of the example."""
        # An argument that needs NumPy is in a lambda, so that the examples can be imported without NumPy.
        arguments = (each() if inspect.isfunction(each) else each for each in self.arguments)
        recorder = api.new_recorder(self.name)
        compiled = api.compile(self.function, backend="eager")
        quiet = warnings.catch_warnings()
        with quiet, config.patch(self.settings), redirect_stdout(io.StringIO()), recorder.listening():
            warnings.simplefilter("ignore")
            with suppress(Exception):  # an example may be wrong in eager mode, too
                compiled(*arguments)
        return tuple(each for frame in recorder.record().frames for each in frame.breaks)


def _define(text: str, file: str, examples: ModuleType) -> Callable[..., Any]:
    """The function ``f`` of a text, with the globals of the examples: its lines are those of the text."""
    # A file name of its own: automatic dynamic shapes of one example must not affect the next one.
    _register_source(file, text + "\n")
    tree = ast.parse(text)
    tree.body = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == "f"]
    names: dict[str, Any] = {}
    exec(compile(tree, file, "exec"), vars(examples), names)
    function: Callable[..., Any] = names["f"]
    return function


@functools.cache
def _definitions(examples: ModuleType) -> dict[str, ast.stmt]:
    """Definitions of the module of examples, by name, without imports."""
    tree = ast.parse("".join(linecache.getlines(str(examples.__file__))))
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = node
            case ast.Assign(targets=[ast.Name(id=name)]):
                found[name] = node
    return found


def _helpers(examples: ModuleType, definition: ast.stmt) -> tuple[ast.stmt, ...]:
    """The definitions that a function names, and those that they name, in their order."""
    known = {name: node for name, node in _definitions(examples).items() if name not in ("x", "given")}
    referenced, todo = set[str](), _names(definition) & known.keys()
    while todo:
        name = todo.pop()
        referenced.add(name)
        todo |= (_names(known[name]) & known.keys()) - referenced
    found = (known[each] for each in referenced if known[each] is not definition)
    return tuple(sorted(found, key=lambda node: node.lineno))


def _names(definition: ast.stmt) -> set[str]:
    """Names that a definition uses, without the settings of its call."""
    given = _given(definition)
    settings = {id(inner) for each in (given.keywords if given else ()) for inner in ast.walk(each)}
    return {node.id for node in ast.walk(definition) if isinstance(node, ast.Name) and id(node) not in settings}


def _given(definition: ast.stmt) -> ast.Call | None:
    """Decorator with the arguments of an example: ``@given(x, 3)``."""
    for decorator in getattr(definition, "decorator_list", ()):
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "given":
            return decorator
    return None


def _argument(node: ast.expr) -> ast.expr:
    """Argument of an example, which may be wrapped in a lambda."""
    return node.body if isinstance(node, ast.Lambda) else node


def _source(node: ast.stmt, lines: list[str]) -> str:
    """Source of a definition with its decorators, except ``@given``."""
    kept = [each for each in getattr(node, "decorator_list", ()) if each is not _given(node)]
    first = min([node.lineno, *(each.lineno for each in kept)])
    return "".join(lines[first - 1 : node.end_lineno]).rstrip()
