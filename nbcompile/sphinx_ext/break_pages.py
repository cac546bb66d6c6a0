"""A page for each kind of graph break, made from the registry and from examples that are run.

    docs/graph_breaks/examples.py: nb0005, nb0005_fixed   ->   docs/graph_breaks/nb0005.md

What a page says that happens has happened: the example is compiled, and must
meet the kind; so is the fix, which must not. All of it runs in one process.

In torch: the site of https://meta-pytorch.github.io/compile-graph-break-site.
Read next: nbcompile/tracing/breaks.py
"""

from __future__ import annotations

import importlib.util
import inspect
import io
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from sphinx.application import Sphinx

from nbcompile import api, config
from nbcompile.errors import break_text
from nbcompile.record.model import Break
from nbcompile.tracing import breaks

FOLDER = "graph_breaks"
TORCHS_SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb"


class ExampleFailed(Exception):
    """An example does not do what its page would say."""


def write_pages(app: Sphinx) -> None:
    """When a build begins: write every page that changed."""
    write(Path(app.srcdir) / "docs" / FOLDER)


def write(folder: Path) -> None:
    """Write the pages and their index into a folder that holds the examples."""
    examples = load_examples(folder / "examples.py")
    wanted = {f"{kind.id.lower()}.md": page(kind, examples) for kind in breaks.KINDS.values()}
    for name, text in {**wanted, "index.md": index()}.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def load_examples(path: Path) -> ModuleType:
    """The module of examples, which lies outside of the package."""
    specification = importlib.util.spec_from_file_location("graph_break_examples", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def index() -> str:
    """The page that lists all kinds."""
    rows = [f"| [{each.id}]({each.id.lower()}.md) | {each.gb_id} | {each.title} |" for each in _in_order()]
    pages = [each.id.lower() for each in _in_order()]
    return "\n".join([
        "# Graph breaks", "",
        "Every reason for which the compiler ends a graph, or leaves a function to Python. The title and the number",
        "that begins with GB are torch's, where the concept is torch's.", "",
        "| kind | in torch | what happened |", "|---|---|---|", *rows, "",
        "```{toctree}", ":hidden:", "", *pages, "```", "",
    ])  # fmt: skip


def _in_order() -> list[breaks.BreakKind]:
    return [breaks.KINDS[name] for name in sorted(breaks.KINDS)]


def page(kind: breaks.BreakKind, examples: ModuleType) -> str:
    """One kind: what it means, how it looks, what to do."""
    name = kind.id.lower()
    lines = [f"# {kind.id}: {kind.title}", "", _plain(kind.explanation), ""]
    if kind.gb_id:
        lines += [f"In torch: [{kind.gb_id}]({TORCHS_SITE}/{kind.gb_id.lower()}.html)", ""]
    example = getattr(examples, name, None)
    if example is None:
        lines += ["There is no short example: it takes code that the compiler does not know yet.", ""]
    else:
        lines += ["## Example", "", *_source(example), *_report(kind, example)]
    if kind.hints:
        lines += ["## What to do", "", *(f"- {_plain(hint)}" for hint in kind.hints), ""]
    fixed = getattr(examples, f"{name}_fixed", None)
    if fixed is not None:
        if kind.id in {each.kind for each in met(fixed)}:
            raise ExampleFailed(f"{fixed.__name__} meets {kind.id} too")
        lines += ["## Without the break", "", *_source(fixed, name), *_settings(fixed)]
    return "\n".join(lines)


def _plain(template: str) -> str:
    """A text of the registry, with its placeholders as words."""
    return template.replace("{", "⟨").replace("}", "⟩")


def _source(function: FunctionType, name: str = "") -> list[str]:
    text = inspect.getsource(function)
    lines = [line for line in text.split("\n") if not line.startswith("@given")]
    shown = "\n".join(lines).strip().replace(function.__name__, name or function.__name__).replace(name or "\0", "f")
    return ["```python", shown.replace(function.__name__, "f"), "```", ""]


def _settings(function: Callable[..., object]) -> list[str]:
    changed = getattr(function, "settings", {})
    lines = [
        f"nbcompile.config.{name}.add({', '.join(each.__qualname__ for each in value)})"
        if isinstance(value, set)
        else f"nbcompile.config.{name} = {value}"
        for name, value in changed.items()
    ]
    return ["with", "", "```python", *lines, "```", ""] if lines else []


def _report(kind: breaks.BreakKind, example: FunctionType) -> list[str]:
    found = next((each for each in met(example) if each.kind == kind.id), None)
    if found is None:
        raise ExampleFailed(f"{example.__name__} does not meet {kind.id}")
    text = break_text(found).partition("\n For more details")[0].rstrip()
    return ["The report:", "", "```text", text.replace(str(Path(__file__).parents[2]) + "/", ""), "```", ""]


def met(example: Callable[..., Any]) -> tuple[Break, ...]:
    """The breaks that an example meets."""
    from_functions = (each() if inspect.isfunction(each) else each for each in _arguments(example))
    pen = api.new_recorder(example.__name__)
    compiled = api.compile(example, backend="eager")
    quiet = warnings.catch_warnings()
    with quiet, config.patch(getattr(example, "settings", {})), redirect_stdout(io.StringIO()), pen.listening():
        warnings.simplefilter("ignore")
        with suppress(Exception):  # an example may be wrong in eager mode, too
            compiled(*from_functions)
    return tuple(each for frame in pen.record().frames for each in frame.breaks)


def _arguments(example: Callable[..., Any]) -> tuple[Any, ...]:
    given: tuple[Any, ...] = getattr(example, "arguments", ())
    return given or (example.__globals__["x"],)
