"""The residual program: readable Python that runs instead of the frame.

    def f(x, xs):
        graph_out = __compiled_fn_1(x)       the graph
        xs.extend([3])                       its side effects
        return graph_out[0]

It is built as a syntax tree from recipes (capture/recipe.py), by one class in
layers, a module each: body (names), addresses (reading sources), values
(reconstruction), effects (replay of side effects), graph_break; and here the
order of all. An object without a name in the user's code (a compiled graph,
a resume function) is written as a name and bound as a constant of the code
object, so that no global of the user's module is touched, and what is shown is
what runs.

In torch: torch/_dynamo/codegen.py and output_graph.py (bytecode, not source).
Read next: nbcompile/rewriting/body.py
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType

from nbcompile import torch_internals
from nbcompile.capture.frame import Frame
from nbcompile.capture.recipe import Mutation, Recipe
from nbcompile.capture.trace import CapturedGraph, GraphInput, Return, Trace
from nbcompile.rewriting.code_object import compile_function
from nbcompile.rewriting.graph_break import GraphBreakBody
from nbcompile.rewriting.syntax import arguments_of, assign
from nbcompile.rewriting.use_counts import single_use_tuples
from nbcompile.rewriting.weak_referents import delete_weak_referents


@dataclass(frozen=True, slots=True)
class Residual:
    """A residual program, to run and to read."""

    code: CodeType
    source: str
    resume_codes: tuple[CodeType, ...] = ()
    """Resume functions in the order of the break's resume points, then of the callers', innermost first."""
    python_codes: tuple[CodeType, ...] = ()
    """Generated functions that are not compiled themselves; functions that they call may be."""
    effects: tuple[tuple[str, str], ...] = ()
    """Mutated object and replaying statements of each side effect."""
    carried: tuple[tuple[tuple[str, str, str], ...], ...] = ()
    """Name, expression and kind of each argument, per resume function."""
    code_as_written: CodeType | None = None
    """The frame's own code once more, which runs where the graph raises; nothing that it calls is compiled."""
    kept: Mapping[str, object] = field(default_factory=dict)
    """Objects that are constants of the program, by their names in the source."""
    lines: tuple[int | None, ...] = ()
    """The user's line of each statement, where it is not the function's first."""


def residual_program(frame: Frame, trace: Trace, compiled_graph: Callable[..., object] | None) -> Residual:
    """Build the residual program of a trace.

    Args:
        frame: the frame that it replaces: same arguments, same free variables.
        trace: graph, mutations and exit.
        compiled_graph: takes the graph's inputs, returns its outputs as a sequence.
    """
    program = _Program(frame)
    program.needed_once = single_use_tuples(trace.draws, trace.mutations, trace.exit)
    program.draw(trace.draws)
    if trace.graph is not None:
        assert compiled_graph is not None
        program.call_graph(trace.graph, compiled_graph)
        if trace.runs_again:
            program.or_run_as_written()
    if isinstance(trace.exit, Return):
        program.return_value(trace.exit.value, trace.mutations)
    else:
        program.end_with_graph_break(trace.exit, trace.mutations)
    users = frozenset((*frame.code.co_varnames, *frame.code.co_cellvars, *frame.code.co_freevars))
    statements = delete_weak_referents(program.statements, program.constants, users)
    lines = tuple(getattr(each, "lineno", None) for each in statements)
    code, shown = compile_function(frame.code, statements, program.constants)
    return Residual(
        code,
        shown,
        tuple(program.resume_codes),
        tuple(program.python_codes),
        tuple(program.effects),
        tuple(program.carried),
        program.code_as_written,
        program.constants,
        lines,
    )


class _Program(GraphBreakBody):
    """A whole program: random numbers are drawn first, then the graph is called."""

    code_as_written: CodeType | None = None

    def draw(self, draws: tuple[Recipe, ...]) -> None:
        """``random_value = random._inst.randint(1, 9)``."""
        for draw in draws:
            value = self.make(draw)
            self.drawn.append(self.fresh("random_value"))
            self.statements.append(assign(self.drawn[-1], value))

    def call_graph(self, graph: CapturedGraph, compiled: Callable[..., object]) -> None:
        """``graph_out = __compiled_fn_1(inputs...)``."""
        function = self.constant(compiled, graph.name)
        self.graph_out = self.fresh("graph_out")
        self.name_owners([each.source for each in graph.inputs])
        call = ast.Call(function, [self.graph_input(each) for each in graph.inputs], [])
        self.owners.clear()  # what follows may change them
        self.statements.append(assign(self.graph_out, call))

    def or_run_as_written(self) -> None:
        """Run the frame's own code from its start where the graph raises: nothing was changed so far.

        So side effects before the operator that fails are there, and what is raised is caught where the user does.
        """
        self.code_as_written = self.frame.code.replace()
        handler = ast.ExceptHandler(self.constant(Exception, "Exception"), None, [assign(self.graph_out, _none())])
        self.statements[-1] = ast.Try([self.statements[-1]], [handler], [], [])
        began = len(self.statements)
        name = f"{self.code.co_name}_as_written"
        function = self.resume_function(self.code_as_written, self.frame.globals, {}, name)
        call = ast.Call(function, *arguments_of(self.code))
        rerun = [*self.statements[began:], ast.Return(call)]
        del self.statements[began:]
        failed = ast.Compare(ast.Name(self.graph_out, ast.Load()), [ast.Is()], [_none()])
        self.statements.append(ast.If(failed, rerun, []))

    def graph_input(self, graph_input: GraphInput) -> ast.expr:
        """The value of an input's source; a number as a tensor, where the graph takes it as one."""
        value = self.fetch(graph_input.source)
        if not graph_input.as_tensor:
            return value
        return ast.Call(self.constant(torch_internals.number_as_tensor, "as_tensor"), [value], [])

    def return_value(self, returned: Recipe, mutations: tuple[Mutation, ...]) -> None:
        """Value first, then side effects, then the return: no effect can change the value."""
        value = self.settled(returned) if mutations else self.make(returned)
        self.replay(mutations)
        self.statements.append(ast.Return(value))


def _none() -> ast.expr:
    return ast.Constant(None)
