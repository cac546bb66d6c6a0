"""The folder of ``TORCH_COMPILE_DEBUG=1``: the artifacts of each compiled frame, as files.

    torch_compile_debug/run_2026_11_23_22_10_38_123456-pid_77/nbcompile/f_0_0/
        fx_graph_readable.py        the captured graph
        aot_forward.py ...          the ATen graphs
        ir_pre_fusion.txt  ir_post_fusion.txt  fusion.txt
        output_code.py              kernels, and the program that launches them
        guards.txt  bytecode.txt  residual.py
        record.json                 all of it, for `python -m nbcompile open`

``TORCH_COMPILE_DEBUG_DIR`` is the folder above, as for torch.

In torch: DebugContext in torch/_inductor/debug.py. Read next: nbcompile/observe/artifacts.py
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
import re
from collections.abc import Sequence
from pathlib import Path

from nbcompile.observe import torch_logs
from nbcompile.observe.artifacts import ARTIFACTS, output_code
from nbcompile.record import codec
from nbcompile.record.model import CompiledFrame, Record, Timing

VARIABLE = "TORCH_COMPILE_DEBUG"
FOLDER_VARIABLE = "TORCH_COMPILE_DEBUG_DIR"
FILES = {
    "ir_pre_fusion.txt": "ir_pre_fusion",
    "ir_post_fusion.txt": "ir_post_fusion",
    "fusion.txt": "fusion",
    "schedule.txt": "schedule",
    "guards.txt": "guards",
    "bytecode.txt": "bytecode",
}
"""Files that hold an artifact of TORCH_LOGS."""


class DebugFolder:
    """The subscriber that writes the folder."""

    def wants_frames(self) -> bool:
        """True if the variable is set."""
        return os.environ.get(VARIABLE, "0") == "1"

    def wants_steps(self) -> bool:
        """False: no file of the folder contains steps."""
        return False

    def during(self, compile_id: str) -> contextlib.AbstractContextManager[None]:
        """No-op: nothing is needed while a frame is compiled."""
        return contextlib.nullcontext()

    def receive(self, frame: CompiledFrame, timings: Sequence[Timing]) -> None:
        """Write the files of one frame; an error of the disk is a warning, and the program continues."""
        # Called at the end of a compile, in the middle of the user's program: no error here may stop it.
        try:
            folder = run_folder(os.getpid()) / f"{_file_name(frame.function)}_{_file_name(frame.id)}"
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in contents(frame, timings).items():
                # A string of the program may hold half of a surrogate pair, which UTF-8 cannot encode.
                (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            torch_logs.warn_of_output(f"{VARIABLE}: nothing is written: {error}")


@functools.cache
def run_folder(process: int) -> Path:
    """The folder of this process; created on first use."""
    root = Path(os.environ.get(FOLDER_VARIABLE) or Path.cwd())
    now = dt.datetime.now().strftime("%Y_%m_%d_%H_%M_%S_%f")
    folder = root / "torch_compile_debug" / f"run_{now}-pid_{process}" / "nbcompile"
    folder.mkdir(parents=True, exist_ok=True)
    torch_logs.warn_of_output(f"{VARIABLE}: {folder}")
    return folder


def _file_name(text: str) -> str:
    return re.sub(r"\W", "_", text)


def contents(frame: CompiledFrame, timings: Sequence[Timing] = ()) -> dict[str, str]:
    """The files of a frame; those that would be empty are left out."""
    files = {name: "\n\n".join(ARTIFACTS[artifact](frame)) for name, artifact in FILES.items()}
    files["fx_graph_readable.py"] = frame.graph.code if frame.graph else ""
    for graph in frame.compiled_graph.graphs if frame.compiled_graph else ():
        files[f"aot_{graph.part}_{graph.stage}.py" if graph.part else f"aot_{graph.stage}.py"] = graph.code
    files["output_code.py"] = output_code(frame)
    files["residual.py"] = frame.residual
    files["record.json"] = codec.to_json(Record(frame.function, frames=(frame,), timings=tuple(timings)))
    return {name: text for name, text in files.items() if text}
