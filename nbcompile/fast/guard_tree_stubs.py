"""Stubs of the modules that torch's C++ guard tree imports from ``torch._dynamo`` (0.8 s).

    with stubs():
        build_check(guards, frame)      C++ looks up an enumeration and two settings

The tree is all C++, but while it is built it imports two Python modules by name: ``torch._dynamo.guards``, once, for
an enumeration that it keeps, and ``torch._dynamo.config``, for defaults. For that time two stub modules
replace them, under the interpreter's own import lock, so that no other thread can import them. If the real
``torch._dynamo`` is imported later, it is given the enumeration that C++ knows by then.

In torch: make_guard_manager in torch/csrc/dynamo/guards.cpp. Read next: nbcompile/guarding/check.py
"""

from __future__ import annotations

import _imp
import enum
import importlib.machinery
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TypeVar

from nbcompile.fast import dynamo_stub

Tree = TypeVar("Tree")
GUARDS, SETTINGS = "torch._dynamo.guards", "torch._dynamo.config"


class GuardManagerType(enum.Enum):
    """The enumeration of torch._dynamo.guards."""

    GUARD_MANAGER = 1
    DICT_GUARD_MANAGER = 2


_SETTINGS = {
    "skip_tensor_guards_with_matching_dict_tags": True,
    "max_saved_pointers_for_recursive_dict_tags_check": 256,
    "use_recursive_dict_tags_for_guards": False,
}
"""Torch's defaults: no code can have changed them before the module is imported."""


class MissingName(Exception):
    """Error for a name that this torch reads and the stubs lack."""


class _ImportedStub(ModuleType):
    def __init__(self, name: str, members: Mapping[str, object]) -> None:
        super().__init__(name)
        vars(self).update(members)

    def __getattr__(self, name: str) -> object:
        raise MissingName(name)


@contextmanager
def stubs() -> Iterator[None]:
    """Inside, guard trees can be built without ``torch._dynamo``; nothing happens where it is imported already.

    Raises:
        MissingName: this torch reads another name.
    """
    if "torch._dynamo" in sys.modules and not dynamo_stub.is_stub():
        yield
        return
    stub_modules = {
        name: _ImportedStub(name, members)
        for name, members in ((GUARDS, {"GuardManagerType": GuardManagerType}), (SETTINGS, _SETTINGS))
        if name not in sys.modules
    }
    # Another thread must not import the real modules while the stubs have their names.
    held: list[None] = []
    try:
        # One call of C's: Ctrl-C comes before the lock is taken, or after that was noted.
        held.extend(itertools.starmap(_imp.acquire_lock, ((),)))
        sys.modules.update(stub_modules)
        if not any(isinstance(each, _EnumerationFinder) for each in sys.meta_path):
            sys.meta_path.insert(0, _EnumerationFinder())
        yield
    finally:
        try:
            for name, stub in stub_modules.items():
                if sys.modules.get(name) is stub:
                    del sys.modules[name]
        finally:
            if held:
                _imp.release_lock()


def build(build_tree: Callable[[], Tree]) -> Tree:
    """Build a guard tree without ``torch._dynamo``; with it, if this torch reads a name that the stubs do not have."""
    try:
        with stubs():
            return build_tree()
    # With a missing name the real modules are imported, as torch does: slower, and always right.
    except MissingName:
        return build_tree()


class _EnumerationFinder:
    """Finds ``torch._dynamo.guards`` as Python does, and gives it our enumeration when it has run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Wrap the loader of ``torch._dynamo.guards``."""
        if name != GUARDS:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        loader = None if found is None else found.loader
        if loader is not None:
            run = loader.exec_module

            # Trees that were built with the stub's enumeration compare with its members by identity.
            def run_and_share(module: ModuleType) -> None:
                run(module)
                vars(module)["GuardManagerType"] = GuardManagerType

            loader.exec_module = run_and_share  # type: ignore[method-assign]
        return found
