"""Small schedules, written by hand, and functions to run them: for tests of codegen and runtime."""

import torch

from nbcompile.ir.buffer import BufferView, GraphInput, Pointwise, Program, Reduction
from nbcompile.ir.expr import Load, Local, cast, compute_dtype
from nbcompile.ir.index import loop_variable, loop_variables, reduction_variable
from nbcompile.ir.kernel import Accumulate, Allocate, Kernel, Loop, Nest, Schedule, Store
from nbcompile.ir.layout import contiguous, of_tensor

CPU = torch.device("cpu")


def inputs_of(tensors):
    """Graph inputs x0, x1, ... with the tensors' own layouts."""
    return tuple(GraphInput(f"x{at}", each.dtype, CPU, of_tensor(each), at) for at, each in enumerate(tensors))


def element(graph_input, position=None, computed=True):
    """Load one element in a kernel, in the dtype of the computation."""
    position = loop_variables(len(graph_input.layout.size)) if position is None else position
    load = Load(graph_input.name, (graph_input.layout.at(position),), graph_input.dtype)
    return cast(load, compute_dtype(graph_input.dtype)) if computed else load


def pointwise(tensors, bodies):
    """One kernel for each body: ``bodies`` maps names to functions of the inputs' elements."""
    given = inputs_of(tensors)
    shape = given[0].layout.size
    buffers, steps, outputs = list(given), [], []
    for name, function in bodies.items():
        body = function(*map(element, given))
        result = Pointwise(name, body.dtype, CPU, contiguous(shape), body, (name,))
        loops = tuple(Loop(loop_variable(at), size) for at, size in enumerate(shape))
        store = Store(name, result.layout.at(loop_variables(len(shape))), body)
        reads = tuple(each.name for each in given)
        kernel = Kernel(
            f"kernel_{name}",
            CPU,
            loops,
            (store,),
            (),
            reads,
            (name,),
            (name,),
            (name,),
            loops[-1].variable if loops else None,
        )
        buffers.append(result)
        steps += [Allocate(name), kernel]
        outputs.append(BufferView(name, result.layout))
    return Schedule(Program(tuple(buffers), tuple(outputs), len(given)), tuple(steps))


def reduction(tensor, kind, columns=False, accumulate=None, dtype=None):
    """Reduce a matrix along its rows (or down its columns)."""
    (given,) = inputs_of([tensor])
    kept, along = (1, 0) if columns else (0, 1)
    outer, inner = loop_variable(0), reduction_variable(0)
    position = (inner, outer) if columns else (outer, inner)
    body = element(given, position)
    if accumulate:
        body = cast(body, accumulate)
    out_dtype = dtype or (torch.int64 if kind.startswith("arg") else tensor.dtype)
    result = Reduction(
        "total",
        out_dtype,
        CPU,
        contiguous((given.layout.size[kept],)),
        body,
        kind,
        (given.layout.size[along],),
        body.dtype,
        ("total",),
    )
    local = torch.int64 if kind.startswith("arg") else body.dtype

    kernel = Kernel(
        "kernel_total", CPU, (Loop(outer, given.layout.size[kept]),),
        (Nest((Loop(inner, given.layout.size[along]),), (Accumulate("total", kind, body, inner),)),
         Store("total", outer, cast(Local("total", local), out_dtype))),
        (), (given.name,), ("total",), ("total",), ("total",), outer if columns else inner,
    )  # fmt: skip
    return Schedule(Program((given, result), (BufferView("total", result.layout),), 1), (Allocate("total"), kernel))
