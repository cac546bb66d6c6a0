"""Ways to break one promise of a compiled program, and to put everything back.

    changed(source, scope, value)     a scope in which an address leads to another value
    another(leaf, value)              a value that a guard about one value must refuse
    STATES                            changes of the process, for the guards about it

Each is a context manager or a value; what cannot be done is None or NOTHING, and says why in ``Cannot``.
"""

import contextlib
import copy
import itertools
import types

import torch
import torch.overrides
import torch.utils._device
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import (
    AttrSource,
    CellSource,
    ClassMemberSource,
    GlobalSource,
    ItemSource,
    LocalSource,
    MethodFunctionSource,
    Scope,
    SizeSource,
    TypeSource,
    resolve,
)


class Cannot(Exception):
    """This promise cannot be broken by itself, for the reason that is the text."""


class Other:
    """Something that no program knows."""


# -- another value at an address -------------------------------------------------------------------------------------


@contextlib.contextmanager
def changed(source, scope, value):
    """A scope in which the address leads to another value, as long as the block runs."""
    match source:
        case LocalSource(name):
            yield Scope(scope.code, {**scope.locals, name: value}, scope.globals, scope.builtins)
            return
        case GlobalSource(name):
            yield from _put(scope.globals, name, value, scope)
            return
        case CellSource(base, _, index):
            with _set(resolve(base, scope).__closure__[index], "cell_contents", value):
                yield scope
            return
        case TypeSource() | MethodFunctionSource() | ClassMemberSource() | SizeSource():
            raise Cannot(f"a {type(source).__name__} follows from the value before")
        case AttrSource(base, name):
            yield from _attribute(base, name, value, scope)
            return
        case ItemSource(base, key):
            owner = resolve(base, scope)
            if type(owner) in (list, dict):
                yield from _put(owner, key, value, scope)
                return
            if type(owner) is tuple and type(key) is int:
                items = list(owner)
                items[key] = value
                with changed(base, scope, tuple(items)) as now:
                    yield now
                return
    raise Cannot(f"nothing else can be put at a {type(source).__name__}")


def _attribute(base, name, value, scope):
    owner = resolve(base, scope)
    if isinstance(owner, types.ModuleType) or (isinstance(owner, type) and owner.__module__.startswith("torch")):
        raise Cannot("what a library holds stays")
    tables = [vars(owner)] if hasattr(owner, "__dict__") and not isinstance(owner, type) else []
    if isinstance(owner, torch.nn.Module):
        tables += [vars(owner)[each] for each in ("_parameters", "_buffers", "_modules")]
    for table in tables:
        if name in table:
            yield from _put(table, name, value, scope)
            return
    try:
        before = getattr(owner, name)
        setattr(owner, name, value)
    except (AttributeError, TypeError, RuntimeError) as error:
        raise Cannot("an attribute that refuses the value") from error
    try:
        yield scope
    finally:
        setattr(owner, name, before)


def _put(table, key, value, scope):
    before = table[key]
    table[key] = value
    try:
        yield scope
    finally:
        table[key] = before


@contextlib.contextmanager
def _set(owner, name, value):
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


# -- values that a guard must refuse ----------------------------------------------------------------------------------


def _another_device():
    meta = torch.device("meta")
    return meta if torch.utils._device.CURRENT_DEVICE != meta else torch.device("cpu")


def another(kind, value, expected):
    """A value that a guard of this kind must refuse, as like the present one as can be."""
    match kind, value:
        case GuardKind.TENSOR_MATCH, torch.Tensor():
            return another_tensor(value)
        case GuardKind.BOOL_MATCH, bool():
            return not value
        case GuardKind.EQUALS_MATCH, int() | float() | complex():
            return value + 1 if value + 1 != value else 0.0
        case GuardKind.EQUALS_MATCH, str():
            return value + "x"
        case GuardKind.EQUALS_MATCH, bytes():
            return value + b"x"
        case GuardKind.EQUALS_MATCH, tuple() if type(value) is tuple:
            return (*value, 1)
        case GuardKind.EQUALS_MATCH, torch.dtype():
            return torch.float64 if value is not torch.float64 else torch.float32
        case GuardKind.EQUALS_MATCH, torch.device():
            return torch.device("meta") if value.type != "meta" else torch.device("cpu")
        case GuardKind.NAN_MATCH, float() | complex():
            return type(value)(1.0)
        case GuardKind.SET_CONTAINS, set() | frozenset():
            item, present = expected
            return type(value)(each for each in value if each != item) if present else type(value)((*value, item))
        case GuardKind.DICT_CONTAINS, dict() if type(value) is dict:
            key, present = expected
            return {each: held for each, held in value.items() if each != key} if present else {**value, key: Other()}
        case GuardKind.SEQUENCE_LENGTH, list() | tuple() | set() | frozenset() if _is_plain(value):
            return type(value)((*value, Other()))
        case GuardKind.SEQUENCE_LENGTH, str():
            return value + "x"
        case GuardKind.SEQUENCE_LENGTH, range():
            return range(value.start, value.stop + value.step, value.step)
        case ((GuardKind.SEQUENCE_LENGTH | GuardKind.DICT_LENGTH | GuardKind.DICT_KEYS), dict()) if type(value) is dict:
            return {**value, "a key of nobody": Other()}
        case GuardKind.TUPLE_ITERATOR_LEN, _:
            return iter((*copy.copy(value), Other()))
        case GuardKind.RANGE_ITERATOR_MATCH, _:
            return iter(range(1, 99, 7))
        case GuardKind.FUNCTION_MATCH, types.FunctionType():
            return types.FunctionType(another_code.__code__, value.__globals__, value.__name__)
        case ((GuardKind.NONE_MATCH | GuardKind.ID_MATCH | GuardKind.TYPE_MATCH | GuardKind.EQUALS_MATCH), _):
            return Other()
        case GuardKind.FUNCTION_MATCH, _:
            return another_code
    raise Cannot(f"no other value is known for {kind} of a {type(value).__name__}")


def _is_plain(value):
    return type(value) in (list, tuple, set, frozenset)


def another_code(*_):
    """A function with code of its own."""


def another_tensor(value):
    """A tensor of another type."""
    if is_traceable_wrapper_subclass(value) or value.is_sparse or value.layout is not torch.strided:
        return Other()
    if value.is_complex():
        return value.detach().real.clone()
    return value.detach().to(torch.float64 if value.dtype is not torch.float64 else torch.float32)


@contextlib.contextmanager
def in_place(leaf, value):
    """A promise about what a value has, broken in the value itself."""
    expected = leaf.guard.expected
    match leaf.guard.kind:
        case GuardKind.DIMENSION_MARKING:
            if not expected.absent:
                raise Cannot("every mark is there")
            before = dict(vars(value))
            setattr(value, expected.absent[0], {0})
            value._has_dynamo_dim_marking = True
            try:
                yield
            finally:
                vars(value).clear()
                vars(value).update(before)
        case GuardKind.NOT_IN_GENERIC_DICT:
            vars(value)[expected] = Other()
            try:
                yield
            finally:
                del vars(value)[expected]
        case GuardKind.HASATTR:
            name, present = expected
            table = getattr(value, "__dict__", {})
            if present and name not in table or not isinstance(table, dict):
                raise Cannot("the attribute is not the object's own")
            before = dict(table)
            try:
                if present:
                    del table[name]
                else:
                    setattr(value, name, Other())
            except (AttributeError, TypeError, RuntimeError) as error:
                raise Cannot("an object that takes no attribute") from error
            try:
                yield
            finally:
                table.clear()
                table.update(before)
        case kind:
            raise Cannot(f"no change is known for {kind}")


IN_PLACE = (GuardKind.DIMENSION_MARKING, GuardKind.NOT_IN_GENERIC_DICT, GuardKind.HASATTR)


# -- several values -----------------------------------------------------------------------------------------------------


def shared(sources, scope):
    """Scopes in which two of the addresses lead to one object."""
    for first, second in itertools.permutations(sources, 2):
        yield changed(second, scope, resolve(first, scope))


def parted(first, second, scope):
    """A scope in which the two addresses of one object lead to two that are alike."""
    value = resolve(second, scope)
    return changed(first, scope, value.detach() if isinstance(value, torch.Tensor) else copy.copy(value))


SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 31, 33, 64, 101, 4096)
NUMBERS = (*SIZES, -1, -7, 1 << 40, 0.5, 1.5, -2.5, float("nan"))


def other_sizes(sources, scope):
    """Scopes in which the tensors and numbers at the addresses have other sizes and values, one or two at a time."""
    ways = [way for source in sources for way in _ways(source, scope)]
    for count in (1, 2):
        for some in itertools.combinations(ways, count):
            if count == 2 and some[0][:2] == some[1][:2]:
                continue
            for value in NUMBERS:
                yield [(source, dim, value) for source, dim in some]


def _ways(source, scope):
    value = resolve(source, scope)
    if isinstance(value, torch.Tensor):
        return [(source, dim) for dim in range(value.dim())] or [(source, None)]
    return [(source, None)]


@contextlib.contextmanager
def resized(changes, scope):
    """A scope with these changes of sizes and numbers."""
    values = {}
    for source, dim, number in changes:
        value = values.get(source, resolve(source, scope))
        if isinstance(source, SizeSource):
            raise Cannot("a property of a tensor")
        if isinstance(value, torch.Tensor) and dim is not None:
            if type(number) is not int or not 0 <= number <= 4096:
                raise Cannot("no size")
            sizes = [*value.shape]
            sizes[dim] = number
            value = torch.zeros(sizes, dtype=value.dtype).requires_grad_(value.requires_grad)
        elif isinstance(value, torch.Tensor):
            if not isinstance(number, int) or abs(number) > 1 << 30:
                raise Cannot("no number for a tensor")
            value = torch.full((), number, dtype=value.dtype)
        else:
            if type(number) is not type(value):
                raise Cannot("a number of another type")
            value = number
        values[source] = value
    with contextlib.ExitStack() as stack:
        for source, value in values.items():
            scope = stack.enter_context(changed(source, scope, value))
        yield scope


# -- the state of the process -------------------------------------------------------------------------------------------


class Mode(torch.overrides.TorchFunctionMode):
    """A mode that does nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _toggled(read, write, other):
    before = read()
    write(other(before))
    try:
        yield
    finally:
        write(before)


STATES = {
    GuardKind.GLOBAL_STATE: {
        "grad_mode": lambda: _toggled(torch.is_grad_enabled, torch._C._set_grad_enabled, lambda on: not on),
        "default_dtype": lambda: _toggled(
            torch.get_default_dtype,
            torch.set_default_dtype,
            lambda now: torch.float64 if now is not torch.float64 else torch.float32,
        ),
        "num_threads": lambda: _toggled(torch.get_num_threads, torch.set_num_threads, lambda now: now + 1),
        "deterministic_algorithms": lambda: _toggled(
            torch.are_deterministic_algorithms_enabled, torch._C._set_deterministic_algorithms, lambda on: not on
        ),
        "torch_function": torch._C.DisableTorchFunctionSubclass,
        "autocast": lambda: torch.autocast("cpu", enabled=not torch.is_autocast_enabled("cpu")),
    },
    GuardKind.TORCH_FUNCTION_MODE_STACK: {"": Mode},
    GuardKind.DEFAULT_DEVICE: {
        "": lambda: _set(torch.utils._device, "CURRENT_DEVICE", _another_device()),
    },
    GuardKind.SAVED_TENSORS_HOOKS: {
        "": lambda: torch.autograd.graph.saved_tensors_hooks(*[torch.fx.symbolic_trace(lambda x: x.clone())] * 2),
    },
}
"""Of each guard about the process: what it looks at (as its reason has it), and how that is changed."""
