"""nbcompile/teach/session.py: each answer gets a sentence, and the notebook survives."""

from __future__ import annotations

import json
import threading
import time

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

import nbcompile
from nbcompile.teach import check, exercise, hint, progress, progress_file, session
from nbcompile.teach.attempt import TimeLimitExceeded, limited
from nbcompile.teach.exercise_table import ExerciseUnknown, define, exercises, find


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    """A separate progress file."""
    monkeypatch.setenv("NBCOMPILE_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setenv("NBCOMPILE_STUDENT", "Ada")
    monkeypatch.setattr(session, "_current", [])
    return tmp_path / "progress.json"


def right(x):
    return torch.sin(x) * 2


def test_an_exercise_is_shown_and_an_answer_accepted(file):
    """The last shown exercise is checked; a verdict is true if it accepts, and has a picture."""
    shown = exercise("one-graph-1")
    assert "def f(x):" in str(shown) and "```python" in shown._repr_mimebundle_()["text/markdown"]
    verdict = check(right)
    assert verdict and str(verdict).startswith("✓ one-graph-1")
    assert "Accepted" in verdict._repr_mimebundle_()["text/html"]
    assert "<br>Equal to the reference" in verdict._repr_mimebundle_()["text/html"], "a sentence begins with a capital"
    assert verdict.explanation.graph_count == 1
    assert json.loads(file.read_text())["entries"]["one-graph-1"]["accepted"]
    assert progress().points() == (1, len(exercises()))
    assert "lecture 3" in str(progress())


def raises(x):
    raise KeyError("no such thing")


def ends_python(x):
    raise SystemExit


def never_ends(x):
    while True:
        pass


def catches_everything(x):
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            pass


def recursive(x):
    return recursive(x)


def mutates(x):
    x.mul_(2)
    return right(x / 2)


def compiles(x):
    return torch.compile(right)(x)


def compiles_inside(x):
    def inner(y):
        return torch.compile(right)(y)

    return inner(x)


def compiles_by_name(x):
    return getattr(torch, "compile")(right)(x)  # noqa: B009 - as a student might


def compiles_by_import(x):
    from torch import compile as hidden

    return hidden(right)(x)


def compiles_in_a_helper(x):
    return compiles(x)


def stops_a_generator(x):
    raise GeneratorExit


def wrong_type(x):
    return 3


class Odd:
    def __eq__(self, other):
        raise RuntimeError("do not compare me")


def odd(x):
    return Odd()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (raises, "it raises KeyError: 'no such thing'"),
        (ends_python, "it ends Python"),
        (never_ends, "did not end within 1 seconds"),
        (recursive, "it raises RecursionError"),
        (mutates, "argument 1 is wrong after"),
        (compiles, "uses a compiler itself"),
        (compiles_inside, "uses a compiler itself"),
        (compiles_by_name, "uses a compiler itself"),
        (compiles_by_import, "uses a compiler itself"),
        (compiles_in_a_helper, "uses a compiler itself"),
        (stops_a_generator, "the check raised GeneratorExit"),
        (torch.compile(right, backend="eager"), "is compiled already"),
        (nbcompile.compile(right), "is compiled already"),
        (wrong_type, "expected a value of type Tensor, got a value of type int"),
        (odd, "a value of type Odd"),
        (None, "expected a function `f`, got None"),
        (3, "of type `int`"),
        ("def f(x): ...", "of type `str`"),
        (torch.nn.Linear, "got the class `Linear`"),
        (torch.nn.Linear(2, 2), "of type `Linear`"),
        (torch.sin, "of type `builtin_function_or_method`"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # without its address, which differs between processes
)
def test_bad_answers_get_a_sentence(answer, says):
    """An answer that raises, hangs, has another type, or compiles itself is rejected, without an exception."""
    verdict = check(answer, "one-graph-1", seconds=1 if answer is never_ends else 60)
    assert not verdict and says in verdict.says
    assert check(right, "one-graph-1"), "the next answer is checked as if nothing had happened"


def test_the_time_limit_holds_in_other_threads():
    """The time limit holds in a thread, too."""
    seen = []

    def run():
        try:
            with limited(0.5):
                while True:
                    time.sleep(0.01)
        except TimeLimitExceeded:
            seen.append("ended")

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert seen == ["ended"]


def test_ctrl_c_ends_the_cell(file):
    """KeyboardInterrupt propagates, and no attempt is counted."""

    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(interrupted, "one-graph-1")
    assert not file.exists()
    assert check(right, "one-graph-1")


def test_the_same_object_is_judged_alike_again():
    """The compiler's state from an earlier check does not change the next verdict."""
    answer = define(exercises()["entries-4"].solution, "f")
    wrong = define(exercises()["entries-4"].starter, "f")
    assert [bool(check(answer, "entries-4")) for _ in range(2)] == [True, True]
    assert len({check(wrong, "entries-4").says for _ in range(2)}) == 1


def changes_the_default(x):
    torch.set_default_dtype(torch.float64)
    return right(x)


def test_the_word_compile_alone_is_no_compiler():
    """A function of the answer may be called compile, and ``re.compile`` is allowed."""
    exercise("one-graph-1")
    assert check(define("def compile(x): return torch.sin(x)\n\ndef f(x): return compile(x) * 2", "f"))
    assert check(
        define("import re\nnumber = len(re.compile('ab').pattern)\n\ndef f(x): return torch.sin(x) * number", "f")
    )


def test_random_numbers_and_modes_are_as_before():
    """A check does not change torch's modes and random state."""
    assert check(changes_the_default, "one-graph-1")
    assert torch.get_default_dtype() is torch.float32
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with torch.no_grad():
        check(right, "one-graph-1")
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.rand(2), expected)


def test_hints_are_graded(file):
    """Each call shows the next hint; the last one is repeated; progress has the number of hints."""
    exercise("one-graph-2")
    known = find("one-graph-2").hints
    shown = [hint() for _ in range(len(known) + 1)]
    assert [text.partition(": ")[2] for text in shown] == [*known, known[-1]]
    assert progress().entries["one-graph-2"].hints == len(known)


def test_names_that_are_no_exercise():
    """A misspelt name gets the nearest one; without a name, the sentence has instructions."""
    with pytest.raises(ExerciseUnknown, match="Did you mean 'one-graph-1'"):
        exercise("one-grap-1")
    with pytest.raises(session.NoExercise, match="no exercise was shown yet"):
        check(right)
    with pytest.raises(session.NoExercise):
        hint()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 7}', '{"schema": 1, "student": "x", "entries": {"a": 3}}'])
def test_a_damaged_progress_file_is_put_aside(file, text):
    """A damaged progress file is renamed, and a new one is begun."""
    file.write_text(text)
    assert check(right, "one-graph-1")
    assert file.with_suffix(".damaged.json").read_text() == text
    assert progress().points()[0] == 1


def test_exercises_with_facts_compute_them():
    """The task contains the graphs of a residual program, or the bytes of kernels."""
    assert "graphs[1]" in str(exercise("residual-1"))
    assert "114688 bytes" in str(exercise("fusion-1"))


def test_showing_an_exercise_draws_no_random_numbers():
    """Showing an exercise does not change the random state."""
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    exercise("residual-1")
    assert torch.equal(torch.rand(2), expected)


def test_a_notebook_shows_and_checks(file):
    """In IPython a verdict is shown as HTML; an answer that raises does not end the shell."""
    shell = InteractiveShell()
    shell.run_cell("import torch\nfrom nbcompile.teach import check, exercise")
    cell = 'exercise("one-graph-1")\ndef f(x):\n    print("half way")\n    return torch.sin(x) * 2\ncheck(f)'
    result = shell.run_cell(cell)
    assert result.success and not result.result
    assert 'breaks at line 3, `print("half way")`' in result.result.says
    formatted, _ = shell.display_formatter.format(result.result)
    assert "Not yet" in formatted["text/html"] and "✗ one-graph-1" in formatted["text/plain"]
    assert progress_file.progress().entries["one-graph-1"].attempts == 1
