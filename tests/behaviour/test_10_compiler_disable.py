"""Section 10: disable (DI)."""

import pytest
import torch

import nbcompile
from tests.support.processes import python
from tests.support.watched import report_of, same, watch

x = torch.ones(3)
GB = torch._dynamo.graph_break
both = pytest.mark.parametrize("disable", [torch.compiler.disable, nbcompile.disable], ids=["torchs", "ours"])


def inner(x):
    x = x - 1
    GB()
    return x / 2


@both
def test_DI_1_recursive(disable):
    """A disabled function breaks the graph at its call; it and all its callees run in eager mode."""

    @disable
    def quiet(x):
        return inner(x)

    @disable(reason="it is slow")
    def slow(x):
        return inner(x)

    f = watch(lambda x: quiet(x * 2) + 1)
    same(f(x), torch.full((3,), 1.5))
    assert f.graphs == ["mul", "add"]
    assert (f.titles, f.gb_ids) == (["Skip calling `torch.compiler.disable()`d function"], ["GB0098"])
    assert "(reason: None)" in f.breaks[0].explanation
    assert "Remove" in f.breaks[0].hints[0]
    f = watch(lambda x: slow(x * 2) + 1)
    f(x)
    assert "(reason: it is slow)" in f.breaks[0].explanation


@both
def test_DI_2_not_recursive(disable):
    """With recursive=False only that frame runs in eager mode; its callees are compiled."""

    def calling(x):
        return inner(x)

    quiet = disable(calling, recursive=False)
    f = watch(lambda x: quiet(x * 2))
    same(f(x), torch.full((3,), 0.5))
    assert f.graphs == ["mul", "sub", "truediv"]
    assert f.gb_ids[0] == "GB0099"
    assert f.titles[0] == "Skip inlining `torch.compiler.disable()`d function"


@both
def test_DI_4_signature(disable):
    """The decorator works with and without parentheses, and on bound methods."""

    class M(torch.nn.Module):
        def forward(self, x):
            return inner(x)

    module = M()
    module.forward = disable(module.forward)
    f = watch(lambda x: module(x * 2) + 1)
    same(f(x), torch.full((3,), 1.5))
    assert f.graphs == ["mul", "add"]

    @disable()
    def quiet(x):
        return inner(x)

    f = watch(lambda x: quiet(x * 2) + 1)
    f(x)
    assert f.graphs == ["mul", "add"]


@both
def test_DI_5_no_context_manager(disable):
    """disable as a context manager raises an error."""
    with pytest.raises(RuntimeError), disable():
        pass


@both
def test_DI_6_fullgraph(disable):
    """Under fullgraph=True the call is an error with the same fields."""
    quiet = disable(inner, reason="so")
    report = report_of(lambda x: quiet(x), x)
    assert report.gb_id == "GB0098"
    assert "(reason: so)" in report.explanation


def test_DI_7_switched_off():
    """disable=True, config.disable and TORCH_COMPILE_DISABLE=1 leave the function unchanged."""
    assert nbcompile.compile(inner, disable=True) is inner
    with nbcompile.config.patch(disable=True):
        f = watch(inner)
        same(f(x), x * 0)
        assert f.graphs == []
    program = "import nbcompile; f = lambda x: x; print(nbcompile.compile(f) is f)"
    assert python(program, TORCH_COMPILE_DISABLE="1").strip() == "True"


def test_DI_8_backend_errors():
    """A backend's exception is an error that names it; suppress_errors runs eagerly, except under fullgraph."""

    def failing(gm, inputs):
        raise ValueError("no such thing")

    def g(x):
        return x + 1

    with pytest.raises(nbcompile.exc.BackendCompilerFailed, match="backend='failing' raised:\nValueError: no such"):
        nbcompile.compile(g, backend=failing)(x)
    with nbcompile.config.patch(suppress_errors=True):
        nbcompile.reset()
        with pytest.warns(UserWarning, match=r"WON'T CONVERT g .* line \d+ due to:"):
            same(nbcompile.compile(g, backend=failing)(x), x + 1)
        nbcompile.reset()
        with pytest.raises(nbcompile.exc.BackendCompilerFailed):
            nbcompile.compile(g, backend=failing, fullgraph=True)(x)
