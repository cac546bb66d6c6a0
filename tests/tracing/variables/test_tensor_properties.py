"""Properties of inputs beyond TENSOR_MATCH are guarded: another value runs other code."""

import pytest
import torch

import nbcompile
from nbcompile.capture.guard import GuardKind
from nbcompile.dispatch import cache


def leaf():
    return torch.arange(4.0, requires_grad=True)


def computed():
    return leaf() * 1


def retaining():
    tensor = computed()
    tensor.retain_grad()
    return tensor


def whole():
    return torch.arange(4.0)


def view():
    return torch.arange(8.0)[:4]


def shared():
    return torch.arange(4.0).share_memory_()


def second_output():
    return torch.arange(8.0, requires_grad=True).split(4)[1]


PROPERTIES = {
    "x.is_leaf": (leaf, computed),
    "getattr(x, 'is_leaf')": (leaf, computed),
    "torch.Tensor.is_leaf.__get__(x)": (leaf, computed),
    "x.grad_fn is None": (leaf, computed),
    "x.retains_grad": (computed, retaining),
    "x.is_shared()": (whole, shared),
    "x[1:].is_shared()": (whole, shared),
    "x.detach().is_shared()": (whole, shared),
    "(x + 1).is_shared()": (whole, shared),
    "x._is_view()": (whole, view),
    "x._base is None": (whole, view),
    "x._grad_fn is None": (leaf, computed),
    "x.output_nr": (leaf, second_output),
    "torch.Tensor._is_view(x)": (whole, view),
    "x.is_set_to(x)": (whole, view),
}


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("order", [1, -1], ids=["in order", "reversed"])
@pytest.mark.parametrize("question", PROPERTIES)
def test_the_answer_is_that_of_the_call(question, order, backend):
    """The result is that of the real tensor, in every order of calls."""
    function = eval(f"lambda x: (x.detach() + 1, {question})", {"torch": torch})
    compiled = nbcompile.compile(function, backend=backend)
    for make in PROPERTIES[question][::order] * 3:  # the third call of each uses the fast call path
        tensor = make()
        got, wanted = compiled(tensor), function(tensor)
        assert torch.equal(got[0], wanted[0])
        assert got[1] is wanted[1], make.__name__


def written_to(x):
    y = x.sin()
    before = y._version
    y.add_(1)
    y[1:].mul_(2)
    torch.mul(x, 2, out=y)
    return before, y._version, y[1:]._version, y.detach()._version, y.data._version, y.relu_()._version, y


def names_and_bases(x):
    y = x * 2
    first, second = y.split(2)
    return x.name, y.name, x._base, y._base, y.output_nr, second.output_nr, y


def bases_of_views(x):
    y = x * 2
    flat, part = y.view(-1), y[1:]
    again = flat[1:]
    known = flat._base is y, part._base is y, again._base is y, flat._base is None, y._base is None
    return *known, flat._base.shape, (flat._base + 1).tolist() if x is None else flat._base + 1


@pytest.mark.parametrize("function", [written_to, names_and_bases, bases_of_views])
def test_questions_about_what_the_graph_computes(function):
    """The version, the base of a view and the output number come from the fake tensor, in one graph."""
    compiled = nbcompile.compile(function, fullgraph=True)
    for make in (whole, leaf):
        with torch.no_grad():
            *got, tensor = compiled(make())
            *wanted, expected = function(make())
        assert got == wanted
        assert torch.equal(tensor, expected)


def multiplied(x):
    x.mul_(2)
    return x.output_nr


def multiplied_through_a_view(x):
    with torch.no_grad():
        x[:1].mul_(2)
    return x.output_nr


@pytest.mark.parametrize("function", [multiplied, multiplied_through_a_view, lambda x: x.detach_().output_nr])
def test_the_number_of_an_output_that_was_written_to_is_that_of_the_last_operator(function):
    """The output number after a mutation is that of the last operator, not that of the call's input."""
    compiled = nbcompile.compile(function)
    for _ in range(3):
        made = [torch.ones(3, 2).requires_grad_().aminmax(dim=1).max for _ in range(2)]
        assert compiled(made[0]) == function(made[1])


def version_of_an_input(x):
    before = x._version
    x.add_(1)
    return x._version - before, x._version, x[1:]._version


def test_the_version_of_an_input_is_that_of_the_call():
    """Python reads the version of an input, because it differs between calls."""
    compiled = nbcompile.compile(version_of_an_input)
    written = whole()
    written.mul_(1).mul_(1)
    for tensor in (whole(), view(), written):
        assert compiled(tensor.clone() if tensor is not written else tensor)[0] == 1
    assert compiled(written)[1] == written._version == 4


def test_an_inference_tensor_has_no_version():
    """The read raises eager mode's error in the compiled function, too."""

    @torch.inference_mode()
    def ask(x):
        try:
            return (x + 1)._version
        except RuntimeError as error:
            return str(error)

    assert nbcompile.compile(ask)(whole()) == ask(whole())


def changed_in_place(x):
    with torch.no_grad():
        y = x.zero_()
    return y.is_leaf, y.detach() + 1


def test_an_input_by_another_name():
    """The result of an in-place method is the input."""
    compiled = nbcompile.compile(changed_in_place)
    for make in (leaf, computed, leaf):
        assert compiled(make())[0] is changed_in_place(make())[0]


def is_one_memory(x, y):
    return x + 1, x.is_set_to(y)


def test_one_memory_or_two():
    """Eager mode compares two inputs, because fake tensors have no addresses."""
    base = torch.arange(8.0)
    compiled = nbcompile.compile(is_one_memory)
    for other in (base[:4], base[4:], base[:4]):
        assert compiled(base[:4], other)[1] is is_one_memory(base[:4], other)[1]


def test_one_guard_for_each_question():
    """The text of the guard is that of the program, and a property that is not read has no guard."""

    def function(x):
        return x.detach() + 1 if x.is_leaf and not x.is_shared() else x

    nbcompile.compile(function)(leaf())
    [entry] = cache.entries(function.__code__)
    printed = {each.text for each in entry.check.prepared if each.guard.kind is GuardKind.TENSOR_PROPERTY}
    assert printed == {"L['x'].is_leaf is True", "L['x'].is_shared() is False"}
