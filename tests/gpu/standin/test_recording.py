"""``mode="reduce-overhead"``: one recording, replays by one driver call, and always eager mode's results."""

from __future__ import annotations

import contextlib
import gc
import warnings

import pytest
import torch
from torch import nn

import nbcompile
from nbcompile.gpu import cuda_graphs
from nbcompile.record.recorder import Recorder

MODE = "reduce-overhead"
pytestmark = pytest.mark.usefixtures("nothing_is_left")


def lines(here, *starts) -> list[str]:
    return [line for line in here.driver.log() if line.startswith(starts)]


def same(found, expected) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def notes_of(function, *calls, **how) -> list[str]:
    """The notes of all frames after some calls; each result is eager mode's."""
    recorder = Recorder("f")
    with recorder.listening():
        compiled = nbcompile.compile(function, mode=MODE, **how)
        for inputs in calls:
            torch.manual_seed(1)
            found = compiled(*inputs)
            torch.manual_seed(1)
            same(found, function(*inputs))
    return [note for frame in recorder.frames if frame.compiled_graph for note in frame.compiled_graph.notes]


def mixed(x, w):
    return torch.softmax(torch.sin(x) @ w, -1), x.sum(0)


def test_the_second_call_records_and_later_ones_replay(here):
    """The first call launches kernels, because a capture cannot load modules; a replay is one driver call."""
    x, w = torch.randn(8, 32, device="cuda"), torch.randn(32, 16, device="cuda")
    compiled = nbcompile.compile(mixed, mode=MODE)
    for call in range(4):
        here.driver.clear_log()
        with here.stream(7):
            found = compiled(x, w)
        assert len(lines(here, "begin capture")) == (call == 1)
        assert lines(here, "replay") == (["replay nodes 3 stream 7"] if call else [])
        same(found, mixed(x, w))
        del found


def test_other_inputs_are_copied_and_parameters_are_not(here):
    """An input whose address changes is copied from then on; a parameter is read without a copy."""
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32)).to("cuda")
    compiled = nbcompile.compile(model, mode=MODE)
    kept = [torch.randn(4, 16, device="cuda") for _ in range(6)]
    with torch.no_grad():
        for x in kept:
            here.driver.clear_log()
            found = compiled(x)
            same(found, model(x))
            del found
        assert lines(here, "copy") == [f"copy {4 * 16 * 4}"]
        assert lines(here, "begin capture") == []


def test_a_parameter_that_moves_is_seen(here):
    """A replay compares the addresses of parameters, so that no freed memory is read."""
    layer = nn.Linear(16, 16).to("cuda")
    compiled = nbcompile.compile(layer, mode=MODE)
    x = torch.randn(4, 16, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            same(compiled(x), layer(x))
        layer.weight.data = torch.randn(16, 16, device="cuda")
        for _ in range(3):
            same(compiled(x), layer(x))


@pytest.mark.parametrize("small", [0, cuda_graphs.MAX_COPIED_BYTES])
def test_a_result_that_is_kept_stays_what_it_was(here, small, monkeypatch):
    """A live result is moved before the graph runs again, or the graph is recorded again; its views are moved, too."""
    monkeypatch.setattr(cuda_graphs, "MAX_COPIED_BYTES", small)
    compiled = nbcompile.compile(mixed, mode=MODE)
    w = torch.randn(32, 16, device="cuda")
    kept = []
    for _ in range(10):
        x = torch.randn(8, 32, device="cuda")
        first, second = compiled(x, w)
        kept.append((first, second, first[2:5].t(), [each.clone() for each in mixed(x, w)]))
    for first, second, part, expected in kept:
        same([first, second], expected)
        same(part, expected[0][2:5].t())
        assert first.untyped_storage().data_ptr() == part.untyped_storage().data_ptr()
    first.add_(1)  # noqa: PLW2901 - in place: no other result may see it
    same(kept[0][0], kept[0][3][0])


def test_a_result_may_be_the_next_input(here):
    """A recurrent call may read the last result of the same graph."""

    def step(x):
        return torch.tanh(x.sum(0) * 0.1 + x) + 0.1

    compiled = nbcompile.compile(step, mode=MODE)
    found = expected = torch.randn(8, 8, device="cuda")
    for _ in range(8):
        found, expected = compiled(found), step(expected)
        same(found, expected)


def test_grouped_products_of_the_library_are_recorded(here):
    """Grouped products of ATen are recorded: each replay reads the groups' sizes on the device."""
    others = here.driver.live_graphs()

    def program(x, w, offsets):
        return torch._grouped_mm(x, w, offsets).relu() * 2

    x, w = torch.randn(32, 16, device="cuda").bfloat16(), torch.randn(3, 16, 32, device="cuda").bfloat16()
    compiled = nbcompile.compile(program, mode=MODE)
    for ends in ([8, 20, 32], [8, 20, 32], [4, 8, 32], [0, 32, 32]):
        offsets = torch.tensor(ends, dtype=torch.int32).cuda()
        torch.testing.assert_close(compiled(x, w, offsets), program(x, w, offsets))
    assert here.driver.live_graphs() == others + 1


def test_inputs_are_returned_as_they_are(here):
    """A result that is an argument, or a view of one, is not copied."""

    def function(x, y):
        return x, y[1:], x + y, 3

    compiled = nbcompile.compile(function, mode=MODE)
    for _ in range(4):
        x, y = torch.randn(4, 4, device="cuda"), torch.randn(4, 4, device="cuda")
        first, part, total, number = compiled(x, y)
        assert first is x
        assert number == 3
        assert part.data_ptr() == y[1:].data_ptr()
        same(total, x + y)


def test_training_is_recorded_forward_and_backward(here):
    """Both graphs are replayed; after some steps the parameters are eager mode's."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).to("cuda")
    twin = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).to("cuda")
    twin.load_state_dict(model.state_dict())
    compiled = nbcompile.compile(model, mode=MODE)
    for _ in range(6):
        x = torch.randn(8, 16, device="cuda")
        here.driver.clear_log()
        for each, run in ((model, compiled), (twin, twin)):
            run(x).square().mean().backward()
            with torch.no_grad():
                for parameter in each.parameters():
                    parameter -= 0.05 * parameter.grad
                    parameter.grad = None
    same(list(model.parameters()), list(twin.parameters()))
    assert len(lines(here, "replay")) == 2
    assert lines(here, "begin capture") == []


@pytest.mark.parametrize("small", [0, cuda_graphs.MAX_COPIED_BYTES])
def test_gradients_of_several_forward_passes(here, small, monkeypatch):
    """The next forward pass does not overwrite the tensors that a pending backward pass needs."""
    monkeypatch.setattr(cuda_graphs, "MAX_COPIED_BYTES", small)
    weight = torch.randn(16, 16, device="cuda", requires_grad=True)

    def function(x):
        return torch.sin(x @ weight).exp().sum()

    compiled = nbcompile.compile(function, mode=MODE)
    for _ in range(5):
        inputs = [torch.randn(4, 16, device="cuda") for _ in range(3)]
        grads = []
        for run in (compiled, function):
            weight.grad = None
            losses = [run(x) for x in inputs]
            for loss in reversed(losses):
                loss.backward()
            grads.append(weight.grad.clone())
        same(*grads)


def test_each_size_has_a_graph(here, monkeypatch):
    """A size is recorded at its second call; above the limit, sizes are launched, and the record says so."""
    monkeypatch.setattr(cuda_graphs, "MAX_GRAPHS", 3)

    def function(x):
        return torch.softmax(x, -1) * 2

    sizes = (2, 3, 4, 5, 6)
    calls = [(torch.randn(rows, 40, device="cuda"),) for _ in range(3) for rows in sizes]
    notes = notes_of(function, *calls)
    assert sum("recorded a CUDA graph" in note for note in notes) == 3
    assert [note for note in notes if note.startswith("skipping cudagraphs for further sizes: 3")]


def test_results_cross_graph_breaks_without_copies(here):
    """A graph reads the results of an earlier graph without a copy."""

    def function(x):
        x = torch.sin(x) * 2
        nbcompile.graph_break()
        return torch.softmax(x + 1, -1)

    compiled = nbcompile.compile(function, mode=MODE)
    for _ in range(6):
        x = torch.randn(8, 32, device="cuda")
        here.driver.clear_log()
        found = compiled(x)
        same(found, function(x))
        del found
    assert len(lines(here, "replay")) == 2
    assert lines(here, "copy") == ["copy 1024"]


def test_buffers_are_written_in_place(here):
    """Running statistics have a constant address, so a graph that mutates them is recorded."""
    norm = nn.BatchNorm1d(16).to("cuda")
    twin = nn.BatchNorm1d(16).to("cuda")
    compiled = nbcompile.compile(norm, mode=MODE)
    for _ in range(5):
        x = torch.randn(8, 16, device="cuda")
        here.driver.clear_log()
        same(compiled(x), twin(x))
    same(norm.running_var, twin.running_var)
    assert int(norm.num_batches_tracked) == 5
    assert lines(here, "replay")


def test_an_input_that_moves_and_is_written_is_no_graph(here):
    """A mutated input with a changing address is not recorded; the reason is torch's, with the line."""

    def function(x, y):
        x.mul_(2)
        return x + y

    recorder = Recorder("f")
    with recorder.listening():
        compiled = nbcompile.compile(function, mode=MODE)
        for _ in range(4):
            x, y = torch.randn(4, 4, device="cuda"), torch.randn(4, 4, device="cuda")
            expected = function(x.clone(), y)
            same(compiled(x, y), expected)
    (note,) = (note for note in recorder.frames[0].compiled_graph.notes if "skipping" in note)
    assert note.startswith("skipping cudagraphs due to mutated inputs (1 instances). Found from : \n")
    assert "x.mul_(2)" in note


@pytest.mark.parametrize("own", [False, True])
def test_random_numbers_are_drawn_anew_by_each_replay(here, own):
    """Each replay draws new random numbers: eager mode's, or our own ones."""

    def function(x):
        y = torch.nn.functional.dropout(torch.sin(x), 0.5) + torch.rand(8, 32, device="cuda")
        return y + torch.randn_like(x), torch.bernoulli(x.abs().clamp(0, 1), 0.25)

    options = {"fallback_random": not own}
    plain = nbcompile.compile(function, options=options)
    compiled = nbcompile.compile(function, options={**options, "cuda_graphs": True})
    x = torch.randn(8, 32, device="cuda")
    compiled(x)
    results = []
    for run in (compiled, plain if own else function):
        torch.manual_seed(3)
        here.driver.clear_log()
        results.append([run(x) for _ in range(4)])
        if run is compiled:
            assert lines(here, "replay")
    same(*results)
    assert not torch.equal(results[0][2][0], results[0][3][0])


def test_dropout_of_a_model_in_training_is_eagers(here):
    """The dropout mask is drawn before the graph, and used by forward and backward passes."""
    x = torch.randn(8, 32, device="cuda", requires_grad=True)

    def function(x):
        return torch.nn.functional.dropout(torch.sin(x), 0.3).square().sum()

    compiled = nbcompile.compile(function, mode=MODE)
    for _ in range(4):
        grads = []
        for run in (compiled, function):
            torch.manual_seed(5)
            x.grad = None
            run(x).backward()
            grads.append(x.grad.clone())
        same(*grads)


def item(x):
    return x * x.sum().item()


def on_both(x):
    return torch.sin(x).cpu() + 1


@torch.library.custom_op("nbcompile_tests::waits", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
def waits(x: torch.Tensor) -> torch.Tensor:
    return x + x.sum().item()


@waits.register_fake
def _(x):
    return torch.empty_like(x)


def tagged(x):
    return torch.sin(waits(x))


def condition(x):
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


def categories(x):
    return torch.multinomial(x.abs(), 2)


REASONS = {
    on_both: "cpu device",
    tagged: "incompatible op nbcompile_tests.waits.default",
    condition: "control flow operator: cond",
    categories: "incompatible op aten.multinomial.default",
}


@pytest.mark.parametrize("function", REASONS)
def test_a_graph_that_cannot_be_recorded_says_why(here, function):
    """A graph that cannot be recorded has torch's reason, and eager mode's results."""
    x = torch.randn(8, 32, device="cuda")
    notes = notes_of(function, (x,), (x,), (x,))
    assert any(note.startswith(f"skipping cudagraphs due to {REASONS[function]}") for note in notes), notes
    assert lines(here, "begin capture") == []


def test_an_item_between_graphs_leaves_them_graphs(here):
    """``item()`` ends a graph; the graphs before and after it are recorded."""
    x = torch.randn(8, 32, device="cuda")
    notes_of(item, (x,), (x,), (x + 1,), (x,))


def test_two_devices_are_no_graph(here):
    """A graph on two devices is not recorded."""
    here.driver.set_devices(2)

    def function(x, y):
        return torch.sin(x), torch.cos(y)

    x, y = torch.randn(4, device="cuda:0"), torch.randn(4, device="cuda:1")
    (note,) = notes_of(function, (x, y), (x, y), (x, y))
    assert note == (
        "skipping cudagraphs due to multiple devices: device(type='cuda', index=0), device(type='cuda', index=1)"
    )


def test_each_of_two_devices_has_its_graphs(here):
    """Capture and replay are on the tensors' device."""
    here.driver.set_devices(2)
    compiled = nbcompile.compile(mixed, mode=MODE)
    for _ in range(3):
        for device in ("cuda:0", "cuda:1"):
            x, w = torch.randn(8, 32, device=device), torch.randn(32, 16, device=device)
            found = compiled(x, w)
            assert found[0].device == x.device
            same([each.cpu() for each in found], list(mixed(x.cpu(), w.cpu())))
            assert torch.cuda.current_device() == 0


def test_each_stream_has_its_graph(here):
    """Each stream has a separate recording, because two streams cannot write to one copy of the inputs."""
    compiled = nbcompile.compile(mixed, mode=MODE)
    x, w = torch.randn(8, 32, device="cuda"), torch.randn(32, 16, device="cuda")
    for _ in range(3):
        for stream in (3, 5):
            with here.stream(stream):
                same(compiled(x, w), mixed(x, w))
    assert {line.split()[-1] for line in lines(here, "replay")} == {"3", "5"}


def test_in_the_users_own_capture_kernels_are_launched(here):
    """In a user's stream capture, kernels are launched, and no graph is nested."""
    x = torch.randn(8, 32, device="cuda")
    compiled = nbcompile.compile(lambda x: torch.sin(x) + 1, mode=MODE)
    for _ in range(3):
        compiled(x)
    library = here.driver.library
    import ctypes

    graph = ctypes.c_void_p()
    with here.stream(9):
        library.cuStreamBeginCapture_v2(ctypes.c_void_p(9), 0)
        compiled(x)
        library.cuStreamEndCapture(ctypes.c_void_p(9), ctypes.byref(graph))
    assert "end capture nodes 1" in here.driver.log()
    library.cuGraphDestroy(graph)


def test_memory_is_private_and_is_given_back(here):
    """A graph's memory is private, and is freed with the graph."""
    before = here.driver.allocated()
    x, w = torch.randn(8, 32, device="cuda"), torch.randn(32, 16, device="cuda")
    inputs = here.driver.allocated() - before
    compiled = nbcompile.compile(mixed, mode=MODE)
    for _ in range(3):
        compiled(x, w)
    assert here.driver.allocated() - before > inputs
    found = compiled(x, w)
    kept = [each.clone() for each in found]
    del compiled
    nbcompile.reset()
    gc.collect()
    torch.randn(64, 64, device="cuda")
    same(found, kept)
    del found, kept
    assert here.driver.allocated() - before == inputs


def test_on_the_cpu_the_mode_does_nothing_and_does_not_warn(here):
    """On the CPU the mode has no effect and no warning, as in torch."""
    x = torch.randn(8, 32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert notes_of(lambda x: torch.sin(x) + 1, (x,), (x,)) == []


def test_a_function_that_was_compiled_in_another_mode_is_compiled_again(here):
    """Each mode has separate cache entries, as in torch."""

    def function(x):
        return torch.sin(x) + 1

    x = torch.randn(8, 32, device="cuda")
    for mode, replays in ((None, 0), (MODE, 2), ("default", 0)):
        compiled = nbcompile.compile(function, mode=mode)
        here.driver.clear_log()
        for _ in range(3):
            compiled(x)
        assert len(lines(here, "replay")) == replays


def test_torchs_option_is_known(here):
    """``options={"triton.cudagraphs": True}`` selects the mode."""
    x = torch.randn(8, 32, device="cuda")
    compiled = nbcompile.compile(lambda x: torch.sin(x) + 1, options={"triton.cudagraphs": True})
    for _ in range(3):
        compiled(x)
    assert lines(here, "replay")


def test_a_wrong_address_would_be_found(here):
    """A replay has the addresses of its capture: freed memory is an illegal access in the simulator."""
    from nbcompile.runtime import gpu_launcher, toolchain

    module = gpu_launcher.open_launcher(toolchain.find()).module
    x = torch.randn(8, 32, device="cuda")
    compiled = nbcompile.compile(lambda x: torch.sin(x) + 1)
    compiled(x)
    pool = module.make_pool(0)
    module.begin_capture(pool)
    result = compiled(x)
    executable = module.end_capture(True)
    graph = module.make_recording(pool, executable, [x], [x], 1, result)
    address = [x]
    del x, result
    assert isinstance(graph.run(address, 1 << 40, None), torch.Tensor)
    graph_of_gone = here.driver.library
    import ctypes

    address.clear()
    gc.collect()
    assert graph_of_gone.cuGraphLaunch(ctypes.c_void_p(executable), None) == 700
    assert "outside" in here.executor.reasons[0] or here.executor.reasons
    here.executor.reasons.clear()
    here.driver.recover()


def test_a_long_sequence_of_programs_is_eagers(here):
    """Sizes, live results, moving inputs and gradients in one random sequence give eager's results."""
    torch.manual_seed(11)
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 3)).to("cuda")
    compiled = nbcompile.compile(model, mode=MODE)
    kept = []
    for call in range(14):
        x = torch.randn((2, 5, 2, 7)[call % 4], 12, device="cuda")
        torch.manual_seed(call)
        found = compiled(x)
        torch.manual_seed(call)
        expected = model(x)
        if call % 3:
            grads = [torch.autograd.grad(each.sum(), list(model.parameters())) for each in (found, expected)]
            same(*grads)
        kept.append((found, expected))
        if call % 5 == 4:
            kept.pop(0)
    for found, expected in kept:
        same(found, expected)


def sampled(x, w):
    y = torch.softmax(x @ w, -1).sum(0).softmax(-1)
    drawn = torch.multinomial(y + 0.1, 3)
    z = torch.softmax(y * 2, -1) @ w
    return z.sum(), (drawn + 1).sin().softmax(-1), y, torch.nn.functional.dropout(y, 0.5)


def with_the_cpu(x, w):
    y = torch.softmax(x @ w, -1)
    on_cpu = y.cpu() + 1
    z = torch.softmax(y.t() @ x, -1)
    return (z @ w).exp(), on_cpu


def with_a_tag(x, w):
    y = waits(torch.softmax(x @ w, -1))
    y.mul_(2)
    return torch.softmax(y.t() @ x, -1), y, x[2:]


DIVIDED = {
    sampled: "incompatible op aten.multinomial",
    with_the_cpu: "cpu device",
    with_a_tag: "incompatible op nbcompile_tests",
}


@pytest.mark.parametrize("function", DIVIDED)
def test_what_is_beside_an_operator_that_cannot_be_recorded_is(here, function):
    """The parts around the operator are replayed; the record has the reason; results and random numbers are eager's."""
    w = torch.randn(32, 32, device="cuda")
    calls = [(torch.randn(8, 32, device="cuda"), w) for _ in range(5)]
    notes = notes_of(function, *calls)
    assert any(note.startswith(f"skipping cudagraphs due to {DIVIDED[function]}") for note in notes), notes
    assert "divided for CUDA graphs: 2 of 3 parts are recorded, the others launched" in notes
    here.driver.clear_log()
    # An input that is not copied and has moved may be recorded again, depending on the allocator.
    assert len([note for note in notes if note.startswith("recorded a CUDA graph")]) >= 2, notes


def test_a_divided_graph_is_replayed_in_its_parts(here):
    """A call has two replays, and the results of an earlier call do not change."""
    w = torch.randn(32, 32, device="cuda")
    compiled = nbcompile.compile(with_the_cpu, mode=MODE)
    kept = []
    for call in range(5):
        x = torch.randn(8, 32, device="cuda")
        here.driver.clear_log()
        kept.append((compiled(x, w), with_the_cpu(x, w)))
        assert len(lines(here, "replay")) == (2 if call else 0)
    for found, expected in kept:
        same(list(found), list(expected))


def test_a_profiler_sees_a_divided_graph(here):
    """If the C launcher leaves a graph to Python, each part runs its own text."""
    w = torch.randn(32, 32, device="cuda")
    compiled = nbcompile.compile(sampled, mode=MODE)
    for call in range(4):
        x = torch.randn(8, 32, device="cuda")
        torch.manual_seed(call)
        with torch.profiler.profile() if call != 1 else contextlib.nullcontext():
            found = compiled(x, w)
        torch.manual_seed(call)
        same(list(found), list(sampled(x, w)))


def test_the_mark_of_a_step_is_not_needed(here):
    """Results do not change with or without ``cudagraph_mark_step_begin``."""
    compiled = nbcompile.compile(mixed, mode=MODE)
    w = torch.randn(32, 16, device="cuda")
    kept = []
    for call in range(6):
        if call % 2:
            torch.compiler.cudagraph_mark_step_begin()
        x = torch.randn(8, 32, device="cuda")
        kept.append((compiled(x, w), mixed(x, w)))
    for found, expected in kept:
        same(list(found), list(expected))


def literals(x):
    x = x.clone()
    x[:, 1] = 3
    x[0] = -0.5
    return x * 2


def literal_that_is_returned(x):
    three = torch.tensor(3.0)
    x = x.clone()
    x[:, 1] = three
    return x * 2, three


def literal_for_an_operator(x):
    x = x.clone()
    x[torch.tensor([1, 2], device=x.device)] = 7
    return x * 2


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_literal_within_kernels_is_no_obstacle(here, dynamic):
    """The 3 of ``x[:, 1] = 3`` is a constant of the kernel, so the graph is recorded and replayed."""
    compiled = nbcompile.compile(literals, mode=MODE, dynamic=dynamic)
    for call in range(5):
        given = torch.randn(6, 4, device="cuda")
        here.driver.clear_log()
        found = compiled(given)
        same(found, literals(given))
        assert len(lines(here, "begin capture")) == (call == 1)
        assert bool(lines(here, "replay")) == (call > 0)
        del found


def test_a_literal_that_an_operator_reads_is_an_obstacle(here):
    """ATen's index_put reads the 7 from CPU memory, so the graph is not recorded."""
    inputs = [(torch.randn(6, 4, device="cuda"),) for _ in range(4)]
    assert any("cpu device (" in note for note in notes_of(literal_for_an_operator, *inputs))
    assert lines(here, "replay") == []


def test_a_literal_that_is_returned_is_an_obstacle(here):
    """A returned literal is a new CPU tensor at each call, so the graph is not recorded."""
    x = torch.randn(6, 4, device="cuda")
    assert any("cpu device (" in note for note in notes_of(literal_that_is_returned, (x,)))
    assert lines(here, "replay") == []
    compiled = nbcompile.compile(literal_that_is_returned, mode=MODE)
    kept = [compiled(x)[1] for _ in range(3)]
    kept[0].zero_()
    assert [three.item() for three in kept] == [0.0, 3.0, 3.0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, s: x.masked_fill(x > 0, s) * 2,
        lambda x, s: x.clone().masked_fill_(x > 0, s) + x,
        lambda x, s: torch.where(x > 0, s, x),
        lambda x, s: torch.sin(x) + s,
    ],
    ids=["masked_fill", "masked_fill_", "where", "add"],
)
def test_a_number_in_memory_of_the_cpu_is_an_obstacle(here, function):
    """A replay would use the first call's number from CPU memory; a number on the device is copied, and recorded."""
    x = torch.randn(6, 4, device="cuda")
    numbers = [torch.tensor(float(number)) for number in range(4)]
    assert any("cpu device (" in note for note in notes_of(function, *((x, number) for number in numbers)))
    assert lines(here, "begin capture", "replay") == []
    nbcompile.reset()
    notes_of(function, *((x, number.to("cuda")) for number in numbers))
    assert len(lines(here, "begin capture")) == 1
    assert len(lines(here, "replay")) == 3


def test_inputs_that_are_no_multiples_of_16_are_recorded(here):
    """The recorded launches use the copies of inputs, which are aligned, whatever the inputs' alignment is."""
    base = torch.randn(9, 33, device="cuda")
    views = [base[1:, 1:], base[:8, :32], base[1:, :32], base[:8, 1:]]

    def function(x):
        return torch.softmax(x, -1), x[:, 1:].sum(0), torch.relu(x @ x.t()) + 1

    notes_of(function, *((view,) for view in views * 2))
    assert lines(here, "replay") != []
    here.driver.clear_log()
    notes_of(lambda x: torch.sin(x) * 3, *((base.view(-1)[at : at + 64],) for at in (1, 0, 1, 4, 3, 0)))
    assert len(lines(here, "replay")) == 5


def test_a_view_that_is_no_multiple_of_16_is_the_next_graphs_input(here):
    """A result of a recorded graph may be an unaligned view, and may be mutated."""
    first = nbcompile.compile(lambda x: (x * 2)[1:], mode=MODE)
    second = nbcompile.compile(lambda x: torch.sin(x) * 3 + 1, mode=MODE)
    for _ in range(5):
        x = torch.randn(64, device="cuda")
        same(second(first(x)), torch.sin((x * 2)[1:]) * 3 + 1)
    assert lines(here, "replay") != []

    def written(x):
        return x.add_(1).sum()

    compiled = nbcompile.compile(written, mode=MODE)
    mine = torch.randn(65, device="cuda")
    theirs = mine.clone()
    for at in (1, 0, 1, 1, 0, 0):
        same(compiled(mine[at : at + 64]), written(theirs[at : at + 64]))
        same(mine, theirs)
