"""Custom operators in compiled code behave as in eager mode, or raise the documented error."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
from torch.library import Library, custom_op

import nbcompile
from nbcompile import errors
from tests.support.observed import agrees_with_eager


@custom_op("nbcompile_tests::square", mutates_args=())
def square(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() ** 2)


square.register_fake(torch.empty_like)
square.register_autograd(
    lambda ctx, grad: 2 * grad * ctx.saved_tensors[0],
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@custom_op("nbcompile_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return x * factor


scaled.register_fake(lambda x, factor=2.0: torch.empty_like(x))


@custom_op("nbcompile_tests::increase", mutates_args=("x",))
def increase(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y)


@custom_op("nbcompile_tests::increase_both", mutates_args=("x", "z"))
def increase_both(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    z.mul_(2)
    return x * z


increase_both.register_fake(lambda x, y, z: torch.empty_like(x))


@custom_op("nbcompile_tests::each_plus", mutates_args=())
def each_plus(xs: list[torch.Tensor], n: int) -> list[torch.Tensor]:
    return [x + n for x in xs]


each_plus.register_fake(lambda xs, n: [torch.empty_like(x) for x in xs])


@custom_op("nbcompile_tests::nothing_known", mutates_args=())
def nothing_known(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@custom_op("nbcompile_tests::flat", mutates_args=())
def flat(x: torch.Tensor) -> torch.Tensor:
    return x.view(-1)


flat.register_fake(lambda x: x.view(-1))


@custom_op("nbcompile_tests::places", mutates_args=())
def places(x: torch.Tensor) -> torch.Tensor:
    return torch.nonzero(x)


@places.register_fake
def _(x):
    return x.new_empty([torch.library.get_ctx().new_dynamic_size(), x.dim()], dtype=torch.int64)


@custom_op("nbcompile_tests::shorter", mutates_args=())
def shorter(x: torch.Tensor) -> torch.Tensor:
    return x[:2].clone()


shorter.register_fake(torch.empty_like)


@custom_op("nbcompile_tests::wider", mutates_args=())
def wider(x: torch.Tensor) -> torch.Tensor:
    return x.double()


wider.register_fake(torch.empty_like)

LIBRARY = Library("nbcompile_tests", "FRAGMENT")
LIBRARY.define("times(Tensor x, int n) -> Tensor")
LIBRARY.impl("times", lambda x, n: x * n, "CPU")
torch.library.register_fake("nbcompile_tests::times", lambda x, n: torch.empty_like(x))
LIBRARY.define("with_total(Tensor x) -> (Tensor, Tensor)")
LIBRARY.impl("with_total", lambda x: (x + 1, x.sum(0)), "CPU")
LIBRARY.impl("with_total", lambda x: (torch.empty_like(x), x.new_empty(x.shape[1:])), "Meta")
LIBRARY.define("composed(Tensor x) -> Tensor")
LIBRARY.impl("composed", lambda x: x.sin() + 1, "CompositeImplicitAutograd")
LIBRARY.define("twice_in_place_(Tensor(a!) x) -> Tensor(a!)")
LIBRARY.impl("twice_in_place_", lambda x: x.mul_(2), "CPU")
LIBRARY.impl("twice_in_place_", lambda x: x, "Meta")
LIBRARY.define("grow(Tensor(a!)[] xs, Tensor? y) -> ()")
LIBRARY.impl("grow", lambda xs, y: [x.add_(1 if y is None else y) for x in xs] and None, "CPU")
LIBRARY.impl("grow", lambda xs, y: None, "Meta")
OPS = torch.ops.nbcompile_tests


def some(*shape):
    return torch.randn(*shape)


def learning(*shape):
    return torch.randn(*shape, requires_grad=True)


def increased(y):
    total = y * 2
    increase(total, y)
    increase(total[:2], y[2:])
    return total + 1, total


def grown(x, y):
    OPS.grow([x, y], None)
    OPS.grow([x], y)
    return x + y


def increased_constant(x, y):
    hidden, constant = y * 2, x.clone()
    increase(constant, x)
    return (hidden * constant).sum()


PROGRAMS = {
    "with a derivative": (lambda x: square(x.sin()) * 2, lambda: [learning(4)]),
    "without a derivative": (lambda x: scaled(x.sin()) * 2 + x, lambda: [some(4)]),
    "writes to its argument": (lambda x, y: (increase(x, y), x * 2)[1], lambda: [some(4), some(4)]),
    "writes to an intermediate and a view": (increased, lambda: [some(4)]),
    "writes to parts": (lambda x, y: (increase(x[1], y), increase(x[:, 2], y), x * 2)[2], lambda: [some(4, 4), some(4)]),
    "writes to two and returns": (increase_both, lambda: [some(4), some(4), some(4)]),
    "writes to what has no gradient": (increased_constant, lambda: [some(4), learning(4)]),
    "lists": (lambda x: each_plus([x, x * 2], 3), lambda: [some(4)]),
    "a size that data decides": (lambda x: places(x.relu()) + 1, lambda: [torch.tensor([[1.0, 0, 2]]).t()]),
    "define and impl": (lambda x: OPS.times(x, 3) + 1, lambda: [some(4)]),
    "an overload": (lambda x: OPS.times.default(x, n=2), lambda: [some(4)]),
    "two results": (OPS.with_total, lambda: [some(4, 3)]),
    "made of others": (lambda x: OPS.composed(x) * 2, lambda: [learning(4)]),
    "writes to a list": (grown, lambda: [some(4), some(4)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    """Results, mutated arguments and gradients equal eager's."""
    function, arguments = PROGRAMS[name]

    def program(compiled):
        given = arguments()
        result = compiled(function)(*given)
        for each in torch.utils._pytree.tree_leaves(result):
            if each.requires_grad:
                each.sum().backward()
        return result, given

    agrees_with_eager(program)


def test_sizes_that_change():
    """One graph with a symbolic size serves several sizes, forward and backward."""

    def program(compiled):
        run, seen = compiled(lambda x: square(x.sin()) * x.shape[0]), []
        for size in (3, 4, 5):
            x = torch.randn(size, requires_grad=True)
            result = run(x)
            result.sum().backward()
            seen += [result, x]
        return seen

    agrees_with_eager(program, dynamic=True)


def test_opcheck_passes_on_what_is_right():
    """torch's own checks of an operator (opcheck) pass after the operator was compiled."""
    nbcompile.compile(lambda x: square(x))(torch.ones(3))
    assert set(torch.library.opcheck(square, (torch.randn(3, requires_grad=True),)).values()) == {"SUCCESS"}


@pytest.mark.compiles
def test_no_derivative():
    """Without a derivative the graph runs as captured with a warning that says why; its backward raises as in eager."""
    x = learning(4)
    eager = scaled(x.sin())
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        eager.sum().backward()
    with pytest.warns(errors.GeneratedCodeWarning, match="no autograd formula was registered"):
        found = nbcompile.compile(lambda x: scaled(x.sin()))(x)
    assert torch.equal(found, eager)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        found.sum().backward()


def test_no_fake_implementation():
    """An operator without a fake implementation raises the documented error, with ``register_fake`` and the line."""
    with pytest.raises(errors.TorchRuntimeError, match=r"(?s)register_fake.*nothing_known\(x\) \+ 1"):
        nbcompile.compile(lambda x: nothing_known(x) + 1)(torch.ones(3))


@pytest.mark.parametrize(("operator", "wrong"), [(shorter, r"float32\[2\]"), (wider, r"float64\[4\]")])
def test_a_fake_implementation_that_is_wrong(operator, wrong):
    """The error names the result's metadata and the promised ones: a kernel would read past the end."""
    with pytest.raises(
        RuntimeError, match=rf"returned torch\.{wrong}, but its fake implementation says torch\.float32\[4\]"
    ):
        nbcompile.compile(lambda x: operator(x) + 1)(torch.ones(4))


def test_a_result_that_is_a_view_of_an_argument():
    """torch rejects a result that is a view of an argument, compiled or not."""
    for run in (flat, nbcompile.compile(lambda x: flat(x) + 1)):
        with pytest.raises(RuntimeError, match="may not alias"):
            run(torch.ones(2, 2))


def test_a_schema_that_says_alias():
    """A schema that says that a result aliases an argument cannot be functionalised (as in torch.compile)."""
    with pytest.raises(errors.BackendCompilerFailed, match="output has alias annotations"):
        nbcompile.compile(lambda x: OPS.twice_in_place_(x) + 1)(torch.ones(2))


# --- effects -----------------------------------------------------------------------------------------------------------


SEEN: list[object] = []


@torch.library.custom_op("nbtest::told", mutates_args=())
def told(x: torch.Tensor, what: str) -> torch.Tensor:
    """A copy, which appends an entry to SEEN when it runs."""
    SEEN.append((what, x.sum().item()))
    return x.clone()


@told.register_fake
def _(x, what):
    return torch.empty_like(x)


@torch.library.custom_op("nbtest::noted", mutates_args=())
def noted(what: str) -> None:
    """An effect without a result."""
    SEEN.append(what)


@noted.register_fake
def _(what):
    return None


for _each in (told, noted):
    _register_effectful_op(_each, _EffectType.ORDERED)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_effects_happen_in_order(backend):
    """An operator that is registered to have an effect runs in program order, also if no node reads its result."""

    def function(x):
        y = told(x, "first") + 1
        torch.ops.nbtest.noted("between")
        told(x * 0, "for nothing")
        return told(y, "last") * 2

    compiled = nbcompile.compile(function, fullgraph=True, backend=backend)
    for _ in range(2):
        SEEN.clear()
        assert compiled(torch.ones(3)).tolist() == [4, 4, 4]
        assert SEEN == [("first", 3), "between", ("for nothing", 0), ("last", 6)]


def test_effects_beside_a_gradient():
    """Effects run in a forward graph with gradients, too."""

    def function(w, x):
        torch.ops.nbtest.noted("before")
        result = (w * x).sum()
        torch.ops.nbtest.noted("after")
        return result

    w = torch.ones(3, requires_grad=True)
    SEEN.clear()
    nbcompile.compile(function, fullgraph=True)(w, torch.full((3,), 2.0)).backward()
    assert w.grad.tolist() == [2, 2, 2]
    assert SEEN == ["before", "after"]


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("function", [torch.linalg.inv, torch.linalg.cholesky])
def test_a_matrix_that_has_no_answer_is_an_error(function, learns):
    """Linear algebra on a singular matrix raises ATen's error, as in eager mode: the check is an effect."""
    with pytest.raises(torch.linalg.LinAlgError):
        nbcompile.compile(lambda x: function(x) + 1, fullgraph=True)(torch.zeros(2, 2).requires_grad_(learns))


# --- kernels of the user's own -----------------------------------------------------------------------------------------


@torch.library.triton_op("nbtest::joined", mutates_args={})
def joined(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The sum of two tensors; on a GPU a Triton kernel would be launched here."""
    return torch.add(a, b, out=torch.empty_like(a))


joined.register_kernel("cpu")(lambda a, b: a + b)
joined.register_autograd(lambda ctx, grad: (grad, 2 * grad))


def test_triton_op():
    """A graph calls a ``triton_op``, and uses its derivative."""
    a, b = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
    found = nbcompile.compile(lambda a, b: joined(a, b) * 2, fullgraph=True)(a, b)
    found.sum().backward()
    assert found.tolist() == [4] * 4
    assert (a.grad.tolist(), b.grad.tolist()) == ([2] * 4, [4] * 4)
