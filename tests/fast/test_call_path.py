"""From the third call on the frame hook is passed by, and nobody can tell but by the clock.

In torch: nothing; every call goes through the hook.
"""

import contextlib
import gc
import sys
import types
import warnings
import weakref
from unittest import mock

import pytest
import torch

import nbcompile
from nbcompile.dispatch import cache
from nbcompile.fast import call_path, fast_call
from tests.support.graphs import Graphs
from tests.support.threads import in_threads

pytestmark = pytest.mark.skipif(fast_call.tools() is None, reason="no compiler")


@pytest.fixture(autouse=True)
def fresh():
    nbcompile.reset()
    yield
    nbcompile.reset()


@pytest.fixture
def long_ways(monkeypatch):
    """Each call that goes through the hook."""
    seen = []
    real = nbcompile.dispatch.hook.FrameCallback.call

    def call(self, function, arguments, keywords):
        seen.append(function)
        return real(self, function, arguments, keywords)

    monkeypatch.setattr(nbcompile.dispatch.hook.FrameCallback, "call", call)
    return seen


def both(function, compiled, *arguments, **keywords):
    """Called through the compiler, and compared with eager."""
    result = compiled(*arguments, **keywords)
    assert same(result, function(*arguments, **keywords))
    return result


def same(first, second):
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return torch.equal(first, second) if isinstance(first, torch.Tensor) else first == second


def test_the_second_call_finds_it_and_the_third_takes_it(long_ways):
    """Two calls go through the hook, all others do not."""

    def f(x, y):
        return (x + y) * 2

    compiled = nbcompile.compile(f)
    for _ in range(5):
        both(f, compiled, torch.ones(4), torch.ones(4))
    assert len(long_ways) == 2


def test_a_record_of_results_is_made_on_the_short_way(long_ways):
    """The records that torch's operators return are made without the hook, as their classes run no Python."""

    def f(x):
        return torch.sort(x), x.topk(2), x.max(0)

    compiled = nbcompile.compile(f, fullgraph=True)
    for _ in range(4):
        found = both(f, compiled, torch.arange(4.0))
    assert [type(record) for record in found] == [type(record) for record in f(torch.arange(4.0))]
    assert len(long_ways) == 2


def test_a_class_of_the_user_is_called_with_the_hook(long_ways):
    """A tuple's class that Python defines may run code that is compiled."""
    made = []

    class Pair(tuple):
        __slots__ = ()

        def __new__(cls, items):
            made.append(cls)
            return super().__new__(cls, items)

    def f(x):
        return Pair((x + 1, x + 2))

    compiled = nbcompile.compile(f)
    for _ in range(4):
        both(f, compiled, torch.arange(4.0))
    assert len(made) == 8


def test_what_the_process_tells_is_asked_on_the_short_way(long_ways):
    """A guard on the answer of a function is an instruction: short calls ask, and refuse another answer."""

    def f(x):
        return x + sys.getrecursionlimit()

    compiled, before = nbcompile.compile(f), sys.getrecursionlimit()
    for _ in range(4):
        both(f, compiled, torch.ones(4))
    assert len(long_ways) == 2
    try:
        for limit in (before + 10, before, before + 10):
            sys.setrecursionlimit(limit)
            both(f, compiled, torch.ones(4))
    finally:
        sys.setrecursionlimit(before)
    assert len(cache.entries(f.__code__)) == 2


@pytest.mark.compiles
def test_another_size_is_compiled_and_both_are_short_in_the_end(long_ways):
    """What the checks refuse is compiled as ever; later calls of every kind are short."""

    def f(x):
        return x.relu() + x.shape[0]

    compiled = nbcompile.compile(f)
    for number in range(40):
        both(f, compiled, torch.ones(4 + number % 3))
    long_ways.clear()
    for number in range(30):
        both(f, compiled, torch.ones(4 + number % 3))
    assert len(cache.entries(f.__code__)) == 2
    assert not long_ways


def test_every_way_to_call_a_function(long_ways):
    """Keywords, defaults, closures, methods, further arguments: the result is eager's."""
    scale = torch.ones(3) * 3

    def f(x, y=2, *rest, k=None):
        return (x * y + scale + sum(rest), k)

    class Thing:
        size = 3

        def go(self, x, more=1):
            return x * self.size + more

    compiled, thing = nbcompile.compile(f), Thing()
    going, calls = nbcompile.compile(thing.go), 12
    for _ in range(calls):
        both(f, compiled, torch.ones(3))
        both(thing.go, going, torch.ones(3), more=4)
    for _ in range(calls):
        both(f, compiled, torch.ones(3), 5, 6, k="word")
        both(thing.go, going, torch.ones(3))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        compiled()
    assert len(long_ways) < 4 * calls


def test_what_changes_is_seen():
    """Globals, closures, attributes, grad mode, default dtype, threads, modes, marks: as if every guard were asked."""
    state = {"k": 2}
    other = 1.5

    def f(x):
        return x * state["k"] + other, x.requires_grad, torch.is_grad_enabled(), torch.ones(1).dtype

    compiled, x = nbcompile.compile(f), torch.ones(3)
    for _ in range(4):
        both(f, compiled, x)
    state["k"] = 3
    both(f, compiled, x)
    other = 2.5
    both(f, compiled, x)
    both(f, compiled, torch.ones(3, requires_grad=True))
    with torch.no_grad():
        both(f, compiled, x)
    with torch.inference_mode():
        both(f, compiled, torch.ones(3))
    torch.set_default_dtype(torch.float64)
    try:
        both(f, compiled, x)
    finally:
        torch.set_default_dtype(torch.float32)
    both(f, compiled, x)


def test_stances_and_whoever_watches_are_heard(long_ways):
    """A stance of ours or of torch's, and an explanation, need the long way."""

    def f(x):
        return x + 1

    compiled, x = nbcompile.compile(f), torch.ones(3)
    for _ in range(4):
        compiled(x)
    long_ways.clear()
    with nbcompile.set_stance("force_eager"):
        assert both(f, compiled, x) is not None
    with nbcompile.set_stance("fail_on_recompile"):
        compiled(x)
        assert len(long_ways) == 1
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(x)
        assert len(long_ways) == 2
    record = nbcompile.explain(compiled)(x).record
    assert [call.entry for call in record.calls] == ["0/0"]
    assert len(long_ways) == 3
    compiled(x)
    assert len(long_ways) == 3


def test_attempts_become_rare(monkeypatch):
    """Past the recompile limit, where no entry accepts the calls, the guards of all entries are asked for at few calls."""
    attempts, holder = [], types.SimpleNamespace(number=0)
    original = call_path.FastCallInstaller._try_to_install
    monkeypatch.setattr(
        call_path.FastCallInstaller, "_try_to_install", lambda *given: (attempts.append(1), original(*given))
    )

    @nbcompile.compile(recompile_limit=2, dynamic=False)
    def f(x):
        return x * holder.number

    x = torch.ones(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(600):
            holder.number = number
            assert f(x).tolist() == [number] * 3
    assert 4 <= len(attempts) <= 10


def test_past_the_limit_no_hook_looks(long_ways):
    """A call that all entries refuse runs without the hook, once each has a fast call; reset() compiles it again."""
    graphs = Graphs()

    def f(x, number):
        return x * number

    compiled, x = nbcompile.compile(f, backend=graphs, recompile_limit=2, dynamic=False), torch.ones(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in (2.5, 3.5):
            for _ in range(16):
                compiled(x, number)
        for _ in range(200):
            assert both(f, compiled, x, 4.5) is not None
    long_ways.clear()
    for number in (2.5, 3.5, 4.5, 5.5):
        assert both(f, compiled, x, number) is not None
    assert not long_ways
    assert [call.entry for call in nbcompile.explain(compiled)(x, 5.5).record.calls] == [""]
    with torch.profiler.profile():
        compiled(x, 2.5)
    assert len(long_ways) == 2
    nbcompile.reset()
    compiled(x, 4.5)
    assert len(graphs) == 3


def compiled_past_the_limit(function, x):
    """The function with an entry for 2.5 and one for 3.5, each with a fast call; and a list of the graphs' runs."""
    ran = []

    def backend(graph, _inputs):
        return lambda *arguments: ran.append(1) or graph(*arguments)

    compiled = nbcompile.compile(function, backend=backend, recompile_limit=2, dynamic=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in (2.5, 3.5):
            for _ in range(4):
                compiled(x, number)
        for _ in range(63):
            compiled(x, 4.5)
        ran.clear()
        compiled(x, 4.5)
    return compiled, ran


def test_past_the_limit_entries_are_used_after_a_profile():
    """A profiler that has run keeps its callbacks, so fast calls stay off: the hook finds the entries that exist."""

    def f(x, number, more=0):
        return x * number + more

    x = torch.ones(3)
    compiled, ran = compiled_past_the_limit(f, x)
    assert not ran
    f.__defaults__ = (int("0"),)  # an equal tuple, but not the one that fast calls know
    compiled(x, 2.5)
    with torch.profiler.profile():
        compiled(x, 2.5)
    compiled(x, 2.5)
    assert len(ran) == 3


def test_past_the_limit_the_functions_that_are_called_use_their_entries():
    """A function that breaks the graph has entries of its own, and uses them where its caller has none for a call."""

    def callee(x):
        print(end="")
        return x.sin()

    def f(x, number):
        return callee(x * number)

    _, ran = compiled_past_the_limit(f, torch.ones(3))
    assert ran


def test_reset_forgets_fast_calls():
    """After reset() a call compiles anew."""
    graphs = Graphs()

    def f(x):
        return x * 2

    compiled = nbcompile.compile(f, backend=graphs)
    for _ in range(4):
        compiled(torch.ones(3))
    nbcompile.reset()
    compiled(torch.ones(3))
    assert len(graphs) == 2


def test_an_object_that_dies_takes_its_fast_call_with_it():
    """What a guard recognises by identity may die and another come to lie in its place."""
    graphs = Graphs()

    def helper():
        return 1

    holder = {"f": helper}

    def f(x):
        return x * holder["f"]()

    compiled, x = nbcompile.compile(f, backend=graphs), torch.ones(3)
    for _ in range(4):
        both(f, compiled, x)
    gone = weakref.ref(helper)
    del helper
    for number in range(2, 6):
        exec(f"def helper(): return {number}", scope := {})
        holder["f"] = scope.pop("helper")
        gc.collect()
        both(f, compiled, x)
    assert gone() is None


def test_a_break_is_gone_on_from(long_ways):
    """After a graph break the functions that go on meet the hook; effects happen once in each call."""
    log = []

    def f(x):
        y = x + 1
        nbcompile.graph_break()
        log.append(len(log))
        return y * 2

    compiled = nbcompile.compile(f)
    for _ in range(8):
        both(f, compiled, torch.ones(3))
    assert log == list(range(16))


def test_two_wrappers_share_what_is_compiled():
    """Another compile() of the same function finds the entries, and takes its own fast call to them."""
    graphs = Graphs()

    def f(x):
        return x * 2

    for _ in range(2):
        compiled = nbcompile.compile(f, backend=graphs)
        for _ in range(4):
            both(f, compiled, torch.ones(3))
    assert len(graphs) == 1


def test_threads_take_it_at_once():
    """Several threads call through one fast call."""

    def f(x):
        return (x + 1).relu() * 3

    compiled, wrong = nbcompile.compile(f), []
    for _ in range(4):
        compiled(torch.ones(4))

    def work(seed):
        for number in range(200):
            x = torch.full((4,), float(seed * number))
            if not torch.equal(compiled(x), f(x)):
                wrong.append(number)

    in_threads(work)
    assert not wrong


def test_an_error_names_the_line_of_the_user():
    """An index that is out of bounds, met on the short way, is told at the line where it was written."""

    def f(x, index):
        return x[index] * 2

    compiled = nbcompile.compile(f)
    for _ in range(4):
        compiled(torch.ones(4), torch.tensor([1, 2]))
    with pytest.raises(IndexError) as caught:
        compiled(torch.ones(4), torch.tensor([1, 9]))
    assert any(each.frame.code.raw is not None and each.name == "f" for each in caught.traceback)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.inner = torch.nn.Linear(3, 3)
        self.scale = 2

    def forward(self, x, more=1):
        return self.inner(x * self.weight * self.scale) + more


@contextlib.contextmanager
def hooked(register, hook):
    handle = register(hook)
    try:
        yield
    finally:
        handle.remove()


CHANGES = {
    "a forward hook": lambda net: hooked(net.register_forward_hook, lambda net, given, made: made * 2),
    "a forward pre-hook": lambda net: hooked(net.register_forward_pre_hook, lambda net, given: (given[0] * 3,)),
    "a hook of all modules": lambda net: hooked(
        torch.nn.modules.module.register_module_forward_hook, lambda net, given, made: made * 2
    ),
    "a hook below": lambda net: hooked(net.inner.register_forward_hook, lambda net, given, made: made * 5),
    "another forward of the object": lambda net: mock.patch.object(net, "forward", lambda x: x * 7, create=True),
    "another forward of the class": lambda net: mock.patch.object(Net, "forward", lambda self, x: x * 8),
    "another call of the class": lambda net: mock.patch.object(Net, "__call__", lambda self, x: x * 9),
    "another attribute": lambda net: mock.patch.object(net, "scale", 11),
    "another parameter": lambda net: mock.patch.object(net, "weight", torch.nn.Parameter(torch.ones(3) * 4)),
    "another module below": lambda net: mock.patch.object(net, "inner", torch.nn.Linear(3, 3, bias=False)),
    "a profiler": lambda net: torch.profiler.profile(),
    "a tracer of Python": lambda net: traced(),
}


@contextlib.contextmanager
def traced():
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("in_place", [False, True])
def test_a_module_is_called_past_the_hook_while_its_call_leads_to_forward_alone(long_ways, change, in_place):
    """Hooks, a forward of the object's own, other classes' methods, attributes: seen at once, and when they go."""
    net, twin = Net(), Net()
    twin.load_state_dict(net.state_dict())
    compiled = net if in_place else nbcompile.compile(net)
    if in_place:
        nbcompile.compile_module_(net)
    x = torch.randn(3)
    torch.manual_seed(0)
    for _ in range(5):
        torch.testing.assert_close(compiled(x), twin(x))
    assert len(long_ways) == 2
    torch.manual_seed(0)
    with CHANGES[change](net):
        torch.manual_seed(0)
        with CHANGES[change](twin) if change != "another module below" else contextlib.nullcontext():
            if change == "another module below":
                twin_inner, twin.inner = twin.inner, net.inner
            for _ in range(8):  # long enough for another fast call
                torch.testing.assert_close(compiled(x), twin(x))
    if change == "another module below":
        twin.inner = twin_inner
    torch.testing.assert_close(compiled(x), twin(x))
    torch.testing.assert_close(compiled(x, more=2), twin(x, more=2))


def test_a_module_learns_on_the_short_way():
    """Gradients come through, and steps of an optimizer are seen: parameters are the same objects with other numbers."""
    net, twin = Net(), Net()
    twin.load_state_dict(net.state_dict())
    compiled, x = nbcompile.compile(net), torch.randn(5, 3)
    both_nets = (compiled, net), (twin, twin)
    steps = [torch.optim.SGD(each.parameters(), 0.001) for _, each in both_nets]
    for _ in range(6):
        for (call, _), step in zip(both_nets, steps, strict=True):
            step.zero_grad()
            call(x).square().sum().backward()
            step.step()
    for mine, theirs in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_forward_that_takes_its_module_among_the_rest():
    """``def forward(*args)``: there is no first argument to be bound to; the long way knows how."""

    class Odd(torch.nn.Module):
        def forward(*args):  # noqa: N805 - what is tested
            return args[1] * 2

    compiled = nbcompile.compile(Odd())
    for _ in range(4):
        assert torch.equal(compiled(torch.ones(2)), torch.ones(2) * 2)


class Configured(torch.nn.Module):
    """As the models of Hugging Face are built: a configuration that answers in Python, a forward behind a decorator."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

    def plain(self, x, scale=1.0, **more):
        for layer in self.layers:
            x = layer(x) * self.config.width
        return x * scale + len(more) + getattr(self.config, "nothing", 0)

    def forward(self, *arguments, **keywords):
        return self.plain(*arguments, **keywords)


class Answers:
    def __init__(self, width):
        self.width = width

    def __getattribute__(self, name):
        return super().__getattribute__(name)


@pytest.mark.compiles
def test_a_model_that_takes_all_by_name_has_a_short_way(long_ways):
    """Keywords of no argument's name, a class that answers in Python, an attribute that is not there."""
    net = Configured(Answers(2.0)).eval()
    compiled, x = nbcompile.compile(net), torch.randn(5, 4)
    for _ in range(6):
        both(net, compiled, x=x, scale=0.5, other=3)
    assert len(long_ways) == 2
    long_ways.clear()
    net.config.width = 3.0
    both(net, compiled, x=x, scale=0.5, other=3)
    net.config.nothing = 1.0
    both(net, compiled, x=x, scale=0.5, other=3)
    both(net, compiled, x=x, scale=0.5)
    both(net, compiled, x=x, scale=0.25, other=3)
    assert len(long_ways) == 4


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.sizes = torch.nn.Parameter(torch.randn(4)), [1, 2]

    def forward(self, x):
        return x * self.scale + self.sizes[1]


def test_a_check_may_be_long(long_ways):
    """Of a model with a hundred layers."""
    net = torch.nn.Sequential(*(Scaled() for _ in range(100)))
    compiled, x = nbcompile.compile(net), torch.randn(5, 4)
    with torch.no_grad():
        for _ in range(5):
            both(net, compiled, x)
    assert len(long_ways) == 2
