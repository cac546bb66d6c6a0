"""Parts of the sentences about guards."""

from __future__ import annotations

import math

import pytest

from nbcompile.capture.guard import TensorFacts
from nbcompile.capture.source import AttrSource, LocalSource
from nbcompile.guarding.encodings import sentences


@pytest.mark.parametrize(("text", "short"), [
    ("L['x'].size()[0] == 3", "x.size()[0] == 3"),
    ("L[\"x\"] is L['y']", "x is y"),
    ("G['k'] == 3", "G['k'] == 3"),
])  # fmt: skip
def test_locals_are_written_as_the_user_writes_them(text, short):
    """Locals lose their brackets and globals do not, so a reader can distinguish them."""
    assert sentences.shortened(text) == short


def test_a_size_that_is_a_symbol_is_any():
    """A size that is a symbol is written as ``any``."""
    assert sentences.tensor("x", TensorFacts((3, None), None)).endswith("with sizes (3, any)")


def test_the_path_of_a_module_is_not_shown():
    """The text has the name of a module, and not its file, which differs between machines."""
    assert sentences.described(math) == "<module 'math'>"


def test_sources_are_listed():
    """Several sources are written as a list."""
    assert sentences.sources((LocalSource("x"), AttrSource(LocalSource("m"), "w"))) == "x, m.w"
