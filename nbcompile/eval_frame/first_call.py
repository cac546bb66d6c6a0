"""Load or compile a frame, at a call that no cache entry accepts.

    hooks.load_frame       what an earlier process compiled, where its guards hold; the compiler is not even imported
    stages.compile_frame   anything else

In torch: _TorchDynamoContext in torch/_dynamo/eval_frame.py; nothing there starts without tracing. Read next:
nbcompile/driver/stages.py
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from nbcompile import hooks
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.capture.frame import Frame
from nbcompile.dispatch.hook import BackendKey, Outcome
from nbcompile.options import Options
from nbcompile.support import lazy_import

if TYPE_CHECKING:
    from nbcompile.driver import stages
    from nbcompile.observe import compilation_metrics
else:
    stages = lazy_import.module("nbcompile.driver.stages")
    compilation_metrics = lazy_import.module("nbcompile.observe.compilation_metrics")


def compile_frame(frame: Frame, options: Options, key: BackendKey) -> Outcome:
    """Code for one call, or how the call runs instead."""
    active = hooks.active()
    began = time.perf_counter()
    loaded = active.load_frame(frame, options, key)
    if loaded is not None:
        if isinstance(loaded, CompiledFrame) and compilation_metrics_are_read():
            compilation_metrics.note_loaded(frame.code, loaded.compile_id, began)
        return loaded
    active.before_compile(options)
    return stages.compile_frame(frame, options, key)


def compilation_metrics_are_read() -> bool:
    """Return whether the program has imported the module that has torch's list."""
    return "torch._dynamo.utils" in sys.modules
