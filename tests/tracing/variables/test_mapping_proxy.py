"""Read-only proxies of dicts, and the dicts of classes."""

from __future__ import annotations

import collections
import types

import pytest
import torch

import nbcompile
from tests.support.answers import check


class Thing:
    rate = 1

    @staticmethod
    def twice(x):
        return 2 * x

    @classmethod
    def named(cls):
        return cls.__name__


def window_on(values):
    return types.SimpleNamespace(dict=values, proxy=types.MappingProxyType(values))


def test_a_window_reads_as_its_dict():
    """A proxy gives the answers of its dict, and rejects stores."""
    proxy = types.MappingProxyType({"a": 1, "b": 2})
    check(
        "proxy['a'], proxy.get('z'), proxy.get('z', 3), len(proxy), 'a' in proxy, bool(proxy)", "proxy['z']", "list(proxy)",
        "list(proxy.items())", "list(reversed(proxy))", "proxy.copy()", "proxy == {'a': 1, 'b': 2}", "{**proxy}", "dict(proxy)",
        "proxy['a'] = 3", "del proxy['a']", "hash(proxy)", "isinstance(proxy, dict)", "(lambda **k: k)(**proxy)", proxy=proxy,
    )  # fmt: skip


def test_a_window_shows_what_was_changed_behind_it():
    """A proxy shows changes of its dict, of one that the program created and of one from outside."""
    check("p = {'a': 1}\nq = types.MappingProxyType(p)\np['b'] = 2\nreturn len(q), q['b'], 'b' in q", types=types)
    for change in ("given['c'] = 5", "given.clear()", "given.update(a=7, d=8)", "del given['a']"):
        check(
            f"given, proxy = window.dict, window.proxy\nbefore = len(proxy), proxy.get('a')\n{change}\n"
            "return before, len(proxy), list(proxy.items()), proxy == given, 'c' in proxy, proxy.get('a')",
            window=lambda: window_on({"a": 1}),
        )


def test_the_dict_of_a_class():
    """The entries are unbound: a static method is callable, a class method is not."""
    check(
        "Thing.__dict__['rate'], 'named' in Thing.__dict__, Thing.__dict__.get('zz'), Thing.__dict__.get('zz', 3)",
        "Thing.__dict__['zz']", "Thing.__dict__['twice'](3)", "Thing.__dict__['named']()", "Thing.__dict__['named'].__func__(Thing)",
        Thing=Thing,
    )  # fmt: skip


READS = "proxy['a'], len(proxy), list(proxy.items()), proxy == given, proxy.get('b')"
CHANGES = ("given['a'] = 5", "given['b'] = 5", "given.clear(); given['a'] = 2", "given.pop('a', 0); given['a'] = 7")


def calls_of(given, kind):
    """Calls in which the proxy shows the mutated dict, an equal one, another one, and the mutated one again."""
    first, second = kind(a=1), kind(a=1)
    return [
        (given(first), types.MappingProxyType(first)),
        (given(first), types.MappingProxyType(second)),
        (given(second), types.MappingProxyType(kind(a=1, b=3))),
        (given(second), types.MappingProxyType(second)),
    ]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
@pytest.mark.parametrize("turn", [1, -1])
def test_which_dict_a_window_shows_is_guarded(change, kind, turn):
    """A guard checks whether the proxy belongs to the mutated dict, for arguments and for attributes."""
    for given, proxy in (("given", "proxy"), ("held.given", "held.proxy")):
        scope = {}
        text = f"def f(given, proxy, x):\n    held = given\n    proxy, given = {proxy}, {given}\n"
        exec(f"{text}    {change}\n    return x * proxy['a'], ({READS})\n", scope)

        def calls(given=given):
            made = calls_of(lambda values: values, kind)
            if given == "held.given":
                made = [(types.SimpleNamespace(given=values, proxy=proxy), None) for values, proxy in made]
            return made[::turn]

        eager = [scope["f"](*arguments, torch.ones(1)) for arguments in calls()]
        compiled = nbcompile.compile(scope["f"], backend="eager", fullgraph=True)
        assert [compiled(*arguments, torch.ones(1)) for arguments in calls()] == eager


def test_a_dict_that_is_changed_through_its_window_only():
    """The residual program reaches a dict that has no other name."""

    def f(x, proxy):
        for value in proxy.values():
            value.append(x + 1)
        return x + len(proxy["a"])

    compiled = nbcompile.compile(f, backend="eager", fullgraph=True)
    values = {"a": [], "b": []}
    assert compiled(torch.ones(1), types.MappingProxyType(values)) == 2
    assert compiled(torch.ones(1), types.MappingProxyType(values)) == 3
    assert [len(value) for value in values.values()] == [2, 2]
