"""What a job takes along to another process."""

from __future__ import annotations

import gc
import linecache

from nbcompile.tools.compare import job


def test_texts_while_garbage_is_collected(monkeypatch):
    """Generated code that is collected takes its text out of the line cache, also while the texts are gathered."""
    texts = {f"<text {number}>": (1, None, ["x\n"], f"<text {number}>") for number in range(2000)}
    monkeypatch.setattr(linecache, "cache", dict(texts))

    def forget(phase, info):
        if phase == "start" and linecache.cache:
            linecache.cache.popitem()

    before = gc.get_threshold()
    gc.callbacks.append(forget)
    gc.set_threshold(1)
    try:
        found = job.process_settings()["texts"]
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(forget)
    assert found["<text 0>"] == ["x\n"]
