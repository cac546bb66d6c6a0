"""Read-only windows on dicts, and the dicts of classes."""

from __future__ import annotations

import types

from tests.tracing.answers import check


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
    """And stores nothing."""
    proxy = types.MappingProxyType({"a": 1, "b": 2})
    check(
        "proxy['a'], proxy.get('z'), proxy.get('z', 3), len(proxy), 'a' in proxy, bool(proxy)", "proxy['z']", "list(proxy)",
        "list(proxy.items())", "list(reversed(proxy))", "proxy.copy()", "proxy == {'a': 1, 'b': 2}", "{**proxy}", "dict(proxy)",
        "proxy['a'] = 3", "del proxy['a']", "hash(proxy)", "isinstance(proxy, dict)", "(lambda **k: k)(**proxy)", proxy=proxy,
    )  # fmt: skip


def test_a_window_shows_what_was_changed_behind_it():
    """A dict that the program made, and one from outside that is reached under two names."""
    check("p = {'a': 1}\nq = types.MappingProxyType(p)\np['b'] = 2\nreturn len(q), q['b'], 'b' in q", types=types)
    for change in ("given['c'] = 5", "given.clear()", "given.update(a=7, d=8)", "del given['a']"):
        check(
            f"given, proxy = window.dict, window.proxy\nbefore = len(proxy), proxy.get('a')\n{change}\n"
            "return before, len(proxy), list(proxy.items()), proxy == given, 'c' in proxy, proxy.get('a')",
            window=lambda: window_on({"a": 1}),
        )


def test_the_dict_of_a_class():
    """Entries as they are kept: a static method is callable, a class method is not."""
    check(
        "Thing.__dict__['rate'], 'named' in Thing.__dict__, Thing.__dict__.get('zz'), Thing.__dict__.get('zz', 3)",
        "Thing.__dict__['zz']", "Thing.__dict__['twice'](3)", "Thing.__dict__['named']()", "Thing.__dict__['named'].__func__(Thing)",
        Thing=Thing,
    )  # fmt: skip
