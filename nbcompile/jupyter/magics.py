"""``%%compile`` and ``%compile``: compile what a cell defines, run it, show what happened.

    %%compile --show graph,guards -o seen
    def f(x):                    f is compiled when it is called
        return x.sin() + 1
    f(torch.ones(3))             Out[1]: tensor(...), then the picture; `seen` holds the record

    %compile f(x)                the same for one call of a function defined earlier
    %compile f                   from now on f is compiled when it is called

A recorder is active while the cell runs. The record is shown after the cell, even if it raised; its exception
propagates.

In torch: nothing. Read next: nbcompile/jupyter/cell.py, nbcompile/jupyter/session.py
"""

from __future__ import annotations

import argparse
import keyword
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from nbcompile import api, backends, config
from nbcompile.errors import InvalidBackend, InvalidMode
from nbcompile.eval_frame import other_tracers
from nbcompile.fast.disk_cache import writer
from nbcompile.gpu.chip import CHIPS
from nbcompile.jupyter import cell as cells, nothing, peer
from nbcompile.jupyter.status import Status
from nbcompile.jupyter.wrapping import VALUE, WRAP, WrappedFunction, decorate_definitions, wrap_call, wrapper
from nbcompile.record.model import Record
from nbcompile.support import lazy_import
from nbcompile.tools.compare.job import CannotSendError
from nbcompile.views import sections, user_errors
from nbcompile.views.comparison import ComparisonView
from nbcompile.views.explanation import Explanation
from nbcompile.views.profile import ProfileView

if TYPE_CHECKING:
    from nbcompile.tools import profile as profiles
else:  # torch.profiler and its formulas are imported for --profile only
    profiles = lazy_import.module("nbcompile.tools.profile")

Keep = Callable[[str, str, Record], None]
"""Callback that stores a cell's record, with its source and a title."""


@magics_class
class CompileMagics(Magics):
    """The two magics; IPython finds them by their decorators."""

    def __init__(self, shell: InteractiveShell, keep: Keep = lambda *_: None) -> None:
        super().__init__(shell)
        self._keep = keep

    @magic_arguments()
    @argument(
        "-o",
        "--output",
        metavar="NAME",
        help="bind what was recorded: NAME.show('guards'), NAME.report(path)",
    )
    @argument("-s", "--show", metavar="SECTIONS", help=f"show only: {','.join(sections.SECTIONS)}")
    @argument("--predict", action="store_true", help="ask what will be seen, before it is shown")
    @argument("--peer", action="store_true", help="run the cell through the real torch.compile too, and compare")
    @argument("--profile", action="store_true", help="measure kernels and lines while the cell runs")
    @argument("--seconds", type=float, default=300.0, help="time limit of --peer (default: %(default)s)")
    @argument("-q", "--quiet", action="store_true", help="show nothing")
    @argument("--steps", action="store_true", help="record each instruction that is traced, to step through")
    @argument("--fullgraph", action="store_true", help="a graph break is an error")
    @argument("--dynamic", dest="dynamic", action="store_const", const=True, help="all sizes are symbolic")
    @argument("--no-dynamic", dest="dynamic", action="store_const", const=False, help="no size is symbolic")
    @argument(
        "-b",
        "--backend",
        default="inductor",
        help="what compiles the graphs: inductor (default), aot_eager, eager, ...",
    )
    @argument("-t", "--target", metavar="CHIP", help=f"compile for a GPU, and simulate it here: {', '.join(CHIPS)}")
    @argument("-m", "--mode", help="torch.compile's mode: default, reduce-overhead, max-autotune, ...")
    @no_var_expand
    @line_cell_magic
    def compile(self, line: str, cell: str | None = None) -> object:
        """Compile the functions and modules that a cell defines, run the cell, and show what the compiler did.

        The cell's output, value and exceptions are what they are without the
        magic. Functions stay compiled in later cells; the view shows this cell only. On a line, a function or a call
        follows the options:
        ``%compile f(x)``, ``y = %compile --fullgraph f(x)``, ``%compile f``.
        """
        options, statement = _options(self.compile, line)
        if cell is None:
            if not statement:
                raise UsageError("%compile expects a function or a call, as in: %compile f(x)")
            with writer.postponed():
                value = self._run(statement, options, wrap_call, f"%compile {line}")
            return None if statement.rstrip().endswith(";") else value
        if statement:
            raise UsageError(f"%%compile takes options only; {statement!r} belongs on the next line")
        with writer.postponed():  # the writer's thread would compete with the view for the interpreter's lock
            return self._run(cell, options, decorate_definitions, f"%%compile {line}".rstrip())

    def _run(self, body: str, options: argparse.Namespace, change: cells.Change, title: str) -> object:
        shell = self.shell
        assert shell is not None
        try:
            parsed = cells.parse(shell, body, change, title)
        except SyntaxError as error:
            cells.show_syntax_error(shell, error)
            return None
        name = parsed.defines or (title if change is decorate_definitions else body.strip(" ;"))
        recorder = api.new_recorder(name, options.target or "")
        # The view shows the breaks, so no warning is needed.
        recorder.shows_breaks = not options.quiet and "breaks" in sections.chosen(options.show)
        sent = self._serialized_cell(parsed, options) if options.peer else b""
        wrapped: list[WrappedFunction] = []
        # The changed tree calls it by name. It is removed afterwards, so that the namespace has only names of the user.
        shell.user_ns[WRAP] = wrapper(_compiler(options), wrapped)
        status = Status(recorder, shell)
        try:
            # An error of nbcompile must not prevent the cell's result: it is reported, and the function runs as Python.
            quiet = config.suppress_errors or not options.fullgraph
            settings = config.patch(suppress_errors=quiet, record_steps=options.steps)
            with status, api.listening(recorder, threads="new"), settings:
                profile = self._run_parsed(parsed, title, profiled=options.profile)
        # Shown before the exception, since the view often explains it.
        except BaseException:
            self._show(recorder.record(), options, body, status)
            raise
        finally:
            shell.user_ns.pop(WRAP, None)
        record = recorder.record()
        comparison = peer.compare_cell(record, sent, options.seconds) if sent else None
        self._show(record, options, body, status, comparison, profile)
        if not record.frames and not options.quiet:
            names_only = change is wrap_call and not record.calls and VALUE not in shell.user_ns
            print("nbcompile: " + nothing.why(record, wrapped, names_only=names_only).replace("`", ""))  # noqa: T201
        return shell.user_ns.pop(VALUE, None)

    def _run_parsed(self, parsed: cells.ParsedCell, title: str, *, profiled: bool) -> ProfileView | None:
        """Run the cell, and return its profile if that was requested."""
        assert self.shell is not None
        if not profiled:
            cells.run(self.shell, parsed)
            return None
        with profiles.profiling(parsed.defines or title) as profiler:
            cells.run(self.shell, parsed)
        return ProfileView(profiler.result())

    def _serialized_cell(self, parsed: cells.ParsedCell, options: argparse.Namespace) -> bytes:
        """The cell for the other process; b"" where it cannot be sent, with a printed reason."""
        chosen = {name: getattr(options, name) for name in ("fullgraph", "dynamic", "backend", "mode")}
        try:
            return peer.job(self.shell.user_ns if self.shell else {}, parsed, chosen)
        except CannotSendError as error:
            print(f"nbcompile: --peer: {error}")  # noqa: T201
            return b""

    def _show(
        self,
        record: Record,
        options: argparse.Namespace,
        body: str,
        status: Status,
        comparison: ComparisonView | None = None,
        profile: ProfileView | None = None,
    ) -> None:
        shown = Explanation(record, options.show, comparison=comparison, profile=profile)
        if record.frames:
            self._keep(body, record.function, record)
        if options.output and self.shell is not None:
            self.shell.user_ns[options.output] = shown
        if options.quiet:
            status.clear()
        elif record.frames or _has_advice(record):
            status.replace(shown)
        for view in (comparison, profile):
            if view is not None and not options.quiet:
                display(view)


def _has_advice(record: Record) -> bool:
    """True if there is advice for an exception that came before anything was compiled."""
    found = user_errors.of(record)
    return found is not None and bool(found.advice)


_WITH_VALUE = {"--seconds", "-o", "--output", "-s", "--show", "-b", "--backend", "-m", "--mode", "-t", "--target"}


def _options(magic: Callable[..., object], line: str) -> tuple[argparse.Namespace, str]:
    """Split a magic's line into options, which come first, and the code after them, verbatim."""
    words, code = _words(line.strip())
    try:
        options = parse_argstring(magic, " ".join(words))
    except ValueError as error:  # quotes that do not close
        raise UsageError(f"{' '.join(words)}: {error}") from None
    except UsageError as error:
        raise UsageError(f"{error} (%compile? lists the options)") from None
    options.show = _sections(options.show)
    if options.predict:
        options.show = sections.chosen(("predict", *(options.show or sections.USUAL)))
    if options.output and (not options.output.isidentifier() or keyword.iskeyword(options.output)):
        raise UsageError(f"-o: expected a variable name, got {options.output!r}")
    if options.peer and options.target:
        raise UsageError("--peer compares on this machine: it cannot be used with --target")
    if options.target and (options.mode or options.backend != "inductor"):
        raise UsageError("--target is for the backend inductor without a mode")
    try:
        backends.lookup(options.backend)
        backends.read_settings(options.mode, {})
    except (InvalidBackend, InvalidMode) as error:
        raise UsageError(str(error)) from None
    return options, code


def _words(rest: str) -> tuple[list[str], str]:
    """The words of the options, and the code after them."""
    words = []
    # Not by `shlex`: the text after the options is Python, where quotes and spaces have another meaning.
    while rest.startswith("-"):
        word, _, rest = rest.partition(" ")
        rest = rest.lstrip()
        if word == "--":
            break
        words.append(word)
        if word in _WITH_VALUE and rest:
            value, _, rest = rest.partition(" ")
            words.append(value)
            rest = rest.lstrip()
    return words, rest


def _sections(requested: str | None) -> tuple[str, ...] | None:
    if requested is None:
        return None
    try:
        return sections.chosen(name for name in requested.split(",") if name)
    except ValueError as error:
        raise UsageError(f"--show: {error}") from None


def complete_option(shell: InteractiveShell, event: Any) -> list[str]:
    """Completions at the end of a magic's line: options, sections after ``--show``, backends after ``-b``."""
    words = str(event.text_until_cursor).split(" ")
    last, begun = ["", *words][-2:]
    if last in ("-s", "--show"):
        done, comma, begun = begun.rpartition(",")
        return [done + comma + each for each in sections.SECTIONS if each.startswith(begun)]
    if last in ("-t", "--target"):
        return [each for each in CHIPS if each.startswith(begun)]
    if last in ("-b", "--backend"):
        return [each for each in backends.names() if each.startswith(begun)]
    return [each for each in _OPTIONS if begun.startswith("-") and each.startswith(begun)]


_OPTIONS: tuple[str, ...] = tuple(CompileMagics.compile.parser._option_string_actions)
COMPLETERS = {"%%compile": complete_option, "%compile": complete_option}


def _compiler(options: argparse.Namespace) -> Callable[[Callable[..., object]], Callable[..., object]]:
    chosen = partial(
        api.compile,
        fullgraph=options.fullgraph,
        dynamic=options.dynamic,
        backend=options.backend,
        mode=options.mode,
    )
    if options.target:
        chosen = partial(chosen, options={"target": options.target})

    def compile_function(function: Callable[..., object]) -> Callable[..., object]:
        compiled = chosen(function)
        # torch.jit.trace and torch.fx work in a cell with the magic as without it.
        setattr(compiled, other_tracers.AS_WRITTEN, True)
        return compiled

    return compile_function
