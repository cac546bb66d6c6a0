"""Calls under a stance other than the default."""

import pytest
import torch

import nbcompile
from nbcompile.eval_frame import stances
from nbcompile.options import Options
from tests.support.graphs import Graphs


@pytest.mark.parametrize(
    ("stance", "expected"),
    [("default", 2), ("force_eager", 1), ("eager_on_recompile", 1)],
)
def test_a_stance_decides_whether_something_new_is_compiled(stance, expected):
    """After an entry for size 2, a call with size 3 compiles a second graph only under the default stance."""
    backend = Graphs()
    compiled = nbcompile.compile(lambda x: x * 2, backend=backend, dynamic=False)
    compiled(torch.ones(2))
    with nbcompile.set_stance(stance):
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))
    assert len(backend) == expected


def test_a_recompilation_can_be_an_error():
    """``fail_on_recompile`` lets existing entries run, and raises an error for a call that none accepts."""
    compiled = nbcompile.compile(lambda x: x * 2, backend="eager", dynamic=False)
    compiled(torch.ones(2))
    with nbcompile.set_stance("fail_on_recompile"):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
        with pytest.raises(nbcompile.exc.FailOnRecompile):
            compiled(torch.ones(3))


def test_the_first_call_can_run_eagerly():
    """``eager_then_compile`` runs the first call in eager mode, and a size that changed is symbolic at once."""
    backend = Graphs()
    compiled = nbcompile.compile(lambda x: x * 2, backend=backend)
    with nbcompile.set_stance("eager_then_compile"):
        compiled(torch.ones(2))
        assert len(backend) == 0
        compiled(torch.ones(3))
        compiled(torch.ones(4))
    assert len(backend) == 1


def test_a_name_that_is_no_stance_is_an_error():
    """The error names the valid stances, which torch's own function does not check."""
    with pytest.raises(nbcompile.exc.InvalidStance, match="eager_on_recompile"):
        stances.callback(Options(), ("wat", None), None)


def test_wrappers_with_the_same_backend_and_options_share_a_key():
    """The key contains the backend and its options, in any order."""
    one = Options(backend="eager", backend_options={"a": 1, "b": 2})
    other = Options(backend="eager", backend_options={"b": 2, "a": 1})
    assert stances._shared_by(one) == stances._shared_by(other)
    assert stances._shared_by(one) != stances._shared_by(Options(backend="eager"))
