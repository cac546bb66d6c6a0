"""The FX graph of one frame, under construction.

Each traced operator becomes a node and runs at once on fake tensors, so that the
shape, dtype and exceptions of its result are known. Inputs are added at their
first use and named after their source.

    L['x'] + 1        placeholder l_x_ ; call_function operator.add (l_x_, 1)

In torch: torch/_dynamo/output_graph.py. Read next: nbcompile/tracing/frame/translator.py
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx

from nbcompile import annotations as marks, torch_internals
from nbcompile.capture import nested_regions, operator_warnings
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.node_meta import EXAMPLE, STACK
from nbcompile.capture.resolution import kind_of_member
from nbcompile.capture.source import ParameterSource, Source, steps
from nbcompile.capture.trace import CapturedGraph
from nbcompile.options import Options
from nbcompile.record import recorder
from nbcompile.record.model import StackLine
from nbcompile.tracing import breaks
from nbcompile.tracing.exceptions import MustBreakEarlier
from nbcompile.tracing.graph import autograd_graph
from nbcompile.tracing.graph.body import Body, Value
from nbcompile.tracing.graph.fake_run import FakeRun
from nbcompile.tracing.graph.module_calls import ModuleCalls
from nbcompile.tracing.graph.purity import Purity
from nbcompile.tracing.graph.unused_nodes import drop_modes_without_effect, drop_unused_numbers
from nbcompile.tracing.inputs.dynamism import Dynamism
from nbcompile.tracing.inputs.graph_inputs import GraphInputs


@dataclass(frozen=True, slots=True)
class FailedNode:
    """An operator that fails on its inputs; saved only for views."""

    op: str
    target: str | Callable[..., object]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    names: Mapping[torch.fx.Node, str]
    """The user's names for tensors."""
    stack: tuple[StackLine, ...]
    error: BaseException


class OutputGraph:
    """Nodes, inputs and guards of one frame."""

    def __init__(self, frame: Frame, options: Options, dynamism: Dynamism) -> None:
        self.left_unread: list[Any] = []
        """Attributes that were read lazily: also an unused one is guarded to exist, as it may be read again."""
        self.frame = frame
        self.options = options
        self.dynamism = dynamism
        self.transform_answers = {function: function() for function in torch_internals.TRANSFORM_QUESTIONS}
        """Results of the functions about states that transforms change, at the entry of the frame."""
        self.autocast_dtypes = {device: function() for device, function in torch_internals.AUTOCAST_DTYPES.items()}
        """The dtype of autocast on each type of device at the entry of the frame."""
        symbols: dict[object, torch.fx.Node] = {}
        self.root = self.body = Body(None, symbols, may_change=True)
        self.has_bodies = False
        """True if another body exists or existed: its values may not be used outside of it."""
        self.modules: dict[str, torch.fx.GraphModule] = {}
        """The bodies that are arguments of operators of the graph, by name."""
        self.inputs = GraphInputs(self.root.graph, symbols, options, dynamism)
        self.shape_env = self.inputs.shape_env
        self.fake_mode = self.inputs.fake_mode
        self.errors_on_break = marks.errors_on_break()
        """Inside of ``torch._dynamo.error_on_graph_break(True)``: a break is an error, as with ``fullgraph=True``."""
        self.module_calls = ModuleCalls()
        self.guards: dict[tuple[object, ...], Guard] = {}
        self.looked_up: dict[type, tuple[Source, dict[str, str]]] = {}
        """Names that were looked up on each class, with what was found, and the source of the class."""
        self.stack: Callable[[], tuple[StackLine, ...]] = tuple
        self.names: Callable[[], Mapping[torch.fx.Node, str]] = dict
        self.warnings: list[operator_warnings.OperatorWarning] = []
        """Warnings of the operators; they are shown when the graph is finished."""
        self.failed: FailedNode | None = None
        """The last operator that failed."""
        self.began_with_grad = torch._C.is_grad_enabled()
        self.began_in_inference = torch.is_inference_mode_enabled()
        self.modes: dict[object, tuple[Any, ...]] = {}
        """Inference modes that are active now, each with the transforms of torch.func at its beginning."""
        self.must_break: set[str] = set()
        """Operations that an earlier attempt traced, and that must break the graph."""
        self.freed_by_gradients: set[Any] = set()
        """Nodes of autograd's graph whose saved tensors a traced derivative frees."""
        self.purity = Purity()
        self.fake_run = FakeRun(self.inputs, self.purity, self.warnings)
        self.is_caught = False
        """True if the operator is inside a ``try`` of the program."""
        self.new_leaves: list[torch.fx.Node] = []
        """Intermediate results whose ``requires_grad_()`` was called."""

    @property
    def graph(self) -> torch.fx.Graph:
        """The graph to which nodes are added now."""
        return self.body.graph

    # -- bodies --------------------------------------------------------------------------

    @contextmanager
    def inside(self, body: Body) -> Iterator[Body]:
        """Add nodes to a body until the context ends."""
        around, self.body = self.body, body
        self.has_bodies = True
        try:
            yield body
        finally:
            self.body = around

    def new_body(self, parent: Body | None = None, *, may_change: bool = False) -> Body:
        """The body of a function that is an argument of an operator."""
        return Body(parent or self.body, self.inputs.symbols, may_change=may_change)

    def may_change(self, owner: Value | None) -> None:
        """Break if the body that is traced changes an object that exists outside of it (None: a global)."""
        # A change must stay inside of the innermost body that owns the object: an operator runs each body between here
        # and there, and decides how often.
        body: Body | None = self.body
        while body is not None and (owner is None or body.is_outside(owner)):
            if not body.may_change:
                changed = "a global" if owner is None else owner.describe()
                raise breaks.unsupported(breaks.BODY_EFFECT, changed, name="an operator", changed=changed)
            body = body.parent

    def install(self, name: str, body: Body) -> torch.fx.Node:
        """Install a finished body as an attribute of the graph, ``name_0``; return the node that reads it."""
        # The root of the module is a dict: fx looks attributes up in it by name.
        name = next(each for number in itertools.count() if (each := f"{name}_{number}") not in self.modules)
        self.modules[name] = torch.fx.GraphModule(self.modules, body.graph)
        return self.installed(name)

    def installed(self, name: str) -> torch.fx.Node:
        """A node that reads a body which already is an attribute of the graph."""
        node = self.graph.get_attr(name)
        node.meta[EXAMPLE] = self.modules[name]
        node.meta[STACK] = self.stack()
        return node

    # -- guards --------------------------------------------------------------------------

    def guard(self, source: Source | None, kind: GuardKind, expected: object = None) -> None:
        """Add a guard, once; none on a parameter that the program creates."""
        if source is not None and self.inputs.has_parameters and any(map(_is_new_parameter, steps(source))):
            return
        # The key leaves out the stack: a guard that many lines need is added once, with the first of these lines.
        guard = Guard(source, kind, expected, ())
        key = guard.key()
        if key not in self.guards:
            self.guards[key] = Guard(source, kind, expected, self.stack())

    def note_member(self, source: Source, cls: type, name: str) -> None:
        """Record that a name was looked up on a class: the class at the source, or that of the object at the source."""
        _, names = self.looked_up.setdefault(cls, (source, {}))
        if name not in names:
            names[name] = kind_of_member(cls, name)

    def guards_on_members(self) -> Iterator[Guard]:
        """The guards; a guard on the type of an object includes the members of its class that were looked up."""
        of_sources = {source: (cls, tuple(names.items())) for cls, (source, names) in self.looked_up.items()}
        for guard in self.guards.values():
            # The members that a trace looked up are checked together with the class of the object that led to them. If
            # two objects lead to a class, it is checked through the first.
            cls, names = of_sources.get(guard.source, (None, ())) if guard.source is not None else (None, ())
            if cls is guard.expected and guard.kind in (GuardKind.TYPE_MATCH, GuardKind.ID_MATCH):
                yield replace(guard, members=names)
            else:
                yield guard

    def number_of(self, tensor: torch.fx.Node) -> torch.fx.Node:
        """The node that reads the number of a float input: one node per input."""
        known = next((user for user in tensor.users if user.target == "item"), None)
        if known is not None:
            return known
        with self.inside(self.root):
            return self.apply("call_method", "item", (tensor,), {})

    def drawn_number(self, kind: type, source: Source) -> torch.fx.Node:
        """The number of an input that is drawn at random: a symbol without a value."""
        tensor = self.inputs.drawn(kind, source)
        with torch_internals.scalar_outputs(self.shape_env):
            return self.number_of(tensor)

    # -- nodes ---------------------------------------------------------------------------

    @property
    def launches_kernels(self) -> bool:
        """Return whether the user's Triton kernels can be launched: a GPU or a simulated target exists."""
        return bool(self.options.backend_options.get("target")) or torch_internals.has_cuda_device()

    def apply(
        self,
        op: str,
        target: str | Callable[..., object],
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        example: object = None,
    ) -> torch.fx.Node:
        """Add an operator and run it on the fake values, unless its result is given."""
        if target is operator.pow and str(arguments[0]).startswith("-"):
            target = pow  # a graph writes operators as Python does: -2 ** x is another number
        # A value of an outer body becomes an argument of the inner one (a lifted free variable).
        if self.has_bodies:
            arguments, keywords = torch.fx.map_arg((tuple(arguments), dict(keywords)), self.body.lift)
        node = self.graph.create_node(op, target, tuple(arguments), dict(keywords))
        node.meta[STACK] = self.stack()
        node.meta["stack_trace"] = stack_text(node.meta[STACK])
        self.module_calls.annotate(node, target)
        # On fake tensors the operator computes shapes, dtypes and errors, but no element. If it fails, its node is
        # removed, and the trace can continue (``try``) or end without it.
        warned = len(self.warnings)
        try:
            if example is None:
                before = self.purity.operators
                example = self.fake_run.run(node, arguments, keywords)
                self.purity.note_call(target, keywords, self.purity.operators - before)
            else:
                self.purity.computes = False  # it did not run here
            node.meta[EXAMPLE] = example
            # Unbacked symbols are sizes and numbers that are known only at run time. Each must be in the result of some
            # node, from which the code after the graph reads it.
            if not torch_internals.note_unbacked_symbols(self.shape_env, node, example):
                # The operator read a number from a tensor, and no result contains its symbol.
                raise breaks.unsupported(breaks.DATA_DEPENDENT_OPERATOR, str(target), name=target)
        except BaseException as error:
            self._note_failure(op, target, node, error)
            del self.warnings[warned:]  # Python runs the operator, and warns by itself
            self.graph.erase_node(node)
            raise
        return node

    def _note_failure(
        self, op: str, target: str | Callable[..., object], node: torch.fx.Node, error: BaseException
    ) -> None:
        """Save the operator that failed, for the record.

        The exception is not a local variable of the caller, whose frame is in its traceback: that cycle would keep the
        arguments of the compiled function alive.
        """
        inner = error.__cause__ or error  # the operator's own
        # An interrupt or a RecursionError may occur anywhere: the operator is not the cause.
        if recorder.draft() is not None and isinstance(inner, Exception) and not isinstance(inner, RecursionError):
            self.failed = FailedNode(op, target, node.args, node.kwargs, self.names(), node.meta[STACK], inner)

    def erase(self, node: torch.fx.Node) -> None:
        """Erase a node whose result is a constant."""
        node.graph.erase_node(node)

    def has_operators(self) -> bool:
        """True if the graph has an operator."""
        return any(node.op not in ("placeholder", "output") for node in self.graph.nodes)

    def operators(self) -> int:
        """Number of operators so far."""
        return sum(node.op not in ("placeholder", "output") for node in self.graph.nodes)

    # -- state of the process ------------------------------------------------------------

    def state_call(
        self, function: Callable[..., object], arguments: tuple[Any, ...], keywords: Mapping[str, Any] | None = None
    ) -> None:
        """Change a mode: now, and in every run of the graph."""
        # Also now: the operators that follow must run on fake tensors in the mode in which they will run.
        node = self.graph.create_node("call_function", function, arguments, dict(keywords or {}))
        node.meta[EXAMPLE] = None
        node.meta[STACK] = self.stack()
        if function is not torch._C._set_grad_enabled:
            self.purity.computes = False
        function(*arguments, **(keywords or {}))

    def enter_autocast(self, settings: tuple[Any, ...]) -> tuple[object, torch.fx.Node]:
        """Enter autocast, now and in the graph."""
        enter = torch.amp.autocast_mode._enter_autocast
        node = self.graph.create_node("call_function", enter, settings, {})
        node.meta[EXAMPLE] = None
        node.meta[STACK] = self.stack()
        return enter(*settings), node

    def exit_autocast(self, mode: object, entered: torch.fx.Node) -> None:
        """Leave autocast, now and in the graph."""
        leave = torch.amp.autocast_mode._exit_autocast
        node = self.graph.create_node("call_function", leave, (entered,), {})
        node.meta[EXAMPLE] = None
        node.meta[STACK] = self.stack()
        leave(mode)

    def enter_inference_mode(self, mode: bool) -> tuple[object, torch.fx.Node]:
        """Enter (or suspend) inference mode, now and in the graph."""
        enter = torch.autograd.grad_mode._enter_inference_mode
        node = self.graph.create_node("call_function", enter, (mode,), {})
        node.meta.update({EXAMPLE: None, STACK: self.stack()})
        entered = enter(mode)
        self.modes[entered] = torch_internals.transform_state()
        return entered, node

    def exit_inference_mode(self, mode: object, entered: torch.fx.Node) -> None:
        """Leave inference mode, now and in the graph."""
        leave = torch.autograd.grad_mode._exit_inference_mode
        node = self.graph.create_node("call_function", leave, (entered,), {})
        node.meta.update({EXAMPLE: None, STACK: self.stack()})
        del self.modes[mode]
        leave(mode)

    def leave_modes(self) -> None:
        """Leave the modes that are still active when tracing ends early."""
        # A transform of torch.func inside of a mode is left first: it restores the state of its beginning.
        while self.modes:
            mode, transforms = self.modes.popitem()
            torch_internals.restore_transforms(transforms)
            torch.autograd.grad_mode._exit_inference_mode(mode)

    # -- the end -------------------------------------------------------------------------

    def finish(self, outputs: Sequence[torch.fx.Node], name: str) -> CapturedGraph | None:
        """The graph with its outputs; None where it has no operator. Unused inputs are dropped."""
        if not self.has_operators():  # only side effects or constants are left: nothing to compile
            return None
        drop_modes_without_effect(self.graph, self.began_with_grad)
        if not outputs and not self.has_operators():
            return None
        self.graph.output(tuple(outputs))
        symbolic = self._is_symbolic()
        # Assertions on unbacked symbols become nodes before unused nodes are dropped, since they may use a size.
        if symbolic:
            draft = torch.fx.GraphModule(self.modules, self.graph)
            torch_internals.free_text_with(draft)
            torch_internals.insert_runtime_asserts(draft, self.shape_env, name)
        drop_unused_numbers(self.graph)
        self.inputs.drop_unused()
        if self.inputs.has_draws():  # the compilers of the graph read the numbers, too
            torch_internals.allow_scalar_outputs(self.shape_env)
        module = torch.fx.GraphModule(self.modules, self.graph)
        nested_regions.inline_single_calls(module)
        torch_internals.free_text_with(module)
        operator_warnings.show(self.warnings, module)
        return CapturedGraph(module, self.inputs.for_backend(symbolic), self.fake_mode, name, symbolic)

    def only_computes(self) -> bool:
        """True if a run of the graph that fails has no side effect."""
        inputs = (node.meta.get(EXAMPLE) for node in self.root.graph.find_nodes(op="placeholder"))
        return not self.modules and self.purity.holds(inputs)

    def check_leaves(self, outputs: Sequence[torch.fx.Node]) -> None:
        """Break if an output depends on a leaf that the graph creates: functionalization would lose its gradient.

        Break also if an output depends on a value that cannot be differentiated after a traced derivative.

        Raises:
            MustBreakEarlier: an output does.
        """
        # Autograd frees the tensors that it saved when a derivative is computed inside of the graph. An output that
        # still needs them could not be differentiated by the caller.
        trained = (node.meta[EXAMPLE] for node in outputs if _has_gradient(node))
        if self.freed_by_gradients and not self.freed_by_gradients.isdisjoint(autograd_graph.reachable(trained)):
            raise MustBreakEarlier("autograd.grad")
        if not self.new_leaves:
            return
        # Forward over the nodes in order: a node depends on a leaf if one of its inputs does.
        depends = set(self.new_leaves)
        for node in self.root.graph.nodes:
            if not depends.isdisjoint(node.all_input_nodes):
                depends.add(node)
        if any(node in depends and _has_gradient(node) for node in outputs):
            raise MustBreakEarlier("requires_grad_")

    def _is_symbolic(self) -> bool:
        # The results of a loop get new symbols also after capture.
        return bool(self.inputs.is_symbolic() or self.shape_env.deferred_runtime_asserts or self.modules) or any(
            "unbacked_bindings" in node.meta or node.target == "item" for node in self.graph.nodes
        )


def _is_new_parameter(source: Source) -> bool:
    return isinstance(source, ParameterSource)


def _has_gradient(node: torch.fx.Node) -> bool:
    example = node.meta.get(EXAMPLE)
    return isinstance(example, torch.Tensor) and example.requires_grad


def stack_text(stack: tuple[StackLine, ...]) -> str:
    """A stack in the format of Python's tracebacks, as fx stores it."""
    return "".join(f'  File "{each.file}", line {each.line}, in {each.function}\n    {each.code}\n' for each in stack)
