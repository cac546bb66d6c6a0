"""Residual programs of a resume tree as one Python program.

    def frame_0_0():                      a frame; names are replaced by the objects that the program binds to them
        class GraphModule: ...            its graph
        __compiled_fn_1 = GraphModule()
        def f(x, k): ...                  its residual program, as it runs, which calls the next frame
        return f
    ...
    f = frame_0_0()

Run it where the function was defined (``%run -i chain.py``): globals are read there. Objects that cannot be imported,
and functions that were not compiled, raise an error with that reason. The program has no guards: it is correct for
calls that the recorded entries accept.

In torch: TORCH_LOGS=bytecode prints the pieces. Read next: nbcompile/views/breaks.py
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator

from nbcompile.record.model import CompiledFrame, Record

# The program runs without nbcompile. `missing` replaces values without a text, and fails only if it is called.
_HEAD = '''"""{function} as nbcompile runs it, in {count}. Run it where the function was defined: %run -i."""

import importlib

import torch
from torch import device, inf, nan  # names that the text of a graph may use


def missing(what):
    def stop(*values):
        raise NotImplementedError(what)
    return stop


def is_at(function, line):
    return getattr(getattr(function, "__code__", None), "co_firstlineno", 0) == line

'''


def program(record: Record, frame: str = "") -> str:
    """Program of a frame (the first compiled one) and of all frames that it resumes or calls.

    Raises:
        ValueError: no such frame was compiled, or a graph holds a value that has no text form.
    """
    known = [each for each in record.frames if each.residual and frame in ("", each.id)]
    if not known:
        raise ValueError(f"the record has no residual program{f' of {frame}' if frame else ''}")
    makers: dict[str, str] = {}
    _collect(record, known[0], makers)
    count = f"{len(makers)} frame{'s' if len(makers) > 1 else ''}"
    # No f-string or format: the text of the head has braces and percent signs of its own.
    head = _HEAD.replace("{function}", known[0].function).replace("{count}", count)
    return head + "\n\n".join(makers.values()) + f"\n\n{known[0].function} = {_maker(known[0])}()\n"


def _collect(record: Record, frame: CompiledFrame, makers: dict[str, str]) -> None:
    """The source functions of a frame and of the frames that it calls."""
    if frame.id in makers:
        return
    # Inserted before its callees, so that it precedes them in the text, and a recursion ends here.
    makers[frame.id] = ""
    # Reversed, because the last entry of a dict wins: of several frames of one function the first compiled remains.
    called = {each.function: each for each in reversed(record.frames) if each.called_from == frame.id and each.residual}
    resumed = dict(_resumed(record, frame))
    lines = [*_graph(frame), *_kept(frame), *_resumes(resumed), *_called(frame, called, resumed)]
    body = "\n".join((*lines, frame.residual.rstrip(), f"return {frame.function}"))
    makers[frame.id] = f"def {_maker(frame)}():\n" + textwrap.indent(body, "    ") + "\n"
    for child in (*resumed.values(), *called.values()):
        if child is not None and child.residual:
            _collect(record, child, makers)


def _maker(frame: CompiledFrame) -> str:
    return "frame_" + re.sub(r"\W", "_", frame.id)


def _resumed(record: Record, frame: CompiledFrame) -> Iterator[tuple[str, CompiledFrame | None]]:
    """Names by which the residual program calls its resume functions, and the frame of each."""
    # A resume function that was compiled several times: the first frame of it, as in `_collect`.
    became = {each.place: each for each in reversed(record.frames) if each.resumes == frame.id}
    counts: Counter[str] = Counter()
    for index, function in enumerate(frame.resume_functions):
        # Two breaks in a line have resume functions of one name: the residual program numbers those after the first.
        number = counts[function.name]
        counts[function.name] += 1
        yield function.name + (f"_{number}" if number else ""), became.get(index)


def _graph(frame: CompiledFrame) -> Iterator[str]:
    name = re.search(r"__compiled_fn_\d+", frame.residual)
    if frame.graph is None or name is None:
        return
    # Such a node refers to a tensor or module by a name that only the graph module resolves.
    if held := [node.target for node in frame.graph.nodes if node.op in ("get_attr", "call_module")]:
        raise ValueError(f"the graph of {frame.id} holds an object of its own, {held[0]}, which no text can say")
    yield from (frame.graph.code.strip(), f"{name[0]} = GraphModule()")


def _kept(frame: CompiledFrame) -> Iterator[str]:
    """Names that only the residual program has, with the modules that they are imported from."""
    for entry in frame.kept:
        found = f"importlib.import_module({entry.module!r})" + (f".{entry.path}" if entry.path else "")
        unknown = f"missing({f'{entry.name} is an object that no import gives'!r})"
        yield f"{entry.name} = {found if entry.module else unknown}"


def _resumes(resumed: dict[str, CompiledFrame | None]) -> Iterator[str]:
    for name, frame in resumed.items():
        if frame is not None and frame.residual:
            yield f"def __{name}(*values): return {_maker(frame)}()(*values)"
        else:
            why = frame.skip_reason if frame else "nothing called it by itself"
            yield f"__{name} = missing({f'{name} was not compiled: {why}'!r})"


def _called(
    frame: CompiledFrame, called: dict[str, CompiledFrame], resumed: dict[str, CompiledFrame | None]
) -> Iterator[str]:
    """Functions that it calls by name, if the name is bound to the compiled function itself, not to a wrapper."""
    for name, child in called.items():
        if name.isidentifier() and name not in resumed and re.search(rf"= {name}$", frame.residual, re.MULTILINE):
            # The name may be bound to another function now: the line shows whether it is still the compiled one.
            mine = f"is_at(globals().get({name!r}), {child.first_line})"
            yield f"{name} = {_maker(child)}() if {mine} else globals()[{name!r}]"
