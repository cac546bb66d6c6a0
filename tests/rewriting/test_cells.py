"""Cells of frames that continue in a resume function, and cells of frames with few variables."""

from collections.abc import Callable

import pytest
import torch
from torch._dynamo import graph_break

import nbcompile
from tests.support.oracle import outcome


def read_before_it_is_set(t: torch.Tensor) -> object:
    graph_break()
    x *= t  # type: ignore[has-type]  # noqa: F821, F841
    return lambda: x


def deleted_afterwards(t: torch.Tensor) -> object:
    x = t * 2

    def get() -> torch.Tensor:
        return x

    graph_break()
    del x
    try:
        return x
    except UnboundLocalError as error:
        return str(error)


def breaks_in_a_closure_over_it(t: torch.Tensor) -> object:
    x = 1

    def add(y: int) -> int:
        graph_break()
        return x + y

    graph_break()
    try:
        del x
        x = 4
    except LookupError:
        pass
    return t + 1, x, add(2)


def both_errors(t: torch.Tensor) -> object:
    def get() -> torch.Tensor:
        return x

    graph_break()
    try:
        return get()
    except NameError as error:
        free = str(error)
    try:
        return x
    except UnboundLocalError as error:
        return free, str(error)
    x = t


def after_a_branch(t: torch.Tensor) -> object:
    def get() -> torch.Tensor:
        return x

    if t.sum() > 100:
        x = t
    return x


def deleted_before_it_is_set(t: torch.Tensor) -> object:
    def get() -> torch.Tensor:
        return x

    graph_break()
    try:
        del x
    except UnboundLocalError as error:
        return str(error)
    x = t


def deleted_by_another(t: torch.Tensor) -> object:
    x = t

    def forget() -> None:
        nonlocal x
        del x

    graph_break()
    forget()
    t = t + 1
    graph_break()
    return x + t


def set_after_two_breaks(t: torch.Tensor) -> object:
    def get() -> torch.Tensor:
        return x

    graph_break()
    if t.shape[0] > 1:
        x = t * 2
    graph_break()
    x = x + 1
    graph_break()
    return get(), x


def shows_its_variables(t: torch.Tensor) -> object:
    def get() -> torch.Tensor:
        return x

    graph_break()
    if t.shape[0] > 0:
        x = t * 2
    graph_break()
    return get(), x, sorted(locals())


FUNCTIONS = [
    read_before_it_is_set,
    deleted_afterwards,
    breaks_in_a_closure_over_it,
    both_errors,
    after_a_branch,
    deleted_before_it_is_set,
    deleted_by_another,
    set_after_two_breaks,
    shows_its_variables,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("size", [1, 3])
def test_an_empty_cell_raises_as_in_the_original(function: Callable[..., object], size: int) -> None:
    """A cell variable without a value raises UnboundLocalError in a resume function, too: its cell is passed."""
    expected = outcome(function, torch.ones(size))
    compiled = nbcompile.compile(function, backend="eager")
    assert [outcome(compiled, torch.ones(size)) for _ in range(3)] == [expected] * 3


def test_a_nested_call_that_breaks_with_an_empty_cell() -> None:
    """The error is the same in a function that was inlined up to the break."""

    def outer(t: torch.Tensor) -> object:
        try:
            return both_errors(t), deleted_afterwards(t), after_a_branch(t)
        except UnboundLocalError as error:
            return str(error), t + 1

    assert outcome(nbcompile.compile(outer, backend="eager"), torch.ones(2)) == outcome(outer, torch.ones(2))


def test_a_frame_with_cells_and_few_variables() -> None:
    """The hook stores the frame's cells in locals of the program, before the free variables."""

    def with_cells(count: int) -> tuple[Callable[[], int], Callable[[], int]]:
        total = 5
        names = [f"c{number}" for number in range(count)]
        lines = ["def outer(total):", " def f():", "  nonlocal total"]
        lines += [f"  {name} = {number}" for number, name in enumerate(names)]
        lines += [
            f"  g = lambda: {' + '.join(names)}",
            "  total = 3",
            "  try: return g() + total",
            "  finally: total = 4",
        ]
        lines += [" return f, lambda: total"]
        scope: dict[str, Callable[[int], tuple[Callable[[], int], Callable[[], int]]]] = {}
        exec("\n".join(lines), scope)  # noqa: S102  # functions with one to eight cells
        return scope["outer"](total)

    for count in range(1, 9):
        function, total = with_cells(count)
        compiled = nbcompile.compile(function, backend="eager")
        assert [compiled() for _ in range(3)] == [sum(range(count)) + 3] * 3
        assert total() == 4


def test_locals_after_a_break_show_variables_that_inner_functions_share():
    """``locals()`` contains a cell that no later instruction names, and no empty cell."""

    def f(x, b):
        if b:
            y = 1

        def inner():
            return y, b, x

        print(end="")
        shown = sorted(locals())
        print(end="")
        return (inner() if b else None), shown, sorted(locals())

    for b in (1, 0):
        assert nbcompile.compile(f, backend="eager")(2, b) == f(2, b)
