"""Driver faults: each is one error of eager mode's class, the state is unchanged, and the next call succeeds."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.runtime import gpu_launcher

ACCELERATOR = getattr(torch, "AcceleratorError", RuntimeError)
AT_A_LAUNCH = (1, 2, 3, 4, 46, 101, 201, 209, 214, 400, 700, 701, 702, 710, 716, 719, 999)
"""Results that cuLaunchKernel may return, or the failure of an earlier kernel."""


def plus_one(x):
    return torch.sin(x) + 1


@pytest.mark.parametrize("result", AT_A_LAUNCH)
def test_each_result_of_a_launch_is_one_error(here, result):
    """The class is eager's; the text has the driver's, the kernel, and advice; inputs are unchanged."""
    x = torch.randn(8, 32, device="cuda")
    before = x.cpu()
    compiled = nbcompile.compile(plus_one)
    expected = compiled(x).cpu()
    here.driver.fail("cuLaunchKernel", result)
    kind = torch.OutOfMemoryError if result == gpu_launcher.OUT_OF_MEMORY else ACCELERATOR
    with pytest.raises(kind, match=rf"CUDA driver error {result} .*to launch triton_sin_\w+") as caught:
        compiled(x)
    assert ("cannot use this GPU any more" in str(caught.value)) == (result in gpu_launcher.LOST)
    here.driver.recover()
    torch.testing.assert_close(x.cpu(), before, rtol=0, atol=0)
    torch.testing.assert_close(compiled(x).cpu(), expected, rtol=0, atol=0)


def test_a_device_that_was_lost_says_so_at_every_call(here):
    """Each call on a lost device raises an error: none hangs, and none returns a wrong result."""
    x = torch.randn(8, 32, device="cuda")
    compiled = nbcompile.compile(plus_one)
    compiled(x)
    here.driver.fail("cuLaunchKernel", 999)
    for _ in range(3):
        with pytest.raises(ACCELERATOR, match="cannot use this GPU any more"):
            compiled(x)
    here.driver.recover()


def test_memory_is_freed_and_tried_for_once(here):
    """If an allocation fails, unused memory is freed, and the allocation is repeated."""
    x = torch.randn(8, 32, device="cuda")
    compiled = nbcompile.compile(plus_one)
    compiled(x)
    calls = []
    gpu_launcher.memory_holders.append(lambda: calls.append("freed"))
    try:
        here.driver.fail("cuMemAlloc", 2)
        torch.testing.assert_close(compiled(x), plus_one(x))
        assert calls == ["freed"]
    finally:
        gpu_launcher.memory_holders.pop()


def test_no_memory_at_all_is_torchs_own_error(here):
    """Without memory, the error is torch.OutOfMemoryError; with memory the same graph runs again."""
    x = torch.randn(64, 64, device="cuda")
    compiled = nbcompile.compile(plus_one)
    compiled(x)
    here.driver.set_capacity(here.driver.allocated())
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        compiled(x)
    here.driver.set_capacity()
    torch.testing.assert_close(compiled(x), plus_one(x))


def test_debug_names_the_kernel_and_the_line(here):
    """options={"debug": True} synchronises after each launch, so that the error names the kernel."""
    x = torch.randn(8, 32, device="cuda")
    compiled = nbcompile.compile(plus_one, options={"debug": True})
    compiled(x)
    here.driver.clear_log()
    compiled(x)
    assert any(line.startswith("synchronize stream") for line in here.driver.log())
    here.driver.fail("cuStreamSynchronize", 700, after=1)
    with pytest.raises(
        ACCELERATOR, match=r"illegal memory access.*to run triton_sin_\w+: .*sin.*test_faults\.py:\d+"
    ) as raised:
        compiled(x)
    here.driver.recover()
    assert "earlier kernel" not in str(raised.value)


def test_debug_blames_no_kernel_for_what_ran_before(here):
    """Debug mode synchronises before the launch, too: an earlier failure names no kernel, and nothing is launched."""
    x = torch.randn(8, 32, device="cuda")
    compiled = nbcompile.compile(plus_one, options={"debug": True})
    compiled(x)
    launched = here.driver.launches()
    here.driver.fail("cuStreamSynchronize", 700)
    with pytest.raises(ACCELERATOR, match=r"to wait for earlier work before triton_sin_\w+: .*an earlier kernel"):
        compiled(x)
    here.driver.recover()
    assert here.driver.launches() == launched


@pytest.mark.rotates(4)
@pytest.mark.parametrize("result", AT_A_LAUNCH)
def test_each_result_of_waiting_for_a_kernel_is_one_error(here, result):
    """In debug mode the error has eager's class and the kernel; inputs are unchanged, and the next call succeeds."""
    x = torch.randn(8, 32, device="cuda")
    before = x.cpu()
    compiled = nbcompile.compile(plus_one, options={"debug": True})
    expected = compiled(x).cpu()
    here.driver.fail("cuStreamSynchronize", result, after=1)
    kind = torch.OutOfMemoryError if result == gpu_launcher.OUT_OF_MEMORY else ACCELERATOR
    with pytest.raises(kind, match=rf"CUDA driver error {result} .*to run triton_sin_\w+"):
        compiled(x)
    here.driver.recover()
    torch.testing.assert_close(x.cpu(), before, rtol=0, atol=0)
    torch.testing.assert_close(compiled(x).cpu(), expected, rtol=0, atol=0)


def test_an_error_without_text_is_an_error(here):
    """``cuGetErrorString`` may not know a number, of a newer driver for example: the error is raised all the same."""
    x = torch.randn(8, 32, device="cuda")
    compiled = nbcompile.compile(plus_one)
    compiled(x)
    here.driver.fail("cuLaunchKernel", 12345)
    with pytest.raises(ACCELERATOR, match=r"CUDA driver error 12345 \(an error that the driver has no text for\)"):
        compiled(x)
    torch.testing.assert_close(compiled(x), plus_one(x))


@pytest.mark.parametrize(
    "function", ["cuModuleLoadData", "cuModuleGetFunction", "cuCtxGetCurrent", "cuDeviceGetAttribute"]
)
def test_a_graph_that_cannot_be_loaded_runs_through_aten(here, function):
    """If a graph cannot be loaded, a warning has the driver's text, and the call has eager's result."""
    x = torch.randn(8, 32, device="cuda")
    nbcompile.compile(lambda x: x + 1)(x)  # the driver is initialised
    here.driver.fail(function, 209 if function == "cuModuleLoadData" else 1)
    with pytest.warns(nbcompile.errors.GeneratedCodeWarning, match="CUDA driver error"):
        result = nbcompile.compile(plus_one)(x)
    here.driver.recover()
    torch.testing.assert_close(result, plus_one(x))


@pytest.mark.parametrize(
    ("function", "result", "reason"),
    [
        ("cuInit", 100, "no CUDA-capable device"),
        ("cuDriverGetVersion", 803, "cuda driver combination"),
    ],
)
def test_a_driver_that_does_not_start_is_a_reason_in_the_record(here, function, result, reason):
    """If the driver does not start, the graph runs through ATen, and the page has the driver's text."""
    x = torch.randn(8, 32, device="cuda")
    gpu_launcher.forget()
    here.driver.fail(function, result)
    found = nbcompile.explain(plus_one)(x)
    gpu_launcher.forget()
    torch.testing.assert_close(found.result, plus_one(x))
    (note,) = found.record.frames[0].compiled_graph.notes
    assert "no driver for a GPU" in note
    assert reason in note


def test_a_driver_that_is_too_old_is_named(here):
    """The reason has the driver's version, the required one, and advice."""
    x = torch.randn(8, 32, device="cuda")
    gpu_launcher.forget()
    here.driver.set_devices(1, version=11040)
    found = nbcompile.explain(plus_one)(x)
    gpu_launcher.forget()
    (note,) = found.record.frames[0].compiled_graph.notes
    assert "too old: it has CUDA 11.4, and 12 is needed (install a newer NVIDIA driver)" in note


def test_no_driver_library_is_a_reason_in_the_record(here, monkeypatch):
    """Without a driver library the results are eager's, and the record has the loader's text."""
    monkeypatch.setenv(gpu_launcher.VARIABLE, "/nowhere/libcuda.so.1")
    x = torch.randn(8, 32, device="cuda")
    found = nbcompile.explain(plus_one)(x)
    torch.testing.assert_close(found.result, plus_one(x))
    (note,) = found.record.frames[0].compiled_graph.notes
    assert "/nowhere/libcuda.so.1" in note


def test_each_of_two_gpus_runs_its_own_code(here):
    """Kernels are loaded and launched in the context of the tensors' device, whichever device is current."""
    here.driver.set_devices(2)
    compiled = nbcompile.compile(plus_one)
    for device in ("cuda:0", "cuda:1"):
        x = torch.randn(8, 32, device=device)
        result = compiled(x)
        assert result.device == x.device
        torch.testing.assert_close(result.cpu(), plus_one(x.cpu()))
        assert torch.cuda.current_device() == 0
    devices = {line.split(" device ")[1][0] for line in here.driver.log() if line.startswith("launch ")}
    assert devices == {"0", "1"}


LOST = sorted(gpu_launcher.LOST)
NOT_LOST = (1, 2, 3, 201, 400, 701, 801, 900, 901, 904, 906)
WHILE_RECORDING = ("cuStreamBeginCapture", "cuLaunchKernel", "cuStreamEndCapture", "cuGraphInstantiate")
IN_A_REPLAY = ("cuStreamIsCapturing", "cuMemcpyDtoDAsync", "cuGraphLaunch")


def replayed(calls):
    """A function compiled in this mode, after some calls with inputs at changing addresses."""
    compiled = nbcompile.compile(plus_one, mode="reduce-overhead")
    kept = [torch.randn(8, 32, device="cuda") for _ in range(calls)]  # all are alive, so that no two have one address
    for x in kept:
        compiled(x)
    return compiled


def expect_plain_launches(here, compiled, x, before):
    """Assert that this call and later ones have eager's result, inputs are unchanged, and no graph remains."""
    torch.testing.assert_close(compiled(x), plus_one(x))
    torch.testing.assert_close(x.cpu(), before, rtol=0, atol=0)
    here.driver.clear_log()
    torch.testing.assert_close(compiled(x), plus_one(x))
    assert any(line.startswith("launch ") for line in here.driver.log())


def expect_eagers_error(here, compiled, x, before, result):
    """The call raises one error of eager mode's class with the driver's number, and the next call succeeds."""
    with pytest.raises(ACCELERATOR, match=rf"CUDA driver error {result} .*cannot use this GPU any more"):
        compiled(x)
    here.driver.recover()
    torch.testing.assert_close(x.cpu(), before, rtol=0, atol=0)
    torch.testing.assert_close(compiled(x), plus_one(x))


@pytest.mark.rotates(3)
@pytest.mark.parametrize("result", NOT_LOST)
@pytest.mark.parametrize("function", WHILE_RECORDING)
def test_a_capture_that_fails_is_plain_launches(here, function, result):
    """If any driver call of a capture fails, kernels are launched; stream, device and memory pool are restored."""
    others = here.driver.live_graphs()
    compiled = replayed(1)
    x = torch.randn(8, 32, device="cuda")
    before = x.cpu()
    here.driver.fail(function, result)
    expect_plain_launches(here, compiled, x, before)
    assert here.driver.live_graphs() == others
    assert torch.cuda.current_device() == 0
    assert not here.driver.library.standin_is_capturing(None)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("result", LOST)
@pytest.mark.parametrize("function", WHILE_RECORDING)
def test_a_device_that_is_lost_in_a_capture_is_eagers_error(here, function, result):
    """If the device is lost in a capture, eager's error is raised, and there is no fallback."""
    compiled = replayed(1)
    x = torch.randn(8, 32, device="cuda")
    before = x.cpu()
    here.driver.fail(function, result)
    expect_eagers_error(here, compiled, x, before, result)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("result", NOT_LOST)
@pytest.mark.parametrize("function", IN_A_REPLAY)
def test_a_replay_that_fails_is_plain_launches(here, function, result):
    """If the driver rejects a replay, kernels are launched instead: the replay has run nothing."""
    compiled = replayed(4)
    x = torch.randn(8, 32, device="cuda")
    before = x.cpu()
    here.driver.fail(function, result)
    expect_plain_launches(here, compiled, x, before)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("result", LOST)
@pytest.mark.parametrize("function", IN_A_REPLAY)
def test_a_device_that_is_lost_in_a_replay_is_eagers_error(here, function, result):
    """If the device is lost in a replay, eager's error is raised, and there is no fallback."""
    compiled = replayed(4)
    x = torch.randn(8, 32, device="cuda")
    before = x.cpu()
    here.driver.fail(function, result)
    expect_eagers_error(here, compiled, x, before, result)


def test_without_memory_for_a_result_that_is_kept_graphs_are_given_up(here):
    """If a live result cannot be moved, graphs are given up and kernels are launched; the result is unchanged."""
    compiled = replayed(3)
    x = torch.randn(8, 32, device="cuda")
    kept, more = compiled(x), x + 1
    here.driver.set_capacity(here.driver.allocated())
    found = compiled(more)
    here.driver.set_capacity()
    torch.testing.assert_close(found, plus_one(more))
    torch.testing.assert_close(compiled(more), plus_one(more))
    torch.testing.assert_close(kept, plus_one(x))
