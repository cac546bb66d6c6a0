"""The few modules of ``torch._dynamo`` that torch's own fake tensors need, without the rest (0.9 s).

    install()                                   a package that has run nothing of its __init__.py
    from torch._dynamo.exc import ...           FEW: one name of a module that has run nothing either
    import torch._dynamo.utils                  LIGHT: imported, alone
    torch._dynamo.optimize, or
    import torch._dynamo.convert_frame          anything else: now the package is itself, as if it had always been

ShapeEnv and FakeTensorMode take two exceptions and a stop-watch from there; the package's own start would import
torch's tracer, its variables and torch.distributed. The object in ``sys.modules`` stays when it becomes itself.

torch's own functions that shall never be traced import the package as well, to ask for ``disable``; until it is
itself there is no tracer of torch's that could look at them, and only our frame hook is kept away.

In torch: torch/_dynamo/__init__.py, torch/_compile.py. Read next: nbcompile/first_call.py
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

from nbcompile.later import importing

PACKAGE = "torch._dynamo"
LIGHT = frozenset(
    "bytecode_analysis bytecode_transformation callback config current_scope_id distributed dynamo_profiler exc"
    " external_utils graph_break_hints graph_utils logging metrics_context resume_execution source utils".split()
)
"""What the fake tensors need, and what that imports: nothing here may import anything else of the package."""
NEEDED = "torch.fx.experimental.validator"
"""The module of torch that imports them."""


def _attribute_source(owner: Any, name: str) -> Any:
    """The address of an attribute (the base of a view); one that is of no class of torch's makes it itself."""
    of_attribute = getattr(owner, "of_attribute", None)
    return _real(f"{PACKAGE}.source").AttrSource(owner, name) if of_attribute is None else of_attribute(name)


@dataclass(frozen=True)
class _Function:
    """A function of a module that has run nothing, which runs when this is called."""

    part: str
    name: str

    def __call__(self, *words: Any, **more: Any) -> Any:
        return self.real()(*words, **more)

    def real(self) -> Callable[..., Any]:
        """What it stands for."""
        found: Callable[..., Any] = getattr(_real(f"{PACKAGE}.{self.part}"), self.name)
        return found


FEW: dict[str, dict[str, Any]] = {
    "exc": {"TorchDynamoException": type("TorchDynamoException", (RuntimeError,), {})},
    "utils": {"dynamo_timed": _Function("utils", "dynamo_timed")},
    "source": {"RandomValueSource": type("RandomValueSource", (), {})},
}
"""What every program asks for: a base of exceptions, a stop-watch, a class of which nobody makes an object before the
package is itself. The modules they stand in take 0.2 s; they are imported when anything else of them is wanted."""
TAKES: dict[str, dict[str, Any]] = {
    "utils": {},
    "bytecode_transformation": {
        name: _Function("bytecode_transformation", name)
        for name in ("create_binary_subscr", "create_build_tuple", "create_call_function")
    },
}
"""What the addresses of sizes (``source``, which symbolic ones need) take from modules that cost ten times what they
cost themselves: functions that write bytecode, which only torch's tracer calls."""
LASTING, MAKER = "source", "torch._subclasses.meta_utils"
"""The module that is asked at every call of a fake tensor's maker, and where that is; the others are asked once, by
NEEDED."""


def install() -> None:
    """Put the light package in its place; nothing happens where ``torch._dynamo`` is imported already."""
    if PACKAGE in sys.modules:
        return
    specification = importlib.util.find_spec(PACKAGE)
    if specification is None or specification.loader is None:
        return
    package = _Light(specification)
    before = set(sys.modules)
    sys.modules[PACKAGE] = package
    torch._dynamo = package
    sys.meta_path.insert(0, _Finder(package))
    sys.modules.update((name, _Few(name, has)) for part, has in FEW.items() if (name := f"{PACKAGE}.{part}"))
    try:
        with importing():
            importlib.import_module(NEEDED)
        for part in FEW.keys() - {LASTING}:
            _forget_stand_in(f"{PACKAGE}.{part}")
    except ImportError:  # another torch, whose modules hang together otherwise
        for name in set(sys.modules) - before:
            if name == NEEDED or name.partition(".")[0] == PACKAGE or name.startswith(f"{PACKAGE}."):
                del sys.modules[name]
        del torch._dynamo
        _forget_finders()


def is_light() -> bool:
    """Whether ``torch._dynamo`` is there, but not itself."""
    return type(sys.modules.get(PACKAGE)) is _Light


class _Few(ModuleType):
    """A module of the package that has run nothing: it has the few names that it was given."""

    def __init__(self, name: str, has: dict[str, Any]) -> None:
        super().__init__(name)
        vars(self).update(has)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name == "AttrSource" and sys._getframe(1).f_globals.get("__name__") == MAKER:
            return _attribute_source
        return getattr(_real(self.__name__), name)


def _real(name: str) -> ModuleType:
    """A module of the package, with all that is in it."""
    _forget_stand_in(name)
    takes = TAKES if name == f"{PACKAGE}.{LASTING}" and name not in sys.modules and is_light() else {}
    with _standing_in(takes):
        return importlib.import_module(name)


@contextlib.contextmanager
def _standing_in(few: dict[str, dict[str, Any]]) -> Iterator[None]:
    """Inside, modules that are imported take what they need of others from stand-ins, if those were not imported."""
    package = vars(sys.modules[PACKAGE])
    made = {part: _Few(name, has) for part, has in few.items() if (name := f"{PACKAGE}.{part}") not in sys.modules}
    sys.modules.update((each.__name__, each) for each in made.values())
    package.update(made)
    try:
        yield
    finally:
        for part, stub in made.items():
            _forget_stand_in(stub.__name__)
            if package.get(part) is stub:
                del package[part]


def _take_real(taker: ModuleType) -> None:
    """In the place of each stand-in that a module took, what it stands for."""
    for name, taken in list(vars(taker).items()):
        if isinstance(taken, _Function):
            setattr(taker, name, taken.real())
        elif isinstance(taken, _Few):
            setattr(taker, name, _real(taken.__name__))


def _forget_stand_in(name: str) -> None:
    if type(sys.modules.get(name)) is _Few:
        del sys.modules[name]


class _Light(ModuleType):
    """``torch._dynamo`` before its first use."""

    def __init__(self, specification: importlib.machinery.ModuleSpec) -> None:
        super().__init__(PACKAGE)
        self.__spec__ = specification
        self.__loader__ = specification.loader
        self.__package__ = PACKAGE
        self.__path__ = list(specification.submodule_search_locations or ())
        self.__file__ = specification.origin

    def __getattr__(self, name: str) -> Any:
        asking = sys._getframe(1).f_globals.get("__name__")
        if name in LIGHT:
            stands_in = name == LASTING and asking == MAKER
            found = sys.modules.get(f"{PACKAGE}.{name}") if stands_in else None
            return _real(f"{PACKAGE}.{name}") if found is None else found
        if name == "disable" and asking == "torch._compile":
            return _kept_from_our_hook
        if name == "graph_break" and _knows_stand_ins(asking):
            return graph_break
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")
        become_itself(self)
        return getattr(self, name)

    def __dir__(self) -> Sequence[str]:
        become_itself(self)
        return dir(self)


_becoming = threading.RLock()
PATIENCE = 60.0
"""Seconds. A thread that waits for a module that this one is importing must not wait for ever."""


def become_itself(package: ModuleType) -> None:
    """Run the package's ``__init__.py`` in the module that everybody holds."""
    held = _becoming.acquire(timeout=PATIENCE)
    try:
        if type(package) is not _Light:
            return
        package.__class__ = ModuleType  # type: ignore[assignment]
        for part in FEW:
            _take_real(_real(f"{PACKAGE}.{part}"))
        importlib.reload(sys.modules[NEEDED])  # it holds the few names: its exceptions get their base
        _forget_finders()
        while _disabled:
            with contextlib.suppress(AttributeError):
                delattr(_disabled.pop(), DISABLED)
        importlib.reload(package)
    finally:
        if held:
            _becoming.release()


def _forget_finders() -> None:
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Finder)]


class _Finder:
    """Sees imports of other parts of the package, which becomes itself before them."""

    def __init__(self, package: _Light) -> None:
        self.package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Asked for every module that is imported."""
        parent, _, part = name.partition(f"{PACKAGE}.")
        if parent or not part or part.partition(".")[0] in LIGHT:
            return None
        become_itself(self.package)
        # The package imports this part on its way, most likely: it must not run twice.
        made = sys.modules.get(name)
        return None if made is None else importlib.machinery.ModuleSpec(name, _Made(made))


class _Made(importlib.abc.Loader):
    """Loads what is loaded."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.specification = module.__spec__

    def create_module(self, _specification: importlib.machinery.ModuleSpec) -> ModuleType:
        """The module that is there."""
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """It ran; its own specification is put back."""
        module.__spec__ = self.specification


def graph_break(msg: str = "") -> None:
    """What an optimizer's step calls: as torch's, it does nothing, and our tracer knows it by its name and module."""


graph_break.__module__ = f"{PACKAGE}.decorators"


def _knows_stand_ins(asking: object) -> bool:
    """Only calls it: who keeps the function might give it to torch's tracer, which wants its own."""
    return asking == "torch.optim.optimizer" or str(asking).startswith("nbcompile.")


# --- functions that torch keeps from tracers -------------------------------------------------------------------------

DISABLED = "__dynamo_disable"
"""Where torch._compile keeps, at a function, what it was given for it."""
_disabled: list[Callable[..., Any]] = []


def _kept_from_our_hook(function: Callable[..., Any], recursive: bool = True, **words: object) -> Callable[..., Any]:
    """What torch._compile calls in the place of a function of torch's, until the package is itself."""
    if not recursive:  # what the function calls may be traced: that takes the real one
        become_itself(sys.modules[PACKAGE])
        real: Callable[..., Any] = sys.modules[PACKAGE].disable(function, recursive, **words)
        return real
    _disabled.append(function)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        with _no_hook():
            return function(*arguments, **keywords)

    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    call._torchdynamo_disable_msg = None  # type: ignore[attr-defined]
    call._torchdynamo_disable_recursive = True  # type: ignore[attr-defined]
    return call


@contextlib.contextmanager
def _no_hook() -> Iterator[None]:
    prior = get_eval_frame_callback()
    try:
        set_eval_frame(None)
        yield
    finally:
        set_eval_frame(prior)
