"""Every choice a user can make for one ``nbcompile.compile`` call; ``options={...}`` is for the backend.

    Options(fullgraph=True, mode="default", backend_options={"verify": True})
    read_settings("default", {"verify": True})      BackendOptions(verify=True, ...), for our own backend

Process-wide settings with torch's names live in nbcompile/config.py.

In torch: the arguments of torch.compile, and torch/_inductor/config.py. Read next: nbcompile/backends/builtin.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from nbcompile import errors

OWN_BACKENDS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
"""Names of the backends of backends/builtin.py, for modules that must not import them."""
OWN_NAME = "nbcompile"
"""Our name where torch.compile's backends are listed; in our own ``compile`` it is the last of the ladder."""


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of one ``compile`` call, normalised."""

    fullgraph: bool = False
    """The whole function must be one graph; the first break is an error."""
    dynamic: bool | None = None
    """None: a size that changed becomes symbolic; True: all sizes are; False: none."""
    backend: str | Callable[..., Callable[..., Any]] = "inductor"
    """A name (backends/builtin.py) or ``(GraphModule, example_inputs) -> callable``."""
    mode: str | None = None
    backend_options: Mapping[str, object] = field(default_factory=dict)
    recompile_limit: int | None = None
    """None: ``config.recompile_limit``."""
    name: str | None = None
    isolate_recompiles: bool = False
    """True if the cache entries are its own, and counted apart."""
    guard_filter: Callable[[Sequence[Any]], Sequence[bool]] | None = None
    """Function from descriptions of the guards to which are kept (``options={"guard_filter_fn": ...}``)."""


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """``compile(f, options={...})``, for our own backend."""

    verify: bool = False
    """Run every compiled graph operator by operator as well, and compare (slow; to find errors of the compiler)."""
    fallback_random: bool = True
    """Random numbers are those that eager draws. False: our own, as part of the loops (lowering/randomness.py)."""
    target: str = ""
    """A GPU (``sm_90``): CPU tensors are compiled for as if they lay there, and its code runs in a simulator."""
    simulation_seconds: float = 60.0
    """Limit of a simulation (with a target): a call that would take longer runs through ATen."""
    simulated_programs: int = 0
    """Number of programs of a longer launch that are simulated once, only for figures (with a target)."""
    debug: bool = False
    """Wait after each launch on a GPU, so that an error names its kernel (slow)."""
    max_autotune: bool = False
    """Consider our own kernels for matrix products on a GPU, as well as the library's."""
    max_autotune_gemm: bool = False
    """Consider our own kernels for matrix products on a GPU."""
    max_autotune_gemm_backends: str = "ATEN,TRITON,CPP"
    """Candidates of a matrix product: the library (``ATEN``), our kernels (``TRITON``). Others are not looked at."""
    cuda_graphs: bool = False
    """Record each graph on a GPU as a CUDA graph and replay it (``mode="reduce-overhead"``)."""

    bucket_collectives: bool = False
    """Small collectives of one kind become one call; every process has to ask for it, and compile the same graph."""

    @property
    def product_backends(self) -> tuple[str, ...]:
        """Candidates of a matrix product on a GPU; only the library unless they are to be chosen among."""
        requested = self.max_autotune_gemm_backends.upper().replace(" ", "").split(",")
        tuned = self.max_autotune or self.max_autotune_gemm
        return tuple(name for name in ("ATEN", "TRITON") if name in requested) if tuned else ("ATEN",)


DEFAULTS = BackendOptions()
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""torch.compile's presets. They choose among ways to run matrix products and kernels on a GPU: on a CPU all are one."""
AUTOTUNED = MODES[2:]
WITH_CUDA_GRAPHS = ("reduce-overhead", "max-autotune")
TORCHS_NAMES = {"triton.cudagraphs": "cuda_graphs"}
"""Options of torch's own compiler that mean one of ours."""


def read_settings(mode: str | None, options: Mapping[str, object]) -> BackendOptions:
    """``mode=...`` and ``options={...}`` of our own backend, as a dataclass.

    Raises:
        errors.InvalidMode, errors.InvalidBackendOption: a name that is not known.
    """
    if mode is not None and mode not in MODES:
        raise errors.InvalidMode(mode, MODES)
    known = tuple(each.name for each in fields(BackendOptions))
    chosen: dict[str, object] = {"cuda_graphs": True} if mode in WITH_CUDA_GRAPHS else {}
    if mode in AUTOTUNED:
        chosen["max_autotune"] = True
    for name, value in options.items():
        own = TORCHS_NAMES.get(name, name)
        if own not in known:
            raise errors.InvalidBackendOption(name, known)
        chosen[own] = value
    return BackendOptions(**chosen)  # type: ignore[arg-type]
