"""torch's list of compilation metrics is filled, for programs that read it."""

from __future__ import annotations

import sys
import types

import pytest
import torch
import torch._dynamo.utils

import nbcompile
from tests.support.processes import python

ALIKE = (
    "co_name", "co_filename", "co_firstlineno", "cache_size", "accumulated_cache_size", "graph_op_count",
    "graph_node_count", "graph_input_count", "has_guarded_code", "is_forward", "recompile_reason",
    "fail_user_frame_filename", "fail_user_frame_lineno",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _empty():
    torch._dynamo.reset()
    nbcompile.reset()
    torch._dynamo.utils.clear_compilation_metrics()
    yield
    torch._dynamo.utils.clear_compilation_metrics()


def broken(x):
    y = x.sin() + 1
    torch._dynamo.graph_break()
    return y.cos()


def scaled(x, k):
    return x * k + k


def failing(x):
    return torch.ones(2) @ x


def calls(compiler, backend="eager"):
    """Calls with each outcome of a compile."""
    compiler(broken, backend=backend)(torch.ones(3))
    compiled = compiler(scaled, backend=backend)
    for call in ((torch.ones(3), 1), (torch.ones(3), 2), (torch.ones(4), 3)):
        compiled(*call)
    with pytest.raises(Exception, match=r"size|fake"):
        compiler(failing, backend=backend)(torch.ones(3))


def rows(compiler):
    """The list after these calls, with comparable values."""
    torch._dynamo.utils.clear_compilation_metrics()
    calls(compiler)
    found = torch._dynamo.utils.get_compilation_metrics()
    picked = [{name: getattr(row, name) for name in ALIKE} for row in found if row.co_name is not None]
    for row in picked:
        row["cache_size"], row["accumulated_cache_size"] = row["cache_size"] or 0, row["accumulated_cache_size"] or 0
        row["recompile_reason"] = (row["recompile_reason"] or "").partition(": ")[2].partition("  #")[0].strip()
    return picked


@pytest.mark.compiles
def test_it_is_what_torch_compile_gives():
    """The rows have torch.compile's order, sizes, reasons and lines."""
    theirs = rows(torch.compile)
    ours = rows(nbcompile.compile)
    assert [row["co_name"] for row in ours] == [row["co_name"] for row in theirs]
    assert ours[:-1] == theirs[:-1]
    assert ours[-1]["fail_user_frame_lineno"] == theirs[-1]["fail_user_frame_lineno"]


@pytest.mark.compiles
def test_times_and_guards():
    """Each row has its start time, its duration and its backend's, and its number of guards."""
    calls(nbcompile.compile, backend="aot_eager")
    *compiled, failed = torch._dynamo.utils.get_compilation_metrics()
    assert [row.compile_id.partition("/")[2] for row in compiled] == ["0", "0", "0", "1", "2"]
    for row in compiled:
        assert row.guard_count
        assert 0 < row.aot_autograd_cumulative_compile_time_us <= row.duration_us
        assert row.backend_compile_time_s == row.aot_autograd_cumulative_compile_time_us / 1e6
        assert row.entire_frame_compile_time_s == row.duration_us / 1e6
        assert row.end_time_us == row.start_time_us + row.duration_us
    (reason,) = compiled[0].restart_reasons
    assert "graph_break()" in reason
    assert failed.fail_type and failed.fail_reason and not failed.has_guarded_code


def backward_rows(compiler, backend):
    """The rows after a forward and a backward pass, with the fields that each backward has in torch."""
    torch._dynamo.utils.clear_compilation_metrics()
    compiler(lambda x: (x.sin() * 2).sum(), backend=backend)(torch.ones(3, requires_grad=True)).backward()
    found = [row for row in torch._dynamo.utils.get_compilation_metrics() if row.compile_id is not None]
    return [
        (row.is_forward, row.co_name, row.graph_op_count, row.has_guarded_code, row.compile_id == found[0].compile_id,
         row.backward_cumulative_compile_time_us == row.duration_us)
        for row in found
    ]  # fmt: skip


@pytest.mark.compiles
def test_a_backward_graph_has_a_row():
    """The backward's row is torch's: the frame's compile id, the duration, and no facts about the frame."""
    ours = backward_rows(nbcompile.compile, "aot_eager")
    assert ours == backward_rows(torch.compile, "aot_eager")
    assert ours[1] == (False, None, None, None, True, True)
    assert backward_rows(nbcompile.compile, "inductor")[1] == ours[1]


@pytest.mark.fast_path
def test_an_entry_from_the_store_has_a_row(tmp_path):
    """A loaded entry has a row with code, guards and duration, and without a graph: nothing was traced."""
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, torch._dynamo.utils, nbcompile\n"
        "def doubled(x):\n    return x * 2 + 1\n"
        "nbcompile.compile(doubled)(torch.ones(3))\n"
        "(row,) = torch._dynamo.utils.get_compilation_metrics()\n"
        "print(row.co_name, row.has_guarded_code, row.graph_op_count, row.duration_us > 0)\n"
    )
    said = [python(program) for _ in range(2)]
    assert said == ["doubled True 2 True\n", "doubled True None True\n"]


@pytest.mark.fast_path
def test_torchs_module_is_not_imported_for_it():
    """A program that does not read the list does not import torch's compiler."""
    program = (
        "import sys, torch, nbcompile\n"
        "nbcompile.compile(torch.sin, backend='eager')(torch.ones(2))\n"
        "assert 'torch._dynamo.utils' not in sys.modules\n"
    )
    python(program)


def test_torchs_module_is_being_imported(monkeypatch, recwarn):
    """If another thread is importing torch's module, nothing is noted, and the compile continues."""
    compiled = nbcompile.compile(scaled, backend="eager")
    compiled(torch.ones(3), 1)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", types.ModuleType("torch._dynamo.utils"))
    assert compiled(torch.ones(3).double(), 1).dtype is torch.double
    assert not recwarn.list
