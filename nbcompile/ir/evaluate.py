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
from collections.abc import Callable, Mapping, Sequence
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
from nbcompile.ir.expr import Apply, Constant, Expr, Gather, IndexOf, Load, Local, Masked, walk
from nbcompile.ir.index import FloorDiv, Index, Mod, Symbol, loop_variable, reduction_variable, value_of
from nbcompile.ir.kernel import (
    Accumulate,
    Allocate,
    Carry,
    Free,
    Inner,
    Kernel,
    Let,
    Loop,
    Nest,
    Reuse,
    Schedule,
    Store,
    Update,
)
from nbcompile.ir.layout import Layout

Values = Mapping[Symbol, int]


def run(computation: Program | Schedule, inputs: Sequence[Any], module: nn.Module | None = None) -> list[Any]:
    """Run a program or a schedule, and return its outputs. Mutated inputs are written to.

    Args:
        computation: a program, or its schedule.
        inputs: the graph's arguments.
        module: the graph module, needed if the program loads its attributes.
    """
    program = computation if isinstance(computation, Program) else computation.program
    sizes = symbol_values(program, inputs)
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
    for node in walk(body):
        if isinstance(node, (Load, Local)) or (isinstance(node, IndexOf) and node.index.free_symbols - {variable}):
            return None
    with torch_internals.dispatch_modes()._disable_current_modes():  # numbers, also where tensors are fake
        scope = _Scope(_Machine(Program((), (), 0), {}, (), None), [variable], [size], lambda *_: torch.empty(0))
        found: list[int] = scope.full(body).tolist()
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
        scope = _Scope(self, names, sizes, self._element)
        value = scope.full(buffer.body)
        if isinstance(buffer, Reduction):
            position = (
                scope.full(IndexOf(_row_major_index(buffer.reduced), torch.int64)) if buffer.kind[:3] == "arg" else None
            )
            value = combine(buffer.kind, value, position, inner)
        if isinstance(buffer, Scan):
            value = scan(buffer.kind, value, scope.full(IndexOf(loop_variable(buffer.dim), torch.int64)), buffer.dim)
        return value.to(buffer.dtype)

    def _scatter(self, buffer: Scatter) -> None:
        scope = _Scope(self, list(ranges(buffer)), [value_of(n, self.sizes) for n in buffer.size], self._element)
        positions = [scope.full(each).flatten() for each in buffer.position]
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
        for part in kernel.parts:
            self._launch(part)
        outer = _loop_sizes(kernel.loops, self.sizes)
        rows = [size for _, size in outer]
        memory = {name: self.memory[name] for name in (*kernel.reads, *kernel.writes)}
        scratch = {
            row.name: uninitialised((*rows, value_of(row.size, self.sizes)), row.dtype) for row in kernel.scratch
        }
        frame = _Frame(self, memory, scratch, rows)
        scope = _Scope(self, [v for v, _ in outer], rows, frame.load)
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
            if leaf.buffer in self.originals and own == leaf.layout and not leaf.apart:
                return self.originals[leaf.buffer]
        return self._argument(leaf)


class _Scope:
    """A loop nest: its variables as grids, and the locals that are defined so far."""

    def __init__(
        self, machine: _Machine, names: Sequence[Symbol], sizes: Sequence[int],
        load: Callable[[str, tuple[torch.Tensor, ...]], torch.Tensor],
    ) -> None:  # fmt: skip
        self.machine = machine
        self.names, self.shape, self.load = list(names), list(sizes), load
        self.locals: dict[str, torch.Tensor] = {}
        self.parent: _Scope | None = None
        self.grids: dict[Symbol, torch.Tensor] = {
            name: torch.arange(size).reshape([-1 if n == at else 1 for n in range(len(sizes))])
            for at, (name, size) in enumerate(zip(names, sizes, strict=True))
        }

    def nested(self, names: Sequence[Symbol], sizes: Sequence[int]) -> _Scope:
        inner = _Scope(self.machine, [*self.names, *names], [*self.shape, *sizes], self.load)
        inner.parent = self
        return inner

    def full(self, body: Expr) -> torch.Tensor:
        """The body's value for every iteration."""
        return self.value(body, None, {}).expand(self.shape)

    def local(self, name: str) -> torch.Tensor:
        if name in self.locals:
            return self.locals[name]
        assert self.parent is not None, f"{name} is not defined here"
        outer = self.parent.local(name)
        return outer.reshape(*outer.shape, *[1] * (len(self.shape) - len(self.parent.shape)))

    def value(self, body: Expr, mask: torch.Tensor | None, bound: Mapping[Symbol, torch.Tensor]) -> torch.Tensor:
        match body:
            case Constant(number, dtype):
                return torch.full([1] * len(self.shape), number, dtype=dtype)
            case IndexOf(index, dtype, gathers):
                return self.evaluate_index(index, self.gather_symbols(gathers, mask, bound)).to(dtype)
            case Local(name):
                return self.local(name)
            case Apply(operation, args, dtype):
                result = EVALUATE[operation](
                    *(self.value(each, mask, bound) for each in args), *([dtype] if operation == "cast" else [])
                )
                assert isinstance(result, torch.Tensor)
                assert result.dtype == dtype, f"{operation} gives {result.dtype}, the tree says {dtype}"
                return result
            case Masked(condition, value, otherwise):
                holds = self.value(condition, mask, bound)
                inner_mask = holds if mask is None else holds & mask
                outer_mask = ~holds if mask is None else ~holds & mask
                return torch.where(
                    holds, self.value(value, inner_mask, bound), self.value(otherwise, outer_mask, bound)
                )
            case Load(buffer, index, dtype, gathers):
                symbols = self.gather_symbols(gathers, mask, bound)
                indices = tuple(self.evaluate_index(each, symbols) for each in index)
                if mask is not None:
                    indices = tuple(torch.where(mask, index, 0) for index in indices)
                    if not mask.any():
                        return torch.zeros([1] * len(self.shape), dtype=dtype)
                result = self.load(buffer, indices)
                assert result.dtype == dtype, f"{buffer} is {result.dtype}, the load says {dtype}"
                return result.reshape([1] * len(self.shape)) if result.dim() == 0 else result
            case _:
                assert_never(body)

    def gather_symbols(
        self, gathers: tuple[Gather, ...], mask: torch.Tensor | None, bound: Mapping[Symbol, torch.Tensor]
    ) -> dict[Symbol, torch.Tensor]:
        symbols = dict(bound)
        for gather in gathers:
            found = self.value(gather.value, mask, bound)
            size = value_of(gather.size, self.machine.sizes)
            if mask is not None:
                found = torch.where(mask, found, 0)
            if bool(((found < (-size if gather.wraps else 0)) | (found >= size)).any()) and 0 not in self.shape:
                raise IndexError("index out of range in self")
            symbols[gather.symbol] = torch.where(found < 0, found + size, found)
        return symbols

    def evaluate_index(self, expression: Index, symbols: Mapping[Symbol, torch.Tensor]) -> torch.Tensor:
        """An index expression for every iteration."""
        if isinstance(expression, sympy.Integer):
            return torch.full([1] * len(self.shape), int(expression))
        if isinstance(expression, sympy.Symbol):
            if expression in symbols:
                return symbols[expression]
            if expression in self.grids:
                return self.grids[expression]
            return torch.full([1] * len(self.shape), self.machine.sizes[expression])
        parts = [self.evaluate_index(each, symbols) for each in expression.args]
        if isinstance(expression, sympy.Add):
            return functools.reduce(operator.add, parts)
        if isinstance(expression, sympy.Mul):
            return functools.reduce(operator.mul, parts)
        if isinstance(expression, FloorDiv):
            return torch.div(parts[0], parts[1], rounding_mode="floor")
        if isinstance(expression, (Mod, sympy.Mod)) or type(expression).__name__ == "PythonMod":
            return torch.remainder(parts[0], parts[1])
        if isinstance(expression, sympy.Pow):
            return torch.pow(parts[0], parts[1])
        extremum = {"Max": torch.maximum, "Min": torch.minimum}.get(type(expression).__name__)
        if extremum is not None:
            return functools.reduce(extremum, parts)
        raise NotImplementedError(f"{type(expression).__name__} in the index {expression}")


class _Frame:
    """One launch of a kernel: its pointers, and the scratch rows of every outer iteration."""

    def __init__(
        self, machine: _Machine, memory: dict[str, torch.Tensor], scratch: dict[str, torch.Tensor], rows: list[int]
    ) -> None:
        self.machine, self.memory, self.scratch, self.rows = machine, memory, scratch, rows

    def _row(self, name: str, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ndim = index.dim()
        outer = [torch.arange(n).reshape([-1 if m == at else 1 for m in range(ndim)]) for at, n in enumerate(self.rows)]
        return (*outer, index)

    def load(self, name: str, position: tuple[torch.Tensor, ...]) -> torch.Tensor:
        (index,) = position
        if name in self.scratch:
            return self.scratch[name][self._row(name, index)]
        return self.memory[name][index]

    def execute(self, statement: Inner, scope: _Scope, outer: _Scope) -> None:
        match statement:
            case Let(name, value):
                scope.locals[name] = scope.full(value)
            case Store(name, offset, value):
                result = scope.full(value)
                index = scope.evaluate_index(offset, {}).expand(scope.shape)
                if name in self.scratch:
                    self.scratch[name][self._row(name, index)] = result
                else:
                    assert self.memory[name].dtype == result.dtype, f"{name} is not {result.dtype}"
                    self.memory[name][index] = result
            case Update(name, position, value, kind):
                changes = zip(scope.full(position).flatten(), scope.full(value).flatten(), strict=True)
                for element, new in changes:
                    update_element(self.memory[name], (element,), kind, new)
            case Accumulate(name, kind, value, where):
                inner = len(scope.shape) - len(outer.shape)
                indices = scope.evaluate_index(where, {}).expand(scope.shape) if kind[:3] == "arg" else None
                outer.locals[name] = combine(kind, scope.full(value), indices, inner)
            case Carry(name, kind, value, where):
                scope.locals[name] = scan(
                    kind, scope.full(value), scope.evaluate_index(where, {}).expand(scope.shape), -1
                )
            case _:
                assert_never(statement)


def update_element(target: torch.Tensor, position: tuple[torch.Tensor, ...], kind: str, value: torch.Tensor) -> None:
    """Update an element: store the value, or combine it with the old one."""
    target[position] = value if kind == "store" else combine(kind, torch.stack((target[position], value)), None, 1)


def combine(kind: str, value: torch.Tensor, index: torch.Tensor | None, inner: int) -> torch.Tensor:
    """A reduction over the last ``inner`` dimensions."""
    flat = value.reshape(*value.shape[: value.dim() - inner], math.prod(value.shape[value.dim() - inner :]))
    if index is not None:
        best = (flat.argmax if kind == "argmax" else flat.argmin)(-1, keepdim=True)
        flat_indices = index.reshape(flat.shape)
        winner = flat.gather(-1, best)
        equal = (flat == winner) | (flat.isnan() & winner.isnan() if flat.is_floating_point() else False)
        return torch.where(equal, flat_indices, torch.iinfo(torch.int64).max).amin(-1)
    match kind:
        case "sum" | "dot" | "dot_tf32":
            return flat.sum(-1, dtype=flat.dtype)
        case "prod":
            return flat.prod(-1, dtype=flat.dtype)
        case "max":
            return flat.amax(-1)
        case "min":
            return flat.amin(-1)
        case "any":
            return flat.any(-1)
        case "all":
            return flat.all(-1)
        case _:
            raise ValueError(f"unknown reduction {kind!r}")


def scan(kind: str, value: torch.Tensor, index: torch.Tensor, dim: int) -> torch.Tensor:
    """A scan along a dimension: each element combined with those before it."""
    match kind:
        case "sum":
            return value.cumsum(dim, dtype=value.dtype)
        case "prod":
            return value.cumprod(dim, dtype=value.dtype)
        case "logsumexp":
            return value.logcumsumexp(dim)
        case "max" | "min" | "argmax" | "argmin":
            best, where = (torch.cummax if kind.endswith("max") else torch.cummin)(value, dim)
            return index.gather(dim, where) if kind.startswith("arg") else best
        case _:
            raise ValueError(f"unknown scan {kind!r}")


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


def _trunc_div(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.div(a, b, rounding_mode="trunc")


def _cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype)


def _philox(seed: torch.Tensor, counter: torch.Tensor) -> torch.Tensor:
    """Philox4x32-10: ten rounds over four words of 32 bits, each held in an int64."""
    word = 0xFFFFFFFF
    keys = [seed & word, seed >> 32 & word]
    words = [counter & word, counter >> 32 & word, torch.zeros_like(counter), torch.zeros_like(counter)]
    for _ in range(10):
        odd, even = words[2] * 0xCD9E8D57, words[0] * 0xD2511F53
        words = [odd >> 32 & word ^ words[1] ^ keys[0], odd & word, even >> 32 & word ^ words[3] ^ keys[1], even & word]
        keys = [keys[0] + 0x9E3779B9 & word, keys[1] + 0xBB67AE85 & word]
    return words[0] | words[1] << 32


def _ndtr(x: torch.Tensor) -> torch.Tensor:
    """The normal distribution in float64: torch's float32 result has no significant digit far below zero."""
    return (torch.special.erfc(x.double() * -math.sqrt(0.5)) / 2).to(x.dtype)


def _gelu(x: torch.Tensor) -> torch.Tensor:
    wide = x.double()
    return (wide * _ndtr(wide)).to(x.dtype)


def _maximum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The maximum; of two zeros the second. torch's own choice depends on alignment (vector or scalar loop)."""
    return torch.where((a > b) | a.isnan(), a, b)


def _minimum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where((a < b) | a.isnan(), a, b)


_TORCH_FUNCTIONS = (
    "add sub mul div fmax fmin remainder fmod pow neg abs sign atan2 hypot copysign nextafter floor "
    "ceil trunc round sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sigmoid tanh erf sin cos tan asin acos "
    "atan sinh cosh asinh acosh atanh erfc erfinv lgamma digamma eq ne lt le gt ge isnan isinf signbit logical_and "
    "logical_or logical_not bitwise_and bitwise_or bitwise_xor bitwise_not where"
)
EVALUATE: dict[str, Callable[..., torch.Tensor]] = {
    **{name: getattr(torch, name) for name in _TORCH_FUNCTIONS.split()},
    "maximum": _maximum,
    "minimum": _minimum,
    "ndtr": _ndtr,
    "gelu": _gelu,
    "floor_div": torch.floor_divide,
    "trunc_div": _trunc_div,
    "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift,
    "philox": _philox,
    "cast": _cast,
}
"""Implementation of each operation of expr.OPERATIONS."""
