"""The backend of a ``compile`` that names none, and the check that a backend exists.

    nbcompile.set_default_backend("aot_eager")
    nbcompile.compile(f)                          as nbcompile.compile(f, backend="aot_eager")
    nbcompile.set_default_backend("inducter")     InvalidBackend, at once

In torch: torch/_dynamo/backends/registry.py. Read next: nbcompile/backends/registry.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nbcompile.options import OWN_BACKENDS, read_settings
from nbcompile.support import lazy_import
from nbcompile.support.process_state import STATE, Lifetime

if TYPE_CHECKING:
    from nbcompile import backends
else:
    backends = lazy_import.module("nbcompile.backends")

Backend = str | Callable[..., Any]
_default_backend: list[Backend] = STATE.add(
    "eval_frame.default_backend._default_backend", ["inductor"], Lifetime.PROCESS
)


def set_default_backend(backend: Backend | None) -> None:
    """Set the backend of every later ``compile`` that names none; None: ``"inductor"`` again.

    Raises:
        errors.InvalidBackend: no backend has this name.
    """
    chosen = "inductor" if backend is None else backend
    expect_backend(chosen)
    _default_backend[0] = chosen


def get_default_backend() -> Backend:
    """Return the backend of a ``compile`` that names none."""
    return _default_backend[0]


def expect_backend(backend: Backend, mode: str | None = None, options: Mapping[str, object] | None = None) -> None:
    """Check a backend's name, and the mode and options of our own: when a function is wrapped, not at its first call.

    Raises:
        TypeError: it is neither a name nor callable.
        errors.InvalidBackend: no backend has this name; ``InvalidMode``, ``InvalidBackendOption`` likewise.
    """
    if not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend: expected a name or a callable, got {backend!r}")
    if backend not in OWN_BACKENDS:
        backends.lookup(backend)
    if backend == "inductor" and (mode or options):
        read_settings(mode, options or {})
