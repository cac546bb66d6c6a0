"""The residual program: readable Python that runs instead of the frame.

    def f(x, xs):
        graph_out = __compiled_fn_1(x)       the graph
        xs.extend([3])                       its side effects
        return graph_out[0]

It is built as a syntax tree from recipes (capture/recipe.py). Five parts write to one body (names and statements), and
each uses those before it: SourceReader reads sources, ValueBuilder reconstructs values, EffectReplay replays side
effects, GraphBreakWriter ends with a break. An object without a name in the user's code (a compiled graph, a resume
function) is written as a name and bound as a constant of the code object, so that no global of the user's module is
touched, and what is shown is what runs.

In torch: torch/_dynamo/codegen.py and output_graph.py (bytecode, not source).
Read next: nbcompile/rewriting/body.py
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType

import torch

from nbcompile import torch_internals
from nbcompile.capture.frame import Frame
from nbcompile.capture.recipe import Call, Constant, Mutation, Recipe
from nbcompile.capture.trace import CapturedGraph, GraphInput, Return, Trace
from nbcompile.rewriting.body import Body
from nbcompile.rewriting.code_object import compile_function
from nbcompile.rewriting.effects import EffectReplay, fill_container
from nbcompile.rewriting.graph_break import GraphBreakWriter
from nbcompile.rewriting.sources import SourceReader
from nbcompile.rewriting.syntax import arguments_of, assign
from nbcompile.rewriting.use_counts import single_use_tuples
from nbcompile.rewriting.values import ValueBuilder
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


def residual_program(
    frame: Frame, trace: Trace, compiled_graph: Callable[..., object] | None, failure: type[Exception] = Exception
) -> Residual:
    """Build the residual program of a trace.

    Args:
        frame: the frame that it replaces: same arguments, same free variables.
        trace: graph, mutations and exit.
        compiled_graph: takes the graph's inputs, returns its outputs as a sequence.
        failure: what it raises where an operator of the program fails.
    """
    #     random_value = random._inst.randint(1, 9)    what eager draws
    #     parameter = Parameter(self.weight, True)
    #     graph_out = __compiled_fn_1(x, random_value)
    #     value = graph_out[0]                         the value, settled
    #     xs.extend([3])                               side effects
    #     return value
    program = _Program(frame, single_use_tuples(trace.before_graph, trace.mutations, trace.exit))
    # Eager draws in the middle of the function; the graph takes the numbers as inputs, so they are drawn before it.
    # It takes new parameters, too: an object that the graph creates would be another one for autograd.
    program.call_before_graph(trace.before_graph)
    if trace.graph is not None:
        assert compiled_graph is not None
        program.call_graph(trace.graph, compiled_graph)
        if trace.reruns_on_error:
            program.or_run_as_written(failure)
    if isinstance(trace.exit, Return):
        program.return_value(trace.exit.value, trace.mutations)
    else:
        program.end.end_with_graph_break(trace.exit, trace.mutations)
    body, end = program.body, program.end
    # A ``del`` of a variable that a closure of the user's shares would be seen there.
    users = frozenset((*frame.code.co_varnames, *frame.code.co_cellvars, *frame.code.co_freevars))
    statements = delete_weak_referents(body.statements, body.constants, users)
    lines = tuple(getattr(each, "lineno", None) for each in statements)
    code, shown = compile_function(frame.code, statements, body.constants)
    return Residual(
        code,
        shown,
        tuple(end.resume_codes),
        tuple(end.python_codes),
        tuple(program.effects.replayed),
        tuple(end.carried),
        program.code_as_written,
        body.constants,
        lines,
    )


def _is_parameter(call: Recipe) -> bool:
    return isinstance(call, Call) and isinstance(call.function, Constant) and call.function.value is torch.nn.Parameter


class _Program:
    """The writers of one program over one body: calls before the graph, its own call, then the end."""

    code_as_written: CodeType | None = None

    def __init__(self, frame: Frame, single_use: frozenset[int]) -> None:
        self.body = Body(frame)
        self.sources = SourceReader(self.body)
        self.values = ValueBuilder(self.body, self.sources, fill_container, single_use)
        self.effects = EffectReplay(self.values)
        self.end = GraphBreakWriter(self.values, self.effects)

    def call_before_graph(self, calls: tuple[Recipe, ...]) -> None:
        """``random_value = random._inst.randint(1, 9)``."""
        for call in calls:
            value = self.values.make(call)
            self.sources.before_graph.append(self.body.fresh("parameter" if _is_parameter(call) else "random_value"))
            self.body.statements.append(assign(self.sources.before_graph[-1], value))

    def call_graph(self, graph: CapturedGraph, compiled: Callable[..., object]) -> None:
        """``graph_out = __compiled_fn_1(inputs...)``."""
        function = self.body.constant(compiled, graph.name)
        self.body.graph_out = self.body.fresh("graph_out")
        # ``self.layers[0]`` is read once, and not for each of its weights.
        self.sources.name_owners([each.source for each in graph.inputs])
        call = ast.Call(function, [self.graph_input(each) for each in graph.inputs], [])
        self.sources.owners.clear()  # later statements may change them
        self.body.statements.append(assign(self.body.graph_out, call))

    def or_run_as_written(self, failure: type[Exception]) -> None:
        """Run the frame's own code from its start where the graph raises: nothing was changed so far.

        So side effects before the operator that fails are there, and what is raised is caught where the user does. It
        has eager's text, too, where generated code would raise another one.
        """
        body = self.body
        # The copy is another code object, so that the hook can leave it, and what it calls, to Python.
        self.code_as_written = body.code.replace()
        handler = ast.ExceptHandler(body.constant(failure, failure.__name__), None, [assign(body.graph_out, _none())])
        # No ``raise`` in between: the exception of the graph is dropped, since the function as written raises its own.
        body.statements[-1] = ast.Try([body.statements[-1]], [handler], [], [])
        # The function object of the second run is created in the branch that needs it.
        began = len(body.statements)
        name = f"{body.code.co_name}_as_written"
        function = self.end.resume_function(self.code_as_written, body.frame.globals, {}, name)
        call = ast.Call(function, *arguments_of(body.code))
        rerun = [*body.statements[began:], ast.Return(call)]
        del body.statements[began:]
        # Outside of the handler: an exception of the second run must not have the first one as its context.
        failed = ast.Compare(ast.Name(body.graph_out, ast.Load()), [ast.Is()], [_none()])
        body.statements.append(ast.If(failed, rerun, []))

    def graph_input(self, graph_input: GraphInput) -> ast.expr:
        """The value of an input's source; a number as a tensor, where the graph takes it as one."""
        value = self.sources.fetch(graph_input.source)
        if not graph_input.as_tensor:
            return value
        return ast.Call(self.body.constant(torch_internals.number_as_tensor, "as_tensor"), [value], [])

    def return_value(self, returned: Recipe, mutations: tuple[Mutation, ...]) -> None:
        """Value first, then side effects, then the return: no effect can change the value."""
        # Without side effects nothing runs between value and return, so no local is needed.
        value = self.values.settled(returned) if mutations else self.values.make(returned)
        self.effects.replay(mutations)
        self.body.statements.append(ast.Return(value))


def _none() -> ast.expr:
    return ast.Constant(None)
