"""Section 5 of the programming model: common graph breaks (CB)."""

import logging
import warnings

import pytest
import torch

import nbcompile
from nbcompile.observe import torch_logs
from tests.support.watched import asserting, report_of, same, watch

x = torch.ones(3)
G = torch.ones(2)
cond = True


def wrong(x):
    return torch.sin(x, x)


def branching(x):
    y = x.sum()
    if y > 0:
        return x + y.item()
    return x - y.item()


def test_CB_1_wrong_code():
    """A call with wrong arguments breaks the graph, with a hint to try eager mode; then Python raises its TypeError."""
    f = watch(wrong)
    with pytest.raises(TypeError, match="sin"):
        f(x)
    assert f.titles[0] == "TypeError when making fake tensor call"
    assert f.gb_ids[0] == "GB0112"
    assert "force_eager" in " ".join(f.breaks[0].hints)


def test_CB_2_wrong_code_under_fullgraph():
    """The same call under fullgraph=True raises Unsupported with that text."""
    assert report_of(wrong, x).title == "TypeError when making fake tensor call"


def test_CB_3_wrong_code_under_force_eager():
    """With the stance force_eager the function runs uncompiled, and raises a TypeError without a report."""
    f = watch(wrong)
    with torch.compiler.set_stance("force_eager"), pytest.raises(TypeError):
        f(x)
    with nbcompile.set_stance("force_eager"), pytest.raises(TypeError):
        f(x)
    assert not f.record.frames


def test_CB_4_wrong_shapes():
    """Shapes that do not fit raise an error, with fullgraph=False, too."""
    f = watch(lambda x: torch.cat([x, x]) * x)
    with pytest.raises(nbcompile.exc.TorchRuntimeError, match="making fake tensor call"):
        f(x)


def test_CB_5_data_dependent_branch():
    """`if tensor` is a data-dependent branch; the report shows the condition and three hints."""
    f = watch(branching)
    f(x)
    first = f.breaks[0]
    assert (first.title, first.gb_id) == ("Data-dependent branching", "GB0170")
    assert first.context == "attempted to jump with TensorVariable()"
    assert "y > 0" in first.explanation
    assert len(first.hints) == 3
    assert "torch.where" in first.hints[0]
    assert "torch.cond" in first.hints[2]


def test_CB_6_graphs_of_a_branch():
    """The comparison is the last operator of the first graph, and Python jumps."""
    f = watch(branching)
    same(f(x), x + 3)
    assert f.graphs[0] == "sum gt"
    assert f.graphs[-1] == "add"


def test_CB_7_two_resume_functions():
    """A branch has two resume functions, each compiled at its first use: inputs +, +, - give 2, 2, 3 graphs."""

    def g(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    f = watch(g)
    counts = []
    for each in (x, x, -x):
        same(f(each), g(each))
        counts.append(len(f.graphs))
    assert counts == [2, 2, 3]
    assert len(f.frames[0].resume_functions) == 2


def test_CB_8_item():
    """`.item()` breaks the graph by default; the hint and a warning name the setting and its environment variable."""

    def g(x):
        return x + x.sum().item()

    f = watch(g)
    torch_logs._warned.clear()
    with pytest.warns(UserWarning, match="TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1(.|\n)*, in g"):
        same(f(x), g(x))
    assert f.titles == ["Unsupported Tensor.item() call with capture_scalar_outputs=False"]
    assert f.gb_ids == ["GB0124"]
    assert "capture_scalar_outputs" in f.breaks[0].hints[0]
    assert "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1" in f.breaks[0].hints[0]


def test_CB_9_item_captured():
    """With capture_scalar_outputs, `.item()` is a node and does not break the graph."""
    f = watch(lambda x: x + x.sum().item())
    with nbcompile.config.patch(capture_scalar_outputs=True):
        same(f(x), x + 3)
    assert f.graphs == ["sum item add"]
    assert not f.breaks


def test_CB_10_tolist_nonzero_mask():
    """tolist is a data-dependent operator; nonzero and a boolean mask have a dynamic shape."""
    f = watch(lambda x: (x + 1).tolist())
    assert f(torch.arange(3)) == [1, 2, 3]
    assert (f.titles, f.gb_ids) == (["Data dependent operator"], ["GB0033"])
    for shaped in (lambda x: (x + 1).nonzero(), lambda x: (x + 1)[x > 0]):
        f = watch(shaped)
        same(f(x), shaped(x))
        assert (f.titles, f.gb_ids) == (["Dynamic shape operator"], ["GB0036"])
        assert "capture_dynamic_output_shape_ops" in f.breaks[0].hints[0]


def test_CB_11_data_ptr():
    """`data_ptr()` does not break the graph, and its result is right."""
    f = watch(lambda x: (x + 1, x.data_ptr()), fullgraph=True)
    y, pointer = f(x)
    same(y, x + 1)
    assert pointer == x.data_ptr()
    assert len(f.graphs) == 1


def test_CB_12_loop_over_a_number_of_the_data():
    """`range(t.sum().item())` breaks, then the loop is unrolled for that number: 3, 6, 9 give 2, 3, 4 graphs."""

    def g(t, x):
        for _ in range(t.sum().item()):
            x = x + 1
        return x

    f = watch(g)
    counts = []
    for number in (3, 6, 9):
        same(f(torch.tensor([number]), x), x + number)
        counts.append(len(f.graphs))
    assert counts == [2, 3, 4]
    again = f.record.frames[-1]
    assert again.function.startswith("torch_dynamo_resume_in_g_at_")
    assert "___stack1 == 6" in [each.reason for each in again.failed_guards]


def test_CB_13_branch_on_a_global():
    """A branch on a global tensor breaks the graph; a branch on a bool computed outside is a guard."""

    def on_tensor(x):
        if G.sum() > 0:
            return x + 1
        return x - 1

    def on_bool(x):
        if cond:
            return x + 1
        return x - 1

    f = watch(on_tensor)
    same(f(x), x + 1)
    assert f.titles == ["Data-dependent branching"]
    f = watch(on_bool)
    same(f(x), x + 1)
    assert len(f.graphs) == 1
    assert any("G['cond']" in each.condition for each in f.frames[0].guards)


def test_CB_14_cond():
    """torch.cond is one node with two subgraphs; both signs need no recompile."""

    def g(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    f = watch(g, fullgraph=True)
    same(f(x), x.sin())
    same(f(-x), (-x).cos())
    assert len(f.graphs) == 1


def test_CB_15_print(capsys):
    """print breaks the graph; the hint names reorderable_logging_functions."""

    def g(x):
        x += 1
        print("half way")
        return torch.sin(x)

    f = watch(g)
    f(x.clone())
    f(x.clone())
    assert capsys.readouterr().out == "half way\n" * 2
    assert f.graphs == ["iadd", "sin"]
    assert (f.titles, f.gb_ids) == (["Failed to trace builtin operator"], ["GB0059"])
    assert "reorderable_logging_functions" in " ".join(f.breaks[0].hints)


def test_CB_16_reorderable_print(capsys):
    """A reorderable print runs after the graph, so it shows the tensor's final value."""

    def g(x):
        x = x + 1
        print(x)
        x.add_(1)
        return x * 2

    f = watch(g)
    with nbcompile.config.patch(reorderable_logging_functions={print}):
        same(f(torch.ones(1)), torch.tensor([6.0]))
    assert len(f.graphs) == 1
    assert capsys.readouterr().out == "tensor([3.])\n"


def test_CB_17_not_reorderable(capsys):
    """A reorderable function breaks the graph for arguments that are not tensors, constants or format strings."""

    class Thing:
        def __repr__(self):
            return "a thing"

    thing = Thing()

    def g(x):
        x = x + 1
        print(thing)
        return x * 2

    f = watch(g)
    with nbcompile.config.patch(reorderable_logging_functions={print}):
        f(x)
    assert f.gb_ids == ["GB0296"]
    assert f.titles == ["attempted to reorder a debugging function that can't actually be reordered"]
    assert capsys.readouterr().out == "a thing\n"


def test_CB_17_result_of_a_reorderable_function_is_none():
    """The result of a reorderable function is None."""

    def log(x):
        return 5

    def g(x):
        return log(x), x + 1

    with nbcompile.config.patch(reorderable_logging_functions={log}):
        assert watch(g)(x)[0] is None


def test_CB_18_warn_and_logger():
    """warnings.warn and the methods of a logger break the graph."""

    def warning(x):
        x = x + 1
        warnings.warn("careful")
        return x * 2

    f = watch(warning)
    with pytest.warns(UserWarning, match="careful"):
        same(f(x), x * 4)
    assert f.gb_ids == ["GB0007"]
    logger = logging.getLogger("user")

    def logging_(x):
        x = x + 1
        logger.warning("careful")
        return x * 2

    f = watch(logging_)
    same(f(x), x * 4)
    assert (f.titles, f.gb_ids) == (["logging.Logger method not supported for non-export cases"], ["GB0291"])
    assert "ignore_logging_functions" in " ".join(f.breaks[0].hints)


def test_CB_19_break_before_any_operator():
    """A break before the first operator has no graph before it."""

    def g(x):
        torch._dynamo.graph_break()
        return x + 1

    f = watch(g)
    f(x)
    assert f.graphs == ["add"]


def test_CB_20_assert_on_a_tensor():
    """`assert tensor, "text"` is an operator of the graph, which fails when it runs."""

    f = watch(asserting, fullgraph=True)
    same(f(x), x + 1)
    assert "_assert_async" in f.graphs[0]
    with pytest.raises(RuntimeError, match="must be positive"):
        f(-x)
