"""The user's settings of Triton are part of the key of machine code, and are passed to the compiling processes."""

from __future__ import annotations

import re

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.gpu import cubins, triton_settings
from tests.gpu.test_cubins import own_workers, request_of
from tests.support.processes import python

assert own_workers

# Each text in Triton's library that looks like a variable is set: those in Triton's own key are printed.
IN_TRITONS_KEY = """
import os, re
from triton._C import libtriton
content = open(libtriton.__file__, "rb").read()
for name in {found.decode() for found in re.findall(rb"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?=\\0)", content)}:
    os.environ[name] = "1"
print(*libtriton.get_cache_invalidating_env_vars())
"""


def test_all_of_tritons_own_key_is_in_ours():
    """Each variable in Triton's own cache key is one of our settings."""
    names = python(IN_TRITONS_KEY).split()
    assert len(names) > 20, "the names of the variables are no texts of the library any more"
    assert {name for name, _ in triton_settings.settings(dict.fromkeys(names, "1"))} == set(names)


@pytest.mark.parametrize("name", ["TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_PRINT_AUTOTUNING", "PATH", "CUDA_HOME"])
def test_what_changes_no_machine_code_is_in_no_key(name):
    """Folders and messages are in no key: torch's compiler sets the folder of Triton's files, too."""
    assert triton_settings.settings({name: "/somewhere"}) == ()


def test_a_tool_that_was_replaced_is_another_setting(tmp_path):
    """A tool whose file was replaced at the same path gives another key."""
    tool = tmp_path / "ptxas"
    tool.write_text("one")
    before = triton_settings.settings({"TRITON_PTXAS_PATH": str(tool)})
    tool.write_text("another")
    assert before
    assert triton_settings.settings({"TRITON_PTXAS_PATH": str(tool)}) != before


def test_a_setting_makes_other_machine_code(monkeypatch):
    """Code is compiled with the setting, although the workers started without it; both versions are stored."""
    request = request_of(torch.sin, 64)
    (plain,) = cubins.obtain([request])
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "1")
    (without_lines,) = cubins.obtain([request])
    assert re.search(r"^\s*\.loc\s", plain.ptx, re.MULTILINE)
    assert not re.search(r"^\s*\.loc\s", without_lines.ptx, re.MULTILINE)
    cubins.end_workers()
    assert cubins.obtain([request]) == [without_lines]
    monkeypatch.delenv("TRITON_DISABLE_LINE_INFO")
    assert cubins.obtain([request]) == [plain]
    assert cubins._workers.server is None, "both were in the store"


def test_a_knob_makes_other_machine_code():
    """A ``triton.knobs`` scope sets environment variables, which give other machine code."""
    knobs = pytest.importorskip("triton.knobs")
    request = request_of(torch.cos, 64)
    key = request.key
    with knobs.nvidia.scope():
        knobs.nvidia.disable_ptxas_opt = True
        assert request.key != key
        (slow,) = cubins.obtain([request])
    assert request.key == key
    (fast,) = cubins.obtain([request])
    assert len(slow.image.code) > len(fast.image.code), "ptxas did not optimise it"


def test_workers_have_code_whatever_is_set_for_the_users_own_kernels(monkeypatch):
    """The settings for Triton's interpreter, and for files without sources, do not reach the workers."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("TRITON_STORE_BINARY_ONLY", "1")
    (cubin,) = cubins.obtain([request_of(torch.exp, 64)])
    assert cubin.image.code.startswith(b"\x7fELF")
    assert ".entry" in cubin.ptx


def test_machine_code_is_compiled_anew_where_that_is_asked(monkeypatch):
    """With ``TRITON_ALWAYS_COMPILE`` the store is not read."""
    request = request_of(torch.exp, 64)
    (built,) = cubins.obtain([request])
    monkeypatch.setattr(cubins, "fetch", lambda key: pytest.fail("the store was asked"))
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    assert cubins.obtain([request])[0].image == built.image


def test_settings_are_read_without_triton():
    """A launching process does not import Triton, whatever is set."""
    text = "import sys; from nbcompile.gpu import cubins; print(cubins.triton_key(), 'triton' in sys.modules)"
    assert python(text, DISABLE_PTXAS_OPT="1").endswith("(('DISABLE_PTXAS_OPT', '1'),) False\n")
