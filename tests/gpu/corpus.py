"""The quality of generated code for a GPU: a table over the case pages and over programs of real sizes.

    python -m tests.gpu.corpus               every page and program
    python -m tests.gpu.corpus softmax sum   those whose names contain one of the words
    python -m tests.gpu.corpus --write       the 46 graphs, as the table of docs/design/gpu_corpus.md

One row a graph: whether all of it is generated, whether the simulated code gives eager's numbers, the worst coalescing
and the most registers of its kernels, and predicted over least time of the whole graph.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import nbcompile
from nbcompile.aot.compile import compile_graph
from nbcompile.aot.compilers import Compilers
from nbcompile.aot.decompositions import default_table
from nbcompile.backends import attribute_of, run_through_aten
from nbcompile.gpu import simulated, target
from nbcompile.gpu.chip import CHIPS
from nbcompile.gpu.graph_options import GraphOptions
from nbcompile.gpu.memory import Fault
from nbcompile.peer import inductor_gpu
from tests.cases import cases
from tests.gpu.graphs import GRAPHS

CHIP = CHIPS["sm_90"]


@dataclass(slots=True)
class Row:
    """The figures of one graph."""

    name: str
    stage: str
    launches: list[simulated.Launch]
    kernels: int = 0
    """Number of kernels that were generated and compiled."""
    rejected: str = ""
    fault: str = ""
    differs: str = ""
    casts_by_aten: bool = False
    """True if a cast is a call of ATen; Inductor's code does it in its kernel."""
    inductor: float = 0.0
    """Microseconds of Inductor's launches for the same graph, by the same model; 0 if its code was not generated."""

    @property
    def coalescing(self) -> float:
        """The coalescing of the worst kernel."""
        return min((each.costs.coalescing for each in self.launches), default=1.0)

    @property
    def registers(self) -> int:
        """The registers of the largest kernel."""
        return max((each.built.registers for each in self.launches), default=0)

    @property
    def predicted(self) -> float:
        """The predicted time of all launches, in microseconds."""
        return sum(each.times.predicted for each in self.launches) * 1e6

    @property
    def ratio(self) -> float:
        """The ratio of the predicted to the least time."""
        least = sum(each.times.roofline for each in self.launches) * 1e6
        return self.predicted / least if least else 1.0

    def text(self) -> str:
        """The graph's line of the table."""
        generated = "yes" if not self.rejected else self.rejected
        equal = self.fault or self.differs or ("yes" if self.launches else "-")
        limits = ",".join(dict.fromkeys(each.times.limit for each in self.launches))
        return (
            f"{self.name:24} {self.stage:9} {len(self.launches):2} {self.coalescing:6.1%} {self.registers:4} "
            f"{self.predicted:9.1f} {self.ratio:7.2f}  {limits:20} equal: {equal}; generated: {generated}"
        )


HEAD = f"{'graph':24} {'stage':9} {'n':>2} {'coal.':>6} {'regs':>4} {'pred. us':>9} {'p/roof':>7}  limited by"


def simulating(
    name: str, rows: list[Row], generate_random: bool = False, beside_inductor: bool = False
) -> Callable[[Any, str], Any]:
    """A compiler of graphs for ``cases.made``: the kernels are simulated and compared with ATen.

    Random numbers that the kernels draw themselves are others than those of ATen: the results are not compared.
    With ``beside_inductor``, Inductor's kernels for the graph are simulated too.
    """

    def stage_compiler(_: Any, stage: str) -> Any:
        def compile_one(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
            eager = run_through_aten(graph, examples, stage)
            made = target.compile_graph(
                graph,
                examples,
                CHIP,
                GraphOptions(
                    functools.partial(attribute_of, graph),
                    keep_sharing=stage == "inference",
                    generate_random=generate_random,
                ),
            )
            reasons = dict.fromkeys(
                each.reason for each in made.emitted.externs if each.reason.startswith("no code for a GPU")
            )
            rows.append(Row(name, stage, [], rejected="; ".join(reasons)))
            rows[-1].kernels = len(made.emitted.kernels)
            rows[-1].casts_by_aten = any(each.reason.startswith("a cast") for each in made.emitted.externs)
            run = _comparing(made, eager, rows[-1], compared=not generate_random)
            return _beside(run, graph, rows[-1]) if beside_inductor else run

        return compile_one

    return stage_compiler


def _comparing(made: target.TargetGraph, eager: Any, row: Row, *, compared: bool) -> Any:
    def run(inputs: list[Any]) -> Any:
        if any(isinstance(value, torch.Tensor) and value.is_meta for value in inputs):
            return eager(inputs)
        copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
        expected = eager(inputs)
        try:
            found = made.program(*copies)
        except Fault as fault:
            row.fault = str(fault)
            return expected
        row.launches = list(made.program.launches)
        try:
            for mine, theirs in zip(found, expected, strict=True) if compared else ():
                torch.testing.assert_close(mine, theirs, equal_nan=True, **_tolerance(theirs))
        except AssertionError as difference:
            row.differs = str(difference).splitlines()[0]
        return expected

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _beside(run: Any, graph: torch.fx.GraphModule, row: Row) -> Any:
    """A runner that simulates Inductor's code for the same graph first, on copies of the inputs."""

    def both(inputs: list[Any]) -> Any:
        copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
        if row.kernels and not any(isinstance(value, torch.Tensor) and value.is_meta for value in copies):
            try:
                launches, _ = inductor_gpu.simulate(graph, copies, CHIP)
                if not row.casts_by_aten:  # casts that take time without a prediction
                    row.inductor = sum(launch.times.predicted for launch in launches) * 1e6
            except inductor_gpu.NoCodeError as reason:
                print(f"{row.name}: {reason}", flush=True)
        return run(inputs)

    both._boxed_call = True  # type: ignore[attr-defined]
    return both


def _tolerance(expected: object) -> dict[str, float]:
    """The tolerance for sums of thousands of numbers, whose order is arbitrary in eager mode, too."""
    is_single = isinstance(expected, torch.Tensor) and expected.dtype == torch.float32
    return {"rtol": 1e-4, "atol": 1e-4} if is_single else {}


def page(path: Any) -> list[Row]:
    """The graphs of a case page."""
    rows: list[Row] = []
    cases.made(path, simulating(path.stem, rows))
    return rows


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "pointwise_1M": (lambda x, y: torch.relu(x * y + 1), lambda: (torch.randn(1 << 20), torch.randn(1 << 20))),
    "broadcast_1024": (lambda x, b: x + b, lambda: (torch.randn(512, 1024), torch.randn(1024))),
    "sum_all_1M": (lambda x: x.sum(), lambda: (torch.randn(1 << 20),)),
    "rows_1000": (lambda x: x.sum(-1), lambda: (torch.randn(1024, 1000),)),
    "columns_4096": (lambda x: x.sum(0), lambda: (torch.randn(4096, 256),)),
    "softmax_1000": (lambda x: x.softmax(-1), lambda: (torch.randn(512, 1000),)),
    "softmax_16k": (lambda x: x.softmax(-1), lambda: (torch.randn(64, 16384),)),
    "layer_norm_32k": (lambda x: F.layer_norm(x, (32000,)), lambda: (torch.randn(16, 32000),)),
    "softmax_32k": (lambda x: x.softmax(-1), lambda: (torch.randn(32, 32000),)),
    "layer_norm_1024": (lambda x, w, b: F.layer_norm(x, (1024,), w, b),
                   lambda: (torch.randn(512, 1024), torch.randn(1024), torch.randn(1024))),
    "transpose_512": (lambda x, y: x.t() + y, lambda: (torch.randn(512, 1024), torch.randn(1024, 512))),
    "permute_56": (lambda x: x.permute(0, 2, 3, 1).contiguous(), lambda: (torch.randn(4, 64, 56, 56),)),
    "mean_var_2048": (lambda x: torch.var_mean(x, dim=-1), lambda: (torch.randn(512, 2048),)),
    "argmax_2048": (lambda x: x.argmax(-1), lambda: (torch.randn(512, 2048),)),
    "cumsum_1024": (lambda x: x.cumsum(-1), lambda: (torch.randn(256, 1024),)),
}  # fmt: skip


def program(name: str) -> list[Row]:
    """The graphs of one of the programs."""
    function, make = PROGRAMS[name]
    torch.manual_seed(0)
    rows: list[Row] = []
    cases._run_and_compare(function, make(), False, None, simulating(name, rows))
    return rows


def graph(name: str, beside_inductor: bool = False) -> list[Row]:
    """The graphs of one of the 46 programs: forward and backward, or inference."""
    chosen = GRAPHS[name]
    torch.manual_seed(0)
    rows: list[Row] = []
    compiler = simulating(name, rows, beside_inductor=beside_inductor, **chosen.options)
    if chosen.is_meta or chosen.options:
        # Eager mode has no such result to compare with.
        stages = Compilers(*(compiler(None, stage) for stage in ("forward", "backward", "inference")))
        nbcompile.compile(
            chosen.function,
            backend=functools.partial(
                compile_graph, compilers=stages, decompositions=default_table(), mutate_in_graph=True
            ),
        )(*chosen.make())
    else:
        cases._run_and_compare(chosen.function, chosen.make(), chosen.dynamic, None, compiler)
    return rows


def _wanted(words: Sequence[str]) -> Iterator[tuple[str, Callable[[], list[Row]]]]:
    every = {path.stem: functools.partial(page, path) for path in cases.CASES}
    every |= {name: functools.partial(program, name) for name in PROGRAMS}
    every |= {name: functools.partial(graph, name) for name in GRAPHS}
    return ((name, each) for name, each in every.items() if not words or any(word in name for word in words))


PAGE = Path(__file__).parents[2] / "docs" / "design" / "gpu_corpus.md"
PAGE_HEAD = """# The 46 graphs on a GPU

Written by `python -m tests.gpu.corpus --write`: the graphs of `tests/gpu/graphs.py`, compiled for sm_90 (an H200) and run in
the simulator. A graph that trains is a line for the forward and one for the backward.

- *generated*: every kernel has code for a GPU. Sorting, matrix products, convolutions and complex numbers are calls of ATen, which
  are not counted among the kernels.
- *equal*: the simulated results are eager's. Two graphs are too large to run, and dropout draws other numbers.
- *coalescing* and *registers* of the worst kernel; *spilled*: bytes of a thread. Below the table is why some are below 80 %.
- *predicted*: microseconds of all launches, by the model of `gpu/predict.py`; nothing was measured. *over least*: predicted over
  the roofline, launches included in both.
- *Inductor*: predicted time of the code that Inductor generates for the same graph (`peer/inductor_gpu.py`), by the same model, over
  ours: above 1 ours is faster. Of its configurations the fastest by the model is taken. Empty where its code was not generated, or
  where ours calls ATen for what Inductor generates; such calls have no predicted time.

| graph | stage | kernels | generated | equal | faults | coalescing | registers | spilled | predicted | over least | Inductor |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""


UNCOALESCED = """
Below 80 %, of 32-byte sectors in the kernel with the worst figure:

| graph | what moves more than it uses |
|---|---|
| gather, cross_entropy_50k, cross_entropy_training | the program's own indices: 4 bytes are used of the sector of each element that is gathered; of cross entropy, 8 in all, one of a row |
| scatter_add | the program's own indices, in the atomic updates |
| cat_slice_pad | every second element of the operands is used, and all sectors are moved |
| max_pool | every second element for each of the nine offsets of a window; what lies between is loaded for the other offsets, and would come from a cache |
"""
"""Text below the table."""


def page_row(row: Row) -> str:
    """The graph's row of the page."""
    generated = "yes" if not row.rejected else row.rejected
    if not row.launches:
        ran = "not run" if row.kernels else "ATen alone"
        return (
            f"| {row.name} | {row.stage} | {row.kernels} | {generated if row.kernels else '-'} | {ran} | | | | | | | |"
        )
    equal = "not compared" if GRAPHS[row.name].options else row.differs or ("no" if row.fault else "yes")
    spilled = max(each.built.spilled_bytes for each in row.launches)
    return (
        f"| {row.name} | {row.stage} | {row.kernels} | {generated} | {equal} | {row.fault or 0} | {row.coalescing:.0%} | "
        f"{row.registers} | {spilled} | {row.predicted:.1f} | {row.ratio:.2f} | "
        f"{f'{row.inductor / row.predicted:.2f}' if row.inductor else ''} |"
    )


def write_page() -> None:
    """Write the table of the 46 graphs."""
    rows = []
    for name in GRAPHS:
        rows.extend(graph(name, beside_inductor=True))
        print(rows[-1].text(), flush=True)
    ran = [row for row in rows if row.launches]
    most = max(ran, key=lambda row: row.ratio)
    summary = (
        f"{len(GRAPHS)} graphs, {len(rows)} lines: {sum(bool(row.rejected) for row in rows)} with a rejected kernel, "
        f"{len(ran)} simulated, {sum(bool(row.differs) for row in ran)} different from eager mode, "
        f"{sum(bool(row.fault) for row in ran)} faults; at most {most.ratio:.2f} times the least time ({most.name})."
    )
    compared = [row.inductor / row.predicted for row in ran if row.inductor]
    summary += (
        f" Beside Inductor: {len(compared)} lines compared, {sum(ratio >= 0.95 for ratio in compared)} of them at 0.95 "
        "or more."
    )
    bound = [row for row in ran if GRAPHS[row.name].is_memory_bound]
    worst = max(bound, key=lambda row: row.ratio)
    summary += f" Of the {len(bound)} lines whose graphs are to be bound by memory the highest is {worst.ratio:.2f} ({worst.name})."
    text = (PAGE_HEAD + "\n".join(map(page_row, rows))).replace("%", " %").replace("  %", " %")
    PAGE.write_text(f"{text}\n{UNCOALESCED}\n{summary}\n", encoding="utf-8")


def main(words: Sequence[str]) -> None:
    """Print the table, or write the page."""
    if "--write" in words:
        write_page()
        return
    print(HEAD)
    rows = []
    for _, each in _wanted(words):
        for row in each():
            rows.append(row)
            print(row.text(), flush=True)
    poor = [row for row in rows if row.launches and row.ratio > 3]
    equal = sum(bool(row.launches) and not row.fault and not row.differs for row in rows)
    print(
        f"{len(rows)} graphs; {equal} simulated and equal; {sum(bool(row.rejected) for row in rows)} with a rejected kernel; "
        f"{sum(bool(row.fault) for row in rows)} faults; {len(poor)} predicted above 3 times the least time"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
