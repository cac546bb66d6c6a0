"""The dynamism of a frame: the sizes that the user marked, and those that differed between calls.

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
    """The dynamism of this trace: the user's marks, and the sizes that differed."""
    if options.dynamic is False:
        return Dynamism(False)
    with torch._C.DisableTorchFunction():
        seen = cache.observed(frame)
    return Dynamism(options.dynamic, seen.dims, seen.strides, seen.scalars)
