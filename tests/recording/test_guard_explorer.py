"""The data with which a page predicts the entry of a call: trees, values, and possible symbols."""

from __future__ import annotations

import json

import pytest
import torch

import nbcompile
from nbcompile import api, config
from nbcompile.recording import guard_explorer

pytestmark = pytest.mark.usefixtures("nothing_compiled")


def recorded(function, *arguments, **options):
    """The first frame of the record of a call."""
    return nbcompile.explain(function, **options)(*arguments).record.frames[0]


def scale(x, k=2):
    return x * k


def names(frame, *, symbolic):
    return {reading.name for reading in frame.readings if reading.varies is symbolic}


def test_sizes_that_may_become_symbols_are_marked():
    """With automatic dynamic shapes, sizes and numbers may become symbols; dtypes and devices may not."""
    frame = recorded(scale, torch.ones(3, 4))
    assert {"L['x'].size()[0]", "L['x'].size()[1]"} <= names(frame, symbolic=True)
    assert any("dtype" in name for name in names(frame, symbolic=False))
    assert not any("dtype" in name for name in names(frame, symbolic=True))


@pytest.mark.parametrize("how", ["an option", "a setting"])
def test_nothing_becomes_a_symbol_where_sizes_are_constants(how):
    """With ``dynamic=False``, or the setting, no size becomes a symbol."""
    options = {"dynamic": False} if how == "an option" else {}
    with config.patch(automatic_dynamic_shapes=how == "an option"):
        frame = recorded(scale, torch.ones(3, 4), **options)
    assert frame.readings and names(frame, symbolic=True) == set()


def test_readings_have_the_values_of_the_call():
    """The values are written as in Python, and each tree of a guard holds for them."""
    frame = recorded(scale, torch.ones(3, 4))
    values = {reading.name: reading.value for reading in frame.readings}
    assert values["L['x'].size()[0]"] == "3"
    assert frame.guards and all(json.loads(guard.test) for guard in frame.guards if guard.test)


class Net(torch.nn.Module):
    """A module with a number as attribute."""

    def __init__(self):
        super().__init__()
        self.number = 5

    def forward(self, x, k):
        return x * self.number + k


@pytest.mark.parametrize("unspecialised", [False, True])
def test_a_number_of_a_module_stays_a_constant(unspecialised):
    """A module's number is constant by default; a number argument becomes a symbol."""
    with config.patch(allow_unspec_int_on_nn_module=unspecialised):
        frame = recorded(Net(), torch.ones(3), 7)
        symbolic = names(frame, symbolic=True)
    assert any("number" in name for name in symbolic) is unspecialised
    assert "L['k']" in symbolic


def test_entries_of_one_function_share_their_readings():
    """The values that one entry's guards read are recorded for all entries of the function."""

    def f(x, flag):
        return x + 1 if flag else x - 1

    one = guard_explorer.readings_of(f.__code__)
    assert guard_explorer.readings_of(f.__code__) is one
    assert guard_explorer.readings_of(scale.__code__) is not one


def test_the_limit_of_recompiles_is_the_functions_own_or_the_setting():
    """The page says when a call would exceed the recompile limit of the function, or of the setting."""
    recorder = api.new_recorder("scale")
    with recorder.listening():
        nbcompile.compile(scale)(torch.ones(3))
        nbcompile.compile(scale, recompile_limit=3)(torch.ones(3).double())
    assert [frame.recompile_limit for frame in recorder.record().frames] == [config.recompile_limit, 3]
