"""The reference path: without the mechanisms for speed, every program has the same results.

A program runs twice through the default backend, with ``config.reference`` on and off, and each run is recorded. Results,
effects, graphs, guards, breaks and recompilations must be equal. The gate takes one program of ``STEP``; all of them are
marked slow.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

import nbcompile
from nbcompile import config
from nbcompile.dispatch import cache
from nbcompile.record import codec, recorder
from tests.peer import harness
from tests.peer.program import programs
from tests.support.processes import python

STEP = 40
GUARDS_OF_THE_TRACER = {"batches_of_different_sizes", "convolution", "split_heads"}
"""Programs with guards on sizes that only one of the two tracers of ATen graphs needs."""
NAMES = [
    pytest.param(name, marks=[] if number % STEP == 0 or name in GUARDS_OF_THE_TRACER else [pytest.mark.slow])
    for number, name in enumerate(sorted(programs()))
]

OF_THE_FRAME = (
    "id", "function", "status", "instead", "skip_reason", "cause", "failed_guards", "guards", "breaks", "graph", "inlined",
    "residual", "mutations", "resume_functions", "called_from", "resumes", "place", "failed", "symbols",
)  # fmt: skip
"""The fields of a frame's record that must be equal on both paths; the ATen graphs come from two tracers."""


class Recorded(harness.Ours):
    """nbcompile with its record."""

    def __init__(self, reference: bool) -> None:
        self.reference = reference
        self.frames: list[dict[str, Any]] = []

    def compile(self, function: Any, backend: Any, options: Any) -> Any:
        """Compile with the default backend, instead of the one that counts."""
        return nbcompile.compile(function, **options)

    @contextlib.contextmanager
    def watched(self, settings: Any, seen: Any) -> Iterator[None]:
        """Watch a call, with its record as data."""
        frame_recorder = recorder.Recorder("program")
        with config.patch({**settings.config, "reference": self.reference}), frame_recorder.listening():
            yield
        self.frames = [codec.frame_to_plain(frame) for frame in frame_recorder.frames]


def run(name: str, reference: bool) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """The results and side effects of a program's calls, and the record of its frames."""
    compiler = Recorded(reference)
    # A second run of the same program would load the first one's code.
    with config.patch(warm_start=False), same_process_state():
        seen = harness.run(programs()[name], compiler)
    assert not seen.failures
    facts = [{path: comparable(text) for path, text in call.facts.items()} for call in seen.calls]
    return facts, [{key: comparable(frame[key]) for key in OF_THE_FRAME if key in frame} for frame in compiler.frames]


@contextlib.contextmanager
def same_process_state() -> Iterator[None]:
    """Equal ids of hooks and equal registered pytree nodes for two runs, because guards name both."""
    mixin = torch.autograd.function._HookMixin
    register_hook = mixin._register_hook
    ids_of_tracers = itertools.count(10**9)

    def register_with_another_id(*arguments: Any) -> Any:
        """Register a hook with a separate counter: the two tracers register different numbers of hooks."""
        next_id, RemovableHandle.next_id = RemovableHandle.next_id, next(ids_of_tracers)
        try:
            return register_hook(*arguments)
        finally:
            RemovableHandle.next_id = next_id

    RemovableHandle.next_id = 0
    with (
        mock.patch.object(mixin, "_register_hook", staticmethod(register_with_another_id)),
        mock.patch.dict(pytree.SUPPORTED_NODES),
    ):
        yield


NUMBERS_OF_A_RUN = re.compile(
    r"(?<=compiled_fn_)\d+"  # graphs are numbered in a process
    r"| #\d+(?!\w)"  # and so are objects of one name, from the second on
    r"|0x[0-9a-f]{6,}|\d{9,}(\.\d+)?"  # addresses and ids; seconds since 1970
    r"|\d{4,}\.\d{6,}"  # seconds since the machine was started
)


def comparable(data: Any) -> Any:
    """The data without numbers of one run or process. Refinements of a symbol are a set: their order may differ."""
    if isinstance(data, dict):
        return {key: by_condition(comparable(value)) if key == "refinements" else comparable(value)
                for key, value in data.items()}  # fmt: skip
    if isinstance(data, list | tuple):
        return [comparable(value) for value in data]
    return NUMBERS_OF_A_RUN.sub("", data) if isinstance(data, str) else data


def by_condition(refinements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(refinements, key=lambda refinement: str(refinement["condition"]))


@pytest.fixture(scope="module", autouse=True)
def dummy_of_nested_tensors() -> None:
    """Create torch's dummy tensor, whose ragged size would otherwise be a symbol of the first trace."""
    torch.nested.nested_tensor_from_jagged(torch.ones(1, 1), torch.tensor([0, 1]))


@pytest.mark.parametrize("name", NAMES)
def test_both_paths_agree(name: str) -> None:
    """Results, side effects and the record of a program are the same with and without the fast paths."""
    facts, frames = run(name, reference=False)
    plain_facts, plain_frames = run(name, reference=True)
    assert list(differing(plain_facts, facts)) == []
    found = list(differing(plain_frames, frames))
    if name == "split_heads" and not torch.__version__.startswith("2.13"):
        # From torch 2.14 on AOTAutograd also needs c // 2 < 2 * b * (c // 2), which follows from the other conditions.
        found = [
            path for path in found if not re.match(r"\[2\]\.(guards\[\d+\]\.\w+|symbols\[\d\]\.refinements): ", path)
        ]
    assert found == []


def differing(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """The differences of two trees of data."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differing(one.get(key), other.get(key), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differing(*pair, f"{path}[{number}]")
    elif one != other:
        yield f"{path}: {one!r:.300} <> {other!r:.300}"


def test_the_reference_path_makes_no_fast_calls() -> None:
    """Only the code object has entries after many calls."""
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
    return python(CHILD, NBCOMPILE_REFERENCE=reference).strip()


def test_the_environment_chooses_the_reference_path() -> None:
    """``NBCOMPILE_REFERENCE=1`` uses torch's tracer itself; otherwise a stub replaces it."""
    assert (child("0"), child("1")) == ("stubbed", "real")
