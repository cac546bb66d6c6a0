"""An error that an operator raises while it is traced reaches the program's handlers, with eager mode's text."""

from __future__ import annotations

import contextlib
import re
import warnings

import pytest
import torch

import nbcompile


def caught(x, y):
    try:
        return x @ y
    except RuntimeError:
        return x + 1


def read(x, y):
    try:
        return x @ y
    except RuntimeError as error:
        return str(error)


def _product(x, y):
    return (x @ y).sin()


def caught_by_the_caller(x, y):
    x = x.cos()
    try:
        z = _product(x, y)
    except (ValueError, RuntimeError):
        z = x * 2
    return z.exp()


def caught_by_a_bare_clause(x, y):
    try:
        with torch.no_grad():
            return torch.cat([x, y.sum()])
    except:  # noqa: E722
        return x - 1


def caught_outside_of_another_clause(x, y):
    try:
        try:
            return x @ y
        except KeyError:
            return x
    except RuntimeError:
        return x + 5


def caught_behind_a_finally(x, y):
    try:
        try:
            return x @ y
        finally:
            x = x * 3
    except RuntimeError:
        return x


def caught_in_a_loop(x, y):
    for other in (y, y.t()):
        with contextlib.suppress(RuntimeError):
            x = x @ other
    return x


def suppressed(x, y):
    with contextlib.suppress(RuntimeError):
        return x @ y
    return x


class Catches:
    """A user's context manager that suppresses a RuntimeError."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        return kind is RuntimeError


def caught_by_a_context(x, y):
    with Catches():
        return x @ y
    return x * 4


def of_another_class(x, y):
    try:
        return x @ y
    except KeyError:
        return x


CAUGHT = (
    caught, read, caught_by_the_caller, caught_by_a_bare_clause, caught_outside_of_another_clause,
    caught_behind_a_finally, caught_in_a_loop, suppressed, caught_by_a_context,
)  # fmt: skip


@pytest.mark.parametrize("function", CAUGHT, ids=lambda function: function.__name__)
def test_a_handler_catches_what_an_operator_raises(function):
    """The program handles the error of mismatched sizes, as in eager mode."""
    x, y = torch.ones(2, 3), torch.ones(2, 3)
    expected, found = function(x, y), nbcompile.compile(function, backend="eager")(x, y)
    assert found == expected if isinstance(expected, str) else torch.equal(found, expected)


def test_a_clause_for_another_class():
    """An error that no clause catches is raised with eager mode's class and text."""
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        nbcompile.compile(of_another_class, backend="eager")(torch.ones(2, 3), torch.ones(2, 3))


def test_without_a_handler():
    """The compiler's error names the operator if nothing can catch it; torch's own contexts catch no errors."""

    def f(x, y):
        with torch.no_grad():
            return x @ y

    with pytest.raises(nbcompile.exc.TorchRuntimeError, match="matmul: RuntimeError"):
        nbcompile.compile(f, backend="eager")(torch.ones(2, 3), torch.ones(2, 3))


def test_an_operator_that_only_fake_tensors_reject():
    """Python runs operators that only fake tensors reject: an index of uint8, shifts of bools, a softmax of bools."""
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8)
    for function in (lambda x: x[mask], lambda x: x.bool() << 2, lambda x: x.bool().view(0, 3).log_softmax(0)):
        x = torch.ones(0) if "log_softmax" in function.__code__.co_names else torch.ones(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert torch.equal(nbcompile.compile(function, backend="eager")(x), function(x))


def _copied_onto_itself(x):
    overlapping = x.view(1, -1).expand(4, -1)
    return overlapping.copy_(overlapping)


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", [lambda x: x[x.byte()], lambda x: x.bool() << x.shape[0], _copied_onto_itself])
def test_an_operator_that_only_fake_tensors_reject_with_symbolic_sizes(function, dynamic):
    """Python runs such operators also with symbolic sizes, which are tried with the values of the traced call."""
    compiled = nbcompile.compile(function, backend="eager", dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size in (3, 4, 5):
            x = torch.ones(size)
            assert torch.equal(compiled(x), function(x))


WRONG = {
    "sizes": (lambda x: x + torch.ones(4), torch.ones(3)),
    "a product": (lambda x: x @ x, torch.ones(2, 3)),
    "a view": (lambda x: x.view(7), torch.ones(2, 3)),
    "a leaf is written": (lambda x: x.add_(1), torch.ones(3, requires_grad=True)),
    "a conjugated view": (lambda x: torch.view_as_real(x.conj()), torch.ones(3, dtype=torch.complex64)),
    "a view of columns": (lambda x: x.t().view(6), torch.ones(2, 3)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_fails_in_eager_mode_is_an_error_of_the_compiler(name):
    """The compiler's error names the operator, as in torch.compile, if eager mode fails, too."""
    function, x = WRONG[name]
    with pytest.raises(RuntimeError):
        function(x)
    with pytest.raises(nbcompile.exc.TorchRuntimeError, match="making fake tensor call"):
        nbcompile.compile(function, backend="eager")(x)


@pytest.mark.parametrize("make", [lambda x: torch.tensor([x, x]), lambda x: torch.tensor([[1.0], [x]])])
def test_tensors_that_are_no_numbers_make_no_tensor(make):
    """`torch.tensor([x, x])` raises eager mode's error if `x` has three elements: the tensors are not stacked."""
    # TypeError if ``torch.Tensor.__getitem__`` was replaced and restored before: Python then gives the class a slot.
    with pytest.raises((ValueError, TypeError)) as eager:
        make(torch.ones(3))
    with nbcompile.config.patch(suppress_errors=True), pytest.raises(eager.type, match=re.escape(str(eager.value))):
        nbcompile.compile(make)(torch.ones(3))
    numbers = nbcompile.compile(lambda x: torch.tensor([x.sum(), x[:1], 2.0]), fullgraph=True)
    assert numbers(torch.ones(3)).tolist() == [3.0, 1.0, 2.0]


def test_an_operator_without_a_rule_for_fake_tensors(recwarn):
    """The error asks for `register_fake`; with `suppress_errors` the report does not call it a failure."""

    @torch.library.custom_op("nbcompile_tests::no_rule", mutates_args=())
    def no_rule(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    def f(x):
        return no_rule(x) + 1

    with pytest.raises(nbcompile.exc.TorchRuntimeError, match="register_fake"):
        nbcompile.compile(f)(torch.ones(3))
    with nbcompile.config.patch(suppress_errors=True):
        explained = nbcompile.explain(f)(torch.ones(3))
    assert "no function for fake tensors (register_fake)" in " ".join(str(explained).split())
    assert "whatever runs it" not in str(explained)


def test_a_result_that_is_no_fake_tensor_breaks_the_graph():
    """The operator runs eagerly: a later operator would read data that the fake tensor does not have."""
    kept = torch.full((3,), 7.0)

    @torch.library.custom_op("operator_errors::kept", mutates_args=())
    def add_kept(x: torch.Tensor) -> torch.Tensor:
        return x + kept

    add_kept.register_fake(lambda x: kept)
    compiled = nbcompile.compile(lambda x: add_kept(x) + 1, backend="eager")
    assert compiled(torch.ones(3)).tolist() == [9.0, 9.0, 9.0]


def test_a_tensor_of_an_address_is_made_eagerly():
    """``from_dlpack`` reads the address of the data; the result is an alias of the argument."""
    x = torch.arange(3.0)
    result = nbcompile.compile(lambda x: (torch.from_dlpack(x), torch.from_dlpack(x) + 1), backend="eager")(x)
    assert result[0].data_ptr() == x.data_ptr()
    assert result[1].tolist() == [1.0, 2.0, 3.0]
