"""Traces of the real torch.compile on real programs, made and opened: a table for docs/design/observability.md.

    python -m tests.observe.real_traces FOLDER                          with this interpreter
    python -m tests.observe.real_traces FOLDER --python env/bin/python resnet gpt2     with another torch

Each program runs with the given interpreter, which needs no nbcompile, under TORCH_TRACE; what it wrote is opened with
this nbcompile, as text and as a page beside the trace.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from nbcompile.record.model import Record
from nbcompile.tools.commands import records, terminal

PROGRAMS = {
    "resnet": """
import timm, torch
model = torch.compile(timm.create_model("resnet18", num_classes=10).eval())
with torch.no_grad():
    model(torch.randn(2, 3, 64, 64))
""",
    "gpt2": """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=64, vocab_size=100, n_positions=64, use_cache=False))
model = torch.compile(model.eval())
with torch.no_grad():
    for length in (8, 12):
        model(torch.randint(0, 100, (1, length)), use_cache=False)
""",
    "bert": """
import torch
from transformers import BertConfig, BertForSequenceClassification
config = BertConfig(num_hidden_layers=2, hidden_size=64, num_attention_heads=2, intermediate_size=128, vocab_size=100)
model = BertForSequenceClassification(config)
optimizer = torch.optim.AdamW(model.parameters())

@torch.compile
def loss_of(ids, labels):
    return model(input_ids=ids, labels=labels).loss

for _ in range(2):
    optimizer.zero_grad()
    loss_of(torch.randint(0, 100, (2, 8)), torch.tensor([0, 1])).backward()
    optimizer.step()
""",
    "ddp": """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
model = DistributedDataParallel(torch.compile(model))
for step in range(2):
    model(torch.randn(8 if step == 0 or rank == 0 else 9, 16)).sum().backward()
dist.destroy_process_group()
""",
    "recompiles": """
import torch

@torch.compile
def scaled(x, factor, mode):
    return (x * factor).sin() if mode == "sin" else (x * factor).cos()

for length, factor, mode in ((3, 2, "sin"), (4, 2, "sin"), (4, 3, "sin"), (4, 3, "cos"), (1, 3, "cos")):
    scaled(torch.randn(length), factor, mode)
scaled(torch.randn(4, dtype=torch.float64), 3, "cos")
""",
    "breaks": """
import torch

def scale(x):
    print("scale", x.shape)
    return x * 2

@torch.compile
def step(x):
    y = scale(x.sin())
    if y.sum() > 0:
        y = y + 1
    values = y.tolist()
    return y * len(values)

step(torch.randn(5))
""",
}
RANKS = 2


def make(name: str, folder: Path, python: str) -> Path:
    """Run one program under TORCH_TRACE, and return the folder of its trace.

    Raises:
        subprocess.CalledProcessError: the program failed.
    """
    own, trace = folder / name, folder / name / "trace"
    own.mkdir(parents=True, exist_ok=True)
    (own / f"{name}.py").write_text(PROGRAMS[name])
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)] if name == "ddp" else []
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(own / "cache"), "TORCH_TRACE": str(trace), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [python, *launcher, str(own / f"{name}.py")], check=True, capture_output=True, env={**os.environ, **caches}
    )
    return trace


def row(name: str, trace: Path) -> str:
    """Open a trace, write its page, and return its row of the table."""
    size = sum(file.stat().st_size for file in trace.iterdir())
    began = time.perf_counter()
    opened = records.read(trace)
    seconds = time.perf_counter() - began
    (trace.parent / f"{name}.html").write_text(records.page(name, opened), encoding="utf-8")
    seen: list[Record] = list(opened.records.values())
    frames = [frame for record in seen for frame in record.frames]
    made = [kernel for frame in frames if frame.compiled_graph for kernel in frame.compiled_graph.kernels]
    kernels = sum(bool(kernel.source) for kernel in made)
    counts = (
        len(seen), len(frames), sum(frame.graph is not None for frame in frames), sum(len(frame.guards) for frame in frames),
        sum(len(frame.breaks) for frame in frames), sum(bool(frame.failed_guards) for frame in frames), kernels,
    )  # fmt: skip
    cells = (name, seen[0].environment.torch, f"{size / 1e6:.1f} MB", *counts, f"{seconds:.1f}")
    return f"| {' | '.join(map(str, cells))} |"


def main(arguments: list[str] | None = None) -> int:
    """Run and open each program, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.observe.real_traces", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    options = parser.parse_args(arguments)
    failed = 0
    print(
        "| program | torch | trace | ranks | frames | graphs | guards | breaks | recompilations | kernels | seconds |"
    )
    print(f"|---|---|--:{'|--:' * 8}|")
    for name in options.names or PROGRAMS:
        try:
            print(row(name, make(name, options.folder, options.python)), flush=True)
        except subprocess.CalledProcessError as error:
            failed += 1
            terminal.print_error(f"{name}: {error.stderr.decode().strip().splitlines()[-1:]}")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
