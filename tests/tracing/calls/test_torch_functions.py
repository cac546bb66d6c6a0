"""Functions of torch that are evaluated while tracing: their results, their graphs and their graph breaks."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental import symbolic_shapes

import nbcompile
from nbcompile import annotations, errors
from tests.support.graphs import agrees, compiled

pytestmark = pytest.mark.usefixtures("nothing_compiled")
X = torch.linspace(-1, 1, 4)


ANSWERS = {
    "is_tensor": (lambda x: (torch.is_tensor(x), torch.is_tensor(3)), (True, False)),
    "is_compiling": (lambda x: (torch.compiler.is_compiling(), torch.compiler.is_dynamo_compiling()), (True, True)),
    "is_exporting": (lambda x: (torch.compiler.is_exporting(), torch.jit.is_scripting()), (False, False)),
    "is_tracing": (lambda x: (torch.jit.is_tracing(), torch._C._get_tracing_state()), (False, None)),
    "numel": (lambda x: (torch.numel(x), x.numel()), (4, 4)),
    "dtypes": (lambda x: (torch.is_floating_point(x), torch.is_complex(x)), (True, False)),
    "result_type": (lambda x: (torch.result_type(x, 1.5), torch.result_type(x, 1j)), (torch.float32, torch.complex64)),
    "sym": (lambda x: (torch.sym_max(3, 4), torch.sym_int(2.5), torch.sym_not(True)), (4, 2, False)),
    "annotate": (lambda x: torch.jit.annotate(int, 3), 3),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_questions_are_answered_without_an_operator(name):
    """The answers are constants of the residual program."""
    function, expected = ANSWERS[name]
    found, graphs = compiled(lambda x: (x + 1, function(x)), X, fullgraph=True)
    assert found[1] == expected and graphs == ["add"]


@pytest.mark.parametrize(("function", "error"), [
    (lambda x: torch.numel(3), TypeError), (lambda x: torch.is_floating_point(x, x), TypeError),
    (lambda x: torch.numel(x, other=1), TypeError),
])  # fmt: skip
def test_wrong_arguments_are_rejected_as_the_function_does(function, error):
    """The error has the text of the function's own error."""
    with pytest.raises(error) as expected:
        function(X)

    def f(x):
        try:
            return x + 1, function(x)
        except error as raised:
            return x + 1, str(raised)

    assert compiled(f, X)[0][1] == str(expected.value)


def test_dropout_that_drops_nothing_gives_its_input():
    """The result is the input itself, as in eager mode, so a mutation of the result changes the input."""

    def f(x):
        x = x.clone()
        y = torch.nn.functional.dropout(x, 0.5, training=False)
        y.add_(1)
        return x, y is x

    agrees(f, X)


def test_narrow_reads_a_start_that_is_a_tensor():
    """The start of the slice is a number that is known only at run time."""
    agrees(lambda x, start: torch.narrow(x, 0, start, 2) + 1, X, torch.tensor(1))
    agrees(lambda x, start: torch.narrow(x, dim=0, start=start, length=2) + 1, X, torch.tensor(2))


def test_compile_inside_of_what_is_compiled_is_the_function():
    """A nested ``compile`` returns the traced function; without a function it is a decorator and breaks the graph."""
    found, graphs = compiled(lambda x: torch.compile(torch.sin)(x) + nbcompile.compile(model=torch.cos)(x), X)
    assert torch.equal(found, X.sin() + X.cos()) and graphs == ["sin cos add"]
    with pytest.raises(errors.Unsupported, match="torch.compile without a function"):
        compiled(lambda x: torch.compile()(torch.sin)(x.cos()), X, fullgraph=True)


@pytest.mark.parametrize(("function", "words"), [
    (lambda x: torch.manual_seed(3), "manual_seed"),
    (lambda x: torch.is_inference_mode_enabled(), "nference"), (lambda x: torch._dynamo.graph_break(), "graph_break"),
    (lambda x: annotations.graph_break(), "graph_break"), (lambda x: torch._dynamo.skip_frame(), "skip_frame"),
    (lambda x: torch.utils.dlpack.from_dlpack(x), "from_dlpack"),
    (lambda x: annotations.allow_in_graph(torch.sin), "allow_in_graph"),
])  # fmt: skip
def test_what_is_left_to_python_breaks_the_graph_by_its_name(function, words):
    """With ``fullgraph=True`` the graph break is an error that names the function."""
    with pytest.raises(errors.Unsupported, match=words):
        compiled(lambda x: (x + 1, function(x)), X, fullgraph=True)


def test_conditions_on_sizes_are_joined_in_the_graph():
    """Conditions that are known while tracing are folded."""
    agrees(lambda x: (x + 1, symbolic_shapes.sym_and(True, x.shape[0] == 4), symbolic_shapes.sym_or(False, False)), X)
    agrees(lambda x: (x + 1, symbolic_shapes.statically_known_true(x.shape[0] == 4)), X)


def test_an_operator_packet_is_called_in_the_graph():
    """The call uses the overload that eager mode chooses."""
    agrees(lambda x: torch.ops.aten.add(x, 2) + torch.ops.aten.relu(x), X)


BY_NAME = {
    "tensor": lambda x: torch.tensor(data=[1, 2]),
    "tensor_of_tensors": lambda x: torch.tensor(data=[x[0], 2]),
    "as_tensor": lambda x: torch.as_tensor(data=x),
    "asarray": lambda x: torch.asarray(obj=[1, 2]),
    "scalar_tensor": lambda x: torch.scalar_tensor(s=1),
    "full": lambda x: torch.full(fill_value=2, size=(2,)),
    "linspace": lambda x: torch.linspace(end=2, steps=3, start=1),
    "logspace": lambda x: torch.logspace(start=0, end=2, steps=3),
    "can_cast": lambda x: torch.can_cast(from_=torch.int32, to=x.dtype),
    "promote_types": lambda x: torch.promote_types(type1=torch.int32, type2=x.dtype),
    "result_type": lambda x: torch.result_type(tensor=x, other=1),
    "result_type_scalar": lambda x: torch.result_type(scalar=1, tensor=x),
    "result_type_scalars": lambda x: torch.result_type(scalar1=1, scalar2=2.0),
}


@pytest.mark.parametrize("name", BY_NAME)
def test_the_first_argument_may_be_given_by_its_name(name):
    """Functions of torch whose first parameter is not called ``input`` take it as a keyword."""
    x, f = torch.ones(2), BY_NAME[name]
    assert repr(nbcompile.compile(f, backend="eager", fullgraph=True)(x)) == repr(f(x))
