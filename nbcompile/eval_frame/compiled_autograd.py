"""Compiled autograd: a backward pass that starts inside a compiled call is recorded, and compiled as a function.

    nbcompile.config.compiled_autograd = True
    step(x)        loss.backward() in it     the engine runs no node: a recorder writes down what they would do, with
                                             their hooks, as one torch.fx graph, which is compiled with the options of
                                             ``step``, and called

The recorder is torch's, as the engine is: an object that the engine calls node by node. It is a part of the package
that the compiler does not import, so that the program has to have done so (``torch._dynamo.config`` is enough). What is
ours is all that comes after the recording: the graph is traced, guarded and compiled like any function.

In torch: torch/_dynamo/compiled_autograd.py. Read next: nbcompile/eval_frame/wrapper.py
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from nbcompile import config, torch_internals
from nbcompile.dispatch import hook
from nbcompile.support.process_state import STATE

Region = Callable[[], AbstractContextManager[None]]
MISSING = (
    "compiled_autograd is on, but backward passes are not compiled: torch's recorder of the autograd engine, "
    "torch._dynamo.compiled_autograd, is not loaded. Import it before compiling; until then they run as in eager mode."
)


def region(compile_backward: Callable[[Any], Any], dynamic: bool | None) -> Region | None:
    """The context of a call inside of which backward passes are recorded; None if the setting is off.

    Args:
        compile_backward: compiles a recorded backward pass.
        dynamic: that option of the function that is compiled.
    """
    with config.with_torch_settings():
        is_enabled, is_static = config.compiled_autograd, config.assume_static_by_default
    if not is_enabled:
        return None
    recorder = sys.modules.get(torch_internals.RECORDER)
    if recorder is None:
        warnings.warn(MISSING, UserWarning, stacklevel=4)
        return None
    by_size = (not is_static) if dynamic is None else dynamic
    return lambda: _recording(recorder, compile_backward, by_size)


@STATE.on_reset
def forget() -> None:
    """Drop recorded backward passes, which the engine caches by its nodes."""
    recorder = sys.modules.get(torch_internals.RECORDER)
    if recorder is not None:
        recorder.reset()


@contextmanager
def _recording(recorder: Any, compile_backward: Callable[[Any], Any], by_size: bool) -> Iterator[None]:
    set_compiler = torch_internals.set_autograd_compiler
    with recorder._enable(compile_backward, dynamic=by_size, ignore_active_disable_ctx=False):
        # The recorder's own Python runs inside of the compiled call, and is no part of the program.
        make, dynamic = set_compiler(None, False)
        set_compiler(None if make is None else lambda: _Quiet(make()), dynamic)
        yield


class _Quiet:
    """The recorder of one backward pass, whose methods the engine calls: without the frame hook."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.recorder, name)
        if not callable(member):
            return member

        def call(*arguments: Any, **keywords: Any) -> Any:
            with hook.paused():
                return member(*arguments, **keywords)

        return call
