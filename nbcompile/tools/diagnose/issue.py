"""One file to send with an issue: program, environment, results of the tools, the smallest program, the record.

    text(write(program, compiled, eager, {"bisect": ...}))      Markdown

It has no private data by default: paths are shortened; elements of tensors, the names of user and host, and values of
environment variables are left out. It contains the text of the program, and the numbers and texts on which its graphs
depend (also a number that ``item`` read from a tensor): read the file before you send it.

In torch: torch/utils/collect_env.py collects the environment only. Read next: nbcompile/tools/commands/diagnose.py
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from nbcompile.observe import trace_reader
from nbcompile.record import codec
from nbcompile.support import versions
from nbcompile.support.login_name import login_name
from nbcompile.tools import child_process, doctor
from nbcompile.tools.diagnose import script
from nbcompile.tools.diagnose.script import Run, Script, Way

MOST_RECORD = 200_000
"""Characters of a record that fit into an issue."""
PROGRAM = "Program"
PATH = re.compile(r"(?<![\w.~/:\-])/(?:[^\s/\"'`<>|:;,()\[\]{}\\]+/)+([^\s/\"'`<>|:;,()\[\]{}\\]*)")
"""An absolute path with a folder; the last part stays."""
COMMON_NAMES = ("root", "user", "localhost", "")
"""Names of users that identify no person, and are common words."""
SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH", re.IGNORECASE)
SHORTEST_SECRET, SHORTEST_VALUE = 6, 4
"""Minimum length of a value that is left out everywhere, or only in quotes: a shorter one matches by chance."""


@dataclass(frozen=True, slots=True)
class Issue:
    """Titles and texts of a report."""

    title: str
    sections: tuple[tuple[str, str], ...]
    """Title and text of each section; a text is shown in a block of code."""


def write(
    program: Script,
    compiled: Run,
    eager: Run,
    tried: Mapping[str, Callable[[], str]],
    engine: str = "nbcompile",
    waiting: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> Issue:
    """Collect all sections; a part that fails becomes a section with the error.

    Args:
        program: the program of the issue.
        compiled: its run with the compiler.
        eager: its run in eager mode.
        tried: tools to run, by name; each shows its own progress.
        engine: ``"nbcompile"`` or ``"torch"``.
        waiting: context manager that shows the progress of a slow part.
    """
    outcome = compiled.ending or "ends without an error"
    with waiting("environment"):
        environment = "\n".join(_environment())
    attempts = [(f"Tried: {name}", _attempt(attempt)) for name, attempt in tried.items()]
    with waiting("record"):
        record = _record(program) if engine == "nbcompile" else record_of_torch(program)
    parts = [
        ("What happens", f"compiled: {outcome}\neager mode: {eager.ending or 'ends without an error'}"),
        (PROGRAM, program.path.read_text(encoding="utf-8")),
        ("Environment", environment),
        *attempts,
        ("Record (JSON)", record),
    ]
    shortened = []
    for title, text in parts:
        own = without_paths(text, program.path)
        shortened.append((title, own if title == PROGRAM else without_names(own)))
    return Issue(without_names(without_paths(f"{program.path.name}: {outcome}", program.path)), tuple(shortened))


def text(issue: Issue) -> str:
    """The issue as Markdown."""
    blocks = [f"## {title}\n\n{_fence(body)}\n{body.rstrip()}\n{_fence(body)}\n" for title, body in issue.sections]
    return "\n".join([f"# {issue.title}\n", *blocks])


def without_paths(text: str, program: Path) -> str:
    """The text with the folders of the program, of packages and of the user shortened."""
    packages = str(Path(torch.__file__).parents[1])
    folders = {
        str(program.resolve().parent): ".",
        packages: "site-packages",
        sys.prefix: "python",
        sys.base_prefix: "python",
        str(Path.home()): "~",
    }
    # The longest first: the folder of the program may be in that of the user.
    for folder, short in sorted(folders.items(), key=lambda item: -len(item[0])):
        text = text.replace(folder, short) if len(folder) > 1 else text
    return text


def without_names(text: str) -> str:
    """Remove what identifies the machine: other folders, the user, the host, values of variables.

    The program's own text is not changed so: a path or a word in it may be the cause of the error.
    """
    text = PATH.sub(lambda path: f".../{path[1]}", text)
    for name in (login_name(), socket.gethostname()):
        if name not in COMMON_NAMES:
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", "...", text)
    return _without_variables(text)


def _without_variables(text: str) -> str:
    """Drop the values of environment variables: a guard on ``os.environ`` holds one, as a text in quotes."""
    # The longest first, because one value may be a part of another.
    for name, value in sorted(os.environ.items(), key=lambda item: -len(item[1])):
        # The record is JSON, where a quote or a backslash in the value is escaped.
        for written in {value, json.dumps(value)[1:-1]}:
            if SECRET.search(name) and len(value) >= SHORTEST_SECRET:
                text = text.replace(written, "...")
            elif len(value) >= SHORTEST_VALUE:
                text = re.sub(rf"""(?<=["']){re.escape(written)}(?=\\?["'])""", "...", text)
    return text


def _fence(body: str) -> str:
    """A fence with more backticks than any run of them in the text."""
    longest = max(map(len, re.findall(r"`+", body)), default=0)
    return "`" * max(3, longest + 1)


def _environment() -> list[str]:
    known = f"nbcompile {versions.VERSION}, torch {torch.__version__}, Python {sys.version.split()[0]}, {sys.platform}"
    return [known, *(f"{finding.what}: {finding.words}" for finding in doctor.examine())]


def _attempt(attempt: Callable[[], str]) -> str:
    try:
        return attempt()
    except Exception as error:  # noqa: BLE001 - that it fails is part of the report
        return f"{type(error).__name__}: {error}"


def _record(program: Script) -> str:
    """The record of a compile, from one more run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.json"
        replace = ["--replace"] if program.replace else []
        command = [sys.executable, "-m", "nbcompile", "run", "--json", str(path), *replace, str(program.path)]
        done = child_process.run(
            [*command, "--", *program.arguments], program.seconds, script.environment(), program.given
        )
        if done.code == child_process.HUNG:
            return "the program did not end in time"
        if not path.exists():
            return "the process ended before a record was written"
        found = path.read_text(encoding="utf-8")
    return _short(found)


def record_of_torch(program: Script) -> str:
    """The record of torch.compile's trace, from one more run."""
    with tempfile.TemporaryDirectory() as folder:
        script.run(program, Way(engine="torch"), TORCH_TRACE=folder)
        try:
            opened = trace_reader.read(Path(folder))
        except trace_reader.TraceFormatError as error:
            return str(error)
    return _short("\n".join(map(codec.to_json, opened.records.values())))


def _short(record: str) -> str:
    return record if len(record) <= MOST_RECORD else f"{len(record):,} characters: send it as a file (run --json)"
