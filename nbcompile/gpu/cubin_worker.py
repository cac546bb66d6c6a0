"""A process that compiles Triton kernels: one JSON request a line in, one JSON answer a line out.

    python cubin_worker.py        run as a file: it imports Triton, and neither torch nor nbcompile

In torch: torch/_inductor/compile_worker/__main__.py. Read next: nbcompile/gpu/cubins.py
"""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def compile_kernel(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Compile one kernel: PTX, machine code, and what a launch must know."""
    path = folder / f"{request['key']}.py"  # Triton reads the text of a function from its file
    path.write_text(request["source"])
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    pointers = [at for at, kind in enumerate(request["signature"].values()) if kind.startswith("*")]
    aligned = {(at,): [["tt.divisibility", 16]] for at in pointers} if request["aligned"] else {}
    source = ASTSource(getattr(module, request["name"]), request["signature"], {}, aligned)
    target = GPUTarget("cuda", request["capability"], 32)
    compiled = triton.compile(source, target=target, options=request["options"])
    scratch = sum(getattr(compiled.metadata, name, 0) or 0 for name in ("global_scratch_size", "profile_scratch_size"))
    return {
        "ptx": compiled.asm["ptx"],
        "cubin": base64.b64encode(compiled.asm["cubin"]).decode(),
        "entry": compiled.metadata.name,
        "threads": 32 * compiled.metadata.num_warps,
        "shared": compiled.metadata.shared,
        "scratch": scratch,
    }


def serve() -> None:
    """Answer requests until the input ends."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # Triton may print
    with tempfile.TemporaryDirectory(prefix="nbcompile-triton-") as folder:
        for line in sys.stdin:
            try:
                answer = compile_kernel(json.loads(line), Path(folder))
            except Exception as error:  # noqa: BLE001  the process that asked says it
                first = next(iter(str(error).strip().splitlines()), "")
                answer = {"error": f"{type(error).__name__}: {first}"}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    serve()
