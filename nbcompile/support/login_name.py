"""Login name of the user who runs the process, if there is one.

    login_name()      "alice"; "" in a container whose user has a number and no name

In torch: torch/_inductor/runtime/cache_dir_utils.py (``default_cache_dir``). Read next:
nbcompile/support/user_folders.py
"""

from __future__ import annotations

import getpass


def login_name() -> str:
    """The name, or ""."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # before Python 3.13 it is a KeyError
        return ""
