"""Section 31: fine-grained decorators and stances (FN)."""

import binascii
import zlib

import pytest
import torch

import nbcompile
from tests.support.watched import Graphs, differs, report_of, same, watch

x = torch.ones(3)
GB = torch._dynamo.graph_break
calls = []


def helper(x):
    x = x + 1
    GB()
    return x * 2


class Thing:
    pass


thing = Thing()


def fresh(function):
    """The same function with a separate code object."""
    function.__code__ = function.__code__.replace()
    return function


@pytest.mark.parametrize("allow_in_graph", [torch.compiler.allow_in_graph, nbcompile.allow_in_graph])
def test_FN_1_allow_in_graph(allow_in_graph):
    """A call is one node, even with a break in it; an arbitrary object as argument is an error; lists are accepted."""

    def allowed(x, other=None):
        return helper(x)

    assert allow_in_graph([allowed])[0] is allowed
    f = watch(lambda x: allowed(x) + 1, fullgraph=True)
    same(f(x), x * 5)
    assert f.graphs == ["allowed add"]
    report = report_of(lambda x: allowed(x, thing), x)
    assert (report.title, report.gb_id) == ("Failed to convert args/kwargs to proxy", "GB0055")


@pytest.mark.parametrize("by", [torch._dynamo, nbcompile], ids=["torchs", "ours"])
def test_FN_2_disallow_in_graph(by):
    """The graph breaks at that operator; allow_in_graph undoes it; for other functions it is an error."""

    def g(x):
        x = torch.add(x, 1)
        x = torch.sub(x, 1)
        return torch.add(x, 1)

    by.disallow_in_graph(torch.sub)
    try:
        f = watch(g)
        same(f(x), x + 1)
        assert f.graphs == ["add", "add"]
    finally:
        by.allow_in_graph(torch.sub)
    f = watch(g)
    f(x)
    assert f.graphs == ["add sub add"]
    with pytest.raises(RuntimeError, match="already allowed callable"):
        by.disallow_in_graph(helper)


@pytest.mark.parametrize("operator", [torch.sub, torch.mul])
@pytest.mark.parametrize(
    "first, last", [(torch._dynamo, nbcompile), (nbcompile, torch._dynamo)], ids=["ours", "torchs"]
)
def test_FN_2_the_last_of_two_marks_holds(first, last, operator):
    """The last mark of an operator is effective, whichever library's function set it."""
    f = watch(lambda x: torch.add(operator(x, 1), 1))
    first.allow_in_graph(operator)
    last.disallow_in_graph(operator)
    try:
        f(x)
        assert f.graphs == ["add"]
    finally:
        torch._dynamo.allow_in_graph(operator)
        nbcompile.allow_in_graph(operator)


@pytest.mark.parametrize("forbid_in_graph", [torch._dynamo.forbid_in_graph, nbcompile.forbid_in_graph])
def test_FN_3_forbid_in_graph(forbid_in_graph):
    """Tracing a forbidden function is an error; set_stance and the mark_... functions are forbidden by default."""

    @forbid_in_graph
    def forbidden(x):
        return x + 1

    with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
        watch(lambda x: forbidden(x))(x)
    for function in (
        lambda x: torch.compiler.set_stance("default"),
        lambda x: nbcompile.set_stance("default"),
        lambda x: torch._dynamo.mark_dynamic(x, 0),
        lambda x: torch._dynamo.maybe_mark_dynamic(x, 0),
        lambda x: torch._dynamo.mark_static_address(x),
        lambda x: torch._dynamo.decorators.mark_unbacked(x, 0),
    ):
        with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
            watch(function)(x)


@pytest.mark.parametrize(
    ("substitute", "function"),
    [(torch.compiler.substitute_in_graph, zlib.adler32), (nbcompile.substitute_in_graph, binascii.crc_hqx)],
)
def test_FN_4_substitute_in_graph(substitute, function):
    """A Python function is traced instead of a C function, which eager mode still calls; misuse is an error."""

    @substitute(function, skip_signature_check=True)
    def substituted(data, value=1):
        return 7

    f = watch(lambda x: x + function(b"abc", 1), fullgraph=True)
    same(f(x), x + 7)
    assert function(b"abc", 1) != 7
    with pytest.raises(ValueError, match="Duplicate"):
        substitute(function, skip_signature_check=True)(substituted)
    with pytest.raises(TypeError):
        substitute(3)
    with pytest.raises(TypeError):
        substitute(zlib.compress)(lambda only_one: None)
    with pytest.raises(TypeError, match="expects a function"):
        substitute(zlib.decompress)(3)


@pytest.mark.parametrize(
    "assume_constant_result", [torch.compiler.assume_constant_result, nbcompile.assume_constant_result]
)
def test_FN_5_assume_constant_result(assume_constant_result):
    """The function runs once while tracing, and its result is a constant."""

    @assume_constant_result
    def setting():
        calls.append(1)
        GB()
        return len(calls)

    calls.clear()
    f = watch(lambda x: x + setting(), fullgraph=True)
    for _ in range(3):
        same(f(x), x + 1)
    assert calls == [1]


def test_FN_6_is_compiling():
    """is_compiling and is_dynamo_compiling are True while tracing, is_exporting is not; all are False in eager mode."""

    def g(x):
        return x + 1, torch.compiler.is_compiling(), nbcompile.is_dynamo_compiling(), nbcompile.is_exporting()

    assert g(x)[1:] == (False, False, False)
    assert watch(g)(x)[1:] == (True, True, False)


def test_FN_7_three_calls():
    """graph_break, skip_frame and step_unsupported accept a message, and do nothing in eager mode."""
    for by in (torch._dynamo, nbcompile):
        for name in ("graph_break", "skip_frame", "step_unsupported"):
            assert getattr(by, name)() is None
            assert getattr(by, name)("because") is None


@pytest.mark.parametrize("by", [torch._dynamo, nbcompile], ids=["torchs", "ours"])
def test_FN_8_settings_while_tracing(by):
    """patch_dynamo_config changes some settings of a callee; other names are errors."""

    @by.patch_dynamo_config(capture_scalar_outputs=True)
    def total(x):
        return x.sum().item() + x

    f = watch(lambda x: total(x))
    same(f(x), x + 3)
    assert f.graphs == ["sum item add"]

    def inside(x):
        with by.patch_dynamo_config(capture_scalar_outputs=True):
            y = x.sum().item()
        return x + y

    f = watch(inside)
    same(f(x), x + 3)
    assert f.graphs == ["sum", "add"]
    assert f.gb_ids[0] == "GB0033"
    with pytest.raises(ValueError):
        by.patch_dynamo_config(recompile_limit=3)
    with pytest.raises(ValueError):
        by.patch_dynamo_config("suppress_errors", True)


@pytest.mark.parametrize("run", [torch._dynamo.run, nbcompile.run], ids=["torchs", "ours"])
def test_FN_9_run(run):
    """run uses existing entries, and compiles nothing."""
    if run is torch._dynamo.run:
        pytest.skip("torch's own function asks for torch's own cache")
    f = watch(lambda x: x + 1, dynamic=False)
    f(x)
    only = run(f.function)
    same(only(x), x + 1)
    same(only(torch.ones(7)), torch.ones(7) + 1)
    assert len(f.graphs) == 1


@pytest.mark.parametrize(
    "leaf_function", [torch._dynamo.decorators.leaf_function, nbcompile.leaf_function], ids=["torchs", "ours"]
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_FN_10_leaf_function(leaf_function, backend):
    """A leaf function is opaque to tracer and backend, runs in each call, and needs a fake implementation."""

    @leaf_function
    def leaf(x):
        calls.append(float(x.sum()))
        return (x * 2,)

    with pytest.raises(Exception, match="requires a fake implementation"):
        nbcompile.compile(lambda x: leaf(x)[0] + 1, backend=backend)(x)

    @leaf.register_fake
    def _(x):
        return (torch.empty_like(x),)

    calls.clear()
    f = nbcompile.compile(lambda x: leaf(x)[0] + 1, backend=backend, fullgraph=True)
    same(f(x), x * 2 + 1)
    calls.clear()
    same(f(x), x * 2 + 1)
    assert calls == [3.0]
    with pytest.raises(ValueError, match="not a parameter"):
        leaf_function(mutates_args={"nobody"})(lambda x: (x,))


def test_FN_11_wrap_numpy():
    """wrap_numpy makes a function of arrays one of tensors; it and NumPy in a region are one graph."""

    @torch.compiler.wrap_numpy
    def on_arrays(a):
        return a + 1

    for program in (on_arrays, lambda x: on_arrays(x), lambda x: torch.from_numpy(x.numpy() + 1)):
        f = watch(program, fullgraph=True)
        same(f(x), x + 1)
        assert len(f.graphs) == 1


def test_FN_12_skip():
    """torch._dynamo.decorators.skip: that code object is not compiled, and its callees are."""

    def leaf(x):
        return x * 3

    @torch._dynamo.decorators.skip
    def skipped(x):
        return leaf(x)

    f = watch(lambda x: skipped(x + 1) + 2)
    same(f(x), x * 8)
    assert f.graphs == ["add", "mul", "add"]


def test_FN_14_default_backend():
    """compile without a backend uses the default of set_default_backend; None is inductor; unknown names are errors."""
    backend = Graphs()
    nbcompile.set_default_backend(backend)
    try:
        assert nbcompile.get_default_backend() is backend
        nbcompile.compile(lambda x: x + 1)(x)
        assert len(backend) == 1
    finally:
        nbcompile.set_default_backend(None)
    assert nbcompile.get_default_backend() == "inductor"
    with pytest.raises(nbcompile.exc.InvalidBackend, match="The backends are"):
        nbcompile.set_default_backend("indcutor")


def test_FN_15_reset():
    """reset removes all compiled code."""
    f = watch(lambda x: x + 1)
    f(x)
    nbcompile.reset()
    f(x)
    assert len(f.graphs) == 2


@pytest.mark.parametrize("set_stance", [torch.compiler.set_stance, nbcompile.set_stance], ids=["torchs", "ours"])
class TestStances:
    def counts(self, f, sizes=(3, 4, 5, 6)):
        found = []
        for size in sizes:
            same(f(torch.ones(size)), torch.ones(size) + 1)
            found.append(len(f.graphs))
        return found

    def test_FN_16_force_eager(self, set_stance):
        """force_eager: nothing is compiled, and no entry is used."""
        f = watch(lambda x: x + 1)
        with set_stance("force_eager"):
            assert self.counts(f) == [0, 0, 0, 0]
        assert not f.record.frames

    def test_FN_16_eager_on_recompile(self, set_stance):
        """eager_on_recompile: existing entries are used, and nothing new is compiled."""
        f = watch(lambda x: x + 1)
        with set_stance("eager_on_recompile"):
            assert self.counts(f) == [0, 0, 0, 0]
        f(x)
        with set_stance("eager_on_recompile"):
            assert self.counts(f) == [1, 1, 1, 1]

    def test_FN_16_fail_on_recompile(self, set_stance):
        """fail_on_recompile: an error with the stance, the function and the reasons, also if nothing is compiled."""

        def g(x):
            return x + 1

        f = watch(g)
        with set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="fail_on_recompile"):
            f(x)
        f(x)
        with set_stance("fail_on_recompile"):
            same(f(x), x + 1)
            with pytest.raises(RuntimeError, match="(?s)fail_on_recompile.*g.*size mismatch"):
                f(torch.ones(9))

    def test_FN_16_eager_then_compile(self, set_stance):
        """eager_then_compile: the first call is eager, the second compiles with the differing sizes: 0, 1, 1, 1."""
        g = fresh(lambda x: x + 1)
        f = watch(g)
        with set_stance("eager_then_compile"):
            assert self.counts(f) == [0, 1, 1, 1]
        nbcompile.reset()
        f = watch(g)
        with set_stance("eager_then_compile"):
            assert self.counts(f, (3, 3, 3)) == [1, 1, 1]

    def test_FN_16_aot_eager_then_compile(self, set_stance):
        """aot_eager_then_compile: the first call uses aot_eager, not the user's backend: 0, 1, 1."""
        f = watch(fresh(lambda x: x + 1))
        with set_stance("aot_eager_then_compile"):
            assert self.counts(f, (3, 3, 3)) == [0, 1, 1]

    def test_FN_16_force_backend(self, set_stance):
        """force_backend replaces the backend, only under the default stance."""
        f, other = watch(lambda x: x + 1), Graphs()
        with set_stance("default", force_backend=other):
            same(f(x), x + 1)
        assert (len(f.graphs), len(other)) == (0, 1)
        with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend"):
            set_stance("force_eager", force_backend=other)

    def test_FN_16_as_decorator(self, set_stance):
        """set_stance as a decorator is effective inside the function."""
        f = watch(lambda x: x + 1)

        @set_stance("force_eager")
        def inside(x):
            return f(x)

        inside(x)
        assert f.graphs == []
        f(x)
        assert f.graphs == ["add"]


@differs(
    "an unknown name is rejected at once, with the names that there are; torch's function takes it, and the next call fails"
)
def test_FN_16_unknown_stance():
    """An unknown stance is an error."""
    with pytest.raises(ValueError, match="the stances are: default, force_eager"):
        nbcompile.set_stance("force_eagre")
    f = watch(lambda x: x + 1)
    with torch.compiler.set_stance("nonsense"), pytest.raises(RuntimeError, match="invalid torch.compile stance"):
        f(x)
