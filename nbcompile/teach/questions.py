"""Exercises whose answer is a value, which is compared with a computed key.

    call          arguments that hit an entry, or that fail the guard on one value only
    guard         the name of the value whose guard fails
    prediction    numbers of graphs, of entries, of operators: one for each program

In torch: nothing. Read next: nbcompile/teach/residual.py
"""

from __future__ import annotations

import re
from typing import Any

from nbcompile import api, config
from nbcompile.record.model import Record
from nbcompile.teach import attempt, programs
from nbcompile.teach.attempt import Rejection
from nbcompile.teach.exercise_table import Exercise, define
from nbcompile.views import facts


def check_call(exercise: Exercise, answer: Any) -> tuple[str, Record | None]:
    """Check a tuple of arguments: after the exercise's calls, this call hits, or fails only the requested guard."""
    if not isinstance(answer, tuple):
        raise Rejection(f"expected a tuple of arguments, `(x, ...)`, got {attempt.kind_of(answer)}.")
    function = exercise.reference_object("f")
    compiled = api.compile(function, backend="eager", isolate_recompiles=True)
    # Entries of earlier processes would be loaded instead of those that the exercise's calls create.
    with config.patch(warm_start=False):
        for arguments in exercise.arguments():
            compiled(*arguments)
        frame_recorder = api.new_recorder("f")
        with api.listening(frame_recorder):
            attempt.attempt(compiled, answer)
    record = frame_recorder.record()
    failed = [failure for frame in record.frames for failure in frame.failed_guards]
    requested = exercise.parameters["wants"]
    if requested == "hit":
        if failed:
            raise Rejection(f"this call is compiled: it failed the guard `{facts.readable(failed[0].reason)}`.", record)
        _expect_other(exercise, answer)
        return "no guard failed: the entry that was there served the call.", record
    if not failed:
        raise Rejection("this call hits an entry: all of its guards hold.", record)
    expected = re.compile(exercise.parameters["reason"])
    wrong = [failure for failure in failed if not expected.search(failure.reason)]
    if wrong:
        raise Rejection(f"it is compiled again, but for another guard: `{facts.readable(wrong[0].reason)}`.", record)
    return f"it failed just this guard: `{facts.readable(failed[0].reason)}`.", record


def _expect_other(exercise: Exercise, answer: tuple[Any, ...]) -> None:
    """Reject a call that is one of the earlier ones."""
    shapes = [_shapes(arguments) for arguments in exercise.arguments()]
    if exercise.parameters.get("other_shape") and _shapes(answer) in shapes:
        raise Rejection("it hits, but so did an earlier call: give a tensor of another shape.")


def _shapes(arguments: tuple[Any, ...]) -> list[Any]:
    return [tuple(value.shape) if hasattr(value, "shape") else value for value in arguments]


def check_guard(exercise: Exercise, answer: Any) -> tuple[str, Record | None]:
    """Check the value whose guard failed, as an expression of the program: ``x``, ``self.training``."""
    if not isinstance(answer, str):
        raise Rejection(f'expected the name of a value, such as "x", got {attempt.kind_of(answer)}.')
    record = attempt.trace(exercise.reference_object("f"), exercise.arguments())
    failed = [failure for frame in record.frames for failure in frame.failed_guards]
    names = {_as_written(facts.readable(failure.source)) for failure in failed}
    about = _as_written(answer)
    if about in names:
        return f"the guard was `{facts.readable(failed[0].reason)}`.", record
    guarded = {_as_written(facts.readable(guard.source)) for frame in record.frames for guard in frame.guards}
    if about in guarded:
        raise Rejection(f"there is a guard on `{answer}`, and it held in every call.", record)
    raise Rejection(f"there is no guard on `{answer}`. Names of guarded values are in the section `guards`.", record)


def _as_written(text: str) -> str:
    """A name without spaces, differences of quotes, and properties of a tensor."""
    text = text.replace(" ", "").replace('"', "'")
    text = re.sub(r"^[LG]\['(\w+)'\]", r"\1", text)
    return re.sub(r"\.(?:size\(\)|shape|stride\(\)|dtype|device|requires_grad)(?:\[\d+\])?$", "", text)


def check_prediction(exercise: Exercise, answer: Any) -> tuple[str, Record | None]:
    """Check a list with one number for each program of the exercise."""
    if not isinstance(answer, (list, tuple)):
        raise Rejection(f"expected a list of numbers, got {attempt.kind_of(answer)}.")
    if other := [value for value in answer if type(value) is not int]:
        raise Rejection(f"expected a list of numbers, got a list with {attempt.kind_of(other[0])}.")
    key = keys(exercise)
    if len(answer) != len(key):
        raise Rejection(f"expected {len(key)} numbers, one for each program, got {len(answer)}.")
    wrong = [number for number, pair in enumerate(zip(answer, key, strict=True), 1) if pair[0] != pair[1]]
    if wrong:
        listed = ", ".join(map(str, wrong))
        raise Rejection(
            f"{len(key) - len(wrong)} of {len(key)} are right. Look again at {listed}, and run it with %%compile."
        )
    return f"all {len(key)} are right.", None


def keys(exercise: Exercise) -> list[int]:
    """The right numbers, counted in the records of all programs ``p1``, ``p2``, ..."""
    code = exercise.reference or exercise.starter
    calls = define(code, "calls")
    return [_count(exercise, define(code, name), arguments) for name, arguments in calls.items()]


def _count(exercise: Exercise, program: Any, calls: list[tuple[Any, ...]]) -> int:
    record = attempt.trace(program, calls)
    compiled = [frame for frame in record.frames if frame.status == "compiled"]
    operators = [len(programs.operators_of(frame)) for frame in compiled]
    match exercise.parameters["counts"]:
        case "graphs":
            return sum(number > 0 for number in operators)
        case "operators":
            return sum(operators)
        case "breaks":
            return sum(len(frame.breaks) > 0 for frame in record.frames)
        case counts:
            assert counts == "entries", counts
            return len(compiled)
