"""A prepared guard does not keep an object alive, and is installed once."""

from __future__ import annotations

import gc

import pytest

from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.source import LocalSource
from nbcompile.guarding.encodings.table import leaf
from nbcompile.guarding.prepared import ExpectedObject, evaluate_leaf

X = LocalSource("x")


class Model:
    """A class whose instances can be referenced weakly."""


def test_a_guard_does_not_keep_what_it_expects():
    """The expected object is freed with its last other reference: the callback runs, and the guard has no value."""
    model, freed = Model(), []
    prepared = leaf(Guard(X, GuardKind.ID_MATCH, model), "x", model)
    prepared.guard.expected.on_death(lambda: freed.append(True))
    assert prepared.holds(model) and not prepared.holds(Model())
    assert prepared.strong_guard().expected is model
    del model
    gc.collect()
    assert freed and prepared.strong_guard().expected is None


def test_what_takes_no_weak_reference_is_kept():
    """An int has no weak references: the guard refers to it, so no other object can get its address."""
    expected, freed = ExpectedObject(10**30), []
    expected.on_death(lambda: freed.append(True))
    gc.collect()
    assert expected.get() == 10**30 and not freed


def test_a_guard_without_its_installer_cannot_be_installed_again():
    """The installer refers to traced values, and is replaced after it has run."""
    prepared = leaf(Guard(X, GuardKind.NONE_MATCH, None), "x", None).installed()
    with pytest.raises(AssertionError, match="installed once"):
        prepared.install(object())


def test_a_source_that_cannot_be_resolved_makes_a_guard_fail():
    """An error while the value is fetched makes the guard fail, as in the C++ tree, and is not raised."""
    prepared = leaf(Guard(X, GuardKind.NONE_MATCH, None), "x", None)
    assert evaluate_leaf(prepared, lambda source: None)
    assert not evaluate_leaf(prepared, lambda source: {}[source])
