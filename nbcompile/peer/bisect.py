"""Bisection of the real torch.compile, with torch's own bisector.

    bisect(function, is_right)      BisectionResult(backend="inductor", subsystem="lowerings", bisect_number=3, ...)

The bisector chooses the backend of torch.compile, and enables or disables each subsystem of Inductor. Its state is a
folder of files, so a program in another process can take part.

In torch: torch/_inductor/compiler_bisector.py. Read next: nbcompile/tools/diagnose/bisect.py
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.config
from torch._inductor.compiler_bisector import CompilerBisector


def bisect(function: Callable[..., Any], is_right: Callable[[Callable[..., Any]], bool], **options: Any) -> Any:
    """Find the backend, the subsystem and its first application that make a function wrong.

    Args:
        function: a function or module that is not compiled yet.
        is_right: runs the compiled function that is its argument, and returns whether the outcome is right.
        **options: of ``torch.compile`` (``dynamic``, ``fullgraph``).

    Returns:
        torch's ``BisectionResult``; None if no backend is wrong.
    """

    def trial() -> bool:
        torch.compiler.reset()
        return is_right(torch.compile(function, **options))

    with torch._inductor.config.patch(force_disable_caches=True):
        found = _search(trial)
    torch.compiler.reset()
    return found


def bisect_program(is_right: Callable[[str, str], bool]) -> Any:
    """Find the same for a program.

    Args:
        is_right: runs the program with a backend, in a process that takes part in the bisection in a folder
        (:func:`take_part`), and returns whether the outcome is right.

    Returns:
        torch's ``BisectionResult``; None if no backend is wrong.
    """
    return _search(lambda: is_right(CompilerBisector.get_backend() or "", CompilerBisector.in_process_cache or ""))


def take_part(folder: str) -> None:
    """Disable in this process, from now on, the subsystems that the bisection in that folder disables."""
    CompilerBisector.in_process_cache = folder
    CompilerBisector.bisection_enabled = True
    torch._inductor.config.force_disable_caches = True  # a trial must not load code of another trial


def _search(trial: Callable[[], bool]) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        return CompilerBisector.do_bisect(trial)
