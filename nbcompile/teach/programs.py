"""Exercises whose answer is a program: it is compiled and compared with the reference, and its record is read.

    one graph          no break:                 "it breaks at line 3, `print(x)`, because ..."
    entries            few compilations:         "is compiled 3 times: call 2 failed a guard on `k`, ..."
    arguments          the same, by a function that prepares the arguments
    operators          exactly this graph:       "its graph is sin, mul, and sin, add is asked for"
    custom operator    one graph with an operator that the answer registers

In torch: nothing. Read next: nbcompile/teach/questions.py
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from nbcompile.record import links
from nbcompile.record.model import Break, CompiledFrame, Record
from nbcompile.teach import attempt
from nbcompile.teach.attempt import Rejection
from nbcompile.teach.comparison import describe_difference, expect_equal
from nbcompile.teach.exercise_table import Exercise
from nbcompile.views import facts


def _prepared(exercise: Exercise, answer: Any) -> Callable[..., Any]:
    """The function to run: the answer, or the result of the exercise's harness for it."""
    function = attempt.renewed(attempt.expect_function(answer, exercise.answer))
    harness = exercise.parameters.get("harness")
    return exercise.reference_object(harness)(function) if harness else function


def _traced(exercise: Exercise, answer: Any) -> Record:
    """The record of the hidden calls of an answer that equals the reference.

    Raises:
        Rejection: the answer differs from the reference, in eager mode or compiled.
    """
    function, calls = _prepared(exercise, answer), exercise.arguments()
    reference = exercise.reference_object(exercise.parameters.get("expected", ""))
    prints = exercise.parameters.get("prints", True)
    expect_equal(function, reference, calls, prints)
    return attempt.trace(function, copy.deepcopy(calls), **exercise.parameters.get("settings", {}))


def check_one_graph(exercise: Exercise, answer: Any) -> tuple[str, Record | None]:
    """Check for the results of the reference, and no graph break."""
    record = _traced(exercise, answer)
    _expect_no_break(record)
    _expect_operators(exercise, record)
    return "equal to the reference on all hidden inputs, and one graph without a break.", record


def _expect_no_break(record: Record) -> None:
    found = [cause for cause in record.frames if cause.breaks]
    if found:
        raise Rejection(f"it is right, but {describe_break(found[0].breaks[0])}", record)
    if not any(frame.status == "compiled" for frame in record.frames):
        reason = next((frame.skip_reason for frame in record.frames if frame.skip_reason), "it has no operator")
        raise Rejection(f"it is right, but it is not compiled at all: {reason}.", record)


def describe_break(found: Break) -> str:
    """Location and reason of a graph break."""
    if not found.stack:
        return f"there is a graph break: {found.title}."
    line = links.to_users_line(found.stack)[-1]
    explanation = found.explanation.strip().splitlines()[0].rstrip(".") if found.explanation.strip() else found.title
    return f"it breaks at line {line.line}, `{line.code}`, because: {found.title}. {explanation}."


def _expect_operators(exercise: Exercise, record: Record) -> None:
    """Reject an answer that computes outside of the graph."""
    least = exercise.parameters.get("least_operators", 1)
    count = max((len(operators_of(frame)) for frame in record.frames), default=0)
    if count < least:
        raise Rejection(
            f"it is right, but its graph has {facts.count(count, 'operator')}, and at least {least} were asked for: "
            "the work is done outside of the graph.",
            record,
        )


def operators_of(frame: CompiledFrame) -> list[str]:
    """Names of the operators of a captured graph, in order: ``sin``, ``add``, ``sum``."""
    return [facts.short_target(node.target).rsplit(".", 1)[-1] for node in links.operators(frame.graph)]


def check_entries(exercise: Exercise, answer: Any) -> tuple[str, Record | None]:
    """Check for the results of the reference, no break, and at most ``limit`` cache entries for all hidden calls."""
    record = _traced(exercise, answer)
    _expect_no_break(record)
    _expect_operators(exercise, record)
    compiled = [frame for frame in record.frames if frame.status == "compiled"]
    limit = exercise.parameters.get("limit", 1)
    if len(compiled) > limit:
        rejected = next(frame for frame in compiled if frame.failed_guards)
        raise Rejection(
            f"it is right, but it is compiled {len(compiled)} times for {len(exercise.arguments())} calls, and "
            f"{limit} is enough. {_describe_recompilation(rejected)}",
            record,
        )
    return f"equal to the reference, and {facts.count(len(compiled), 'compilation')} for all hidden calls.", record


def check_arguments(exercise: Exercise, answer: Any) -> tuple[str, Record | None]:
    """Check a function that prepares the arguments of each call outside of compiled code, so that guards hold."""
    prepare = attempt.expect_function(answer, exercise.answer)
    function = exercise.reference_object("f")
    prepared = []
    for number, arguments in enumerate(exercise.arguments(), 1):
        given = attempt.attempt(prepare, arguments).result
        if not isinstance(given, tuple):
            raise Rejection(f"`{exercise.answer}`: expected a tuple of arguments, got {attempt.kind_of(given)}.")
        difference = describe_difference(
            attempt.attempt(function, given).result, attempt.attempt(function, exercise.arguments()[number - 1]).result
        )
        if difference:
            raise Rejection(f"with the arguments of call {number}, the result of `f` is wrong: {difference}.")
        prepared.append(given)
    record = attempt.trace(function, prepared)
    compiled = [frame for frame in record.frames if frame.status == "compiled"]
    limit = exercise.parameters.get("limit", 1)
    if len(compiled) > limit:
        rejected = next(frame for frame in compiled if frame.failed_guards)
        raise Rejection(
            f"the results are right, but `f` is compiled {len(compiled)} times, and {limit} is enough. "
            f"{_describe_recompilation(rejected)}",
            record,
        )
    return f"the same results with {facts.count(len(compiled), 'compilation')}.", record


def _describe_recompilation(frame: CompiledFrame) -> str:
    failed = frame.failed_guards[0]
    stack = links.to_users_line(failed.stack) if failed.stack else ()
    needed = f", which line {stack[-1].line}, `{stack[-1].code}`, needs" if stack else ""
    return f"The guard that failed: `{facts.readable(failed.reason)}`{needed}."


def check_operators(exercise: Exercise, answer: Any) -> tuple[str, Record | None]:
    """Check for a graph with exactly the operators that the exercise lists."""
    function, calls = _prepared(exercise, answer), exercise.arguments()
    for arguments in calls:
        attempt.attempt(function, copy.deepcopy(arguments))
    record = attempt.trace(function, calls)
    if any(frame.breaks for frame in record.frames):
        raise Rejection(describe_break(next(frame for frame in record.frames if frame.breaks).breaks[0]), record)
    expected = list(exercise.parameters["operators"])
    graphs = [operators_of(frame) for frame in record.frames if frame.graph is not None]
    actual = graphs[0] if graphs else []
    if actual != expected:
        shown = ", ".join(actual) if actual else "empty: no operator was called"
        raise Rejection(f"its graph is {shown}; the exercise asks for {', '.join(expected)}.", record)
    return f"the graph is {', '.join(actual)}.", record


def check_custom_operator(exercise: Exercise, answer: Any) -> tuple[str, Record | None]:
    """Check for one graph with a custom operator of the answer that passes ``torch.library.opcheck``."""
    name = exercise.parameters["operator"]
    record = _traced(exercise, answer)
    targets = {node.target for frame in record.frames for node in links.operators(frame.graph)}
    _expect_no_break(record)
    if not any(name.replace("::", ".") in target for target in targets):
        raise Rejection(
            f"it is right, but the operator `{name}` is not in the graph: {', '.join(sorted(targets))}.", record
        )
    operator = _registered(name)
    for arguments in exercise.reference_object("operator_calls"):
        _expect_sound(name, operator, arguments)
    if exercise.parameters.get("gradient"):
        _expect_gradient(exercise, answer)
    return f"one graph, and `{name}` is in it.", record


def _registered(name: str) -> Any:
    namespace, _, short = name.partition("::")
    return getattr(getattr(torch.ops, namespace), short)


def _expect_sound(name: str, operator: Any, arguments: tuple[Any, ...]) -> None:
    try:
        torch.library.opcheck(operator, arguments, test_utils=("test_schema", "test_faketensor"))
    except Exception as error:
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise Rejection(f"`{name}` fails `torch.library.opcheck`: {first[:200]}") from error


def _expect_gradient(exercise: Exercise, answer: Any) -> None:
    reference = exercise.reference_object(exercise.parameters.get("expected", ""))
    for arguments in exercise.arguments():
        pairs = []
        for function in (answer, reference):
            inputs = [
                value.clone().requires_grad_() if isinstance(value, torch.Tensor) else value for value in arguments
            ]
            result = attempt.attempt(function, tuple(inputs)).result
            if not result.requires_grad:
                raise Rejection("it is right, but its result needs no gradient: the operator has no backward formula.")
            attempt.attempt(result.sum().backward, ())
            pairs.append([value.grad for value in inputs if isinstance(value, torch.Tensor)])
        difference = describe_difference(*pairs)
        if difference:
            raise Rejection(f"its gradient is wrong: {difference}.")
