"""The contents of a job for another process."""

from __future__ import annotations

import gc
import linecache

import pytest
import torch

from nbcompile.tools.compare import job


def test_texts_while_garbage_is_collected(monkeypatch):
    """Garbage collection of generated code removes its text from linecache, also while a job is built."""
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


@pytest.mark.parametrize("library", [torch.backends.cuda.matmul, torch.backends.mkldnn.matmul], ids=["cuda", "mkldnn"])
def test_the_precision_of_one_library_is_sent(library):
    """torch's function about the precision of all libraries raises then; the other process has the same setting."""
    before = library.fp32_precision
    library.fp32_precision = "tf32"
    try:
        settings = job.process_settings()
        library.fp32_precision = before
        job.apply_settings(settings)
        assert library.fp32_precision == "tf32"
    finally:
        library.fp32_precision = before
