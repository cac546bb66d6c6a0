"""The magics, with a fake compiler that records its arguments."""

from __future__ import annotations

import ast
import functools
import inspect
import io
import pdb  # noqa: T100  (what is tested)
import textwrap

import pytest
from IPython.core.error import UsageError

from nbcompile.jupyter import magics
from nbcompile.record import recorder
from nbcompile.views import sections


@pytest.fixture
def asked(monkeypatch):
    """A replacement of api.compile: calls run eagerly, and each first call is recorded as a frame."""
    asked = []

    def compile(function, **options):
        asked.append((function.__name__, options))
        seen = []

        @functools.wraps(function)
        def wrapper(*args, **keywords):
            if not seen:
                seen.append(True)
                with recorder.frame(f"{len(asked) - 1}/0", function.__name__) as page:
                    if page is not None:
                        page.write(status="compiled", source=inspect.getsource(function))
            return function(*args, **keywords)

        wrapper._torchdynamo_orig_callable = function
        return wrapper

    monkeypatch.setattr(magics.api, "compile", compile)
    return asked


def names(asked):
    return [name for name, _ in asked]


def cell(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def test_a_cell_runs_as_it_would(run, asked):
    """Output, value and Out[n] are those of the cell; one picture follows, in text and HTML."""
    ran = run("%%compile\ndef f(x):\n    print('in f')\n    return x + 1\nf(41)")
    assert ran.value == 42
    assert ran.out.startswith("in f\n")
    assert run("_").value == 42
    assert len(ran.pictures) == 1
    assert "text/plain" in ran.pictures[0]
    assert names(asked) == ["f"]


def test_a_semicolon_silences_the_value(run, asked):
    """A trailing `;` hides only the value."""
    ran = run("%%compile\ndef f(x):\n    return x\nf(1);")
    assert ran.value is None
    assert "Out[" not in ran.out
    assert len(ran.pictures) == 1


def test_quiet_shows_no_picture(run, asked):
    """--quiet runs and compiles, and shows only the cell's value."""
    ran = run("%%compile --quiet\ndef f(x):\n    return x\nf(1)")
    assert (ran.value, ran.pictures, names(asked)) == (1, [], ["f"])


def test_output_is_bound(run, shell, asked):
    """-o NAME binds the result; its .record has the frames."""
    run("%%compile -q -o seen\ndef f(x):\n    return x\nf(1)")
    assert [frame.function for frame in shell.user_ns["seen"].record.frames] == ["f"]
    assert shell.user_ns["seen"].record.function == "f"


def test_predictions_come_first(run, shell, asked):
    """--predict shows questions before the usual or requested sections."""
    run("%%compile -q --predict -o seen\ndef f(x):\n    return x\nf(1)")
    assert shell.user_ns["seen"].sections == tuple(sections.SECTIONS)
    run("%%compile -q --predict --show graph,source -o seen\ndef f(x):\n    return x\nf(1)")
    assert shell.user_ns["seen"].sections == ("predict", "source", "graph")


def test_options_reach_the_compiler(run, asked):
    """The flags become torch.compile's arguments."""
    run("%%compile --fullgraph --dynamic --backend eager --mode max-autotune\ndef f(): pass")
    run("%%compile --no-dynamic\ndef g(): pass")
    assert asked[0][1] == {"fullgraph": True, "dynamic": True, "backend": "eager", "mode": "max-autotune"}
    assert asked[1][1] == {"fullgraph": False, "dynamic": False, "backend": "inductor", "mode": None}


def test_a_target_is_an_option_of_the_backend(run, asked):
    """The magic passes any chip to the backend as an option."""
    run("%%compile --target sm_90\ndef f(): pass")
    run("%%compile -t sm_91\ndef f(): pass")
    assert [how["options"] for _, how in asked] == [{"target": "sm_90"}, {"target": "sm_91"}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("%%compile --nonsense\n1", "unrecognized arguments: --nonsense (%compile? lists the options)"),
        ("%%compile --show gards\n1", "no section is named 'gards'"),
        ("%%compile --backend inducter\n1", "Did you mean 'inductor'?"),
        ("%%compile -o 1x\n1", "-o: expected a variable name"),
        ("%%compile --target sm_90 --mode max-autotune\n1", "--target is for the backend inductor without a mode"),
        ("%%compile --target sm_90 --backend eager\n1", "--target is for the backend inductor without a mode"),
        ("%%compile f(x)\n1", "takes options only"),
        ("%compile", "expects a function or a call"),
        ("%compile 1 + 1", "expects a function or a call"),
        ("%%compile\nawait something()", "await in a cell of its own"),
        ("%%compile\nasync with a: pass", "await in a cell of its own"),
        ("%%compile\n[x async for x in y]", "await in a cell of its own"),
    ],
)
def test_a_usage_error_has_no_traceback(run, asked, text, says):
    """A usage error is one line about the magic's line."""
    ran = run(text)
    assert says in ran.err + ran.out
    assert "Traceback" not in ran.err + ran.out
    assert ran.error is not None


def test_async_functions_are_left_alone(run, shell, asked):
    """A coroutine function or a generator is not compiled."""
    ran = run("%%compile\nasync def f():\n    await g()\ndef h():\n    yield 1\nlist(h())")
    assert ran.value == [1]
    assert asked == []


FUNCTION = "import torch\ndef f(x):\n    return x.relu() * 2\nx = torch.arange(4.) - 2\n"
MODULE = (
    "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x.relu() * 2\n"
    "f = Net()\nx = torch.arange(4.) - 2\n"
)
LIBRARY = "import torch\nf = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Hardtanh(-1, 1))\nx = torch.arange(4.) - 2\n"


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("program", [FUNCTION, MODULE, LIBRARY], ids=["function", "module", "library"])
@pytest.mark.parametrize("calls", [1, 4])
def test_other_tracers_see_a_cells_functions_as_written(run, program, calls):
    """torch.jit.trace, torch.fx and torch.export give what they give without the magic, before and after fast calls."""
    assert run("%%compile -q -b eager\n" + program + "f(x)\n" * calls + "y = f(x)").error is None
    for tracer in ("torch.jit.trace(f, x)", "torch.fx.symbolic_trace(f)"):
        assert run(f"torch.equal({tracer}(x), y)").value is True
    if program is not FUNCTION:
        assert run("torch.equal(torch.export.export(f, (x,)).module()(x), y)").value is True


def test_options_come_in_any_order():
    """The table of options with values agrees with the parser."""
    parser = magics.CompileMagics.compile.parser
    with_value = {name for action in parser._actions if action.nargs is None for name in action.option_strings}
    assert with_value == magics._WITH_VALUE


def test_help(run):
    """`%%compile?` lists the options."""
    ran = run("from IPython import get_ipython\nprint(get_ipython().find_line_magic('compile').__doc__)")
    for option in ("--fullgraph", "--dynamic", "--no-dynamic", "--backend", "--mode", "--show", "--quiet", "--output"):
        assert option in ran.out


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("%%compile --fu", {"--fullgraph"}), ("%compile --no", {"--no-dynamic"}), ("%%compile --show gu", {"guards"}),
        ("%%compile -s graph,gu", {"graph,guards"}), ("%%compile -q --backend aot_eager_", {"aot_eager_decomp_partition"}),
        ("%%compile --target sm_9", {"sm_90"}),
    ],
)  # fmt: skip
def test_options_are_completed(run, shell, line, wanted):
    """Tab completes options, sections and backends, until the extension is unloaded."""
    assert wanted <= set(shell.complete(line.rpartition(" ")[2], line, len(line))[1])
    run("%unload_ext nbcompile")
    assert not wanted & set(shell.complete(line.rpartition(" ")[2], line, len(line))[1])
    run("%load_ext nbcompile")


def test_a_debugger_sees_the_cell(run, shell, asked):
    """pdb lists the lines of a function that was defined under the magic, at the current line."""
    run("%%compile\ndef f(x):\n    y = x + 1\n    return 1 / (y - 1)")
    commands = io.StringIO("list\nprint('y is', y)\nquit\n")
    told = io.StringIO()
    try:
        shell.user_ns["f"](0)
    except ZeroDivisionError as error:
        stopped = error.__traceback__
    debugger = pdb.Pdb(stdin=commands, stdout=told, nosigint=True, readrc=False)
    debugger.reset()
    debugger.interaction(None, stopped)
    assert "->\t    return 1 / (y - 1)" in told.getvalue()
    assert "y = x + 1" in told.getvalue()


def test_an_exception_is_the_cells(run, shell, asked):
    """An exception ends the cell; its traceback begins in the cell; the picture is shown."""
    text = "%%compile -o seen\ndef f(x):\n    return 1 / x\nf(1)\nf(0)\nnever = 1"
    ran = run(text)
    assert isinstance(ran.error, ZeroDivisionError)
    assert "never" not in shell.user_ns
    assert len(ran.pictures) == 1
    assert "run_cell_magic" not in ran.out
    assert "line 5" in ran.out  # f(0), by its line in the visible cell
    assert "line 3" in ran.out  # return 1 / x
    assert [frame.function for frame in shell.user_ns["seen"].record.frames] == ["f"]


def test_a_later_raise_shows_its_own_traceback(run, asked):
    """The same exception object, raised again elsewhere, has its new traceback."""
    run("%%compile\nerror = ValueError('again')\nraise error")
    ran = run("def elsewhere():\n    raise error\nelsewhere()")
    assert "elsewhere()" in ran.out


def test_interrupt(run, shell, asked):
    """Ctrl-C ends the cell as KeyboardInterrupt; the record is shown; no hook remains."""
    ran = run("%%compile\ndef f(x):\n    return x\nf(1)\nraise KeyboardInterrupt")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert len(ran.pictures) == 1
    assert not [name for name in shell.user_ns if name.startswith("__nbcompile")]
    assert not recorder.listening()


def test_a_syntax_error_is_plain(run, asked):
    """A syntax error has no stack, as without the magic, and the cell counts as failed."""
    ran = run("%%compile\ndef f(:\n    pass")
    plain = run("\ndef f(:\n    pass")
    assert isinstance(ran.error, SyntaxError)
    assert "SyntaxError" in ran.out
    assert "run_cell_magic" not in ran.out
    assert ran.out.splitlines()[1:] == plain.out.splitlines()[1:]


def test_code_that_parses_and_does_not_compile(run, shell, asked):
    """`return` outside a function is an error before anything runs, as in a plain cell."""
    ran = run("%%compile\nran = 1\nreturn 2")
    assert isinstance(ran.error, SyntaxError)
    assert "ran" not in shell.user_ns


def test_sources_are_found(run, shell, asked):
    """inspect finds the text of functions that were defined under the magic."""
    run("%%compile\n# a comment\ndef f(x):\n    return x + 1\n")
    assert inspect.getsource(shell.user_ns["f"]) == "def f(x):\n    return x + 1\n"


def test_redefinition(run, asked):
    """A cell that runs again defines, compiles and shows its functions again."""
    text = "%%compile\ndef f(x):\n    return x + 1\nf(1)"
    assert [run(text).value, len(run(text).pictures)] == [2, 1]
    assert run("%%compile\ndef f(x):\n    return x + 5\nf(1)").value == 6
    assert names(asked) == ["f", "f", "f"]


def test_other_magics_work_in_the_cell(run, asked):
    """Line magics and shell escapes in the body are IPython's."""
    ran = run("%%compile\nwhere = %pwd\ndef f(x):\n    return x\nf(len(where) > 0)")
    assert ran.value is True


def test_braces_and_dollars_survive(run, asked):
    """The magic's line and body are not expanded."""
    assert run("%%compile -q\ndef f(x):\n    return f'{x}' + '$HOME {y}'\nf(1)").value == "1$HOME {y}"


@pytest.mark.parametrize(
    ("interactivity", "body", "shown"),
    [
        ("last_expr", "1\n2", [2]), ("all", "1\n2", [1, 2]), ("none", "1\n2", []), ("last", "1\n2", [2]),
        ("last_expr_or_assign", "a = 7", [7]), ("last_expr_or_assign", "a: int = 8", [8]), ("last_expr", "a = 7", []),
    ],
)  # fmt: skip
def test_interactivity_is_the_shells(run, shell, asked, interactivity, body, shown):
    """InteractiveShell.ast_node_interactivity holds in the cell, too."""
    shell.ast_node_interactivity = interactivity
    ran = run("%%compile\n" + body)
    assert [int(each) for each in ran.out.split() if each.isdigit()] == shown or ran.value in shown
    assert (ran.value is None) == (not shown)


@pytest.mark.parametrize("line", ["-o 'a name'", "-o class", "-o 1x", '-o "', "--show '"])
def test_options_that_make_no_sense_are_told_in_one_line(run, line):
    """Unclosed quotes, and keywords as names, are a usage error without a stack."""
    ran = run(f"%%compile {line}\ndef f(x):\n    return x")
    assert isinstance(ran.error, UsageError), ran.error


def test_a_call_that_compiles_nothing_new_says_so(run, shell, asked):
    """A repeated call hits its entry, and the text says so, and not that nothing was called."""
    first = run("%%compile -b eager\nimport torch\ndef f(x):\n    return x * 2\nf(torch.ones(3))")
    again = run("%compile -b eager f(torch.ones(3))")
    assert (len(first.pictures), again.pictures) == (1, [])
    assert len(again.out.splitlines()[0]) > 20


def test_line_call(run, shell, asked):
    """%compile f(x) compiles one call, returns its value, and shows it."""
    run("def f(x):\n    return x * 2")
    ran = run("%compile f(21)")
    assert (ran.value, len(ran.pictures)) == (42, 1)
    run("y = %compile -q f(5)")
    assert shell.user_ns["y"] == 10
    run("%compile -q z = f(6)")
    assert shell.user_ns["z"] == 12
    assert run("%compile f('a b')").value == "a ba b"
    assert not hasattr(shell.user_ns["f"], "_torchdynamo_orig_callable")


def test_line_name(run, shell, asked):
    """%compile f binds the name to the compiled function."""
    run("def f(x):\n    return x * 2")
    run("%compile --backend eager f")
    assert asked == [("f", {"fullgraph": False, "dynamic": None, "backend": "eager", "mode": None})]
    assert hasattr(shell.user_ns["f"], "_torchdynamo_orig_callable")


def test_a_picture_that_fails_harms_nothing(run, asked, monkeypatch):
    """If a view raises, the cell has its value, and one line about the failure."""

    def broken(record, show=None):
        raise ZeroDivisionError("in a view")

    monkeypatch.setattr("nbcompile.views.html.render", broken)
    ran = run("%%compile\ndef f(x):\n    return x\nf(3)")
    assert ran.value == 3
    assert "cannot be drawn" in ran.pictures[0]["text/html"]


def test_unload(run, shell):
    """%unload_ext removes the magics; loading again restores them."""
    run("%unload_ext nbcompile")
    assert shell.find_cell_magic("compile") is None
    assert shell.find_line_magic("compile") is None
    run("%load_ext nbcompile")
    assert shell.find_cell_magic("compile") is not None


def test_the_wrapping_is_invisible(run, shell, asked):
    """Names, docstrings, decorators and the namespace are as without the magic."""
    run(
        cell('''
        %%compile
        import functools
        def twice(function):
            @functools.wraps(function)
            def inner(x):
                return function(function(x))
            return inner

        @twice
        def f(x):
            """Adds one."""
            return x + 1
    ''')
    )
    f = shell.user_ns["f"]
    assert (f.__name__, f.__doc__, f(1)) == ("f", "Adds one.", 3)
    assert not [name for name in shell.user_ns if name.startswith("__nbcompile")]


def test_the_tree_is_valid():
    """Each added node has a line in the source."""
    from nbcompile.jupyter.wrapping import decorate_definitions

    tree = decorate_definitions(
        ast.parse("if 1:\n    def f(): pass\nelse:\n    class A: pass\ng = lambda: 1\nh: object = f()")
    )
    assert compile(tree, "cell", "exec")
    assert ast.unparse(tree).count("__nbcompile_wrap__") == 4


def test_profile_of_a_cell(run, shell):
    """--profile measures kernels and lines of the cell, and shows them below the picture; -o binds both."""
    run("import torch")
    ran = run(
        "%%compile --profile -o seen\ndef f(x):\n    return (x.sin() * 2).sum()\nfor _ in range(3): f(torch.ones(9))"
    )
    assert ran.error is None, ran.out + ran.err
    assert len(ran.pictures) == 2
    profile = shell.user_ns["seen"].profile.data
    assert profile.calls == 3
    assert [line.text for line in profile.lines] == ["return (x.sin() * 2).sum()"]
    assert [line.place.line for line in profile.lines] == [3]
    assert run("f(torch.ones(9))").error is None


def test_profile_of_a_cell_that_raises(run):
    """The cell's own error propagates, and no profiler remains active."""
    run("import torch")
    ran = run("%%compile --profile\ndef f(x):\n    return x + 1\nf(torch.ones(2))\nraise KeyError('mine')")
    assert isinstance(ran.error, KeyError)
    assert run("import torch; torch.autograd._profiler_enabled()").value is False
