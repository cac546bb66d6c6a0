"""What is symbolic in the trace of a frame: what the user chose, and what differed between calls.

    compile(f, dynamic=False)      nothing
    compile(f)                     the sizes and numbers that were seen to differ (dispatch/cache.py)

In torch: torch/_dynamo/pgo.py. Read next: nbcompile/tracing/inputs/dynamism.py
"""

from __future__ import annotations

import torch

from nbcompile.capture.frame import Frame
from nbcompile.dispatch import cache
from nbcompile.options import Options
from nbcompile.tracing.inputs.dynamism import Dynamism


def frame_dynamism(frame: Frame, options: Options) -> Dynamism:
    """What is symbolic in this trace: what the user said, and what was seen to differ."""
    if options.dynamic is False:
        return Dynamism(False)
    with torch._C.DisableTorchFunction():
        seen = cache.observed(frame)
    return Dynamism(options.dynamic, seen.dims, seen.strides, seen.scalars)
