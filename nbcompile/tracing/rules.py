"""Trace rules: which functions are inlined, which become nodes, which break the graph.

    torch.sin, F.relu, x.sum         a node
    user code, transformers, ...     traced through
    torch.save, os.getpid            a break: "marked as skipped"

The rules are about files and namespaces, not single functions: torch's public
functions on tensors are nodes; torch's Python that is composed of such functions
(nn.Module, optimizers, distributions) is traced through.

In torch: torch/_dynamo/trace_rules.py. Read next: nbcompile/tracing/wrapping/table.py
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types

import torch

from nbcompile import config
from nbcompile.capture.libraries import SKIPPED_PACKAGES

TORCH = os.path.dirname(torch.__file__) + os.sep
NBCOMPILE = os.path.dirname(os.path.dirname(__file__)) + os.sep
ANNOTATIONS = tuple(os.path.join(NBCOMPILE, name) for name in ("annotations.py", "stance.py"))
COMPILERS_OF_TORCH = (os.path.join(TORCH, "_dynamo") + os.sep, os.path.join(TORCH, "_inductor") + os.sep)
POLYFILLS = os.path.join(NBCOMPILE, "tracing", "polyfills") + os.sep
STDLIB = os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep
SITE = os.path.realpath(sysconfig.get_paths()["purelib"]) + os.sep

# Beginnings of paths: a folder ends in a slash, so that ``nn/`` is not the beginning of another name.
TRACED_TORCH = tuple(
    os.path.join(TORCH, part)
    for part in (
        "_dynamo/external_utils.py",
        "_dynamo/_trace_wrapped_higher_order_op.py",
        "__future__.py",
        "nested/__init__.py",
        "nn/",
        "distributions/",
        "utils/_foreach_utils.py",
        "optim/",
        "_refs/",
        "_prims_common/",
        "ao/nn/",
        "utils/_pytree.py",
        "utils/_contextlib.py",
        "functional.py",
        "_tensor.py",
        "overrides.py",
        "autograd/function.py",
        "utils/checkpoint.py",
        "_jit_internal.py",
        "return_types.py",
        "types.py",
        "_functorch/functional_call.py",
        "_functorch/apis.py",
        "_functorch/vmap.py",
        "_functorch/eager_transforms.py",
        "_functorch/utils.py",
        "_functorch/batch_norm_replacement.py",
        "autograd/forward_ad.py",
        "autograd/graph.py",
        "backends/mha/",
        "_higher_order_ops/",
        "_library/custom_ops.py",
        "testing/",
        "amp/",
        "cuda/amp/",
        "backends/cuda/",
        "random.py",
        "torch_version.py",
        "_vendor/packaging/",
        "func/",
        "_functorch/deprecated.py",
        "_functorch/autograd_function.py",
        "_functorch/pyfunctorch.py",
        "autograd/functional.py",
        "_decomp/",
        "_prims/",
        "sparse/",
        "distributed/",
        "_utils.py",
        "utils/_device.py",
        "utils/_ordered_set.py",
        "utils/_typing_utils.py",
        "utils/_python_dispatch.py",
        "utils/hooks.py",
        "utils/_cxx_pytree.py",
        "fx/_pytree.py",
        "fx/traceback.py",
        "_tensor_str.py",
        "_library/autograd.py",
        "_library/fake_class_registry.py",
        "ao/quantization/stubs.py",
        "ao/quantization/fx/_decomposed.py",
        "export/_tree_utils.py",
        "export/_unlift.py",
        "export/_wrapper_utils.py",
        "export/unflatten.py",
        "fx/_symbolic_trace.py",
        "utils/_content_store.py",
    )
)
SKIPPED_STDLIB = tuple(
    os.path.join(STDLIB, part)
    for part in ("abc.py", "importlib/", "linecache.py", "random.py", "re/", "re.py", "unittest/")
)
"""Modules of the standard library that are not inlined, as in torch; all others are Python like any other."""
LR_SCHEDULER = os.path.join(TORCH, "optim", "lr_scheduler.py")
SPARSE_COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


@functools.lru_cache(maxsize=4096)
def skip_reason(filename: str) -> str | None:
    """Reason why the code of a file is not inlined; None if it is."""
    # Polyfills are traced as if the program had them; nothing else of the compiler may get into a user's graph.
    if filename.startswith(NBCOMPILE):
        return None if filename.startswith((POLYFILLS, *ANNOTATIONS)) else "the compiler itself"
    if config.dont_skip_tracing and not filename.startswith(COMPILERS_OF_TORCH):
        return None
    if filename.startswith(TORCH):
        if filename == LR_SCHEDULER:
            return "it counts steps, and each number would be a graph of its own"
        traced = any(filename.startswith(part) for part in TRACED_TORCH)
        return None if traced else "torch's own code that is not composed of operators"
    path = _file(filename)
    # Before the standard library: ``site-packages`` is a folder inside of it.
    if path.startswith(SITE) or "site-packages" in path:
        package = path.partition("site-packages" + os.sep)[2].split(os.sep)[0]
        return f"the package {package} is not traced" if package.removesuffix(".py") in SKIPPED_PACKAGES else None
    if path.startswith(STDLIB):
        return "the standard library" if path.startswith(SKIPPED_STDLIB) else None
    return None


def _file(filename: str) -> str:
    """The file that code comes from; the interpreter carries some of the library, as ``<frozen _collections_abc>``."""
    if filename.startswith("<frozen "):
        return os.path.join(STDLIB, *filename.removeprefix("<frozen ").rstrip(">").split(".")) + ".py"
    return filename if filename.startswith("<") else os.path.realpath(filename)


def is_caught(code: types.CodeType) -> str | None:
    """Reason why a frame is not compiled as a frame of its own; None if it is.

    Code of libraries is traced through where user code calls it, but torch's and
    the standard library's functions are no entry points.
    """
    filename = code.co_filename
    if filename.startswith((TORCH, NBCOMPILE)):
        # A compiled module or optimizer begins with a function of these files.
        allowed = filename.startswith(
            (os.path.join(TORCH, "nn", "modules"), os.path.join(TORCH, "optim"), os.path.join(TORCH, "distributions"))
        )
        return None if allowed else "a file of torch or of the compiler"
    # fx gives the code of a GraphModule's ``forward`` a file of this name.
    if code.co_filename.startswith("<eval_with_key"):
        return "the code of a graph"
    path = _file(filename)
    if path.startswith(STDLIB) and not path.startswith(SITE):
        return "a file of the standard library"
    return skip_reason(filename)


def is_trusted_module(name: str) -> bool:
    """True if functions and classes of a module are taken as unchanging (they are not guarded)."""
    top = name.partition(".")[0]
    return top in ("torch", "builtins", "nbcompile") or (top in sys.stdlib_module_names and top != "__main__")
