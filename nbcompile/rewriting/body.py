"""A function's body under construction: its statements, and names for what it uses.

    __compiled_fn_1        an object, bound as a constant of the code object
    graph_out, value_1     names of its own, which nothing of the user's has

In torch: torch/_dynamo/codegen.py (PyCodegen). Read next:
nbcompile/rewriting/sources.py
"""

from __future__ import annotations

import ast
import keyword
import re

from nbcompile.capture.frame import Frame


class Body:
    """Statements that replace those of a frame."""

    graph_out = ""
    """The name of the graph's outputs, once the graph is called."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.code = frame.code
        self.statements: list[ast.stmt] = []
        self.constants: dict[str, object] = {}
        """Objects that are constants of the program, by name."""
        # Globals are not among them: one is read by name while its name is free, else
        # from its dict (SourceReader.fetch).
        self.taken = {*self.code.co_varnames, *self.code.co_cellvars, *self.code.co_freevars}

    def fresh(self, base: str) -> str:
        """A name that nothing else uses."""
        name, number = base, 0
        # A global of that name may be read by it, before or after this.
        while name in self.taken or name in self.constants or name in self.frame.globals:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name

    def constant(self, value: object, name: str) -> ast.expr:
        """Bind an object as a constant of the program, under a name."""
        preferred = re.sub(r"\W+", "_", name).strip("_") or "constant"
        #     "fn.<locals>.helper"    __fn_locals_helper
        preferred = f"__{preferred}" if not preferred.startswith("__") else preferred
        if keyword.iskeyword(preferred):
            preferred += "_"
        number = 0
        candidate = preferred
        # The same object under the same name is bound once; another object gets a number.
        while (
            candidate in self.taken
            or candidate in self.frame.globals
            or (candidate in self.constants and self.constants[candidate] is not value)
        ):
            number += 1
            candidate = f"{preferred}_{number}"
        self.constants[candidate] = value
        return ast.Name(candidate, ast.Load())
