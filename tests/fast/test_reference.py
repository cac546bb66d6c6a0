"""The reference path: without the mechanisms that exist only for speed, every program does the same.

A program runs twice through the default backend, with ``config.reference`` on and off, and each run is recorded. Results,
effects, graphs, guards, breaks and recompilations must be equal. The gate takes one program of ``STEP``; all of them are
marked slow.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.hooks import RemovableHandle

import nbcompile
from nbcompile import config
from nbcompile.dispatch import cache
from nbcompile.record import codec, recorder
from tests.peer import harness
from tests.peer.program import programs

STEP = 40
NAMES = [
    pytest.param(name, marks=[] if number % STEP == 0 else [pytest.mark.slow])
    for number, name in enumerate(sorted(programs()))
]

OF_THE_FRAME = (
    "id", "function", "status", "instead", "skip_reason", "cause", "failed_guards", "guards", "breaks", "graph", "inlined",
    "residual", "mutations", "resume_functions", "called_from", "resumes", "place", "failed", "symbols",
)  # fmt: skip
"""The fields of a frame's record that both paths must agree on; the ATen graphs come from two tracers."""


class Recorded(harness.Ours):
    """nbcompile, with its record."""

    def __init__(self, reference: bool) -> None:
        self.reference = reference
        self.frames: list[dict[str, Any]] = []

    def compile(self, function: Any, backend: Any, options: Any) -> Any:
        """With the default backend, in place of the one that counts."""
        return nbcompile.compile(function, **options)

    @contextlib.contextmanager
    def watched(self, settings: Any, seen: Any) -> Iterator[None]:
        """With the record kept as data."""
        pen = recorder.Recorder("program")
        with config.patch({**settings.config, "reference": self.reference}), pen.listening():
            yield
        self.frames = [codec.frame_to_plain(frame) for frame in pen.frames]


def run(name: str, reference: bool) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """What the calls of a program gave and left behind, and what the record says of its frames."""
    compiler = Recorded(reference)
    RemovableHandle.next_id = 0  # the keys of hooks, which guards name
    with config.patch(warm_start=False):  # a second run of the same program would load the first one's code
        seen = harness.run(programs()[name], compiler)
    assert not seen.failures
    facts = [{path: without_addresses(text) for path, text in call.facts.items()} for call in seen.calls]
    return facts, [
        {key: without_addresses(frame[key]) for key in OF_THE_FRAME if key in frame} for frame in compiler.frames
    ]


def without_addresses(told: Any) -> Any:
    """The same with addresses of this process blanked."""
    if isinstance(told, dict):
        return {key: without_addresses(value) for key, value in told.items()}
    if isinstance(told, list | tuple):
        return [without_addresses(value) for value in told]
    return re.sub(r"(?<=compiled_fn_)\d+|0x[0-9a-f]{6,}|\d{9,}", "..", told) if isinstance(told, str) else told


@pytest.mark.parametrize("name", NAMES)
def test_both_paths_agree(name: str) -> None:
    """Results, effects and the record of a program are the same with and without the fast paths."""
    facts, frames = run(name, reference=False)
    plain_facts, plain_frames = run(name, reference=True)
    assert list(differing(plain_facts, facts)) == []
    assert list(differing(plain_frames, frames)) == []


def differing(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two trees of data differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differing(one.get(key), other.get(key), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differing(*pair, f"{path}[{number}]")
    elif one != other:
        yield f"{path}: {one!r:.300} <> {other!r:.300}"


def test_the_reference_path_makes_no_fast_calls() -> None:
    """After many calls nothing but the code object holds entries."""
    copies = set(cache._copies)
    with config.patch(reference=True):
        compiled = nbcompile.compile(lambda x: x + 1, backend="eager")
        for _ in range(5):
            compiled(torch.ones(3))
    assert set(cache._copies) <= copies
    nbcompile.reset()


CHILD = """
import sys, torch, nbcompile
compiled = nbcompile.compile(lambda x, w: (x @ w).relu())
for _ in range(3):
    x = torch.ones(4, 4, requires_grad=True)
    assert torch.equal(compiled(x, x), (x @ x).relu())
print("stubbed" if type(sys.modules.get("torch._dynamo")).__module__.startswith("nbcompile") else "real")
"""


@functools.cache
def child(reference: str) -> str:
    environment = {**os.environ, "NBCOMPILE_REFERENCE": reference}
    return subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=True, env=environment
    ).stdout.strip()


def test_the_environment_chooses_the_reference_path() -> None:
    """``NBCOMPILE_REFERENCE=1`` leaves torch's tracer as torch has it; without it, a stub is in its place."""
    assert (child("0"), child("1")) == ("stubbed", "real")
