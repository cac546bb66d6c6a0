"""Options of nbcompile's own backend.

    read_settings("default", {"verify": True})      BackendOptions(verify=True, ...)

In torch: torch/_inductor/config.py. Read next: nbcompile/backends/builtin.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from nbcompile import errors


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """``compile(f, options={...})``, for our own backend."""

    verify: bool = False
    """Run every compiled graph operator by operator as well, and compare (slow; for finding our mistakes)."""
    fallback_random: bool = True
    """Random numbers are those that eager draws. False: our own, as part of the loops (lowering/randomness.py)."""
    target: str = ""
    """A GPU (``sm_90``): CPU tensors are compiled for as if they lay there, and its code runs in a simulator."""
    simulation_seconds: float = 60.0
    """With a target: a call whose simulation would take longer runs through ATen."""
    debug: bool = False
    """On a GPU: wait after each launch, so that an error names its kernel (slow)."""
    max_autotune: bool = False
    """On a GPU: kernels of ours are candidates beside the library's, for matrix products."""
    max_autotune_gemm: bool = False
    """The same, for matrix products alone."""
    max_autotune_gemm_backends: str = "ATEN,TRITON,CPP"
    """Candidates of a matrix product: the library (``ATEN``), our kernels (``TRITON``). Others are not looked at."""
    cuda_graphs: bool = False
    """On a GPU: record each graph as a CUDA graph and replay it (``mode="reduce-overhead"``)."""

    @property
    def product_backends(self) -> tuple[str, ...]:
        """Candidates of a matrix product on a GPU; only the library unless they are to be chosen among."""
        asked = self.max_autotune_gemm_backends.upper().replace(" ", "").split(",")
        tuned = self.max_autotune or self.max_autotune_gemm
        return tuple(name for name in ("ATEN", "TRITON") if name in asked) if tuned else ("ATEN",)


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
