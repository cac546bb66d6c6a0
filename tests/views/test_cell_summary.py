"""The summary in sentences: what was compiled and how it runs, the breaks, and the recompiles."""

from __future__ import annotations

import contextlib
import dataclasses
import io

import pytest
import torch

import nbcompile
from nbcompile import api, config
from nbcompile.fast.disk_cache import storage, writer
from nbcompile.record import links, model
from nbcompile.views import cell_summary, facts, html, text
from tests.views import sample_records as sample


def told(record):
    return [each.text for each in cell_summary.of(record)]


def test_a_break_is_shown_at_the_users_line():
    """A break is reported at the line of the outermost function; a nested one at the call."""
    assert any("`f` stops at line 3, which runs eagerly" in each for each in told(sample.save_break()))
    assert any("in whose call `inner1` breaks" in each for each in told(sample.nested()))


def broken_twice(x):
    return len(str(x.sum().item())) + (torch._dynamo.graph_break() or x + 1)


def test_two_breaks_in_one_line_name_two_functions():
    """Both resume functions have torch's name for the line; the frame ids distinguish them."""
    nbcompile.reset()
    function, frame_recorder = nbcompile.compile(broken_twice, backend="eager"), api.new_recorder("broken_twice")
    with frame_recorder.listening():
        function(torch.ones(3))
    line = broken_twice.__code__.co_firstlineno + 1
    name = f"`torch_dynamo_resume_in_broken_twice_at_{line}`"
    first, second = (each for each in told(frame_recorder.record()) if "The rest of it is" in each)
    assert first.startswith(f"`broken_twice` stops at line {line}")
    assert first.endswith(f"The rest of it is {name} (frame 1/0).")
    assert second.startswith(f"{name} (frame 1/0) stops at line {line}")
    assert second.endswith(f"The rest of it is {name} (frame 2/0).")


def tripled(x, k):
    return x * 3 + k


def test_a_recompilation_is_shown_with_both_values():
    """The sentence has the entry whose guard failed, its expected value, and the actual one."""
    nbcompile.reset()
    function, frame_recorder = nbcompile.compile(tripled, backend="eager"), api.new_recorder("tripled")
    with frame_recorder.listening():
        function(torch.ones(3), 1)
        function(torch.ones(4), 1)
    wanted = (
        "`tripled` was compiled again, because a guard of `0/0` failed (expected `3`, got `4`): "
        "size of tensor 'x', dimension `0`."
    )
    assert wanted in told(frame_recorder.record())


def test_a_backward_pass_is_part_of_the_work():
    """The number of operators in the sentence includes autograd's."""
    frame = sample.simple().frames[0]
    graphs = tuple(dataclasses.replace(each, stage="backward") for each in frame.compiled_graph.graphs)
    learnt = dataclasses.replace(frame, compiled_graph=dataclasses.replace(frame.compiled_graph, graphs=graphs))
    record = dataclasses.replace(sample.simple(), frames=(learnt,))
    assert "5 operators and what autograd needs of them run as 1 generated kernel." in told(record)
    assert "5 operators run as 1 generated kernel." in told(sample.simple())


def test_a_graph_without_kernels_says_why():
    """If a graph has a data-dependent size, the summary says that it runs through ATen."""
    with config.patch(capture_dynamic_output_shape_ops=True):
        chosen = nbcompile.explain(lambda x: x[x > 0] * 2)(torch.tensor([1.0, -3.0]))
    [sentence] = [each for each in told(chosen.record) if each.startswith("No kernel was generated for `<lambda>`: ")]
    assert sentence.endswith("depends on data: the graph runs through ATen.")
    assert not any("No kernel" in each for each in told(sample.simple()))


@pytest.mark.parametrize(
    ("cause", "stored"),
    [(model.LOADED, "another process stored it"), (model.LOADED_FROM_CACHE, "this process stored it before")],
)
def test_what_was_loaded_is_no_compile(cause, stored):
    """A loaded entry says which process stored it, also if a guard of an older entry failed."""
    record = sample.recompiled()
    one, *more = record.frames
    loaded = [dataclasses.replace(each, cause=cause) for each in (one, *more)]
    whole = told(dataclasses.replace(record, frames=loaded))
    assert f"All of it was loaded from the compile cache, where {stored}: nothing was compiled now." in whole
    assert any("was loaded for other values" in each for each in whole)
    assert not any("compiled again" in each for each in whole)
    partly = told(dataclasses.replace(record, frames=[one, *loaded[1:]]))
    assert f"Loaded from the compile cache, where {stored}: `{more[0].function}`." in partly
    assert not any("compile cache" in each for each in told(record))


def test_a_skipped_frame_is_shown_with_its_reason():
    """A frame that was not compiled ran as plain Python, with the reason."""
    assert any("ran eagerly as a whole: " in each for each in told(sample.skipped()))


def test_repeated_events_are_shown_a_few_times():
    """A record with many recompilations has one sentence for each cause."""
    record = sample.recompiled()
    many = dataclasses.replace(record, frames=record.frames[:1] + record.frames[1:] * 10)
    assert sum("compiled again" in each for each in told(many)) == 2, "a size and a number differed"
    assert "Further values of it led to further recompilations." in told(many)
    assert "Further values of it led to further recompilations." not in told(record)
    others = [
        dataclasses.replace(
            each, failed_guards=[dataclasses.replace(each.failed_guards[0], source=f"L['x{index}']", reason="")]
        )
        for index, each in enumerate(record.frames[1:2] * (cell_summary.FEW + 1))
    ]
    various = told(dataclasses.replace(record, frames=(record.frames[0], *others)))
    assert sum("compiled again" in each for each in various) == cell_summary.FEW
    assert "Other causes led to recompilations, too." in various


def test_the_text_says_the_same():
    """The text has the same sentences without backticks."""
    shown = " ".join(text.render(sample.save_break(), "summary").split())
    assert all(each.replace("`", "") in shown for each in told(sample.save_break()))


# --- sentences that are false in other situations -----------------------------------------------------------------


def sine(x):
    return x.sin() + 1


def empty(x):
    return [x]


def loop(x):
    y = x.cos()
    for _ in range(2):
        y = y * 2
        torch._dynamo.graph_break()
    return y


def raising(x):
    y = x.cos()
    raise ValueError("of the user's")


def keyed(x, key):
    return x + len(key)


def failing(graph, inputs):
    raise ZeroDivisionError("in a backend")


def interrupting(graph, inputs):
    raise KeyboardInterrupt


def ran(function, *calls, backend="eager", settings=None, **options):
    """The record of some calls, whatever they raise."""
    nbcompile.reset()
    compiled, frame_recorder = (
        nbcompile.compile(function, backend=backend, **options),
        api.new_recorder(function.__name__),
    )
    with frame_recorder.listening(), config.patch(settings or {}):
        for call in calls:
            with contextlib.suppress(Exception, KeyboardInterrupt):
                compiled(*call)
    return frame_recorder.record()


def loaded(monkeypatch, *, forgets):
    with config.patch(warm_start=True):
        ran(sine, (ONES,), backend="inductor")
        writer.flush()
        if forgets:  # the process that stored it: another one
            monkeypatch.setattr(storage, "_written", set())
        return ran(sine, (ONES,), backend="inductor")


ONES = torch.ones(3)
SITUATIONS = {
    "compiled": (lambda _: ran(sine, (ONES,)), "The whole function is one frame and one graph."),
    "ran eagerly": (lambda _: ran(empty, (ONES,)), "`empty` ran eagerly as a whole: no ops traced."),
    "skipped after tracing": (lambda _: ran(loop, (ONES,)), "`loop` ran eagerly as a whole: graph break in loop"),
    "fullgraph": (
        lambda _: ran(loop, (ONES,), fullgraph=True),
        "No frame was compiled: compiling `loop` ended in an error, so that it did not run.",
    ),
    "interrupted": (
        lambda _: ran(sine, (ONES,), backend=interrupting),
        "`sine` did not run: compilation was interrupted in backend: nothing of it is kept",
    ),
    "same process": (lambda patch: loaded(patch, forgets=False), "where this process stored it before"),
    "other process": (lambda patch: loaded(patch, forgets=True), "where another process stored it"),
    "suppressed": (
        lambda _: ran(sine, (ONES,), backend=failing, settings={"suppress_errors": True}),
        "`sine` ran eagerly as a whole: BackendCompilerFailed",
    ),
    "not suppressed": (
        lambda _: ran(sine, (ONES,), backend=failing),
        "`sine` did not run: BackendCompilerFailed",
    ),
    "limit": (
        lambda _: ran(keyed, *((ONES, key) for key in "abc"), settings={"recompile_limit": 2}),
        "`keyed` ran eagerly as a whole: recompile_limit (2) reached.",
    ),
    "limit, no eager": (
        lambda _: ran(keyed, *((ONES, key) for key in "abc"), settings={"recompile_limit": 2}, fullgraph=True),
        "`keyed` did not run: recompile_limit (2) reached.",
    ),
    "nothing called": (lambda _: ran(sine), "Nothing was compiled: no compiled function was called."),
}


@pytest.fixture
def records(monkeypatch, tmp_path):
    """The record of each situation."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    with pytest.warns(UserWarning):  # the recompile limit, and the suppressed error
        return {name: make(monkeypatch) for name, (make, _) in SITUATIONS.items()}


@pytest.mark.compiles
def test_each_situation_has_a_sentence_that_is_false_in_the_others(records):
    """The sentence of each situation appears in its record, and in no other one."""
    for name, (_, sentence) in SITUATIONS.items():
        if config.reference and name.endswith("process"):
            continue  # nothing is loaded there
        said = {situation for situation, record in records.items() if any(sentence in each for each in told(record))}
        also = {"same process", "other process"} if name == "compiled" else set()
        assert said == {name, *also}, (sentence, {each: told(records[each]) for each in said | {name}})


def test_nothing_ran_where_nothing_ran(records):
    """After an error or an interrupt, no text says that plain Python ran."""
    for name in ("fullgraph", "interrupted", "not suppressed"):
        shown = text.render(records[name])
        for claim in ("plain Python", "eagerly", "falling back"):
            assert claim not in shown, (name, claim)
    assert "did not run" not in text.render(records["suppressed"])


def test_an_attempt_that_came_to_nothing_is_no_recompilation(records):
    """With three keys and a limit of two, there is one recompilation, and one skipped call."""
    numbers = {tile.noun: tile.number for tile in facts.tiles(records["limit"])}
    assert (numbers["recompile"], numbers["skipped frame"]) == (1, 1)
    shown = " ".join(text.render(records["limit"], "recompilations").split())
    assert "keyed was not compiled, though a guard of each entry failed: it ran eagerly" in shown


# --- what a whole training step says ------------------------------------------------------------------------------


def training_step(model, optimiser, x):
    optimiser.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimiser.step()
    return loss


def forward_only(model, optimiser, x):
    return model(x).square().mean()


def recorded(function):
    nbcompile.reset()
    model = torch.nn.Linear(3, 2)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    frame_recorder = api.new_recorder(function.__name__)
    with frame_recorder.listening():
        nbcompile.compile(function, backend="eager")(model, optimiser, torch.ones(4, 3))
    return frame_recorder.record()


def test_a_training_step_is_said_to_be_one():
    """The summary says what to compile and what to leave outside; eager library functions have no sentence."""
    record = recorded(training_step)
    said = [each for each in told(record) if "whole training step" in each]
    assert len(said) == 1
    assert said[0].startswith("Breaks at `zero_grad`, `backward`, `step`: ")
    assert not any(each.startswith(("`cast` ", "`wrapper` ")) for each in told(record))
    assert not any("training step" in each for each in told(recorded(forward_only)))


def test_a_decorated_function_is_said_to_be_where_it_was_written():
    """`zero_grad` is reported in the optimiser's file, not in that of torch's decorator."""
    (found, *_) = links.distinct_breaks(recorded(training_step))
    assert "torch/optim/optimizer.py" in found.cause.explanation
    assert "_compile.py" not in found.cause.explanation


def test_frames_of_libraries_are_one_fold():
    """Library frames are one fold, named by file, below the user's."""
    page = html.render(recorded(training_step), limit=None, assets=False)
    before, fold, inside = page.partition("of library functions")
    assert fold
    assert "torch/optim/optimizer.py" in inside
    assert "torch/optim/optimizer.py</small>" not in before
    assert "of library functions" not in html.render(sample.nested(), assets=False)


def test_listings_of_folded_sections_are_not_highlighted():
    """A folded section is not highlighted; one that is requested is."""
    assert "<span class=k>" not in html.render(sample.simple(), assets=False).partition("data-s=kernels")[2]
    assert "<span class=k>" in html.render(sample.simple(), "kernels", assets=False)


def test_functions_that_libraries_generate_are_not_shown():
    """The lambda that prints a tensor has no source and no operators: it is in the record, not in the summary."""

    def prints(x):
        for _ in range(2):
            x = x * 2
            print(x, end="", file=io.StringIO())
        return x

    made = {}
    exec(compile("helper = lambda x: None", "<string>", "exec"), made)

    def calls(x):
        for _ in range(2):
            x = x * 2
            print(end="")
            made["helper"](x)
        return x

    for function in (prints, calls):
        record = ran(function, (ONES,))
        assert record.frames[0].function == function.__name__
        sentences = " ".join(told(record))
        assert "lambda" not in sentences
        assert f"`{function.__name__}` ran eagerly." in sentences


def calls_a_shape(x):
    y = x + 1
    return y[x.shape()]


def saves_nowhere(x):
    y = x + 1
    torch.save(y, "/nowhere/at/all")
    return y


def saves_and_raises(x):
    torch.save(x + 1, io.BytesIO())
    raise ValueError("later")


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (calls_a_shape, "it calls `x.shape`, which raises `TypeError`."),
        (saves_nowhere, "it calls `torch.save`, which raises `RuntimeError`."),
        (saves_and_raises, "it calls `torch.save`, which is not traced."),
    ],
)
def test_a_breaking_call_that_raises(function, sentence):
    """A call of an object that is no function is not "not traced"; an exception elsewhere is not the call's."""
    nbcompile.reset()
    sentences = told(nbcompile.explain(function)(torch.ones(3)).record)
    assert sentences[0].startswith(f"`{function.__name__}` raises")
    assert any(sentence in each for each in sentences), sentences


def test_an_exception_outside_of_functions_names_no_function():
    """Code of a module is not called by its internal name."""
    place = model.StackLine("cell", 5, "<module>", "later(x)")
    record = model.Record("r", raised=model.Raised("NameError", "name 'later' is not defined", (place,)))
    assert told(record)[0] == "Code outside of functions raises `NameError` at line 5: `name 'later' is not defined`"


@pytest.mark.compiles
def test_a_changed_state_of_the_process_is_a_whole_sentence():
    """A reason of torch that ends with a space becomes a whole sentence."""

    def f(x):
        nbcompile.compile(g)(x)
        with torch.no_grad():
            return nbcompile.compile(g)(x)

    def g(x):
        return x + 1

    frame_recorder = api.new_recorder("g")
    with frame_recorder.listening():
        f(torch.ones(3))
    (said,) = [each for each in told(frame_recorder.record()) if "compiled again" in each]
    assert said.endswith("failed: GLOBAL_STATE changed: grad_mode.")


def test_a_function_that_is_called_often_is_listed_once():
    """A function that is traced twelve times, once per layer, is listed once."""

    def f(x):
        return twice(twice(twice(x)))

    (frame,) = nbcompile.explain(f)(torch.ones(3)).record.frames
    assert len(frame.inlined) == 3
    (said,) = facts.inlined(frame)
    assert said.startswith("twice (") and said.endswith(" (3 times)")


def twice(x):
    return x * 2
