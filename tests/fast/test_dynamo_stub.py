"""The stub of torch._dynamo, which becomes the real package when a program uses it.

Each program runs in a new process, because an import cannot be undone. In torch: test/dynamo/test_misc.py, where a
program that never compiles must not import torch._dynamo.
"""

import itertools
import json
import os
import subprocess
import sys
import textwrap

import pytest
import torch

from tests.support.processes import ROOT, python

BEGIN = """
import sys, torch, nbcompile
from nbcompile.fast import dynamo_stub
f = nbcompile.compile(lambda x: (x.sin() * 2).sum(), backend="eager")
x = torch.arange(4.0)
assert torch.equal(f(x), (x.sin() * 2).sum())
assert dynamo_stub.is_stub()
"""
USES = [
    "assert torch._dynamo.optimize is sys.modules['torch._dynamo.eval_frame'].optimize",
    "from torch._dynamo import allow_in_graph, OptimizedModule",
    "from torch._dynamo import *; assert callable(allow_in_graph)",
    "import torch._dynamo.convert_frame as module; assert module is sys.modules[module.__name__]",
    "from torch._dynamo.variables.builder import VariableBuilder",
    "g = torch.compile(lambda x: x.cos() + 1, backend='eager'); assert torch.equal(g(x), x.cos() + 1)",
    "torch._dynamo.config.cache_size_limit = 3; torch._dynamo.reset(); assert torch._dynamo.config.cache_size_limit == 3",
    "assert torch.compiler.disable(x.sin).__name__; torch.compiler.reset()",
    "assert 'optimize' in dir(torch._dynamo)",
    "y = nbcompile.compile(lambda x, b: (b.add_(1), (x * b).sum())[1])(x.requires_grad_(), x.detach() + 1); y.backward()",
]


PARENT = (
    BEGIN
    + """
import json, os, traceback
for number, line in enumerate(sys.stdin):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        raised = ""
        try:
            exec(json.loads(line), {**globals(), "__name__": "__main__"})
        except BaseException:
            raised = traceback.format_exc()
        os.write(writer, raised.encode()[-20000:])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as written:
        raised = written.read()
    ended = os.waitpid(child, 0)[1]
    print(json.dumps([number, raised or (f"it ended with {ended}" if ended else "")]), file=sys.__stdout__, flush=True)
"""
)


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    """A process that runs each program in a fork of itself, so torch is imported once."""
    words = [sys.executable, "-c", PARENT]
    errors = tmp_path_factory.mktemp("parent") / "errors.txt"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as process,
    ):
        yield process, errors, itertools.count()
        process.stdin.close()


@pytest.fixture
def run(parent):
    """``run(*programs)`` runs each program in a fork of that process, and shows its exception."""

    def run(*programs):
        process, errors, numbers = parent
        for program in map(textwrap.dedent, programs):
            number, answered = next(numbers), -1
            print(json.dumps(program), file=process.stdin, flush=True)
            # The answer of a test that timed out is not used for the next program.
            while answered < number:
                answered, raised = json.loads(process.stdout.readline() or f'[{number}, "the parent ended"]')
            assert (answered, raised) == (number, ""), f"{program}\n{raised}\n{errors.read_text()[-4000:]}"

    return run


def test_what_a_program_raises_or_how_it_ends_is_seen(run):
    """An exception, or a process that ends, fails the test."""
    run("assert 1 + 1 == 2")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run("1 / 0")
    with pytest.raises(AssertionError, match="it ended with"):
        run("os._exit(3)")


@pytest.mark.compiles
def test_the_package_becomes_itself_when_it_is_used(run):
    """The package object is the same, each of its modules has run once, and compiled functions work."""
    program = """
before = torch._dynamo
import torch._dynamo.exc as exceptions
from torch.fx.experimental import validator
{use}
assert not dynamo_stub.is_stub()
assert torch._dynamo is before is sys.modules["torch._dynamo"]
assert torch._dynamo.exc is exceptions is sys.modules["torch._dynamo.exc"]
from torch._dynamo import convert_frame, source, utils
for module in (exceptions, source, utils):
    assert type(module) is type(sys) and module is sys.modules[module.__name__] and module.__spec__
assert issubclass(validator.ValidationException, exceptions.TorchDynamoException)
assert validator.dynamo_timed is utils.dynamo_timed
assert not any(type(each).__module__ == "nbcompile.fast.dynamo_stub" for each in sys.meta_path)
from torch._dynamo import guards, convert_frame
assert guards is sys.modules["torch._dynamo.guards"] and guards.__spec__.name == guards.__name__
assert torch._dynamo.convert_frame is convert_frame
g = nbcompile.compile(lambda x: x.exp() - 1, backend="eager")
assert torch.equal(g(x.detach()), x.detach().exp() - 1)
"""
    run(*(program.replace("{use}", use) for use in USES))


def test_an_inference_graph_needs_no_more(run):
    """An inference graph with a break is compiled without the real package."""
    run("""
@nbcompile.compile
def g(x):
    y = torch.softmax(x * 2, -1)
    nbcompile.graph_break()
    return y + x.size(0)

x = torch.randn(4, 3)
torch.testing.assert_close(g(x), torch.softmax(x * 2, -1) + 4)
assert dynamo_stub.is_stub()
assert "torch._dynamo.utils" not in sys.modules
""")


def test_an_input_that_is_a_view_needs_no_more(run):
    """The fake tensor of a view is created from its base, without imports of DTensor and triton."""
    program = """
before = set(sys.modules)
x, y = torch.randn(2, 8, 4).unbind()
compiled = nbcompile.compile(lambda x, y: (x + y) * 2, backend="eager")
assert torch.equal(compiled(x, y), (x + y) * 2)
heavy = ("torch._dynamo", "torch.distributed", "triton")
more = {name for name in set(sys.modules) - before if name.startswith(heavy)}
assert not more, more
assert dynamo_stub.is_stub()
from torch._dynamo.source import AttrSource, LocalSource
assert isinstance(AttrSource(LocalSource("x"), "y"), AttrSource)
"""
    run(program)


SYMBOLIC = """
g = nbcompile.compile(lambda x, k: (x * k).sum() + x.size(0), backend=lambda graph, inputs: backend(graph))
def backend(graph):
    {inside}
    return graph.forward
for size in (4, 6, 8):
    x = torch.arange(float(size))
    assert torch.equal(g(x, size), (x * size).sum() + size)
"""


@pytest.mark.skipif(torch.__version__ < "2.13", reason="earlier ones ask for the user's frame, and it for the tracer")
def test_symbolic_sizes_need_no_more(run):
    """ShapeEnv names its symbols with torch's classes, whose module imports nothing expensive."""
    program = (
        SYMBOLIC.replace("{inside}", "pass")
        + """
heavy = [name for name in sys.modules if name.startswith(("torch._dynamo.", "torch.distributed.tensor", "triton"))]
assert set(heavy) == {"torch._dynamo.source", "torch._dynamo.config"} and dynamo_stub.is_stub(), heavy
"""
    )
    run(program)


def test_names_of_symbols_stay_what_they_are(run):
    """The classes remain valid after the package becomes real, also during a compilation."""
    before = """
from torch._dynamo.source import TensorProperty, TensorPropertySource
from nbcompile.torch_internals.symbols import NamedSource
named = TensorPropertySource(NamedSource("L['x']"), TensorProperty.SIZE, 0)
{use}
import torch._dynamo.source as source
from torch._dynamo import bytecode_transformation, utils
assert not dynamo_stub.is_stub()
assert source.TensorPropertySource is TensorPropertySource and source.TensorProperty is TensorProperty
again = source.TensorPropertySource(NamedSource("L['x']"), source.TensorProperty.SIZE, 0)
assert named == again and hash(named) == hash(again) and named.name == "L['x'].size()[0]"
assert source.utils is utils and source.create_call_function is bytecode_transformation.create_call_function
dynamic = torch.compile(lambda x: x * x.size(0), backend="eager", dynamic=True)
assert torch.equal(dynamic(x), x * x.size(0)) and torch.equal(dynamic(x[1:]), x[1:] * (x.size(0) - 1))

class Twice(torch.nn.Module):
    def forward(self, x):
        return x.sin() * x.size(0)

program = torch.export.export(Twice(), (torch.ones(4),), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))
assert torch.equal(program.module()(torch.ones(6)), torch.ones(6).sin() * 6)
"""
    inside = SYMBOLIC.replace("{inside}", "torch._dynamo.optimize")
    after = SYMBOLIC.replace("{inside}", "pass") + "torch._dynamo.optimize"
    run(*(before.replace("{use}", use) for use in (inside, after)))


def test_a_trace_that_nobody_asked_for_is_off(run):
    """The structured trace is off, also after set_logs: AOTAutograd would print fake tensors to it, which can fail."""
    run("""
import logging
torch._logging.set_logs(graph_breaks=True)
assert logging.getLogger("torch.__trace").handlers
nbcompile.compile(lambda x: x.exp() - 1, backend="eager")(x)
assert not logging.getLogger("torch.__trace").handlers
""")


def test_an_optimizer_runs_and_is_not_looked_at(run):
    """Functions that torch hides from tracers are hidden before and after the package becomes real."""
    run("""
w = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([w], lr=0.5)

def step():
    optimizer.zero_grad()
    (w * 2).sum().backward()
    optimizer.step()
    return w.detach().clone()

assert dynamo_stub.is_stub()
assert torch.equal(nbcompile.compile(step, backend="eager")(), torch.zeros(3))
torch._dynamo.reset()
assert torch.equal(nbcompile.compile(step, backend="eager")(), -torch.ones(3))
if torch.__version__ >= "2.13":  # before it torch.compile fails at our entries of zero_grad (design/versions.md)
    assert torch.equal(torch.compile(step, backend="eager")(), -2 * torch.ones(3))
""")


def test_what_is_stub_imports_nothing_else(run):
    """Every module of the list can be imported alone."""
    run("""
import importlib
for name in sorted(dynamo_stub.INDEPENDENT_MODULES):
    importlib.import_module(f"torch._dynamo.{name}")
assert dynamo_stub.is_stub()
""")


def test_what_stands_in_becomes_what_it_stands_for(run):
    """One name of a module exists before the module has run; any other name runs it, once."""
    run(
        """
from torch._dynamo.source import RandomValueSource, LocalSource
assert dynamo_stub.is_stub() and "torch._dynamo.utils" not in sys.modules
import torch._dynamo.source as source
assert source is sys.modules["torch._dynamo.source"] is torch._dynamo.source
assert LocalSource is source.LocalSource
""",
        """
assert "torch._dynamo.utils" not in sys.modules and "torch._dynamo.exc" not in sys.modules
import torch._dynamo.utils as utils
assert dynamo_stub.is_stub() and utils.__spec__ and utils is torch._dynamo.utils
with torch.fx.experimental.validator.dynamo_timed("nothing"):
    pass
""",
        """
import importlib
source = importlib.import_module("torch._dynamo.source")
try:
    source.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
else:
    raise AssertionError
assert source.ConstantSource is torch._dynamo.source.ConstantSource
""",
    )


def test_nothing_is_replaced_that_is_there():
    """A program that has imported torch._dynamo is not affected."""
    begin = "import torch._dynamo as real\n" + BEGIN.rpartition("assert")[0]
    python(begin + "assert type(real) is type(torch) and torch._dynamo is real")
