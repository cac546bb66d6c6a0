"""The parameters of an attention operator, in torch's class for them."""

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs

Params = torch._C._SDPAParams
Q = torch.randn(1, 2, 4, 8)


def test_its_fields_are_what_it_was_made_of():
    """The object adds no node to the graph: its tensors are those of the call, and its numbers are constants."""

    def f(q):
        params = Params(q, q * 2, q, None, 0.5, True, False)
        return params.query + params.key, params.attn_mask, params.dropout, params.is_causal, params.enable_gqa

    graphs = Graphs()
    found = nbcompile.compile(f, backend=graphs, fullgraph=True)(Q)
    assert torch.equal(found[0], Q * 3)
    assert found[1:] == (None, 0.5, True, False)
    assert graphs.operators == ["mul add"]


def test_it_is_made_again_for_the_caller():
    """An object that the function returns is an instance of torch's class, with the fields of eager mode."""

    def f(q):
        return Params(q + 1, q, q, None, 0.0, False, False)

    found = nbcompile.compile(f, backend="eager", fullgraph=True)(Q)
    assert type(found) is Params
    assert torch.equal(found.query, Q + 1) and torch.equal(found.key, Q)


def test_one_from_outside_is_read():
    """The tensors of an object from outside are inputs of the graph; another object reuses the cache entry."""
    graphs = Graphs()
    compiled = nbcompile.compile(lambda params: params.query * 2, backend=graphs, fullgraph=True)
    for q in (Q, Q + 1):
        assert torch.equal(compiled(Params(q, q, q, None, 0.0, False, False)), q * 2)
    assert len(graphs) == 1


def test_too_few_arguments_are_the_programs_error():
    """A call with too few arguments raises a TypeError, which the program can catch."""

    def f(q):
        try:
            Params(q, q)
        except TypeError:
            return q + 1
        return q

    assert torch.equal(nbcompile.compile(f, backend="eager", fullgraph=True)(Q), Q + 1)
    with pytest.raises(TypeError):
        nbcompile.compile(lambda q: Params(q), backend="eager")(Q)
