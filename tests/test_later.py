"""What `import nbcompile` costs is what it imports."""

from __future__ import annotations

import subprocess
import sys

from nbcompile import backends, later, options

HEAVY = ("sympy", "torch._dynamo", "IPython.core.magic", "nbcompile.driver", "nbcompile.tracing", "nbcompile.views")


def test_importing_nbcompile_imports_neither_compiler_nor_views():
    """They come with the first call that needs them."""
    program = f"import sys, torch; before = set(sys.modules); import nbcompile; print([m for m in {HEAVY!r} if m in set(sys.modules) - before])"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_a_module_is_imported_at_its_first_use(monkeypatch):
    """Not when it is named."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    colors = later.module("colorsys")
    assert "colorsys" not in sys.modules
    assert colors.rgb_to_hsv(0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)


def test_own_backends_are_those_of_the_ladder():
    """Their names are known without importing them."""
    assert set(options.OWN_BACKENDS) <= set(backends.names())
    assert all(callable(getattr(backends, name)) for name in options.OWN_BACKENDS)
