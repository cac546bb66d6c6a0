"""The key of an entry: a change of the code changes the key."""

from __future__ import annotations

import dataclasses

import pytest

from nbcompile.capture.literals import NotStorable
from nbcompile.fast.disk_cache.keys import key
from nbcompile.options import Options


def code_of(text):
    names = {}
    exec(compile(text, "<cell>", "exec"), names)
    return names["f"].__code__


ADD = "def f(x):\n    return x + 1\n"


def test_equal_text_has_one_key_whatever_the_file():
    """The file is not part of the key; another constant gives another key."""
    options = Options(backend="inductor")
    other = code_of(ADD).replace(co_filename="elsewhere.py")
    assert key(code_of(ADD), options) == key(other, options)
    assert key(code_of(ADD), options) != key(code_of(ADD.replace("1", "1.0")), options)


def test_a_setting_that_changes_code_changes_the_key(monkeypatch):
    """A setting that does not change code does not change the key."""
    before, options = key(code_of(ADD), Options(backend="inductor")), Options(backend="inductor")
    monkeypatch.setenv("OMP_NUM_THREADS", "97")
    changed = key(code_of(ADD), options)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert changed != before
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", "/elsewhere")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one run of torchrun")
    assert key(code_of(ADD), options) == before


@pytest.mark.parametrize(
    "change", [{"backend": "eager"}, {"backend": "theirs"}, {"guard_filter": lambda guards: guards}]
)
def test_what_has_no_name_in_another_process_has_no_key(change):
    """A foreign backend, or one without code, and a guard filter have no key."""
    with pytest.raises(NotStorable):
        key(code_of(ADD), dataclasses.replace(Options(backend="inductor"), **change))
