"""Operators on lists of tensors: eager's result for each tensor, from generated loops."""

import pytest
import torch

import nbcompile
from nbcompile.codegen.cpp import emit
from nbcompile.lowering.graph import LOWERINGS
from tests.support.lowered import programs

aten = torch.ops.aten
SHAPES = ((3, 5), (7,), (), (0, 2), (33,))


def tensors(dtype=torch.float32, shapes=SHAPES):
    return [torch.rand(shape).add(0.5).to(dtype) for shape in shapes]


NUMBERS = [0.5, 2.0, 3.0, 1.5, 0.25]
SECOND = {
    "List": lambda: (tensors(),),
    "Scalar": lambda: (1.5,),
    "ScalarList": lambda: (NUMBERS,),
    "Tensor": lambda: (torch.tensor(2.5),),
    "default": tuple,
}
SPECIAL = {
    "lerp.List": lambda: (tensors(), tensors()),
    "lerp.Scalar": lambda: (tensors(), 0.3),
    "lerp.ScalarList": lambda: (tensors(), [0.1, 0.2, 0.3, 0.4, 0.5]),
    "addcdiv.Scalar": lambda: (tensors(), tensors(), 0.7),
    "addcdiv.ScalarList": lambda: (tensors(), tensors(), NUMBERS),
    "addcmul.Scalar": lambda: (tensors(), tensors(), 0.7),
    "addcmul.ScalarList": lambda: (tensors(), tensors(), NUMBERS),
    "copy.default": lambda: (tensors(torch.float64),),
}
LOWERED = sorted(
    str(each).removeprefix("aten._foreach_") for each in LOWERINGS if str(each).startswith("aten._foreach_")
)


def arguments(name):
    operator, _, overload = name.partition(".")
    if name == "pow.ScalarAndTensor":
        return (1.5, tensors())
    if name == "max.default":
        return (tensors(shapes=[(3, 5), (7,)]),)
    if name == "norm.Scalar":
        return (tensors(), 2)
    return (tensors(), *SPECIAL.get(name, SECOND[overload])())


def compiled(function, *given):
    """The results, and the operators that ran through ATen."""
    nbcompile.reset()
    explained = nbcompile.explain(function, fullgraph=True)(*given)
    graphs = [each.compiled_graph for each in explained.record.frames if each.compiled_graph]
    return explained.result, [kernel.name for graph in graphs for kernel in graph.kernels if kernel.language == "aten"]


@pytest.mark.parametrize("name", LOWERED)
def test_as_eager_by_loops_of_our_own(name):
    """Each overload of each operator gives eager's values, shapes and dtypes, without a call of ATen."""
    operator, _, overload = name.partition(".")
    target = getattr(getattr(aten, f"_foreach_{operator}"), overload)
    given = arguments(name)
    found, by_aten = compiled(lambda *args: [each + 1 for each in target(*args)], *given)
    for ours, theirs in zip(found, target(*given), strict=True):
        torch.testing.assert_close(ours, theirs + 1, rtol=2e-5, atol=1e-6, equal_nan=True)
    assert by_aten == []


def test_every_form_is_there():
    """Only matrix products, powsum, and overloads with numbers in a tensor run through ATen."""
    names = {
        each.name.removeprefix("aten::")
        for each in torch._C._jit_get_all_schemas()
        if each.name.startswith("aten::_foreach_")
    }
    functional = [name for name in names if not name.endswith("_")]
    forms = {
        f"{name.removeprefix('_foreach_')}.{overload}"
        for name in functional
        for overload in getattr(aten, name).overloads()
        if "out" not in overload
    }
    assert forms - set(LOWERED) == {"mm.default", "powsum.Scalar", "addcdiv.Tensor", "addcmul.Tensor"}


def test_integers_and_mixed_types():
    """Dtypes are promoted for each tensor of the list separately."""
    given = [torch.arange(4), torch.arange(3, dtype=torch.int16), torch.ones(2, dtype=torch.float64)]

    def f(xs):
        return torch._foreach_div(torch._foreach_add(xs, 2), 3)

    found, _ = compiled(f, given)
    for ours, theirs in zip(found, f(given), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_in_place():
    """The tensors are mutated in place, and a result that was computed before keeps its values."""

    def f(xs):
        before = torch._foreach_mul(xs, 2)
        torch._foreach_add_(xs, 1)
        torch._foreach_mul_(xs, before)
        return before

    eager, ours = tensors(), None
    ours = [each.clone() for each in eager]
    found, by_aten = compiled(f, ours)
    expected = f(eager)
    for pair in [*zip(ours, eager, strict=True), *zip(found, expected, strict=True)]:
        torch.testing.assert_close(*pair)
    assert by_aten == []


def test_a_result_is_new_memory():
    """A clone of an input does not alias it."""

    def f(xs):
        return aten._foreach_clone.default(xs)

    given = tensors()
    found, _ = compiled(f, given)
    assert not {each.data_ptr() for each in found if each.numel()} & {each.data_ptr() for each in given if each.numel()}


def test_one_shape_is_compiled_once():
    """Twenty parameters of one shape are twenty launches of one compiled function."""
    given = [torch.ones(64) for _ in range(20)]
    _, plan = programs(lambda *xs: torch._foreach_add(torch._foreach_mul(xs, 2), 1), *given)
    emitted = emit(plan)
    assert len(emitted.kernels) == len(given)
    assert len({each.function for each in emitted.kernels}) == 1


def test_lists_that_differ_in_length_are_eagers_error():
    """Lists of different lengths raise eager's error."""
    with pytest.raises(RuntimeError, match="same number of tensors"):
        nbcompile.compile(lambda a, b: torch._foreach_add(a, b))(tensors(), tensors()[:2])
