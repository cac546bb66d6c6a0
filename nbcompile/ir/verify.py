"""Verifier of the loop IR; tests run it after every pass.

    verify_program(lower(graph))
    verify_schedule(schedule(program))

In torch: nothing of the kind. Read next: nbcompile/ir/printer.py
"""

from __future__ import annotations

import torch

from nbcompile.ir.buffer import (
    PRODUCT_KINDS,
    BufferView,
    Extern,
    ExternOutput,
    GraphAttribute,
    GraphInput,
    LoopBuffer,
    Pointwise,
    Program,
    Reduction,
    Scan,
    Scatter,
    Tensor,
    ranges,
)
from nbcompile.ir.expr import NARROW_FLOATS, OPERATIONS, Apply, Constant, Expr, IndexOf, Load, Local, Masked
from nbcompile.ir.index import Index, Symbol, is_one
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
    Statement,
    Store,
    Update,
)
from nbcompile.ir.traversal import children, walk

REDUCTIONS = {"sum", "prod", "max", "min", "any", "all", "argmax", "argmin", *PRODUCT_KINDS}
SCANS = {"sum", "prod", "max", "min", "logsumexp", "argmax", "argmin"}
SCATTERS = {"store", "sum", "prod", "max", "min", "any"}


class InvalidIR(AssertionError):
    """A violated rule of the IR: a bug of the pass that produced it."""


def require(condition: bool, message: str) -> None:
    """Raise InvalidIR unless a rule holds."""
    if not condition:
        raise InvalidIR(message)


# -- programs -------------------------------------------------------------------------------------


def verify_program(program: Program) -> None:
    """Verify that every name is defined once, before its uses; that bodies are typed; and that symbols are bound."""
    # Buffers are in topological order, so one pass with a set of the defined names verifies uses and definitions.
    known: dict[str, Tensor] = {}
    calls: set[str] = set()
    names: set[str] = set()
    sizes = {source.symbol for source in program.symbols}
    for buffer in program.buffers:
        require(buffer.name not in names, f"{buffer.name} is defined twice")
        names.add(buffer.name)
        match buffer:
            case Extern():
                _verify_views(buffer.args, known)
                _verify_views(buffer.kwargs, known)
                calls.add(buffer.name)
                continue
            case ExternOutput(extern=extern):
                require(extern in calls, f"{buffer.name} is a result of {extern}, which is not called before")
            case Pointwise() | Reduction() | Scan():
                _verify_computed(buffer, known, sizes)
            case Scatter():
                _verify_scatter(buffer, known, sizes)
            case GraphInput() | GraphAttribute():
                pass
        known[buffer.name] = buffer
    _verify_views(program.outputs, known)


def _verify_views(value: object, known: dict[str, Tensor]) -> None:
    if isinstance(value, BufferView):
        require(value.buffer in known, f"{value.buffer} is used before it is defined")
    elif isinstance(value, dict):
        _verify_views(tuple(value.values()), known)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _verify_views(item, known)


def _verify_computed(buffer: LoopBuffer, known: dict[str, Tensor], sizes: set[Symbol]) -> None:
    loops = ranges(buffer)
    for size in (*buffer.layout.size, *buffer.layout.stride):
        require(size.free_symbols <= sizes, f"{buffer.name}: nothing says what {size} is")
    verify_expr(buffer.body, buffer.name)
    _verify_scope(buffer.body, set(loops) | sizes, known, buffer.name)
    if isinstance(buffer, Reduction):
        require(buffer.kind in REDUCTIONS, f"{buffer.name}: unknown reduction {buffer.kind}")
        require(buffer.body.dtype == buffer.accumulate, f"{buffer.name}: its body is not {buffer.accumulate}")
    elif isinstance(buffer, Scan):
        require(buffer.kind in SCANS, f"{buffer.name}: unknown scan {buffer.kind}")
        require(buffer.body.dtype == buffer.accumulate, f"{buffer.name}: its body is not {buffer.accumulate}")
        require(0 <= buffer.dim < len(buffer.layout.size), f"{buffer.name}: no dimension {buffer.dim}")
    else:
        require(buffer.body.dtype == buffer.dtype, f"{buffer.name}: its body is {buffer.body.dtype}")
        if buffer.writes_to:
            require(buffer.writes_to in known, f"{buffer.name} writes to {buffer.writes_to}, which is not there")


def _verify_scatter(buffer: Scatter, known: dict[str, Tensor], sizes: set[Symbol]) -> None:
    scope = set(ranges(buffer)) | sizes
    for body in (buffer.body, *buffer.position):
        verify_expr(body, buffer.name)
        _verify_scope(body, scope, known, buffer.name)
    require(buffer.kind in SCATTERS, f"{buffer.name}: unknown kind of scatter {buffer.kind}")
    require(buffer.body.dtype == buffer.dtype, f"{buffer.name}: its body is {buffer.body.dtype}")
    require(len(buffer.position) == len(buffer.layout.size), f"{buffer.name}: an index has too many or few dimensions")
    target = known.get(buffer.into)
    # Its memory is reused, so the scatter must be its only user, and have the same layout.
    require(isinstance(target, Pointwise), f"{buffer.name} goes into {buffer.into}, which is not computed before")
    assert target is not None
    require((target.dtype, target.layout) == (buffer.dtype, buffer.layout), f"{buffer.name} is not as {buffer.into}")


def _verify_scope(body: Expr, scope: set[Symbol], known: dict[str, Tensor], where: str) -> None:
    for node in walk(body):
        if isinstance(node, Load):
            require(node.buffer in known, f"{where} reads {node.buffer}, which is not defined before")
            tensor = known[node.buffer]
            # A load has the buffer's own type: a conversion is an operation.
            require(node.dtype == tensor.dtype, f"{where} reads {node.buffer} as {node.dtype}, it is {tensor.dtype}")
            require(
                len(node.index) == len(tensor.layout.size), f"{where}: {node.buffer} has not {len(node.index)} dims"
            )
            for index, extent in zip(node.index, tensor.layout.size, strict=True):
                # (A gathered index stays although the size is 1, so that its bound is checked.)
                in_bounds = (
                    not is_one(extent) or index == 0 or bool(index.free_symbols & {g.symbol for g in node.gathers})
                )
                require(in_bounds, f"{where}: index {index} of {node.buffer}, whose size is 1")
        if isinstance(node, (Load, IndexOf)):
            bound = {gather.symbol for gather in node.gathers}
            indices = node.index if isinstance(node, Load) else (node.index,)
            for index in indices:
                unbound = index.free_symbols - scope - bound
                require(not unbound, f"{where}: nothing binds {unbound}")


def verify_expr(body: Expr, where: str) -> None:
    """Verify that every operation is known, and that number and dtypes of its operands are right."""
    for node in walk(body):
        match node:
            case Apply(op, args, dtype):
                require(op in OPERATIONS, f"{where}: unknown operation {op}")
                _verify_types(op, [each.dtype for each in args], dtype, where)
            case Masked(condition, value, otherwise):
                require(condition.dtype == torch.bool, f"{where}: a mask of {condition.dtype}")
                require(value.dtype == otherwise.dtype, f"{where}: masked {value.dtype} and {otherwise.dtype}")
            case Constant(value, dtype):
                kind = bool if dtype == torch.bool else float if dtype.is_floating_point else int
                require(type(value) is kind, f"{where}: the {dtype} number {value!r}")
            case Load(gathers=gathers) | IndexOf(gathers=gathers):
                require(all(each.value.dtype == torch.int64 for each in gathers), f"{where}: an index is not int64")
            case Local():
                pass
        require(isinstance(children(node), tuple), where)


def _verify_types(op: str, args: list[torch.dtype], result: torch.dtype, where: str) -> None:
    operation = OPERATIONS[op]
    text = f"{where}: {op} of {args} as {result}"
    require(len(args) == operation.arity, text)
    # A cast may go from any type to any other.
    if op == "cast":
        return
    operands = args[1:] if op == "where" else args
    require(len(set(operands)) == 1, text)
    if op == "where":
        require(args[0] == torch.bool and result == args[1], text)
        return
    # Kernels compute in float32: of narrow types there are loads, stores, casts and ``where``, no arithmetic.
    require(operands[0] not in NARROW_FLOATS, text)
    match operation.kind:
        case "comparison":
            require(result == torch.bool, text)
        case "logical":
            require(result == operands[0] == torch.bool, text)
        case "float":
            require(result == operands[0] and result.is_floating_point, text)
        case "bitwise":
            require(result == operands[0] and not result.is_floating_point, text)
        case "random":
            require(result == operands[0] == torch.int64, text)
        case _:
            require(result == operands[0], text)


# -- schedules ------------------------------------------------------------------------------------


def verify_schedule(schedule: Schedule) -> None:
    """Verify that memory is allocated when it is used and written before it is read, and locals before their uses."""
    tensors = schedule.program.tensors()
    sizes = {source.symbol for source in schedule.program.symbols}
    memory = {name for name, tensor in tensors.items() if isinstance(tensor, (GraphInput, GraphAttribute))}
    # Two sets, since memory may be allocated and not written yet: a kernel may write to it, but not read it.
    written = set(memory)
    for step in schedule.steps:
        match step:
            case Allocate(name):
                require(name not in memory, f"{name} is allocated twice")
                memory.add(name)
            case Reuse(name, old):
                require(old in memory and name not in memory, f"{name} cannot take over {old}")
                # The memory holds the old buffer's elements: the new one counts as unwritten.
                memory = (memory - {old}) | {name}
            case Free(name):
                require(name in memory, f"{name} is freed and has no memory")
                memory.remove(name)
            case Extern(name=name):
                for view in _views(step.args, step.kwargs):
                    require(view.buffer in memory & written, f"{name} uses {view.buffer}, which is not there")
                results = {
                    tensor.name
                    for tensor in tensors.values()
                    if isinstance(tensor, ExternOutput) and tensor.extern == name
                }
                memory |= results
                written |= results
            case Kernel():
                _verify_kernel(step, tensors, memory, written, sizes)
                written |= set(step.writes)
    for view in _views(schedule.program.outputs):
        require(view.buffer in memory & written, f"the output {view.buffer} is not there at the end")


def _views(*values: object) -> list[BufferView]:
    found: list[BufferView] = []
    for value in values:
        if isinstance(value, BufferView):
            found.append(value)
        elif isinstance(value, (tuple, list, dict)):
            found += _views(*(value.values() if isinstance(value, dict) else value))
    return found


def _verify_kernel(
    kernel: Kernel, tensors: dict[str, Tensor], memory: set[str], written: set[str], sizes: set[Symbol]
) -> None:
    for name in kernel.reads:
        require(name in memory, f"{kernel.name} reads {name}, which has no memory")
        # A later pass may read what an earlier one has stored.
        require(name in written or name in kernel.writes, f"{kernel.name} reads {name}, which nothing has written")
    for name in kernel.writes:
        require(name in memory, f"{kernel.name} writes {name}, which has no memory")
    for part in kernel.parts:
        _verify_kernel(part, tensors, memory, written | {*part.writes}, sizes)
    scope = _KernelScope(kernel, tensors, sizes)
    outer = {loop.variable for loop in kernel.loops}
    for statement in kernel.body:
        scope.statement(statement, outer)


class _KernelScope:
    def __init__(self, kernel: Kernel, tensors: dict[str, Tensor], sizes: set[Symbol]) -> None:
        self.kernel, self.sizes = kernel, sizes
        self.types = {name: tensors[name].dtype for name in (*kernel.reads, *kernel.writes)}
        self.types |= {each.name: each.dtype for each in kernel.scratch}
        # Names bind in order, as in C++: a use before its Let is an error of the pass that moved it.
        self.locals: dict[str, torch.dtype] = {}

    def statement(self, statement: Statement | Inner, variables: set[Symbol]) -> None:
        where = self.kernel.name
        if isinstance(statement, Nest):
            self._nest(statement, variables)
            return
        verify_expr(statement.value, where)
        offsets = walk(statement.offset) if isinstance(statement, Update) else ()
        for node in (*walk(statement.value), *offsets):
            match node:
                case Local(name, dtype):
                    require(self.locals.get(name) == dtype, f"{where}: {name} is not defined as {dtype}")
                case Load(buffer, (index,), dtype, gathers):
                    require(self.types.get(buffer) == dtype, f"{where} reads {buffer} as {dtype}")
                    self._index(index, variables | {each.symbol for each in gathers})
                case Load():
                    require(False, f"{where}: {node.buffer} has no memory offset")
        match statement:
            case Store(buffer, offset, value):
                require(self.types.get(buffer) == value.dtype, f"{where} writes {value.dtype} into {buffer}")
                self._index(offset, variables)
            case Update(buffer, offset, value):
                require(self.types.get(buffer) == value.dtype, f"{where} writes {value.dtype} into {buffer}")
                self._index(offset.index, variables | {each.symbol for each in offset.gathers})
            case Let(name, value):
                require(name not in self.locals, f"{where}: {name} is defined twice")
                self.locals[name] = value.dtype
            case Carry(name, kind, value):
                require(kind in SCANS, f"{where}: unknown scan {kind}")
                require(name not in self.locals, f"{where}: {name} is defined twice")
                self.locals[name] = _result(statement)

    def _nest(self, nest: Nest, variables: set[Symbol]) -> None:
        outer_locals = dict(self.locals)
        inside = variables | {_variable(loop) for loop in nest.loops}
        in_order = any(isinstance(statement, Carry) for statement in nest.body)
        require(not in_order or len(nest.loops) == 1, f"{self.kernel.name}: a scan along several loops")
        for statement in nest.body:
            self.statement(statement, inside)
        # What an iteration binds ends with it; only the results of reductions are left.
        self.locals = outer_locals
        for statement in nest.body:
            if isinstance(statement, Accumulate):
                require(statement.name not in self.locals, f"{self.kernel.name}: {statement.name} is defined twice")
                self.locals[statement.name] = _result(statement)

    def _index(self, index: Index, scope: set[Symbol]) -> None:
        unbound = index.free_symbols - scope - self.sizes
        require(not unbound, f"{self.kernel.name}: nothing binds {unbound} in {index}")


def _result(statement: Accumulate | Carry) -> torch.dtype:
    return torch.int64 if statement.kind in ("argmax", "argmin") else statement.value.dtype


def _variable(loop: Loop) -> Symbol:
    return loop.variable
