"""Oracle: run a program eagerly and compiled, and compare.

    examine(program)    Verdict(eager_error="", difference=None)         as in eager
                        Verdict(eager_error="NameError: ...")            an error in eager mode itself
                        Verdict(difference=Difference("bits", ...))  a finding

Where last digits may differ, a distance is a bug only if it is larger than the effect of rounding errors in this
program: eager plays it again with an error of one unit in the last place after each inexact operator (Jitter).

In torch: torch/_dynamo/debug_utils.py (same_two_models, against float64). Read next:
nbcompile/tools/fuzz/reduction.py
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import sys
import traceback
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import nbcompile
from nbcompile import config, errors
from nbcompile.tools.fuzz import observe
from nbcompile.tools.fuzz.compare import Difference, compare, differences
from nbcompile.tools.fuzz.observe import Observation
from nbcompile.tools.fuzz.program import Program, load

Compiler = Callable[[Any], Any]
INTERNAL = (errors.InternalErrorWarning, errors.GeneratedCodeWarning)
"""Warnings about bugs of the compiler, although the result is right."""
COMPILER_ERRORS = (errors.InternalError, errors.BackendCompilerFailed, errors.VerificationFailed)
FAILED = "raised RuntimeError"
JITTERED = 3
MAGNIFIED = 16
"""Maximum ratio of a distance to that of the jittered runs, as rounding errors are random."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict of one program."""

    eager_error: str = ""
    """Reason why eager mode itself fails."""
    difference: Difference | None = None
    observations: int = 0
    members: tuple[int, ...] = ()
    """Numbers of the programs whose results differ, in a batch or group."""


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """Observations of one run, up to its end or an exception."""

    seen: list[Observation]
    error: BaseException | None
    complaints: list[str]
    """Messages of the compiler about its own failures."""


def examine(program: Program, compiler: Compiler | None = None) -> Verdict:
    """Run a program eagerly and compiled, and compare.

    Args:
        program: the program.
        compiler: the compile function; None: ``nbcompile.compile`` with the program's settings.
    """
    expected = play(program, lambda function: function)
    if expected.error is not None:
        return Verdict(f"{type(expected.error).__name__}: {expected.error}")
    difference = None
    for _ in range(2 if program.stored and compiler is None else 1):  # the second time loads the entries of the first
        if difference is None:
            found = _compiled(program, compiler)
            difference = _disagreement(program, expected, found)
    if difference is None:
        return Verdict("", None, len(expected.seen))
    if program.size > 1 and (members := _members(program, expected, found)):
        return Verdict("", difference, len(expected.seen), members)  # the next steps examine each program by itself
    # Tested last: it plays the program once more, which few programs need.
    if _unstable(program, expected):
        return Verdict("eager does not give the same twice")
    if difference.aspect == "value" and _is_rounding(program, expected, compiler):
        difference = None
    return Verdict("", difference, len(expected.seen))


def _compiled(program: Program, compiler: Compiler | None) -> ObservedRun:
    if compiler is not None:
        return play(program, compiler)
    options: dict[str, Any] = {"backend": program.backend, "dynamic": program.dynamic, "recompile_limit": 64}
    try:
        with config.patch(rewrite_assert_with_torch_assert=False, warm_start=program.stored):
            return play(program, lambda function: nbcompile.compile(function, **options))
    finally:
        nbcompile.reset()


def play(program: Program, compiler: Compiler) -> ObservedRun:
    """Play a program, and observe all values that it yields."""
    seen: list[Observation] = []
    error: BaseException | None = None
    # Eager and compiled code draw the same random numbers, and process-wide settings are restored after the program.
    torch.manual_seed(0)
    random.seed(0)
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    with warnings.catch_warnings(record=True) as warned, contextlib.ExitStack() as stack:
        warnings.simplefilter("always")
        printed = stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        try:
            for value in load(program.source)["play"](compiler):
                seen.append(observe.observe(value))  # noqa: PERF401 - what was seen before an exception counts
            seen.append(observe.observe([printed.getvalue(), _process()]))
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is what was seen
            error = raised
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)
    complaints = [str(warning.message) for warning in warned if issubclass(warning.category, INTERNAL)]
    return ObservedRun(seen, error, complaints)


def _process() -> dict[str, object]:
    """Process state that a program may have changed."""
    return {
        "random state of torch": zlib.crc32(torch.get_rng_state().numpy().tobytes()),
        "random state of Python": zlib.crc32(repr(random.getstate()).encode()),
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")),
        "default dtype": torch.get_default_dtype(),
    }


def _disagreement(program: Program, expected: ObservedRun, found: ObservedRun) -> Difference | None:
    """The first difference; a numerical one, which may be rounding, only if there is no other."""
    distance = None
    for number, reference in enumerate(expected.seen):
        if number == len(found.seen):
            break
        if _is_ended(reference, found.seen[number]):
            return distance
        for difference in differences(reference, found.seen[number], program.approximate):
            shown = replace(difference, path=f"observation {number}{difference.path}")
            if difference.aspect != "value":
                return shown
            distance = distance or shown
    if found.complaints:
        return Difference("internal", "", "", found.complaints[0])
    if found.error is not None:
        return Difference("internal", f"observation {len(found.seen)}", "", _traced(found.error))
    return distance


def _members(program: Program, expected: ObservedRun, found: ObservedRun) -> tuple[int, ...]:
    """The programs of a batch whose results differ: the first number in the path of each difference."""
    pairs = zip(expected.seen, found.seen, strict=False)
    paths = [
        difference.path
        for one, other in pairs
        if _is_of_members(one, program.size)
        for difference in differences(one, other, program.approximate)
    ]
    numbers = {int(number[1]) for path in paths if (number := re.match(r"\[(\d+)\]", path)) is not None}
    return tuple(sorted(number for number in numbers if number < program.size))


def _is_of_members(observation: Observation, size: int) -> bool:
    """Return whether it has a pair for each program of a batch; others are the state that all of them share."""
    return f"[{size - 1}][1]" in observation and f"[{size}]" not in observation


def _is_ended(expected: Observation, found: Observation) -> bool:
    """Return whether an operator fails: a compiler detects that before earlier side effects, with a class of its own.

    A graph that fails when it runs raises eager's own error, before the side effects, too (in torch.compile as well).
    """
    return any(
        "TorchRuntimeError" in fact.text
        or (fact.text.startswith(FAILED) and path in expected and expected[path].text == fact.text)
        for path, fact in found.items()
    )


def _traced(error: BaseException) -> str:
    """An exception, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/nbcompile/" in frame.filename and "/tools/fuzz/" not in frame.filename]
    where = f" [{own[-1].filename.rpartition('/nbcompile/')[2]}:{own[-1].name}]" if own else ""
    return f"{type(error).__name__}: {error}{where}"


# -- rounding ---------------------------------------------------------------------------------------------------------


def _unstable(program: Program, expected: ObservedRun) -> bool:
    repeated = play(program, lambda function: function)
    pairs = zip(expected.seen, repeated.seen, strict=False)
    return repeated.error is not None or any(compare(one, other, approximate=False) for one, other in pairs)


def _is_rounding(program: Program, expected: ObservedRun, compiler: Compiler | None) -> bool:
    """Return whether the compiled result is as close to eager's as eager with random rounding errors is."""
    found = _compiled(program, compiler)
    #      eager        x -> f(x) -> g(f(x))                what is right
    #      jittered     x -> f(x)(1+e1) -> g(...)(1+e2)     some times: how rounding errors grow in this program
    #      compiled     may be MAGNIFIED times as far from eager as these are
    jittered = []
    for seed in range(JITTERED):
        with Jitter(seed):
            jittered.append(play(program, lambda function: function))
    for number, (reference, seen) in enumerate(zip(expected.seen, found.seen, strict=False)):
        others = [each.seen[number] for each in jittered if len(each.seen) > number]
        for path, fact in reference.items():
            elements = seen[path].elements if path in seen else None
            if fact.elements is None or elements is None:
                continue
            if not _within(fact.elements, elements, [one[path].elements for one in others if path in one]):
                return False
    return True


def _within(expected: torch.Tensor, found: torch.Tensor, jittered: list[torch.Tensor | None]) -> bool:
    if expected.is_complex():
        expected, found = torch.view_as_real(expected), torch.view_as_real(found)
        jittered = [torch.view_as_real(each) for each in jittered if each is not None]
    if expected.shape != found.shape or not expected.numel():
        return expected.shape == found.shape
    one, other = expected.double(), found.double()
    moved = torch.zeros_like(one)
    for result in jittered:
        # A rounding error decides about the shape (a mask, say): nothing can be compared.
        if result is None or result.shape != expected.shape:
            return True
        # An overflow or a NaN that depends on the last digit; one that is there in all runs does not.
        distance = (result.double() - one).abs().nan_to_num(torch.inf, torch.inf)
        moved = torch.maximum(moved, torch.where(_alike(result.double(), one), 0.0, distance))
    is_open = moved.isinf()
    moved, size = (torch.where(is_open, 0.0, part.abs().nan_to_num(0.0, 0.0, 0.0)) for part in (moved, one))
    distance = (other - one).abs()
    epsilon = torch.finfo(expected.dtype).eps if expected.is_floating_point() else 0.0
    # Relative to the largest element: after a sum that cancels, a small one has the error of large ones.
    bound = MAGNIFIED * (float(moved.max()) + epsilon * float(size.max()))
    return bool((is_open | _alike(one, other) | (distance <= bound)).all())


def _alike(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())


class Jitter(TorchDispatchMode):
    """Dispatch mode that perturbs every result of an inexact operator by at most one unit in the last place."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        # A view is in the memory of its argument, which was perturbed already.
        if func._schema.name.partition("::")[2].rstrip("_") in EXACT or any(
            output.alias_info is not None and not output.alias_info.is_write for output in func._schema.returns
        ):
            return result
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.numel():
                self.move(leaf)
        return result

    def move(self, tensor: torch.Tensor) -> None:
        # -1, 0 or 1 unit in the last place.
        steps = torch.randint(-1, 2, tensor.shape, generator=self.generator)
        try:
            moved = tensor.detach() * (1 + steps * torch.finfo(tensor.dtype).eps)
            tensor.detach().copy_(moved)
        except RuntimeError:
            return  # memory that overlaps


EXACT = frozenset(
    # values that are moved, chosen, compared, converted
    """clone copy _to_copy to contiguous cat stack where select slice index gather scatter index_select masked_fill
    masked_select index_put take flip roll tril triu repeat pad constant_pad_nd narrow view reshape permute transpose
    expand unsqueeze squeeze diagonal diag diag_embed unfold as_strided split chunk unbind alias detach
    max min amax amin argmax argmin maximum minimum fmax fmin clamp clamp_min clamp_max relu sort topk kthvalue median
    eq ne lt le gt ge isnan isinf isfinite signbit sign sgn neg abs positive logical_and logical_or logical_not
    logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift
    floor ceil round trunc frac copysign nextafter heaviside any all count_nonzero nonzero unique
    zeros ones full zeros_like ones_like full_like empty empty_like arange eye fill zero fill_diagonal
    cummax cummin searchsorted bucketize isin ldexp frexp hardshrink threshold max_pool2d_with_indices max_pool1d
    embedding one_hot nan_to_num real imag view_as_real view_as_complex conj_physical equal
    add sub mul div rsub reciprocal square addcmul""".split()
)
"""Operators whose results eager rounds correctly, or does not round."""


def replay(program: Program) -> None:
    """Print what differs: the end of a file that was found."""
    outcome = examine(program)
    print(outcome.eager_error or outcome.difference or "as in eager")
    sys.exit(1 if outcome.difference is not None else 0)
