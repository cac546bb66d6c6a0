"""One function through all stages: read this first, with the folder of each stage open next to it."""

from __future__ import annotations

import builtins
import types

import pytest
import torch

import nbcompile
from nbcompile.aot.compile import compile_graph
from nbcompile.aot.compilers import Compilers
from nbcompile.bytecode.disassemble import disassemble
from nbcompile.capture.frame import Frame
from nbcompile.capture.resolution import resolve
from nbcompile.codegen import cpp
from nbcompile.guarding.check import build_check
from nbcompile.ir.printer import print_program, print_schedule
from nbcompile.lowering import lower
from nbcompile.options import Options
from nbcompile.rewriting.residual import residual_program
from nbcompile.runtime import program as runtime, toolchain
from nbcompile.scheduling import schedule
from nbcompile.tracing import tracer
from nbcompile.tracing.inputs.dynamism import Dynamism


def f(x, y):
    return torch.relu(x + y).sum(-1)


def test_each_stage():
    """The input and output of each stage, in the order of CONTRIBUTING.md; ``driver/stages.py`` does the same."""
    x, y = torch.randn(4, 8), torch.randn(8)
    frame = Frame(f.__code__, {"x": x, "y": y}, globals(), vars(builtins))
    assert [step.opcode for step in disassemble(f.__code__)][-2:] == ["CALL", "RETURN_VALUE"]
    trace = tracer.trace(frame, Options(), Dynamism(False))
    assert "relu" in str(trace.graph.module.graph)

    def compile_aten(module, inputs):
        compiler = toolchain.find()
        if isinstance(compiler, toolchain.NoCompiler):
            pytest.skip(compiler.reason)
        program = lower(module)  # operators become buffers: one loop body each
        assert "sum" in print_program(program)
        plan = schedule(program)  # buffers become kernels
        assert len([*plan.kernels()]) == 1
        assert "buf" in print_schedule(plan)
        emitted = cpp.emit(plan)  # kernels become text
        assert "for (" in emitted.source
        return runtime.load(emitted, compiler)

    inputs = [resolve(entry.source, frame.scope()) for entry in trace.graph.inputs]
    compiled_graph = compile_graph(trace.graph.module, inputs, Compilers(compile_aten, compile_aten, compile_aten))
    check = build_check(trace.guards(), frame)
    assert check.holds(frame.scope())
    assert not check.holds(Frame(f.__code__, {"x": y, "y": y}, globals(), vars(builtins)).scope())
    residual = residual_program(frame, trace, compiled_graph)
    torch.testing.assert_close(types.FunctionType(residual.code, globals())(x, y), f(x, y))
    torch.testing.assert_close(nbcompile.compile(f)(x, y), f(x, y))
