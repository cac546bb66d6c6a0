"""Run the text of a cell as the notebook itself does, with one change of its syntax tree.

The magic gets the cell's body; everything that a user can observe is the same as without the magic:

    body    x = 1         lines keep their numbers in the visible cell,
            f(x)          inspect.getsource(f) finds the text,
                          f(x)'s value is shown as Out[n], unless `;` ends the cell,
            f(1 / 0)      a traceback begins in the cell, not in the magic

In torch: nothing. IPython: InteractiveShell.run_ast_nodes does this for a cell
without magics. Read next: nbcompile/jupyter/wrapping.py, which makes the change.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import linecache
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import cast

from IPython.core.displayhook import DisplayHook
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from nbcompile.dispatch import tracebacks

Change = Callable[[ast.Module], ast.Module]


@dataclass(frozen=True, slots=True)
class ParsedCell:
    """A cell that is ready to run."""

    file: str
    """The name under which ``linecache`` holds the text."""
    defines: str
    """The functions and classes that it defines, for a title: ``f, Net``."""
    codes: tuple[CodeType, ...]
    """One for each statement; the statement whose value is shown is compiled in mode ``single``."""


def parse(shell: InteractiveShell, body: str, change: Change, title: str = "%%compile") -> ParsedCell:
    """Read a cell's body: IPython's syntax, the shell's own AST transformers, and ours.

    Raises:
        SyntaxError: the cell is no Python.
        UsageError: the cell awaits at its top level; a magic cannot.
    """
    at = _position(shell)
    # Blank lines replace those up to the magic, so that line numbers are those of the visible cell.
    if title.startswith("%%"):
        source = shown = "\n" * at.line + shell.transform_cell(body)
    else:
        source = "\n" * (at.line - 1) + shell.transform_cell(body)
        shown = "".join((*at.lines[: at.line - 1], source.lstrip("\n"), *at.lines[at.line :]))
    file = shell.compile.cache(shown, at.number, raw_code=f"{title}\n{shown}")
    tree = cast(ast.Module, shell.compile.ast_parse(source, filename=file))
    # IPython runs such a cell in an event loop; a magic gets only its text, and no loop.
    if awaits(tree):
        raise UsageError(
            f"{title} cannot run a cell that awaits at its top level: define the functions under the magic "
            "and await in a cell of its own, or decorate them with @nbcompile.compile"
        )
    tree = change(shell.transform_ast(tree))
    silent = bool(tree.body) and DisplayHook.semicolon_at_end_of_expression(body)
    codes = _compiled(shell, tree.body, file, "none" if silent else shell.ast_node_interactivity)
    names = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return ParsedCell(file, ", ".join(names), codes)


@dataclass(frozen=True, slots=True)
class _Position:
    """The position of the magic that runs."""

    number: int
    """The cell's number: ``In[number]``."""
    line: int
    """The line in that cell, counted from 1."""
    lines: tuple[str, ...]
    """The cell's text, as IPython transformed it."""


def _position(shell: InteractiveShell) -> _Position:
    # A magic gets its text only: the frame that called IPython for it has file and line. It may belong to no cell,
    # where a program runs by %run, or another magic runs the text.
    frames = traceback.walk_stack(None)
    if any(frame.f_code in _CALLS_OF_MAGICS for frame, _ in frames):
        caller, line = next(frames)
        file = caller.f_code.co_filename
        if label := shell.compile.format_code_name(file):
            return _Position(int(label[1].strip("In[]")), line, tuple(linecache.getlines(file)))
    return _Position(shell.displayhook.prompt_count, 1, ())


_CALLS_OF_MAGICS = (InteractiveShell.run_line_magic.__code__, InteractiveShell.run_cell_magic.__code__)


def awaits(tree: ast.Module) -> bool:
    """Return whether a cell uses ``await``, ``async for`` or ``async with`` at the top level."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
            return True
        if isinstance(node, ast.comprehension) and node.is_async:
            return True
        # An `await` inside of a function does not count.
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def _compiled(shell: InteractiveShell, body: list[ast.stmt], file: str, interactivity: str) -> tuple[CodeType, ...]:
    if interactivity == "last_expr_or_assign":
        body = [*body, *_name_of_assigned(body)]
    shown = {
        "all": len(body),
        "last": 1,
        "none": 0,
    }.get(interactivity, 1 if body and isinstance(body[-1], ast.Expr) else 0)
    compiler = cast(Callable[[ast.AST, str, str], CodeType], shell.compile)  # it accepts trees, too
    # Mode "single" sends the value of an expression to the display hook, as the prompt does.
    first_shown = len(body) - shown
    silent = [compiler(ast.Module([node], []), file, "exec") for node in body[:first_shown]]
    return (*silent, *(compiler(ast.Interactive([node]), file, "single") for node in body[first_shown:]))


def _name_of_assigned(body: list[ast.stmt]) -> list[ast.stmt]:
    # The setting "last_expr_or_assign" shows `y` for a cell that ends with `y = ...`.
    match body[-1:]:
        case [ast.Assign(targets=[ast.Name() as target])] | [ast.AnnAssign(target=ast.Name() as target)]:
            pass
        case [ast.AugAssign(target=ast.Name() as target)]:
            pass
        case _:
            return []
    return [ast.fix_missing_locations(ast.copy_location(ast.Expr(ast.Name(target.id, ast.Load())), target))]


def run(shell: InteractiveShell, cell: ParsedCell) -> None:
    """Run a cell in the user's namespace; its exceptions propagate."""
    __tracebackhide__ = True  # for debuggers
    try:
        for code in cell.codes:
            exec(code, shell.user_global_ns, shell.user_ns)
    except BaseException as error:
        tracebacks.hide_ours(error)
        _hide_ourselves(shell, error, cell.file)
        raise


def _hide_ourselves(shell: InteractiveShell, error: BaseException, file: str) -> None:
    """Have IPython print the part of a traceback that begins in the cell."""
    # Frames above the cell are IPython's and ours, in every traceback: they are not about the program.
    inner = error.__traceback__
    while inner is not None and inner.tb_frame.f_code.co_filename != file:
        inner = inner.tb_next
    if inner is None:
        return

    def render(trace: TracebackType = inner) -> list[str]:
        del error._render_traceback_  # type: ignore[attr-defined]  # once: the next raise has its own traceback
        shown, left_out = without_repetitions(trace)
        lines = shell.InteractiveTB.structured_traceback(type(error), error, shown, tb_offset=0)
        return [*lines, *left_out]

    with contextlib.suppress(AttributeError):  # an exception class may forbid attributes
        error._render_traceback_ = render  # type: ignore[attr-defined]


MOST_ALIKE = 3
"""Number of calls in a row of one line that are shown."""


def without_repetitions(trace: TracebackType) -> tuple[TracebackType, list[str]]:
    """A traceback in which repeated calls of one line are shown three times, with a text for the omitted ones.

    IPython shortens them from 500 on, but a compiled function reaches Python's recursion limit with fewer.
    """
    shown, left_out = [], []
    for (code, line), run in itertools.groupby(_parts(trace), lambda part: (part.tb_frame.f_code, part.tb_lineno)):
        alike = list(run)
        shown += alike[:MOST_ALIKE]
        if (hidden := len(alike) - MOST_ALIKE) > 0:
            left_out.append(f"[... {hidden} more calls like this: {code.co_name} at line {line}]")
    if not left_out:
        return trace, []
    inner = None
    for part in reversed(shown):
        inner = TracebackType(inner, part.tb_frame, part.tb_lasti, part.tb_lineno)
    return inner or trace, left_out


def _parts(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def show_syntax_error(shell: InteractiveShell, error: SyntaxError) -> None:
    """Report a syntax error as for a cell without a magic: without a stack.

    Raises:
        SyntaxError: the same, where no cell is running that could be marked as failed.
    """
    running = shell.displayhook.exec_result
    if running is None:
        raise error
    shell.showsyntaxerror()
    running.error_before_exec = error
