"""The stance of the process: how compiled functions behave from now on.

    nbcompile.set_stance("force_eager")                 compiled functions run as if they were not compiled
    with nbcompile.set_stance("fail_on_recompile"):     a call that needs new code in here is an error

There is one stance, which is ours or torch's own: whoever calls ``torch.compiler.set_stance`` is
obeyed, too. It is read at every call of a compiled function, so that reading it has to be cheap.

In torch: DynamoStance and set_stance in torch/_dynamo/eval_frame.py. Read next:
nbcompile/eval_frame/stances.py, which acts on it
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from nbcompile.support.process_state import STATE, Lifetime

Function = TypeVar("Function", bound=Callable[..., Any])

STANCES = (
    "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile",
)  # fmt: skip


Stance = tuple[str, Any]
"""A stance and the backend that is forced, if any."""
DEFAULT: Stance = ("default", None)
WARMED_UP: Stance = ("skip_guard_eval_unsafe", None)
"""The default stance where the user guarantees that no recompilation is needed."""


class _Stances:
    def __init__(self) -> None:
        self.current: Stance = DEFAULT
        self.torchs: Any = None
        """Torch's stance when it was last read; torch never changes a stance, it replaces it."""
        self.as_ours: Stance = DEFAULT


_stances = STATE.add("stance._stances", _Stances(), Lifetime.PROCESS)
_modules = sys.modules
_TORCHS = "torch._dynamo.eval_frame"


def stance() -> Stance:
    """The stance: ours, or what ``torch.compiler.set_stance`` set. Read at every call of a compiled function."""
    if _stances.current is not DEFAULT:
        return _stances.current
    torchs: Any = _modules.get(_TORCHS)
    if torchs is None:
        return DEFAULT
    found = torchs._stance
    if found is not _stances.torchs:
        _stances.as_ours = _stance(found.stance, found.skip_guard_eval_unsafe, found.backend)
        _stances.torchs = found
    return _stances.as_ours


def still_default() -> list[tuple[dict[str, Any], str, object]]:
    """Dicts that show that the stance is the default one, each with a key and its value (None: no such key)."""
    module = _modules.get(_TORCHS)
    torchs: tuple[dict[str, Any], str, object] = (_modules, _TORCHS, None)
    if module is not None:
        torchs = (vars(module), "_stance", vars(module)["_stance"])
    return [(vars(_stances), "current", DEFAULT), torchs]


def _stance(name: str, warmed_up: bool, backend: object) -> Stance:
    if name != "default" or backend is not None:
        return name, backend
    return WARMED_UP if warmed_up else DEFAULT


class set_stance:
    """Set how compiled functions behave from now on; as a context manager or decorator: inside.

    ``skip_guard_eval_unsafe`` promises that no call will need new code; one that does is an error. torch leaves out
    most guards then; here all are evaluated, so that a broken promise is never a wrong result.

    Raises:
        ValueError: no stance has this name.
        RuntimeError: a backend can only be forced under the default stance.
    """

    _dynamo_forbidden = True

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: object = None
    ) -> None:
        if stance not in STANCES:
            raise ValueError(f"invalid stance {stance!r}; the stances are: {', '.join(STANCES)}")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        self._requested = _stance(stance, skip_guard_eval_unsafe, force_backend)
        self._prior = _stances.current
        self.__enter__()

    def __enter__(self) -> None:
        _stances.current = self._requested

    def __exit__(self, *error: object) -> None:
        _stances.current = self._prior

    def __call__(self, function: Function) -> Function:
        self.__exit__()

        @functools.wraps(function)
        def inner(*arguments: Any, **keywords: Any) -> Any:
            with _during(self._requested):
                return function(*arguments, **keywords)

        inner._dynamo_forbidden = True  # type: ignore[attr-defined]
        return inner  # type: ignore[return-value]


@contextmanager
def _during(stance: Stance) -> Iterator[None]:
    prior, _stances.current = _stances.current, stance
    try:
        yield
    finally:
        _stances.current = prior
