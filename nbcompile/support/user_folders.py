"""Folders of the user: where caches and data are kept.

    user_cache_folder()      /home/me/.cache/nbcompile
    user_data_folder()       /home/me/.local/share/nbcompile

platformdirs knows the folders of each system. It is a dependency; on a machine without a network, where nbcompile runs
from a checkout with nothing but torch (``make gpu``), the folders of the XDG specification are used, which are the ones
that platformdirs names on Linux.

In torch: torch/_inductor/runtime/cache_dir_utils.py. Read next: nbcompile/runtime/store.py
"""

from __future__ import annotations

import os
from pathlib import Path

try:
    import platformdirs
except ImportError:
    platformdirs = None  # type: ignore[assignment]

NAME = "nbcompile"


def user_cache_folder() -> Path:
    """The folder for what can be computed again."""
    if platformdirs is not None:
        return Path(platformdirs.user_cache_dir(NAME))
    return _xdg_folder("XDG_CACHE_HOME", ".cache")


def user_data_folder() -> Path:
    """The folder for what cannot be computed again."""
    if platformdirs is not None:
        return Path(platformdirs.user_data_dir(NAME))
    return _xdg_folder("XDG_DATA_HOME", ".local/share")


def _xdg_folder(variable: str, default: str) -> Path:
    """The specification requires an absolute path; others are ignored."""
    chosen = os.environ.get(variable, "")
    base = Path(chosen) if Path(chosen).is_absolute() else Path.home() / default
    return base / NAME
