"""The table of decompositions is explicit, has no dead entry, and contains no operator that the lowering handles."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.aot.decompositions import NAMES, default_table
from nbcompile.aot.rounded_steps import DEFINITIONS
from nbcompile.lowering.registry import LOWERINGS
from tests.support.captured import capture, compiled


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_an_operator_that_torch_can_decompose(name):
    """torch has a decomposition for each name in the table."""
    assert any(operator.overloadpacket is getattr(torch.ops.aten, name) for operator in default_table())


def test_names_are_listed_once():
    assert len(set(NAMES)) == len(NAMES)


def test_nothing_is_decomposed_that_lowering_knows():
    """A lowered operator is not decomposed, except a channels-last roll, and operators of 16-bit floats that round inside."""
    known = {str(each) for each in default_table()} & {str(each) for each in LOWERINGS}
    assert known - {str(operator) for operator in DEFINITIONS} == {"aten.roll.default"}


@pytest.mark.parametrize(("shifts", "dims"), [(1, 1), (2, -1), (0, 2), ((1, -1), (0, 2)), (3, ()), (-2, 1)])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 3, 4, 5), (0, 3, 2, 2), (2, 3, 2, 3, 2)])
def test_a_roll_has_the_strides_of_eager_mode(shape, shifts, dims):
    """A roll of a channels-last tensor is channels-last, unless a shift is a multiple of the size."""
    layout = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    for x in (torch.rand(shape), torch.rand(shape).to(memory_format=layout), torch.rand(shape).transpose(1, 2)):
        nbcompile.reset()  # otherwise sizes and shifts are symbolic
        eager = x.roll(shifts, dims)
        found = nbcompile.compile(lambda x: x.roll(shifts, dims))(x)
        assert torch.equal(found, eager)
        assert found.stride() == eager.stride()


def test_random_operators_stay_whole():
    """Random operators run through ATen, so that one seed gives eager's numbers."""
    seeded = [each for each in default_table() if torch.Tag.nondeterministic_seeded in each.tags]
    assert seeded == []


def test_a_decomposed_operator_is_gone_from_the_graph():
    """logit is decomposed into the log of a quotient, which fuses."""
    seen = []

    def backend(module, examples):
        from nbcompile.aot.compile import compile_graph  # noqa: PLC0415
        from nbcompile.aot.compilers import Compilers  # noqa: PLC0415
        from nbcompile.backends import run_through_aten  # noqa: PLC0415

        def see(graph, inputs):
            seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
            return run_through_aten(graph, inputs, "inference")

        return compile_graph(module, examples, Compilers(see, see, see), decompositions=default_table())

    x = torch.rand(3, 4)
    run = compiled(capture(lambda a: (torch.logit(a),), (x,)), backend)
    torch.testing.assert_close(run(x)[0], torch.logit(x))
    assert "aten.logit.default" not in seen
    assert "aten.log.default" in seen


@pytest.mark.parametrize("test", [torch.arange(3.0), 1.0, torch.arange(200.0)], ids=["few", "a number", "many"])
def test_the_result_of_isin_has_the_strides_of_eager(test):
    """The result of isin is contiguous, whatever the strides of its elements; torch's fake tensors keep those strides."""
    turned = torch.arange(24.0).view(2, 4, 3).transpose(1, 2)
    for x in (
        turned,
        turned[:, 1:],
        torch.ones(2, 3, 2, 2).contiguous(memory_format=torch.channels_last),
        torch.ones(6)[::2],
    ):
        found, expected = nbcompile.compile(torch.isin)(x, test), torch.isin(x, test)
        assert torch.equal(found, expected)
        assert found.stride() == expected.stride()


@pytest.mark.parametrize(
    "scale", [{"size": (14, 5)}, {"scale_factor": 1.7}, {"size": (3, 3), "align_corners": True}], ids=str
)
def test_a_bicubic_image_of_bytes(scale):
    """Bytes are computed in fixed point by ATen's kernel, and by no float formula."""

    def f(x):
        return torch.nn.functional.interpolate(x, mode="bicubic", **scale)

    for seed in range(4):
        x = torch.randint(0, 256, (2, 3, 9, 9), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(nbcompile.compile(f, dynamic=False)(x), f(x))


def test_logaddexp_of_infinite_complex_numbers():
    """A complex number whose real part is infinite has a logarithm, which the formula for real numbers has not."""
    x = torch.complex(torch.tensor([float("inf"), float("-inf"), 1.0]), torch.tensor([2.5, 0.5, -1.0]))
    expected = torch.logaddexp(x, x)
    found = nbcompile.compile(lambda x: torch.logaddexp(x, x))(x)
    torch.testing.assert_close(torch.view_as_real(found), torch.view_as_real(expected), equal_nan=True)
