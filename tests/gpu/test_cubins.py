"""Machine code from worker processes, which are forks of one process that has imported Triton."""

from __future__ import annotations

import concurrent.futures
import os
import select
import signal
import time

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.codegen import triton
from nbcompile.gpu import cubins
from nbcompile.gpu.cubins import Request
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule


def request_of(function, size: int) -> Request:
    """The compile request for the only kernel of a function of one vector."""
    graph = make_fx(function, tracing_mode="fake")(torch.ones(size))
    example = next(node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder")
    return Request(triton.emit(schedule(lower(graph))).kernels[0], "sm_90")


@pytest.fixture(autouse=True)
def own_workers(monkeypatch, tmp_path):
    """An empty store, and separate worker processes."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cubins, "_workers", cubins._Workers())
    yield
    cubins.end_workers()


def children(process: int) -> list[int]:
    with open(f"/proc/{process}/task/{process}/children") as listed:
        return [int(number) for number in listed.read().split()]


def test_kernels_are_compiled_side_by_side_and_kept():
    """Triton is imported once, there is at most one fork per core, and a second request is read from the store."""
    requests = [request_of(torch.sin, 64), request_of(torch.tanh, 64), request_of(lambda x: x + 1, 64)]
    built = cubins.obtain(requests)
    assert [cubin.image.entry for cubin in built] == [request.kernel.name for request in requests]
    assert all(cubin.image.code.startswith(b"\x7fELF") for cubin in built)
    workers = cubins._workers
    assert workers.server is not None
    assert len(children(workers.server.process.pid)) == len(workers.idle) <= len(os.sched_getaffinity(0))
    cubins.end_workers()
    assert [cubin.image for cubin in cubins.obtain(requests)] == [cubin.image for cubin in built]
    assert workers.server is None


def test_a_process_that_was_killed_is_replaced():
    """A killed worker, or a killed fork server, is replaced; only the kernel that it compiled has no code."""
    cubins.obtain([request_of(torch.sin, 64)])
    workers = cubins._workers
    assert workers.server is not None
    (child,) = children(workers.server.process.pid)
    os.kill(child, signal.SIGKILL)
    # The signal is sent: the process has ended once its connection is closed.
    select.select([worker.connection for worker in workers.idle], [], [], 60)
    assert cubins.obtain([request_of(torch.cos, 64)])
    workers.server.process.kill()
    workers.server.process.wait()
    assert cubins.obtain([request_of(torch.exp, 64)])  # by the worker, which continues
    for worker in workers.idle:
        worker.close()
    workers.idle.clear()
    assert cubins.obtain([request_of(torch.log, 64)])


def test_a_process_that_ends_within_a_request_is_a_reason(monkeypatch):
    """If the process ends within a request, the kernel has a reason instead of code, and the call returns."""
    monkeypatch.setattr(cubins, "WORKER", cubins.WORKER.with_name("nothing_there.py"))
    with pytest.raises(cubins.CannotCompile, match="the process that compiles for a GPU ended"):
        cubins.obtain([request_of(torch.sin, 64)])


def test_the_lines_of_the_machine_code_are_those_of_the_whole_text():
    """Functions that a worker shares between kernels count as lines before the kernel."""
    request = request_of(torch.tanh, 64)
    (cubin,) = cubins.obtain([request])
    lines = request.source.splitlines()
    named = {int(line.split()[2]) for line in cubin.ptx.splitlines() if line.lstrip().startswith(".loc")}
    assert named
    assert max(named) <= len(lines)
    stores = [number for number, line in enumerate(lines, 1) if "tl.store" in line and "p1" in line]
    assert named & set(stores)


def test_a_kernel_that_triton_rejects_is_a_reason():
    """If Triton rejects a kernel, the reason has Triton's text."""
    request = request_of(torch.sin, 64)
    from dataclasses import replace

    broken = replace(request.kernel, source=request.kernel.source.replace("tl.load", "tl.no_such_function"))
    with pytest.raises(cubins.CannotCompile, match="Triton cannot compile it for sm_90"):
        cubins.obtain([replace(request, kernel=broken)])


def test_a_worker_that_fails_leaves_the_folder_of_the_others():
    """A worker that gets an invalid request ends, and the next worker compiles."""
    cubins.obtain([request_of(torch.sin, 64)])
    (worker,) = cubins._workers.idle
    worker.connection.sendall(b"\xff\n")
    assert not worker.lines.readline()
    (built,) = cubins.obtain([request_of(torch.tanh, 64)])
    assert built.image.code.startswith(b"\x7fELF")


def test_a_worker_that_is_told_to_end_leaves_no_files(monkeypatch, tmp_path):
    """A worker that is terminated leaves no temporary files, in a compilation or between two."""
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setenv("TMPDIR", str(files))
    cubins.obtain([request_of(torch.sin, 64)])
    assert list(files.iterdir()) == []
    cubins.end_workers()
    text = cubins.WORKER.read_text()
    monkeypatch.setattr(cubins, "WORKER", tmp_path / "worker.py")
    cubins.WORKER.write_text(text.replace("    compiled = ", "    subprocess.run(['sleep', '60'])\n    compiled = "))
    workers = cubins._workers
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        asked = threads.submit(workers.compile, [request_of(torch.cos, 64)])
        while not list(files.glob("nbcompile-triton-*")):
            time.sleep(0.01)
        (child,) = children(workers.server.process.pid)
        os.kill(child, signal.SIGTERM)
        assert asked.result() == ["the process that compiles for a GPU ended"]
    assert list(files.iterdir()) == []


def test_a_worker_that_is_told_to_end_while_it_makes_or_removes_its_folder_leaves_none(monkeypatch, tmp_path):
    """A signal right after the folder is created, or right before it is removed, leaves no folder."""
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setenv("TMPDIR", str(files))
    text = cubins.WORKER.read_text()
    monkeypatch.setattr(cubins, "WORKER", tmp_path / "worker.py")
    for module, name in (("os", "mkdir"), ("shutil", "rmtree")):
        told = (
            f"def _told(path, *more, first={module}.{name}, **named):\n"
            f"    made = {name!r} == 'mkdir' and first(path, *more, **named)\n"
            "    'nbcompile-triton-' in str(path) and os.kill(os.getpid(), signal.SIGTERM)\n"
            f"    {name!r} == 'rmtree' and first(path, *more, **named)\n"
            f"import {module}\n{module}.{name} = _told\n"
        )
        cubins.WORKER.write_text(text.replace("def main()", f"import shutil\n{told}\n\ndef main()"))
        with pytest.raises(cubins.CannotCompile, match="the process that compiles for a GPU ended"):
            cubins.obtain([request_of(torch.cos, 64)])
        cubins.end_workers()
        assert list(files.iterdir()) == []
