"""The choice of decompositions is explicit, has no dead entry, and gets in nobody's way."""

from __future__ import annotations

import pytest
import torch

from nbcompile.aot.decompositions import NAMES, default_table
from nbcompile.lowering.registry import LOWERINGS
from tests.aot.capturing import capture, compiled


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_an_operator_that_torch_can_decompose(name):
    """A name that decomposes nothing would be a lie to the reader."""
    assert any(operator.overloadpacket is getattr(torch.ops.aten, name) for operator in default_table())


def test_names_are_listed_once():
    assert len(set(NAMES)) == len(NAMES)


def test_nothing_is_decomposed_that_lowering_knows():
    """What has a lowering of its own stays whole: the graph is shorter, and it is traced faster."""
    assert {str(each) for each in default_table()} & {str(each) for each in LOWERINGS} == set()


def test_random_operators_stay_whole():
    """They run through ATen, so that one seed gives eager's numbers."""
    seeded = [each for each in default_table() if torch.Tag.nondeterministic_seeded in each.tags]
    assert seeded == []


def test_a_decomposed_operator_is_gone_from_the_graph():
    """logit becomes log of a quotient, which fuses."""
    seen = []

    def backend(module, examples):
        from nbcompile.aot.compile import Compilers, compile_graph  # noqa: PLC0415
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
