"""Launches through NVIDIA's driver library: driver errors, grids of launches, and machines without a driver."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from nbcompile.ir.emitted import EmittedKernel
from nbcompile.runtime import gpu_launcher
from nbcompile.runtime.gpu_launcher import GpuLauncher, Image, NoGpu
from nbcompile.runtime.toolchain import find


def kernel(**other):
    return EmittedKernel(**{"name": "k", "function": "k", "source": "", "arguments": ("a", "b"), **other})


@pytest.mark.parametrize(("sizes", "grid", "given", "expected"), [
    ((), "7", (), 7), (("s0",), "(s0 + 31) // 32", (33,), 2), (("s0", "s1"), "s0 * s1", (3, 4), 12),
])  # fmt: skip
def test_a_grid_is_a_function_of_the_sizes(sizes, grid, given, expected):
    """The grid is computed from the sizes in the order of the kernel's arguments."""
    assert gpu_launcher.grid_function(kernel(sizes=sizes, grid=grid))(*given) == expected


@pytest.mark.parametrize(("result", "cls", "words"), [
    (2, torch.OutOfMemoryError, ["CUDA out of memory", "driver error 2"]),
    (700, RuntimeError, ["an earlier kernel may have failed", "cannot use this GPU any more"]),
    (719, RuntimeError, ["an earlier kernel may have failed", "cannot use this GPU any more"]),
    (214, RuntimeError, ["cannot use this GPU any more"]),
    (801, RuntimeError, ["driver error 801"]),
])  # fmt: skip
def test_errors_of_the_driver_are_those_of_eager_mode(result, cls, words):
    """An error names the operation and the kernel, possible earlier launches, and a lost device."""
    with pytest.raises(cls) as raised:
        gpu_launcher.raise_error(result, "the driver's text", "launch", "k: sin of line 3")
    text = str(raised.value)
    assert all(word in text for word in [*words, "the driver's text", "to launch k: sin of line 3"])
    assert getattr(raised.value, gpu_launcher.RESULT) == result
    assert isinstance(raised.value, gpu_launcher.errors())
    assert ("an earlier kernel" in text) is (result in gpu_launcher.OF_KERNELS)
    assert ("any more" in text) is (result in gpu_launcher.LOST)


def test_an_error_without_a_text_has_one():
    """An error number that is unknown here has a text: a newer driver may return it."""
    with pytest.raises(RuntimeError, match=r"driver error 12345 \(an error that the driver has no text for\) to load"):
        gpu_launcher.raise_error(12345, "", "load", None)


def test_an_out_of_memory_error_is_caught_as_programs_catch_it():
    """The error is ``torch.cuda.OutOfMemoryError``, which programs catch to retry with a smaller batch."""
    with pytest.raises(torch.cuda.OutOfMemoryError):
        gpu_launcher.raise_error(2, "out of memory", "allocate", None)


def test_memory_is_freed_by_the_collector_and_by_those_who_keep_some(monkeypatch):
    """Memory is freed by the garbage collector and by the pools."""

    class Holder:
        pass

    holder = Holder()
    holder.itself = holder
    reference, released = weakref.ref(holder), []
    del holder
    monkeypatch.setattr(gpu_launcher, "memory_holders", [lambda: released.append(reference())])
    gc.disable()
    try:
        gpu_launcher.free_memory()
    finally:
        gc.enable()
    assert released == [None]


def test_a_machine_without_a_driver_says_so(monkeypatch):
    """The reason has no traceback; a missing other library is another error."""
    monkeypatch.setenv(gpu_launcher.VARIABLE, "/nowhere/libcuda.so.1")
    found = gpu_launcher.open_launcher(find())
    assert isinstance(found, NoGpu)
    assert found.reason.startswith("no driver for a GPU: ") and "\n" not in found.reason
    assert gpu_launcher.open_launcher(find()) is found, "it is asked once"
    gpu_launcher.forget()
    assert gpu_launcher.open_launcher(find()) is not found
    gpu_launcher.forget()


class Module:
    """The extension in C: it records its calls."""

    def capability(self, device):
        return 9, 0, 100 + device

    def make_kernel(self, *given):
        return given


def test_a_kernel_is_prepared_with_all_that_a_launch_needs():
    """The kernel's name in error texts contains its operators; the image is a plain tuple, as C reads it."""
    gpu = GpuLauncher(Module(), 13000, 1)
    image = Image(b"code", "k", 128, 0, 3)

    def unaligned():
        raise AssertionError("asked for when a pointer is given that is not aligned")

    name, device, pointers, sizes, debug, grid, given, made = gpu.prepare(
        kernel(sizes=("s0",), grid="s0"), image, 1, unaligned, "sin, line 3", True
    )
    assert (name, device, pointers, sizes, debug) == ("k: sin, line 3", 1, 2, 1, True)
    assert grid(5) == 5 and given == (b"code", "k", 128, 0, 3, 0) and type(given) is tuple and made is unaligned
    assert gpu.prepare(kernel(grid="1"), image, 0, unaligned)[0] == "k"
    assert gpu.capability(2) == (9, 0, 102)


def test_the_kernels_of_a_gpu_are_tritons():
    """Kernels for a GPU are Triton, other kernels are C++."""
    ours = kernel(language="triton")
    assert gpu_launcher.kernels_on_gpu([kernel(), ours]) == (ours,)
