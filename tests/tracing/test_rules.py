"""The functions that are traced, and the modules that are assumed not to change."""

from __future__ import annotations

import abc
import inspect
import re

import pytest
import torch

from nbcompile import annotations, config
from nbcompile.tracing import rules
from nbcompile.tracing.polyfills import builtins as polyfilled


@pytest.mark.parametrize("module", [
    torch.nn.functional, torch.nn.modules.linear, torch.optim.SGD, torch.distributions.normal, polyfilled, annotations,
    inspect,
])  # fmt: skip
def test_python_that_is_made_of_operators_is_traced_through(module):
    """Such modules are those of torch, those of the standard library, and polyfills."""
    assert rules.skip_reason(inspect.getsourcefile(module)) is None


@pytest.mark.parametrize("module", [torch.serialization, torch.optim.lr_scheduler, rules, abc, re])
def test_other_python_breaks_the_graph(module):
    """Other modules of torch, the compiler, and some modules of the library break the graph."""
    assert rules.skip_reason(inspect.getsourcefile(module))


def test_frozen_modules_are_the_files_that_they_come_from():
    """The interpreter contains some modules of the library under other names."""
    assert rules.skip_reason("<frozen abc>") == "the standard library"
    assert rules.skip_reason("<frozen _collections_abc>") is None


def test_the_compilers_of_torch_are_never_traced():
    """The compilers of torch are skipped even with ``dont_skip_tracing``."""
    folder = rules.COMPILERS_OF_TORCH[0]
    with config.patch(dont_skip_tracing=True):
        rules.skip_reason.cache_clear()
        try:
            assert rules.skip_reason(inspect.getsourcefile(torch.serialization)) is None
            assert rules.skip_reason(folder + "symbolic_convert.py")
        finally:
            rules.skip_reason.cache_clear()


def test_modules_that_are_taken_as_unchanging():
    """Members of torch and of the library are not guarded; those of the program and of other packages are."""
    assert all(map(rules.is_trusted_module, ("torch.nn.functional", "builtins", "math", "nbcompile.api")))
    assert not any(map(rules.is_trusted_module, ("__main__", "torchvision.ops", "my_model")))
