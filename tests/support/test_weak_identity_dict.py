"""Weak dictionaries with code objects as keys, by identity."""

from __future__ import annotations

import gc

from nbcompile.support.weak_identity_dict import WeakIdentityDict


def code_with(constant: object) -> object:
    """A new code object that keeps a value among its constants."""
    return (lambda: 0).__code__.replace(co_consts=(None, constant))


def test_equal_keys_are_two_keys() -> None:
    """Two equal code objects have separate entries."""
    first, second = code_with(1), code_with(1)
    table: WeakIdentityDict[object, str] = WeakIdentityDict()
    table[first] = "first"
    assert first == second
    assert table.get(first, "") == "first"
    assert table.get(second, "") == ""


def test_keys_need_no_hash() -> None:
    """A code object with a dict among its constants has no hash, and can be a key."""
    code = code_with({})
    table: WeakIdentityDict[object, str] = WeakIdentityDict()
    table[code] = "kept"
    assert table.get(code, "") == "kept"


def test_entries_go_with_their_keys() -> None:
    """The table keeps no key alive, and drops the entries of freed ones."""
    code = code_with(2)
    table: WeakIdentityDict[object, str] = WeakIdentityDict()
    table[code] = "kept"
    assert len(table._entries) == 1
    del code
    gc.collect()
    assert not table._entries
