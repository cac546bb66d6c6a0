"""The login name of the user."""

from __future__ import annotations

import pwd

from nbcompile.support.login_name import login_name


def test_a_user_without_a_name_has_an_empty_one(monkeypatch):
    """If neither the environment nor the system has a name, as in a container, it is empty."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def names(number):
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", names)
    assert login_name() == ""
    monkeypatch.setenv("LOGNAME", "alice")
    assert login_name() == "alice"
