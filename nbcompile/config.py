"""Process-wide settings, with torch's names and defaults.

    nbcompile.config.recompile_limit = 16
    with nbcompile.config.patch(suppress_errors=True): ...

What a program sets in torch._dynamo.config applies here too: it is read when a
frame is compiled (:func:`with_torch_settings`). An unknown name is an error at
once; a setting without a meaning here warns (NO_EFFECT).

In torch: torch/_dynamo/config.py
"""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

Functions = set[Callable[..., object]]


def _flag(*variables: str) -> bool:
    """True if an environment variable says yes."""
    return any(os.environ.get(each, "") not in ("", "0") for each in variables)


def _number(variable: str, default: int) -> int:
    """The integer value of an environment variable; the default, with a warning, if it is not an integer."""
    text = os.environ.get(variable) or str(default)
    try:
        return int(text)
    except ValueError:
        warnings.warn(f"${variable}: expected an integer, got {text!r}; using {default}", stacklevel=2)
        return default


_WORDS = {
    "NBCOMPILE_INSTRUCTION_SET": ("native", "avx512_bf16", "avx512", "avx2", "avx", "sse2", "generic"),
    "NBCOMPILE_PRODUCTS": ("", "aten", "onednn"),
}


def _word(variable: str, default: str) -> str:
    """The value of an environment variable; the default, with a warning, if it is not one of its choices."""
    text = os.environ.get(variable) or default
    if text in _WORDS[variable]:
        return text
    known = ", ".join(filter(None, _WORDS[variable]))
    warnings.warn(f"${variable}: expected one of {known}, got {text!r}; using {default or 'the default'}", stacklevel=2)
    return default


# -- limits
recompile_limit: int = 8
"""Cache entries per code object before calls run eagerly (per same set of matched objects)."""
accumulated_recompile_limit: int = 256
"""Cache entries per code object before calls run eagerly, whatever objects they are matched to."""
fail_on_recompile_limit_hit: bool = False
"""A call that would exceed the limit raises an error."""
error_on_recompile: bool = False
"""Every recompilation raises an error."""
error_on_nested_fx_trace: bool = True
"""A call of a compiled function while torch.fx traces raises an error; False: the function runs as written."""

# -- errors
suppress_errors: bool = _flag("TORCHDYNAMO_SUPPRESS_ERRORS")
"""Compiler failures fall back to eager with a warning instead of raising."""
verbose: bool = _flag("TORCHDYNAMO_VERBOSE")
"""Error messages show the compiler's own stack as well."""
disable: bool = _flag("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
"""Disable compilation: functions run eagerly."""

# -- symbolic sizes and numbers
assume_static_by_default: bool = True
"""Sizes are constants at first; False: all sizes are symbols from the first call on."""
automatic_dynamic_shapes: bool = True
"""A size that differed between two calls becomes a symbol when the function is compiled again."""
automatic_dynamic_shapes_mark_as: str = "dynamic"
"""The kind of symbol that a size becomes after it differed: ``dynamic``, or ``unbacked``."""
dynamic_sources: str = os.environ.get("TORCH_COMPILE_DYNAMIC_SOURCES", "")
"""Names or patterns of inputs that are dynamic, with commas between: ``L['x'], L\\['k.*'\\], L['y']:1`` (dim 1)."""
unbacked_sources: str = os.environ.get("TORCH_COMPILE_UNBACKED_SOURCES", "")
"""The same for those that are unbacked."""
dynamic_values: str = os.environ.get("TORCH_COMPILE_DYNAMIC_VALUES", "")
"""Sizes and ints that become dynamic wherever they occur: ``1111,2222``."""
automatic_dynamic_local_pgo: bool = os.environ.get("TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO", "1") != "0"
"""Store what differed between calls for the next process, given a job id (``TORCH_COMPILE_JOB_ID``)."""
record_steps: bool = False
"""The record keeps each instruction that was traced, with the state before it (``%%compile --steps``)."""
recompiles_verbose: bool = False
"""Report all failing guards of an entry, not only the first."""
specialize_int: bool = False
"""An int argument that differed between two calls stays a constant: one cache entry for each value."""
specialize_float: bool = False
"""The same for a float argument."""
force_parameter_static_shapes: bool = True
"""The sizes of parameters and buffers are constants, also where sizes of inputs are symbols."""
force_nn_module_property_static_shapes: bool = True
allow_unspec_int_on_nn_module: bool = False
"""An int attribute of a module may become a symbol, as an int argument does."""
allow_ignore_mark_dynamic: bool = False
"""A dim marked with `mark_dynamic` may become a constant, as with `maybe_mark_dynamic`."""
capture_scalar_outputs: bool = _flag("TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS")
"""`Tensor.item()` and the like are captured as operators instead of a graph break."""
capture_dynamic_output_shape_ops: bool = _flag("TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS")
"""Operators whose result's size depends on data, such as `nonzero`, are captured instead of a graph break."""
prefer_deferred_runtime_asserts_over_guards: bool = False
do_not_emit_runtime_asserts: bool = False

# -- what is traced, and what breaks
nested_graph_breaks: bool = False
"""Resume each frame in its own resume function after a break in an inlined function."""
rewrite_assert_with_torch_assert: bool = True
"""``assert tensor`` is an operator of the graph; False: a data-dependent jump, which breaks it."""
dont_skip_tracing: bool = False
"""Functions of files that are usually left to Python are traced, too (not those of a compiler)."""
trace_numpy: bool = True
"""NumPy's functions become operators on tensors; False: they break the graph."""
trace_autograd_ops: bool = False
"""Calls of ``torch.autograd.grad`` and ``backward`` are traced; False: they break the graph."""
allow_rnn: bool = False
"""LSTM, GRU and RNN modules are traced."""
allow_empty_graphs: bool = False
"""A frame without an operator is compiled, too: its calls are guarded and run our residual program."""
wrap_top_frame: bool = False
"""Call the argument of ``compile`` from a frame of nbcompile's, so that hooks of a module are in its graph."""
reorderable_logging_functions: Functions = set()
"""Functions that only log: called after the graph, and no break."""
ignore_logging_functions: Functions = set()
"""Functions that only log: calls of them are removed."""

# -- guards and side effects
guard_nn_modules: bool = True
skip_nnmodule_hook_guards: bool = False
"""Do not detect hooks that are added after compilation. torch's default is True, as it evaluates these guards at
each call; here the guard cache (fast/guard_groups.py) makes them nearly free (1 ns)."""
install_free_tensors: bool = False
use_recursive_dict_tags_for_guards: bool = False
assume_dunder_attributes_remain_unchanged: bool = True
replay_side_effects: bool = True
"""Replay side effects; False is unsafe: results may be wrong."""
side_effect_replay_policy: str = "info"
"""The message for a replayed side effect: ``silent``, ``info``, ``warn`` or ``error``."""

# -- the fast paths
reference: bool = _flag("NBCOMPILE_REFERENCE")
"""Compile and run without the mechanisms that exist only for speed: fast calls, the guard cache, prebuilds, the stub of
torch's own tracer, the output pool, the disk cache, background compilation, and the tracing that replaces AOTAutograd.
Results are the same. What is compiled already keeps its fast paths until ``nbcompile.reset()``."""

# -- waiting
background: bool = _flag("NBCOMPILE_BACKGROUND")
"""Compile in a background thread (nbcompile.fast.background); run eagerly until then."""

# -- memory
output_pool_megabytes: int = _number("NBCOMPILE_OUTPUT_POOL_MEGABYTES", 1024)
"""Memory of large results, kept to be used again (nbcompile/fast/output_pool.py); 0: each result has fresh memory."""

# -- the processor
instruction_set: str = _word("NBCOMPILE_INSTRUCTION_SET", "native")
"""Instructions that kernels may use: ``native``, all that this processor has; or ``avx512_bf16``, ``avx512``, ``avx2``
(with FMA), ``avx``, ``sse2``, and ``generic``, no instruction by name. Where the processor lacks one, graphs run
through ATen, with a warning."""
products: str = _word("NBCOMPILE_PRODUCTS", "")
"""The library for large products of float32 matrices: ``aten`` (MKL in most builds of torch), ``onednn``, or by default
oneDNN, but on processors by Intel. torch rejects it where there is no AVX-512."""
compile_threads: int = _number("NBCOMPILE_COMPILE_THREADS", 0)
"""Number of C++ compilers that share the kernels of a large graph; 0: one for each core."""

# -- between processes
warm_start: bool = os.environ.get("NBCOMPILE_WARM_START", "1") != "0"
"""Store compiled frames on disk; a later process loads them."""
warm_start_megabytes: int = _number("NBCOMPILE_WARM_START_MEGABYTES", 512)
"""Size limit of the disk cache; the least recently used entries are removed first."""
kernel_store_megabytes: int = _number("NBCOMPILE_KERNEL_STORE_MEGABYTES", 1024)
"""Size limit of the store of built kernels; the least recently used are removed first, and built again when needed."""

# -- other machinery of torch
optimize_ddp: bool | str = True
"""The graph of a DistributedDataParallel module is split at its gradient buckets (``ddp_optimizer``), or stays whole:
False, ``no_optimization``, or one of torch's two other words, for DDP's reducer in Python."""
compiled_autograd: bool = False
"""Record and compile backward passes, if the program has imported torch._dynamo.compiled_autograd."""
enable_compiler_collectives: bool = False
repro_after: str | None = os.environ.get("TORCHDYNAMO_REPRO_AFTER") or None
repro_level: int = _number("TORCHDYNAMO_REPRO_LEVEL", 2)

NO_EFFECT = {
    "prefer_deferred_runtime_asserts_over_guards": "sizes are guarded",
    "do_not_emit_runtime_asserts": "run-time assertions are always there",
    "force_nn_module_property_static_shapes": "force_parameter_static_shapes decides for the tensors of all modules",
    "guard_nn_modules": "modules are always guarded",
    "install_free_tensors": "parameters are always inputs of the graph",
    "use_recursive_dict_tags_for_guards": "the guard tree uses tags of its own accord",
    "assume_dunder_attributes_remain_unchanged": "special attributes are guarded as others are",
    "enable_compiler_collectives": "ranks do not talk to one another while they compile",
    "repro_after": "python -m nbcompile minify script.py writes the smallest failing program",
    "repro_level": "python -m nbcompile minify script.py writes the smallest failing program",
}
"""Settings of torch's that change nothing here, and why."""
ALIASES = {
    "cache_size_limit": "recompile_limit",
    "accumulated_cache_size_limit": "accumulated_recompile_limit",
    "ignore_logger_methods": "ignore_logging_functions",
}
"""Older names of settings."""


def names() -> tuple[str, ...]:
    """All settings."""
    return tuple(name for name in __annotations__ if name.islower())


DEFAULTS = {name: globals()[name] for name in names()}
DEFAULTS |= {"reorderable_logging_functions": frozenset(), "ignore_logging_functions": frozenset()}


def _setting(name: str) -> str:
    """The setting that is meant.

    Raises:
        AttributeError: there is none.
    """
    found = ALIASES.get(name, name)
    if found in DEFAULTS:
        return found
    close = difflib.get_close_matches(name, DEFAULTS, n=1)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    raise AttributeError(
        f"nbcompile.config has no setting {name!r}.{guess} The settings are: {', '.join(sorted(DEFAULTS))}"
    )


CHOICES: dict[str, tuple[object, ...]] = {
    "automatic_dynamic_shapes_mark_as": ("dynamic", "unbacked"),
    "side_effect_replay_policy": ("silent", "info", "warn", "error"),
    "instruction_set": _WORDS["NBCOMPILE_INSTRUCTION_SET"],
    "products": _WORDS["NBCOMPILE_PRODUCTS"],
    "optimize_ddp": (
        True,
        False,
        "ddp_optimizer",
        "python_reducer",
        "python_reducer_without_compiled_forward",
        "no_optimization",
    ),
}
"""Possible values of the settings that have a few."""


def _check(name: str, value: object) -> None:
    """Check that a setting may have this value: one of its choices, or a value of the default's type.

    Raises:
        TypeError: the value is of another type.
        ValueError: the value is not one of the choices.
    """
    kind = type(DEFAULTS[name])
    is_word = type(value) is str and name in CHOICES
    if kind in (bool, int, str) and type(value) is not kind and not is_word:
        raise TypeError(f"nbcompile.config.{name}: expected a value of type {kind.__name__}, got {value!r}")
    if value not in CHOICES.get(name, (value,)):
        known = ", ".join(map(str, CHOICES[name]))
        raise ValueError(f"nbcompile.config.{name}: expected one of {known}, got {value!r}")


class _Settings(ModuleType):
    """Class of this module: assigning to a name that is no setting is an error."""

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__"):
            name = _setting(name)
            _check(name, value)
            if name in NO_EFFECT and value != DEFAULTS[name]:
                warnings.warn(f"nbcompile.config.{name} has no effect: {NO_EFFECT[name]}", UserWarning, stacklevel=2)
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> object:
        if name in ALIASES:
            return getattr(self, ALIASES[name])
        if name.startswith("__"):
            raise AttributeError(name)
        _setting(name)
        raise AssertionError(name)


sys.modules[__name__].__class__ = _Settings


def current() -> dict[str, object]:
    """Every setting and its value."""
    return {name: globals()[name] for name in DEFAULTS}


def restore(values: dict[str, object]) -> None:
    """Put every setting back to what :func:`current` returned."""
    globals().update(values)


@contextmanager
def patch(changes: dict[str, object] | str | None = None, *its_value: object, **keywords: object) -> Iterator[None]:
    """Change settings inside a block (or, as a decorator, inside a function): ``patch("verbose", True)``.

    Raises:
        AttributeError: a name that is no setting.
        TypeError: a name without a value, or a value without a name.
    """
    if isinstance(changes, str) != (len(its_value) == 1) or len(its_value) > 1:
        raise TypeError("patch() takes settings by name, a dictionary of them, or one name and its value")
    if isinstance(changes, str):
        changes = {changes: its_value[0]}
    module = sys.modules[__name__]
    requested = {_setting(name): value for name, value in {**(changes or {}), **keywords}.items()}
    prior = {name: getattr(module, name) for name in requested}
    try:
        for name, value in requested.items():
            setattr(module, name, value)
        yield
    finally:
        globals().update(prior)


TORCH_CONFIGS = ("torch._dynamo.config", "torch.compiler.config")
"""Modules of torch's settings, if a program has imported them."""


def _was_set(torch_config: ModuleType, name: str) -> bool:
    """True if the program changed torch's setting: a few defaults differ from ours."""
    return not torch_config._is_default(name)


@contextmanager
def with_torch_settings() -> Iterator[None]:
    """Context in which settings that the program changed in torch apply, unless it changed ours."""
    before = current()
    for torch_config in filter(None, map(sys.modules.get, TORCH_CONFIGS)):
        for name in DEFAULTS.keys() & torch_config._config.keys():
            known, default = torch_config._config[name], DEFAULTS[name]
            if known.alias is not None:  # kept in the other module
                continue
            value = getattr(torch_config, name)
            value = default if value == known.default else value  # torch's default may be another than ours
            if isinstance(value, set):
                globals()[name] = {*before[name], *value}  # type: ignore[misc]
            elif (
                value != default and before[name] == default and name not in NO_EFFECT and _was_set(torch_config, name)
            ):
                globals()[name] = value
    try:
        yield
    finally:
        globals().update(before)
