"""Functions that are never compiled."""

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs


def graphs_of(function, x):
    """The result of a call of a compiled function, and its graphs."""
    found = Graphs()

    return nbcompile.compile(function, backend=found)(x), found


@pytest.mark.parametrize(("recursive", "expected"), [(True, 0), (False, 1)])
def test_what_a_disabled_function_calls(recursive, expected):
    """``recursive=False`` disables only the function: its callees are compiled."""

    def inner(x):
        return x.sin()

    def outer(x):
        return inner(x)

    disabled = nbcompile.disable(outer, recursive=recursive)
    x = torch.ones(2)
    result, found = graphs_of(lambda x: disabled(x), x)
    assert torch.equal(result, x.sin())
    assert len(found) == expected


def test_a_disabled_function_of_a_compiled_one_is_the_original():
    """A compiled function is unwrapped before it is disabled, so it is not compiled."""
    compiled = nbcompile.compile(lambda x: x + 1, backend="eager")
    explained = nbcompile.explain(nbcompile.disable(compiled))(torch.ones(2))
    assert explained.graph_count == 0


def test_disable_is_a_decorator_and_no_context_manager():
    """``disable`` with arguments returns a decorator; ``with`` and a value that is not callable raise errors."""

    @nbcompile.disable(reason="it logs")
    def log(x):
        """Write x."""
        return x

    assert (log.__name__, log.__doc__, log(3)) == ("log", "Write x.", 3)
    with pytest.raises(RuntimeError, match="disable is a decorator"), nbcompile.disable():
        pass
    with pytest.raises(nbcompile.exc.NotCallable):
        nbcompile.disable(3)


def test_the_reason_is_in_the_break():
    """A graph break at a disabled function has the reason for disabling it."""
    slow = nbcompile.disable(lambda x: x + 1, reason="it opens a file")
    (found,) = nbcompile.explain(lambda x: slow(x) * 2, backend="eager")(torch.ones(2)).record.frames[0].breaks
    assert "it opens a file" in found.explanation + found.title + str(found)
