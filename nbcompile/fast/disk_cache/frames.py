"""The hooks of the disk cache: load a compiled frame before the compiler is imported, store one after the last stage.

    load(frame, options, key)      a CompiledFrame under this process's compile id, or None
    store(frame, ...)              queued; written when the call is over

In torch: nothing there starts without tracing. Read next: nbcompile/fast/disk_cache/entry.py
"""

from __future__ import annotations

from nbcompile import config, torch_internals
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard
from nbcompile.capture.trace import Assumptions
from nbcompile.dispatch import cache
from nbcompile.dispatch.hook import BackendKey, SkipFrame, skip_code
from nbcompile.fast.disk_cache import entry, record_pages
from nbcompile.hooks import CompiledParts
from nbcompile.ir.profiler_ranges import of_frame
from nbcompile.options import Options
from nbcompile.record import model, recorder
from nbcompile.recording import frame_links


def load(frame: Frame, options: Options, key: BackendKey) -> CompiledFrame | SkipFrame | None:
    """Load what an earlier process compiled for such a call, or that there is nothing to compile; None: not known."""
    with config.with_torch_settings():
        return _load(frame, options, key) if config.warm_start else None


def _load(frame: Frame, options: Options, key: BackendKey) -> CompiledFrame | SkipFrame | None:
    if torch_internals.function_modes() or torch_internals.in_transform() or torch_internals.forward_level() >= 0:
        return None
    failed = cache.failures(frame.code, frame.scope(), key)
    # The compiler runs such a call in eager mode, or raises: what is stored must not hide that.
    if cache.limit_reached(frame, options.recompile_limit) or (failed and config.error_on_recompile):
        return None
    with of_frame(frame.code) as origin:
        found = entry.load(frame, options, with_page=recorder.listening())
    if found is None:
        return None
    if found.residual is None:
        return SkipFrame(found.skip_reason, code_wide=True)
    # The id of this process: an entry has the id under which another process compiled it.
    compile_id = origin.compile_id = cache.next_compile_id(frame.code)
    with recorder.frame(compile_id, frame.code.co_name) as draft:
        if draft is not None:
            record_pages.rewrite(
                draft, found.page, failed, frame_links.calling_frame(), frame_links.resumes(frame.code)
            )
            cause = model.LOADED_FROM_CACHE if found.is_own else model.LOADED
            draft.write(place=frame_links.resume_index(frame.code), cause=cause)
    for code in found.residual.python_codes:
        skip_code(code)
    if found.residual.code_as_written is not None:
        skip_code(found.residual.code_as_written, nested=True)
    frame_links.note(found.residual, compile_id)
    return CompiledFrame(compile_id, found.residual.code, found.check, options.backend)


def store(frame: Frame, options: Options, parts: CompiledParts) -> None:
    """Store a compiled frame for later processes."""
    if config.warm_start:
        with recorder.stage("store"):
            entry.store(frame, options, parts, recorder.draft())


def store_skipped(frame: Frame, options: Options, reason: str, guards: tuple[Guard, ...], assumed: Assumptions) -> None:
    """Store that there is nothing to compile in a frame.

    Not while someone records: what is shown of a skipped frame is what its trace found.
    """
    if config.warm_start and options.guard_filter is None and recorder.draft() is None:
        entry.store_skipped(frame, options, reason, guards, assumed)
