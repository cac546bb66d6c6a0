"""Tracing a function to ATen and checking that its program, and its schedule, compute what eager computes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.proxy_tensor import make_fx

from nbcompile.ir import evaluate, kernel, verify
from nbcompile.ir.buffer import Extern, Program
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule
from tests.support import targets


def traced(function: Callable[..., Any], *inputs: Any, decomposed: bool = False, dynamic: bool = False) -> Any:
    """The ATen graph of a function, as AOTAutograd would pass it on."""
    table = core_aten_decompositions() if decomposed else {}
    mode = "symbolic" if dynamic else "fake"

    def returning_flat(*args: Any) -> list[Any]:
        return flat(function(*args))

    return make_fx(torch.func.functionalize(returning_flat), decomposition_table=table, tracing_mode=mode)(*inputs)


def programs(function: Callable[..., Any], *inputs: Any, **how: Any) -> tuple[Program, kernel.Schedule]:
    """The lowered program and its schedule, both verified."""
    program = lower(traced(function, *inputs, **how))
    verify.verify_program(program)
    plan = schedule(program, verify.verify_program)
    verify.verify_schedule(plan)
    return program, plan


def externs(program: Program) -> list[str]:
    """The operators that run through ATen."""
    return [str(each.target) for each in program.buffers if isinstance(each, Extern)]


def check(
    function: Callable[..., Any], *inputs: Any, allow_extern: bool = False, exact_strides: bool = True,
    signs_of_zeros: bool = True, other_inputs: tuple[Any, ...] | None = None, cpp: bool = True, triton: bool = True,
    must_be_triton: bool = False, **how: Any,
) -> tuple[Program, kernel.Schedule]:  # fmt: skip
    """Program, schedule, generated C++ and (in its interpreter) Triton give eager's values, dtypes and strides.

    ``signs_of_zeros=False`` is for results whose zeros have no defined sign; a caller says why.
    """
    graph = traced(function, *inputs, **how)
    program = lower(graph)
    verify.verify_program(program)
    plan = schedule(program, verify.verify_program)
    verify.verify_schedule(plan)
    if not allow_extern:
        assert externs(program) == [], [each.reason for each in program.buffers if isinstance(each, Extern)]
    inputs = inputs if other_inputs is None else other_inputs
    expected = flat(function(*copy.deepcopy(inputs)))
    for stage in (program, plan):
        require_equal(evaluate.run(stage, copy.deepcopy(inputs), graph), expected, exact_strides, signs_of_zeros)
    if cpp:
        require_equal(targets.run_cpp(plan, copy.deepcopy(inputs), graph), expected, exact_strides, signs_of_zeros)
    if triton and targets.HAS_TRITON:
        try:
            require_equal(targets.run_triton(plan, copy.deepcopy(inputs)), expected, exact_strides, signs_of_zeros)
        except targets.Rejected as reason:
            assert not must_be_triton, reason
    return program, plan


def require_equal(
    found: Sequence[Any], expected: Sequence[Any], exact_strides: bool = True, signs_of_zeros: bool = True
) -> None:
    """Assert equal values up to rounding, and equal dtypes, shapes, strides and signs of zeros."""
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        if not isinstance(theirs, torch.Tensor):
            assert mine == theirs
            continue
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if theirs.dtype in (torch.bfloat16, torch.float16) else {}
        torch.testing.assert_close(mine, theirs, equal_nan=True, **tolerance)
        if signs_of_zeros and theirs.is_floating_point():
            zeros = (mine == 0) & (theirs == 0)
            assert torch.equal(mine.signbit() & zeros, theirs.signbit() & zeros), "zeros of other signs"
        if exact_strides and theirs.numel():
            sized = [at for at, n in enumerate(theirs.shape) if n > 1]
            assert [mine.stride(at) for at in sized] == [theirs.stride(at) for at in sized]


def flat(value: Any) -> list[Any]:
    """Nested results as a list."""
    if isinstance(value, (tuple, list)):
        return [part for each in value for part in flat(each)]
    return [value]
