"""The function that ``compile`` returns."""

import inspect
import traceback

import pytest
import torch

import nbcompile
from nbcompile import hooks
from nbcompile.dispatch import library_calls
from nbcompile.eval_frame import wrapper
from nbcompile.options import Options
from nbcompile.support import wrappers
from tests.support.graphs import Graphs


def double(x: torch.Tensor) -> torch.Tensor:
    """Twice x."""
    return x * 2


def test_a_wrapper_looks_like_what_it_wraps():
    """The name, docstring and signature are the function's, and the wrapper has the function and the options."""
    compiled = nbcompile.compile(double, backend="eager", fullgraph=True)
    assert (compiled.__name__, compiled.__doc__) == ("double", "Twice x.")
    assert inspect.signature(compiled) == inspect.signature(double)
    assert wrappers.original(compiled) is wrappers.innermost(compiled) is double
    assert getattr(compiled, wrapper.OPTIONS) == Options(fullgraph=True, backend="eager")


def test_a_bound_method_stays_bound():
    """``compile(model.method)`` wraps the bound method, which is called with its object."""

    class Scale:
        factor = 3

        def apply(self, x):
            return x * self.factor

    scale = Scale()
    assert wrappers.innermost(scale.apply) == scale.apply
    assert torch.equal(nbcompile.compile(scale.apply, backend="eager")(torch.ones(2)), torch.full((2,), 3.0))


def test_the_code_of_a_modules_call_is_that_of_forward():
    """``compile(module.__call__)`` compiles ``forward``; a callable without code has none."""
    module = torch.nn.Linear(2, 2)
    assert wrapper.code_of(module._call_impl) is torch.nn.Linear.forward.__code__
    assert wrapper.code_of(double) is double.__code__
    assert wrapper.code_of(torch.sin) is None


def test_the_frame_of_a_users_function_is_met_as_it_is():
    """A library's function is called from a function of nbcompile; a user's function is not."""
    assert wrapper.find_first_function(double, double.__code__) is double
    entry = wrapper.find_first_function(torch.nn.functional.relu, wrapper.code_of(torch.nn.functional.relu))
    assert entry is not torch.nn.functional.relu
    assert entry.__code__.co_filename == library_calls.caller_of(torch.nn.functional.relu).__code__.co_filename


def test_the_path_of_calls_is_replaced_once_there_is_a_faster_one(monkeypatch):
    """The installer receives a function that replaces the slow path for later calls."""
    installed = []
    fast = hooks.Hooks(call_installer=lambda *rest: installed.append(rest[-1]))
    monkeypatch.setattr(hooks, "installed", lambda: fast)
    compiled = wrapper.wrap(double, double, Options(backend="eager"))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    installed[0](lambda arguments, keywords: ("fast", arguments, keywords))
    assert compiled(1, y=2) == ("fast", (1,), {"y": 2})


def test_run_compiles_nothing_new():
    """``run`` uses an existing entry, and runs any other call in eager mode, without a second graph."""
    graphs = Graphs()

    compiled = nbcompile.compile(double, backend=graphs, dynamic=False)
    compiled(torch.ones(2))
    ran = nbcompile.run(compiled)
    assert torch.equal(ran(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.equal(ran(torch.ones(5)), torch.full((5,), 2.0))
    assert len(graphs) == 1
    with pytest.raises(nbcompile.exc.NotCallable):
        nbcompile.run(3)


def test_tracebacks_show_the_users_frames():
    """The traceback has no frame of nbcompile between the caller's line and the line that raised the error."""

    def fails(x):
        raise LookupError("there is none")

    with pytest.raises(LookupError) as caught:
        nbcompile.compile(fails, backend="eager")(torch.ones(2))
    names = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
    assert names == ["test_tracebacks_show_the_users_frames", "fails"]
