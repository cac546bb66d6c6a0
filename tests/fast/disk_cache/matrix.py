"""Entries that one process stored and another one loads: whole programs, each process a fork without compiled code.

    python -m tests.fast.disk_cache.matrix --share 1/40        a fortieth of all pairs; counts, and every difference
    python -m tests.fast.disk_cache.matrix scaled              all pairs of one program
    python -m tests.fast.disk_cache.matrix scaled "tensors: torch.float64"

Process A compiles a program and fills the store. Process B builds the program again, makes one change (changes.py),
and calls the program with that store: a loaded entry must give the results of eager mode in process B. Without a
loaded entry, B runs the program in eager mode: a pair takes milliseconds. ``--compile`` compiles it and checks more.

A difference that the same program also has without a store comes from generated code, and is counted separately.

In torch: nothing. Read next: tests/fast/disk_cache/changes.py
"""

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import importlib
import json
import logging
import os
import re
import signal
import sys
import time
import warnings

import torch

import nbcompile
from nbcompile import config
from nbcompile.dispatch.hook import SkipFrame
from nbcompile.eval_frame import first_call
from nbcompile.fast.disk_cache import entry, storage, writer
from tests.fast.disk_cache import changes
from tests.fast.disk_cache.changes import Changed
from tests.peer import describe
from tests.peer.harness import EAGER, Ours, run
from tests.peer.program import programs

SECONDS = 120
"""The time after which a process is stopped, which counts as a difference."""


@dataclasses.dataclass
class Pair:
    """The outcome of process B: loaded frames, frames without a valid entry, and differences from eager mode."""

    loaded: int = 0
    missed: int = 0
    differences: list = dataclasses.field(default_factory=list)


class Generated(Ours):
    """nbcompile with its own backend, the only one whose code is stored."""

    name = "nbcompile, generated code"

    def compile(self, function, backend, options):
        """Compile with the default backend: the backend of the harness only counts graphs."""
        return nbcompile.compile(function, **options)


# -- processes ----------------------------------------------------------------------------------------------------------


def in_a_fork(function, *arguments):
    """The result of a function in another process, or a message if that crashes or hangs."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _child(function, arguments, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else f"the process ended with status {status}"


def _child(function, arguments, writing):
    signal.alarm(SECONDS)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # torch's log of programs that fail on purpose
    try:
        message = json.dumps(function(*arguments))
    except BaseException as error:
        message = json.dumps(f"{type(error).__name__}: {error}"[:500])
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(message.encode())
    os._exit(0)


def prepare():
    """Prepare the process that forks all others: imports are done, nothing is compiled, and no thread runs."""
    torch.set_num_threads(1)
    for name in ("sympy", "nbcompile.driver", "nbcompile.fast.prebuild"):
        importlib.import_module(name)
    logging.getLogger("torch.__trace").handlers.clear()
    warnings.simplefilter("ignore")
    programs()


# -- A ------------------------------------------------------------------------------------------------------------------


def fill_store(program):
    """Process A: compile every call of a program, and fill the store."""
    with config.patch(warm_start=True):
        run(program, Generated())
    return writer.flush()  # the end of the process waits for no thread


# -- B ------------------------------------------------------------------------------------------------------------------


def load_and_compare(program, change, and_compile=False):
    """Process B: the changed program in eager mode, and with the store."""
    pair, changed = Pair(), Changed(program, change)
    expected = run(changed, EAGER)
    _count(pair, and_compile)
    with config.patch(warm_start=True):
        found = run(changed, Generated())
    pair.differences += different(found, expected)
    pair.differences += [f"warned: {message}" for message in storage._warned]
    return dataclasses.asdict(pair)


def _count(pair, and_compile):
    """Count loaded frames; other frames run uncompiled. This is a fork, so nothing is restored."""
    load = entry.load
    compiled = first_call.stages.compile_frame

    def counted(*arguments, **keywords):
        found = load(*arguments, **keywords)
        pair.loaded += found is not None
        return found

    def missed(frame, options, key):
        pair.missed += 1
        return compiled(frame, options, key) if and_compile else SkipFrame("no entry is good for it", code_wide=False)

    entry.load = counted
    first_call.stages.compile_frame = missed


def compiled_anew(program, change):
    """The differences of the changed program from eager mode without a store."""
    changed = Changed(program, change)
    expected = run(changed, EAGER)
    with config.patch(warm_start=False):
        return different(run(changed, Generated()), expected)


def different(found, expected):
    """The differences of a run from eager mode, call by call; the last digits of floats may differ."""
    texts = [f"internal error: {failure.strip().splitlines()[-1]}" for failure in found.failures]
    for index, (ours, theirs) in enumerate(zip(found.calls, expected.calls, strict=True)):
        for path, one, other in describe.same(ours.facts, theirs.facts):
            if not rounded(one, other):
                texts.append(f"call {index}: {path}: {one[:300]} instead of {other[:300]}")
    return texts


NUMBER = re.compile(r"-?(?:\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)")
LAYOUT = re.compile(r"(\([\d, ]*\)) strides (\([\d, ]*\))(?: offset \d+)?")


def rounded(one, other):
    """True if only last digits of floats or strides of dimensions of size 1 differ; a zero has its sign."""
    one, other = (LAYOUT.sub(visible, text) for text in (one, other))
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    return all(map(_close, NUMBER.findall(one), NUMBER.findall(other)))


def _close(one, other):
    if float(one) == float(other) == 0:
        return one[0] == other[0]
    return abs(float(one) - float(other)) <= 1e-5 + 1e-3 * abs(float(other))


def visible(found):
    """A tensor's layout without its storage offset, and without strides of dimensions of size 1."""
    sizes, strides = (re.findall(r"\d+", group) for group in found.groups())
    seen = [stride for size, stride in zip(sizes, strides, strict=True) if size != "1"]
    return f"({', '.join(sizes)}) strides ({', '.join(seen)})"


# -- all pairs ----------------------------------------------------------------------------------------------------------


class Matrix:
    """Counts over many pairs."""

    def __init__(self):
        self.counts = collections.Counter()
        self.by_family = collections.defaultdict(collections.Counter)
        self.wrong = []

    def program(self, name, chosen, and_compile=False):
        """Run all chosen changes of one program, with the store that the unchanged program fills."""
        program = programs()[name]
        names = in_a_fork(changes.names, program)
        if isinstance(names, str):
            self.wrong.append((name, "", [names]))
            return
        picked = [change for change in names if chosen(name, change)]
        if not picked:
            return
        was_filled = in_a_fork(fill_store, program)
        self.counts["programs"] += 1
        if was_filled is not True:
            self.wrong.append((name, "(the first process)", [was_filled]))
        for change in picked:
            self.pair(program, change, and_compile)

    def pair(self, program, change, and_compile):
        """Run one pair; a difference counts if it does not occur without a store."""
        result = in_a_fork(load_and_compare, program, change, and_compile)
        pair = Pair(differences=[result]) if isinstance(result, str) else Pair(**result)
        family = (
            change.partition(":")[0]
            if change.startswith(("tensors", "first", "arg", "state", "calls", "env"))
            else "objects"
        )
        for counts in (self.counts, self.by_family[family]):
            counts.update(pairs=1, loaded=pair.loaded, missed=pair.missed, pairs_that_load=pair.loaded > 0)
        if pair.loaded and not changes.may_load(change):
            self.wrong.append((program.name, change, ["an entry of another environment is loaded"]))
        if not pair.differences:
            return
        without = in_a_fork(compiled_anew, program, change)
        left = (
            pair.differences if isinstance(without, str) else [text for text in pair.differences if text not in without]
        )
        if isinstance(without, str) and without == result:
            left = []  # the process ends in the same way without a store
        self.counts["differences that are there without a store"] += not left
        if left:
            self.wrong.append((program.name, change, left))

    def text(self):
        """All counts as text."""
        lines = [f"{count:>9,} {what}" for what, count in self.counts.items()]
        lines += [f"{family}: {dict(counts)}" for family, counts in self.by_family.items()]
        for name, change, texts in self.wrong:
            lines += [f"WRONG {name} | {change}", *(f"    {text}" for text in texts[:4])]
        return "\n".join(lines)


def share(part, of):
    """Choose a part of all pairs, by a digest of their names, and every unchanged program."""

    def chosen(name, change):
        digest = hashlib.sha256(f"{name} | {change}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % of == part % of

    return chosen


def main():
    """Run pairs; the exit status is 1 if one differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.fast.disk_cache.matrix")
    parser.add_argument("names", nargs="*", help="programs or families, then perhaps changes")
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--programs", default="0/1", help="of all programs, in the same way")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seconds", type=float, default=1e9)
    arguments = parser.parse_args()
    prepare()
    families = {program.family for program in programs().values()}
    names = [
        name
        for name, program in programs().items()
        if not arguments.names or {name, program.family} & {*arguments.names}
    ]
    only = [name for name in arguments.names if name not in programs() and name not in families]
    part, of = map(int, arguments.share.split("/"))
    first, every = map(int, arguments.programs.split("/"))
    picks = share(part, of)
    matrix, end = Matrix(), time.monotonic() + arguments.seconds
    with contextlib.suppress(KeyboardInterrupt):  # the counts until then are printed
        for name in names[first::every]:
            if time.monotonic() > end:
                break
            before = len(matrix.wrong)
            matrix.program(name, lambda one, change: change in only if only else picks(one, change), arguments.compile)
            for one, change, texts in matrix.wrong[before:]:
                print(f"WRONG {one} | {change}", *texts[:4], sep="\n    ", flush=True)
    print(matrix.text(), flush=True)
    return bool(matrix.wrong)


if __name__ == "__main__":
    sys.exit(main())
