"""The imports of `import nbcompile`, which are its cost."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from nbcompile import backends, options
from nbcompile.support import lazy_import
from tests.support.processes import python

HEAVY = ("sympy", "torch._dynamo", "IPython.core.magic", "nbcompile.driver", "nbcompile.tracing", "nbcompile.views")


def test_importing_nbcompile_imports_neither_compiler_nor_views():
    """The first call that needs the compiler or the views imports them."""
    program = f"import sys, torch; before = set(sys.modules); import nbcompile; print([m for m in {HEAVY!r} if m in set(sys.modules) - before])"
    assert python(program).strip() == "[]"


def test_a_module_is_imported_at_its_first_use(monkeypatch):
    """A lazy module is imported at its first attribute access."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    colors = lazy_import.module("colorsys")
    assert "colorsys" not in sys.modules
    assert colors.rgb_to_hsv(0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)


def test_the_collector_is_asked_once(monkeypatch):
    """The count of frozen objects, which is slow, is read once at the import, and not at each access."""
    colors, asked = lazy_import.module("colorsys"), []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: asked.append(1) or 0)
    for _ in range(3):
        assert colors.rgb_to_hsv(0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)
    assert asked == [1]


def test_own_backends_are_those_of_the_ladder():
    """The names of our backends are known without an import."""
    assert set(options.OWN_BACKENDS) <= set(backends.names())
    assert all(callable(backends.lookup(name)) for name in options.OWN_BACKENDS)


@pytest.fixture
def collector() -> Iterator[None]:
    was_enabled, was_frozen = gc.isenabled(), gc.get_freeze_count() > lazy_import.FROZEN
    gc.enable()
    gc.unfreeze()
    yield
    gc.freeze() if was_frozen else gc.unfreeze()  # tests/conftest.py froze all objects
    gc.enable() if was_enabled else gc.disable()


def oldest(each: object) -> bool:
    return any(each is other for other in gc.get_objects(generation=2))


@pytest.mark.usefixtures("collector")
def test_what_an_import_makes_is_old():
    """Objects of an import are in the oldest generation; later ones are young."""
    with lazy_import.importing():
        made: list[object] = []
        assert not gc.isenabled()
    assert gc.isenabled()
    assert oldest(made)
    assert not oldest([])


@pytest.mark.usefixtures("collector")
def test_what_a_program_froze_stays_frozen():
    """An import does not unfreeze what a program froze, as a forking server does."""
    gc.freeze()
    frozen = gc.get_freeze_count()
    with lazy_import.importing():
        pass
    assert gc.get_freeze_count() > frozen // 2 > 0


@pytest.mark.usefixtures("collector")
def test_a_program_without_collector_keeps_it_off():
    """An import leaves a disabled garbage collector disabled, and a failed one enables it again."""
    gc.disable()
    with lazy_import.importing():
        pass
    assert not gc.isenabled()
    gc.enable()
    with pytest.raises(ImportError), lazy_import.importing():
        raise ImportError
    assert gc.isenabled()
