"""A pytest plugin: the tests run with the store on, as users do. Each test has a separate store.

    pytest                                 stores in a temporary folder, removed at the end
    pytest --store build/stores            the same stores, kept there
    pytest --store build/stores --load     the tests that left entries there, again: they load what they compiled

Built kernels are shared by all tests: their key is their whole text. A folder is made when its test writes to it.
A test that asserts what a compile does (how often it happens, what its page says) is marked ``compiles``, and has no
part in the second run. The last line says how much was loaded, those before it which tests loaded nothing, and why. A
second run that loads little fails: it would say nothing about loading.

In torch: torch/_inductor/test_case.py (fresh_inductor_cache). Read next: nbcompile/fast/disk_cache/storage.py
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "NBCOMPILE_FRAMES_DIR"
LEAST = 0.5
"""The share of lookups that find an entry, in a second run that is worth something."""


@dataclass
class Counts:
    """The look-ups of a process's tests in their stores (without those of child processes)."""

    tests: int = 0
    loads: int = 0
    misses: int = 0
    without: tuple[str, ...] = ()
    """The tests that looked up entries and loaded none, each with the reason of its last lookup."""

    def add(self, tests: int, loads: int, misses: int, without: tuple[str, ...]) -> None:
        """Add the counts of another process."""
        self.tests += tests
        self.loads += loads
        self.misses += misses
        self.without += tuple(without)

    def too_few(self) -> bool:
        """Return whether a second run says little about loading."""
        return self.loads < LEAST * (self.loads + self.misses)

    def lines(self, of_second_run: bool) -> list[str]:
        """The lines of the summary, the most important one last."""
        summary = f"{self.tests} tests: {self.loads} loads, {self.misses} lookups without an entry"
        if not of_second_run:
            return [summary]
        judged = [f"too few loads: {LEAST:.0%} of all lookups are asked for"] if self.too_few() else []
        return [*(f"nothing loaded: {name}" for name in self.without), *judged, summary]


COUNTS = pytest.StashKey[Counts]()
REJECTED = pytest.StashKey[list[str]]()
"""Why the entries that the last lookup found were not loaded."""
PARTS = "key_parts.json"
"""File in a test's store: the parts of the keys of its entries that are not the function's."""
TEMPORARY = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that the top of this file describes."""
    group = parser.getgroup("stores of the tests")
    group.addoption("--store", metavar="FOLDER", help="keep the stores of the tests in this folder")
    group.addoption("--load", action="store_true", help="run the tests that left entries in --store, over these")


def pytest_configure(config: pytest.Config) -> None:
    """Processes that share the tests share the folder, too: pytest-xdist passes the options on."""
    config.stash[COUNTS] = Counts()
    if not config.option.store:
        folder = tempfile.TemporaryDirectory(prefix="nbcompile-tests-", ignore_cleanup_errors=True)
        config.stash[TEMPORARY] = folder
        config.option.store = folder.name
    config.option.store = str(Path(config.option.store).absolute())
    os.environ[VARIABLE] = f"{config.option.store}/no test"


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder, unless --store asked for it."""
    if TEMPORARY in config.stash:
        config.stash[TEMPORARY].cleanup()


def store_of(item: pytest.Item) -> Path:
    """The folder of a test's entries, which may not exist yet."""
    return Path(item.config.option.store, hashlib.sha256(item.nodeid.encode()).hexdigest()[:20])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The second run has the tests that left entries."""
    if not config.option.load:
        return
    chosen = [item for item in items if _loads(item)]
    config.hook.pytest_deselected(items=[item for item in items if not _loads(item)])
    items[:] = chosen


def _loads(item: pytest.Item) -> bool:
    return item.get_closest_marker("compiles") is None and store_of(item).exists()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count look-ups."""
    from nbcompile.fast.disk_cache import (
        entry,
        storage,  # noqa: PLC0415 - after the modules of the tests, some of which come first
    )

    counts, load, entries, read = session.config.stash[COUNTS], entry.load, storage.entries, entry._read

    @functools.wraps(entries)
    def looked_up(key: str) -> Any:  # not for a backend without code: it has no key
        counts.misses += 1
        session.config.stash[REJECTED].clear()
        return entries(key)

    @functools.wraps(read)
    def read_or_rejected(*arguments: Any) -> Any:
        try:
            return read(*arguments)
        except Exception as error:
            session.config.stash[REJECTED].append(f"{type(error).__name__}: {error}")
            raise

    @functools.wraps(load)
    def loaded(*arguments: Any, **options: Any) -> Any:
        found = load(*arguments, **options)
        if found is not None:
            counts.loads += 1
            counts.misses -= 1
        return found

    session.config.stash[REJECTED] = []
    storage.entries, entry._read, entry.load = looked_up, read_or_rejected, loaded


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A separate store for a test, which its child processes use, too."""
    counts = item.config.stash[COUNTS]
    loads, misses = counts.loads, counts.misses
    os.environ[VARIABLE] = str(store_of(item))
    try:
        return (yield)
    finally:
        _flush()
        counts.tests += 1
        if counts.misses > misses and counts.loads == loads:
            counts.without += (f"{item.nodeid} ({_reason(item)})",)
        if store_of(item).exists() and not item.config.option.load:
            (store_of(item) / PARTS).write_text(json.dumps(_parts()))


def _reason(item: pytest.Item) -> str:
    rejected = item.config.stash[REJECTED]
    if rejected:
        return f"an entry was rejected, {rejected[-1][:200]}"
    parts = store_of(item) / PARTS
    before, now = json.loads(parts.read_text()) if parts.exists() else {}, _parts()
    changed = [f"{name}: {before[name]} -> {now[name]}" for name in before if before[name] != now[name]]
    return f"other keys, {'; '.join(changed)[:400]}" if changed else "no entry of this key"


def _parts() -> dict[str, str]:
    from nbcompile import config  # noqa: PLC0415 - after the modules of the tests
    from nbcompile.fast.disk_cache import keys, library  # noqa: PLC0415 - as above

    try:
        functions = library.state()
    except keys.NotStorable as error:
        functions = str(error)
    variables = {name: value for name, value in sorted(os.environ.items()) if name.startswith(keys.VARIABLES)}
    shown = {name: value for name, value in variables.items() if name not in keys.NO_PART}
    return {
        "torch's functions": functions,
        "machine and sources": keys.surroundings(),
        "variables": str(shown),
        "settings": str(sorted((name, repr(value)) for name, value in config.current().items())),
    }


def _flush() -> None:
    """Each entry of a test is written before its folder may be removed."""
    writer = sys.modules.get("nbcompile.fast.disk_cache.writer")
    if writer is not None:
        writer.flush()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Pass the counts to the process that adds them up, or judge them there."""
    counts = session.config.stash[COUNTS]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["store"] = vars(counts)
    elif not session.config.option.load:
        return
    elif session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK  # none of the requested tests compiles
    elif counts.too_few():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of pytest-xdist has ended."""
    counts = getattr(node, "workeroutput", {}).get("store")
    if counts:
        node.config.stash[COUNTS].add(**counts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how much was loaded."""
    terminalreporter.write_sep("-", "stores of the tests")
    for line in config.stash[COUNTS].lines(of_second_run=config.option.load):
        terminalreporter.write_line(line)
