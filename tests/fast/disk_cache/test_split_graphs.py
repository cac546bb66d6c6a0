"""A graph that is split at the gradient buckets of DistributedDataParallel is loaded with all its parts.

Read next: nbcompile/fast/disk_cache/graphs.py
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import nbcompile
from nbcompile.backends import gradient_buckets
from nbcompile.record import model
from tests.backends import test_gradient_buckets as split_programs
from tests.backends.test_gradient_buckets import PROGRAMS, Plain, Sized
from tests.support.processes import ROOT, python

pytestmark = pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo")
WIDTH = 512
"""The size of a matrix that fills the first bucket."""
IN_ANOTHER_PROCESS = """
from tests.fast.disk_cache import test_split_graphs as here
with here.one_process():
    print(here.cause_and_parts(here.wrapped(1.0)))
"""


class one_process:  # noqa: N801 - used as a function
    """A process group of one process."""

    def __enter__(self) -> None:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    def __exit__(self, *_: object) -> None:
        dist.destroy_process_group()


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    nbcompile.reset()
    with one_process():
        yield


def wrapped(cap: float, *ignored: str) -> DistributedDataParallel:
    torch.manual_seed(0)
    inner = Plain()
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(inner, list(ignored))
    return DistributedDataParallel(inner, bucket_cap_mb=cap)


def cause_and_parts(module: DistributedDataParallel) -> tuple[str, int]:
    """The cause of the frame with the graph, and its number of parts, after a comparison with eager mode."""
    x = torch.randn(4, WIDTH)
    explained = nbcompile.explain(module)(x)
    found, expected = explained.result, module.module(x)
    torch.testing.assert_close(found, expected)
    parameters = list(module.module.parameters())
    wanted = torch.autograd.grad(expected.sum(), parameters)
    found.sum().backward()
    for parameter, gradient in zip(parameters, wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    (frame,) = (each for each in explained.record.frames if each.graph is not None)
    return frame.cause, len(frame.compiled_graph.parts)


def test_a_later_process_loads_the_parts(tmp_path: Path) -> None:
    """The first process compiles four parts, and the second one loads them."""
    printed = [python(IN_ANOTHER_PROCESS, folder=ROOT, NBCOMPILE_CACHE_DIR=tmp_path).strip() for _ in range(2)]
    assert printed == [str(("first call", 4)), str((model.LOADED, 4))]


def test_what_is_loaded_is_compiled_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is split if all parts are in the store."""
    assert cause_and_parts(wrapped(1.0)) == ("first call", 4)
    nbcompile.reset()
    monkeypatch.setattr(gradient_buckets, "_compile_parts", None)
    assert cause_and_parts(wrapped(1.0)) == (model.LOADED_FROM_CACHE, 4)


@pytest.mark.parametrize(("cap", "ignored", "parts"), [(2.5, (), 2), (1.0, ("layers.1.weight",), 3)])
def test_other_buckets_are_another_entry(cap: float, ignored: tuple[str, ...], parts: int) -> None:
    """Parts are loaded only for equal bucket sizes and gradients; each case finds its own."""
    assert cause_and_parts(wrapped(1.0)) == ("first call", 4)
    for cause in ("first call", model.LOADED_FROM_CACHE):
        nbcompile.reset()
        assert cause_and_parts(wrapped(cap, *ignored)) == (cause, parts)
    nbcompile.reset()
    assert cause_and_parts(wrapped(1.0)) == (model.LOADED_FROM_CACHE, 4)


@pytest.mark.parametrize(("cls", "rows"), [*((cls, (4, 4)) for cls in PROGRAMS), (Sized, (4, 6, 8)), (Plain, (4, 6))])
def test_loaded_parts_compute_the_same(cls: type[nn.Module], rows: tuple[int, ...]) -> None:
    """Loaded parts give bitwise the results, gradients and buffers of compiled ones, also for symbolic sizes."""
    found = []
    for _ in range(2):
        nbcompile.reset()
        module = split_programs.wrapped(cls)
        with warnings.catch_warnings():
            warnings.simplefilter("error", nbcompile.errors.InternalErrorWarning)
            found.append(split_programs.trained(module, nbcompile.compile(module), rows))
    for first, second in zip(*found, strict=True):
        assert first.numpy().tobytes() == second.numpy().tobytes()


def test_one_part_and_none() -> None:
    """A graph whose gradients fit into one bucket has another entry than one without buckets."""
    assert cause_and_parts(wrapped(100.0, *(f"layers.{at}.weight" for at in range(4)))) == ("first call", 1)
    for settings in ({}, {"optimize_ddp": False}):
        nbcompile.reset()
        with nbcompile.config.patch(**settings):
            cause, _ = cause_and_parts(wrapped(100.0, *(f"layers.{at}.weight" for at in range(4))))
        assert (cause == model.LOADED_FROM_CACHE) is (not settings)
