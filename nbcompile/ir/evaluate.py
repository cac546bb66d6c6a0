"""Reference evaluator of the loop IR: it runs programs and schedules, slowly and plainly, as the oracle of the tests.

    run(program, inputs) == run(schedule(program), inputs) == graph_module(*inputs)

Every pass is tested by this equation. A body is evaluated for all elements at
once; its loop variables are grids of int64. In a program a buffer is a
tensor; in a schedule it is flat memory, filled with sentinel values when it
is allocated, so that a wrong offset, order or reuse shows in the result.

In torch: nothing (kernels are only ever compiled). Read next:
nbcompile/ir/verify.py
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, assert_never

import sympy
import torch
from torch import nn

from nbcompile import torch_internals
from nbcompile.ir.buffer import (
    BufferView,
    Extern,
    ExternOutput,
    GraphAttribute,
    GraphInput,
    LoopBuffer,
    ModuleReference,
    Pointwise,
    Program,
    Reduction,
    Scan,
    Scatter,
    ranges,
)
from nbcompile.ir.eager_operations import combine, scan, update_element
from nbcompile.ir.evaluate_loops import KernelRun, Scope, Values
from nbcompile.ir.expr import Expr, IndexOf, Load, Local
from nbcompile.ir.index import Index, Symbol, loop_variable, reduction_variable, value_of
from nbcompile.ir.kernel import (
    Allocate,
    Free,
    Kernel,
    Loop,
    Nest,
    Reuse,
    Schedule,
)
from nbcompile.ir.layout import Layout
from nbcompile.ir.traversal import walk


def run(computation: Program | Schedule, inputs: Sequence[Any], module: nn.Module | None = None) -> list[Any]:
    """Run a program or a schedule, and return its outputs. Mutated inputs are written to.

    Args:
        computation: a program, or its schedule.
        inputs: the graph's arguments.
        module: the graph module, needed if the program loads its attributes.
    """
    program = computation if isinstance(computation, Program) else computation.program
    sizes = symbol_values(program, inputs)
    # Program and schedule run on the same memory model, so that one is the oracle of the other.
    machine = _Machine(program, sizes, inputs, module)
    if isinstance(computation, Program):
        machine.run_buffers()
    else:
        machine.run_steps(computation)
    return [machine.output(each) for each in program.outputs]


def symbol_values(program: Program, inputs: Sequence[Any]) -> dict[Symbol, int]:
    """Values of the symbolic sizes in this call."""
    found: dict[Symbol, int] = {}
    for source in program.symbols:
        value = inputs[source.position]
        if source.dim is not None:
            value = value.shape[source.dim] if source.property == "size" else value.stride(source.dim)
        found[source.symbol] = int(value)
    return found


def tabulate(body: Expr, variable: Symbol, size: int) -> list[int] | None:
    """Values of a body for each value of its single loop variable; None where it depends on anything else."""
    # A table is computed at compile time, so it may depend on nothing that a call brings.
    for node in walk(body):
        if isinstance(node, (Load, Local)) or (isinstance(node, IndexOf) and node.index.free_symbols - {variable}):
            return None
    with torch_internals.dispatch_modes()._disable_current_modes():  # numbers, also where tensors are fake
        scope = Scope({}, [variable], [size], lambda *_: torch.empty(0))
        found: list[int] = scope.full(body).tolist()
    return found


def number(body: Expr) -> bool | int | float:
    """Value of a body of constants."""
    with torch_internals.dispatch_modes()._disable_current_modes():
        found: bool | int | float = Scope({}, [], [], lambda *_: torch.empty(0)).full(body).item()
    return found


class _Machine:
    """Memory by buffer name; it is filled by the buffers of a program, or by the steps of a schedule."""

    def __init__(self, program: Program, sizes: Values, inputs: Sequence[Any], module: nn.Module | None) -> None:
        self.program = program
        self.tensors = program.tensors()
        self.sizes = sizes
        self.memory: dict[str, torch.Tensor] = {}
        """Flat memory, from the buffer's data pointer on."""
        self.results: dict[str, Any] = {}
        self.originals: dict[str, torch.Tensor] = {}
        self.module = module
        for tensor in self.tensors.values():
            match tensor:
                case GraphInput(name=name, position=position):
                    self.originals[name] = inputs[position]
                case GraphAttribute(name=name, attribute=attribute):
                    self.originals[name] = operator.attrgetter(attribute)(module)
                case _:
                    continue
            self.memory[name] = self._flat(self.originals[name])

    def _flat(self, tensor: torch.Tensor) -> torch.Tensor:
        # Memory from the first element to the last, gaps included: offsets of the schedule count in it.
        span = (
            0
            if tensor.numel() == 0
            else 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        )
        return tensor.detach().as_strided((span,), (1,))

    # -- a program --------------------------------------------------------------------------------

    def run_buffers(self) -> None:
        deferred_writes: list[tuple[Pointwise, torch.Tensor]] = []
        for buffer in self.program.buffers:
            match buffer:
                case GraphInput() | GraphAttribute():
                    continue
                case Extern():
                    self._call(buffer)
                case ExternOutput():
                    self._receive(buffer)
                case Scatter():
                    self._scatter(buffer)
                case Pointwise() | Reduction() | Scan():
                    value = self._compute(buffer)
                    if isinstance(buffer, Pointwise) and buffer.writes_to:
                        # Loads of the input elsewhere mean its old value: write after all buffers.
                        deferred_writes.append((buffer, value))
                        continue
                    # Computed before the memory is there: a body that reads its own buffer would see sentinel values.
                    self._allocate(buffer.name)
                    self._view(buffer.name).copy_(value)
                case _:
                    assert_never(buffer)
        for target, value in deferred_writes:
            self._view(target.writes_to).copy_(value)

    def _compute(self, buffer: LoopBuffer) -> torch.Tensor:
        names = list(ranges(buffer))
        sizes = [value_of(size, self.sizes) for size in ranges(buffer).values()]
        inner = len(buffer.reduced) if isinstance(buffer, Reduction) else 0
        scope = Scope(self.sizes, names, sizes, self._element)
        value = scope.full(buffer.body)
        if isinstance(buffer, Reduction):
            position = (
                scope.full(IndexOf(_row_major_index(buffer.reduced), torch.int64)) if buffer.kind[:3] == "arg" else None
            )
            # The reduced loops are the last dimensions of the grid.
            value = combine(buffer.kind, value, position, inner)
        if isinstance(buffer, Scan):
            value = scan(buffer.kind, value, scope.full(IndexOf(loop_variable(buffer.dim), torch.int64)), buffer.dim)
        return value.to(buffer.dtype)

    def _scatter(self, buffer: Scatter) -> None:
        scope = Scope(self.sizes, list(ranges(buffer)), [value_of(n, self.sizes) for n in buffer.size], self._element)
        positions = [scope.full(each).flatten() for each in buffer.position]
        # A copy, although a schedule reuses the memory: the program's own meaning does not depend on that.
        self.memory[buffer.name] = self.memory[buffer.into].clone()
        target, values = self._view(buffer.name), scope.full(buffer.body).flatten()
        for iteration in range(values.numel()):
            update_element(target, tuple(each[iteration] for each in positions), buffer.kind, values[iteration])

    def _element(self, name: str, position: tuple[torch.Tensor, ...]) -> torch.Tensor:
        view = self._view(name)
        return view[position] if position else view

    # -- a schedule -------------------------------------------------------------------------------

    def run_steps(self, schedule: Schedule) -> None:
        outputs: dict[str, list[ExternOutput]] = {
            tensor.extern: [] for tensor in self.tensors.values() if isinstance(tensor, ExternOutput)
        }
        for tensor in self.tensors.values():
            if isinstance(tensor, ExternOutput):
                outputs[tensor.extern].append(tensor)
        for step in schedule.steps:
            match step:
                case Allocate(name):
                    self._allocate(name)
                case Reuse(name, old):
                    # Without sentinel values in between: a kernel that reads the old content shows
                    # by another result.
                    self.memory[name] = self.memory.pop(old).view(self.tensors[name].dtype)
                case Free(name):
                    del self.memory[name]
                case Extern():
                    self._call(step)
                    for tensor in outputs.get(step.name, ()):
                        self._receive(tensor)
                case Kernel():
                    self._launch(step)
                case _:
                    assert_never(step)

    def _launch(self, kernel: Kernel) -> None:
        # They run in parallel on a GPU; in sequence the result is the same, as they are independent.
        for part in kernel.parts:
            self._launch(part)
        outer = _loop_sizes(kernel.loops, self.sizes)
        rows = [size for _, size in outer]
        memory = {name: self.memory[name] for name in (*kernel.reads, *kernel.writes)}
        # All outer iterations run at once here, so that each has its own row.
        scratch = {
            row.name: uninitialised((*rows, value_of(row.size, self.sizes)), row.dtype) for row in kernel.scratch
        }
        frame = KernelRun(memory, scratch, rows)
        scope = Scope(self.sizes, [v for v, _ in outer], rows, frame.load)
        for statement in kernel.body:
            match statement:
                case Nest(loops, body):
                    inner = _loop_sizes(loops, self.sizes)
                    inner_scope = scope.nested([v for v, _ in inner], [size for _, size in inner])
                    for inner_statement in body:
                        frame.execute(inner_statement, inner_scope, scope)
                case _:
                    frame.execute(statement, scope, scope)

    # -- memory and calls -------------------------------------------------------------------------

    def _allocate(self, name: str) -> None:
        tensor = self.tensors[name]
        self.memory[name] = uninitialised((value_of(tensor.layout.span, self.sizes),), tensor.dtype)

    def _view(self, name: str) -> torch.Tensor:
        return self._strided(name, self.tensors[name].layout)

    def _strided(self, name: str, layout: Layout) -> torch.Tensor:
        size, stride = ([value_of(each, self.sizes) for each in part] for part in (layout.size, layout.stride))
        flat = self.memory[name]
        return torch.as_strided(flat, size, stride, flat.storage_offset() + value_of(layout.offset, self.sizes))

    def _call(self, extern: Extern) -> None:
        args = _map_leaves(extern.args, self._argument)
        kwargs = {key: _map_leaves(each, self._argument) for key, each in extern.kwargs.items()}
        self.results[extern.name] = extern.target(*args, **kwargs)

    def _argument(self, leaf: Any) -> Any:
        match leaf:
            case BufferView(name, layout):
                return self._strided(name, layout)
            case ModuleReference(attribute):
                return operator.attrgetter(attribute)(self.module)
            case sympy.Basic():
                return number_of(leaf, self.sizes)
            case _:
                return leaf

    def _receive(self, output: ExternOutput) -> None:
        result = functools.reduce(lambda part, at: part[at], output.path, self.results[output.extern])
        size, stride = (
            [value_of(each, self.sizes) for each in part] for part in (output.layout.size, output.layout.stride)
        )
        assert list(result.shape) == size, f"{output.name}: {list(result.shape)} is not {size}"
        if list(result.stride()) != stride and result.numel():
            result = torch.empty_strided(size, stride, dtype=result.dtype, device=result.device).copy_(result)
        self.memory[output.name] = self._flat(result)

    def output(self, leaf: Any) -> Any:
        if isinstance(leaf, BufferView):
            own = self.tensors[leaf.buffer].layout
            # An output that is an input is the very same object.
            if leaf.buffer in self.originals and own == leaf.layout and not leaf.distinct:
                return self.originals[leaf.buffer]
        return self._argument(leaf)


def number_of(expression: sympy.Basic, sizes: Values) -> int | float | bool:
    """The number that a symbolic argument evaluates to."""
    result = expression.xreplace({symbol: sympy.Integer(value) for symbol, value in sizes.items()})
    if isinstance(result, sympy.logic.boolalg.BooleanAtom):
        return bool(result)
    return int(result) if getattr(result, "is_integer", False) else float(result)


def uninitialised(size: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Allocated memory, filled with sentinel values: nan, or 0x5A."""
    if dtype == torch.bool:
        return torch.ones(tuple(size), dtype=dtype)
    return torch.full(tuple(size), math.nan if dtype.is_floating_point or dtype.is_complex else 0x5A, dtype=dtype)


def _row_major_index(reduced: tuple[Index, ...]) -> Index:
    total: Index = sympy.Integer(0)
    for at, extent in enumerate(reduced):
        total = total * extent + reduction_variable(at)
    return sympy.expand(total)


def _loop_sizes(loops: tuple[Loop, ...], sizes: Values) -> list[tuple[Symbol, int]]:
    return [(loop.variable, value_of(loop.size, sizes)) for loop in loops]


def _map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return type(value)(_map_leaves(each, change) for each in value)
    if isinstance(value, dict):
        return {key: _map_leaves(each, change) for key, each in value.items()}
    return change(value)
