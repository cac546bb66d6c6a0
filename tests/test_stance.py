"""The stance of the process: ours, torch's, and its duration."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile import stance


def holds(conditions):
    """True if each dict still has its value."""
    return all(owner.get(key) is value for owner, key, value in conditions)


def test_a_region_ends_with_the_stance_before_it():
    """After the region, also if nested or left by an exception, the stance is that of before."""
    with nbcompile.set_stance("eager_on_recompile"):
        with pytest.raises(KeyError), nbcompile.set_stance("force_eager"):
            assert stance.stance() == ("force_eager", None)
            raise KeyError
        assert stance.stance() == ("eager_on_recompile", None)
    assert stance.stance() is stance.DEFAULT


def test_torchs_own_stance_is_read_and_ours_goes_first():
    """``torch.compiler.set_stance`` is read, and ours overrides it."""
    with torch.compiler.set_stance("fail_on_recompile"):
        assert stance.stance() == ("fail_on_recompile", None)
        with nbcompile.set_stance("force_eager"):
            assert stance.stance() == ("force_eager", None)
    assert stance.stance()[0] == "default"


def test_a_decorator_sets_the_stance_for_each_call_and_not_before():
    """As a decorator, the stance is set during each call only."""

    @nbcompile.set_stance("force_eager")
    def inside():
        return stance.stance()

    assert stance.stance() is stance.DEFAULT
    assert inside() == ("force_eager", None)
    assert stance.stance() is stance.DEFAULT


def test_the_dicts_say_whether_the_stance_is_the_default_one():
    """A fast call compares these values in C instead of calling :func:`stance`."""
    conditions = stance.still_default()
    assert holds(conditions)
    with nbcompile.set_stance("force_eager"):
        assert not holds(conditions)
    with torch.compiler.set_stance("force_eager"):
        assert not holds(conditions)
    assert holds(stance.still_default())


@pytest.mark.parametrize(
    ("name", "how", "error"),
    [("wat", {}, ValueError), ("force_eager", {"force_backend": "eager"}, RuntimeError)],
)
def test_what_is_no_stance_is_rejected(name, how, error):
    """An unknown name, or a backend under another stance than the default one, is rejected, without an effect."""
    with pytest.raises(error, match="stance"):
        nbcompile.set_stance(name, **how)
    assert stance.stance() is stance.DEFAULT


def test_skip_guard_eval_unsafe_is_a_stance_of_its_own():
    """``skip_guard_eval_unsafe`` belongs to the default stance."""
    with nbcompile.set_stance("default", skip_guard_eval_unsafe=True):
        assert stance.stance() is stance.WARMED_UP
