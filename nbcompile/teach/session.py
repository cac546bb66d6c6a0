"""Session: the exercise that was shown last, to which ``check`` and ``hint`` refer.

    exercise("one-graph-1")
    check(f)                          of one-graph-1
    check(f, "one-graph-2")           of another exercise

In torch: nothing. Read next: nbcompile/teach/kinds.py
"""

from __future__ import annotations

from typing import Any

import torch

from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.teach import attempt, kinds, progress_file
from nbcompile.teach.exercise_table import Exercise, find
from nbcompile.teach.verdict import Verdict

_current: list[str] = STATE.add("teach.session._current", [], Lifetime.PROCESS)


class NoExercise(ValueError):
    """Error if no exercise was shown yet."""


def exercise(name: str) -> Exercise:
    """Show an exercise, to which :func:`check` and :func:`hint` refer from now on."""
    with torch.random.fork_rng(devices=()):  # facts are computed with hidden arguments, which are drawn
        found = kinds.with_facts(find(name))
    _current[:] = [name]
    return found


def check(answer: Any, name: str = "", seconds: float = attempt.SECONDS) -> Verdict:
    """Check an answer: run it on hidden arguments, compile it, and examine the record.

    Args:
        answer: the function, list or call that is the task of the exercise.
        name: the exercise; "": the one that was shown last.
        seconds: the time limit.

    Raises:
        NoExercise: no name is given, and no exercise was shown.
    """
    chosen = find(name or _shown())
    verdict = judge(chosen, answer, seconds)
    progress_file.note(chosen.id, accepted=verdict.accepted)
    return verdict


def judge(chosen: Exercise, answer: Any, seconds: float = attempt.SECONDS) -> Verdict:
    """The verdict on an answer; progress is not changed."""
    says, record, accepted = "", None, False
    grad, generator, dtype = torch._C.is_grad_enabled(), torch.get_rng_state(), torch.get_default_dtype()
    try:
        with attempt.limited(seconds):
            says, record = kinds.CHECKS[chosen.kind](chosen, answer)
            accepted = True
    except attempt.Rejection as rejection:
        says, record = str(rejection), rejection.record
    except attempt.TimeLimitExceeded:
        says = f"it did not end within {seconds:g} seconds. Is there a loop that never ends?"
    except SystemExit:
        says = "it ends Python (SystemExit). Return a value instead."
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - an answer may raise anything, and its objects wherever they are used
        says = f"the check raised {type(error).__name__}: {str(error) or 'without a message'}"
    finally:
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        torch.set_rng_state(generator)
    return Verdict(chosen.id, accepted, says, record)


def hint(name: str = "") -> str:
    """The next hint of an exercise; each says more than the previous one."""
    chosen = find(name or _shown())
    shown = progress_file.progress().entries.get(chosen.id, progress_file.Entry()).hints
    number = min(shown, len(chosen.hints) - 1)
    progress_file.note(chosen.id, hints=number + 1)
    return f"hint {number + 1} of {len(chosen.hints)}: {chosen.hints[number]}"


def _shown() -> str:
    if not _current:
        raise NoExercise('no exercise was shown yet: call exercise("one-graph-1"), or check(f, "one-graph-1")')
    return _current[0]
