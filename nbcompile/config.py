"""Process-wide settings, with torch's names and defaults.

    nbcompile.config.recompile_limit = 16
    with nbcompile.config.patch(suppress_errors=True): ...

In torch: torch/_dynamo/config.py
"""

from __future__ import annotations

import sys
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


@contextmanager
def patch(changes: dict[str, object] | None = None, **keywords: object) -> Iterator[None]:
    """Change settings inside a block (or, as a decorator, inside a function).

    Raises:
        AttributeError: a name that is no setting.
    """
    module = sys.modules[__name__]
    wanted = {**(changes or {}), **keywords}
    for name in wanted:
        if name not in __annotations__:
            raise AttributeError(
                f"nbcompile.config has no setting {name!r}; the settings are: {', '.join(sorted(__annotations__))}"
            )
    prior = {name: getattr(module, name) for name in wanted}
    try:
        for name, value in wanted.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in prior.items():
            setattr(module, name, value)
