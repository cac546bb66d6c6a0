"""The login of whoever runs this."""

from __future__ import annotations

import pwd

from nbcompile.support.login_name import login_name


def test_a_user_without_a_name_has_an_empty_one(monkeypatch):
    """As in containers that run under any number: neither the environment nor the system knows a name."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def names(number):
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", names)
    assert login_name() == ""
    monkeypatch.setenv("LOGNAME", "alice")
    assert login_name() == "alice"
