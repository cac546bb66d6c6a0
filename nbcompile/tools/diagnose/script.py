"""A whole program, run in a separate process with less of the compiler: for ``ablate``, ``bisect`` and crashes.

    run(Script(Path("train.py"), ("--epochs", "1"), seconds=60), Way(fuel="fusion:0:"))     Run(code=0, output=..., ...)

The child process (``python -m nbcompile.tools.diagnose.script``) reads from one JSON argument how to run the program.
A program that crashes, hangs or exits ends only the child.

In torch: torch/_inductor/compiler_bisector.py runs a command in the same way. Read next:
nbcompile/tools/commands/diagnose.py
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import nbcompile
from nbcompile import api, config
from nbcompile.options import OWN_NAME
from nbcompile.support import fuel, lazy_import
from nbcompile.tools import child_process, main_program
from nbcompile.tools.child_process import HUNG
from nbcompile.tools.diagnose import ablate

if TYPE_CHECKING:
    from nbcompile.peer import bisect as peer_bisect
else:
    peer_bisect = lazy_import.module("nbcompile.peer.bisect")  # it imports torch's compiler

EAGER = "eager mode"
"""The backend name for a program that is not compiled at all."""
OUR_OWN = ("inductor", OWN_NAME)
"""Names of the backend that has options for a GPU."""
TRACEBACK = "Traceback (most recent call last):"
MOST_ERROR = 200
"""Characters of a message."""


@dataclass(frozen=True, slots=True)
class Script:
    """A program."""

    path: Path
    arguments: tuple[str, ...] = ()
    seconds: float = 600.0
    replace: bool = False
    """True to run it with nbcompile.compile instead of torch.compile."""
    given: bytes = b""
    """Standard input of the script."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way of running a program."""

    backend: str = ""
    """The backend; "" for the program's own, ``EAGER`` for none."""
    fuel: str = ""
    """A limit of the compiler's decisions, in the form of ``NBCOMPILE_FUEL``."""
    settings: tuple[tuple[str, Any], ...] = ()
    engine: str = "nbcompile"
    """``"torch"``: the real torch.compile instead of both."""
    stored: bool = False
    """True to run with the store on disk, which is the default."""
    target: str = ""
    """A GPU, for which our own backend generates code that a simulator runs."""
    bisection: str = ""
    """The folder of a bisection of torch.compile, of which the run is a part."""


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one run of a program."""

    code: int
    output: str
    """Standard output."""
    seconds: float
    last_error: str = ""
    """The exception that ended it: class and message."""
    not_simulated: bool = False
    """True if a call ran through ATen, as its simulation would have taken too long."""

    @property
    def ending(self) -> str:
        """The way in which the program ended, in words; "" if well."""
        if self.code == HUNG:
            return "did not end in time"
        if self.code < 0:
            return f"killed by signal {-self.code}"
        return f"exit code {self.code}: {self.last_error}".rstrip(": ") if self.code else ""


def run(script: Script, way: Way, **variables: str) -> Run:
    """Run the program in a child process, with more environment variables."""
    order = json.dumps({"path": str(script.path), "replace": script.replace, **dataclasses.asdict(way)})
    command = [sys.executable, "-m", "nbcompile.tools.diagnose.script", order, *script.arguments]
    began = time.perf_counter()
    done = child_process.run(command, script.seconds, {**environment(way.stored), **variables}, script.given)
    # Python exits with 1 after an exception.
    error = last_error(done.errors) if done.code == 1 else ""
    return Run(done.code, done.output, time.perf_counter() - began, error, ablate.TOO_LONG in done.errors)


def last_error(errors: str) -> str:
    """The exception at the end of a traceback on standard error; else the last line (of ``sys.exit("why")``)."""
    _, found, traceback = errors.rpartition(TRACEBACK)
    lines = [line for line in (traceback if found else errors).splitlines() if line.strip()]
    if found:
        # After the last traceback, the first line that is not indented is the exception; its message may be longer.
        lines = [line for line in lines if not line[0].isspace()][:1]
    return lines[-1][:MOST_ERROR] if lines else ""


def environment(stored: bool = False) -> dict[str, str]:
    """The environment of a child, which imports this nbcompile; without ``stored`` it loads no stored entries."""
    search = os.pathsep.join(filter(None, (str(Path(nbcompile.__file__).parents[1]), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": search, **({} if stored else {"NBCOMPILE_WARM_START": "0"})}


def trial(script: Script, wrong: Callable[[Run], str]) -> Callable[[str, int], tuple[str, list[str]]]:
    """A trial for :func:`nbcompile.tools.diagnose.bisect.search`."""

    def attempt(subsystem: str, allowed: int) -> tuple[str, list[str]]:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "decisions"
            done = run(script, Way(fuel=f"{subsystem}:{allowed}:{log}" if subsystem else ""))
            decisions = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return wrong(done), decisions

    return attempt


def main(arguments: list[str]) -> None:
    """Run the program in the child process, as its arguments say."""
    order = json.loads(arguments[0])
    if order["fuel"]:
        fuel.limit_process(order["fuel"])
    for name, value in order["settings"]:
        setattr(config, name, value)
    if order["bisection"]:
        peer_bisect.take_part(order["bisection"])
    by_torch = order["engine"] == "torch"
    chosen = _compile_with(order["backend"], order["target"], torch.compile if by_torch else api.compile)
    nbcompile.compile = chosen
    if by_torch or order["replace"] or order["backend"] == EAGER:
        torch.compile = chosen
    main_program.run(order["path"], arguments[1:])


def _compile_with(backend: str, target: str, original: Any) -> Any:
    """``compile`` with another backend than the program's, or for a GPU."""
    if not backend and not target:
        return original

    @functools.wraps(original)
    def compile(model: Any = None, **keywords: Any) -> Any:  # noqa: A001 - its name
        if model is None:
            return functools.partial(compile, **keywords)
        if backend == EAGER:
            return model
        changed = {name: value for name, value in keywords.items() if name not in ("backend", "mode", "options")}
        if target and (keywords.get("backend") or api.get_default_backend()) not in OUR_OWN:
            return original(model, **keywords)
        options = {"options": ablate.for_target(target, keywords.get("options"))} if target else {}
        return original(model, **changed, **options, backend=backend or "inductor")

    return compile


if __name__ == "__main__":
    main(sys.argv[1:])
