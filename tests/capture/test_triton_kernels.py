"""The parts that determine the code of a user's Triton kernel: an edit of one of them gives another kernel."""

from __future__ import annotations

import importlib.util
import itertools

import pytest

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.fast.disk_cache.descriptions import describe

MODULE = """
import enum
import triton
import triton.language as tl
from types import SimpleNamespace

import sizes_of_kernels as sizes

FACTOR = tl.constexpr(3)
TYPE = tl.constexpr(tl.float32)
UNUSED = tl.constexpr(8)

class Sizes:
    BLOCK = tl.constexpr(32)

@triton.jit
def below(x):
    return x + 1

@triton.jit
def above(x):
    return below(x) * 2

@triton.constexpr_function
def doubled(n):
    return helper(n)

def helper(n):
    return 2 * n

def made(k):
    K = tl.constexpr(k)

    @triton.jit
    def inner(x, n, BLOCK: tl.constexpr):
        tl.store(x, tl.load(x) + K)
    return inner

@triton.jit
def scale(x, n, BLOCK: tl.constexpr = 64):
    at = tl.arange(0, doubled(BLOCK)) + sizes.FIRST + Sizes.BLOCK
    tl.store(x + at, (above(tl.load(x + at)) * FACTOR).to(TYPE))

inner = made(5)
CONFIGS = [triton.Config({"BLOCK": 32}, num_warps=1), triton.Config({"BLOCK": 64}, num_stages=2)]
tuned = triton.autotune(configs=CONFIGS, key=["n"])(scale)
heuristic = triton.heuristics({"BLOCK": lambda given: 64 if given["n"] > 100 else 32})(scale)
kernel = scale
"""
EDITS = {
    "its text": ("* FACTOR", "+ FACTOR"),
    "a global": ("FACTOR = tl.constexpr(3)", "FACTOR = tl.constexpr(4)"),
    "a global of another type": ("FACTOR = tl.constexpr(3)", "FACTOR = tl.constexpr(3.0)"),
    "a type": ("tl.constexpr(tl.float32)", "tl.constexpr(tl.float16)"),
    "a function that it calls": ("return below(x) * 2", "return below(x) * 3"),
    "a function that this one calls": ("return x + 1", "return x + 2"),
    "a function of Python's that Triton runs": ("return helper(n)", "return helper(n) + 0"),
    "a function that this one calls in Python": ("return 2 * n", "return 4 * n"),
    "a value of a class": ("BLOCK = tl.constexpr(32)", "BLOCK = tl.constexpr(16)"),
    "a value of a module": ("as sizes", "as sizes; sizes = SimpleNamespace; import other_sizes as sizes"),
    "a default": ("BLOCK: tl.constexpr = 64", "BLOCK: tl.constexpr = 32"),
    "an option": ("@triton.jit\ndef scale", '@triton.jit(do_not_specialize=["n"])\ndef scale'),
}
_numbers = itertools.count()


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A function that creates the module after an edit."""
    monkeypatch.syspath_prepend(tmp_path)
    for name, first in (("sizes_of_kernels", 7), ("other_sizes", 8)):
        (tmp_path / f"{name}.py").write_text(f"import triton.language as tl\nFIRST = tl.constexpr({first})\n")

    def made(*edit: str):
        path = tmp_path / f"kernels_{next(_numbers)}.py"
        path.write_text(MODULE.replace(*edit) if edit else MODULE)
        found = importlib.util.spec_from_file_location("kernels_of_a_test", path)
        module = importlib.util.module_from_spec(found)
        monkeypatch.setitem(__import__("sys").modules, "kernels_of_a_test", module)
        found.loader.exec_module(module)
        return module

    return made


@pytest.mark.parametrize("edited", EDITS)
def test_an_edit_makes_another_kernel(edited, kernels):
    """The description contains everything with which the kernel is compiled."""
    assert EDITS[edited][0] in MODULE
    assert describe(kernels().kernel) != describe(kernels(*EDITS[edited]).kernel)


@pytest.mark.parametrize(
    "edit",
    [(), ("UNUSED = tl.constexpr(8)", "UNUSED = tl.constexpr(9)"), ("import enum", "import enum\n\n\n")],
    ids=["nothing", "a global that it does not read", "lines above it"],
)
def test_what_it_is_not_compiled_with_changes_nothing(edit, kernels):
    """The same kernel of two modules has the same description."""
    for name in ("kernel", "inner", "tuned", "heuristic"):
        assert describe(getattr(kernels(), name)) == describe(getattr(kernels(*edit), name))


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("inner", ("made(5)", "made(6)")),
        ("tuned", ('{"BLOCK": 64}', '{"BLOCK": 128}')),
        ("tuned", ("num_warps=1", "num_warps=2")),
        ("tuned", ("num_stages=2", "num_stages=1")),
        ("tuned", ('key=["n"]', "key=[]")),
        ("heuristic", ("> 100", "> 200")),
        ("heuristic", ("* FACTOR", "+ FACTOR")),
    ],
)
def test_what_is_around_a_kernel_counts(name, edit, kernels):
    """The contents of a closure, the autotuning and the heuristics are part of the description."""
    assert edit[0] in MODULE
    assert describe(getattr(kernels(), name)) != describe(getattr(kernels(*edit), name))
