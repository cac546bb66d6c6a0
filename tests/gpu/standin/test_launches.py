"""Driver calls of a compiled graph: arguments, grids, streams, launches, modules, memory."""

from __future__ import annotations

import contextlib
import copy

import pytest
import torch
from torch import nn

import nbcompile
from nbcompile.record.recorder import Recorder
from nbcompile.runtime import gpu_launcher
from tests.support.processes import python


def launches(log) -> list[str]:
    return [line for line in log if line.startswith("launch ")]


def explained(function, *inputs, **how):
    """Compile and run; assert eager's results."""
    torch.manual_seed(0)
    found = nbcompile.explain(function, **how)(*inputs)
    torch.manual_seed(0)
    torch.testing.assert_close(found.result, function(*inputs), rtol=1e-4, atol=1e-5)
    return found


def softmax(x):
    return torch.softmax(x * 2, -1)


def test_a_kernel_is_launched_with_its_grid_threads_and_stream(here):
    """A launch has one program per row, the threads and shared memory of the machine code, and the current stream."""
    x = torch.randn(16, 1000, device="cuda")
    compiled = nbcompile.compile(softmax)
    compiled(x)
    here.driver.clear_log()
    with here.stream(5):
        result = compiled(x)
    assert result.device == x.device
    torch.testing.assert_close(result, softmax(x))
    (launch,) = launches(here.driver.log())
    assert launch.endswith("device 0 stream 5 grid 16 block 128 shared 16")


def test_a_module_is_loaded_once(here):
    """Later calls do not load the module again."""
    x = torch.randn(8, 64, device="cuda")
    compiled = nbcompile.compile(lambda x: torch.sin(x) + 1)
    for _ in range(4):
        compiled(x)
    log = here.driver.log()
    assert sum(line.startswith("load module") for line in log) == 1
    assert len(launches(log)) == 4


def test_memory_comes_from_torchs_allocator_and_is_freed(here):
    """After a call only the result is allocated."""
    x = torch.randn(64, 512, device="cuda")
    compiled = nbcompile.compile(lambda x: torch.softmax(x @ x.t(), -1).sum(0))
    compiled(x)
    before = here.driver.allocated()
    result = compiled(x)
    assert here.driver.allocated() - before == result.untyped_storage().nbytes()
    del result
    assert here.driver.allocated() == before


def peak(log, before) -> int:
    """The peak of allocated bytes, from the driver's log."""
    now = most = before
    for line in log:
        kind, _, size = line.partition(" ")
        now += int(size) if kind == "allocate" else -int(size) if kind == "free" else 0
        most = max(most, now)
    return most


def layers(x, *weights):
    """Layers that save their results, 64 x 64 numbers each; the backward pass reads the last one first."""
    for weight in weights:
        x = torch.tanh(x @ weight)
    return x.square().sum()


@pytest.mark.parametrize("launch", ["by C", "by Python"])
def test_a_backward_pass_uses_the_memory_of_what_it_has_read(here, launch):
    """A retained graph keeps all saved tensors; otherwise each is freed after its last reader."""
    torch.manual_seed(0)
    inputs = [(torch.randn(64, 64) / 8).to("cuda").requires_grad_() for _ in range(7)]
    wanted = torch.autograd.grad(layers(*inputs), inputs)
    loss = nbcompile.compile(layers)(*inputs)
    torch.autograd.grad(loss, inputs, retain_graph=True)  # compile and load the backward graph
    needed = {}
    for keeps in (True, False):
        before = -1
        while before < 0 or here.driver.log():  # an autograd thread may still free the last results
            here.driver.clear_log()
            before = here.driver.allocated()
        profiler = torch.autograd.profiler.profile() if launch == "by Python" else contextlib.nullcontext()
        with profiler:
            found = torch.autograd.grad(loss, inputs, retain_graph=keeps)
        needed[keeps] = peak(here.driver.log(), before)
        torch.testing.assert_close(found, wanted)
        del found
    # The last product of the pass reads the first of six saved results: five are freed before.
    assert needed[True] - needed[False] >= 4 * 64 * 64 * 4
    assert here.executor.reasons == []


PROGRAMS = {
    "pointwise": (lambda x: torch.sin(x) * 2 + torch.exp(-x.abs()), [(33, 65)]),
    "row sums": (lambda x: x.sum(-1), [(40, 700)]),
    "column sums": (lambda x: x.sum(0), [(300, 64)]),
    "the whole sum": (lambda x: x.sum(), [(128, 512)]),
    "layer norm": (lambda x, w, b: torch.nn.functional.layer_norm(x, (256,), w, b), [(16, 256), (256,), (256,)]),
    "cat": (lambda x, y: torch.cat([x, y], -1) * 2, [(8, 16), (8, 48)]),
    "transposed": (lambda x, y: x.t() + y, [(64, 96), (96, 64)]),
    "matrix product": (lambda x, y, b: torch.nn.functional.gelu(x @ y + b), [(32, 48), (48, 64), (64,)]),
    "argmax": (lambda x: x.argmax(-1), [(12, 130)]),
    "several outputs": (lambda x: (x + 1, x.max(-1).values, x[1:].clone()), [(9, 33)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_eagers(here, name):
    """The launched kernels compute eager mode's results."""
    function, shapes = PROGRAMS[name]
    found = explained(function, *(torch.randn(shape, device="cuda") for shape in shapes))
    assert found.record.frames[0].compiled_graph.notes == ()
    assert launches(here.driver.log())
    assert here.executor.reasons == []


@pytest.mark.rotates(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_those_of_a_target(here, name):
    """The launched text is the text that is generated and simulated for a target without a GPU."""
    function, shapes = PROGRAMS[name]
    inputs = [torch.randn(shape) for shape in shapes]
    launched = nbcompile.explain(function)(*(value.to("cuda") for value in inputs))
    simulated = nbcompile.explain(function, options={"target": "sm_90"})(*inputs)
    assert [kernel.source for kernel in launched.kernels] == [kernel.source for kernel in simulated.kernels]


def test_a_whole_sum_is_computed_by_many_programs(here):
    """A full reduction is split among many programs, and another program adds their sums."""
    explained(lambda x: x.sum(), torch.randn(512, 512, device="cuda"))
    first, second = launches(here.driver.log())
    assert " grid 128 " in first and " grid 1 " in second


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bool, torch.float32])
def test_numbers_beside_tensors_have_the_types_of_eager_mode(here, dtype):
    """``x + 1``, ``x + 0.5`` and ``x | 1`` have the CPU's result on the device, also for scalar tensors."""
    for x in (torch.ones(4).to(dtype), torch.ones(()).to(dtype)):
        for function in (lambda x: x + 1, lambda x: x + 0.5, lambda x: x % 3, lambda x: x | 1):
            try:
                expected = function(x)
            except RuntimeError:
                continue
            found = function(x.to("cuda"))
            assert found.dtype == expected.dtype
            assert torch.equal(found.cpu(), expected)


def test_a_symbolic_size_is_an_argument_and_the_grid_follows_it(here):
    """The second size compiles one graph for all sizes; the grid of each launch follows the size."""
    compiled = nbcompile.compile(softmax)
    for rows in (3, 5, 11):
        x = torch.randn(rows, 40, device="cuda")
        torch.testing.assert_close(compiled(x), softmax(x))
    here.driver.clear_log()
    compiled(torch.randn(17, 40, device="cuda"))
    (launch,) = launches(here.driver.log())
    assert " grid 17 " in launch


def test_an_empty_tensor_launches_nothing(here):
    """A graph with an empty tensor launches nothing, because CUDA rejects a grid of 0."""
    compiled = nbcompile.compile(lambda x: x + 1)
    assert compiled(torch.randn(0, 4, device="cuda")).shape == (0, 4)
    assert launches(here.driver.log()) == []


def test_pointers_that_are_not_multiples_of_16_get_code_of_their_own(here):
    """Each launch checks the alignment; the first pointer with another alignment compiles other machine code."""
    base = torch.randn(4097, device="cuda")
    compiled = nbcompile.compile(lambda x: torch.sin(x) + 1, dynamic=False)
    torch.testing.assert_close(compiled(base[:4096]), torch.sin(base[:4096]) + 1)
    here.driver.clear_log()
    torch.testing.assert_close(compiled(base[1:]), torch.sin(base[1:]) + 1)
    compiled(base[1:])
    log = here.driver.log()
    assert sum(line.startswith("load module") for line in log) == 1
    assert here.executor.reasons == []


def test_gradients_are_computed_on_the_device(here):
    """Forward and backward graphs are launched, and the gradients are eager's."""
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8)).to("cuda")
    x = torch.randn(16, 32, device="cuda")
    model(x).square().mean().backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    here.driver.clear_log()
    nbcompile.compile(model)(x).square().mean().backward()
    for parameter, wanted in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, wanted, rtol=1e-4, atol=1e-5)
    assert len(launches(here.driver.log())) >= 3


def test_inputs_are_written_in_place(here):
    """A mutation of an argument changes the tensor on the device."""
    x = torch.randn(24, 24, device="cuda")
    expected = x.cpu() * 3 + 1

    def change(x):
        x.mul_(3)
        x.add_(1)

    nbcompile.compile(change)(x)
    torch.testing.assert_close(x.cpu(), expected)


def test_a_graph_on_two_devices_is_split_between_them(here):
    """Operators on the CPU are C++, and those on the GPU are Triton, with copies in between."""

    def mixed(x, y):
        on_gpu = torch.sin(x) + 1
        on_cpu = torch.cos(y) * 2
        return on_gpu * on_cpu.to("cuda"), on_cpu + on_gpu.cpu()

    found = explained(mixed, torch.randn(20, 30, device="cuda"), torch.randn(20, 30))
    languages = [kernel.language for kernel in found.kernels]
    assert {"cpp", "triton", "aten"} == set(languages)
    assert found.record.frames[0].compiled_graph.notes == ()


@pytest.mark.fast_path
def test_triton_is_not_imported_by_the_process_that_launches(here):
    """Only the compiling processes import Triton, if there is something to compile."""
    source = """
import sys
from nbcompile.gpu.standin import device
import torch, nbcompile
with device.standin():
    x = torch.randn(16, 100, device="cuda")
    torch.testing.assert_close(nbcompile.compile(lambda x: torch.softmax(x, -1))(x), torch.softmax(x, -1))
print("triton" in sys.modules)
"""
    assert python(source).split() == ["False"]


def test_a_profiler_sees_the_kernels_by_name(here):
    """While torch.profiler runs, each launch is a range with operators and lines."""
    x = torch.randn(8, 32, device="cuda")
    compiled = nbcompile.compile(softmax)
    compiled(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        compiled(x)
    names = [event.key for event in profile.key_averages()]
    assert any("triton_mul_softmax_0" in name and "test_launches.py" in name for name in names)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        softmax(x)
    assert not any("triton_" in event.key for event in profile.key_averages())


def test_the_grid_as_python_is_the_grid_of_the_plan():
    """Both launch paths compute the same grid."""
    from nbcompile.ir.emitted import EmittedKernel

    kernel = EmittedKernel("kernel0", "kernel0", "", ("x",), ("s0",), grid="(s0 * 7 + 1023) // 1024", language="triton")
    assert gpu_launcher.grid_function(kernel)(1000) == 7


def test_whole_numbers_are_divided_by_zero_without_an_error(here):
    """An integer division by zero on a GPU raises no error, as in eager mode; its value is undefined."""
    x, y = torch.arange(100, device="cuda"), torch.arange(100, device="cuda") - 50
    found = nbcompile.explain(lambda x, y: (x // y, x % y))(x, y)
    (kernel,) = found.kernels
    assert kernel.language == "triton"
    assert "device_assert" not in kernel.source
    for ours, eager in zip(found.result, (x // y.clamp(min=1), x % y.clamp(min=1)), strict=True):
        assert torch.equal(ours[y > 0], eager[y > 0])


def test_elements_of_8_floating_bits_are_cast_in_kernels(here):
    """Casts from and to float8 are kernels, with float8 arguments and results; GPUs before sm_89 lack them."""

    def cast(x, y):
        return (x * y.float()).to(torch.float8_e4m3fn), x.to(torch.float8_e5m2)

    x = torch.randn(1000, device="cuda") * 300
    y = torch.randn(1000, device="cuda").to(torch.float8_e5m2)
    compiled = nbcompile.compile(cast)
    for found, expected in zip(compiled(x, y), cast(x, y), strict=True):
        assert torch.equal(found.view(torch.uint8), expected.view(torch.uint8))
    assert len(launches(here.driver.log())) == 1


def test_the_current_device_is_where_tensors_are_made(here):
    """Tensors are created on the second device while it is current."""
    here.driver.set_devices(2)
    before = here.module.set_device(1)
    try:
        assert torch.cuda.current_device() == 1
        x = torch.ones(4, device="cuda")
        assert x.device.index == (x + 1).device.index == torch.cuda.current_device() == 1
    finally:
        here.module.set_device(before)
    assert torch.cuda.current_device() == before


def test_tensors_on_two_devices_in_one_graph(here):
    """Each kernel is launched on the device of its tensors, with copies between; the current device is unchanged."""
    here.driver.set_devices(2)

    def both(x, y):
        one, other = torch.sin(x) + 1, torch.cos(y) * 2
        return one, other, one * other.to("cuda:0"), other + one.to("cuda:1")

    x, y = torch.randn(20, 30, device="cuda:0"), torch.randn(20, 30, device="cuda:1")
    compiled = nbcompile.compile(both)
    compiled(x, y)
    here.driver.clear_log()
    for mine, theirs in zip(compiled(x, y), both(x, y), strict=True):
        assert mine.device == theirs.device
        torch.testing.assert_close(mine.cpu(), theirs.cpu())
    devices = [line.split(" device ")[1][0] for line in launches(here.driver.log())]
    assert sorted(devices) == ["0", "1", "1"]
    assert torch.cuda.current_device() == 0


def test_gradients_go_back_to_their_devices(here):
    """The gradients of factors on two devices are on the devices of the factors."""
    here.driver.set_devices(2)

    def loss(x, y):
        return (torch.sin(x).to("cuda:1") * y).sum()

    leaves = [torch.randn(8, 30, device=device).requires_grad_() for device in ("cuda:0", "cuda:1")]
    found = torch.autograd.grad(nbcompile.compile(loss)(*leaves), leaves)
    for mine, theirs in zip(found, torch.autograd.grad(loss(*leaves), leaves), strict=True):
        assert mine.device == theirs.device
        torch.testing.assert_close(mine.cpu(), theirs.cpu())


def test_a_value_that_goes_to_another_device_and_comes_back(here):
    """Each kernel is launched after the copy that it reads."""
    here.driver.set_devices(2)

    def there_and_back(x):
        here_first = torch.sin(x) * 2
        there = torch.cos(here_first.to("cuda:1", non_blocking=True)) + 1
        return there.to("cuda:0", non_blocking=True) * here_first, there

    x = torch.randn(20, 30, device="cuda:0")
    compiled = nbcompile.compile(there_and_back)
    compiled(x)
    here.driver.clear_log()
    for mine, theirs in zip(compiled(x), there_and_back(x), strict=True):
        assert mine.device == theirs.device
        torch.testing.assert_close(mine.cpu(), theirs.cpu())
    log = launches(here.driver.log())
    assert [(line.split()[1].split("_")[1], line.split(" device ")[1][0]) for line in log] == [
        ("sin", "0"), ("cos", "1"), ("mul", "0"),
    ]  # fmt: skip
    assert torch.cuda.current_device() == 0


def reasons(function, *inputs):
    """The reasons of ATen calls, in order."""
    frames = nbcompile.explain(function)(*inputs).record.frames
    kernels = (kernel for frame in frames if frame.compiled_graph for kernel in frame.compiled_graph.kernels)
    return [kernel.reason for kernel in kernels if kernel.language == "aten"]


def test_the_record_says_which_copies_the_cpu_waits_for(here):
    """The CPU waits for copies to and from it, unless they are non-blocking, and never for copies between GPUs."""
    here.driver.set_devices(2)
    x, other = torch.randn(8, device="cuda"), torch.randn(8)
    copy, waits = "a copy to another device", ": the CPU waits for it"
    not_blocking = ", non_blocking: the CPU continues where its side is pinned memory"
    assert reasons(lambda x: (x * 2).cpu(), x) == [copy + waits]
    assert reasons(lambda x: (x * 2).to("cpu", non_blocking=True), x) == [copy + not_blocking]
    assert reasons(lambda x, other: x + other.to("cuda"), x, other) == [copy + waits]
    assert reasons(lambda x, other: x + other.to("cuda", non_blocking=True), x, other) == [copy + not_blocking]
    assert reasons(lambda x: (x * 2).to("cuda:1") + 1, x) == [copy + ": the CPU continues"]


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_copy_on_one_device_is_none_to_another(here, device):
    """Casts and copies of complex tensors on one device run through ATen, without a reason about another device."""
    x = torch.randn(8, device="cuda")
    for function in (lambda x: x.to(device, torch.complex64), lambda x: torch.ones_like(x + 1j).copy_(x * 2j)):
        found = reasons(function, x)
        assert found and not any("another device" in reason for reason in found)


def test_the_record_says_where_the_cpu_counts(here):
    """The CPU waits for a multinomial's and a factorisation's checks; other calls have their usual reason."""
    (draw,) = reasons(lambda x: torch.multinomial(x.exp(), 1), torch.randn(8, device="cuda"))
    assert draw.endswith("; the CPU waits for the GPU, as it needs a number of the result")
    factors = reasons(lambda x: torch.linalg.cholesky(x @ x.t() + torch.eye(8, device="cuda")), torch.eye(8).cuda())
    assert ["; the CPU waits for the GPU" in reason for reason in factors] == [False, False, False, True, False]
    (product,) = reasons(lambda x: x @ x, torch.randn(8, 8, device="cuda"))
    assert "waits" not in product


def test_layers_on_two_devices_learn_what_eager_mode_does(here):
    """A model on two devices trains as in eager mode: forward, backward and optimiser."""
    here.driver.set_devices(2)
    torch.manual_seed(0)
    halves = [nn.Linear(16, 32).to("cuda:0"), nn.Linear(32, 4).to("cuda:1")]
    inputs = [torch.randn(8, 16, device="cuda:0") for _ in range(3)]

    def loss(first, second, x):
        return second(torch.tanh(first(x)).to("cuda:1")).square().mean()

    def learned(function):
        layers = copy.deepcopy(halves)
        parameters = [parameter for layer in layers for parameter in layer.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
        for x in inputs:
            optimizer.zero_grad()
            function(*layers, x).backward()
            optimizer.step()
        return parameters

    for mine, theirs in zip(learned(nbcompile.compile(loss)), learned(loss), strict=True):
        assert mine.device == theirs.device
        torch.testing.assert_close(mine.cpu(), theirs.cpu())
    assert torch.cuda.current_device() == 0
    assert here.executor.reasons == []


def test_a_graph_is_for_the_number_of_its_device(here):
    """A tensor on another GPU fails a guard; operands on two GPUs are eager mode's error."""
    here.driver.set_devices(2)
    recorder = Recorder("f")
    with recorder.listening():
        compiled = nbcompile.compile(torch.sin)
        for device in ("cuda:0", "cuda:1", "cuda:0", "cuda:1"):
            x = torch.randn(20, 30, device=device)
            assert compiled(x).device == x.device
            torch.testing.assert_close(compiled(x).cpu(), torch.sin(x.cpu()))
    assert len([frame for frame in recorder.frames if getattr(frame, "compiled_graph", None)]) == 2
    with pytest.raises(RuntimeError):
        nbcompile.compile(torch.add)(torch.randn(4, device="cuda:0"), torch.randn(4, device="cuda:1"))


def column(x):
    x = x.clone()
    x[:, 1] = 3
    x[0] = float("nan")
    return x * 2


def column_of_input(x):
    x[:, 1] = 3.5
    return x + 1


def masked(x):
    return x.masked_fill(x > 0, torch.tensor(4.0))


def rows_of_a_list(x):
    x = x.clone()
    x[torch.tensor([1, 2], device=x.device)] = 7
    return x[torch.tensor([0, 2])]


def filled_with_a_tensor(x, s):
    x = x.clone()
    x[:, 2] = s
    x[1].fill_(s)
    return x * s


def clamped_by_a_tensor(x, s):
    return torch.where(x > s, x, s) + x * 2, x == s, x.index_fill(0, torch.tensor([1], device=x.device), s)


NUMBERS_ON_THE_CPU = {
    "a literal in a column": (column, True), "a literal in an input": (column_of_input, True), "a mask": (masked, True),
    "rows": (rows_of_a_list, False), "a tensor without dimensions": (filled_with_a_tensor, False),
    "comparisons": (clamped_by_a_tensor, False),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS_ON_THE_CPU)
def test_no_kernel_reads_a_number_in_memory_of_the_cpu(here, name):
    """A number in CPU memory, as in ``x[:, 1] = 3``, is a constant of the kernel, or an argument of ATen's operator."""
    function, is_literal = NUMBERS_ON_THE_CPU[name]
    x, numbers = torch.randn(12, 4), [] if is_literal or function is rows_of_a_list else [torch.tensor(0.5)]
    given, expected = x.to("cuda"), x.to("cuda")
    found = nbcompile.explain(function)(given, *numbers)
    torch.testing.assert_close(found.result, function(expected, *numbers), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(given, expected, rtol=0, atol=0)
    assert here.executor.reasons == []
    languages = {kernel.language for kernel in found.kernels}
    assert "triton" in languages or function is rows_of_a_list
    if name == "a literal in a column":
        assert languages == {"triton"}


@pytest.mark.parametrize("count", [40, 110])
def test_a_launch_of_many_pointers(here, count):
    """Small kernels of many tensors, as in an optimizer step, are one launch with all their pointers."""
    inputs = [torch.randn(5 + at % 3, device="cuda") for at in range(count)]
    explained(lambda *tensors: [x.sin() * 2 for x in tensors], *inputs)
    assert len(launches(here.driver.log())) == 1


def test_more_pointers_than_a_launch_takes(here):
    """A kernel with more operands than the launcher supports runs in eager mode."""
    inputs = [torch.randn(3, device="cuda") for _ in range(300)]
    compiled = nbcompile.compile(lambda *tensors: torch.cat(tensors) * 2)
    torch.testing.assert_close(compiled(*inputs), torch.cat(inputs) * 2)
