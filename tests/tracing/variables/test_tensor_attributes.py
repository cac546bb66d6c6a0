"""Attributes of a tensor, under each of its names: torch.compile loses some of them."""

import pytest
import torch

import nbcompile


def on_a_new_tensor(x):
    y = x + 1
    z = y.add_(1)
    z.notes = ["a"]
    torch.relu_(y).more = 2
    y += 1
    y.last = 3
    return z is y, y.notes, z.more, z.last, hasattr(x, "notes"), y, z


def on_an_input(x):
    z = x.add_(1)
    z.notes = "a"
    x.other = 1
    del z.other
    z.mul_(2).third = 3
    return hasattr(z, "other"), x.notes, x.third, x


def on_what_was_written_into(x):
    y = torch.empty(3)
    torch.mul(x, 2, out=y).notes = 1
    return y.notes, y


def across_a_break(x):
    y = x * 2
    z = y.mul_(3)
    nbcompile.graph_break()
    z.notes = 1
    nbcompile.graph_break()
    return y.notes, y


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("function", [on_a_new_tensor, on_an_input, on_what_was_written_into, across_a_break])
def test_attributes_are_where_eager_has_them(function, backend):
    """The result of an in-place operation is another node of the graph, but the same object."""
    mine, eagers = torch.ones(3), torch.ones(3)
    got, wanted = nbcompile.compile(function, backend=backend)(mine), function(eagers)
    assert vars(mine) == vars(eagers)
    for one, other in zip(got, wanted, strict=True):
        if isinstance(other, torch.Tensor):
            assert vars(one) == vars(other)
            torch.testing.assert_close(one, other)
        else:
            assert one == other


@pytest.mark.parametrize("changed", ["v.unsqueeze_(0)", "v.t_()", "v.transpose_(0, -1)", "x.t_()"])
def test_a_transposed_input_whose_sizes_changed_is_not_read_again(changed):
    """``x.mT`` is computed in the graph, because a read after the call would have the sizes after ``unsqueeze_``."""

    def program(x):
        v = x.mT
        exec_changed(v, x)
        return v, v[0]

    exec_changed = eval(f"lambda v, x: {changed}")
    expected = program(torch.arange(6.0).reshape(2, 3))
    found = nbcompile.compile(program)(torch.arange(6.0).reshape(2, 3))
    for one, two in zip(expected, found, strict=True):
        assert (one.shape, one.stride(), one.tolist()) == (two.shape, two.stride(), two.tolist())


@pytest.mark.parametrize(
    ("make", "program"),
    [
        (lambda: torch.arange(6.0).reshape(3, 2).t(), lambda x: (x.unsqueeze_(0)[0], x)),
        (lambda: torch.arange(6.0).reshape(2, 3), lambda x: (x.unsqueeze_(0)[0], x)),
        (lambda: torch.arange(6.0).reshape(3, 2).t(), lambda x: (x.transpose_(0, -1).mT, x)),
        (lambda: torch.arange(24.0).reshape(4, 6)[::2, ::2], lambda x: (x.squeeze_(0).mul_(2)[..., 0], x)),
    ],
)
def test_an_input_whose_sizes_change_in_place_and_its_views_are_as_in_eager_mode(make, program):
    """Sizes, strides and the whole memory are eager mode's."""

    def seen(run):
        x = make()
        results = run(x)
        whole = torch.as_strided(x, (x.untyped_storage().nbytes() // 4,), (1,), 0)
        return [(each.shape, each.stride(), each.tolist()) for each in (*results, x, whole)]

    assert seen(nbcompile.compile(program)) == seen(program)


@pytest.mark.parametrize("name", ["imag", "real", "T", "mT", "H", "data"])
def test_an_attribute_that_makes_a_tensor_is_read_once(name):
    """A single read gives one tensor, also in a container and a closure; two reads give two tensors."""

    def program(x, kept):
        value = getattr(x, name)
        kept["value"] = value
        return [value, getattr(x, name), value], lambda: value

    kept: dict[str, torch.Tensor] = {}
    (value, again, same), closure = nbcompile.compile(program)(torch.ones(2, 3, dtype=torch.complex64), kept)
    assert value is same is kept["value"] is closure()
    assert again is not value


@pytest.mark.parametrize("name", ["names", "is_ort", "is_ipu", "no_such_name"])
def test_names_that_some_versions_of_torch_have(name):
    """A name that torch has removed is missing, so ``getattr`` returns its default."""

    def program(x):
        return x + 1, hasattr(x, name), getattr(x, name, "nothing")

    x = torch.ones(2)
    assert nbcompile.compile(program, backend="eager")(x)[1:] == program(x)[1:]


class Views:
    """Programs that return a tensor attribute of an input, under one name or several."""

    def converted(a):
        view = a.mT
        return view, view.double()

    def converted_first(a):
        copy = a.T.contiguous().to(a.device)
        return copy, copy.double()

    def in_a_dict(a):
        view = a.mT
        return {"view": view, "same": [view.double(), view], "other": a.mT}

    def written(a):
        view = a.data.mT
        other = view.add_(1)
        return view, other, view is other

    def data(a):
        view = a.data
        return view, view.add_(1).double()

    def with_an_attribute(a):
        view = a.data
        view.k = 3
        return view, view.double()

    def that_requires_grad(a):
        view = a.detach().T
        view.requires_grad_()
        return view

    def input_that_requires_grad(a):
        view = a.T
        view.requires_grad_()
        return view, view.requires_grad

    def without_gradients(a):
        with torch.no_grad():
            view = a.T
        return view, view.double()

    def with_gradients(a):
        with torch.enable_grad():
            view = a.T
        return view, view.double()

    def before_gradients_are_off(a):
        view = a.T
        torch.set_grad_enabled(False)
        return view, view.double()

    def before_a_break_without_gradients(a):
        with torch.no_grad():
            view = a.T
            nbcompile.graph_break()
            return view, view.double()


VIEWS = {name: function for name, function in vars(Views).items() if not name.startswith("_")}


def facts(result, given):
    """The properties of each tensor of a result, their identities, and whether they are aliases of the input."""
    tensors = [each for each in torch.utils._pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]
    return [
        (
            tensor.tolist(), tensor.stride(), tensor.requires_grad, tensor.grad_fn is None, getattr(tensor, "k", None),
            [at for at, other in enumerate(tensors) if other is tensor], tensor.data_ptr() == given.data_ptr(),
        )
        for tensor in tensors
    ]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("around", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_an_input_is_one_tensor_under_all_its_names(name, requires_grad, around, backend):
    """The view is read once after the graph, and only if that gives the value that the graph computed."""

    def seen(function):
        given = torch.arange(7.0, dtype=torch.float64).reshape(1, 7).requires_grad_(requires_grad)
        before = torch.is_grad_enabled()
        try:
            with around():
                return facts(function(given), given)
        finally:
            torch.set_grad_enabled(before)

    assert seen(nbcompile.compile(VIEWS[name], backend=backend)) == seen(VIEWS[name])


def annotations_of_a_parameter(x):
    return torch.nn.Parameter(x).__annotations__, x + 1


@pytest.mark.usefixtures("nothing_compiled")
def test_a_look_at_an_attribute_leaves_the_class_as_it_is():
    """``Parameter.__annotations__`` would add a dict to the class: a parameter would not see those of Tensor any more."""
    before = dict(vars(torch.nn.Parameter))
    compiled = nbcompile.compile(annotations_of_a_parameter, backend="eager")
    assert compiled(torch.ones(1))[0] == torch.Tensor.__annotations__
    assert dict(vars(torch.nn.Parameter)) == before
