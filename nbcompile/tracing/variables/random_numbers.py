"""Draws of Python's generators of random numbers: each runs in the residual program, before it calls the graph.

    x * random.randint(1, 9)    random_value = random._inst.randint(1, 9)
                                graph_out = __compiled_fn_1(x, as_tensor(random_value))

The calls of a generator (a draw, a seed, a state that is set) are recorded in order,
and the residual program repeats them in that order, once per call: the state advances
as in eager mode, and one entry serves every draw. The number is an unbacked symbol.

In torch: RandomVariable (torch/_dynamo/variables/misc.py), which draws from a copy
of the generator as it was while tracing, and call_random_fn
(torch/_dynamo/variables/user_defined.py). Read next: nbcompile/rewriting/residual.py
"""

from __future__ import annotations

import operator
import random
from collections.abc import Sequence

import torch.fx

from nbcompile.capture.recipe import Attribute, Call, Constant, Recipe
from nbcompile.capture.source import AttrSource, DrawSource, ItemSource, ModuleSource, Source
from nbcompile.tracing import breaks
from nbcompile.tracing.inputs.int64_bounds import LARGEST
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, LazyVariable, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable
from nbcompile.tracing.variables.lookup import class_lookup
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable

OF_MODULE: random.Random = random._inst
"""The generator whose bound methods are the functions of the module."""
DRAWS = {"random": float, "uniform": float, "randint": int, "randrange": int}
"""Methods whose draw is an input of the graph, and its type; other methods break the graph, as in torch."""
METHODS = {name: class_lookup(random.Random, name) for name in (*DRAWS, "seed", "getstate", "setstate")}
WORDS = len(OF_MODULE.getstate()[1])


class DrawnVariable(SymbolicVariable):
    """A number that was drawn: an input of the graph from its first use on."""

    def __init__(self, tracer: Tracer, kind: type, source: Source) -> None:
        self.tracer = tracer
        self.kind = kind
        self.source = source
        self._node: torch.fx.Node | None = None

    @property
    def node(self) -> torch.fx.Node:  # type: ignore[override]
        """The number, read from the input: the graph takes it as a tensor."""
        # The input is created at the first use: a number that is only returned never enters the graph.
        if self._node is None:
            self._node = self.tracer.output.drawn_number(self.kind, self.source)  # type: ignore[arg-type]
        return self._node

    def python_type(self) -> type:
        return self.kind

    def is_unbacked(self) -> bool:
        return True


class GeneratorStateVariable(VariableTracker):
    """Result of ``getstate()``, or its tuple of words: it can be passed on, set again, and indexed.

    (3, (2147483648, 1914837113, ...), None): a version, the words of the generator, and the stored value of gauss().
    """

    def __init__(self, source: Source) -> None:
        self.source: Source = source

    def python_type(self) -> type:
        return tuple

    def _items(self, tracer: Tracer) -> list[VariableTracker]:
        if not isinstance(self.source, DrawSource):
            return [DrawnVariable(tracer, int, ItemSource(self.source, index)) for index in range(WORDS)]
        return [
            ConstantVariable(random.Random.VERSION),
            GeneratorStateVariable(ItemSource(self.source, 1)),
            KeptDrawVariable(ItemSource(self.source, 2)),
        ]

    def get_item(self, tracer: Tracer, key: VariableTracker) -> VariableTracker:
        index = tracer.index_of(key)
        found = tracer.evaluate(operator.getitem, (self._items(tracer), index))
        return tracer.tuple_of(found) if isinstance(found, list) else found  # type: ignore[return-value]

    def iterate(self, tracer: Tracer) -> VariableTracker:
        return tracer.iterator(self._items(tracer))

    def length(self, tracer: Tracer) -> VariableTracker:
        return ConstantVariable(len(self._items(tracer)))

    def truth(self, tracer: Tracer) -> bool:
        return True


class KeptDrawVariable(VariableTracker):
    """Second draw of gauss(), stored for its next call, a float or None: it can be passed on."""

    def __init__(self, source: Source) -> None:
        self.source = source


class RandomVariable(ObjectVariable):
    """A ``random.Random``, of no subclass: from outside, or created by the traced code with a known seed."""

    has_fixed_class = True
    seed: tuple[object, ...] = ()

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("gauss_next", "__dict__"):  # ``seed`` and ``gauss`` store this attribute in Python
            raise breaks.unsupported(
                breaks.UNSUPPORTED_ATTRIBUTE, f"{self.describe()}.{name}", attribute=name, name=self.type_name()
            )
        return super().get_attribute(tracer, name)

    def set_attribute(self, tracer: Tracer, name: str, value: VariableTracker) -> None:
        if self.is_new():  # it is created before the graph is called, and the value may be an output of the graph
            self.no_method("__setattr__")
        super().set_attribute(tracer, name, value)

    def _class_value(self, tracer: Tracer, name: str, found: object) -> VariableTracker:
        if name in METHODS and found is METHODS[name]:
            return BuiltinMethodVariable(self, name)
        return super()._class_value(tracer, name, found)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if class_lookup(self.cls, name) is not METHODS.get(name, self):
            return super().call_method(tracer, name, arguments, keywords)
        if name == "setstate":
            return self._set_state(tracer, arguments, keywords)
        given = [realise(tracer, each) for each in arguments]
        named = {key: realise(tracer, each) for key, each in keywords.items()}
        if not all(each.is_constant() for each in (*given, *named.values())):
            self.no_method(name)
        # Tried on a separate generator: the arguments must be valid, since the real call happens
        # before the graph runs.
        self._try(name, [each.constant() for each in given], {key: each.constant() for key, each in named.items()})
        source = self._note(tracer, name, given, named)
        if name in DRAWS:
            return DrawnVariable(tracer, DRAWS[name], source)
        return GeneratorStateVariable(source) if name == "getstate" else ConstantVariable(None)

    def _set_state(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        state = arguments[0] if len(arguments) == 1 and not keywords else None
        if isinstance(state, LazyVariable) and (state.realised is not None or type(state.value) is not tuple):
            state = state.realised
        if not isinstance(state, (LazyVariable, GeneratorStateVariable)) or state.source is None:
            self.no_method("setstate")
        if isinstance(state, GeneratorStateVariable) and not isinstance(state.source, DrawSource):
            self.no_method("setstate")  # a part of a state is not a state: it raises
        self._note(tracer, "setstate", [state], {})
        return ConstantVariable(None)

    def _try(self, name: str, given: Sequence[object], named: dict[str, object]) -> None:
        """Break if the call would raise (as in eager mode), or if a number is too large."""
        values = (*given, *named.values())
        kinds = {"uniform": (int, float), "seed": (type(None), int, float, str, bytes)}.get(name, (int, type(None)))
        if not all(isinstance(each, kinds) for each in values):
            self.no_method(name)
        if name in DRAWS and not all(abs(each or 0) <= LARGEST for each in values):  # type: ignore[arg-type]
            self.no_method(name)
        try:
            getattr(random.Random(0), name)(*given, **named)  # noqa: S311  (of no use to anyone)
        except (TypeError, ValueError):
            self.no_method(name)

    def _note(
        self, tracer: Tracer, name: str, given: Sequence[VariableTracker], named: dict[str, VariableTracker]
    ) -> DrawSource:
        """Record the call: it runs before the graph, after the calls that were recorded earlier."""
        # A body may run any number of times, so its draws cannot run before the graph.
        if tracer.output.body is not tracer.output.root:
            raise breaks.unsupported(
                breaks.BODY_EFFECT, self.describe(), name="an operator", changed="a generator of random numbers"
            )
        tracer.depend_on_process("it draws random numbers")

        def recipe(reconstruction: Reconstructor) -> Recipe:
            values = tuple(map(reconstruction.recipe, given))
            keywords = tuple((key, reconstruction.recipe(each)) for key, each in named.items())
            return Call(Attribute(reconstruction.recipe(self), name), values, keywords)

        return DrawSource(tracer.side_effects.call_before_graph(recipe))

    def _make(self, reconstruction: Reconstructor) -> Recipe:
        return Call(Constant(random.Random, "Random"), tuple(Constant(each, "seed") for each in self.seed))


def generator_of_module(tracer: Tracer) -> VariableTracker:
    """The owner of ``random.randint`` and other functions of the module."""
    return tracer.wrap(OF_MODULE, AttrSource(ModuleSource("random"), "_inst"))


def make_generator(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """``random.Random(seed)``."""
    given = [realise(tracer, each) for each in arguments]
    seeds = (type(None), int, float, str, bytes)
    if keywords or len(given) > 1 or not all(each.is_constant() and type(each.constant()) in seeds for each in given):
        raise breaks.unsupported(breaks.UNSUPPORTED_CALL, "random.Random(...)", name="class Random")
    generator = RandomVariable(random.Random)
    generator.seed = tuple(each.constant() for each in given)
    return generator
