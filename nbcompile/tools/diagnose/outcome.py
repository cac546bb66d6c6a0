"""The outcome of a function that is run in one way, compared with eager mode's.

    expected = run(f, arguments)
    found = run(nbcompile.compile(f), arguments)
    difference(expected, found, exact)          "" or "output 0 differs by up to 0.5 (rounding explains 1e-06)"

An outcome is everything that a caller can observe: the results, the arguments afterwards, gradients, the exception; and
failures that the compiler hides from its user (a graph that runs through ATen because code generation failed).

In torch: same_two_models in torch/_dynamo/debug_utils.py. Read next: nbcompile/tools/diagnose/bisect.py
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree

from nbcompile import errors

ROUNDING_FACTOR = 10.0
"""Maximum ratio of a result's distance from the result in float64 to that of eager's result."""
SMALLEST_TOLERANCE = 1e-5
"""Relative to the largest element, for float32; scaled by the precision for other types."""
TIMED_CALLS = 3
"""Number of calls that are timed for a predicate of the user."""
SHORT_SECONDS, MOST_CALLS = 0.02, 200
"""Calls are repeated for this many seconds, and at most this often."""
INTERNAL_WARNINGS = (errors.GeneratedCodeWarning, errors.InternalErrorWarning)


class FlakyPredicateError(RuntimeError):
    """The same run was wrong once and right once."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one run."""

    values: tuple[Any, ...] = ()
    """Results, arguments after the call, and gradients, flat."""
    error: str = ""
    """Class and message of the exception."""
    internal: tuple[str, ...] = ()
    """Failures of the compiler that the program survived."""
    seconds: float = field(default=0.0, compare=False)
    """Time of the fastest of the timed calls; 0 if none was timed."""


def run(
    function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any] | None = None, timed: int = 0
) -> Outcome:
    """Call a function with copies of the arguments, from the same random state, and return the outcome."""
    # The function may write to its arguments: each run has its own copies.
    positional, named = copied((tuple(arguments), dict(keywords or {})))
    with warnings.catch_warnings(record=True) as caught, torch.random.fork_rng(devices=()):
        warnings.simplefilter("always")
        torch.manual_seed(0)
        try:
            result = function(*positional, **named)
            gradients = _gradients(result, (positional, named))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it is the outcome
            text = str(error).partition("\n")[0]
            return Outcome(error=f"{type(error).__name__}: {text}", internal=_internal(caught))
    # The arguments, too, as a mutation of them is a result.
    values = tuple(pytree.tree_leaves((result, positional, named, gradients)))
    seconds = _fastest(function, arguments, keywords or {}, timed) if timed else 0.0
    return Outcome(tuple(map(_detached, values)), internal=_internal(caught), seconds=seconds)


def run_eagerly(
    function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any], timed: int = 0
) -> Outcome:
    """The outcome in eager mode, with which all others are compared.

    Raises:
        ValueError: the outcome of a second call differs, so that nothing can be compared with it.
    """
    first = run(function, arguments, keywords)
    expected = run(function, arguments, keywords, timed)
    if changed := difference(first, expected):
        raise ValueError(
            f"two calls in eager mode differ ({changed.replace('in eager mode', 'the first time')}): the result "
            "depends on more than the arguments, and there is nothing to compare with"
        )
    return expected


def for_predicate(
    function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any], predicate: object
) -> Outcome:
    """The outcome for a predicate: for the user's predicate, with the time of a call."""
    return run(function, arguments, keywords, TIMED_CALLS if predicate is not None else 0)


def copied(values: Any) -> Any:
    """A deep copy; copies of tensors keep ``requires_grad``."""
    return pytree.tree_map(_copied, values)


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        # With the same strides, since a compiler specialises on strides.
        copied = value.detach().clone(memory_format=torch.preserve_format)
        return copied.requires_grad_(value.requires_grad)
    return value if isinstance(value, (torch.nn.Module, type)) or callable(value) else copy.deepcopy(value)


def _gradients(result: Any, inputs: Any) -> list[Any]:
    learned = [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    outputs = [
        leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None
    ]
    if not learned or not outputs:
        return []
    return list(torch.autograd.grad([output.sum() for output in outputs], learned, allow_unused=True))


def _detached(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _internal(caught: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    return tuple(
        str(warning.message).partition("\n")[0] for warning in caught if issubclass(warning.category, INTERNAL_WARNINGS)
    )


def _fastest(function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any], least: int) -> float:
    """The time of the fastest of several calls, more for short ones, whose noise exceeds their time."""
    fastest, ends = float("inf"), time.perf_counter() + SHORT_SECONDS
    for number in range(MOST_CALLS):
        if number >= least and time.perf_counter() > ends:
            break
        fastest = min(fastest, _seconds(function, arguments, keywords))
    return fastest


def _seconds(function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> float:
    positional, named = copied((tuple(arguments), dict(keywords)))
    began = time.perf_counter()
    function(*positional, **named)
    return time.perf_counter() - began


def exact(function: Callable[..., Any], arguments: Sequence[Any]) -> Outcome | None:
    """The outcome in float64; None if the function does not run in float64."""
    wide = pytree.tree_map(_widened, tuple(arguments))
    try:
        function = copy.deepcopy(function).double() if isinstance(function, torch.nn.Module) else function
        found = run(function, wide)
    except Exception:  # noqa: BLE001 - a module that cannot be copied
        return None
    return None if found.error else found


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().double().requires_grad_(value.requires_grad)
    return value


def difference(expected: Outcome, found: Outcome, reference: Outcome | None = None) -> str:
    """The difference between an outcome and eager's; "" if they agree up to rounding."""
    if found.internal and not expected.internal:
        return f"internal failure: {found.internal[0]}"
    if found.error != expected.error:
        return f"{found.error or 'no exception'}, and in eager mode {expected.error or 'none'}"
    if len(found.values) != len(expected.values):
        return f"{len(found.values)} values, and in eager mode {len(expected.values)}"
    wide = reference.values if reference and len(reference.values) == len(expected.values) else None
    for number, (own, other) in enumerate(zip(found.values, expected.values, strict=True)):
        text = _value_difference(own, other, wide[number] if wide is not None else None)
        if text:
            return f"value {number}: {text}"
    return ""


def _value_difference(found: Any, expected: Any, wide: Any) -> str:
    if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
        comparable = isinstance(expected, (int, float, complex, str, bytes))
        same = type(found) is type(expected) and (not comparable or repr(found) == repr(expected))  # NaN is NaN
        return "" if same else f"{found!r}, and in eager mode {expected!r}"
    kinds = [(each.shape, each.dtype, each.device) for each in (found, expected)]
    if kinds[0] != kinds[1]:
        return f"{kinds[0]}, and in eager mode {kinds[1]}"
    if expected.is_meta:
        return ""  # it has no elements
    if not (expected.is_floating_point() or expected.is_complex()):
        return "" if torch.equal(found, expected) else "other elements than in eager mode"
    # One wide dtype for all: a difference of float16 would itself be rounded, or overflow.
    own, other = found.to(torch.complex128), expected.to(torch.complex128)
    if not torch.equal(torch.isfinite(found), torch.isfinite(expected)):
        return "infinite or NaN elsewhere than in eager mode"
    finite = torch.isfinite(expected)
    distance = (own - other).abs()[finite].max().item() if finite.any() else 0.0
    tolerance = _tolerance(expected, wide, finite)
    return "" if distance <= tolerance else f"differs by up to {distance:.3g} (rounding explains {tolerance:.3g})"


def _tolerance(expected: torch.Tensor, wide: Any, finite: torch.Tensor) -> float:
    """The tolerance for rounding: a multiple of eager's distance from float64, at least the precision of the type."""
    if not finite.any():
        return 0.0
    values = expected.to(torch.complex128)[finite]
    # 1e-5 of the largest element for float32, 0.08 for float16, 2e-14 for float64.
    precision = torch.finfo(expected.dtype).eps / torch.finfo(torch.float32).eps
    least = SMALLEST_TOLERANCE * precision * max(values.abs().max().item(), 1e-30)
    if not isinstance(wide, torch.Tensor) or wide.shape != expected.shape:
        return float(least)
    own = (values - wide.to(torch.complex128)[finite]).abs()
    error = own[torch.isfinite(own)].max().item() if torch.isfinite(own).any() else 0.0
    return float(max(least, ROUNDING_FACTOR * error))
