"""Supported versions of Python and torch, and one clear error for all others.

    torch 2.10    ImportError: nbcompile 0.1.0 needs torch 2.11 or later; this is torch 2.10.0. Install ...
    no torch      ImportError: nbcompile 0.1.0 needs torch, which is not installed for /usr/bin/python. ...
    torch 2.16    a warning: nbcompile 0.1.0 is tested with torch 2.11, 2.12, 2.13, 2.15; this is torch 2.16.0. ...

Checked before all other imports, since with another version they would fail first, with a less helpful error.

In torch: nothing; ``pip`` reads the same bounds in pyproject.toml. Read next: nbcompile/tools/doctor.py
"""

from __future__ import annotations

import re
import sys
import warnings

VERSION = "0.1.0"

try:
    import torch
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise  # a part of torch's own is not there: its message says which
    message = (
        f"nbcompile {VERSION} needs torch, which is not installed for {sys.executable}. Install it: pip install torch"
    )
    raise ModuleNotFoundError(message, name="torch") from None

PYTHON = ((3, 11), (3, 13))
"""The first and the last version whose bytecode is known."""
TORCH = ((2, 11), (2, 15))
"""The first version that works, and the last one that the tests were run with."""
TESTED = ((2, 11), (2, 12), (2, 13), (2, 15))
"""The versions that tests were run with: docs/installation.md says which tests."""
Version = tuple[int, int]


class UnsupportedTorchWarning(UserWarning):
    """Warning for a torch that is newer than those that nbcompile was tested with."""


def check() -> None:
    """Raise ImportError for versions that cannot work, and warn of untested ones."""
    python, found = sys.version_info[:2], torch_version()
    if not PYTHON[0] <= python <= PYTHON[1]:
        raise ImportError(
            f"nbcompile {VERSION} needs Python {_text(PYTHON[0])} to {_text(PYTHON[1])}, whose bytecode it knows; "
            f"this is Python {_text(python)}. Make an environment with one: python{_text(PYTHON[1])} -m venv .venv"
        )
    install = f'Install one of them: pip install "torch>={_text(TORCH[0])},<{TORCH[1][0]}.{TORCH[1][1] + 1}"'
    if found < TORCH[0]:
        raise ImportError(
            f"nbcompile {VERSION} needs torch {_text(TORCH[0])} or later; this is torch {torch.__version__}. "
            f"Tested are {tested()}. {install}"
        )
    if found > TORCH[1]:
        warnings.warn(
            f"nbcompile {VERSION} is tested with torch {tested()}; "
            f"this is torch {torch.__version__}, with which something may fail. {install}",
            UnsupportedTorchWarning,
            stacklevel=3,
        )


def torch_version() -> Version:
    """Major and minor version; of a build from source ("2.16.0a0+git1234") too."""
    major, minor = re.findall(r"\d+", torch.__version__)[:2]
    return int(major), int(minor)


def is_tested() -> bool:
    """True if this torch is one of those that the tests were run with."""
    return torch_version() in TESTED


def tested() -> str:
    """The versions of torch that tests were run with, as text."""
    return ", ".join(map(_text, TESTED))


def _text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
