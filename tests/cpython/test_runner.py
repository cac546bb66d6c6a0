"""The runner of inlined tests tells a test that is traced whole from one that breaks and one that is wrong."""

from __future__ import annotations

import sys
import types
import unittest

import pytest

import nbcompile
from tests.cpython import assertions, runner
from tests.cpython.__main__ import MODULES, main
from tests.cpython.runner import Outcome

runs: list[int] = []


class Examples(unittest.TestCase):
    """Tests that the runner runs below."""

    __test__ = False  # not by pytest

    def test_whole(self):
        with self.assertRaisesRegex(ZeroDivisionError, "by zero"):
            1 // 0
        self.assertEqual([1, 2], sorted((2, 1)))

    def test_breaks(self):
        class Inside:
            pass

        self.assertIsInstance(Inside(), Inside)

    def test_other_answer(self):
        self.assertFalse(nbcompile.is_compiling())

    def test_wrong(self):
        """Passes once: the eager run."""
        runs.append(1)
        self.assertEqual(len(runs), 1)

    def test_fails(self):
        self.fail("in eager mode")


@pytest.fixture
def outcomes(monkeypatch):
    """Outcome by name of the tests of ``Examples``."""
    for name in assertions.REPLACED:  # given back at the end
        monkeypatch.setattr(unittest.TestCase, name, getattr(unittest.TestCase, name))
    module = types.ModuleType("examples")
    module.Examples = Examples
    monkeypatch.setitem(sys.modules, "examples", module)
    runs.clear()
    return {test.name.partition("_")[2]: test.outcome for test in runner.run("examples")}


def test_outcomes(outcomes):
    """Each kind of end is told from the others."""
    assert outcomes == {
        "whole": Outcome.WHOLE,
        "breaks": Outcome.BREAKS,
        "other_answer": Outcome.OTHER_ANSWER,
        "wrong": Outcome.WRONG,
        "fails": Outcome.FAILS,
    }


KNOWN = {
    "ClassPropertiesAndMethods.test_slots": "counts the objects of the process, and compiling makes some",
    "ExceptionTests.test_recursion_in_except_handler": "leaves ten frames of stack, and compiling needs more",
}
"""Tests that may be wrong when compiled, with the reason."""


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", MODULES)
def test_a_module_of_cpython(name, capfd):
    """No test of Python's own is wrong in a compiled frame."""
    pytest.importorskip(f"test.test_{name}", reason="some builds of Python come without its tests")
    failed = main([f"test_{name}"])
    lines = capfd.readouterr().out.splitlines()
    found = [line.split()[1][:-1] for line in lines if Outcome.WRONG.value in line]
    assert lines[-1].startswith(f"test_{name}: "), lines[-1]  # the summary: the process came to its end
    assert "ended with" not in lines[-1]
    assert [test for test in found if test not in KNOWN] == []
    assert failed == bool(found)
