"""Messages of errors and warnings."""

from __future__ import annotations

import inspect

import pytest

import nbcompile
from nbcompile import errors
from nbcompile.record.model import Break, FailedGuard, StackLine

LINE = StackLine("model.py", 7, "forward", "return helper(x) + 1", 7, 16)


def test_our_errors_differ_from_the_users():
    """All errors derive from one class, which no user's error has; warnings are warnings."""
    for name, cls in inspect.getmembers(errors, inspect.isclass):
        if cls.__module__ == errors.__name__:
            assert issubclass(cls, UserWarning if name.endswith("Warning") else errors.NbcompileError), name


@pytest.mark.parametrize(("error", "guess"), [
    (errors.InvalidBackend("inducter", ["eager", "inductor"]), "Did you mean 'inductor'?"),
    (errors.InvalidBackendOption("verfy", ["verify"]), "Did you mean 'verify'?"),
])  # fmt: skip
def test_a_name_that_is_nearly_right_is_guessed(error, guess):
    """A near name is suggested, others are not; all names are listed in both cases."""
    assert guess in str(error)
    assert "Did you mean" not in str(errors.InvalidBackend("qqq", ["eager"]))


def test_stacks_have_carets_below_a_part_of_a_line():
    """Carets are below a part of a line, and not below the whole line."""
    assert errors.stack_lines((LINE,)) == [
        '  File "model.py", line 7, in forward',
        "    return helper(x) + 1",
        "           ^^^^^^^^^",
    ]
    whole = StackLine("model.py", 7, "forward", "helper(x)", 0, 9)
    assert len(errors.stack_lines((whole,))) == 2


def test_a_break_says_what_why_and_where():
    """The message has title, explanation, hints, and the command for more; advice that is followed is omitted."""
    report = Break(
        "0/0.b0", "NB0005", "Data-dependent branching", "It branches.", ("Use torch.where.",), "context", (LINE,)
    )
    text = errors.break_text(report)
    for part in (report.title, "Explanation: It branches.", "Hint: Use torch.where.", "explain NB0005", "model.py"):
        assert part in text
    assert errors.ADVICE in text and errors.ADVICE not in errors.break_text(report, verbose=True)


def test_recompilations_name_the_guard_of_each_entry():
    """The message has the failed guard of each entry, or says that nothing is compiled yet."""
    code = test_stacks_have_carets_below_a_part_of_a_line.__code__
    failed = (FailedGuard("0/0", "tensor 'x' size mismatch"),)
    assert "0/0: tensor 'x' size mismatch" in str(errors.RecompileError(code, failed))
    assert "nothing is compiled yet" in str(errors.FailOnRecompile(code, ()))


def test_torchs_names_lead_to_ours():
    """torch's names are attributes of ``nbcompile.exc``."""
    assert nbcompile.exc.NotCallable is errors.NotCallable
    assert issubclass(errors.NotCallable, AssertionError)  # torch raises one
