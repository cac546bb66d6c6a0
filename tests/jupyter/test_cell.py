"""A cell runs as without the magic: line numbers, shown values, tracebacks."""

from __future__ import annotations

import ast
import inspect
import re

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import ExecutionResult
from IPython.utils.capture import capture_output

from nbcompile.jupyter import cell


def parsed(shell, body, change=lambda tree: tree):
    return cell.parse(shell, body, change)


def ran(shell, body, change=lambda tree: tree):
    """Run a body, and return the shown values."""
    with capture_output() as captured:
        cell.run(shell, parsed(shell, body, change))
    return [output.data["text/plain"] for output in captured.outputs]


def test_lines_have_the_numbers_of_the_visible_cell(shell):
    """The magic is line 1, and the source of a function is found."""
    ran(shell, "def f(x):\n    return x + 1\n")
    function = shell.user_ns["f"]
    assert function.__code__.co_firstlineno == 2
    assert inspect.getsource(function) == "def f(x):\n    return x + 1\n"


@pytest.mark.parametrize(("body", "shown"), [
    ("x = 3\nx + 1", ["4"]), ("x = 3", []), ("3 + 4;", []), ("3 + 4; # no", []), ("if True:\n    5", []), ("", []),
])  # fmt: skip
def test_the_value_of_the_last_expression_is_shown(shell, body, shown):
    """The last value is shown, unless a semicolon ends the cell."""
    assert ran(shell, body) == shown


@pytest.mark.parametrize(("setting", "shown"), [
    ("all", "3 4 5"), ("last_expr", ""), ("last_expr_or_assign", "5"), ("none", ""), ("last", "5"),
])  # fmt: skip
def test_the_shells_setting_says_what_is_shown(shell, setting, shown):
    """ast_node_interactivity decides which values are shown, as in a cell without a magic."""
    shell.ast_node_interactivity = setting
    body = "3\n4\n5" if setting in ("all", "last") else "3\n4\ny = 5"
    assert " ".join(ran(shell, body)) == shown


@pytest.mark.parametrize(("target", "name"), [("y = 1", "y"), ("y: int = 1", "y"), ("y += 1", "y"), ("y.z = 1", None),
                                             ("y = z = 1", None), ("y, z = 1, 2", None)])  # fmt: skip
def test_of_an_assignment_the_one_name_is_shown(target, name):
    """With last_expr_or_assign, an assignment to one name is shown; to an attribute or several names it is not."""
    found = cell._name_of_assigned(ast.parse(target).body)
    assert [ast.unparse(statement) for statement in found] == ([name] if name else [])


@pytest.mark.parametrize(("text", "expected"), [
    ("await f()", True), ("async def f():\n    await g()", False), ("async for x in y: pass", True),
    ("async with f(): pass", True), ("[x async for x in y]", True), ("lambda: (yield)", False), ("f()", False),
    ("class A:\n    x = [await f()]", True),
])  # fmt: skip
def test_a_cell_that_awaits_is_found(text, expected):
    """An await at the cell's own level is found, and one in a function is not."""
    assert cell.awaits(ast.parse(text)) is expected


def test_a_cell_that_awaits_is_rejected_with_a_way_out(shell):
    """A cell with await raises a usage error, because a magic has no event loop."""
    with pytest.raises(UsageError, match="await in a cell of its own"):
        parsed(shell, "import asyncio\nawait asyncio.sleep(0)")


def test_functions_and_classes_name_the_cell(shell):
    """The functions and classes of the cell's own level are listed in order."""
    found = parsed(shell, "def f(): pass\nclass Net:\n    def forward(self): pass\nx = 1")
    assert found.defines == "f, Net" and len(found.codes) == 3


def test_the_change_is_the_last_to_see_the_tree(shell):
    """The change runs after the shell's transformers, and its result is executed."""

    class Twice(ast.NodeTransformer):
        def visit_Constant(self, node):  # noqa: N802
            return ast.copy_location(ast.Constant(node.value * 2), node)

    shell.ast_transformers.append(Twice())
    seen = []

    def change(tree):
        seen.append(ast.unparse(tree))
        return tree

    ran(shell, "x = 4", change)
    assert seen == ["x = 8"] and shell.user_ns["x"] == 8


def test_a_traceback_begins_in_the_cell(shell):
    """IPython prints neither the magic's frames nor this module's; the next raise has its own traceback."""
    with pytest.raises(ZeroDivisionError) as raised:
        ran(shell, "def f(x):\n    return x / 0\nf(1)")
    text = "\n".join(raised.value._render_traceback_())
    assert "return x / 0" in text and "cell.py" not in text and "exec(code" not in text
    assert not hasattr(raised.value, "_render_traceback_")


@pytest.mark.parametrize("cell_text", ["1 / 0", "x =", "import torch\ndef f(x):\n    return x / y\nf(torch.ones(2))"])
def test_a_traceback_names_the_cell_that_ran(run, cell_text):
    """The number in a traceback is that of the cell, also in a cell after others."""
    for magic in ("", "%%compile\n", "%%compile\n"):
        ran = run(magic + cell_text)
        assert set(re.findall(r"Cell In\[(\d+)\]", ran.out + ran.err)) == {str(ran.number)}


LINES = "def g(x):\n    return x / 0\n\n{}g(1)\n3"


@pytest.mark.parametrize("magic", ["", "%compile ", "r = %compile ", "if True:\n    %compile "])
def test_a_line_has_its_number_in_the_cell(run, magic):
    """A traceback through the code of a line magic names the line of the cell, with the cell's other lines around it."""
    ran = run(LINES.format(magic))
    line = 4 + magic.count("\n")
    shown = re.findall(rf"Cell In\[{ran.number}\], line (\d+)", ran.out)
    assert shown == [str(line), "2"]
    assert f"----> {line} " in ran.out and "1 def g(x):" in ran.out


def test_a_magic_of_a_program_has_the_number_of_the_cell_that_runs_it(run, tmp_path):
    """Lines of a program that %run runs are not those of the cell: the text of the magic begins at line 2."""
    script = tmp_path / "script.py"
    script.write_text("get_ipython().run_cell_magic('compile', '', '1 / 0')\n")
    ran = run(f"x = 3\nx = 4\n%run -i {script}")
    assert f"Cell In[{ran.number}], line 2" in ran.out


def test_a_syntax_error_of_a_line_has_its_number_in_the_cell(run):
    """The caret is below the line of the cell."""
    ran = run("x = 3\n%compile x +")
    assert f"Cell In[{ran.number}], line 2\n    x +" in ran.out


def deep(number):
    return deep(number - 1) if number else 1 / 0


def test_calls_of_one_line_are_shown_three_times():
    """Repeated calls are cut to three with a note; a short traceback is unchanged."""
    for number in (2, 30):
        try:
            deep(number)
        except ZeroDivisionError as error:
            trace = error.__traceback__
        shown, words = cell.without_repetitions(trace)
        names = [part.tb_frame.f_code.co_name for part in cell._parts(shown)]
        if number == 2:
            assert shown is trace and words == []
        else:
            # The innermost call is of the same line.
            assert names.count("deep") == cell.MOST_ALIKE and len(words) == 1
            assert words[0].startswith("[... 28 more calls like this: deep at line ")


def test_a_syntax_error_marks_the_cell_or_is_raised(shell):
    """In a running cell, a syntax error is shown without a stack; elsewhere it is raised."""
    error = SyntaxError("of the cell")
    with pytest.raises(SyntaxError, match="of the cell"):
        cell.show_syntax_error(shell, error)

    shell.displayhook.exec_result = ExecutionResult(None)
    try:
        with capture_output() as captured:
            try:
                raise error
            except SyntaxError:
                cell.show_syntax_error(shell, error)
        assert shell.displayhook.exec_result.error_before_exec is error
        assert "Traceback" not in captured.stdout
    finally:
        shell.displayhook.exec_result = None
