"""Dependencies between buffers, and topological orders."""

from __future__ import annotations

import pytest
import torch

from nbcompile.ir.buffer import Extern, Pointwise
from nbcompile.scheduling.dependencies import dependencies, eliminate_dead_code, reads, topological_order
from tests.support.lowered import programs


def test_an_order_that_is_topological_stays_as_it_is():
    """A topological order is unchanged."""
    assert topological_order(["a", "b", "c"], {"c": {"a"}}) == ["a", "b", "c"]


def test_what_is_needed_comes_before():
    """All direct and indirect dependencies of the names come first, in the given order; other names do not appear."""
    needs = {"a": {"c", "b", "elsewhere"}, "c": {"d"}}
    assert topological_order(["a", "b", "c", "d"], needs) == ["b", "d", "c", "a"]


def test_a_long_chain_needs_no_deep_stack():
    """A chain of ten thousand names does not overflow the stack."""
    names = [f"buf{number}" for number in range(10_000)]
    assert topological_order(names, dict(zip(names, ({each} for each in names[1:])))) == names[::-1]


def test_a_cycle_has_no_order():
    """A cycle is an error whose message has two names of it."""
    with pytest.raises(ValueError, match="need each other"):
        topological_order(["a", "b", "c"], {"a": {"b"}, "b": {"c"}, "c": {"a"}})


def test_a_write_comes_after_every_read_of_the_old_value():
    """``x.copy_`` comes after each read of the old x."""

    def program(x):
        old = x.sum(-1)
        x.mul_(2)
        return old

    found, _ = programs(program, torch.randn(3, 4))
    needs = dependencies(found)
    (write,) = [each for each in found.buffers if isinstance(each, Pointwise) and each.writes_to]
    readers = {each.name for each in found.buffers if write.writes_to in reads(each)} - {write.name}
    assert readers and readers <= needs[write.name]


def test_random_operators_keep_their_order():
    """Random operators keep their order: the second one depends on the first, because both advance the generator."""
    found, _ = programs(lambda x: (torch.rand_like(x), torch.randn_like(x)), torch.ones(3))
    draws = [
        each.name for each in found.buffers
        if isinstance(each, Extern) and torch.Tag.nondeterministic_seeded in each.target.tags
    ]  # fmt: skip
    assert len(draws) == 2
    assert draws[0] in dependencies(found)[draws[1]]


def test_dead_code_is_what_no_result_and_no_side_effect_needs():
    """Code that no result and no mutation needs is dead; a program without outputs keeps only its inputs."""
    found, _ = programs(lambda x: x.sin().sum(-1) + 1, torch.ones(3, 4))
    without = type(found)(found.buffers, (), found.arguments, found.symbols, found.single_output)
    assert {type(each).__name__ for each in eliminate_dead_code(without).buffers} == {"GraphInput"}
    assert eliminate_dead_code(found).outputs == found.outputs

    def program(x):
        x.mul_(2)
        return 1

    written, _ = programs(program, torch.ones(3))
    without = type(written)(written.buffers, (), written.arguments, written.symbols, written.single_output)
    assert any(isinstance(each, Pointwise) and each.writes_to for each in eliminate_dead_code(without).buffers)
