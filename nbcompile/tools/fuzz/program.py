"""Program: the text of a module that is run eagerly and compiled.

    def f(x):
        return x + 1

    def play(compiled):
        g = compiled(f)
        yield g(torch.ones(2))      each value that is yielded is observed
        yield tried(g, None)        an exception is a value, too

The text is complete: a program that was found is a file that runs by itself.

In torch: torch/_dynamo/repro/after_aot.py writes graphs that fail into files that run. Read next:
nbcompile/tools/fuzz/oracle.py
"""

from __future__ import annotations

import functools
import itertools
import linecache
import marshal
import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nbcompile.support.process_state import STATE, Lifetime

KINDS = ("tensor", "python", "nn", "guards")
BACKENDS = ("eager", "aot_eager", "inductor")
HEADER = "from nbcompile.tools.fuzz.program import tried\n"
FOOTER = """

if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program
    oracle.replay(program.Program.read(__file__))
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A module's text, and settings of its compilation."""

    kind: str
    seed: str
    """Seed and position from which it is generated: ``"1/python/17/4"``."""
    source: str
    backend: str = "eager"
    dynamic: bool | None = None
    stored: bool = False
    """True to run a second time, with the stored entries of the first run."""
    size: int = 1
    """Number of small programs in it."""
    value_sets: int = 0
    """Total number of sets of values with which its tensor programs are called."""
    approximate: bool = False
    """True if it calls operators that are inexact in the last digits."""

    def text(self) -> str:
        """The file that runs by itself."""
        settings = {name: getattr(self, name) for name in ("kind", "seed", "backend", "dynamic", "stored", "size")}
        settings["approximate"] = self.approximate
        first = "# fuzz: " + " ".join(f"{name}={value}" for name, value in settings.items())
        return f"{first}\n{HEADER}\n{self.source.strip()}\n{FOOTER}"

    @staticmethod
    def read(path: str) -> Program:
        """A program from the file that :meth:`text` wrote.

        Raises:
            ValueError: the file is no program.
        """
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - __file__ is a string
            text = file.read()
        first, _, rest = text.partition("\n")
        if not first.startswith("# fuzz: "):
            raise ValueError(f"{path} is no program of the fuzzer: its first line is no `# fuzz: ...`")
        found = dict(word.split("=", 1) for word in first.removeprefix("# fuzz: ").split())
        source = rest.replace(HEADER, "", 1).partition(FOOTER.strip().partition("\n")[0])[0]
        truth = {"True": True, "False": False, "None": None}
        return Program(
            found["kind"],
            found["seed"],
            source.strip() + "\n",
            found["backend"],
            truth[found["dynamic"]],
            found["stored"] == "True",
            int(found["size"]),
            approximate=found["approximate"] == "True",
        )


@dataclass(frozen=True, slots=True)
class CaughtException:
    """Exception of a call."""

    kind: str
    text: str
    error: BaseException


def tried(function: Callable[..., object], *arguments: Any, **keywords: Any) -> object:
    """Call a function; return its result, or the exception."""
    try:
        return function(*arguments, **keywords)
    except Exception as error:  # noqa: BLE001 - whatever it raises is what is observed
        return CaughtException(type(error).__name__, str(error), error)


_numbers = STATE.add("tools.fuzz.program._numbers", itertools.count(), Lifetime.PROCESS)
_BEGINNING = re.compile(r"^def (?:f|play|p0)\(", re.MULTILINE)
"""Marker before a program's own text; the prelude above it is the same for all programs of a kind."""


def load(source: str) -> dict[str, Any]:
    """The program's names, in a new module whose source tracebacks can show."""
    found = _BEGINNING.search(source)
    head = source[: found.start()] if found else ""
    name = f"<fuzz {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    module = sys.modules["fuzzed_program"] = types.ModuleType("fuzzed_program")  # data classes look their module up
    try:
        vars(module)["tried"] = tried
        exec(marshal.loads(_parsed(head)), vars(module))  # noqa: S302 - written by _parsed
        # Empty lines instead of the prelude, so that line numbers are those of the whole text.
        exec(compile("\n" * head.count("\n") + source[len(head) :], name, "exec"), vars(module))
    finally:
        linecache.cache.pop(name, None)
    return vars(module)


@functools.lru_cache(maxsize=8)
def _parsed(head: str) -> bytes:
    """Marshalled code with which many programs begin. Each load creates new code objects, as a compilation does."""
    return marshal.dumps(compile(head, f"<fuzz {next(_numbers)}>", "exec"))
