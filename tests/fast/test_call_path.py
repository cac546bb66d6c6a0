"""Calls that bypass the frame hook from the third call on: only the time differs.

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
    """The calls that go through the hook."""
    seen = []
    real = nbcompile.dispatch.hook.FrameCallback.call

    def call(self, function, arguments, keywords):
        seen.append(function)
        return real(self, function, arguments, keywords)

    monkeypatch.setattr(nbcompile.dispatch.hook.FrameCallback, "call", call)
    return seen


def both(function, compiled, *arguments, **keywords):
    """The result of a compiled call, after a comparison with eager mode."""
    result = compiled(*arguments, **keywords)
    assert same(result, function(*arguments, **keywords))
    return result


def same(first, second):
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return torch.equal(first, second) if isinstance(first, torch.Tensor) else first == second


def test_the_second_call_finds_it_and_the_third_takes_it(long_ways):
    """Two calls go through the hook, and later ones do not."""

    def f(x, y):
        return (x + y) * 2

    compiled = nbcompile.compile(f)
    for _ in range(5):
        both(f, compiled, torch.ones(4), torch.ones(4))
    assert len(long_ways) == 2


def test_a_record_of_results_is_made_on_the_short_way(long_ways):
    """Named tuples of torch's operators are created without the hook, because their classes run no Python."""

    def f(x):
        return torch.sort(x), x.topk(2), x.max(0)

    compiled = nbcompile.compile(f, fullgraph=True)
    for _ in range(4):
        found = both(f, compiled, torch.arange(4.0))
    assert [type(record) for record in found] == [type(record) for record in f(torch.arange(4.0))]
    assert len(long_ways) == 2


def test_a_class_of_the_user_is_called_with_the_hook(long_ways):
    """A tuple class in Python may run code that is compiled."""
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
    """A guard on the result of a function is an instruction, which fast calls evaluate."""

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
    """A call that the checks reject is compiled; later calls of every kind are fast."""

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
    """Keywords, defaults, closures, methods and further arguments give eager mode's results."""
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
    """Changes of globals, closures, attributes, grad mode and default dtype have an effect on the next call."""
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
    """A stance of nbcompile or torch, and an explanation, use the slow path."""

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
    """Beyond the recompile limit, the guards of all entries are checked only in few calls."""
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
    """A call that all entries reject runs without the hook; reset() compiles the function again."""
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
    """The function with fast calls for 2.5 and 3.5, and a list of the graphs' runs."""
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
    """A profiler's callbacks remain, which disables fast calls: the hook uses the existing entries."""

    def f(x, number, more=0):
        return x * number + more

    x = torch.ones(3)
    compiled, ran = compiled_past_the_limit(f, x)
    assert not ran
    f.__defaults__ = (int("0"),)  # an equal tuple, but not the one that fast calls expect
    compiled(x, 2.5)
    with torch.profiler.profile():
        compiled(x, 2.5)
    compiled(x, 2.5)
    assert len(ran) == 3


def test_past_the_limit_the_functions_that_are_called_use_their_entries():
    """A callee that breaks the graph uses its own entries, also if its caller has none for the call."""

    def callee(x):
        print(end="")
        return x.sin()

    def f(x, number):
        return callee(x * number)

    _, ran = compiled_past_the_limit(f, torch.ones(3))
    assert ran


def test_reset_forgets_fast_calls():
    """A call after reset() compiles again."""
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
    """An object that a guard identifies may be freed, and another one may get its address."""
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
    """Resume functions use the hook after a graph break; side effects happen once in each call."""
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
    """Another compile() of the same function uses the entries, with its own fast call."""
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
    """An index error in a fast call has the line of the user's code."""

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
    """Hooks, a new ``forward``, methods of other classes and attributes have an effect at once."""
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
            for _ in range(8):  # enough calls for another fast call
                torch.testing.assert_close(compiled(x), twin(x))
    if change == "another module below":
        twin.inner = twin_inner
    torch.testing.assert_close(compiled(x), twin(x))
    torch.testing.assert_close(compiled(x, more=2), twin(x, more=2))


def test_a_module_learns_on_the_short_way():
    """Gradients are right, and steps of an optimizer are visible, because the parameters are the same objects."""
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
    """``def forward(*args)`` has no parameter for the module, so the slow path is used."""

    class Odd(torch.nn.Module):
        def forward(*args):  # noqa: N805 - what is tested
            return args[1] * 2

    compiled = nbcompile.compile(Odd())
    for _ in range(4):
        assert torch.equal(compiled(torch.ones(2)), torch.ones(2) * 2)


class Configured(torch.nn.Module):
    """A model like those of Hugging Face: its configuration has ``__getattribute__``, its forward is wrapped."""

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
    """Unknown keywords, a class with ``__getattribute__``, and a missing attribute allow fast calls."""
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
    """A model with a hundred layers has fast calls."""
    net = torch.nn.Sequential(*(Scaled() for _ in range(100)))
    compiled, x = nbcompile.compile(net), torch.randn(5, 4)
    with torch.no_grad():
        for _ in range(5):
            both(net, compiled, x)
    assert len(long_ways) == 2
