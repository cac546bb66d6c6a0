"""What happens at a call that no compiled code accepts: the store is asked, then the compiler.

    kept by an earlier process, guards hold      loaded, in milliseconds; the compiler is not even imported
    anything else                                driver.py compiles it, and keeps it for later processes

In torch: _TorchDynamoContext in torch/_dynamo/eval_frame.py; nothing there starts without tracing. Read next:
nbcompile/warm/entry.py, then nbcompile/driver.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbcompile import chain, config, later, light_dynamo, torch_internals
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.capture.frame import Frame
from nbcompile.dispatch import cache
from nbcompile.dispatch.hook import BackendKey, Outcome, skip_code
from nbcompile.options import Options
from nbcompile.record import model, recorder
from nbcompile.warm import entry, pages

if TYPE_CHECKING:
    from nbcompile import driver
    from nbcompile.runtime import ahead
else:
    driver = later.module("nbcompile.driver")
    ahead = later.module("nbcompile.runtime.ahead")

GENERATING = ("inductor",)
"""The backends that need a C++ compiler."""


def compile_frame(frame: Frame, options: Options, key: BackendKey) -> Outcome:
    """Code for one call, from the store or from the compiler; or how the call runs instead."""
    if config.reference:
        return driver.compile_frame(frame, options, key)
    with config.with_torchs():
        kept = _kept(frame, options, key) if config.warm_start else None
    if kept is not None:
        return kept
    if options.backend in GENERATING:
        ahead.start()
        ahead.import_beside()
    light_dynamo.install()
    return driver.compile_frame(frame, options, key)


def _kept(frame: Frame, options: Options, key: BackendKey) -> CompiledFrame | None:
    if torch_internals.function_modes() or torch_internals.in_transform():
        return None
    failed = cache.failures(frame.code, frame.scope(), key)
    if cache.limit_reached(frame, options.recompile_limit) or (failed and config.error_on_recompile):
        return None
    found = entry.load(frame, options, with_page=recorder.listening())
    if found is None:
        return None
    compile_id = cache.next_compile_id(frame.code)
    with recorder.frame(compile_id, frame.code.co_name) as page:
        if page is not None:
            pages.rewrite(page, found.page, failed, chain.calling_frame(), chain.resumes(frame.code))
            cause = model.LOADED_AGAIN if found.is_own else model.LOADED
            page.write(place=chain.place(frame.code), cause=cause)
    for code in found.residual.python_codes:
        skip_code(code)
    chain.note(found.residual, compile_id)
    return CompiledFrame(compile_id, found.residual.code, found.check, options.backend)
