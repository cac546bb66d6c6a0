"""Process-wide settings, with torch's names and defaults.

    nbcompile.config.recompile_limit = 16
    with nbcompile.config.patch(suppress_errors=True): ...

In torch: torch/_dynamo/config.py
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager

recompile_limit: int = 8
"""Cache entries per code object before calls run eagerly (per same set of matched objects)."""
accumulated_recompile_limit: int = 256
fail_on_recompile_limit_hit: bool = False
error_on_recompile: bool = False
suppress_errors: bool = False
"""Compiler failures fall back to eager with a warning instead of raising."""
verbose: bool = False
"""Error messages show the compiler's own stack as well."""
disable: bool = False
assume_static_by_default: bool = True
automatic_dynamic_shapes: bool = True
specialize_int: bool = False
specialize_float: bool = False
force_parameter_static_shapes: bool = True
force_nn_module_property_static_shapes: bool = True
allow_unspec_int_on_nn_module: bool = False
automatic_dynamic_shapes_mark_as: str = "dynamic"
"""What a size that differed becomes: ``dynamic``, or ``unbacked``."""
dynamic_sources: str = os.environ.get("TORCH_COMPILE_DYNAMIC_SOURCES", "")
"""Names or patterns of inputs that are dynamic, with commas between: ``L['x'], L\\['k.*'\\], L['y']:1`` (dim 1)."""
unbacked_sources: str = os.environ.get("TORCH_COMPILE_UNBACKED_SOURCES", "")
"""The same for those that are unbacked."""
dynamic_values: str = os.environ.get("TORCH_COMPILE_DYNAMIC_VALUES", "")
"""Sizes and ints that become dynamic wherever they are met: ``1111,2222``."""
automatic_dynamic_local_pgo: bool = os.environ.get("TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO", "1") != "0"
"""With a job id (``TORCH_COMPILE_JOB_ID``), what differed between calls is kept for the next process."""
recompiles_verbose: bool = False
"""Of an entry that refuses a call, every failing guard is told, not only the first."""
allow_ignore_mark_dynamic: bool = False
"""A dim marked with `mark_dynamic` may become a constant, as with `maybe_mark_dynamic`."""
capture_scalar_outputs: bool = False
capture_dynamic_output_shape_ops: bool = False
nested_graph_breaks: bool = False
rewrite_assert_with_torch_assert: bool = True
replay_side_effects: bool = True
reorderable_logging_functions: set[Callable[..., object]] = set()
ignore_logging_functions: set[Callable[..., object]] = set()
trace_numpy: bool = True
allow_rnn: bool = False
skip_nnmodule_hook_guards: bool = False
"""A hook that a module without hooks gets after it was compiled is not noticed. True in torch, which asks these guards
at each call; here they are remembered (guarding/regions.py) and cost a nanosecond."""

_OLD_NAMES = {
    "cache_size_limit": "recompile_limit",
    "accumulated_cache_size_limit": "accumulated_recompile_limit",
}


def _checked(name: str) -> str:
    name = _OLD_NAMES.get(name, name)
    if name not in __annotations__:
        known = ", ".join(sorted(__annotations__))
        raise AttributeError(f"nbcompile.config has no setting {name!r}; the settings are: {known}")
    return name


class _Settings(types.ModuleType):
    """A module that knows the old names of its settings, and refuses names that are none."""

    def __getattr__(self, name: str) -> object:
        if name in _OLD_NAMES:
            return getattr(self, _OLD_NAMES[name])
        raise AttributeError(f"nbcompile.config has no setting {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name if name.startswith("__") else _checked(name), value)


sys.modules[__name__].__class__ = _Settings


@contextmanager
def patch(changes: dict[str, object] | None = None, **keywords: object) -> Iterator[None]:
    """Change settings inside a block (or, as a decorator, inside a function).

    Raises:
        AttributeError: a name that is no setting.
    """
    module = sys.modules[__name__]
    wanted = {_checked(name): value for name, value in {**(changes or {}), **keywords}.items()}
    prior = {name: getattr(module, name) for name in wanted}
    try:
        for name, value in wanted.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in prior.items():
            setattr(module, name, value)
