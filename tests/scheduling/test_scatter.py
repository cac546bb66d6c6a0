"""Scatter kernels: which loops are parallel."""

from dataclasses import replace

import torch

from nbcompile.ir.buffer import Scatter
from nbcompile.ir.kernel import Nest
from nbcompile.scheduling.scatter import scatter_kernel
from tests.support.lowered import programs


def scatter(function, *inputs):
    """The scatter of a program, and its tensors."""
    program, _ = programs(function, *inputs)
    (found,) = [buffer for buffer in program.buffers if isinstance(buffer, Scatter)]
    return found, {buffer.name: buffer for buffer in program.buffers}


def rows(z, ids, g):
    return z.index_put((ids,), g, accumulate=True)


Z, IDS, G = torch.zeros(50, 64), torch.randint(0, 50, (1000,)), torch.randn(1000, 64)


def test_loops_over_disjoint_elements_are_outside():
    """Columns are different elements, so 64 of them are parallel, with lanes; rows may collide, and are sequential."""
    kernel = scatter_kernel("k", *scatter(rows, Z, IDS, G))
    (column,) = kernel.loops
    assert column.size == 64
    assert kernel.vector_variable == column.variable
    (nest,) = kernel.body
    assert isinstance(nest, Nest)
    assert [loop.size for loop in nest.loops] == [1000]


def test_no_loop_is_parallel_where_all_may_repeat():
    """No loop over the updates is parallel if all indices may be equal."""
    kernel = scatter_kernel("k", *scatter(rows, torch.zeros(50), IDS, torch.randn(1000)))
    assert kernel.loops == ()
    assert kernel.vector_variable is None


def test_on_a_gpu_all_loops_are_parallel():
    """On a GPU, updates are atomic and all loops are parallel; adjacent threads load adjacent elements."""
    buffer, tensors = scatter(rows, Z, IDS, G)
    kernel = scatter_kernel("k", replace(buffer, device=torch.device("cuda")), tensors)
    assert [loop.size for loop in kernel.loops] == [1000, 64]
    assert kernel.vector_variable == kernel.loops[-1].variable
    assert not any(isinstance(statement, Nest) for statement in kernel.body)


def test_lanes_are_along_memory():
    """If the second dimension is indexed, rows are parallel, but without lanes, because their elements are strided."""
    kernel = scatter_kernel("k", *scatter(lambda z, ids, g: z.index_add(1, ids, g), Z.t(), IDS, G.t()))
    (row,) = kernel.loops
    assert row.size == 64
