"""Writes through a view that overlaps itself give eager's result, whatever AOTAutograd makes of them.

Read next: tests/aot/test_input_aliasing.py
"""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.aot import self_overlapping_writes


def whole(x: torch.Tensor) -> object:
    row = x.sum()[None].expand(3)
    row.fill_(1)
    return row


def part(x: torch.Tensor) -> object:
    base = x.sum()[None]
    base.expand(3)[1].zero_()
    return base, x


def below_another_view(x: torch.Tensor) -> object:
    base = x.clone()
    base.expand(4, 3).t()[1:, 2].mul_(2)
    return base


def windows(x: torch.Tensor) -> object:
    base = x.clone()
    base.unfold(0, 2, 1).fill_(5)
    base.as_strided((2, 2), (1, 1))[0].mul_(2)
    return base


def of_an_input(x: torch.Tensor) -> object:
    x.expand(4, 3).zero_()
    return x + 1


def input_itself(x: torch.Tensor) -> object:
    x.fill_(1)
    return x * 2


OVERLAPPING = [whole, part, below_another_view, windows, of_an_input]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("function", OVERLAPPING)
def test_a_view_with_an_element_twice(function, backend, dynamic):
    """A write to an expanded view equals eager's; torch.compile adds up: ``expand(3).fill_(1)`` gives 3 - 2x."""
    ours, theirs = torch.arange(3.0), torch.arange(3.0)
    compiled = nbcompile.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)
    torch.testing.assert_close(compiled(ours), function(theirs))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("make", [lambda: torch.zeros(1).expand(3), lambda: torch.arange(4.0).unfold(0, 2, 1)])
def test_an_input_with_an_element_twice(make):
    """An input that overlaps itself may be mutated; torch.compile raises, because it cannot copy the new value back."""
    ours, theirs = make(), make()
    torch.testing.assert_close(nbcompile.compile(input_itself, fullgraph=True)(ours), input_itself(theirs))
    torch.testing.assert_close(ours, theirs)


FORMS = {
    "overload": lambda row: torch.ops.aten.fill_.Scalar(row, 1.0),
    "packet": lambda row: torch.ops.aten.fill_(row, 1.0),
    "overload with keywords": lambda row: torch.ops.aten.add_.Tensor(self=row, other=torch.ones(3)),
    "function with keywords": lambda row: torch.fill_(input=row, value=1.0),
    "out of an operator": lambda row: torch.ops.aten.sin.out(torch.ones(3), out=row),
    "relu_": lambda row: torch.nn.functional.relu_(input=row),
    "inplace by position": lambda row: torch.nn.functional.threshold(row, 5.0, 9.0, True),
    "module": torch.nn.Threshold(5.0, 9.0, inplace=True),
    "foreach": lambda row: torch._foreach_add_([row], 1.0),
    "foreach overload": lambda row: torch.ops.aten._foreach_add_.Scalar([row], 1.0),
    "__iadd__": lambda row: row.__iadd__(1),
    "__setitem__": lambda row: row.__setitem__(0, 5.0),
    "unbound method": lambda row: torch.Tensor.fill_(row, 1.0),
}


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_a_call(form, backend):
    """However the operator is called, an expanded view is written as in eager mode, or its error is raised."""

    def program(x):
        row = x.expand(3)
        FORMS[form](row)
        return row + 0

    def played(function):
        x = torch.ones(1)
        try:
            return function(x).tolist(), x.tolist()
        except RuntimeError:
            return "RuntimeError"

    assert played(nbcompile.compile(program, backend=backend)) == played(program)


def base_after_the_view(x: torch.Tensor) -> torch.Tensor:
    base = x.clone()
    row = base.expand(4, 3)
    base.add_(1)
    turned = base.t().unsqueeze(0)
    turned.mul_(2)
    return row + turned


@pytest.mark.parametrize(
    ("function", "meets_itself"), [(base_after_the_view, False), *((f, True) for f in OVERLAPPING)]
)
def test_what_has_each_number_once_is_compiled(function, meets_itself):
    """A graph is compiled if the mutated view does not overlap itself, also if another view of the memory does."""
    answers = []

    def backend(graph, _inputs):
        answers.append(self_overlapping_writes.writes_to_self_overlapping_view(graph))
        return graph.forward

    nbcompile.compile(function, backend=backend, fullgraph=True)(torch.arange(3.0))
    assert answers == [meets_itself]


EACH_ELEMENT_ONCE = {
    "expand": lambda base: base.expand(1, base.shape[0]),
    "expand_as": lambda base: base.expand_as(base)[1:],
    "broadcast_to": lambda base: base.broadcast_to(1, base.shape[0]),
    "broadcast_tensors": lambda base: torch.broadcast_tensors(base, base)[0],
    "meshgrid": lambda base: torch.meshgrid(base[:1], base[1:2], indexing="ij")[1],
    "an empty grid": lambda base: torch.meshgrid(base[:0], base[:0], indexing="ij")[0],
    "unfold, with gaps": lambda base: base.unfold(0, 2, 3),
    "the operator": lambda base: torch.ops.aten.expand.default(base, [1, base.shape[0]]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.uint32])
@pytest.mark.parametrize("of_an_input", [True, False])
@pytest.mark.parametrize("view", EACH_ELEMENT_ONCE.values(), ids=EACH_ELEMENT_ONCE)
def test_a_view_that_could_repeat_elements_and_does_not(view, of_an_input, dtype):
    """A view that does not overlap itself is written exactly; AOTAutograd would write x + (new - x), NaN for infinities."""

    def written(x):
        base = x if of_an_input else x.clone()
        view(base).fill_(1)
        view(base).eq_(1)
        return base

    numbers = [4, 9, 3, 0, 2, 8] if dtype == torch.uint32 else [float("inf"), 1e30, 3, 0, float("-inf"), 8]
    ours, theirs = torch.tensor(numbers).to(dtype), torch.tensor(numbers).to(dtype)
    assert nbcompile.compile(written)(ours).tolist() == written(theirs).tolist()
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[1:], lambda x: x.t(), lambda x: x[:, 1:]])
def test_the_diagonal_of_a_view(view):
    """`fill_diagonal_` works on a view, and on an input with a storage offset, which torch.compile rejects."""

    def written(x):
        view(x).fill_diagonal_(2)
        return view(x.clone()).fill_diagonal_(3)

    for make in (lambda: torch.zeros(4, 4), lambda: torch.zeros(20)[4:].view(4, 4)):
        ours, theirs = make(), make()
        assert torch.equal(nbcompile.compile(written)(ours), written(theirs))
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_what_is_written_through_as_strided(backend):
    """A write through as_strided beyond its base equals eager's; a graph that only reads such a view is compiled."""

    def written(x):
        window = x[:, :1].as_strided((2,), (1,))
        window.mul_(2)
        return window

    def moved(x):
        y = x + 1
        window = y[0]
        window.as_strided_((2, 2), (2, 1))
        window.add_(2)
        return window, y

    for function in (written, moved, lambda x: x.as_strided((2, 2), (1, 2)) * 2):
        x, same = torch.ones(2, 2), torch.ones(2, 2)
        assert str(nbcompile.compile(function, backend=backend)(x)) == str(function(same))
        assert torch.equal(x, same)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("turn", [1, -1])
def test_inputs_of_other_strides(backend, turn):
    """An input that overlaps itself works before and after one that does not, with symbolic strides."""

    def written(x):
        x.t().add_(1)
        return x * 1

    def outcomes(function):
        for step, rows in [(4, 5), (6, 5), (2, 5), (1, 4), (7, 3), (0, 3)][::turn]:
            try:
                yield function(torch.arange(60.0).as_strided((rows, 3), (step, 1))).tolist()
            except RuntimeError as error:
                yield str(error)

    compiled = nbcompile.compile(written, backend=backend, dynamic=True)
    assert list(outcomes(compiled)) == list(outcomes(written))
