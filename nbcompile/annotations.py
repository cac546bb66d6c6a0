"""Annotations of user code that mean something only while it is traced.

    nbcompile.graph_break()                 the graph ends here
    @nbcompile.nonstrict_trace              one opaque node; its body is not looked at
    with nbcompile.error_on_graph_break():  a break is an error in here

The names are torch's. torch's own annotations are honoured as well, wherever
they are found; these do not import half of torch. In eager mode all of them do
nothing. Marks are stored here, by the address of the function.

In torch: torch/_dynamo/decorators.py and torch/compiler/__init__.py. Read next:
nbcompile/tracing/calls/annotations.py, which acts on them, and nbcompile/stance.py
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import threading
import types
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeVar, overload

from nbcompile import config, errors, torch_internals
from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.torch_internals import operators

Function = TypeVar("Function", bound=Callable[..., Any])

# -- instructions: calls that mean something by themselves ---------------------------------------


def graph_break(msg: str = "") -> None:
    """End the graph here; does nothing in eager mode."""


def skip_frame(msg: str = "") -> None:
    """Run the function that calls this uncompiled; does nothing in eager mode."""


def step_unsupported(msg: str = "") -> None:
    """Compile what came before in this function, and run the rest of it uncompiled."""


# -- marks on functions --------------------------------------------------------------------------

_marks: dict[int, tuple[object, str, str]] = STATE.add("annotations._marks", {}, Lifetime.PROCESS)
"""Marks by address: the function (referenced, so that none other gets the address), its mark, and torch's mark then."""
_substitutes: dict[int, tuple[object, types.FunctionType]] = STATE.add("annotations._substitutes", {}, Lifetime.PROCESS)
"""C functions, by address, and the Python functions that are traced instead."""


def substitute_of(function: object) -> types.FunctionType | None:
    """The Python function that is traced instead of a C function."""
    found = _substitutes.get(id(function))
    return found[1] if found is not None else None


def mark_of(function: object) -> str:
    """The mark of a function: ``allow_in_graph``, ``nonstrict_trace``, ...; "" if it has none."""
    _, ours, torchs_then = _marks.get(id(function), (function, "", ""))
    torchs_now = _mark_of_torch(function)
    return torchs_now if not ours or torchs_now != torchs_then else ours  # whichever came last


def is_marked(value: object) -> bool:
    """Return whether an object is in a table of marks. It may be no function, so that no attribute of it is read."""
    if id(value) in _marks:
        return True
    tables = sys.modules.get("torch._dynamo.trace_rules")
    return tables is not None and any(id(value) in getattr(tables, table, ()) for table in _TORCH_TABLES.values())


def _mark(function: Any, mark: str) -> Any:
    if not callable(function):
        raise errors.NotCallable(f"{mark} expects a callable, not {type(function).__name__}")
    _marks[id(function)] = (function, mark, _mark_of_torch(function))
    return function


_TORCH_ATTRIBUTES = {"forbid_in_graph": "_dynamo_forbidden", "assume_constant_result": "_dynamo_marked_constant"}
_TORCH_TABLES = {
    "leaf_function": "_leaf_function_ids",
    "nonstrict_trace": "_nonstrict_trace_callable_ids",
    "disallow_in_graph": "_disallowed_callable_ids",
    "allow_in_graph": "_allowed_callable_ids",
}


def _mark_of_torch(function: object) -> str:
    """The mark that torch's own decorators set: they store it in attributes and in tables."""
    of_class = vars(function) if isinstance(function, type) else None  # a mark of a base class is not inherited
    for mark, attribute in _TORCH_ATTRIBUTES.items():
        if (getattr(function, attribute, False) if of_class is None else of_class.get(attribute)) is True:
            return mark
    tables = sys.modules.get("torch._dynamo.trace_rules")  # a program that marked something has imported it
    if tables is None:
        return ""
    return next((mark for mark, table in _TORCH_TABLES.items() if id(function) in getattr(tables, table, ())), "")


def allow_in_graph(fn: Any) -> Any:
    """Make a call one node of the graph: the tracer does not trace into it, the backend does."""
    return [allow_in_graph(each) for each in fn] if isinstance(fn, (list, tuple)) else _mark(fn, "allow_in_graph")


def disallow_in_graph(fn: Any) -> Any:
    """Make a call of an operator of torch break the graph.

    Raises:
        RuntimeError: it is no operator, so that it is in no graph anyway.
    """
    if isinstance(fn, (list, tuple)):
        return [disallow_in_graph(each) for each in fn]
    if not callable(fn):
        raise errors.NotCallable(f"disallow_in_graph expects a callable, not {type(fn).__name__}")
    if mark_of(fn) not in ("allow_in_graph", "nonstrict_trace") and not operators.is_operator(fn):
        raise RuntimeError(
            "disallow_in_graph is expected to be used on an already allowed callable (like torch.* ops): "
            "on what would be a node of the graph."
        )
    return _mark(fn, "disallow_in_graph")


def forbid_in_graph(fn: Function) -> Function:
    """Make it an error to trace a call."""
    return _mark(fn, "forbid_in_graph")


def assume_constant_result(fn: Function) -> Function:
    """Call the function once, while it is traced; the result is a constant from then on.

    Raises:
        errors.NotCallable: it is no callable.
    """
    return _mark(fn, "assume_constant_result")


def nonstrict_trace(traceable_fn: Function) -> Function:
    """Make a call one node; inputs and outputs may be any pytree, and modules.

    Raises:
        errors.NotCallable: no function.
        ValueError: it is a leaf function already.
    """
    _exclusive(traceable_fn, "leaf_function", "nonstrict_trace")
    return _mark(_wrapper(traceable_fn), "nonstrict_trace")


def _wrapper(function: Any) -> Any:
    if not callable(function):
        raise errors.NotCallable(f"nonstrict_trace expects a callable, not {type(function).__name__}")

    @functools.wraps(function)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    return wrapped


def _exclusive(function: Any, other: str, mark: str) -> None:
    if mark_of(function) == other:
        first, second = sorted((other, mark))
        raise ValueError(
            f"Function {function} cannot be both marked as @{first} and @{second}. Please use only one decorator."
        )


def leaf_function(fn: Any = None, *, mutates_args: Iterable[str] = ()) -> Any:
    """Make a function opaque to the tracer and to the backend: its Python runs at each call of the graph.

    It needs a fake implementation that computes the shapes: ``@fn.register_fake``.

    Raises:
        ValueError: ``mutates_args`` names no parameter; or the function is marked with ``nonstrict_trace``.
    """
    if fn is None:
        return functools.partial(leaf_function, mutates_args=mutates_args)
    _exclusive(fn, "nonstrict_trace", "leaf_function")
    if not callable(fn):
        raise errors.NotCallable(f"leaf_function expects a callable, not {type(fn).__name__}")
    name = getattr(fn, "__name__", str(fn))
    parameters = set(inspect.signature(fn).parameters) if mutates_args else set()
    for expression in mutates_args:
        root = re.split(r"[.\[]", expression, maxsplit=1)[0]
        if root not in parameters:
            raise ValueError(
                f"mutates_args expression '{expression}' refers to parameter '{root}', which is not a parameter of "
                f"'{name}'. Available parameters: {', '.join(sorted(parameters))}"
            )
    fakes: list[Callable[..., Any]] = []
    hooks: list[Callable[..., Any] | None] = [None]

    @functools.wraps(fn)
    def leaf(*arguments: Any, **keywords: Any) -> Any:
        if not fakes:
            raise ValueError(
                f"leaf_function '{name}' requires a fake implementation. "
                "Please provide one using the @<func>.register_fake decorator."
            )
        return torch_internals.call_leaf(fn, fakes[-1], hooks[-1], arguments, keywords, frozenset(mutates_args))

    def register_fake(fake: Callable[..., Any]) -> Any:
        """Register the function that computes the shapes of the result."""
        fakes.append(fake)
        return leaf

    def register_multi_grad_hook(hook: Callable[..., Any]) -> Any:
        """Register a function to call with the gradients of the inputs once all are known."""
        hooks.append(hook)
        return leaf

    leaf.register_fake = register_fake  # type: ignore[attr-defined]
    leaf.register_multi_grad_hook = register_multi_grad_hook  # type: ignore[attr-defined]
    return _mark(leaf, "leaf_function")


def substitute_in_graph(
    original_fn: Callable[..., Any],
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
    is_embedded_type: bool = False,
) -> Callable[[Function], Function]:
    """Decorate a Python function that is traced instead of a C function, or with ``is_embedded_type`` of a class in C.

    Raises:
        TypeError: one of the two is no function, or their signatures differ.
        ValueError: the C function has a substitute already.
    """
    kinds = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
    if not isinstance(original_fn, type if is_embedded_type else kinds):
        expected = "class" if is_embedded_type else "function"
        raise TypeError(f"substitute_in_graph expects a {expected} but got {type(original_fn)!r}")

    def register(traceable_fn: Function) -> Function:
        if not isinstance(traceable_fn, types.FunctionType):
            raise TypeError(f"@substitute_in_graph(...) expects a function but got {type(traceable_fn)!r}")
        if not skip_signature_check:
            _check_signatures(original_fn, traceable_fn)
        if id(original_fn) in _substitutes:
            raise ValueError(f"Duplicate dispatch rule for {original_fn}: already registered")
        _substitutes[id(original_fn)] = (original_fn, traceable_fn)
        return traceable_fn

    return register


def _check_signatures(original: Callable[..., Any], traceable: Callable[..., Any]) -> None:
    try:
        expected = inspect.signature(original)
    except ValueError:  # most C functions have no signature
        return
    given = inspect.signature(traceable)
    takes_anything = _how_called(inspect.signature(lambda *args, **kwargs: None))
    if len({_how_called(expected), _how_called(given), takes_anything} - {takes_anything}) > 1:
        raise TypeError(f"Signature mismatch between {original} and {traceable}: {expected} != {given}")


def _how_called(signature: inspect.Signature) -> tuple[object, ...]:
    """The names of the positional parameters, those of the others, and all defaults."""
    named = [each for each in signature.parameters.values() if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    positional = tuple(each.name for each in named if each.kind != each.KEYWORD_ONLY)
    defaults = tuple(sorted((each.name, repr(each.default)) for each in named))
    return positional, frozenset(each.name for each in named), defaults


# -- how a region is traced ----------------------------------------------------------------------


class _Region:
    """A context manager that is a decorator, too, and may be entered again while it is active."""

    def __call__(self, function: Function) -> Function:
        if not callable(function):
            raise errors.NotCallable(f"{type(self).__name__} decorates a callable, not {type(function).__name__}")
        return inside(self, function)

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *error: object) -> None:
        raise NotImplementedError


def inside(region: AbstractContextManager[Any], function: Any) -> Any:
    """A function whose calls are inside of a region."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:  # traced through: the region is entered while tracing
        with region:
            return function(*args, **kwargs)

    return inner


class _State(threading.local):
    errors_on_break: bool | None = None


_state = STATE.add("annotations._state", _State(), Lifetime.PROCESS)


def errors_on_break() -> bool:
    """True if a break is an error in code that is compiled now: by our manager, else by torch's."""
    if _state.errors_on_break is not None:
        return _state.errors_on_break
    torchs = sys.modules.get("torch._dynamo.decorators")
    return torchs is not None and bool(torchs._get_error_on_graph_break())


class error_on_graph_break(_Region):
    """A decorator and context manager: whether a break is an error, where ``fullgraph`` is False."""

    def __init__(self, error_on_graph_break: bool = True) -> None:
        self.error_on_graph_break = error_on_graph_break
        self._prior: list[bool | None] = []

    def __enter__(self) -> None:
        self._prior.append(_state.errors_on_break)
        _state.errors_on_break = self.error_on_graph_break

    def __exit__(self, *error: object) -> None:
        _state.errors_on_break = self._prior.pop()


PATCHABLE = frozenset({
    "verbose", "rewrite_assert_with_torch_assert", "capture_scalar_outputs", "allow_unspec_int_on_nn_module",
    "dont_skip_tracing", "nested_graph_breaks",
})  # fmt: skip
"""Settings that may change in the middle of a trace."""


class patch_dynamo_config(_Region):
    """A decorator and context manager: other settings for the code inside, also in the middle of a trace.

    Raises:
        ValueError: a setting that means nothing while tracing.
    """

    def __init__(self, name: str | dict[str, object] | None = None, value: object = None, **changes: object) -> None:
        given = name if isinstance(name, dict) else {} if name is None else {name: value}
        self.changes = {**given, **changes}
        for setting in self.changes:
            if setting not in PATCHABLE:
                raise ValueError(
                    f"patch_dynamo_config cannot change {setting!r}; it can change: {', '.join(sorted(PATCHABLE))}"
                )
        self._prior: list[Any] = []

    def __enter__(self) -> None:
        patched = config.patch(self.changes)
        patched.__enter__()
        self._prior.append(patched)

    def __exit__(self, *error: object) -> None:
        self._prior.pop().__exit__(None, None, None)


@overload
def dont_skip_tracing(fn: None = None) -> patch_dynamo_config: ...
@overload
def dont_skip_tracing(fn: Function) -> Function: ...
def dont_skip_tracing(fn: Any = None) -> Any:
    """Trace into functions that are usually not traced, in everything that runs inside."""
    region = patch_dynamo_config(dont_skip_tracing=True)
    return region if fn is None else region(fn)


@overload
def disable_nested_graph_breaks(fn: None = None) -> patch_dynamo_config: ...
@overload
def disable_nested_graph_breaks(fn: Function) -> Function: ...
def disable_nested_graph_breaks(fn: Any = None) -> Any:
    """Inside, a break in an inlined function is one of the outermost function, as by default."""
    region = patch_dynamo_config(nested_graph_breaks=False)
    return region if fn is None else region(fn)
