"""Sections 13 and 14: error_on_graph_break (SF, EG)."""

import pytest
import torch

import nbcompile
from tests.support.watched import Graphs, differs, same, watch

x = torch.ones(3)
GB = torch._dynamo.graph_break


def breaking(x):
    x = x + 1
    GB()
    return x + 2


@pytest.mark.parametrize(
    "E", [torch._dynamo.error_on_graph_break, nbcompile.error_on_graph_break], ids=["torchs", "ours"]
)
class TestBoth:
    def test_EG_1_fullgraph_wins(self, E):
        """Under fullgraph=True a break is an error inside a region (False), too."""

        def g(x):
            with E(False):
                GB()
            return x + 1

        with pytest.raises(nbcompile.exc.Unsupported):
            watch(g, fullgraph=True)(x)

    @differs("two graphs: torch adds one without operators for the frame of the decorator's wrapper")
    def test_EG_2_allowed_in_a_callee(self, E):
        """E(True) around the compiled function, and E(False) on a callee that breaks, give no error."""
        allowed = E(False)(breaking)

        def g(x):
            return allowed(x)

        backend = Graphs()
        f = E(True)(nbcompile.compile(g, backend=backend))
        same(f(x), x + 3)
        assert backend.operators == ["add", "add"]

    def test_EG_3_allowed_in_a_block(self, E):
        """`with E(False)` inside a function decorated with `E(True)` gives no error and two graphs."""

        def g(x):
            x = x + 1
            with E(False):
                GB()
            return x + 2

        backend = Graphs()
        f = E(True)(nbcompile.compile(g, backend=backend))
        same(f(x), x + 3)
        assert backend.operators == ["add", "add"]

    def test_EG_4_method_of_others(self, E):
        """A method that is replaced with an E(False) version may break the graph."""

        class M(torch.nn.Module):
            def forward(self, x):
                return breaking(x)

        module = M()
        module.forward = E(False)(module.forward)
        f = E(True)(nbcompile.compile(lambda x: module(x), backend="eager"))
        same(f(x), x + 3)

    def test_EG_5_error_in_a_callee(self, E):
        """E(True) on a callee makes its break an error; an earlier break is allowed, and its graph has run."""
        strict = E(True)(breaking)

        def g(x):
            x = x * 2
            GB()
            return strict(x)

        f = watch(g)
        with pytest.raises(nbcompile.exc.Unsupported) as caught:
            f(x)
        assert f.graphs == ["mul"]
        assert caught.value.report.stack[0].function.startswith("torch_dynamo_resume_in_g_at_")

    def test_EG_6_innermost_wins(self, E):
        """Calls inherit the setting; the innermost region wins in either order."""

        def g(x):
            with E(True), E(False):
                x = breaking(x)
            return x

        def h(x):
            with E(False), E(True):
                x = breaking(x)
            return x

        same(watch(g)(x), x + 3)
        with pytest.raises(nbcompile.exc.Unsupported):
            watch(h)(x)

    def test_EG_7_no_promise_of_one_graph(self, E):
        """error_on_graph_break can be switched off inside a region; fullgraph cannot."""

        def g(x):
            with E(True):
                x = x + 1
                with E(False):
                    GB()
                x = x + 1
            return x

        f = watch(g)
        same(f(x), x + 2)
        assert len(f.graphs) == 2

    def test_EG_9_nothing_in_eager(self, E):
        """The setting has no effect on eager code."""
        with E(True):
            same(breaking(x), x + 3)

    def test_EG_10_no_scalars(self, E):
        """The setting does not capture numbers, so `.item()` is an error."""

        def g(x):
            with E(True):
                return x + x.sum().item()

        with pytest.raises(nbcompile.exc.Unsupported, match=r"Tensor.item\(\)"):
            watch(g)(x)

    def test_EG_11_backend_errors_raise(self, E):
        """A backend's exception is an error in a region (False), too."""

        def failing(gm, inputs):
            raise ValueError("no such thing")

        @E(False)
        def g(x):
            return x + 1

        with pytest.raises(nbcompile.exc.BackendCompilerFailed):
            nbcompile.compile(g, backend=failing)(x)

    def test_EG_12_loops(self, E):
        """A break in a loop of a strict function is the original break; in a region (False) the frame is skipped."""

        def looping(x):
            for _ in range(2):
                x = x + 1
                GB()
            return x

        strict, lenient = E(True)(looping), E(False)(looping)
        with pytest.raises(nbcompile.exc.Unsupported, match="graph_break") as caught:
            watch(lambda x: strict(x))(x)
        assert caught.value.report.gb_id == "GB0025"

        def g(x):
            with E(True):
                return lenient(x)

        same(watch(g)(x), x + 2)

    @pytest.mark.parametrize(
        ("fullgraph", "strict", "raises"),
        [(True, True, True), (True, False, True), (False, True, True), (False, False, False)],
    )
    def test_EG_13_and_SF_2_the_four_cells(self, E, fullgraph, strict, raises):
        """fullgraph or the region makes the first break an error; if both are False the function resumes."""

        def g(x):
            with E(strict):
                x = breaking(x)
            return x

        f = watch(g, fullgraph=fullgraph)
        if raises:
            with pytest.raises(nbcompile.exc.Unsupported):
                f(x)
        else:
            same(f(x), x + 3)


def test_EG_8_compiled_functions_inside():
    """An inner fullgraph=False has no effect under an outer True; an inner True is effective under an outer False."""
    lenient = nbcompile.compile(breaking, backend="eager")
    with pytest.raises(nbcompile.exc.Unsupported):
        watch(lambda x: lenient(x), fullgraph=True)(x)
    strict = nbcompile.compile(breaking, backend="eager", fullgraph=True)
    with pytest.raises(nbcompile.exc.Unsupported):
        watch(lambda x: strict(x))(x)


def test_SF_1_no_set_fullgraph():
    """There is no set_fullgraph, as in torch 2.13."""
    assert not hasattr(nbcompile, "set_fullgraph")
