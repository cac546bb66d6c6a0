"""Run one program in eager mode, with nbcompile and with the real torch.compile, and compare them.

    python -m tests.peer.harness scaled

prints in three columns, for each call, the result, the compiled graphs
(operators, inputs) and the graphs that ran; then the differences. The
oracle runs in the same process: no expected result is stored in a file.

In torch: nothing. Read next: tests/peer/test_programs.py
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import os
import random
import re
import signal
import sys
import textwrap
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
import torch._dynamo

import nbcompile
import nbcompile.config
from nbcompile.peer import observe
from nbcompile.record import recorder
from nbcompile.record.model import Break
from tests.peer import describe
from tests.peer.program import Program, Settings, programs

ASPECTS = ("results", "graphs", "details", "reasons")
"""The aspects that are compared. Results: values and side effects (with eager mode). With torch.compile: operators and
numbers of graphs and recompiles; names, arguments and symbolic sizes; reasons of graph breaks and recompiles."""


@dataclass(frozen=True, slots=True)
class Captured:
    """One graph that the backend received."""

    compile_id: str
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    wiring: tuple[str, ...]

    @property
    def recompiled(self) -> bool:
        """True if the frame was compiled before."""
        return not self.compile_id.endswith("/0")


@dataclass(slots=True)
class Call:
    """The observation of one call."""

    facts: dict[str, str] = field(default_factory=dict)
    """The result (or the exception), the printed text, and the state of every reachable object after the call."""
    captured: list[Captured] = field(default_factory=list)
    """The graphs that were compiled during the call."""
    executed: list[int] = field(default_factory=list)
    """The graphs that ran in the call, in order, as numbers in the whole program."""


@dataclass(slots=True)
class Observation:
    """The observation of one program with one compiler."""

    calls: list[Call] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    """Titles and lines of the graph breaks, in order: ``Data-dependent branching at control.py:12``."""
    recompiles: list[tuple[str, ...]] = field(default_factory=list)
    """The reasons of each recompilation; those of the newest cache entry are first."""
    failures: list[str] = field(default_factory=list)
    """Internal errors of the compiler, reported as warnings; the program ran in eager mode."""

    @property
    def graphs(self) -> list[Captured]:
        return [graph for call in self.calls for graph in call.captured]


@dataclass(frozen=True, slots=True)
class Difference:
    """One disagreement of nbcompile: with eager mode (results) or with torch.compile (all other aspects)."""

    aspect: str
    where: str
    ours: str
    theirs: str


class Compiler(Protocol):
    """One of the three compilers: eager mode, torch.compile, nbcompile."""

    name: str

    def fresh(self) -> None:
        """Delete all compiled code, caches and counters."""

    def compile(self, function: Any, backend: Any, options: Mapping[str, object]) -> Any:
        """Return the compiled function."""

    def compile_id(self) -> str:
        """Return the id of the frame whose graph the backend compiles now."""

    def watched(self, settings: Settings, seen: Observation) -> contextlib.AbstractContextManager[None]:
        """Apply the settings; add the graph breaks and recompiles to ``seen`` at the end."""


class Eager:
    """Eager mode: the program without a compiler."""

    name = "eager"

    def fresh(self) -> None:
        """Do nothing: eager mode has no cache."""

    def compile(self, function: Any, backend: Any, options: Mapping[str, object]) -> Any:
        """Return the function itself."""
        return function

    def compile_id(self) -> str:
        """Return "": eager mode compiles no frame."""
        return ""

    @contextlib.contextmanager
    def watched(self, settings: Settings, seen: Observation) -> Iterator[None]:
        """Do nothing: eager mode has no graph breaks and recompiles."""
        yield


class Theirs:
    """The real torch.compile."""

    name = "torch.compile"

    def fresh(self) -> None:
        """Reset Dynamo: all caches and counters."""
        torch._dynamo.reset()

    def compile(self, function: Any, backend: Any, options: Mapping[str, object]) -> Any:
        """Compile the function with a counting backend."""
        return torch.compile(function, backend=backend, **options)

    def compile_id(self) -> str:
        """Return the id in torch's compile context."""
        return observe.compile_id()

    @contextlib.contextmanager
    def watched(self, settings: Settings, seen: Observation) -> Iterator[None]:
        """Read graph breaks and recompiles from torch's logs."""
        with torch._dynamo.config.patch(dict(settings.config)), observe.watch() as told:
            yield
        seen.breaks += [_placed(met.title, met.file, met.line) for met in told.breaks]
        seen.recompiles += [entry.reasons for entry in told.recompiles]


class Ours:
    """nbcompile."""

    name = "nbcompile"

    def fresh(self) -> None:
        """Reset nbcompile: all caches and counters."""
        nbcompile.reset()

    def compile(self, function: Any, backend: Any, options: Mapping[str, object]) -> Any:
        """Compile the function with a counting backend."""
        return nbcompile.compile(function, backend=backend, **options)

    def compile_id(self) -> str:
        """Return the id in the record that is being written."""
        page = recorder.draft()
        return page.compile_id if page else ""

    @contextlib.contextmanager
    def watched(self, settings: Settings, seen: Observation) -> Iterator[None]:
        """Read graph breaks and recompiles from the record."""
        frame_recorder = recorder.Recorder("program")
        with nbcompile.config.patch(dict(settings.config)), frame_recorder.listening():
            yield
        for frame in frame_recorder.frames:
            if frame.status != "failed":  # with fullgraph=True the break is an error: a fact of the call
                seen.breaks += [_placed(met.title, *_innermost(met)) for met in frame.breaks]
            if frame.failed_guards:
                seen.recompiles.append(tuple(f"{each.compile_id}: {each.reason}" for each in frame.failed_guards))


def _placed(title: str, file: str, line: int) -> str:
    """The title of a break, and the user's line, unless the line is unknown or in torch's polyfills."""
    told = line and "_dynamo" not in Path(file).parts
    return f"{title} at {Path(file).name}:{line}" if told else title


def _innermost(met: Break) -> tuple[str, int]:
    return (met.stack[-1].file, met.stack[-1].line) if met.stack else ("", 0)


EAGER, OURS, THEIRS = Eager(), Ours(), Theirs()
COMPILERS: dict[str, Compiler] = {each.name: each for each in (EAGER, OURS, THEIRS)}


@functools.cache
def observed(name: str, compiler: str) -> Observation:
    """Run a program with a compiler, once per process."""
    return run(programs()[name], COMPILERS[compiler])


def run(program: Program, compiler: Compiler) -> Observation:
    """Run all calls of a new copy of a program with one compiler."""
    seen = Observation()
    compiler.fresh()
    torch.manual_seed(0)
    random.seed(0)
    with _quiet(seen), _modes_restored(), compiler.watched(program.settings, seen):
        function, calls, module = program.build()
        backend = _CountingBackend(compiler, seen)
        compiled = compiler.compile(function, backend, program.settings.options)
        for index, call in enumerate(calls):
            seen.calls.append(Call())
            seen.calls[-1].facts = _make_call(compiled, function, call, module, seed=index)
    compiler.fresh()
    return seen


def _make_call(compiled: Any, function: Any, call: Any, module: types.ModuleType, seed: int) -> dict[str, str]:
    """Make one call, and describe its result and the state after it."""
    torch.manual_seed(seed)
    random.seed(seed)
    printed = io.StringIO()
    outcome: dict[str, object]
    with contextlib.redirect_stdout(printed):
        try:
            outcome = {"result": call(compiled) if callable(call) else compiled(*call)}
        except Exception as error:
            outcome = {"raised": _Raised(error)}
    raised = outcome.pop("raised", None)
    facts = {"raised": str(raised)} if raised else {}
    data = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, (types.ModuleType, types.FunctionType, type))
    }
    facts |= describe.describe(
        module, **outcome, arguments=None if callable(call) else call, function=function, globals=data
    )
    facts["printed"] = printed.getvalue()
    facts["modes"] = str((torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")))
    facts["random state"] = str((torch.get_rng_state().sum().item(), random.getstate()[1][-1]))
    return facts


class _Raised:
    """An exception as text; an exception of a compiler is reduced to its title."""

    def __init__(self, error: BaseException) -> None:
        module = type(error).__module__
        text = str(error)
        if module.startswith(("torch._dynamo", "nbcompile")):
            text = "compiler error: " + text.strip().partition("\n")[0]
        cause = type(error.__cause__).__name__ if error.__cause__ is not None and module == "builtins" else ""
        self.text = f"{type(error).__qualname__}: {text}" + (f" from {cause}" if cause else "")

    def __str__(self) -> str:
        return self.text


class _CountingBackend:
    """A backend that records each graph, and runs it without compiling it."""

    def __init__(self, compiler: Compiler, seen: Observation) -> None:
        self.compiler = compiler
        self.seen = seen

    def __call__(self, module: torch.fx.GraphModule, examples: list[Any], **options: object) -> Callable[..., object]:
        number = len(self.seen.graphs)
        self.seen.calls[-1].captured.append(
            Captured(
                self.compiler.compile_id(),
                describe.operators(module.graph),
                describe.inputs(module, examples),
                describe.wiring(module.graph),
            )
        )

        def run_graph(*arguments: object) -> object:
            self.seen.calls[-1].executed.append(number)
            return module.forward(*arguments)

        return run_graph


@contextlib.contextmanager
def _quiet(seen: Observation) -> Iterator[None]:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
    seen.failures += [str(each.message) for each in warned if each.category.__name__ == "InternalErrorWarning"]


@contextlib.contextmanager
def _modes_restored() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(True):
        dtype = torch.get_default_dtype()
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)


def differences(name: str, aspect: str) -> list[Difference]:
    """The differences of nbcompile in one aspect: from eager mode for results, from torch.compile for the others."""
    ours, theirs = observed(name, "nbcompile"), observed(name, "torch.compile")
    match aspect:
        case "results":
            return same_results(ours, name)
        case "graphs":
            return _differing_graphs(ours, theirs)
        case "details":
            return _differing_details(ours, theirs)
        case "reasons":
            return _differing_reasons(ours, theirs)
        case _:
            raise ValueError(f"no aspect {aspect!r}; the aspects are {', '.join(ASPECTS)}")


def oracle(name: str) -> Observation:
    """The run with the right results: eager mode's, or torch.compile's if it rejects a program (``fullgraph=True``)."""
    return observed(name, "torch.compile" if rejected(name) else programs()[name].settings.oracle)


def rejected(name: str) -> bool:
    """True if torch.compile rejects the program, and the rejection is not marked as an error of torch."""
    if programs()[name].settings.torch_differs:
        return False
    return any("compiler error: " in call.facts.get("raised", "") for call in observed(name, "torch.compile").calls)


def same_results(seen: Observation, name: str) -> list[Difference]:
    """The differences between the results of a run and of the oracle."""
    return _differing_results(seen, oracle(name))


def _differing_results(ours: Observation, theirs: Observation) -> list[Difference]:
    return [
        Difference("results", f"call {index}: {path}", one, other)
        for index, (left, right) in enumerate(zip(ours.calls, theirs.calls, strict=True))
        for path, one, other in describe.same(left.facts, right.facts)
    ]


def _differing_graphs(ours: Observation, theirs: Observation) -> list[Difference]:
    found = []
    for index, (left, right) in enumerate(zip(ours.calls, theirs.calls, strict=True)):
        rows = {
            "operators of new graphs": lambda call: " | ".join(
                ", ".join(map(_short, graph.operators)) for graph in call.captured
            ),
            "inputs of new graphs": lambda call: " | ".join(str(len(graph.inputs)) for graph in call.captured),
            "recompiled": lambda call: " | ".join("yes" if graph.recompiled else "no" for graph in call.captured),
            "graphs run": lambda call: str(call.executed),
        }
        found += [
            Difference("graphs", f"call {index}: {what}", tell(left) or "(none)", tell(right) or "(none)")
            for what, tell in rows.items()
            if tell(left) != tell(right)
        ]
    return found


def _differing_details(ours: Observation, theirs: Observation) -> list[Difference]:
    found = []
    if len(ours.graphs) != len(theirs.graphs):
        return [Difference("details", "graphs", str(len(ours.graphs)), str(len(theirs.graphs)))]
    for number, (left, right) in enumerate(zip(ours.graphs, theirs.graphs, strict=True)):
        for what in ("inputs", "operators", "wiring"):
            one, other = getattr(left, what), getattr(right, what)
            found += [
                Difference("details", f"graph {number}: {what}[{index}]", *pair)
                for index, pair in enumerate(_padded(one, other))
                if pair[0] != pair[1]
            ]
    return found


def _differing_reasons(ours: Observation, theirs: Observation) -> list[Difference]:
    found = [
        Difference("reasons", f"break {index}", *pair)
        for index, pair in enumerate(_padded(ours.breaks, theirs.breaks))
        if pair[0].partition(" at ")[0] != pair[1]  # torch reported no line
    ]
    for index, pair in enumerate(_padded(ours.recompiles, theirs.recompiles)):
        found.append(Difference("reasons", f"recompile {index}", *(_without_ids(each) for each in pair)))
    return [each for each in found if each.ours != each.theirs]


def _without_ids(reasons: object) -> str:
    # Ids also count skipped frames: "4/0: k == 3" -> "k == 3". Addresses differ between processes.
    if not isinstance(reasons, tuple):
        return str(reasons)
    return str([re.sub(r"\d{6,}", "..", re.sub(r"^\d+/\d+: ", "", reason)).strip() for reason in reasons])


def _padded(left: Any, right: Any) -> list[tuple[Any, Any]]:
    length = max(len(left), len(right))
    return [(left[i] if i < len(left) else "(none)", right[i] if i < len(right) else "(none)") for i in range(length)]


def _short(operator: str) -> str:
    return re.sub(r"^(torch\.|_operator\.|operator\.|torch\._C\._nn\.)", "", operator)


def table(found: list[Difference], oracle_name: str = "oracle") -> str:
    """The differences as text, one paragraph each."""
    return "\n".join(
        f"{each.aspect} - {each.where}\n    nbcompile: {each.ours}\n    {oracle_name + ':':<10} {each.theirs}"
        for each in found
    )


def columns(name: str, compilers: tuple[str, ...] = tuple(COMPILERS), width: int = 58) -> str:
    """The observations of a program in columns, one for each compiler."""
    texts = [_story(observed(name, compiler), compiler, width) for compiler in compilers]
    height = max(map(len, texts))
    rows = zip(*(text + [""] * (height - len(text)) for text in texts), strict=True)
    return "\n".join(" | ".join(cell.ljust(width) for cell in row).rstrip() for row in rows)


def _story(seen: Observation, name: str, width: int) -> list[str]:
    lines = [name, "-" * width]
    for index, call in enumerate(seen.calls):
        shown = {
            path: text
            for path, text in call.facts.items()
            if path.startswith(("result", "raised")) or (path == "printed" and text)
        }
        lines += [f"call {index}", *(f"  {path}: {text}" for path, text in shown.items())]
        for graph in call.captured:
            lines += [f"  new graph {graph.compile_id}: {', '.join(map(_short, graph.operators))}"]
            lines += [f"    {each}" for each in graph.inputs]
        if name != "eager":
            lines += [f"  graphs run: {call.executed}"]
    lines += [part for each in seen.failures for part in ("INTERNAL ERROR", *each.splitlines())]
    lines += [f"break: {each}" for each in seen.breaks]
    lines += [f"recompiled: {'; '.join(each)}" for each in seen.recompiles]
    return [part for line in lines for part in (textwrap.wrap(line, width, subsequent_indent="      ") or [""])]


def main() -> int:
    """Print the columns of the named programs, or one line for each program."""
    parser = argparse.ArgumentParser(prog="python -m tests.peer.harness", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="programs or families; none: a line for each program")
    parser.add_argument("--without-ours", action="store_true", help="eager and torch.compile alone")
    arguments = parser.parse_args()
    compilers = ("eager", "torch.compile") if arguments.without_ours else tuple(COMPILERS)
    if unknown := [name for name in arguments.names if not _matching(name)]:
        parser.error(f"no program or family is called {', '.join(unknown)}")
    failed = 0
    for name in [each for asked in arguments.names for each in _matching(asked)]:
        print(f"\n== {name} ({programs()[name].family})\n\n{columns(name, compilers)}")
        if not arguments.without_ours:
            found = [each for aspect in ASPECTS for each in differences(name, aspect)]
            print("\n" + (table(found) if found else "no differences"))
            failed += bool(found)
    if not arguments.names:
        failed = _summary(compilers)
    return min(failed, 1)


def _matching(asked: str) -> list[str]:
    return [name for name, each in programs().items() if asked in (name, each.family)]


def _summary(compilers: tuple[str, ...]) -> int:
    """Print one line a program, each from a new process, because wrong bytecode may crash the interpreter."""
    told = [
        _in_a_fork(functools.partial(_line, name, compilers)) or f"{name:<45} CRASHED or hung" for name in programs()
    ]
    disagreeing = [line for line in told if "DIFFERS" in line or "CRASHED" in line]
    print(f"\n{len(told) - len(disagreeing)} of {len(told)} programs agree")
    return len(disagreeing)


def _line(name: str, compilers: tuple[str, ...]) -> str:
    theirs = observed(name, "torch.compile")
    shape = f"{len(theirs.graphs)} graphs: " + " | ".join(
        ",".join(map(_short, graph.operators)) for graph in theirs.graphs
    )
    if "nbcompile" not in compilers:
        return f"{name:<45} {'TORCH IS NOT EAGER ' if same_results(theirs, name) else ''}{shape}"
    found = [each for aspect in ASPECTS for each in differences(name, aspect)]
    if not found:
        return f"{name:<45} same"
    first = found[0]
    if failures := observed(name, "nbcompile").failures:
        lines = failures[0].strip().splitlines()
        place = next((line.strip() for line in reversed(lines) if line.startswith("  File ")), "")
        return f"{name:<45} DIFFERS internal error: {lines[0]} {place} {lines[-1]}"
    bad = " ".join(dict.fromkeys(each.aspect for each in found))
    return f"{name:<45} DIFFERS in {bad}; {first.where}: {first.ours[:150]} <> {first.theirs[:100]}".replace("\n", " ")


def _in_a_fork(tell: Callable[[], str], seconds: int = 60) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        status = 1
        try:
            os.write(writing, tell().encode()[:8000])
            status = 0
        except Exception as error:  # noqa: BLE001 the line of a harness that failed is a line, too
            os.write(writing, f"HARNESS FAILED (CRASHED): {error!r}".encode()[:8000])
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    print(text or "CRASHED or hung", flush=True)
    return text


if __name__ == "__main__":
    sys.exit(main())
