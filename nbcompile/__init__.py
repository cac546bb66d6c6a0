"""nbcompile: a compiler for PyTorch that shows what it does.

    import nbcompile

    @nbcompile.compile
    def f(x): return (x + 1).relu()

    nbcompile.explain(f)(x)        # the same, with pictures
    %load_ext nbcompile            # in Jupyter: %%compile

The path of the data, folder by folder: dispatch, tracing, guarding, rewriting,
aot, lowering, scheduling, codegen, runtime; docs/map.md walks one function
through all of them.

In torch: torch/compiler/__init__.py. Read next: nbcompile/api.py
"""

from typing import TYPE_CHECKING, Any

from nbcompile.support.log_names import print_help_on_request

print_help_on_request()  # before torch, which ends its import then

from nbcompile.support.lazy_import import importing  # noqa: E402
from nbcompile.support.versions import VERSION, check  # noqa: E402

check()  # before anything that another torch may lack

with importing():
    from torch.compiler import is_compiling, is_dynamo_compiling, is_exporting
    from torch.library import custom_op, triton_op

    from nbcompile import config, errors as exc
    from nbcompile.annotations import (
        allow_in_graph,
        assume_constant_result,
        disable_nested_graph_breaks,
        disallow_in_graph,
        dont_skip_tracing,
        error_on_graph_break,
        forbid_in_graph,
        graph_break,
        leaf_function,
        nonstrict_trace,
        patch_dynamo_config,
        skip_frame,
        step_unsupported,
        substitute_in_graph,
    )
    from nbcompile.api import (
        compile,  # noqa: A004
        compile_module_,
        disable,
        explain,
        get_default_backend,
        reset,
        run,
        set_default_backend,
    )
    from nbcompile.observe.metrics import metrics, prometheus
    from nbcompile.options import Options
    from nbcompile.record.model import Record
    from nbcompile.stance import set_stance
    from nbcompile.support import lazy_import
    from nbcompile.tools.report import report
    from nbcompile.torch_internals import set_logs

if TYPE_CHECKING:
    from nbcompile import jupyter
    from nbcompile.fast import background
    from nbcompile.fast.disk_cache.archives import load_cache_artifacts, save_cache_artifacts
else:
    jupyter = lazy_import.module("nbcompile.jupyter")
    background = lazy_import.module("nbcompile.fast.background")

__all__ = [
    "Explanation",
    "Options",
    "Record",
    "ablate",
    "allow_in_graph",
    "assume_constant_result",
    "bisect",
    "compare",
    "compile",
    "compile_module_",
    "config",
    "custom_op",
    "disable",
    "disable_nested_graph_breaks",
    "disallow_in_graph",
    "dont_skip_tracing",
    "error_on_graph_break",
    "exc",
    "explain",
    "forbid_in_graph",
    "get_default_backend",
    "graph_break",
    "install",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "leaf_function",
    "load_cache_artifacts",
    "load_ipython_extension",
    "metrics",
    "minify",
    "nonstrict_trace",
    "patch_dynamo_config",
    "profile",
    "prometheus",
    "report",
    "reset",
    "run",
    "save_cache_artifacts",
    "set_default_backend",
    "set_logs",
    "set_stance",
    "skip_frame",
    "step_unsupported",
    "substitute_in_graph",
    "triton_op",
    "uninstall",
    "unload_ipython_extension",
]
__version__ = VERSION


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext nbcompile``: the magics, and records that show themselves."""
    jupyter.load_ipython_extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext nbcompile``."""
    jupyter.unload_ipython_extension(shell)


if TYPE_CHECKING:
    from nbcompile.tools.compare import compare
    from nbcompile.tools.diagnose.ablate import ablate
    from nbcompile.tools.diagnose.bisect import bisect
    from nbcompile.tools.diagnose.minify import minify
    from nbcompile.tools.profile import profile
    from nbcompile.tools.replacement import install, uninstall
    from nbcompile.views.explanation import Explanation
else:
    _ON_FIRST_USE = {
        "Explanation": lazy_import.module("nbcompile.views.explanation"),
        "ablate": lazy_import.module("nbcompile.tools.diagnose.ablate"),
        "compare": lazy_import.module("nbcompile.tools.compare"),
        "bisect": lazy_import.module("nbcompile.tools.diagnose.bisect"),
        "load_cache_artifacts": lazy_import.module("nbcompile.fast.disk_cache.archives"),
        "minify": lazy_import.module("nbcompile.tools.diagnose.minify"),
        "profile": lazy_import.module("nbcompile.tools.profile"),
        "install": lazy_import.module("nbcompile.tools.replacement"),
        "save_cache_artifacts": lazy_import.module("nbcompile.fast.disk_cache.archives"),
        "uninstall": lazy_import.module("nbcompile.tools.replacement"),
    }

    def __getattr__(name: str) -> Any:
        """Views and tools are imported when something is shown or looked for."""
        if name in _ON_FIRST_USE:
            return getattr(_ON_FIRST_USE[name], name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
