"""Load or compile a frame, at a call that no cache entry accepts.

    hooks.load_frame       what an earlier process compiled, where its guards hold; the compiler is not even imported
    driver.compile_frame   anything else

In torch: _TorchDynamoContext in torch/_dynamo/eval_frame.py; nothing there starts without tracing. Read next:
nbcompile/driver.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbcompile import hooks
from nbcompile.capture.frame import Frame
from nbcompile.dispatch.hook import BackendKey, Outcome
from nbcompile.options import Options
from nbcompile.support import lazy_import

if TYPE_CHECKING:
    from nbcompile import driver
else:
    driver = lazy_import.module("nbcompile.driver")


def compile_frame(frame: Frame, options: Options, key: BackendKey) -> Outcome:
    """Code for one call, or how the call runs instead."""
    active = hooks.active()
    loaded = active.load_frame(frame, options, key)
    if loaded is not None:
        return loaded
    active.before_compile(options)
    return driver.compile_frame(frame, options, key)
