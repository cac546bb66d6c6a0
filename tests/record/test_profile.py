"""Measured times as data."""

from __future__ import annotations

import json

from nbcompile.record.profile import COMPILE, FRAME, KernelTime, Machine, Place, Profile

MACHINE = Machine(bytes_per_second=1e9, flops_per_second=1e10, threads=2)


def kernel(**numbers):
    return KernelTime("0/0.kernel0", "add", (Place("f.py", 3),), 1, **{"microseconds": 10.0, "bytes": 0, **numbers})


def test_the_roofline_is_what_limits():
    """The least time is that of memory or of arithmetic, whichever is longer."""
    assert kernel(bytes=5_000).least_microseconds(MACHINE) == 5.0
    assert kernel(bytes=5_000, flops=80_000).least_microseconds(MACHINE) == 8.0
    assert kernel(bytes=5_000, flops=80_000).roofline(MACHINE) == 0.8


def test_a_kernel_that_took_no_time_has_no_roofline():
    """A kernel with a time of 0 has no roofline, because the clock may not resolve it."""
    assert kernel(microseconds=0.0).roofline(MACHINE) == 0.0


def test_json_has_every_field():
    """The JSON has the kernels with their locations, and the machine."""
    profile = Profile("f", 2, 30.0, 0.0, (kernel(), kernel()), (), MACHINE)
    assert profile.kernel_microseconds == 20.0
    plain = json.loads(profile.to_json())
    assert plain["kernels"][0]["places"] == [{"file": "f.py", "line": 3}] and plain["machine"]["threads"] == 2


def test_ranges_of_stages_are_distinguished_from_those_of_frames():
    """A frame's range has its compile id, and a stage's range has none."""
    assert COMPILE.startswith(FRAME) and not (FRAME + "0/0").startswith(COMPILE)
