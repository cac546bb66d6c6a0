"""Cells that are compiled with the real compiler."""

from __future__ import annotations

import gc
import time
import warnings
import weakref

import pytest
import torch

from nbcompile import api, backends, config
from nbcompile.dispatch import cache
from nbcompile.errors import GraphBreakWarning
from nbcompile.fast.disk_cache import writer
from nbcompile.jupyter import magics
from nbcompile.observe import torch_logs
from nbcompile.record import recorder
from nbcompile.support import wrappers
from nbcompile.torch_internals import eval_frame
from nbcompile.views.explanation import Explanation


@pytest.fixture(autouse=True)
def fresh():
    """Each test begins without compiled code, and leaves no hook and no recorder behind."""
    api.reset()
    hook = eval_frame.get_eval_frame_callback()
    yield
    assert eval_frame.get_eval_frame_callback() is hook
    assert not recorder.listening()


@pytest.fixture
def frames(shell):
    """The frames in `seen`, which a cell with `-o seen` recorded, as (function, status)."""
    return lambda: [(frame.function, frame.status) for frame in shell.user_ns["seen"].record.frames]


def test_a_function(run, shell, frames):
    """A function of the cell is compiled as one graph, and its value is eager's."""
    ran = run("%%compile -o seen --backend eager\nimport torch\ndef f(x):\n    return x.sin() + 1\nf(torch.ones(3))")
    assert torch.equal(ran.value, torch.ones(3).sin() + 1)
    assert frames() == [("f", "compiled")]
    assert len(ran.pictures) == 1


def test_it_stays_compiled(run, shell, frames):
    """In later cells the function hits its entry, and nothing is recompiled."""
    run("%%compile --backend eager\nimport torch\ndef f(x):\n    return x.sin() + 1\nf(torch.ones(3))")
    ran = run("%%compile -o seen --backend eager\ny = f(torch.zeros(3))\ny")
    assert torch.equal(ran.value, torch.ones(3))
    assert frames() == []
    assert "Nothing new was compiled: f ran code that was compiled before." in ran.out


def test_helpers_are_inlined(run, shell, frames):
    """A function that another one calls is inlined into its graph."""
    ran = run(
        "%%compile -o seen --backend eager\nimport torch\n"
        "def helper(x, *, by=2):\n    return x * by\n"
        "def f(x):\n    return helper(x) + helper(x, by=3)\n"
        "f(torch.ones(3))"
    )
    assert torch.equal(ran.value, torch.full((3,), 5.0))
    assert frames() == [("f", "compiled")]


def test_a_module_class(run, shell, frames):
    """A call of an instance compiles the class's forward, with inner modules of the cell; training works."""
    run(
        "%%compile -o seen --backend aot_eager\nimport torch\n"
        "class Inner(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.linear = torch.nn.Linear(4, 4)\n"
        "    def forward(self, x):\n        return self.linear(x).relu()\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.inner = Inner()\n"
        "    def forward(self, x):\n        return self.inner(x).sum()\n"
        "torch.manual_seed(0)\nnet = Net()\nx = torch.randn(2, 4)\nloss = net(x)\nloss.backward()"
    )
    names = shell.user_ns
    net, x = names["net"], names["x"]
    assert frames() == [("forward", "compiled")]
    expected = (x @ net.inner.linear.weight.T + net.inner.linear.bias).relu().sum()
    [gradient] = torch.autograd.grad(expected, [net.inner.linear.weight])
    assert torch.allclose(names["loss"], expected)
    assert torch.allclose(net.inner.linear.weight.grad, gradient)


def test_a_module_instance(run, shell, frames):
    """An instance of a library's module class is compiled in place."""
    ran = run(
        "%%compile -o seen --backend eager\nimport torch\ntorch.manual_seed(0)\n"
        "net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())\nx = torch.randn(2, 4)\nnet(x)"
    )
    net, x = shell.user_ns["net"], shell.user_ns["x"]
    assert type(net) is torch.nn.Sequential
    assert torch.equal(ran.value, (x @ net[0].weight.T + net[0].bias).relu())
    assert [status for _, status in frames()] == ["compiled"]


def test_one_call_on_a_line(run, shell, frames):
    """%compile f(x) compiles a function of an earlier cell, a method, or a module."""
    run("import torch\ndef f(x):\n    return x.cos()\nnet = torch.nn.ReLU()")
    assert torch.equal(run("%compile -o seen --backend eager f(torch.zeros(2))").value, torch.ones(2))
    assert frames() == [("f", "compiled")]
    run("class A:\n    k = 3\n    def scaled(self, x):\n        return x * self.k\na = A()")
    assert torch.equal(run("%compile -o seen --backend eager a.scaled(torch.ones(2))").value, torch.full((2,), 3.0))
    assert frames() == [("scaled", "compiled")]
    assert torch.equal(run("%compile -o seen --backend eager net(-torch.ones(2))").value, torch.zeros(2))
    assert [status for _, status in frames()] == ["compiled"]


def test_an_exception_inside_compiled_code(run, shell, frames):
    """The function's exception ends the cell as in plain Python, with its line; the picture is shown."""
    ran = run(
        "%%compile -o seen --backend eager\nimport torch\n"
        "def f(x):\n    y = x.sin()\n    raise ValueError('mine')\n"
        "f(torch.ones(3))"
    )
    assert isinstance(ran.error, ValueError)
    assert "mine" in ran.out
    assert "raise ValueError" in ran.out


BREAKING = """
import torch, zlib
def f(x):
    return x + zlib.crc32(b"a")
f(torch.ones(3))
"""


@pytest.mark.parametrize(
    ("options", "warns"), [("", False), ("--show breaks", False), ("--show graph", True), ("--quiet -o seen", True)]
)
def test_a_break_in_the_picture_is_no_warning_above_it(run, monkeypatch, options, warns):
    """If the picture shows breaks, there is no warning of the break; otherwise there is."""
    monkeypatch.setattr(torch_logs, "_warned", set())
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        ran = run(f"%%compile --backend eager {options}{BREAKING}")
    assert any(each.category is GraphBreakWarning for each in warned) is warns
    told = "".join(each["text/plain"] for each in ran.pictures)
    assert ("allow_in_graph" in told) is not warns, "what to do about it is told by the same"


def test_a_decorator_in_a_cell_warns_of_a_break(run, monkeypatch):
    """Without the magic there is no picture, so a break warns, in a later cell, too."""
    monkeypatch.setattr(torch_logs, "_warned", set())
    run(f"%%compile --backend eager{BREAKING}")
    plain = BREAKING.replace("def f", "import nbcompile\n@nbcompile.compile(backend='eager')\ndef f")
    with pytest.warns(GraphBreakWarning, match="crc32"):
        run(plain)


def test_fullgraph(run, frames):
    """With --fullgraph, a break ends the cell with its explanation."""
    text = "import torch\ndef f(x):\n    print(x)\n    return x\nf(torch.ones(1))"
    ran = run("%%compile --fullgraph -o seen --backend eager\n" + text)
    assert ran.error is not None
    assert "Explanation" in ran.out
    assert [status for _, status in frames()] != ["compiled"]


def test_a_failing_compiler(run, shell, frames):
    """If the backend fails, there is a warning; output, value and settings are as without the magic."""

    def broken(graph, inputs):
        raise ZeroDivisionError("in a backend")

    shell.user_ns["broken"] = broken
    backends.register(broken, name="broken")
    with pytest.warns(UserWarning, match="in a backend"):
        ran = run("%%compile -o seen --backend broken\nimport torch\ndef f(x):\n    return x + 1\nf(torch.ones(3))")
    assert torch.equal(ran.value, torch.full((3,), 2.0))
    assert [function for function, status in frames() if status != "compiled"] == ["f"]
    assert not config.suppress_errors


def test_interrupted_while_compiling(run, shell, frames):
    """Ctrl-C in the compiler ends the cell; the function works in the next one."""
    interrupts = [True]

    def interrupted(graph, inputs):
        if interrupts:
            interrupts.clear()
            raise KeyboardInterrupt
        return graph

    backends.register(interrupted, name="interrupted")
    ran = run("%%compile -o seen --backend interrupted\nimport torch\ndef f(x):\n    return x + 1\nf(torch.ones(3))")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert torch.equal(run("f(torch.ones(3))").value, torch.full((3,), 2.0))


def test_nothing_stays_when_the_cell_fails_early(run, shell):
    """After a syntax error, or an exception before any call, there is no hook (the fixture checks) and no name."""
    run("%%compile\ndef f(:")
    run("%%compile\ndef f(x):\n    return x\nundefined_name")
    assert not [name for name in shell.user_ns if name.startswith("__nbcompile")]


def test_a_cell_that_is_run_again_frees_what_it_led_to(run, shell):
    """If a cell runs again, the old function, its entries, and its record are freed."""
    cell = "%%compile -q --backend eager\nimport torch\ndef f(x):\n    return x.sin() + 1\nf(torch.ones(3));"
    run(cell)
    code = wrappers.original(shell.user_ns["f"]).__code__
    entries, function = [weakref.ref(each.code) for each in cache.entries(code)], weakref.ref(shell.user_ns["f"])
    assert len(entries) == 1
    del code
    for _ in range(3):
        run(cell)
    gc.collect()
    assert function() is None
    assert [each() for each in entries] == [None]
    kept = shell.magics_manager.registry["SessionMagics"]._cells
    assert len(kept) == 1


@pytest.mark.fast_path
def test_the_picture_does_not_wait_for_the_store(run, shell, monkeypatch):
    """The entry is stored after the picture is shown; only the call is waited for."""
    waiting = []

    class Looked(Explanation):
        def _repr_mimebundle_(self, include=None, exclude=None):
            time.sleep(20 * writer.POLL_INTERVAL)
            waiting.append(len(writer._queue.pending))
            return super()._repr_mimebundle_(include, exclude)

    monkeypatch.setattr(magics, "Explanation", Looked)
    run("%%compile\nimport torch\ndef f(x):\n    return x.sin() + 1\nf(torch.ones(3))")
    run("%compile f(torch.ones(3, dtype=torch.float64))")
    assert waiting == [1, 1]
    assert writer.flush(timeout=60)
