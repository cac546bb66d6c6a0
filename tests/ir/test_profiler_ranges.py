"""Names of kernels in a profile."""

from __future__ import annotations

import contextvars

import pytest
import torch

from nbcompile.ir.profiler_ranges import OWN, FrameOrigin, ProfilerRange, current_origin, of_frame, stage_range
from nbcompile.record.profile import COMPILE

RANGE = ProfilerRange("inference.kernel0", "add, sin", ((OWN, 2), (OWN, 5), ("/lib/other.py", 7)))


def test_a_label_says_where_the_program_is_now():
    """A label contains the line in the program; files are named without folders."""
    origin = FrameOrigin("/home/me/model.py", 10, "0/0")
    assert RANGE.label(origin) == "0/0.inference.kernel0 add, sin (model.py:12,15; other.py:7)"
    assert RANGE.label(FrameOrigin("/home/me/model.py", 20)).startswith("inference.kernel0 add, sin (model.py:22,25")
    assert ProfilerRange("k", "add").label(origin) == "0/0.k add"


def test_a_frame_is_current_while_it_is_compiled():
    """A frame is current while it is compiled: frames nest, an exception ends one, and other contexts do not see it."""
    assert current_origin() == FrameOrigin()
    outside = contextvars.copy_context()
    with (
        pytest.raises(ZeroDivisionError),
        of_frame(test_a_frame_is_current_while_it_is_compiled.__code__, "0/0") as outer,
    ):
        assert current_origin() is outer and outer.file == __file__
        with of_frame(RANGE.label.__func__.__code__) as inner:
            assert current_origin() is inner
        assert current_origin() is outer and outside.run(current_origin) == FrameOrigin()
        raise ZeroDivisionError
    assert current_origin() == FrameOrigin()


def test_a_stage_is_seen_by_a_profiler_alone():
    """Without a profiler a stage records nothing."""
    with stage_range("lowering") as nothing:
        assert nothing is None
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile, stage_range("lowering"):
        torch.ones(2)
    assert COMPILE + "lowering" in [event.key for event in profile.key_averages()]
