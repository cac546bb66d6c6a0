"""Tests of nbcompile/fast/guard_cache.py."""

import gc
import weakref

import pytest
import torch

from nbcompile.fast import guard_cache

pytestmark = pytest.mark.skipif(guard_cache.maker() is None, reason="no compiler, or dicts have no versions")


@pytest.mark.parametrize("number", range(len(guard_cache.CHANGES)))
def test_every_change_is_noticed(number):
    """Guards are evaluated again only after a change."""
    assert guard_cache._is_invalidated_by(guard_cache.maker(), guard_cache.CHANGES[number])


def test_the_end_of_a_tensor_is_found_whatever_lies_behind_it():
    """The memory behind a tensor may contain another tensor's dispatch keys."""
    keys = torch._C._dispatch_keys(torch.ones(3)).raw_repr(), torch._C._dispatch_keys(torch.ones(3) + 0j).raw_repr()
    found = set()
    for key in keys * 50:
        left = [torch.full((words,), key, dtype=torch.int64) for words in range(16, 64)]
        del left
        found.add(guard_cache.end_of_metadata())
    assert len(found) == 1 and None not in found


def test_nothing_is_kept_alive():
    """A guard cache refers to its objects only by address."""
    sample = guard_cache._Sample()
    seen = weakref.ref(sample), weakref.ref(sample.table["x"])
    held = guard_cache.maker()(guard_cache._Sample.things, lambda module: True)
    assert held(sample)
    del sample
    gc.collect()
    assert [each() for each in seen] == [None, None]
    assert held(guard_cache._Sample())


def test_what_does_not_hold_is_asked_again():
    """Only a positive result of the guards is cached."""
    answers, listed = [False, False, True, True], []
    sample = guard_cache._Sample()

    def things(module):
        listed.append(len(answers))
        return module.things()

    held = guard_cache.maker()(things, lambda module: answers.pop(0))
    assert [held(sample) for _ in range(5)] == [False, False, True, True, True]
    assert listed == [4, 1], "what does not hold is not listed again until it does"


def test_nothing_is_believed_while_it_is_checked():
    """A call of another thread evaluates the guards itself while they are being checked."""
    sample, inner = guard_cache._Sample(), []

    def check(module):
        if not inner:
            inner.append(None)
            inner.append(held(sample))
        return False

    held = guard_cache.maker()(guard_cache._Sample.things, check)
    assert held(sample) is False
    assert inner == [None, False]
    assert held(sample) is False


def test_what_cannot_be_listed_is_for_the_guards_to_say():
    """A module of another structure causes no error."""
    held = guard_cache.maker()(guard_cache._Sample.things, lambda module: False)
    assert held(object()) is False


def test_the_counters_lie_outside_of_what_is_compared():
    """A change of a reference count is not a change of the tensor."""
    sample, asked = guard_cache._Sample(), []
    held = guard_cache.maker()(guard_cache._Sample.things, lambda module: asked.append(module) or True)
    held(sample)
    weight = torch.ones((), requires_grad=True)
    saved = sample.table["x"] * weight  # autograd refers to the tensor
    held(sample)
    assert len(asked) == 1 and saved.requires_grad
