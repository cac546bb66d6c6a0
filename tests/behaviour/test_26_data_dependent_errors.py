"""Section 26: data-dependent errors (GE)."""

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import (
    guard_or_false,
    guard_or_true,
    guard_size_oblivious,
    statically_known_true,
    sym_and,
    sym_or,
)

import nbcompile
from tests.support.watched import differs, same, watch

five = torch.tensor([5])  # of dimension 1: the number in an input of dimension 0 is known (test_GE_3_a_known_number)


def whole(function, *arguments):
    """The function compiled as one graph, after a comparison with eager mode."""
    compiled = watch(function, fullgraph=True)
    same(compiled(*arguments), function(*arguments))
    return compiled


def error_of(function, *arguments):
    with pytest.raises(nbcompile.exc.NbcompileError) as caught:
        nbcompile.compile(function, fullgraph=True, backend="eager")(*arguments)
    return str(caught.value)


def branch(x):
    i = x.item()
    if i > 4:
        return x + 1
    return x - 1


def test_GE_1_the_error():
    """A branch on an unbacked symbol under fullgraph is an error with the expression, the line and torch._check."""
    text = error_of(branch, five)
    assert "u0 > 4" in text
    assert "if i > 4:" in text
    assert "torch._check" in text


def test_GE_2_a_specialised_integer_is_wanted():
    """range(n) and a list of modules indexed by n need an integer, so an unbacked n is an error."""
    layers = torch.nn.ModuleList([torch.nn.Linear(1, 1) for _ in range(3)])

    def looped(x):
        total = x
        for _ in range(x.item()):
            total = total + 1
        return total

    def indexed(x, y):
        return layers[x.item()](y)

    assert "u0" in error_of(looped, torch.tensor([2]))
    assert "u0" in error_of(indexed, torch.tensor([2]), torch.ones(1))


def test_GE_3_default_mode_works():
    """Without fullgraph, .item() breaks the graph first, and the function works."""
    compiled = watch(branch)
    same(compiled(five), branch(five))
    assert len(compiled.breaks) == 1


def test_GE_3_a_known_number():
    """The number in an int64 input of dimension 0 is a symbol with a value: a branch on it is a guard."""
    compiled = watch(branch, fullgraph=True)
    for number, reason in ((5, ()), (7, ()), (3, ("5 <= x.item()",))):
        same(compiled(torch.tensor(number)), branch(torch.tensor(number)))
        assert tuple(each.reason for each in compiled.frames[-1].failed_guards) == reason
    assert len(compiled.frames) == 2


def test_GE_5_ranges_of_unbacked_symbols():
    """torch._check refines the range."""

    def f(x):
        i = x.item()
        torch._check(i >= 0)
        torch._check(i <= 2)
        return x + i

    compiled = whole(f, torch.tensor([1]))
    (symbol,) = [each for each in compiled.frames[0].symbols if each.unbacked]
    assert symbol.range == "[0, 2]"


def test_GE_6_checks_resolve_branches():
    """torch._check(i > 2) resolves the branch and is checked at run time; so does i < 4 for i >= 4."""

    def f(x):
        i = x.item()
        torch._check(i > 2)
        return x + 1 if i > 2 else x - 1

    compiled = whole(f, five)
    with pytest.raises(RuntimeError):
        compiled(torch.tensor([1]))

    def g(x):
        i = x.item()
        torch._check(i < 4)
        return x + 1 if i >= 4 else x - 1

    whole(g, torch.tensor([3]))


@differs("a message that closes over a symbol is left out of the graph; torch rejects it (GB9158)")
def test_GE_7_message_of_a_check():
    """The message is a function of constants."""

    def closes(x):
        i = x.item()
        torch._check(i > 2, lambda: f"bad {i}")
        return x + i

    compiled = whole(closes, five)
    with pytest.raises(RuntimeError):
        compiled(torch.tensor([1]))


def test_GE_8_equality_substitutes():
    """torch._check(i == 5) replaces i by the constant."""

    def f(x):
        i = x.item()
        torch._check(i == 5)
        return torch.ones(i) + 1

    compiled = whole(f, five)
    with pytest.raises(RuntimeError):
        compiled(torch.tensor([4]))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_GE_9_check_is_size():
    """torch._check_is_size makes the range begin at 0."""

    def f(x):
        i = x.item()
        torch._check_is_size(i)
        return torch.zeros(i) + 1

    whole(f, five)


def test_GE_10_constrain_as_size():
    """torch._constrain_as_size bounds a size, which is asserted at run time; _constrain_as_value no longer exists."""

    def f(x):
        i = x.item()
        torch._constrain_as_size(i, min=2, max=9)
        return torch.zeros(i) + 1

    compiled = whole(f, five)
    same(compiled(torch.tensor([7])), torch.ones(7))
    with pytest.raises(RuntimeError):
        compiled(torch.tensor([20]))
    assert len(compiled.backend) == 1
    assert not hasattr(torch, "_constrain_as_value")


def test_GE_21_guard_size_oblivious():
    """guard_size_oblivious treats a size that is known only at run time as neither 0 nor 1."""

    def f(x):
        i = x.item()
        torch._check_is_size(i)
        return torch.zeros(i) + (1 if guard_size_oblivious(i == 0) else 2)

    whole(f, five)


def test_GE_11_factories_mark_sizes():
    """torch.zeros(u0) needs no annotation by the user."""
    compiled = whole(lambda x: torch.zeros(x.item()) + 1, five)
    with pytest.raises(RuntimeError):
        compiled(torch.tensor(-1))


def test_GE_12_slices():
    """y[:u0] and narrow both work."""
    y = torch.arange(10)

    def sliced(x, y):
        i = x.item()
        torch._check(i >= 0)
        torch._check(i <= y.shape[0])
        return y[:i] + 1

    def narrowed(x, y):
        i = x.item()
        torch._check(i >= 0)
        torch._check(i <= y.shape[0])
        return y.narrow(0, 0, i) + 1

    whole(sliced, five, y)
    whole(narrowed, five, y)


def test_GE_13_one_tensor_one_symbol():
    """.item() of one tensor is one symbol; of two results of an index, it is two."""
    compiled = whole(lambda x: torch.ones(x.item()) + torch.ones(x.item()), five)
    assert len([each for each in compiled.frames[0].symbols if each.unbacked]) == 1
    compiled = whole(lambda x: torch.ones(x[0].item()) + torch.ones(x[0].item()), torch.tensor([3]))
    with pytest.raises(RuntimeError):
        whole(lambda x: torch.ones(x[0].item()) + torch.ones(x[1].item()), torch.tensor([3, 3]))(torch.tensor([3, 4]))


def test_GE_14_addition_unifies():
    """The shape check of an addition makes two unbacked sizes equal."""
    whole(lambda x, y: torch.ones(x.item()) + torch.ones(y.item()), torch.tensor([3]), torch.tensor([3]))


def test_GE_15_questions_that_never_fail():
    """statically_known_true, guard_or_false and guard_or_true work under fullgraph with an unbacked n."""

    def f(x):
        n = x.item()
        if statically_known_true(n > 3):
            return x + 1
        if guard_or_false(n == 0):
            return x + 2
        if guard_or_true(n > 100):
            return x + 3
        return x + 4

    compiled = watch(f, fullgraph=True)
    same(compiled(five), five + 3)


def test_GE_17_sym_and_sym_or():
    """sym_and and sym_or combine conditions of a check."""

    def f(x):
        n = x.item()
        torch._check(sym_and(n > 2, sym_or(n < 8, n == 9)))
        return x + n

    compiled = watch(f, fullgraph=True)
    same(compiled(five), five + 5)
    with pytest.raises(RuntimeError):
        compiled(torch.tensor([20]))


def test_GE_18_unbind_needs_a_size():
    """unbind over an unbacked dimension is an error."""
    assert "u0" in error_of(lambda x: torch.zeros(x.item()).unbind()[0], five)


def test_GE_19_cond():
    """torch.cond runs the branch that the data select."""

    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    compiled = watch(f)
    for sign in (1.0, -1.0):
        same(compiled(torch.ones(3) * sign), torch.ones(3) * sign + sign)


def test_GE_20_lengths_rather_than_offsets():
    """a, b = x.tolist(); t.split([a, b, 2]) is one graph."""

    def f(x, t):
        a, b = x.tolist()
        first, second, third = t.split([a, b, 2])
        return first + 1, second + 2, third

    compiled = whole(f, torch.tensor([3, 4]), torch.arange(9))
    assert len(compiled.backend) == 1
