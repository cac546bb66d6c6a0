"""The implementation that ``fast/`` provides for each hook."""

from __future__ import annotations

from nbcompile import hooks
from nbcompile.fast import call_path, hook_table
from tests.support.processes import python


def test_importing_nbcompile_installs_the_table():
    """The import of nbcompile installs ``fast/``."""
    assert hooks.installed() is hook_table.HOOKS
    assert hook_table.HOOKS.call_installer is call_path.installer


def test_mechanisms_are_imported_when_they_are_needed():
    """The table imports no tracer, no background compiler and no size conditions."""
    program = (
        "import sys, nbcompile; print(sorted({'nbcompile.fast.background', 'nbcompile.fast.inference_tracer', "
        "'nbcompile.fast.joint_tracer', 'nbcompile.fast.prebuild', 'nbcompile.runtime.conditions'} & {*sys.modules}))"
    )
    assert python(program).strip() == "[]"


def test_conditions_on_sizes_are_compiled_only_where_there_are_any():
    """The evaluator of size conditions in C is not loaded without a guard on sizes."""
    assert hook_table.HOOKS.size_conditions(()) is None
