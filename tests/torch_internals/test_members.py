"""Members of torch.Tensor and builtins that a program replaces."""

from __future__ import annotations

import builtins

import pytest
import torch

from nbcompile.torch_internals import members


@pytest.fixture(autouse=True)
def all_are_torchs_own():
    """Before and after."""
    assert members.replaced_member() is None
    yield
    assert members.replaced_member() is None


@pytest.mark.parametrize("name", ["sin", "__add__", "__bool__"])
def test_a_replaced_method_is_found(monkeypatch, name):
    """Whether torch defines it in Python or inherits it from C; and no longer once it is put back."""
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, name, lambda *_: None)
        assert members.replaced_member() == f"torch.Tensor.{name}"
        assert not members.are_torchs_own()


def test_a_new_method_affects_no_other_class(monkeypatch):
    """Only the program asks for it."""
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "shout", lambda self: "x", raising=False)
        assert members.replaced_member() is None and members.is_new_member("shout")
    assert not members.is_new_member("sin")


def test_a_replaced_builtin_is_found(monkeypatch):
    """The compiler's own code would call it, too."""
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "len", lambda value: 3)
        found = members.replaced_member()
    assert found == "len"


def test_a_change_of_the_class_changes_its_version():
    """One comparison answers while nothing changes."""

    class Thing:
        size = 1

    Thing().size  # noqa: B018 - a look-up gives the class a version
    before = members.version_of(Thing)
    Thing.size = 2
    assert before and members.version_of(Thing) != before
