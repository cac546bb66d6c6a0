"""The few modules of ``torch._dynamo`` that torch's own fake tensors need, without the rest (0.9 s).

    install()                                   a stub package: nothing of its __init__.py has run
    from torch._dynamo.exc import ...           STUBBED_NAMES: one name of a stub module
    import torch._dynamo.utils                  INDEPENDENT_MODULES: imported without the package
    torch._dynamo.optimize, or
    import torch._dynamo.convert_frame          anything else: the real package is loaded

ShapeEnv and FakeTensorMode take two exceptions and a stop-watch from there; the package's own start would import
torch's tracer, its variables and torch.distributed. The real package is loaded into the same module object.

torch's own functions that shall never be traced import the package as well, to ask for ``disable``; until it is
loaded there is no tracer of torch's that could look at them, and only our frame hook is kept away.

In torch: torch/_dynamo/__init__.py, torch/_compile.py. Read next: nbcompile/eval_frame/first_call.py
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch._C._dynamo.eval_frame import get_eval_frame_callback, set_eval_frame

from nbcompile.support.lazy_import import importing
from nbcompile.support.process_state import STATE, Lifetime

PACKAGE = "torch._dynamo"
INDEPENDENT_MODULES = frozenset(
    "bytecode_analysis bytecode_transformation callback config current_scope_id distributed dynamo_profiler exc"
    " external_utils graph_break_hints graph_utils logging metrics_context resume_execution source utils".split()
)
"""The modules that fake tensors need, and their imports: none may import anything else of the package."""
NEEDED = "torch.fx.experimental.validator"
"""The module of torch that imports them."""


def _attribute_source(owner: Any, name: str) -> Any:
    """The source of an attribute (the base of a view); a source of nbcompile's makes it itself."""
    of_attribute = getattr(owner, "of_attribute", None)
    return _real(f"{PACKAGE}.source").AttrSource(owner, name) if of_attribute is None else of_attribute(name)


@dataclass(frozen=True)
class _StubFunction:
    """A stub of a function: its module is imported at the first call."""

    part: str
    name: str

    def __call__(self, *words: Any, **more: Any) -> Any:
        return self.real()(*words, **more)

    def real(self) -> Callable[..., Any]:
        """The real function."""
        found: Callable[..., Any] = getattr(_real(f"{PACKAGE}.{self.part}"), self.name)
        return found


STUBBED_NAMES: dict[str, dict[str, Any]] = {
    "exc": {"TorchDynamoException": type("TorchDynamoException", (RuntimeError,), {})},
    "utils": {"dynamo_timed": _StubFunction("utils", "dynamo_timed")},
    "source": {"RandomValueSource": type("RandomValueSource", (), {})},
}
"""The names that every program imports: a base class of exceptions, a timer, and a class without instances before the
package is loaded. Their modules take 0.2 s to import, which happens when any other name of them is read."""
STUBS_OF_SOURCE: dict[str, dict[str, Any]] = {
    "utils": {},
    "bytecode_transformation": {
        name: _StubFunction("bytecode_transformation", name)
        for name in ("create_binary_subscr", "create_build_tuple", "create_call_function")
    },
}
"""Names that ``source``, which symbolic sizes need, imports from two modules that take ten times as long to
import as it does: functions that write bytecode, which only torch's tracer calls."""
SOURCE_MODULE, META_CONVERTER = "source", "torch._subclasses.meta_utils"
"""The module that META_CONVERTER reads at every conversion of a tensor; NEEDED imports the others once."""


def install() -> None:
    """Install the stub package; nothing happens if ``torch._dynamo`` is imported already."""
    if PACKAGE in sys.modules:
        return
    specification = importlib.util.find_spec(PACKAGE)
    if specification is None or specification.loader is None:
        return
    package = _StubPackage(specification)
    before = set(sys.modules)
    # Also as an attribute of torch (below), where programs look the package up.
    sys.modules[PACKAGE] = package
    torch._dynamo = package
    sys.meta_path.insert(0, _Finder(package))
    sys.modules.update(
        (name, _StubModule(name, has)) for part, has in STUBBED_NAMES.items() if (name := f"{PACKAGE}.{part}")
    )
    try:
        with importing():
            importlib.import_module(NEEDED)
        for part in STUBBED_NAMES.keys() - {SOURCE_MODULE}:
            _remove_stub(f"{PACKAGE}.{part}")
    # In another version of torch the modules depend on each other in other ways: all is undone, and the real package is
    # imported at its first use.
    except ImportError:  # another torch, whose modules hang together otherwise
        for name in set(sys.modules) - before:
            if name == NEEDED or name.partition(".")[0] == PACKAGE or name.startswith(f"{PACKAGE}."):
                del sys.modules[name]
        del torch._dynamo
        _remove_finders()


def is_stub() -> bool:
    """True if ``torch._dynamo`` is the stub."""
    return type(sys.modules.get(PACKAGE)) is _StubPackage


class _StubModule(ModuleType):
    """A stub of a module of the package: it has only STUBBED_NAMES."""

    def __init__(self, name: str, has: dict[str, Any]) -> None:
        super().__init__(name)
        vars(self).update(has)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name == "AttrSource" and sys._getframe(1).f_globals.get("__name__") == META_CONVERTER:
            return _attribute_source
        return getattr(_real(self.__name__), name)


def _real(name: str) -> ModuleType:
    """Import a module of the package, without a stub of it."""
    _remove_stub(name)
    # ``source`` imports two expensive modules for functions that are hardly ever called: stubs for the
    # time of the import.
    takes = STUBS_OF_SOURCE if name == f"{PACKAGE}.{SOURCE_MODULE}" and name not in sys.modules and is_stub() else {}
    with _stubs(takes):
        return importlib.import_module(name)


@contextlib.contextmanager
def _stubs(few: dict[str, dict[str, Any]]) -> Iterator[None]:
    """Inside, imported modules import names from stubs of modules that are not loaded."""
    package = vars(sys.modules[PACKAGE])
    stubs = {
        part: _StubModule(name, has) for part, has in few.items() if (name := f"{PACKAGE}.{part}") not in sys.modules
    }
    try:
        sys.modules.update((each.__name__, each) for each in stubs.values())
        package.update(stubs)
        yield
    finally:
        for part, stub in stubs.items():
            _remove_stub(stub.__name__)
            if package.get(part) is stub:
                del package[part]


def _replace_stubs(importer: ModuleType) -> None:
    """Replace each stub that a module imported by the real object."""
    for name, value in list(vars(importer).items()):
        if isinstance(value, _StubFunction):
            setattr(importer, name, value.real())
        elif isinstance(value, _StubModule):
            setattr(importer, name, _real(value.__name__))


def _remove_stub(name: str) -> None:
    if type(sys.modules.get(name)) is _StubModule:
        del sys.modules[name]


class _StubPackage(ModuleType):
    """``torch._dynamo`` before its first use."""

    def __init__(self, specification: importlib.machinery.ModuleSpec) -> None:
        super().__init__(PACKAGE)
        self.__spec__ = specification
        self.__loader__ = specification.loader
        self.__package__ = PACKAGE
        self.__path__ = list(specification.submodule_search_locations or ())
        self.__file__ = specification.origin

    def __getattr__(self, name: str) -> Any:
        importing_module = sys._getframe(1).f_globals.get("__name__")
        if name in INDEPENDENT_MODULES:
            use_stub = name == SOURCE_MODULE and importing_module == META_CONVERTER
            found = sys.modules.get(f"{PACKAGE}.{name}") if use_stub else None
            return _real(f"{PACKAGE}.{name}") if found is None else found
        if name == "disable" and importing_module == "torch._compile":
            return _disable
        if name == "graph_break" and _may_use_stub_functions(importing_module):
            return graph_break
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")
        load_real_package(self)
        return getattr(self, name)

    def __dir__(self) -> Sequence[str]:
        load_real_package(self)
        return dir(self)


_loading = threading.RLock()
LOCK_TIMEOUT_SECONDS = 60.0
"""A thread that waits for a module that this one is importing must not wait for ever."""


def load_real_package(package: ModuleType) -> None:
    """Run the package's ``__init__.py`` in the stub's module object, which other modules refer to."""
    held: list[bool] = []
    try:
        # One call of C's: Ctrl-C comes before the lock is taken, or after that was noted.
        held.extend(map(_loading.acquire, (True,), (LOCK_TIMEOUT_SECONDS,)))
        if type(package) is not _StubPackage:
            return
        # First, so that the reload finds an ordinary module.
        package.__class__ = ModuleType  # type: ignore[assignment]
        for part in STUBBED_NAMES:
            _replace_stubs(_real(f"{PACKAGE}.{part}"))
        importlib.reload(sys.modules[NEEDED])  # it imported stubbed names: its exceptions get their real base
        _remove_finders()
        while _disabled:
            with contextlib.suppress(AttributeError):
                delattr(_disabled.pop(), DISABLED)
        # ``reload`` runs the package's code in the same module object, to which other modules refer.
        importlib.reload(package)
    finally:
        if any(held):
            _loading.release()


def _remove_finders() -> None:
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Finder)]


class _Finder:
    """Finder that loads the real package before any other of its modules is imported."""

    def __init__(self, package: _StubPackage) -> None:
        self.package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Load the real package if a module of it is imported."""
        parent, _, part = name.partition(f"{PACKAGE}.")
        if parent or not part or part.partition(".")[0] in INDEPENDENT_MODULES:
            return None
        load_real_package(self.package)
        # The package imports this part on its way, most likely: it must not run twice.
        known = sys.modules.get(name)
        return None if known is None else importlib.machinery.ModuleSpec(name, _LoadedModuleLoader(known))


class _LoadedModuleLoader(importlib.abc.Loader):
    """Loader of a module that is loaded already."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.specification = module.__spec__

    def create_module(self, _specification: importlib.machinery.ModuleSpec) -> ModuleType:
        """The loaded module."""
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own specification; it has run."""
        module.__spec__ = self.specification


def graph_break(msg: str = "") -> None:
    """Stub of ``graph_break``, which an optimizer's step calls: it does nothing, and the tracer knows its name."""


graph_break.__module__ = f"{PACKAGE}.decorators"


def _may_use_stub_functions(importing_module: object) -> bool:
    """True for modules that only call the stub: a stored stub might reach torch's tracer, which needs its own."""
    return importing_module == "torch.optim.optimizer" or str(importing_module).startswith("nbcompile.")


# --- functions that torch keeps from tracers -------------------------------------------------------------------------

DISABLED = "__dynamo_disable"
"""The attribute of a function in which torch._compile caches its wrapper."""
_disabled: list[Callable[..., Any]] = STATE.add("fast.dynamo_stub._disabled", [], Lifetime.PROCESS)


def _disable(function: Callable[..., Any], recursive: bool = True, **words: object) -> Callable[..., Any]:
    """Stub of ``disable``: the function runs without nbcompile's frame hook until the package is loaded."""
    if not recursive:  # what the function calls may be traced: that takes the real one
        load_real_package(sys.modules[PACKAGE])
        real: Callable[..., Any] = sys.modules[PACKAGE].disable(function, recursive, **words)
        return real
    _disabled.append(function)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        with _without_hook():
            return function(*arguments, **keywords)

    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    call._torchdynamo_disable_msg = None  # type: ignore[attr-defined]
    call._torchdynamo_disable_recursive = True  # type: ignore[attr-defined]
    return call


@contextlib.contextmanager
def _without_hook() -> Iterator[None]:
    prior = get_eval_frame_callback()
    try:
        set_eval_frame(None)
        yield
    finally:
        set_eval_frame(prior)
