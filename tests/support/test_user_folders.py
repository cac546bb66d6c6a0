"""The user's folders, with and without platformdirs."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from nbcompile.support import user_folders


@pytest.mark.parametrize("variables", [{}, {"XDG_CACHE_HOME": "/c", "XDG_DATA_HOME": "/d"}, {"XDG_CACHE_HOME": "here"}])
def test_they_are_those_of_platformdirs(variables, monkeypatch):
    """Without platformdirs the folders are the same, also with variables, and with a relative path."""
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    expected = (Path(platformdirs.user_cache_dir("nbcompile")), Path(platformdirs.user_data_dir("nbcompile")))
    assert (user_folders.user_cache_folder(), user_folders.user_data_folder()) == expected
    if all(value.startswith("/") for value in variables.values()):
        monkeypatch.setattr(user_folders, "platformdirs", None)
        assert (user_folders.user_cache_folder(), user_folders.user_data_folder()) == expected
