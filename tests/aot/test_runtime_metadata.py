"""Runtime metadata: the steps around a graph's programs, or the reason why our wrapper does not suffice."""

from __future__ import annotations

import types

import pytest
import torch

from nbcompile.aot.runtime_metadata import AliasedOutput, dynamic_dims, runtime_metadata_of


def output(kind: str = "non_alias", base: int | None = None, *, requires_grad: bool = False) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        output_type=types.SimpleNamespace(name=kind),
        base_idx=base,
        requires_grad=requires_grad,
        dynamic_dims=set(),
        raw_type=torch.Tensor,
    )


def metadata(*outputs: types.SimpleNamespace, **changes: object) -> types.SimpleNamespace:
    """AOTAutograd's metadata of a graph with two inputs, with default values otherwise."""
    return types.SimpleNamespace(**{
        "input_info": [None, None], "output_info": outputs, "num_mutated_inp_runtime_indices": 0, "num_intermediate_bases": 0,
        "tokens": {}, "num_backward_tokens": 0, "is_rng_op_functionalized": False, "num_graphsafe_rng_states": 0,
        "grad_enabled_mutation": None, "indices_of_inputs_that_requires_grad_with_mutations_in_bw": [],
        "mutated_graph_handled_indices_seen_by_autograd": [1],
    } | changes)  # fmt: skip


def test_outputs_that_are_inputs_or_views_of_them():
    """Outputs that alias an input are listed with their positions, and the mutated input is listed."""
    found = runtime_metadata_of(metadata(output(), output("is_input", 0), output("alias_of_input", 1)), None, 2)
    assert found.aliased_outputs == [AliasedOutput(1, 0, True, False), AliasedOutput(2, 1, False, False)]
    assert found.mutated_inputs == [1]
    assert found.training is None


@pytest.mark.parametrize(
    ("given", "inputs", "reason"),
    [
        (metadata(output()), 3, "some inputs are the same tensor, or views of one tensor"),
        (metadata(output("alias_of_intermediate")), 2, "outputs are views of one another"),
        (metadata(output(), num_mutated_inp_runtime_indices=1), 2, "an input is mutated after the graph has run"),
        (metadata(output(), tokens={"print": 1}), 2, "the graph needs AOTAutograd's runtime wrappers"),
    ],
    ids=["inputs", "outputs", "mutation", "effects"],
)
def test_what_our_wrapper_does_not_do_has_a_reason(given, inputs, reason):
    """If our wrapper does not suffice, the reason is returned instead of the metadata."""
    assert runtime_metadata_of(given, None, inputs) == reason


def test_a_graph_under_autocast_is_left_to_aotautograd():
    """A graph under autocast goes to AOTAutograd, whatever its outputs are."""
    with torch.autocast("cpu"):
        assert runtime_metadata_of(metadata(output()), None, 2) == "the graph is compiled under autocast"


def test_sizes_that_are_numbers_are_not_dynamic():
    """A tensor with constant sizes has no dynamic dims, and an output that is no tensor has none either."""
    assert dynamic_dims([torch.ones(2), 3]) == [None, None]
