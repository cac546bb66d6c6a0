"""Strings with tensors: created after the graph, from the tensor's earlier value."""

from __future__ import annotations

import functools
import operator
import re

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs

GRAPHS = Graphs()


def _graphs(function: object, *arguments: object) -> tuple[object, int]:
    nbcompile.reset()
    GRAPHS.clear()
    result = nbcompile.compile(function, backend=GRAPHS)(*arguments)
    return result, len(GRAPHS)


def test_text_of_a_tensor_does_not_break_the_graph() -> None:
    """An f-string of a tensor is one graph, with eager mode's text."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        y = x + 1
        return y, f"{{y}} is {y}"

    assert _graphs(f, torch.ones(2))[0][1] == "{y} is tensor([2., 2.])"  # type: ignore[index]
    assert len(GRAPHS) == 1


def test_text_is_of_the_tensor_as_it_was() -> None:
    """A later mutation of the tensor does not change the text."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        y = x + 1
        text = f"{y}"
        y.add_(1)
        return y, text

    assert _graphs(f, torch.ones(2))[0][1] == "tensor([2., 2.])"  # type: ignore[index]


def test_a_cached_function_with_side_effects_runs_once() -> None:
    """The second call of a cached function runs no code."""
    seen: list[int] = []

    @functools.cache
    def noted(n: int) -> int:
        seen.append(n)
        return n

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + noted(3) + noted(3)

    assert torch.equal(_graphs(f, torch.ones(2))[0], torch.full((2,), 7.0))  # type: ignore[arg-type]
    assert seen == [3]


@pytest.mark.parametrize("getter", [operator.itemgetter(0), operator.itemgetter(1, 0), operator.methodcaller("copy")])
def test_getters_from_outside_are_traced(getter: object) -> None:
    """A getter of the operator module is traced, whether it is a global or an argument."""

    def f(xs: list[torch.Tensor], get: object) -> object:
        return get(xs), xs[0] * 2  # type: ignore[operator]

    _, graphs = _graphs(f, [torch.ones(1), torch.zeros(1)], getter)
    assert graphs == 1


def test_text_of_a_number_read_from_a_tensor_does_not_break_the_graph() -> None:
    """A number that is known only after the graph has run is formatted then, with every formatting method."""

    def told(x):
        number, mean = x.sum().int().item(), x.mean().item()
        return x * number, f"{number:3d} {mean!r} {mean:.2f}", str(number), "{:>4}".format(number)  # noqa: UP032

    with nbcompile.config.patch(capture_scalar_outputs=True):
        for x in (torch.ones(2), torch.arange(2.0) + 0.1):
            result, graphs = _graphs(told, x)
            assert result[1:] == told(x)[1:]
            assert graphs == 1


def _printed(x, step):
    y = x * 2
    print(f"step {step}")
    return y + step


LATER = {
    "f-string": lambda x, n: (x + n, f"step {n} of {x.shape[0]}"),
    "format": lambda x, n: (x + 1, f"{n:03d}|{n:>5}|{n!r}|{n!s}", "{0} {0:05.1f}".format(n)),
    "str": lambda x, n: (x + 1, str(n), repr(n), [f"{n}"], {"text": f"{f'{n}'}"}),
    "percent": lambda x, n: (x + 1, "%d/%d %s %r %5.2f %%" % (n, 12, n, n, n), "%05d" % n, "%+d" % n),
    "float": lambda x, n: (x + 1, f"{n / 2}", f"{n / 2:.1f}", str(n / 4), "%.3f" % (n / 3)),
    "an argument": lambda x, n: (lambda text: (x + 1, text))(f"{n}"),
    "isinstance": lambda x, n: (x + 1, isinstance(f"{n}", str), f"{n}"),
    "in a container": lambda x, n: (x + 1, repr([n]), str((n,)), f"{[n, {'n': n}]}", f"{(n, x.shape)}"),
    "printed": _printed,
}
READ_NOW = {
    "a key": lambda x, n: x + {f"k{i}": i for i in range(20)}[f"k{n}"],
    "compared": lambda x, n: x + 1 if f"{n}" == "3" else x - 1,
    "its characters": lambda x, n: (x + 1, f"a{n}".upper(), len(f"a{n}"), f"a{n}"[0], [c for c in f"{n}"]),
    "concatenated": lambda x, n: (x + 1, "a" + f"{n}" + "b", f"{n}" * 2, ",".join([f"{n}", str(n)])),
    "in": lambda x, n: (x + 1, "1" in f"{n}", f"{n}" is None, bool(f"{n}"), {f"{n}", f"{n + 1}"}),
    "a number again": lambda x, n: (x + 1, int(f"{n}"), float(str(n))),
    "a format of its value": lambda x, n: (x + 1, f"{n + 65:c}", "%c" % (n + 65), "%x" % n, f"{n:{n + 3}d}"),
    "after a break": lambda x, n: (x + 1, f"s{n}", torch._dynamo.graph_break(), n),
}


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*LATER, *READ_NOW])
def test_texts_of_numbers(name, capsys):
    """A text with an int argument in it is filled after the graph; what reads its characters guards the number."""
    function, graphs = {**LATER, **READ_NOW}[name], Graphs()
    compiled = nbcompile.compile(function, backend=graphs)
    for number in (0, 2, 3, 5, 7, 11, 3):
        expected, shown = function(torch.ones(2), number), capsys.readouterr().out
        assert str(compiled(torch.ones(2), number)) == str(expected)
        assert capsys.readouterr().out == shown
    if name in LATER:
        assert len(graphs) <= (4 if name == "printed" else 2)  # the first call's number is a constant


@pytest.mark.parametrize("text", ["f'{n:s}'", "'%d %d' % n", "'{} {}'.format(n)"])
def test_errors_of_texts_of_numbers(text):
    """A format that a number has not raises Python's error."""
    compiled = nbcompile.compile(eval(f"lambda x, n: (x + 1, {text})"), backend="eager", dynamic=True)
    for number in (2, 3, 5):
        with pytest.raises((ValueError, TypeError, IndexError)) as raised:
            eval(text, {"n": number})
        with pytest.raises(raised.type, match=re.escape(str(raised.value))):
            compiled(torch.ones(2), number)


def test_the_text_of_sizes():
    """The text of a shape is filled after the graph, and one graph serves all sizes."""
    graphs = Graphs()
    compiled = nbcompile.compile(
        lambda x: (x + 1, f"{x.shape[0]} rows", str(x.shape), f"{x.size()}"), backend=graphs, dynamic=True
    )
    for size in (2, 3, 5):
        assert compiled(torch.ones(size))[1:] == (f"{size} rows", f"torch.Size([{size}])", f"torch.Size([{size}])")
    assert len(graphs) == 1
