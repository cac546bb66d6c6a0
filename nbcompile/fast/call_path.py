"""Fast calls, from the third call on: guards as instructions in C, and no frame hook.

    f(x)      path = slow_path      the hook, guards in C++, a frame instead of f's
    f(x)      installer.note        an entry accepts the call: its guards are encoded as instructions for fast_call.c
    f(x)      path = FastCall       those instructions, then the residual program; the slow path if they fail

The slow path defines what a call means; a fast call happens only where the guards of an entry hold, under the default
stance and without an active recorder. An entry with a guard that fast_call.c cannot evaluate has none. An entry that is
removed is removed here, too: dispatch/cache.py calls ``forget``.

In torch: nothing; every call goes through the hook. Read next: nbcompile/fast/guard_bytecode.py
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any, cast

import torch

from nbcompile import config, stance, torch_internals
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.capture.resolution import Scope
from nbcompile.dispatch import cache, hook
from nbcompile.fast import fast_call, guard_bytecode
from nbcompile.guarding.check import FrameCheck
from nbcompile.hooks import Path
from nbcompile.record import recorder

RETRY_INTERVAL = 4096
"""Number of slow calls after which only one of as many tries to install a fast call."""


def installer(
    entry: Callable[..., Any], callback: hook.FrameCallback, slow_path: Path, install: Callable[[Path], None]
) -> FastCallInstaller | None:
    """The installer of fast calls for a compiled function; None where there can be none.

    Args:
        entry: the first function that the hook gets.
        callback: its hook.
        slow_path: for calls that no fast call accepts.
        install: called with the fast call, once there is one.
    """
    first = _first_frame(entry)
    # A region keeps its entries apart from those of other wrappers, while a fast call takes entries
    # only by the backend.
    if not isinstance(first.function, FunctionType) or callback.region != torch_internals.OUR_REGION:
        return None
    return FastCallInstaller(entry, first, callback, slow_path, install)


@dataclass(frozen=True, slots=True)
class FirstFrame:
    """The first frame of a call that the hook gets."""

    function: Any
    """A function; something else where there can be no fast call."""
    bound: object
    """The object that the function is bound to; None: none."""
    entry_methods: tuple[str, ...] = ()
    """Methods of a module on the way to the function."""


def _first_frame(entry: Any) -> FirstFrame:
    if isinstance(entry, torch.nn.Module):
        methods = ("__call__", "_wrapped_call_impl", "_call_impl", "forward")
        return FirstFrame(getattr(type(entry), "forward", None), entry, methods)
    bound, function = getattr(entry, "__self__", None), getattr(entry, "__func__", entry)
    if isinstance(bound, torch.nn.Module) and function is torch.nn.Module._call_impl:
        return FirstFrame(getattr(type(bound), "forward", None), bound, ("_call_impl", "forward"))
    return FirstFrame(function, bound if isinstance(entry, MethodType) else None)


class FastCallInstaller:
    """Count the calls that take the slow path, and from time to time try to install a fast call."""

    def __init__(
        self,
        entry: Callable[..., Any],
        first: FirstFrame,
        callback: hook.FrameCallback,
        slow_path: Path,
        install: Callable[[Path], None],
    ) -> None:
        self.entry = entry
        self.function: FunctionType = first.function
        self.bound = first.bound
        self.entry_methods = first.entry_methods
        self.callback = callback
        self.calls = 0
        self._attempts = 0
        self._complete: tuple[object, object] | None = None
        self._added: set[int] = set()
        self._added_since: object = None
        self._slow_path = slow_path
        self._install = install
        self._fast_call: Any = None

    def note(self, arguments: tuple[object, ...], keywords: dict[str, object]) -> None:
        """Count a call that takes the slow path."""
        attempts = cache.state(self.function.__code__).attempts
        if attempts != self._attempts:  # the call before this one compiled: its entry is not known yet
            self._attempts, self.calls = attempts, 1
        self.calls += 1
        # After 2, 4, 8, 16 ... 4096, 8192, 12288 slow calls: an attempt evaluates the guards of each entry in Python,
        # which
        # takes milliseconds where there are eight, as past the recompile limit. So attempts become rare.
        if self.calls > 1 and (
            self.calls % RETRY_INTERVAL == 0 or (self.calls < RETRY_INTERVAL and self.calls.bit_count() == 1)
        ):
            self._try_to_install(arguments, keywords)

    def knows_every_entry(self) -> bool:
        """Return whether a call on the slow path is one that all entries reject, and none will be added.

        The fast call checks before the slow path does, but not once a profiler was active, nor with other defaults. A
        hook of the caller's has to see the frame.
        """
        known = self._complete
        return (
            known is not None
            and known[0] is cache.last_forgotten()
            and known[1] is self.function.__code__
            and self._fast_call.checks_failed
            and hook.is_off()
        )

    def _try_to_install(self, arguments: tuple[object, ...], keywords: dict[str, object]) -> None:
        if config.reference or torch_internals.members.replaced_member() is not None:
            return
        # Read first: if anything is forgotten while this runs, the entry that was added may have been removed.
        code, before = self.function.__code__, cache.last_forgotten()
        entries = cache.entries_of_backend(code, self.callback.key)
        if _first_frame(self.entry).function is not self.function:
            return  # the class has another forward by now
        if not entries or torch_internals.function_modes() or not fast_call.is_built():
            return
        tools = fast_call.tools()
        if tools is None:
            return
        if self._fast_call is None and not self._create(tools):
            return
        # The arguments as the frame would have them. None: the call is an error, and the slow path raises it.
        values = self._fast_call.bind(arguments, keywords)
        if values is None:
            return
        names = guard_bytecode.local_names(code)
        scope = Scope(
            code, dict(zip(names, values, strict=True)), self.function.__globals__, builtins_of(self.function)
        )
        for compiled in entries:
            if isinstance(compiled.check, FrameCheck) and compiled.check.holds(scope):
                self._add(compiled, compiled.check, scope, values, tools)
                if cache.last_forgotten() is not before:  # the removed entry may be this one
                    self._fast_call.forget()
                    self._added_since = None
                return
        self._note_complete(code, entries)

    def _note_complete(self, code: CodeType, entries: list[CompiledFrame]) -> None:
        """Remember that each entry has a fast call of one graph, and that none will be added, if that is so."""
        is_current = self._added_since is cache.last_forgotten()
        if is_current and cache.state(code).is_complete and self._added.issuperset(map(id, entries)):
            self._complete = self._added_since, code

    def _create(self, tools: fast_call.Tools) -> bool:
        names = guard_bytecode.local_names(self.function.__code__)
        try:
            self._fast_call = tools.fast_call(self.function, self.bound, names, self._slow_path)
        except ValueError:  # very many arguments
            return False
        cache.add_copy(self._fast_call)
        self._install(self._fast_call)
        return True

    def _add(
        self,
        compiled: CompiledFrame,
        check: FrameCheck,
        scope: Scope,
        values: tuple[object, ...],
        tools: fast_call.Tools,
    ) -> None:
        try:
            with torch._C.DisableTorchFunction():  # no ``__torch_function__`` may see this read
                extra = guard_bytecode.ExtraConditions(stance.still_default(), recorder.watching, self.entry_methods)
                check_in_c = tools.check(*guard_bytecode.instructions(check, scope, tools, extra))
        except (guard_bytecode.NotEncodable, ValueError):
            return
        # The instructions were written for this very call: one that fails would be wrong.
        if check_in_c.holds(values):
            self._fast_call.add(check_in_c, self._runner(compiled.code))
            if self._added_since is not cache.last_forgotten():
                self._added_since = cache.last_forgotten()
                self._added.clear()
            # Where it calls more than a graph, the hook looks at what the function calls, past the limit too.
            if calls_one_graph(compiled.code):
                self._added.add(id(compiled))

    def _runner(self, code: CodeType) -> Callable[..., Any]:
        """The residual program as a function; its calls go through the hook if it calls more than one graph."""
        original = self.function
        names, defaults, cells = original.__globals__, original.__defaults__, original.__closure__
        # The residual program takes the arguments of the function itself, so it can be called instead.
        function = FunctionType(code, names, original.__name__, defaults, cells)
        function.__kwdefaults__ = original.__kwdefaults__
        # Its own frame must not be compiled once more; what it calls may.
        hook.skip_code(code)
        entry = function if self.bound is None else MethodType(function, self.bound)
        # With a graph break, or calls of other functions, the hook must get the frames below.
        if calls_one_graph(code):
            return entry
        call = self.callback.call
        return lambda *arguments, **keywords: call(entry, arguments, keywords)


def builtins_of(function: FunctionType) -> dict[str, object]:
    """The builtins of a function: its names that are neither local nor global."""
    found: dict[str, object] = cast("Any", function).__builtins__  # mypy knows it, and forgets it in its cache
    return found


_OF_MODULES = frozenset(("_parameters", "_buffers", "_modules"))
_OF_TENSORS = frozenset(("size", "stride", "storage_offset"))
"""Attributes and methods whose use runs no Python of the user's."""


def calls_one_graph(code: CodeType) -> bool:
    """True if a residual program calls nothing but one graph: then nothing in it needs the frame hook."""
    # CALL_INTRINSIC is an instruction, not a call of anything.
    try:
        instructions = [(each.opname, each.argval) for each in dis.get_instructions(code)]
    except ValueError:  # dis writes each constant as a text: Python rejects that for an int of thousands of digits
        return False
    calling = [name for name, _ in instructions if name.startswith("CALL") and not name.startswith("CALL_INTRINSIC")]
    methods = [name for _, name in instructions if type(name) is str and name in _OF_TENSORS]
    plain = not any(isinstance(each, CodeType) for each in code.co_consts)
    harmless = len(methods) + _built_records(instructions)
    return plain and len(calling) <= 1 + harmless and (_OF_MODULES | _OF_TENSORS).issuperset(code.co_names)


def _built_records(instructions: list[tuple[str, Any]]) -> int:
    """Count the calls of classes of records in C, as torch.return_types.sort is: such a call runs no Python."""
    # What is called has a NULL below it on the stack, from 3.13 on above it.
    distance = 1 if sys.version_info >= (3, 13) else -1
    return sum(
        name == "LOAD_CONST" and _is_record_class(constant) and instructions[at + distance][0] == "PUSH_NULL"
        for at, (name, constant) in enumerate(instructions[:-1])
    )


def _is_record_class(value: object) -> bool:
    return isinstance(value, type) and getattr(torch.return_types, value.__name__, None) is value
