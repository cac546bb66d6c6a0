"""Extension modules in C: the source text, and the thread of a first call."""

from __future__ import annotations

import threading

import torch

from nbcompile.runtime import extension


def test_included_files_are_part_of_the_text(tmp_path):
    """An included file in the source's folder is part of the text; a system header is not."""
    (tmp_path / "own.h").write_text("int own;\n")
    source = tmp_path / "it.c"
    source.write_text('#include "own.h"\n#include <stdio.h>\nint f;\n')
    assert extension._whole(source) == "int own;\n\n#include <stdio.h>\nint f;\n"


def test_a_file_in_cpp_of_the_same_name_is_compiled_too(tmp_path):
    """A C++ file of the same name is compiled, too, and does not include itself."""
    source, other = tmp_path / "it.c", tmp_path / "it.cpp"
    assert extension._in_cpp(source) == ()
    other.write_text("")
    assert extension._in_cpp(source) == (other,)
    assert extension._in_cpp(other) == ()


def test_a_first_call_has_a_thread_without_modes():
    """Gradients are enabled in that thread though the caller has disabled them; the caller gets the result."""
    first = extension.first_call_in_its_own_thread(lambda n: (n, torch.is_grad_enabled(), threading.get_ident()))
    with torch.no_grad():
        number, enabled, thread = first(3)
    assert (number, enabled) == (3, True)
    assert thread != threading.get_ident()
