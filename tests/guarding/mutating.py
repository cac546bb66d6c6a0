"""Changes that break one guard of a compiled program, and that are undone afterwards.

    changed(source, scope, value)     a scope in which an address leads to another value
    another(leaf, value)              a value that a guard about one value must reject
    STATES                            changes of the process, for the guards about it

Each is a context manager or a value; a change that is not possible is None or NOTHING, or raises ``Cannot``.
"""

import collections
import contextlib
import copy
import functools
import inspect
import itertools
import types

import torch
import torch.overrides
import torch.utils._device
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.resolution import Scope, resolve
from nbcompile.capture.source import (
    ArraySource,
    AttrSource,
    BuiltinSource,
    CellSource,
    ClassMemberSource,
    ConstantSource,
    FunctionModeSource,
    GlobalSource,
    ItemSource,
    IteratorItemSource,
    KeySource,
    LocalSource,
    MappingSource,
    MethodFunctionSource,
    NoArgsCallSource,
    SizeSource,
    TypeSource,
    ValueSource,
)


class Cannot(Exception):
    """The error that a guard cannot be broken alone, with the reason as its text."""


class OtherMetaclass(type):
    """The metaclass of ``Other``, which no program uses."""


class Other(metaclass=OtherMetaclass):
    """A class that no program uses."""


def quietly(function, *arguments):
    """Call a function without ``__torch_function__`` of classes and modes, with which programs count calls."""
    with torch._C.DisableTorchFunction():
        return function(*arguments)


# -- another value of a source ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def changed(source, scope, value):
    """A scope in which the source has another value, while the block runs."""
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
        case BuiltinSource(name):
            if name in scope.globals:
                raise Cannot("the global hides it already")
            scope.globals[name] = value
            try:
                yield scope
            finally:
                del scope.globals[name]
            return
        case TypeSource(base):
            with changed(base, scope, Other()) as now:
                yield now
            return
        case MethodFunctionSource(base, name):
            yield from _in_class(type(resolve(base, scope)), name, 0, value, scope)
            return
        case ClassMemberSource(base, name, after):
            yield from _in_class(resolve(base, scope), name, after, value, scope)
            return
        case KeySource(base, index) | ValueSource(base, index):
            with changed(base, scope, _with_item(resolve(base, scope), source, value)) as now:
                yield now
            return
        case IteratorItemSource(base, index):
            items = list(copy.copy(resolve(base, scope)))
            items[index] = value
            with changed(base, scope, iter(tuple(items))) as now:
                yield now
            return
        case ArraySource(base):
            if not isinstance(value, torch.Tensor):
                raise Cannot("an array is read as a tensor, whatever it is")
            with changed(base, scope, value.detach().numpy()) as now:
                yield now
            return
        case SizeSource():
            raise Cannot("a size is a part of its tensor, which is guarded")
        case ConstantSource():
            raise Cannot("what the compiler holds by itself stays")
        case FunctionModeSource():
            raise Cannot("another mode on the stack is what TORCH_FUNCTION_MODE_STACK is about")
        case AttrSource(base, name):
            yield from _attribute(base, name, value, scope)
            return
        case ItemSource(base, key):
            owner = resolve(base, scope)
            if isinstance(owner, list | dict):
                yield from _put(owner, key, value, scope)
                return
            if isinstance(owner, types.MappingProxyType):
                with changed(base, scope, types.MappingProxyType({**owner, key: value})) as now:
                    yield now
                return
            if isinstance(owner, tuple) and type(key) is int:
                items = list(owner)
                items[key] = value
                with changed(base, scope, _rebuilt(owner, items)) as now:
                    yield now
                return
        case MappingSource(base):
            with changed(base, scope, types.MappingProxyType(value)) as now:
                yield now
            return
        case NoArgsCallSource(base):
            with changed(base, scope, lambda: value) as now:
                yield now
            return
    raise Cannot(f"nothing else can be put at a {type(source).__name__}")


def _attribute(base, name, value, scope):
    owner = resolve(base, scope)
    if isinstance(owner, slice):
        parts = {each: getattr(owner, each) for each in ("start", "stop", "step")} | {name: value}
        with changed(base, scope, slice(*parts.values())) as now:
            yield now
        return
    tables = [vars(owner)] if isinstance(getattr(owner, "__dict__", None), dict) else []
    if isinstance(owner, torch.nn.Module):
        tables += [vars(owner)[each] for each in ("_parameters", "_buffers", "_modules")]
    for table in tables:
        if name in table:
            yield from _put(table, name, value, scope)
            return
    if isinstance(owner, type):
        yield from _in_class(owner, name, 0, value, scope)
        return
    before = quietly(getattr, owner, name)
    if isinstance(owner, torch.Tensor) and name == "grad":  # the gradient must match its tensor in all other properties
        value = quietly(lambda: before.detach().clone().requires_grad_(not before.requires_grad))
    try:
        quietly(_in_c(owner, "__setattr__"), owner, name, value)
    except (AttributeError, TypeError, RuntimeError):
        rejected = True
    else:
        rejected = False
    if rejected:
        raise Cannot("the attribute is what it is as long as its owner is")
    try:
        yield scope
    finally:
        quietly(_in_c(owner, "__setattr__"), owner, name, before)


def _in_c(owner, name):
    """The C function that sets or deletes an attribute, without methods that the user's class defines."""
    found = (vars(each).get(name) for each in type(owner).__mro__)
    return next(each for each in found if isinstance(each, types.WrapperDescriptorType) and each.__name__ == name)


def _in_class(cls, name, after, value, scope):
    """Set a member of the class that defines a name (a class of the test, or of torch for a moment)."""
    holder = next((each for each in cls.__mro__[after:] if name in vars(each)), None)
    if holder is None or not holder.__flags__ & _HEAP_TYPE:
        raise Cannot("a class written in C stays as it is")
    before = vars(holder)[name]
    setattr(holder, name, value)
    try:
        yield scope
    finally:
        setattr(holder, name, before)


_HEAP_TYPE = 1 << 9


def _with_item(mapping, source, value):
    """A dict with another key or another value at one position."""
    items = list(dict.items(mapping))
    key, held = items[source.index]
    items[source.index] = (value, held) if isinstance(source, KeySource) else (key, value)
    made = copy.copy(mapping)
    made.clear()
    try:
        made.update(items)
    except TypeError as error:
        raise Cannot("no key that can be hashed") from error
    return made


def _rebuilt(owner, items):
    """A tuple of the same class with other items."""
    if type(owner) is torch.Size:
        return torch.Size(items)
    if type(type(owner)) is not type or type(owner).__module__ in ("builtins", "sys", "torch.return_types"):
        if type(owner) is not tuple:
            raise Cannot("a tuple of a class written in C has the items that it has")
    return tuple.__new__(type(owner), items)


def _put(table, key, value, scope):
    setter = next(each for each in (list, dict) if isinstance(table, each)).__setitem__  # not the user's method
    before = table[key]
    setter(table, key, value)
    try:
        yield scope
    finally:
        setter(table, key, before)


@contextlib.contextmanager
def _set(owner, name, value):
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


# -- values that a guard must reject ----------------------------------------------------------------------------------


META, CPU = torch.device("meta"), torch.device("cpu")


def _another_device():
    return META if torch.utils._device.CURRENT_DEVICE != META else CPU


def another(kind, value, expected):
    """A value that a guard of this kind must reject, and that otherwise resembles the current one."""
    match kind, value:
        case GuardKind.TENSOR_MATCH, torch.Tensor():
            return another_tensor(value)
        case GuardKind.TENSOR_PROPERTY, torch.Tensor():
            return another_property(value, *expected)
        case GuardKind.BOOL_MATCH, bool():
            return not value
        case GuardKind.EQUALS_MATCH, int() | float() | complex() if type(value) in (int, float, complex):
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
            return META if value.type != "meta" else CPU
        case GuardKind.NAN_MATCH, float() | complex():
            return type(value)(1.0)
        case GuardKind.SET_MEMBERS, set() | frozenset():
            return type(value)([*list(value)[1:], "an item of nobody"])
        case GuardKind.SET_ORDER, set() | frozenset():
            return type(value)([*list(value)[1:], "an item of nobody"])
        case GuardKind.SET_CONTAINS, set() | frozenset():
            item, present = expected
            return type(value)(_with_or_without(value, item, present, Other()))
        case GuardKind.DICT_CONTAINS, dict():
            key, present = expected
            keys = set(_with_or_without(value, key, present, "a key of nobody"))
            made = copy.copy(value)
            made.clear()
            there = {each: dict.get(value, each, 0) for each in (*value, key, "a key of nobody") if each in keys}
            _dict_class(value).update(made, there)
            return made
        case GuardKind.DICT_CONTAINS, types.MappingProxyType():
            key, present = expected
            keys = set(_with_or_without(value, key, present, "a key of nobody"))
            return types.MappingProxyType({each: value.get(each, 0) for each in (*value, *keys) if each in keys})
        case ((GuardKind.SEQUENCE_LENGTH | GuardKind.DICT_LENGTH | GuardKind.DICT_KEYS), dict()):
            return _with_key(value, "a key of nobody", Other())
        case ((GuardKind.DICT_LENGTH | GuardKind.DICT_KEYS), types.MappingProxyType()):
            return types.MappingProxyType({**value, "a key of nobody": Other()})
        case GuardKind.SEQUENCE_LENGTH, str():
            return value + "x"
        case GuardKind.SEQUENCE_LENGTH, range():
            return range(value.start, value.stop + value.step, value.step)
        case GuardKind.SEQUENCE_LENGTH, tuple():
            return _rebuilt(value, (*value, 1 if type(value) is torch.Size else Other()))
        case GuardKind.SEQUENCE_LENGTH, list() | set() | frozenset() | collections.deque():
            made = copy.copy(value)
            if isinstance(value, frozenset):
                return made | {Other()}
            (set.add if isinstance(value, set) else _APPEND[isinstance(value, list)])(made, Other())
            return made
        case GuardKind.TUPLE_ITERATOR_LEN, _:
            return iter((*copy.copy(value), Other()))
        case GuardKind.RANGE_ITERATOR_MATCH, _:
            return iter(range(1, 99, 7))
        case GuardKind.FUNCTION_MATCH, types.FunctionType():
            return _lookalike(value)
        case GuardKind.FUNCTION_MATCH, types.MethodType():
            return types.MethodType(another_code, value.__self__)
        case GuardKind.SUBCLASSES, _:
            raise Cannot("a class that is registered stays registered")
        case GuardKind.TYPE_MATCH, _:
            return _of_another_class(value)
        case GuardKind.ID_MATCH, _:
            return _lookalike(value)
        case ((GuardKind.NONE_MATCH | GuardKind.EQUALS_MATCH), _):
            return Other()
        case GuardKind.FUNCTION_MATCH, _:
            return another_code
    raise Cannot(f"no other value is known for {kind} of a {type(value).__name__}")


def _of_another_class(value):
    """An equal instance of a subclass, if one can be created."""
    cls = type(value)
    if cls in (list, dict, tuple, set, frozenset, str, int, float):
        return _subclass(cls)(value)
    if isinstance(getattr(value, "__dict__", None), dict) and cls.__new__ is object.__new__ and _lays_out_alike(cls):
        made = object.__new__(_subclass(cls))
        vars(made).update(vars(value))
        return made
    return Other()


def _lays_out_alike(cls):
    return cls.__flags__ & _HEAP_TYPE and not hasattr(cls.__init_subclass__, "__func__")  # object's own has none


@functools.cache
def _subclass(cls):
    return type(cls)(f"Other{cls.__name__}", (cls,), {})


def _with_or_without(items, item, present, other):
    """The same number of items, one of them changed: the item is added if it is missing, and removed otherwise."""
    kept = [each for each in items if each != item]
    return [*kept, other] if present else [*kept[1:], item]


def _lookalike(value):
    """Another object that resembles this one; a function has different code, which another process detects, too."""
    if type(value) is types.FunctionType:
        code = value.__code__.replace(co_consts=(*value.__code__.co_consts, "not used"))
        made = types.FunctionType(code, value.__globals__, value.__name__, value.__defaults__, value.__closure__)
        made.__kwdefaults__ = value.__kwdefaults__
        vars(made).update(vars(value))
        return made
    if type(value) is types.ModuleType:
        made = types.ModuleType(value.__name__)
        vars(made).update({**vars(value), "__name__": f"not_{value.__name__}"})
        return made
    if type(value) is type and value.__flags__ & _HEAP_TYPE and _lays_out_alike(value):
        return _subclass(value)
    return Other()


_APPEND = {True: list.append, False: collections.deque.append}


def _with_key(mapping, key, value):
    """A dict of the same class with one more key, or without this key if the value is None."""
    made = copy.copy(mapping)
    if value is None:
        _dict_class(mapping).pop(made, key)
    else:
        _dict_class(mapping).__setitem__(made, key, value)
    return made


def _dict_class(mapping):
    """The class in C whose methods mutate a dict; those of dict would leave an OrderedDict without its order."""
    return collections.OrderedDict if isinstance(mapping, collections.OrderedDict) else dict


def another_code(*_):
    """A function with other code."""


def another_tensor(value):
    """A tensor with another dtype."""
    if is_traceable_wrapper_subclass(value) or value.is_sparse or value.layout is not torch.strided:
        return Other()
    if value.is_complex():
        return value.detach().real.clone()
    return value.detach().to(torch.float64 if value.dtype is not torch.float64 else torch.float32)


def another_property(value, name, expected):
    """A tensor with the same data, type and grad mode, but another value of the property."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
        raise Cannot("a tensor subclass, or a sparse tensor, is not made again")
    base = value.detach().clone()
    computed = base.requires_grad_().view_as(base) if value.requires_grad else base
    if name == "retains_grad" and not expected:
        if not value.requires_grad:
            raise Cannot("a tensor without gradient retains none")
        computed.retain_grad()
    match name:
        case "is_leaf" if not value.requires_grad:
            raise Cannot("a tensor without gradient is a leaf")
        case "is_pinned":
            raise Cannot("memory is pinned for a GPU")
        case "is_leaf" | "retains_grad":
            return computed if expected or name == "retains_grad" else base
        case "is_shared":
            return base.share_memory_() if not expected else base
        case "_is_view":
            return base if expected else base.view_as(base)
    raise Cannot(f"no tensor is known for {name}")


@contextlib.contextmanager
def in_place(leaf, value):
    """A guard on the contents of a value, broken by a mutation of that value."""
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
            owner = _holder(value, name) if present else value
            put, take = _in_c(owner, "__setattr__"), _in_c(owner, "__delattr__")
            look = inspect.getattr_static if isinstance(owner, type) else getattr
            try:
                before = look(owner, name, None)
                take(owner, name) if present else put(owner, name, Other())
            except (AttributeError, TypeError, RuntimeError):
                rejected = True
            else:
                rejected = False
            if rejected and isinstance(owner, type):  # ``case str(x)`` reads str.__match_args__
                raise Cannot("a class written in C stays as it is")
            if rejected and isinstance(
                inspect.getattr_static(owner, name, None),
                (types.MemberDescriptorType, types.GetSetDescriptorType),
            ):  # ``group.exceptions`` is read-only
                raise Cannot("an attribute of a class written in C stays")
            if rejected:
                raise Cannot("an object that takes no attribute, or gives none away")
            try:
                if hasattr(value, name) is present:  # None is left after ``del error.strerror``
                    raise Cannot("an attribute of a class written in C stays")
                yield
            finally:
                put(owner, name, before) if present else take(owner, name)
        case GuardKind.TENSOR_SUBCLASS_METADATA_MATCH:
            for name, held in list(vars(value).items()):
                if type(held) in (bool, int, float, str):
                    vars(value)[name] = not held if type(held) is bool else another(GuardKind.EQUALS_MATCH, held, held)
                    try:
                        if value.__tensor_flatten__()[1] != expected:
                            yield
                            return
                    finally:
                        vars(value)[name] = held
            raise Cannot("a wrapper says nothing beside its tensors, or always the same")
        case kind:
            raise Cannot(f"no change is known for {kind}")


def _holder(value, name):
    """The object that has the attribute: the value itself or one of its classes."""
    if name in getattr(value, "__dict__", ()) or isinstance(
        getattr(type(value), name, None), types.MemberDescriptorType
    ):
        return value
    mro = value.__mro__ if isinstance(value, type) else type(value).__mro__
    return next((each for each in mro if name in vars(each)), value)


IN_PLACE = (
    GuardKind.DIMENSION_MARKING,
    GuardKind.NOT_IN_GENERIC_DICT,
    GuardKind.HASATTR,
    GuardKind.TENSOR_SUBCLASS_METADATA_MATCH,
)


# -- several values ----------------------------------------------------------------------------------------------------


def shared(sources, scope):
    """Scopes in which two of the sources have the same object."""
    for first, second in itertools.permutations(sources, 2):
        yield changed(second, scope, resolve(first, scope))


def parted(first, second, scope):
    """A scope in which two sources of one object have two similar objects."""
    value = resolve(second, scope)
    return changed(first, scope, quietly(value.detach) if isinstance(value, torch.Tensor) else copy.copy(value))


SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 31, 33, 64, 101, 4096)
NUMBERS = (*SIZES, -1, -7, 1 << 40, 0.5, 1.5, -2.5, float("nan"))


def other_sizes(sources, scope):
    """Changes of one or two of the tensors and numbers: lists of (source, property, dim, number)."""
    ways = [way for source in sources for way in _ways(source, scope)]
    for count in (1, 2):
        for some in itertools.combinations(ways, count):
            for value in NUMBERS:
                yield [(*way, value) for way in some]


def _ways(source, scope):
    """The changes that apply to a value: a size (with or without its strides), a stride, the offset; a number."""
    value = resolve(source, scope)
    if isinstance(value, torch.Tensor) and value.dim() and value.layout is torch.strided:
        dims = range(value.dim())
        return [
            *((source, what, dim) for what in ("size", "size alone", "stride") for dim in dims),
            (source, "offset", 0),
        ]
    return [(source, "number", 0)]


@contextlib.contextmanager
def resized(changes, scope):
    """A scope with these changes of sizes and numbers."""
    values = {}
    for source, changed_ones in itertools.groupby(changes, lambda each: each[0]):
        if isinstance(source, SizeSource):
            raise Cannot("a property of a tensor")
        values[source] = _changed_so(resolve(source, scope), [each[1:] for each in changed_ones])
    with contextlib.ExitStack() as stack:
        for source, value in values.items():
            scope = stack.enter_context(changed(source, scope, value))
        yield scope


def _changed_so(value, changes):
    if changes[0][0] != "number":
        return quietly(_laid_out, value, changes)
    number = changes[0][2]
    if isinstance(value, torch.Tensor):
        if not (value.is_floating_point() or isinstance(number, int)) or abs(number) > 1 << 30:
            raise Cannot("no number for a tensor")
        return quietly(lambda: torch.full((), number, dtype=value.dtype))
    if type(number) is not type(value):
        raise Cannot("a number of another type")
    return number


def _laid_out(tensor, changes):
    """A tensor of the same kind with other sizes, strides and offset."""
    sizes, strides, offset = [*tensor.shape], [*tensor.stride()], tensor.storage_offset()
    for what, dim, number in changes:
        if type(number) is not int or not 0 <= number <= 4096:
            raise Cannot("no size")
        if what == "offset":
            offset = number
        else:
            (strides if what == "stride" else sizes)[dim] = number
    if any(what == "size" for what, _, _ in changes):
        fresh = torch.empty(sizes, device="meta").stride()
        strides = [
            now if ("stride", dim) in {each[:2] for each in changes} else fresh[dim] for dim, now in enumerate(strides)
        ]
    reach = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1
    if reach > 1 << 22:
        raise Cannot("more than needs to be allocated")
    made = torch.zeros(max(reach, 1), dtype=tensor.dtype).as_strided(sizes, strides, offset)
    return made.requires_grad_(tensor.requires_grad)


# -- the state of the process -------------------------------------------------------------------------------------------


class Mode(torch.overrides.TorchFunctionMode):
    """A mode that does nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _toggled(read, write, other):
    before = quietly(read)
    quietly(write, other(before))
    try:
        yield
    finally:
        quietly(write, before)


@contextlib.contextmanager
def _functionalized():
    depth = torch._C._functorch.get_dynamic_layer_stack_depth()
    torch._C._functorch._func_increment_nesting(True)
    try:
        yield
    finally:
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)


@contextlib.contextmanager
def _without_overrides():
    if not torch._C._is_torch_function_enabled():
        raise Cannot("it is so already")
    with torch._C.DisableTorchFunctionSubclass():
        yield


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
        "torch_function": _without_overrides,
        "autocast": lambda: torch.autocast("cpu", enabled=not torch.is_autocast_enabled("cpu")),
    },
    GuardKind.TORCH_FUNCTION_MODE_STACK: {"": Mode},
    GuardKind.DEFAULT_DEVICE: {
        "": lambda: _set(torch.utils._device, "CURRENT_DEVICE", _another_device()),
    },
    GuardKind.SAVED_TENSORS_HOOKS: {
        "": lambda: torch.autograd.graph.saved_tensors_hooks(*[torch.fx.symbolic_trace(lambda x: x.clone())] * 2),
    },
    GuardKind.TRANSFORMS: {"": _functionalized},
}
"""The process state of each guard, as its reason names it, and a change of that state."""
