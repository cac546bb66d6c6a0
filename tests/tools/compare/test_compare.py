"""compare: the job, time limits, failures; and both compilers for real."""

from __future__ import annotations

import json
import threading

import pytest
import torch

import nbcompile
from nbcompile.record.comparison import EQUAL
from nbcompile.tools import compare
from nbcompile.tools.compare import job as jobs, processes
from tests.tools.compare import programs

pytestmark = [pytest.mark.timeout(900), pytest.mark.rotates(2)]


def run(function, *arguments, seconds: float = 200.0):
    job = jobs.Job(jobs.CallJob(function, ((arguments, {}),)), jobs.process_settings())
    return processes.run(jobs.pickle_job(job), ("nbcompile",), seconds)["nbcompile"]


@pytest.mark.peer
def test_both_compilers(tmp_path):
    """With a break and two sizes, frames, operators, breaks and recompiles agree; all of it is data."""
    calls = [(torch.ones(5, 8), torch.ones(8))]
    view = nbcompile.compare(programs.f, further_calls=calls, seconds=600)(torch.ones(4, 8), torch.ones(8))
    by_name = {fact.name: (fact.ours, fact.theirs) for fact in view.data.facts}
    assert (view.data.our_run.failure, view.data.their_run.failure) == ("", "")
    assert (view.data.our_run.difference, view.data.their_run.difference) == ("", "")
    for name in ("compiled frames", "operators captured", "graph breaks", "recompilations"):
        assert by_name[name][0] == by_name[name][1] > 0, name
    assert min(by_name["generated kernels"]) > 0
    assert {each.aspect for each in view.data.differences} <= {"guards", "AOT graph"}
    assert sum(guard.status == EQUAL for pair in view.data.frames for guard in pair.guards) > 40
    assert json.loads(view.to_json())["theirs"]["frames"][0]["function"] == "f"
    page = view.report(tmp_path / "out.html").read_text()
    assert "#include" in page
    assert "Data-dependent branching" in page


def test_a_time_limit():
    """A function that does not end is stopped, and the error names the limit."""
    found = run(programs.never_ends, torch.ones(2), seconds=5)
    assert found.result["failure"].startswith("did not end within 5 seconds")


def test_an_exception_is_an_outcome():
    """A function that raises in both modes has no difference."""
    found = run(programs.fails, torch.ones(2))
    assert found.result["outcomes"][0].error == found.result["eager"][0].error == "ValueError: not today"


def test_modules_and_output():
    """A module is sent with its parameters; only the function's output is kept."""
    torch.manual_seed(0)
    net, x = programs.net(), torch.randn(3, 4)
    found = run(net, x)
    assert torch.allclose(found.result["outcomes"][0].values[0], net(x).detach())
    assert set(run(programs.prints, x).output.splitlines()) == {"from the child"}


def test_what_is_compiled_is_compared_as_it_was():
    """A compiled function, module or method is unwrapped."""
    net = programs.net()
    assert compare.original(nbcompile.compile(programs.f)) is programs.f
    assert compare.original(nbcompile.compile(net)) is net
    assert compare.original(3) == 3


def test_what_cannot_be_sent():
    """A lock is rejected before a process starts, with advice."""
    with pytest.raises(jobs.CannotSendError, match=r"cannot be sent to another process.*lock"):
        nbcompile.compare(programs.f)(threading.Lock())
    with pytest.raises(TypeError, match="a function or a module, and not int"):
        nbcompile.compare(3)


def test_without_cloudpickle(monkeypatch):
    """Without cloudpickle, a function of __main__ is rejected, and the error says so."""
    monkeypatch.setitem(__import__("sys").modules, "cloudpickle", None)

    def f(x):
        return x

    with pytest.raises(jobs.CannotSendError, match=r"nbcompile\[compare\]"):
        jobs.pickle_job(f)
    main_module = __import__("sys").modules["__main__"]
    g = type(f)(f.__code__, {}, "g")
    g.__module__, g.__qualname__ = "__main__", "g"
    monkeypatch.setattr(main_module, "g", g, raising=False)
    with pytest.raises(jobs.CannotSendError, match="g is defined in a notebook"):
        jobs.pickle_job(g)


def test_closures_travel():
    """With cloudpickle, a closure and its values are sent."""
    pytest.importorskip("cloudpickle", reason="`make setup` installs it: it is in the extra `compare`")
    factor = torch.full((3,), 2.0)
    found = run(lambda x: x * factor, torch.ones(3))
    assert found.result["outcomes"][0].values[0].tolist() == [2.0, 2.0, 2.0]
