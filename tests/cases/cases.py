"""A case: a program, and what the compiler makes of it, in one page of Markdown.

    # Softmax                              what it shows
    ```python
    def program(x): ...
    inputs = (torch.randn(8, 100),)
    ```
    ## Graph ... ## Loops ... ## C++ ... ## Triton

The Python block stands; the rest is computed, compared by the test, and rewritten by ``pytest --update``.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import nbcompile
from nbcompile.aot.compile import compile_graph
from nbcompile.aot.compilers import Compilers
from nbcompile.aot.decompositions import default_table
from nbcompile.backends import compile_aten_graph
from nbcompile.codegen import cpp, triton
from nbcompile.ir import verify
from nbcompile.ir.kernel import Kernel, Schedule
from nbcompile.ir.printer import print_kernel, print_program
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule

CASES = sorted(Path(__file__).parent.glob("*.md"))
WRITTEN_OTHERWISE_BY_AOTAUTOGRAD = {
    "causal_mask": "a constant is detached",
    "creation": "a constant is detached",
    "scatter_add": "a constant is detached",
    "upsample": "a constant is detached",
    "integers": "the node is __lshift__, after the operator; ours is lshift",
    "mutation": "the node is copy__default; ours is copy_",
    "upsample_bilinear": "torch decomposes it for autograd, before any decomposition of a backend's",
}
"""Pages that show a graph as ``fast/`` traces it; on the reference path AOTAutograd does, and only results are compared."""
PROGRAM = re.compile(r"```python\n(.*?)```\n", re.DOTALL)


@dataclass(slots=True)
class Page:
    """What the stages made, in the order they made it."""

    sections: list[tuple[str, str, str]] = field(default_factory=list)
    """Title, language, text."""
    plans: list[Schedule] = field(default_factory=list)

    def add(self, title: str, language: str, text: str) -> None:
        """One section, unless there is nothing to show."""
        if text.strip():
            self.sections.append((title, language, text.strip()))

    def text(self) -> str:
        """As Markdown."""
        return "".join(f"\n## {title}\n\n```{language}\n{text}\n```\n" for title, language, text in self.sections)


def expected_and_head(path: Path) -> tuple[str, str]:
    """The page as it is, and the part of it that is written by hand."""
    page = path.read_text()
    return page, page[: next(PROGRAM.finditer(page)).end()]


def made(path: Path, stage_compiler: Any = None) -> Page:
    """Run the case's program, and note what the stages make of it.

    ``stage_compiler(page, "forward")`` gives what compiles a graph of ATen operators; that which writes the page if None.
    """
    _, head = expected_and_head(path)
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    torch.manual_seed(0)
    source = next(PROGRAM.finditer(head)).group(1)
    exec(compile(source, str(path), "exec"), names)
    page = Page()
    _run_and_compare(names["program"], names["inputs"], names.get("dynamic", False), page, stage_compiler or _shown)
    return page


def _run_and_compare(program: Any, inputs: Sequence[Any], dynamic: bool, page: Page, stage_compiler: Any) -> None:
    def backend(module: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        stages = Compilers(*(stage_compiler(page, stage) for stage in ("forward", "backward", "inference")))
        return compile_graph(module, examples, stages, decompositions=default_table(), mutate_in_graph=True)

    mine, theirs = (_fresh(inputs) for _ in range(2))
    found = nbcompile.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)(*mine)
    expected = program(*theirs)
    torch.testing.assert_close(found, expected, equal_nan=True)
    if isinstance(found, torch.Tensor) and found.requires_grad:
        found.sum().backward()
        expected.sum().backward()
        for one, two in zip(mine, theirs, strict=True):
            torch.testing.assert_close(one.grad, two.grad)
    torch.testing.assert_close(mine, theirs, equal_nan=True)  # what was mutated


def _fresh(inputs: Sequence[Any]) -> list[Any]:
    return [
        each.detach().clone().requires_grad_(each.requires_grad) if isinstance(each, torch.Tensor) else copy.copy(each)
        for each in inputs
    ]


def _shown(page: Page, stage: str) -> Any:
    """A compiler of one ATen graph that notes what each step gives."""

    def compile_one(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        suffix = "" if stage == "inference" else f", {stage}"
        program = lower(graph, keep_sharing=stage == "inference")
        verify.verify_program(program)
        planned = schedule(program, verify.verify_program)
        verify.verify_schedule(planned)
        page.plans.append(planned)
        kernels = [step for step in planned.steps if isinstance(step, Kernel)]
        page.add(f"Graph{suffix}", "text", "\n".join(map(_node, graph.graph.nodes)))
        page.add(f"Buffers{suffix}", "text", print_program(program))
        page.add(f"Loops{suffix}", "text", "\n".join(map(print_kernel, kernels)))
        page.add(f"C++{suffix}", "cpp", "\n".join(each.source for each in cpp.emit(planned).kernels))
        page.add(f"Triton{suffix}", "python", _triton(planned))
        return compile_aten_graph(graph, examples, stage)

    return compile_one


def _node(node: torch.fx.Node) -> str:
    value = node.meta.get("val")
    shape = f": {str(value.dtype).removeprefix('torch.')}{list(value.shape)}" if isinstance(value, torch.Tensor) else ""
    match node.op:
        case "placeholder":
            return f"{node.name}{shape}"
        case "output":
            return f"return {node.args[0]}"
    named = [f"{key}={each}" for key, each in node.kwargs.items()]
    return f"{node.name}{shape} = {node.target}({', '.join([*map(str, node.args), *named])})"


def _triton(planned: Any) -> str:
    try:
        return "\n\n".join(each.source.strip() + "\n" for each in triton.emit(planned).kernels)
    except triton.NoTriton as reason:
        return f"# none: {reason}"
