"""The user's guard filters: the entries that they receive, and the guards that they drop."""

from __future__ import annotations

import torch

import nbcompile

SCALE = 2.0


class Net(torch.nn.Module):
    """A module with a plain attribute."""

    def __init__(self):
        super().__init__()
        self.factor = 3
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        """The output of a layer, times the attribute."""
        return self.linear(x) * self.factor


def entries_of(function, *arguments):
    """The entries that a filter receives."""
    seen = []

    def keep_all(entries):
        seen.extend(entries)
        return [True] * len(entries)

    nbcompile.compile(function, options={"guard_filter_fn": keep_all})(*arguments)
    return seen


def test_an_entry_describes_the_guarded_value():
    """An entry has the name and the value, and says whether the value is a global variable."""
    found = {entry.name: entry for entry in entries_of(lambda x: x * SCALE, torch.ones(2)) if entry.name}
    (name,) = [name for name in found if "SCALE" in name]
    assert (found[name].value, found[name].has_value, found[name].is_global) == (SCALE, True, True)
    assert torch.equal(found["L['x']"].value, torch.ones(2)) and not found["L['x']"].is_global


def test_an_entry_knows_the_module_that_a_value_belongs_to():
    """The innermost module decides: ``self.factor`` belongs to a user's class, the weight to one of torch's."""
    entries = entries_of(Net(), torch.ones(1, 2))
    owners = {entry.name: entry.orig_guard.source for entry in entries}
    factor = next(owner for name, owner in owners.items() if "factor" in name)
    assert factor.is_unspecialized_nn_module() and not factor.is_unspecialized_builtin_nn_module()
    weight = next(owner for name, owner in owners.items() if "weight" in name)
    assert weight.is_unspecialized_builtin_nn_module()
    assert not owners["L['x']"].is_unspecialized_nn_module()


def test_a_guard_that_is_dropped_is_not_checked():
    """The result uses the value at compile time; with the guard, a change causes a recompile."""
    for is_kept, expected in ((True, 5.0), (False, 3.0)):
        nbcompile.reset()
        net = Net()

        def drop_factor(entries, is_kept=is_kept):
            return [is_kept or "factor" not in entry.name for entry in entries]

        with torch.no_grad():
            net.linear.weight.copy_(torch.eye(2))
            net.linear.bias.zero_()
        compiled = nbcompile.compile(net, options={"guard_filter_fn": drop_factor})
        compiled(torch.ones(1, 2))
        net.factor = 5
        assert compiled(torch.ones(1, 2)).tolist() == [[expected, expected]]
