"""Section 19: core concepts of dynamic shapes (DC)."""

import pytest
import torch

import nbcompile
from tests.support.counts import counts, guards, ones, reasons
from tests.support.watched import same, watch


def marked(*size, dim=0, **bounds):
    tensor = torch.ones(*size)
    torch._dynamo.mark_dynamic(tensor, dim, **bounds)
    return tensor


def shapes(watched, index=-1):
    """The shapes of the operators of a captured graph."""
    return [node.shape for node in watched.frames[index].graph.nodes if node.op == "call_function"]


def test_DC_1_a_marked_dim_is_a_symbol():
    """mark_dynamic on (5, 5) gives [s, 5], and cat of two gives [2*s, 5]."""
    compiled = watch(lambda x: torch.cat([x, x]))
    same(compiled(marked(5, 5)), torch.ones(10, 5))
    symbol = compiled.frames[0].symbols[0].name
    assert shapes(compiled)[-1] == (f"2*{symbol}", "5")


def test_DC_2_sizes_that_cannot_be_equal():
    """cat([x, x]) * x is an error, because 2*s is not s."""
    compiled = nbcompile.compile(lambda x: torch.cat([x, x]) * x, backend="eager")
    with pytest.raises(RuntimeError, match=r"2\*s\d+"):
        compiled(marked(5, 5))


def test_DC_3_a_branch_adds_a_guard():
    """A branch on a symbol uses the hint; the other side recompiles."""

    def f(x):
        return x + 1 if x.shape[0] > 5 else x - 1

    compiled = watch(f, dynamic=True)
    for size in (6, 9, 4):
        same(compiled(torch.ones(size)), f(torch.ones(size)))
    assert len(compiled.backend) == 2
    assert reasons(compiled) == [["6 <= x.size()[0]"]]


def test_DC_4_ranges():
    """The range of a size begins as [2, int_oo], that of an unbacked int as [-int_oo, int_oo]."""
    compiled = watch(lambda x: x + 1, dynamic=True)
    compiled(torch.ones(5))
    assert compiled.frames[0].symbols[0].range == "[2, int_oo]"
    with nbcompile.config.patch(capture_scalar_outputs=True):
        compiled = watch(lambda x: x + x.sum().to(torch.int64).item())
        compiled(torch.ones(5))
    assert [each.range for each in compiled.frames[0].symbols if each.unbacked] == ["[-int_oo, int_oo]"]


def test_DC_5_torch_check_teaches():
    """After torch._check(cond), a branch on cond is resolved, and the assertion runs."""

    def f(x):
        n = x.sum().to(torch.int64).item()
        torch._check(n > 2)
        return x + 1 if n > 2 else x - 1

    compiled = watch(f, fullgraph=True)
    same(compiled(torch.ones(5)), torch.ones(5) + 1)
    with pytest.raises(RuntimeError):
        compiled(torch.ones(5) * 0)


def test_DC_6_hint():
    """The hint is the value that decides branches."""
    compiled = watch(lambda x: x + 1, dynamic=True)
    compiled(torch.ones(7))
    assert compiled.frames[0].symbols[0].hint == "7"


def test_DC_7_refinements_have_their_line():
    """A refinement from a branch has the condition and the user's line."""

    def f(x):
        if x.shape[0] > 5:
            return x + 1
        return x - 1

    compiled = watch(f, dynamic=True)
    compiled(torch.ones(7))
    (symbol,) = compiled.frames[0].symbols
    assert [(each.condition, each.stack[-1].code) for each in symbol.refinements] == [
        (f"{symbol.name} > 5", "if x.shape[0] > 5:")
    ]


def test_DC_8_mark_dynamic_ahead_of_time():
    """With a mark, the first graph serves all sizes."""
    compiled = watch(lambda x: x + 1)
    for size in (3, 4, 5):
        same(compiled(marked(size)), torch.ones(size) + 1)
    assert len(compiled.backend) == 1


def test_DC_9_dynamic_argument():
    """dynamic=True gives one graph, dynamic=False one for each shape."""
    assert counts(lambda x: x + 1, ones(3, 4, 5), dynamic=True)[-1] == 1
    assert counts(lambda x: x + 1, ones(3, 4, 5), dynamic=False)[-1] == 3


def test_DC_10_dynamic_sources():
    """dynamic_sources contains the dynamic sources, by name or pattern, and takes precedence over dynamic=False."""
    with nbcompile.config.patch(dynamic_sources="L['x'], L['nobody']"):
        assert counts(lambda x: x + 1, ones(3, 4, 5, 6))[-1] == 1
        nbcompile.reset()
        assert counts(lambda x: x + 1, ones(3, 4, 5, 6), dynamic=False)[-1] == 1
    nbcompile.reset()
    with nbcompile.config.patch(dynamic_sources=r"L\['k.*'\]"):
        calls = [(torch.ones(2), a, a + 7) for a in (3, 4, 5)]
        assert counts(lambda x, ka, kb: x * ka + kb, calls)[-1] == 1
    nbcompile.reset()
    with nbcompile.config.patch(dynamic_sources="L['x']:1"):
        assert counts(lambda x: x + 1, ones((2, 3), (2, 4), (3, 4))) == [1, 1, 2]


def test_DC_12_dynamic_values():
    """dynamic_values: an int or size with one of these values is dynamic."""
    with nbcompile.config.patch(dynamic_values="1111,2222"):
        assert counts(lambda x: x + 1, ones(1111, 5, 6))[-1] == 1
        nbcompile.reset()
        assert counts(lambda x, k: x + k, [(torch.ones(3), k) for k in (2222, 3, 4)])[-1] == 1


def test_DC_13_eager_then_compile():
    """Stance eager_then_compile: the first call is eager, and the first compilation is already dynamic."""
    compiled = watch(lambda x: x + 1)
    with torch.compiler.set_stance("eager_then_compile"):
        found = [(compiled(torch.ones(size)), len(compiled.backend))[1] for size in (3, 4, 5, 6)]
    assert found == [0, 1, 1, 1]


def test_DC_14_replacements():
    """A size that had to be a constant is checked by the tensor's own guard."""

    def f(x):
        return x + 1 if x.shape[0] == 4 else x - 1

    compiled = watch(f, dynamic=True)
    compiled(torch.ones(4))
    assert any("size=[4]" in each for each in guards(compiled))


def test_DC_15_ranges_of_unbacked_sizes():
    """A size from nonzero() is at least 0."""
    with nbcompile.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = watch(lambda x: x.nonzero() + 1)
        same(compiled(torch.ones(5)), torch.ones(5).nonzero() + 1)
    (symbol,) = [each for each in compiled.frames[0].symbols if each.unbacked]
    assert symbol.range.startswith("[0, ")


def test_DC_16_shape_guards_are_python():
    """The guards on sizes are Python expressions."""
    compiled = watch(lambda x: x + 1, dynamic=True)
    compiled(torch.ones(5))
    assert "2 <= L['x'].size()[0]" in guards(compiled)
