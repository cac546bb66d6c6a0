"""The inputs of the captured graph: fake tensors for the real ones, with symbols for the sizes that vary.

A tensor input is traced as a fake tensor. Where its sizes vary, they are symbols,
and each symbol is an input of the graph itself, before the first tensor that has it.

    x: ones(4, 3), dim 0 dynamic      s77 ; L_x_: f32[s77, 3]
    k: 3, seen to differ              L_k_: Sym(s27)
    a: 0.5, seen to differ            L_a_: f64[], and the node L_a_.item()

Tracing may change a fake (``x.unsqueeze_(0)``), so the backend is given fresh
ones, with the same symbols.

In torch: torch/_dynamo/variables/builder.py (wrap_to_fake_tensor_and_record,
wrap_symint, wrap_symfloat) and output_graph.py (remove_unused_graphargs). Read
next: nbcompile/tracing/graph/output_graph.py
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from nbcompile import config, errors, torch_internals
from nbcompile.capture.guard import ShapeGuards, TensorFacts
from nbcompile.capture.node_meta import EXAMPLE, STACK
from nbcompile.capture.source import (
    ArraySource,
    AttrSource,
    DrawSource,
    ParameterSource,
    SizeSource,
    Source,
    expression,
    root,
)
from nbcompile.capture.trace import GraphInput
from nbcompile.options import Options
from nbcompile.record.model import Refinement, StackLine, Symbol
from nbcompile.tracing import breaks
from nbcompile.tracing.inputs import int64_bounds
from nbcompile.tracing.inputs.dynamism import Dynamism


@dataclass(frozen=True, slots=True)
class SizedInput:
    """A tensor or number that came in, also one that no operator uses in the end."""

    source: Source
    value: object
    """The fake tensor, or the symbolic number."""
    real: torch.Tensor | None = None
    context: Any = None
    """Symbolic context from which its sizes became symbols; None for constant sizes and for a number."""
    sizes: tuple[int | torch.SymInt, ...] = ()
    strides: tuple[int | torch.SymInt, ...] | None = ()


class GraphInputs:
    """The placeholders of one graph, in order, and the symbols that they bind."""

    def __init__(
        self, graph: torch.fx.Graph, symbols: dict[object, torch.fx.Node], options: Options, dynamism: Dynamism
    ) -> None:
        self.graph = graph
        self.dynamism = dynamism
        self.shape_env = torch_internals.new_shape_env(
            config.capture_scalar_outputs or options.fullgraph,
            config.capture_dynamic_output_shape_ops or options.fullgraph,
            self._assumed,
        )
        self.fake_mode = torch_internals.new_fake_mode(self.shape_env)
        self.stack: Callable[[], tuple[StackLine, ...]] = tuple
        self.refinements: list[Refinement] = []
        """Assumptions about symbols so far."""
        # Placeholders come in order of first use, each symbol before the first tensor that has it.
        self.placeholders: list[tuple[torch.fx.Node, Source]] = []
        self.symbols = symbols
        self._sized: dict[Source, SizedInput] = {}
        self._read_from: dict[str, tuple[str, ...]] = {}
        """A size that each symbol is; ShapeEnv does not know it for unbacked symbols."""
        self._names: set[str] = set()
        self._last: torch.fx.Node | None = None
        self._numbers: dict[Source, torch.fx.Node] = {}
        self.has_parameters = False
        """True if the residual program makes some of the inputs: there are no guards on them."""

    def _assumed(self, condition: object) -> None:
        self.refinements.append(Refinement(str(condition), self.stack()))

    # -- new inputs ----------------------------------------------------------------------

    def tensor(self, value: torch.Tensor, source: Source) -> torch.fx.Node:
        """A tensor: its symbols first, then itself."""
        context = self.dynamism.context(value, source)
        try:
            fake = torch_internals.fake_from_tensor(self.fake_mode, value, expression(source), context)
        except Exception as error:
            if torch_internals.is_constraint_violation(error):  # a size outside of the declared bounds
                raise _with_line(error, self.stack()) from None
            if isinstance(error, torch_internals.fake_tensor().UnsupportedFakeTensorException):  # a quantized tensor
                name, reason = expression(source), error.reason
                raise breaks.unsupported(breaks.NO_FAKE_TENSOR, str(reason), name=name, error=reason) from None
            raise
        strides = tuple(fake.stride()) if fake.layout is torch.strided else None
        self._sized[source] = SizedInput(source, fake, value, context, tuple(fake.shape), strides)
        self._add_number(fake, value, source)
        if context is not None:
            self._add_symbols(fake, source)  # before the tensor itself: its sizes name them
        node = self._add(source, fake)
        torch_internals.note_unbacked_symbols(self.shape_env, node, fake)
        return node

    def _add_number(self, fake: torch.Tensor, value: torch.Tensor, source: Source) -> None:
        """Give ``item()`` of a number in a tensor its value, which is known already, so that code may branch on it."""
        number = torch_internals.number_in(self.shape_env, fake, value, expression(SizeSource(source, "item")))
        if number is not None:
            self._sized[SizeSource(source, "item")] = SizedInput(SizeSource(source, "item"), number)

    def integer(self, value: int, source: Source) -> torch.fx.Node:
        """An int that stays symbolic."""
        if source not in self._numbers:
            symbolic = torch_internals.symbolic_int(self.shape_env, value, expression(source))
            node = self._numbers[source] = self._add(source, symbolic)
            self.symbols[torch_internals.own_symbol(symbolic)] = node
            self._sized[source] = SizedInput(source, symbolic)
        return self._numbers[source]

    def real_number(self, value: float, source: Source) -> torch.fx.Node:
        """A float that stays symbolic: a tensor whose ``item()`` is a symbol."""
        if source not in self._numbers:
            symbolic = torch_internals.symbolic_float(self.shape_env, value, expression(source))
            fake = torch_internals.fake_number(self.fake_mode, symbolic)
            self._numbers[source] = self._add(source, fake)
            self._sized[source] = SizedInput(source, symbolic)
        return self._numbers[source]

    def drawn(self, kind: type, source: Source) -> torch.fx.Node:
        """A number that is drawn at random before each run: a tensor that says nothing of it."""
        return self._add(source, torch_internals.fake_scalar(self.fake_mode, kind))

    def parameter(self, node: torch.fx.Node, source: ParameterSource) -> torch.fx.Node:
        """``nn.Parameter(x)`` of the input x: another tensor with x's memory and x's symbols."""
        self.has_parameters = True
        return self._add(
            source, torch_internals.fake_parameter(self.fake_mode, node.meta[EXAMPLE], source.requires_grad)
        )

    def has_draws(self) -> bool:
        """True if any input is drawn at random."""
        return any(isinstance(root(source), DrawSource) for _, source in self.placeholders)

    def _add_symbols(self, fake: torch.Tensor, source: Source) -> None:
        for dim, size in enumerate(fake.shape):
            self._add_symbol(size, SizeSource(source, "size", dim))
        if fake.layout is torch.strided:
            for dim, stride in enumerate(fake.stride()):
                self._add_symbol(stride, SizeSource(source, "stride", dim))
            self._add_symbol(fake.storage_offset(), SizeSource(source, "storage_offset"))

    def _add_symbol(self, size: int | torch.SymInt, source: Source) -> None:
        # Equal dims share a symbol where duck shaping is on. A size that is an expression (``2*s0``)
        # is computed, not passed.
        symbol = size.node.expr if isinstance(size, torch.SymInt) else None  # dims that are known to be equal share one
        if symbol is not None and symbol.is_symbol:
            self._read_from.setdefault(str(symbol), (expression(source),))
        if symbol is not None and symbol.is_symbol and symbol not in self.symbols:
            self.symbols[symbol] = self._add(source, size, str(symbol))

    def _add(self, source: Source, example: object, name: str = "") -> torch.fx.Node:
        """A placeholder, behind those that are there already."""
        target = self._unused_name(name or input_name(source))
        self._names.add(target)
        # A new input may be found after operators, but fx requires placeholders first: insert behind the last one.
        first = next(iter(self.graph.nodes), self.graph._root)
        insertion_point = self.graph.inserting_after(self._last) if self._last else self.graph.inserting_before(first)
        with insertion_point:
            node = self.graph.create_node("placeholder", target)
        node.meta[EXAMPLE] = example
        node.meta["source"] = expression(source)
        node.meta[STACK] = self.stack()
        self._last = node
        self.placeholders.append((node, source))
        return node

    def _unused_name(self, name: str) -> str:
        # L['a_b'] and L['a'].b would both be L_a_b_.
        names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(1)))
        return next(each for each in names if each not in self._names)

    # -- guards ----------------------------------------------------------------------------

    def facts(self) -> dict[Source, TensorFacts]:
        """The sizes of each tensor: those that tracing had to know became constants again."""
        return {
            size.source: TensorFacts(
                tuple(map(_constant, size.sizes)), None if size.strides is None else tuple(map(_constant, size.strides))
            )
            for size in self._sized.values()
            if isinstance(size.value, torch.Tensor)
        }

    def shape_guards(self) -> ShapeGuards | None:
        """Guards on the symbols; None if nothing is symbolic.

        Raises:
            ConstraintViolationError: torch's; a dim that the user marked as dynamic became a constant.
        """
        if not self.is_symbolic():
            return None
        bases = list(self._bases())
        sized = [*self._sized.values(), *bases]
        rows = [(self._before(each), expression(each.source), each.context) for each in sized]
        try:
            found = torch_internals.shape_expressions(self.shape_env, rows)
        except Exception as error:
            if not torch_internals.is_constraint_violation(error):
                raise
            raise _with_line(error, self._line_of(str(error))) from None
        found += [(text, int64_bounds.REASON) for text in self._limits()]
        if not found:
            return None
        texts, notes = zip(*found, strict=True)
        lines = tuple(self._line_of(text) for text in texts)
        sources = tuple(each.source for each in sized)
        return ShapeGuards(texts, sources, lines, tuple(map(_with_zero_one, texts, notes, lines)))

    def _bases(self) -> Iterator[SizedInput]:
        """The tensors that inputs are views of, where a guard is about their sizes.

        torch checks that a view that gets other sizes in place still ends within the memory of its base.
        """
        guarded = torch_internals.guarded_symbols(self.shape_env) - self.symbols.keys()
        for sized in self._sized.values():
            base = sized.value._base if isinstance(sized.value, torch.Tensor) else None
            if base is None or sized.context is None or sized.context.view_base_context is None:
                continue
            if not guarded.isdisjoint(torch_internals.free_symbols(base)):
                yield SizedInput(AttrSource(sized.source, "_base"), base, context=sized.context.view_base_context)

    def _limits(self) -> Iterator[str]:
        """The bounds of symbolic ints, which go into the graph as int64."""
        for source in self._numbers:
            if isinstance(symbolic := self._sized[source].value, torch.SymInt) and _constant(symbolic) is None:
                yield int64_bounds.limits(expression(source))

    def keep_in_range(self, number: torch.SymInt, greatest: int = int64_bounds.LARGEST) -> bool:
        """Guard that an int which the graph computes fits there; False: it does not, and is a constant from now on.

        What only the run knows is not guarded.
        """
        return int64_bounds.keep_in_range(number, greatest, self._greatest, self._example)

    def _example(self, symbol: object) -> object:
        return self.symbols[symbol].meta[EXAMPLE] if symbol in self.symbols else None

    def _greatest(self, symbol: object) -> float:
        node = self.symbols.get(symbol)
        return int64_bounds.LARGEST if node in self._numbers.values() else int64_bounds.SIZE

    def _line_of(self, text: str) -> tuple[StackLine, ...]:
        """The user's code that required a guard on sizes: the last refinement with a symbol that it mentions."""
        names = {name for name, (sources, _, _) in self._facts().items() if any(each in text for each in sources)}
        requiring = (each for each in reversed(self.refinements) if names & set(re.findall(r"\w+", each.condition)))
        return next((each.stack for each in requiring), ())

    def _facts(self) -> dict[str, tuple[tuple[str, ...], str, str]]:
        found = torch_internals.symbol_facts(self.shape_env)
        return {name: (entry[0] or self._read_from.get(name, ()), *entry[1:]) for name, entry in found.items()}

    def symbol_cards(self) -> tuple[Symbol, ...]:
        """Every symbol of an input or of the graph: where it comes from and what was assumed about it."""
        cards = []
        values = (node.meta.get(EXAMPLE) for node in self.graph.nodes)
        with torch._C.DisableTorchFunction():  # function modes of the user must not see reads of sizes
            in_graph = {str(symbol) for value in values for symbol in torch_internals.symbols_in_order(value)}
        for name, (sources, hint, bounds) in self._facts().items():
            if not sources and name not in in_graph:
                continue  # an unbacked symbol of an attempt that was given up, or of a backend's tracer
            requiring = tuple(each for each in self.refinements if name in re.findall(r"\w+", each.condition))
            origins = (self.dynamism.origins[each] for each in sources if each in self.dynamism.origins)
            cards.append(Symbol(name, sources, hint, bounds, next(origins, "" if sources else "the run"), requiring))
        return tuple(cards)

    def _before(self, sized: SizedInput) -> object:
        fake = sized.value
        # ``x.unsqueeze_(0)`` changed the fake while tracing; guards are on the sizes from before, so a
        # fresh fake is created.
        if sized.real is None or not isinstance(fake, torch.Tensor) or sized.strides is None:
            return fake
        if torch_internals.same_sizes((*fake.shape, *fake.stride()), (*sized.sizes, *sized.strides)):
            return fake
        return torch_internals.fake_from_tensor(self._fresh_mode, sized.real, expression(sized.source), sized.context)

    def is_symbolic(self) -> bool:
        """True if any size or number is a symbol that matters."""
        return bool(self.symbols or self._numbers or self.refinements)

    # -- the end -------------------------------------------------------------------------

    def drop_unused(self) -> None:
        """Inputs that nothing uses go; of each symbol, one input stays as long as some size mentions it."""
        # Pass 1 drops tensors and numbers that nothing uses. Pass 2 drops symbols, which may be mentioned only by what
        # pass 1 dropped. A symbol that a shape mentions stays as an input, once.
        symbols = set(self.symbols.values())
        for node, source in list(self.placeholders):
            if not node.users and node not in symbols:
                self._drop(node, source)
        mentioned = {
            symbol
            for node, _ in self.placeholders
            if node.users or node not in symbols
            for symbol in torch_internals.free_symbols(node.meta[EXAMPLE])
        }
        for node, source in list(self.placeholders):
            if node in symbols and not node.users:
                symbol = node.meta[EXAMPLE].node.expr
                if symbol in mentioned:
                    mentioned.remove(symbol)
                else:
                    self._drop(node, source)

    def _drop(self, node: torch.fx.Node, source: Source) -> None:
        self.graph.erase_node(node)
        self.placeholders.remove((node, source))

    def for_backend(self, symbolic: bool) -> tuple[GraphInput, ...]:
        """Every input as the backend is to see it."""
        return tuple(
            GraphInput(
                node.name,
                source,
                self._fresh(source, node) if symbolic else node.meta[EXAMPLE],
                self._is_number(source),
            )
            for node, source in self.placeholders
        )

    def _is_number(self, source: Source) -> bool:
        """True if the graph takes a number as a tensor."""
        is_float = source in self._sized and isinstance(self._sized[source].value, torch.SymFloat)
        return is_float or isinstance(root(source), DrawSource)

    def _fresh(self, source: Source, node: torch.fx.Node) -> object:
        """An input's fake as it was before tracing, with the same symbols."""
        if isinstance(source, ParameterSource):
            data = self._fresh(source.base, node)
            return torch_internals.fake_parameter(self._fresh_mode, data, source.requires_grad)
        if isinstance(root(source), DrawSource):
            kind = float if node.meta[EXAMPLE].is_floating_point() else int
            return torch_internals.fake_scalar(self._fresh_mode, kind)
        match self._sized.get(source):
            case SizedInput(real=torch.Tensor() as real, context=context):
                return torch_internals.fake_from_tensor(self._fresh_mode, real, expression(source), context)
            case SizedInput(value=torch.SymFloat() as number):
                return torch_internals.fake_number(self._fresh_mode, number)
        return node.meta[EXAMPLE]

    @functools.cached_property
    def _fresh_mode(self) -> Any:
        return torch_internals.new_fake_mode(self.shape_env)


_ZERO_ONE = (
    "sizes 0 and 1 are always constants: they broadcast and index in their own way (0/1 specialization). To avoid it, "
    "try torch._dynamo.decorators.mark_unbacked(tensor, dim)"
)


def _with_zero_one(text: str, note: str, line: tuple[StackLine, ...]) -> str:
    return _ZERO_ONE if not note and not line and text.startswith("2 <= ") else note


def _with_line(error: Exception, stack: tuple[StackLine, ...]) -> Exception:
    """The same error, which says where in the user's code it comes from."""
    return type(error)("\n".join([str(error), "", "from user code:", *errors.stack_lines(stack)]))


def _constant(size: int | torch.SymInt) -> int | None:
    if isinstance(size, int):
        return size
    return int(size) if size.node.expr.is_number else None


def input_name(source: Source) -> str:
    """``L['self']._modules['l']`` as an identifier: ``L_self_modules_l_``."""
    address = source.base if isinstance(source, ArraySource) else source
    name = re.sub(r"[^a-zA-Z0-9]+", "_", expression(address))
    return name if not name[0].isdigit() else f"_{name}"
