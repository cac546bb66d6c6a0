"""The names of ``TORCH_LOGS`` and what nbcompile prints for each, as text.

    python -m nbcompile logs                  the list
    TORCH_LOGS=help python program.py         the list, then torch's own, which ends the program

torch prints its list while it is imported: ours is next to it if nbcompile is imported before torch. The names are
torch's. This module imports nothing of torch, which cannot be imported with ``TORCH_LOGS=help``.

In torch: torch/_logging/_registrations.py. Read next: nbcompile/observe/artifacts.py
"""

from __future__ import annotations

import os
import sys

PRINTED = {
    "aot_graphs": "the forward, backward or inference graphs that AOTAutograd makes",
    "aot_joint_graph": "the graph of forward and backward before it is partitioned",
    "autotuning": "the candidates of each matrix product on a GPU, with their times",
    "bytecode": "the bytecode of the function, and of the residual program that replaces it",
    "caching": "the cause of a compile, and whether its entry is in the store on disk",
    "cudagraphs": "the reason why no CUDA graph is recorded (and, while it happens, each one that is)",
    "fusion": "the decision about each pair of buffers that could be one kernel",
    "graph": "the captured graph as a table",
    "graph_code": "the captured graph as Python",
    "graph_sizes": "the sizes of the tensors in the captured graph",
    "guards": "the guards of the new cache entry, by the value that they check",
    "ir_post_fusion": "the kernels after fusion, with the bodies of their loops",
    "ir_pre_fusion": "each buffer with the body of its loop, before fusion",
    "kernel_code": "the C++ or Triton code of each kernel",
    "output_code": "the code of the kernels and the wrapper that launches them",
    "perf_hints": "what runs through ATen, and why",
    "post_grad_graphs": "the ATen graphs that are lowered",
    "pre_grad_graphs": "the captured graph that is given to the backend",
    "recompiles_verbose": "all guards that failed before a recompilation, entry by entry",
    "schedule": "the kernels in the order in which they run, and the live range of each buffer",
    "trace_bytecode": "each bytecode instruction while it is traced, with the stack",
    "trace_call": "each call that becomes a node, with its line",
    "trace_source": "each line of source while it is traced",
    "verbose_guards": "each guard as Python and in words",
}
"""Logs that are printed when a frame is finished (nbcompile/observe/artifacts.py)."""

LIVE = {
    "graph_breaks": "each graph break: location, reason, hints, stack",
    "recompiles": "the guard that failed before each recompilation",
    "side_effects": "the side effects that the residual program replays",
}
"""Logs of events, printed while they happen (nbcompile/observe/torch_logs.py)."""

BY_TORCH = {
    "annotation": "annotations of graphs",
    "compiled_autograd": "each backward pass that is recorded, with compiled autograd",
    "compiled_autograd_verbose": "the same, with what the engine knew of each node before",
    "graph_code_verbose": "a captured graph with symbolic sizes, before and after assertions about them are added",
    "native_dsl_compile": "each kernel of an operator that torch itself writes in a DSL, compiled or found",
    "not_implemented": "dispatch to tensor subclasses and modes that returned NotImplemented",
    "sym_node": "each operation on a symbolic number",
    "trace_shape_events": "each event of the shape environment",
}
"""Logs of parts of torch that nbcompile calls, as under torch.compile."""

NOT_HERE = {
    "aot_graphs_effects": "effect tokens are no nodes of its graphs; see aot_graphs",
    "auto_chunker": "it has no auto chunker",
    "autotuning_inputs": "it does not time alternatives of a kernel",
    "benchmarking": "it does not time kernels while it compiles",
    "compute_dependencies": "see ir_pre_fusion and fusion",
    "cudagraph_static_inputs": "see cudagraphs, which tells how many inputs are copied",
    "custom_format_test_artifact": "it is for torch's own tests",
    "ddp_graphs": "the record has the parts of a graph that is split for DDP: explain(module)(x)",
    "graph_region_expansion": "it does not look for repeated regions while it traces",
    "hierarchical_compile": "its backends compile nested regions as a part of the graph around them",
    "incremental": "it does not time alternatives of a kernel",
    "inductor_metrics": "see fusion, which says the bytes of each decision",
    "loop_ordering": "see ir_post_fusion",
    "loop_tiling": "see kernel_code",
    "node_runtime_estimation": "it does not estimate the time of nodes",
    "onnx_diagnostics": "no part of torch 2.11 or later prints it",
    "overlap": "it does not reorder collectives",
    "overlap_scheduling": "it does not reorder collectives",
    "partitioned_scatter": "it has no pass that splits a scatter in parts",
}
"""Names of torch 2.11 to 2.15 that mean nothing here, and why."""

COMPONENTS = {
    "dynamo": ("bytecode", "graph_code", "guards", "trace_source", "trace_bytecode", "trace_call"),
    "aot": ("aot_joint_graph", "aot_graphs"),
    "inductor": ("post_grad_graphs", "ir_pre_fusion", "fusion", "ir_post_fusion", "schedule", "output_code"),
}
"""The artifacts that ``TORCH_LOGS=+dynamo`` and the like print: those of that part of the compiler."""

TORCHS_COMPONENTS = {
    "async_compile": "it does not use Inductor's pool of compile workers",
    "autograd": "torch.autograd prints it",
    "c10d": "torch.distributed prints it",
    "cache": "it has no remote cache; see caching",
    "ddp": "DistributedDataParallel prints it",
    "distributed": "torch.distributed prints it",
    "dtensor": "torch.distributed.tensor prints it",
    "dynamic": "the shape environment, which is torch's, prints it",
    "export": "torch.export prints it",
    "fake_tensor": "torch prints it where its cache of fake tensors is used",
    "fsdp": "torch.distributed.fsdp prints it",
    "native_dsl": "torch prints it where it registers operators that are written in a DSL",
    "onnx": "torch.onnx prints it",
    "pp": "torch.distributed.pipelining prints it",
}
"""Logs of torch to which nbcompile adds nothing, with the part of torch that writes them."""


def help_text() -> str:
    """All names with what nbcompile prints for them."""
    sections = (
        ("printed when a function is compiled", PRINTED),
        ("printed while it happens", LIVE),
        ("printed by parts of torch that nbcompile calls", BY_TORCH),
        ("nothing is printed by nbcompile", NOT_HERE),
        ("parts of the compiler: a line about each function", dict.fromkeys(COMPONENTS, "counts and times")),
        ("the same, and artifacts", {f"+{name}": ", ".join(names) for name, names in COMPONENTS.items()}),
        ("other parts of torch: nothing is printed by nbcompile", TORCHS_COMPONENTS),
    )
    width = max(len(name) for _, names in sections for name in names) + 2
    lines = ["TORCH_LOGS=name,name in nbcompile (also torch._logging.set_logs and %compile_config log=name):"]
    for title, names in sections:
        lines += ["", f"{title}:", *(f"  {name:<{width}}{meaning}" for name, meaning in names.items())]
    return "\n".join([*lines, ""])


def print_help_on_request() -> None:
    """Print the list for ``TORCH_LOGS=help``, before torch prints its own and ends its import with an error."""
    if os.environ.get("TORCH_LOGS") in ("help", "+help") and "torch" not in sys.modules:
        sys.stderr.write(help_text())
