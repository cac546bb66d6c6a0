"""The sections that a view can show, and their order on the page.

    chosen(None)                  every section except "predict", which hides the others until they are requested
    chosen("guards")              one
    chosen(["graph", "guards"])   some; always shown in the order of SECTIONS

In torch: nothing. Read next: nbcompile/views/facts.py
"""

from __future__ import annotations

from collections.abc import Iterable

SECTIONS = {
    "predict": "questions about what follows, to be answered before looking",
    "summary": "what was compiled, in numbers",
    "tree": "the frames as a tree: calls and resume functions",
    "breaks": "distinct graph breaks, with their causes and hints",
    "recompilations": "which guard failed, what it expected, what it got",
    "what_if": "change the call: which entry would it hit, which guard fails",
    "source": "your source, line by line: what happened to it",
    "steps": "the symbolic interpreter, instruction by instruction (recorded with --steps)",
    "graph": "the captured FX graph",
    "guards": "what must hold for the compiled code to run again",
    "residual": "the Python that runs instead of the function",
    "bytecode": "the function's bytecode, and the bytecode that runs instead",
    "aten": "the functional ATen graphs",
    "kernels": "loop-level IR, fusion decisions, generated code",
    "timings": "how long each stage took",
}

USUAL = tuple(each for each in SECTIONS if each != "predict")
FRAME_SECTIONS = ("source", "steps", "graph", "guards", "residual", "bytecode", "aten", "kernels", "timings")


def chosen(show: str | Iterable[str] | None) -> tuple[str, ...]:
    """Requested sections, in page order; the default ones for None.

    Raises:
        ValueError: a name that is no section; the message lists those there are.
    """
    if show is None:
        return USUAL
    selected = [show] if isinstance(show, str) else list(show)
    if unknown := [each for each in selected if each not in SECTIONS]:
        raise ValueError(f"no section is named {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    # In the order of the table, not in the requested one: so all pages have the same order.
    return tuple(each for each in SECTIONS if each in selected)
