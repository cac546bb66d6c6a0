"""Sections 6 and 7: nonstrict_trace (NT) and custom operators (CO)."""

import pytest
import torch
import torch.utils._pytree as pytree

import nbcompile
from tests.support.watched import report_of, same, watch

x = torch.ones(3)
GB = torch._dynamo.graph_break
G = torch.ones(3)
scale = 2
calls = []


def helper(x):
    x = x + 1
    GB()
    return x * 2


class Point:
    def __init__(self, a, b):
        self.a = a
        self.b = b


class Unregistered:
    def __init__(self, a):
        self.a = a


pytree.register_pytree_node(Point, lambda p: ((p.a, p.b), None), lambda children, _: Point(*children))


@pytest.mark.parametrize("nonstrict_trace", [torch._dynamo.nonstrict_trace, nbcompile.nonstrict_trace])
class TestBoth:
    def test_NT_1_and_2_break_inside(self, nonstrict_trace):
        """A graph break in a helper is an error under fullgraph; a helper marked outside the region is one node."""
        with pytest.raises(nbcompile.exc.Unsupported):
            watch(lambda x: helper(x) + 1, fullgraph=True)(x)
        marked = nonstrict_trace(helper)
        f = watch(lambda x: marked(x) + 1, fullgraph=True)
        same(f(x), x * 5)
        assert f.graphs == ["flat_apply_capture add"]
        number = nonstrict_trace(lambda x: 42)
        assert watch(lambda x: (number(x), x + 1), fullgraph=True)(x)[0] == 42

    def test_NT_3_applied_inside(self, nonstrict_trace):
        """A function that is marked inside the region is one node, too."""
        f = watch(lambda x: nonstrict_trace(helper)(x) + 1, fullgraph=True)
        same(f(x), x * 5)

    def test_NT_4_defined_inside(self, nonstrict_trace):
        """A function that is defined inside the region cannot be marked."""

        def g(x):
            def inner(x):
                return x + 1

            return nonstrict_trace(inner)(x)

        report = report_of(g, x)
        assert report.title.startswith("Limitation of `nonstrict_trace")
        assert report.gb_id == "GB0078"

    def test_NT_5_pytrees(self, nonstrict_trace):
        """Containers and registered classes can be passed and returned; the error for others says how to register."""
        swap = nonstrict_trace(lambda p, k, d: (Point(p.b * k, p.a + d["y"][0]), [k]))

        def g(x):
            p, (k,) = swap(Point(x, x + 1), 3, {"y": [x * 2]})
            return p.a, p.b, k

        f = watch(g, fullgraph=True)
        same(f(x), (x * 6, x * 3, 3))
        thing = Unregistered(x)
        take = nonstrict_trace(lambda u: u.a)
        report = report_of(lambda x: take(thing) + x, x)
        assert report.gb_id == "GB0236"
        for name in ("register_constant", "register_dataclass", "register_pytree_node"):
            assert name in report.hints[0]
        give = nonstrict_trace(lambda x: Unregistered(x))
        assert report_of(lambda x: give(x), x).gb_id == "GB0251"

    def test_NT_6_free_variables(self, nonstrict_trace):
        """Free variables are constants without guards: a later change has no effect (aot_eager)."""
        global scale
        scaled = nonstrict_trace(lambda x: x * scale + G)
        f = nbcompile.compile(lambda x: scaled(x), backend="aot_eager", fullgraph=True)
        same(f(x), x * 3)
        scale = 5
        try:
            same(f(x), x * 3)
        finally:
            scale = 2

    def test_NT_7_how_often_it_runs(self, nonstrict_trace):
        """With eager the function runs in each call and in the trace; with aot_eager only in the trace."""

        @nonstrict_trace
        def counted(x):
            calls.append(1)
            return x + 1

        calls.clear()
        f = nbcompile.compile(lambda x: counted(x), backend="eager", fullgraph=True)
        for _ in range(3):
            f(x)
        assert len(calls) == 4
        nbcompile.reset()
        f = nbcompile.compile(lambda x: counted(x), backend="aot_eager", fullgraph=True)
        f(x)
        calls.clear()
        f(x)
        assert len(calls) == 0

    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    def test_NT_8_modules(self, nonstrict_trace, backend):
        """A module may be an argument; gradients flow to its parameters."""
        model = torch.nn.Linear(3, 3)
        forward = nonstrict_trace(lambda m, x: m(x) + x)
        f = nbcompile.compile(lambda m, x: forward(m, x), backend=backend, fullgraph=True)
        same(f(model, x), model(x) + x)
        f(model, x).sum().backward()
        assert model.weight.grad is not None

    def test_NT_9_exclusive(self, nonstrict_trace):
        """A leaf function cannot have this mark, too."""
        if nonstrict_trace is nbcompile.nonstrict_trace:
            leaf = nbcompile.leaf_function(lambda x: (x,))
        else:
            leaf = torch._dynamo.decorators.leaf_function(lambda x: (x,))
        with pytest.raises(ValueError, match="cannot be both marked"):
            nonstrict_trace(leaf)


def test_NT_10_name():
    """A value that is not callable raises a TypeError."""
    with pytest.raises(TypeError):
        nbcompile.nonstrict_trace(3)


def test_CO_3_three_ways():
    """A plain function is traced; a call of an allow_in_graph function is one node, which the backend traces."""

    def plain(x):
        return x.sin().cos()

    allowed = nbcompile.allow_in_graph(lambda x: x.sin().cos())
    f = watch(plain)
    f(x)
    assert f.graphs == ["sin cos"]
    f = watch(lambda x: allowed(x) + 1)
    f(x)
    (graph,) = f.graphs
    assert graph.endswith(" add") and len(graph.split()) == 2
