"""Every call of the driver that the launcher makes, with every result that it may give there: docs/design/gpu.md has the table.

What a launch, a capture and a replay return is in test_faults.py.
"""

from __future__ import annotations

import concurrent.futures
import gc
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import nbcompile
from nbcompile.gpu import cubins
from nbcompile.runtime import gpu_launcher, toolchain

ACCELERATOR = getattr(torch, "AcceleratorError", RuntimeError)
AT_THE_START = (1, 2, 3, 4, 34, 36, 46, 100, 101, 304, 802, 803, 804, 999)
OF_A_MODULE = (1, 2, 3, 4, 46, 101, 200, 201, 209, 214, 218, 221, 222, 300, 302, 400, 500, 700, 716, 719, 801, 999)
OF_A_DESTRUCTION = (1, 3, 4, 201, 400, 700, 716, 719, 999)


def plus_one(x):
    return torch.sin(x) + 1


def right_now(x, before) -> None:
    """Inputs are unchanged, the device is the first one, and code compiled now gives eager mode's result."""
    torch.testing.assert_close(x.cpu(), before, rtol=0, atol=0)
    assert torch.cuda.current_device() == 0
    nbcompile.reset()
    torch.testing.assert_close(nbcompile.compile(plus_one)(x), plus_one(x))


@pytest.mark.rotates(4)
@pytest.mark.parametrize("result", AT_THE_START)
@pytest.mark.parametrize("function", ["cuInit", "cuDriverGetVersion", "cuDeviceGetCount"])
def test_a_driver_that_does_not_start(here, function, result):
    """The graph runs through ATen, and the record has the driver's number; later graphs are launched."""
    x = torch.randn(8, 32, device="cuda")
    before = x.cpu()
    gpu_launcher.forget()
    here.driver.fail(function, result)
    driver = gpu_launcher.open_launcher(toolchain.find())
    assert isinstance(driver, gpu_launcher.NoGpu)
    assert driver.reason.startswith("no driver for a GPU: CUDA ")
    assert f"CUDA driver error {result} " in driver.reason
    here.driver.recover()
    torch.testing.assert_close(nbcompile.compile(plus_one)(x), plus_one(x))
    gpu_launcher.forget()
    here.driver.clear_log()
    right_now(x, before)
    assert any(line.startswith("launch ") for line in here.driver.log())


@pytest.mark.rotates(5)
@pytest.mark.parametrize("result", OF_A_MODULE)
@pytest.mark.parametrize(
    "function", ["cuDeviceGetAttribute", "cuCtxGetCurrent", "cuModuleLoadData", "cuModuleGetFunction"]
)
def test_a_module_that_is_not_loaded(here, function, result):
    """If a module is not loaded, eager mode's result comes with a warning; on a lost device, eager mode's error."""
    x = torch.randn(8, 32, device="cuda")
    before = x.cpu()
    gpu_launcher.open_launcher(toolchain.find())
    here.driver.fail(function, result)
    compiled = nbcompile.compile(plus_one)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = compiled(x)
        except RuntimeError:  # eager mode's own error, if the stand-in has no memory
            assert result in gpu_launcher.LOST
            found = None
    here.driver.recover()
    if found is not None:
        torch.testing.assert_close(found, plus_one(x))
    texts = [
        str(warning.message) for warning in told if issubclass(warning.category, nbcompile.errors.GeneratedCodeWarning)
    ]
    assert any(f"CUDA driver error {result} " in text for text in texts) or result in gpu_launcher.LOST, texts
    torch.testing.assert_close(compiled(x), plus_one(x))
    right_now(x, before)


def prepared(shared: int = 0) -> object:
    """A kernel with this much shared memory, loaded by the launcher."""
    nbcompile.compile(plus_one)(torch.ones(4, 4, device="cuda"))
    image = next(iter(cubins.loaded.values())).image._replace(shared=shared)
    kernel = SimpleNamespace(name="kernel", arguments=("a",), sizes=(), grid="1")
    launcher = gpu_launcher.open_launcher(toolchain.find())
    assert not isinstance(launcher, gpu_launcher.NoGpu)
    return launcher.prepare(kernel, image, 0, unaligned=lambda: image)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("result", OF_A_MODULE)
def test_shared_memory_that_is_rejected(here, result):
    """If shared memory is rejected, the error names the kernel; the next attempt succeeds."""
    prepared()
    here.driver.fail("cuFuncSetAttribute", result)
    kind = torch.OutOfMemoryError if result == gpu_launcher.OUT_OF_MEMORY else ACCELERATOR
    with pytest.raises(kind, match=rf"CUDA driver error {result} .*to prepare kernel"):
        prepared(64 << 10)
    here.driver.recover()
    assert prepared(64 << 10)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("result", OF_A_DESTRUCTION)
@pytest.mark.parametrize("function", ["cuGraphDestroy", "cuGraphExecDestroy", "cuModuleUnload"])
def test_what_cannot_be_destroyed_is_left(here, function, result):
    """A failed destruction does not change results; only a lost device raises at the next call."""
    x = torch.randn(8, 32, device="cuda")
    before = x.cpu()
    compiled = nbcompile.compile(plus_one, mode="reduce-overhead")
    expected = plus_one(x)
    compiled(x)
    here.driver.fail(function, result)
    try:
        found = compiled(x)
        del compiled
        nbcompile.reset()
        gc.collect()
    except RuntimeError:
        assert result in gpu_launcher.LOST
        found = None
    here.driver.recover()
    if found is not None:
        torch.testing.assert_close(found, expected)
    right_now(x, before)


def in_a_new_thread(function):
    """The result of a function in a thread that has not used the driver."""
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(function).result()


def test_a_new_thread_gets_the_devices_context():
    """The first launch, and the first load, of a thread sets the device's context."""
    x = torch.randn(8, 32, device="cuda")
    assert in_a_new_thread(prepared)
    compiled = nbcompile.compile(plus_one)
    expected = compiled(x)
    torch.testing.assert_close(in_a_new_thread(lambda: compiled(x)), expected)


@pytest.mark.parametrize("result", OF_A_MODULE)
@pytest.mark.parametrize("function", ["cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"])
def test_a_thread_that_gets_no_context(here, function, result):
    """If a thread gets no context, torch's error class has the driver's number, and the next thread gets a context."""
    x = torch.randn(8, 32, device="cuda")
    before = x.cpu()
    compiled = nbcompile.compile(plus_one)
    expected = compiled(x)
    here.driver.fail(function, result)
    kind = torch.OutOfMemoryError if result == gpu_launcher.OUT_OF_MEMORY else ACCELERATOR
    with pytest.raises(kind, match=f"CUDA driver error {result} .*to enter the device"):
        in_a_new_thread(lambda: compiled(x))
    here.driver.recover()
    torch.testing.assert_close(in_a_new_thread(lambda: compiled(x)), expected)
    right_now(x, before)


def test_the_table_of_faults_has_each_function_of_the_driver():
    """The tests and the documentation's table name each driver function that the launcher uses."""
    source = gpu_launcher.SOURCE.read_text()
    called = {
        name.removesuffix("_v2").removesuffix("WithFlags")
        for name in re.findall(r'find\(driver\.\w+, "(cu\w+)"', source)
    }
    folder = Path(__file__).parent
    tests = "".join((folder / name).read_text() for name in ("test_faults.py", "test_driver_results.py"))
    page = (folder.parents[2] / "docs" / "design" / "gpu.md").read_text()
    table = page[page.index("| call | results injected") :]
    assert len(called) == 22
    for name in called:
        assert f'"{name}"' in tests or f"``{name}``" in tests
        assert f"`{name}`" in table
