"""The mechanisms of ``fast/``, by the hook of the compiler that calls them.

    compile(f)                     call_installer        call_path: fast calls, from the 3rd on
    f(x)   in a later process      load_frame            disk_cache/: neither traced nor compiled
    f(x)   1st call                before_compile        prebuild, dynamo_stub: slow imports and builds
                                   compile_graph         background: the graph runs as captured meanwhile
                                   trace_inference, ...  inference_tracer, joint_tracer: one pass, without AOTAutograd
                                   group_guards          guard_groups, guard_cache
                                   build_guard_tree      guard_tree_stubs
                                   store_frame, ...      disk_cache/: for later processes
    f(x)   3rd call and later      no hook: call_path replaces the wrapper's path (eval_frame/wrapper.py)

Each mechanism is imported when its hook is called first. All of them are off with ``nbcompile.config.reference``.

In torch: nothing. Read next: nbcompile/fast/call_path.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.fast import call_path, dynamo_stub, guard_tree_stubs, output_pool
from nbcompile.fast.disk_cache import frames
from nbcompile.guarding.prepared import Conditions
from nbcompile.hooks import Hooks
from nbcompile.options import Options
from nbcompile.support import lazy_import

if TYPE_CHECKING:
    from nbcompile.backends import gpu
    from nbcompile.fast import background, guard_groups, inference_tracer, joint_tracer, prebuild
    from nbcompile.runtime import conditions
else:
    background = lazy_import.module("nbcompile.fast.background")
    guard_groups = lazy_import.module("nbcompile.fast.guard_groups")
    inference_tracer = lazy_import.module("nbcompile.fast.inference_tracer")
    joint_tracer = lazy_import.module("nbcompile.fast.joint_tracer")
    prebuild = lazy_import.module("nbcompile.fast.prebuild")
    conditions = lazy_import.module("nbcompile.runtime.conditions")
    gpu = lazy_import.module("nbcompile.backends.gpu")

GENERATING = ("inductor",)
"""The backends that need a C++ compiler, unless they generate code for another chip."""


def _before_compile(options: Options) -> None:
    if options.backend in GENERATING and options.backend_options.get("target"):
        # Nothing is compiled for this machine: Triton is imported by another process while this one traces.
        gpu.start_compilers()
    elif options.backend in GENERATING:
        prebuild.start()
        prebuild.import_while_building()
    dynamo_stub.install()


def _size_conditions(guards: Sequence[Guard]) -> Conditions | None:
    return conditions.maker() if any(guard.kind is GuardKind.SHAPE_ENV for guard in guards) else None


def _lazily(module: Any, name: str) -> Callable[..., Any]:
    """A function of a module that is imported at the first call."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        return getattr(module, name)(*arguments, **keywords)

    return call


HOOKS = Hooks(
    call_installer=call_path.installer,
    load_frame=frames.load,
    before_compile=_before_compile,
    before_backend=_lazily(prebuild, "start_for"),
    compile_graph=_lazily(background, "compile_graph"),
    trace_inference=_lazily(inference_tracer, "trace"),
    trace_joint=_lazily(joint_tracer, "trace"),
    group_guards=_lazily(guard_groups, "maker"),
    size_conditions=_size_conditions,
    build_guard_tree=guard_tree_stubs.build,
    store_frame=frames.store,
    store_skipped=frames.store_skipped,
    launcher_loaded=output_pool.switch_on,
)
