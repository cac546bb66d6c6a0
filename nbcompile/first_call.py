"""What happens at a call that no compiled code accepts.

Read next: nbcompile/driver.py, the page that compiles it.

In torch: _TorchDynamoContext in torch/_dynamo/eval_frame.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbcompile import later
from nbcompile.capture.frame import Frame
from nbcompile.dispatch.hook import BackendKey, Outcome
from nbcompile.options import Options

if TYPE_CHECKING:
    from nbcompile import driver
else:
    driver = later.module("nbcompile.driver")


def compile_frame(frame: Frame, options: Options, key: BackendKey) -> Outcome:
    """Code for one call."""
    return driver.compile_frame(frame, options, key)
