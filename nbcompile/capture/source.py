"""Sources: where traced values were read from, as addresses.

A source is an address. It is read three ways: as the expression that guards
and graph inputs are named after (:func:`expression`), as Python that fetches
the value again in the residual program (rewriting/), and as steps through
torch's C++ guard tree (guarding/).

    LocalSource("x")                                    L['x']
    AttrSource(LocalSource("self"), "w")                L['self'].w
    ItemSource(AttrSource(L['self'], "_modules"), "l")  L['self']._modules['l']

In torch: torch/_dynamo/source.py. Read next: nbcompile/capture/resolution.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never


class Address:
    """The base of all sources: they are keys of many tables, so each computes its hash once."""

    # Each subclass repeats ``__hash__ = Address.__hash__``: a frozen dataclass without a hash of its own is given one
    # that hashes all fields, and with them the whole chain of bases, at every look-up.
    __slots__ = ("_hash",)
    __match_args__: tuple[str, ...] = ()

    def __hash__(self) -> int:
        try:
            known: int = self._hash  # type: ignore[attr-defined]
        except AttributeError:
            known = hash((type(self), *(getattr(self, name) for name in self.__match_args__)))
            object.__setattr__(self, "_hash", known)
        return known


@dataclass(frozen=True, slots=True)
class LocalSource(Address):
    """A local of the frame: an argument, or a free variable (its content)."""

    name: str

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class GlobalSource(Address):
    """A global of the frame's own module."""

    name: str

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class BuiltinSource(Address):
    """A name found in ``builtins``."""

    name: str

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class ModuleSource(Address):
    """An imported module, ``sys.modules[name]``; it cannot change, so it is not guarded."""

    name: str

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class FunctionModeSource(Address):
    """A torch function mode that was active when the frame was called, by its position on the stack of modes."""

    index: int

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class AttrSource(Address):
    """An attribute of a value that has a source itself."""

    base: Source
    attribute: str

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class GenericAttrSource(AttrSource):
    """An attribute as ``object.__getattribute__`` finds it, without the class's own ``__getattribute__``."""

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class ItemSource(Address):
    """An item: ``key`` is a constant (str, int, ... or any hashable of a dict)."""

    base: Source
    key: object

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class KeySource(Address):
    """The key at a position of a dict, for keys that are no constants."""

    base: Source
    index: int

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class ValueSource(Address):
    """The value at a position of a dict, for keys whose ``==`` returns no bool: tensors."""

    base: Source
    index: int

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class IteratorItemSource(Address):
    """The next item of a tuple's iterator (``index`` 0), the one after it (1), ...; the iterator does not advance."""

    base: Source
    index: int

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class TypeSource(Address):
    """The class of a value, ``type(value)``."""

    base: Source

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class MappingSource(Address):
    """The dict that a mapping proxy shows; two proxies may show one dict."""

    base: Source

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class NoArgsCallSource(Address):
    """The result of a call without arguments, ``base()``: a weak reference's referent, the subclasses of a class."""

    base: Source

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class CellSource(Address):
    """The content of a cell of a function's closure, by the variable's name.

    ``base`` is the function. Reads ``base.__closure__[i].cell_contents`` where
    ``i`` is the position of ``name`` among the function's free variables.
    """

    base: Source
    name: str
    index: int

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class MethodFunctionSource(Address):
    """The function of a bound method or a class attribute: looked up on the type.

    ``type(base).__mro__[...].__dict__[name]``: what attribute look-up finds on
    the class, before it is bound.
    """

    base: Source
    name: str

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class ClassMemberSource(Address):
    """The unbound member that a class, or one after it in its method resolution order, has under a name.

    ``base`` is the class; ``after`` skips the first classes of the order, as ``super()`` does.
    """

    base: Source
    name: str
    after: int = 0

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class ConstantSource(Address):
    """A value that the compiled program itself keeps (no address in user code)."""

    name: str
    value: object

    def __hash__(self) -> int:
        # By identity: hashing the value could run user code, and equal values may be two objects.
        return hash((self.name, id(self.value)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstantSource) and self.name == other.name and self.value is other.value


@dataclass(frozen=True, slots=True)
class SizeSource(Address):
    """One size, stride or the storage offset of a tensor, or the number in it: a symbol's origin."""

    base: Source
    property: str
    """``size``, ``stride``, ``storage_offset`` or ``item``."""
    dim: int | None = None

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class ArraySource(Address):
    """A NumPy array as a tensor, with the same memory: ``base`` is the array."""

    base: Source

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class DrawSource(Address):
    """A number drawn by a random generator, by its index among the draws: the residual program draws them first."""

    index: int

    __hash__ = Address.__hash__


@dataclass(frozen=True, slots=True)
class ParameterSource(Address):
    """``nn.Parameter(base)``, called by the residual program before the graph runs.

    ``index`` is that of the call among those that the program runs first, as for a :class:`DrawSource`: two parameters
    of one tensor are two objects.
    """

    base: Source
    requires_grad: bool
    index: int

    __hash__ = Address.__hash__


Source = (
    LocalSource
    | GlobalSource
    | BuiltinSource
    | ModuleSource
    | FunctionModeSource
    | AttrSource
    | ItemSource
    | KeySource
    | ValueSource
    | IteratorItemSource
    | TypeSource
    | MappingSource
    | NoArgsCallSource
    | CellSource
    | MethodFunctionSource
    | ClassMemberSource
    | ConstantSource
    | SizeSource
    | ArraySource
    | DrawSource
    | ParameterSource
)


def expression(source: Source) -> str:
    """Spell a source the way guards and logs print it (torch's spelling)."""
    match source:
        case LocalSource(name):
            return f"L[{name!r}]"
        case GlobalSource(name):
            return f"G[{name!r}]"
        case BuiltinSource(name):
            return f"__builtins__[{name!r}]"
        case ModuleSource(name):
            return name
        case FunctionModeSource(index):
            return f"___get_torch_function_mode_stack_at({index})"
        # Before AttrSource, its base class: the first matching pattern is used.
        case GenericAttrSource(base, attribute):
            return f"object.__getattribute__({expression(base)}, {attribute!r})"
        case AttrSource(base, attribute):
            return f"{expression(base)}.{attribute}"
        case ItemSource(base, key):
            return f"{expression(base)}[{key!r}]"
        case KeySource(base, index):
            return f"list({expression(base)}.keys())[{index}]"
        case ValueSource(base, index):
            return f"list({expression(base)}.values())[{index}]"
        case IteratorItemSource(base, index):
            return f"___tuple_iterator_getitem({expression(base)}, {index})"
        case TypeSource(base):
            return f"type({expression(base)})"
        case MappingSource(base):
            return f"___mapping_behind({expression(base)})"
        case NoArgsCallSource(base):
            return f"{expression(base)}()"
        case CellSource(base, _, index):
            return f"{expression(base)}.__closure__[{index}].cell_contents"
        case MethodFunctionSource(base, name):
            return f"type({expression(base)}).{name}"
        case ClassMemberSource(base, name, after):
            return f"{expression(base)}.__mro__[{after}:].{name}" if after else f"{expression(base)}.{name}"
        case ConstantSource(name, _):
            return name
        case SizeSource(base, property, None):
            return f"{expression(base)}.{property}()"
        case SizeSource(base, property, dim):
            return f"{expression(base)}.{property}()[{dim}]"
        case ArraySource(base):
            return f"___from_numpy({expression(base)})"
        case DrawSource(index):
            return f"random_value_{index}"
        case ParameterSource(base, requires_grad, _):
            return f"___parameter({expression(base)}, {requires_grad})"
        case _:
            assert_never(source)  # mypy proves that no class of sources is missing


ROOTS = (LocalSource, GlobalSource, BuiltinSource, ModuleSource, FunctionModeSource, ConstantSource, DrawSource)


def root(source: Source) -> Source:
    """The first step of the address."""
    *_, first = steps(source)
    return first


def steps(source: Source) -> Iterator[Source]:
    """A source and its bases: ``L['self'].weight``, then ``L['self']``."""
    yield source
    # Each step has a base, except for the first.
    while not isinstance(source, ROOTS):
        source = source.base
        yield source
