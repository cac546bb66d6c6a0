"""Recorders and drafts of frames."""

from __future__ import annotations

import threading

import pytest

from nbcompile.record import model, recorder


def test_without_a_listener_nothing_is_drafted():
    """Without a recorder there is no draft, and a stage can be entered all the same."""
    with recorder.frame("0/0", "f") as draft, recorder.stage("tracing"):
        assert draft is None and recorder.draft() is None
    assert not recorder.listening()


def test_a_frame_is_recorded_with_its_stages():
    """A nested stage has its parent; the frame has the fields of its draft."""
    frame_recorder = recorder.Recorder("f")
    with frame_recorder.listening(), recorder.frame("0/0", "f") as draft:
        with recorder.stage("backend"), recorder.stage("lowering"):
            assert frame_recorder.active.stage == "lowering"
        draft.write(status="compiled", cause="resumed")
        draft.add_to_graph("notes", "one")
        draft.add_to_graph("notes", "two")
    (frame,) = frame_recorder.record().frames
    assert (frame.id, frame.status, frame.cause, frame.compiled_graph.notes) == (
        "0/0",
        "compiled",
        "resumed",
        ("one", "two"),
    )
    assert [(each.stage, each.inside) for each in frame_recorder.record().timings] == [
        ("lowering", "backend"),
        ("backend", ""),
    ]
    assert frame_recorder.active is None


def test_every_recorder_gets_the_frame():
    """Nested recorders in one context all get the frame."""
    outer, inner = recorder.Recorder("f"), recorder.Recorder("g")
    with outer.listening(), inner.listening(), recorder.frame("0/0", "f"):
        pass
    assert len(outer.frames) == len(inner.frames) == 1


def _frames_of_threads(frame_recorder, **how):
    """Frames of a thread that runs before the block, and of one that starts in it."""
    old_may_go, old_is_done = threading.Event(), threading.Event()

    def old():
        old_may_go.wait(10)
        compile_one("old")
        old_is_done.set()

    def compile_one(name):
        recorder.note_call(model.Call("0", ""))
        with recorder.frame("0/0", name):
            pass

    thread = threading.Thread(target=old)
    thread.start()
    with frame_recorder.listening(**how):
        new = threading.Thread(target=compile_one, args=("new",))
        new.start()
        new.join()
        old_may_go.set()
        old_is_done.wait(10)
    thread.join()
    after = threading.Thread(target=compile_one, args=("after",))
    after.start()
    after.join()
    assert sum(call.times for call in frame_recorder.calls) == len(frame_recorder.frames)
    return [frame.function for frame in frame_recorder.frames]


def test_other_threads_may_be_recorded():
    """Threads that start in the block belong to it if asked, and so do older ones; a later one does not."""
    assert _frames_of_threads(recorder.Recorder("f"), threads="new") == ["new"]
    assert _frames_of_threads(recorder.Recorder("f"), threads="all") == ["new", "old"]
    assert _frames_of_threads(recorder.Recorder("f")) == []


def test_a_compilation_that_raises_is_recorded():
    """The frame has the error's type as reason, unless the draft has one; Ctrl-C is no error."""
    frame_recorder = recorder.Recorder("f")
    with frame_recorder.listening():
        for error in (ValueError, KeyboardInterrupt):
            with pytest.raises(error), recorder.frame("0/0", "f"), recorder.stage("tracing"):
                raise error
    raised, interrupted = frame_recorder.frames
    assert (raised.status, raised.instead, raised.skip_reason) == ("failed", model.RAISED, "ValueError")
    assert interrupted.instead == model.INTERRUPTED and "interrupted in tracing" in interrupted.skip_reason


def test_a_frame_may_be_written_again():
    """A background thread's later frame replaces the earlier one at the same index."""
    frame_recorder = recorder.Recorder("f")
    with frame_recorder.listening(), recorder.frame("0/0", "f") as draft:
        pass
    draft.write(status="compiled")
    draft.rewrite()
    assert [each.status for each in frame_recorder.frames] == ["compiled"]


def test_a_field_that_the_model_does_not_have_is_a_mistake():
    """An unknown field of the draft raises an error when the frame is finished."""
    draft = recorder.FrameDraft("0/0", "f")
    draft.write(colour="red")
    with pytest.raises(AssertionError, match="colour"):
        draft.frame()


def test_hits_in_a_row_are_one_entry():
    """Consecutive hits are one entry; a compile, or a hit of another entry, begins a new one."""
    frame_recorder = recorder.Recorder("f")
    hit, other = model.Call("f", "0/0"), model.Call("f", "0/1")
    for call in (hit, hit, other, hit):
        frame_recorder.note_call(call)
    assert [(each.entry, each.times) for each in frame_recorder.calls] == [("0/0", 2), ("0/1", 1), ("0/0", 1)]
