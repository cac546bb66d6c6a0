"""Changes of a program between the process that compiled it and the process that loads it.

    changes(program.build())      {"tensors: float64": ..., "closure .k: int + 1": ..., "torch.sin is patched": ...}
    Changed(program, name)        a program whose ``build`` makes that change

The changes are found by a walk over all objects that the program refers to, without knowledge of the program:
arguments, closures, globals, defaults, attributes, classes, code, the state of the process and torch itself.

In torch: nothing. Read next: tests/fast/disk_cache/matrix.py
"""

import contextlib
import dataclasses
import dis
import functools
import itertools
import math
import operator
import os
import platform
import sys
import types
from collections import OrderedDict
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F

from nbcompile import config
from nbcompile.runtime import toolchain
from tests.guarding.mutating import Mode
from tests.peer.program import Program


@dataclasses.dataclass(frozen=True)
class Changed:
    """A program of tests/peer after one change, which ``tests.peer.harness.run`` accepts."""

    program: Program
    change: str

    @property
    def settings(self):
        return self.program.settings

    def build(self):
        """A new function, its calls and its module, after the change."""
        torch.manual_seed(0)
        built = self.program.build()
        return changes(built)[self.change]()


def names(program):
    """The names of all changes of a program."""
    return list(changes(program.build()))


def changes(built):
    """All changes of a program by name: functions that apply the change and return the changed program."""
    found = {"none": lambda: built}
    for family in (_of_calls, _of_arguments, _of_state, _of_environment, _of_torch, _of_objects):
        for name, change in family(*built):
            while name in found:
                name += "'"
            found[name] = change
    return found


# -- calls --------------------------------------------------------------------------------------------------------------


def _of_calls(function, calls, module):
    if len(calls) > 1:
        yield "calls: the last alone", lambda: (function, calls[-1:], module)
        yield "calls: reversed", lambda: (function, calls[::-1], module)
    yield "calls: each twice", lambda: (function, [call for call in calls for _ in range(2)], module)


# -- arguments ----------------------------------------------------------------------------------------------------------


class Plain(torch.Tensor):
    """A subclass of Tensor that changes nothing."""


class Whole(int):
    """A subclass of int that changes nothing."""


def _strided(x):
    """The same values, with a gap after each element."""
    return torch.stack((x, x), -1)[..., 0]


def _offset(x):
    """The same values, not at the beginning of their storage."""
    return torch.cat((x.flatten()[:1], x.flatten()))[1:].view(x.shape)


DTYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
TENSORS = {
    "one dimension more": lambda x: x.unsqueeze(0),
    "no dimensions": lambda x: x.flatten()[0],
    "flat": torch.flatten,
    "no rows": lambda x: x[:0],
    "one row": lambda x: x[:1],
    "one row more": lambda x: torch.cat((x, x[:1])),
    "two columns more": lambda x: torch.cat((x, x[..., :2]), -1),
    **{str(dtype): functools.partial(torch.Tensor.to, dtype=dtype) for dtype in DTYPES},
    "gaps between elements": _strided,
    "transposed strides": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "transposed": lambda x: x.transpose(0, -1),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "expanded": lambda x: x[:1].expand_as(x),
    "an offset": _offset,
    "negative": torch.neg,
    "negative zeros": lambda x: torch.full_like(x, -0.0),
    "nan": lambda x: torch.full_like(x, math.nan),
    "large": lambda x: x * 1e30,
    "the negative bit": lambda x: torch._neg_view(x),
    "the conjugate bit": lambda x: x.to(torch.complex64).conj(),
    "sparse": lambda x: x.to_sparse(),
}
"""Changes of a tensor's data, applied to detached tensors, which require grad afterwards as before."""
KINDS = {
    "requires_grad toggled": lambda x: x.detach().clone().requires_grad_(not x.requires_grad),
    "not a leaf": lambda x: x.detach().clone().requires_grad_().clone(),
    "a Parameter": lambda x: torch.nn.Parameter(x.detach().clone(), requires_grad=x.requires_grad),
    "of a subclass": lambda x: x.detach().clone().as_subclass(Plain).requires_grad_(x.requires_grad),
    "of inference mode": lambda x: _in_inference_mode(x),
    "a gradient": lambda x: _with_gradient(x),
    "a view": lambda x: x.detach().clone().view(x.shape),
    "marked dynamic": lambda x: _marked(x),
}
"""Changes of a tensor's properties."""


def _in_inference_mode(x):
    with torch.inference_mode():
        return x.detach().clone()


def _with_gradient(x):
    made = x.detach().clone().requires_grad_()
    made.grad = torch.ones_like(made)
    return made


def _marked(x):
    made = x.detach().clone().requires_grad_(x.requires_grad)
    torch._dynamo.mark_dynamic(made, 0)
    return made


NUMBERS = {
    "ints + 1": (int, lambda value: value + 1),
    "ints 0": (int, lambda value: 0),
    "ints 1": (int, lambda value: 1),
    "ints negative": (int, operator.neg),
    "ints as floats": (int, float),
    "ints as bools": (int, bool),
    "ints of NumPy": (int, np.int64),
    "ints of a subclass": (int, Whole),
    "ints beyond 32 bits": (int, lambda value: value + (1 << 40)),
    "bools flipped": (bool, operator.not_),
    "bools as ints": (bool, int),
    "floats + 0.5": (float, lambda value: value + 0.5),
    "floats -0.0": (float, lambda value: -0.0),
    "floats 0.0": (float, lambda value: 0.0),
    "floats nan": (float, lambda value: math.nan),
    "floats as ints": (float, lambda value: int(value) if math.isfinite(value) else 7),
    "floats of NumPy": (float, np.float64),
    "strings longer": (str, lambda value: value + "x"),
    "strings of upper case": (str, str.upper),
    "None as 1": (type(None), lambda value: 1),
    "lists longer": (list, lambda value: [*value, *value[-1:]]),
    "lists reversed": (list, lambda value: value[::-1]),
    "lists as tuples": (list, tuple),
    "tuples longer": (tuple, lambda value: (*value, *value[-1:])),
    "tuples as lists": (tuple, list),
    "dicts reversed": (dict, lambda value: dict(reversed(value.items()))),
    "dicts with a key more": (dict, lambda value: {**value, "another": 1}),
    "dicts ordered": (dict, OrderedDict),
    "arrays of float64": (np.ndarray, lambda value: value.astype(np.float64)),
    "arrays with gaps": (np.ndarray, lambda value: np.stack((value, value), -1)[..., 0]),
    "arrays with a row less": (np.ndarray, lambda value: value[:-1]),
    "dtypes": (torch.dtype, lambda value: torch.float64 if value is not torch.float64 else torch.float32),
}
"""Changes of other arguments, by the exact class."""


def _of_arguments(function, calls, module):
    leaves = [leaf for call in calls if not callable(call) for leaf in _leaves(call)]
    hidden = any(map(callable, calls))
    tensors = [leaf for leaf in leaves if _is_plain(leaf)]
    for name, change in _tensor_changes().items():
        if tensors or hidden:
            yield f"tensors: {name}", _over_calls(change, _is_plain, function, calls, module)
        if len({id(tensor) for tensor in tensors}) > 1:
            yield f"first tensor: {name}", _over_calls(_first_only(change), _is_plain, function, calls, module)
    classes = {type(leaf) for leaf in leaves}
    for name, (cls, change) in NUMBERS.items():
        if cls in classes:
            chosen = functools.partial(_has_class, cls)
            yield f"arguments: {name}", _over_calls(change, chosen, function, calls, module)
    if len(tensors) > 1:
        for name, alias in ALIASES.items():
            yield f"arguments: {name}", functools.partial(_aliased, alias, function, calls, module)


def _tensor_changes():
    of_data = {name: functools.partial(_changed_data, change) for name, change in TENSORS.items()}
    return of_data | KINDS


def _changed_data(change, x):
    made = change(x.detach())
    return made.requires_grad_(x.requires_grad and (made.is_floating_point() or made.is_complex()))


def _is_plain(value):
    return type(value) in (torch.Tensor, torch.nn.Parameter)


def _has_class(cls, value):
    return type(value) is cls


def _first_only(change):
    seen = []

    def changed(x):
        seen.append(x)
        return change(x) if x is seen[0] else x

    return changed


def _leaves(value):
    yield value
    if type(value) in (list, tuple):
        for part in value:
            yield from _leaves(part)
    elif type(value) is dict:
        for part in value.values():
            yield from _leaves(part)


def _over_calls(change, chosen, function, calls, module):
    """Apply a change to every chosen leaf of all arguments; each object is changed once."""
    done = {}

    def leaf(value):
        if id(value) not in done:
            try:
                done[id(value)] = value, change(value)
            except Exception:  # this value has no such form
                done[id(value)] = value, value
        return done[id(value)][1]

    def over(value):
        if type(value) in (list, tuple):
            value = type(value)(map(over, value))
        elif type(value) is dict:
            value = {key: over(part) for key, part in value.items()}
        return leaf(value) if chosen(value) else value

    def changed():
        return (
            function,
            [_intercepted(call, over) if callable(call) else tuple(map(over, call)) for call in calls],
            module,
        )

    return changed


def _intercepted(call, over):
    """A call that calls the compiled function itself, with changed arguments."""
    return lambda compiled: call(_Intercepting(compiled, over))


class _Intercepting:
    def __init__(self, compiled, over):
        self.compiled, self.over = compiled, over

    def __call__(self, *arguments, **keywords):
        return self.compiled(*map(self.over, arguments), **{name: self.over(value) for name, value in keywords.items()})

    def __getattr__(self, name):
        return getattr(self.compiled, name)


def _one_tensor(tensors):
    return {id(x): tensors[0] for x in tensors if x.shape == tensors[0].shape and x.dtype == tensors[0].dtype}


def _one_storage(tensors):
    """Views that overlap in part, if sizes and dtypes allow it."""
    first = tensors[0]
    storage = torch.arange(first.numel() + len(tensors)).to(first.dtype)
    alike = [x for x in tensors if x.shape == first.shape and x.dtype == first.dtype]
    return {id(x): storage[at : at + first.numel()].view(first.shape) for at, x in enumerate(alike)}


def _two_of_one_storage(tensors):
    """Views of one storage that do not overlap."""
    first = tensors[0]
    alike = [x for x in tensors if x.shape == first.shape and x.dtype == first.dtype]
    storage = torch.cat([x.detach().flatten() for x in alike])
    return {id(x): part.view(first.shape) for x, part in zip(alike, storage.chunk(len(alike)), strict=False)}


ALIASES = {"one tensor": _one_tensor, "overlapping views": _one_storage, "views of one storage": _two_of_one_storage}


def _aliased(alias, function, calls, module):
    made = []
    for call in calls:
        tensors = [] if callable(call) else list({id(x): x for x in _leaves(call) if _is_plain(x)}.values())
        replaced = alias(tensors) if tensors else {}
        made += _over_calls(lambda x, table=replaced: table.get(id(x), x), _is_plain, function, [call], module)()[1]
    return function, made, module


# -- the state of the process -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _put(read, write, value):
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


STATES = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "autocast to float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "autocast switched off": lambda: torch.autocast("cpu", enabled=False),
    "default dtype": lambda: _put(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "default device": lambda: torch.device("cpu"),
    "two threads": lambda: _put(torch.get_num_threads, torch.set_num_threads, torch.get_num_threads() + 1),
    "deterministic": lambda: _put(torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True),
    "matmul precision": lambda: _put(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"),
    "no torch function": torch._C.DisableTorchFunctionSubclass,
    "a torch function mode": Mode,
    "saved tensors hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x * 1, lambda x: x * 1),
    "anomaly detection": lambda: torch.autograd.detect_anomaly(check_nan=False),
    "multithreading off": lambda: torch.autograd.set_multithreading_enabled(False),
    "no oneDNN": lambda: torch.backends.mkldnn.flags(enabled=False),
    "memory not filled": lambda: mock.patch.object(torch.utils.deterministic, "fill_uninitialized_memory", False),
    "TF32": lambda: mock.patch.object(torch.backends.cuda.matmul, "allow_tf32", True),
    "denormals flushed": lambda: _put(lambda: False, torch.set_flush_denormal, True),
    "swap of parameters": lambda: _put(
        torch.__future__.get_swap_module_params_on_conversion,
        torch.__future__.set_swap_module_params_on_conversion,
        True,
    ),
}


def _of_state(function, calls, module):
    for name, state in STATES.items():
        yield f"state: {name}", functools.partial(_within, state, function, calls, module)


def _within(state, function, calls, module):
    """The same calls, each in another state of the process."""
    return function, [functools.partial(_called_within, state, call) for call in calls], module


def _called_within(state, call, compiled):
    with state():
        return call(compiled) if callable(call) else compiled(*call)


ENVIRONMENT = {
    "another version of torch": lambda: mock.patch.object(torch, "__version__", "9.9.9"),
    "another build of torch": lambda: mock.patch.object(torch.version, "git_version", "0" * 40),
    "another version of Python": lambda: mock.patch.object(sys, "version", "3.99.0 (main)"),
    "another machine": lambda: mock.patch.object(platform, "node", lambda: "another"),
    "another processor": lambda: mock.patch.object(toolchain, "processor_model", lambda: "another"),
    "a variable of torch": lambda: _variable("TORCH_LOGS_FORMAT", "x"),
    "a variable of nbcompile": lambda: _variable("NBCOMPILE_VERBOSE_NAMES", "1"),
    "a variable of OpenMP": lambda: _variable("OMP_NUM_THREADS", "3"),
    "another setting": lambda: config.patch(recompile_limit=config.recompile_limit + 1),
    "another setting of numbers": lambda: config.patch(specialize_float=not config.specialize_float),
}
"""The environment that an entry's key contains: after a change of it, nothing is loaded."""
ELSEWHERE = {
    "another folder": lambda: contextlib.chdir("/"),
    "other arguments of the command": lambda: mock.patch.object(sys, "argv", ["another", "--option"]),
    "another variable": lambda: _variable("ANOTHER_VARIABLE", "1"),
    "another language": lambda: _variable("LC_ALL", "de_DE.UTF-8"),
    "another home": lambda: _variable("HOME", "/nonexistent"),
}
"""The environment that compiled code does not depend on, unless its program reads it."""


@contextlib.contextmanager
def _variable(name, value):
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name) if before is None else os.environ.update({name: before})


def _of_environment(function, calls, module):
    for name, state in {**ENVIRONMENT, **ELSEWHERE}.items():
        yield f"environment: {name}", functools.partial(_within, state, function, calls, module)


def may_load(change):
    """True if an entry may be loaded after a change."""
    return change.removeprefix("environment: ") not in ENVIRONMENT


# -- torch itself -------------------------------------------------------------------------------------------------------

OWNERS = {"torch": torch, "F": F, "torch.Tensor": torch.Tensor, "math": math, "operator": operator, "nn": torch.nn}


def _of_torch(function, calls, module):
    named = {name for one in functions_of(function) for code in _codes(one.__code__) for name in code.co_names}
    for (title, owner), name in itertools.product(OWNERS.items(), sorted(named)):
        value = getattr(owner, name, None)
        if callable(value) and not isinstance(value, type) and not name.startswith("_"):
            state = functools.partial(_patched, owner, name)
            yield f"{title}.{name} is patched", functools.partial(_within, state, function, calls, module)


@contextlib.contextmanager
def _patched(owner, name):
    before = getattr(owner, name)
    held = vars(owner).get(name, contextlib)

    @functools.wraps(before)
    def patched(*arguments, **keywords):
        result = before(*arguments, **keywords)
        return result + result if isinstance(result, torch.Tensor | float) else result

    setattr(owner, name, patched)
    try:
        yield
    finally:
        delattr(owner, name) if held is contextlib else setattr(owner, name, held)


# -- objects ------------------------------------------------------------------------------------------------------------

MANY = 150
"""The maximum number of objects of one program."""


def functions_of(function):
    """The functions that are reachable from a program's function."""
    return [value for _, value, _ in slots(function) if isinstance(value, types.FunctionType)]


def slots(function):
    """The values that are reachable from a function: (path, value, function that replaces it, or None)."""
    found, seen = [("function", function, None)], {id(function)}
    for path, value, _ in found:
        if len(found) > MANY:
            break
        for step, part, put in _parts(value, function):
            if id(part) not in seen or type(part) in _SIMPLE:
                seen.add(id(part))
                found.append((path + step, part, put))
    return found


_SIMPLE = (bool, int, float, str, type(None), torch.dtype)


def _parts(value, function):
    if isinstance(value, types.FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__, None
        yield ".__func__", value.__func__, None
    elif isinstance(value, functools.partial):
        yield ".func", value.func, None
        for key, part in value.keywords.items():
            yield f".keywords[{key!r}]", part, functools.partial(operator.setitem, value.keywords, key)
    elif isinstance(value, torch.nn.Module):
        yield from _parts_of_module(value)
    elif isinstance(value, type):
        yield from _parts_of_class(value)
    elif isinstance(value, dict | list):
        for key, part in list(value.items() if isinstance(value, dict) else enumerate(value))[:10]:
            yield f"[{key!r}]", part, functools.partial(_setitem, value, key)
    elif isinstance(value, tuple):
        for key, part in enumerate(value[:10]):
            yield f"[{key}]", part, None
    elif _is_users(type(value)):
        for name, part in list(getattr(value, "__dict__", {}).items()):
            yield f".{name}", part, functools.partial(setattr, value, name)
        yield ".__class__", type(value), functools.partial(setattr, value, "__class__")


def _setitem(owner, key, value):
    (dict if isinstance(owner, dict) else list).__setitem__(owner, key, value)


def _is_users(cls):
    return cls.__module__.startswith("peer_programs_")


def _parts_of_function(function):
    if not str(function.__globals__.get("__name__")).startswith("peer_programs_"):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            yield f" closure {name}", cell.cell_contents, functools.partial(setattr, cell, "cell_contents")
    for index, value in enumerate(function.__defaults__ or ()):
        yield f" default {index}", value, functools.partial(_set_default, function, index)
    for name, value in (function.__kwdefaults__ or {}).items():
        yield f" default {name}", value, functools.partial(operator.setitem, function.__kwdefaults__, name)
    for name in dict.fromkeys(name for code in _codes(function.__code__) for name in code.co_names):
        value = function.__globals__.get(name)
        if name in function.__globals__ and not isinstance(value, types.ModuleType):
            yield f" global {name}", value, functools.partial(operator.setitem, function.__globals__, name)
    for name, value in vars(function).items():
        yield f".{name}", value, functools.partial(setattr, function, name)


def _set_default(function, index, value):
    defaults = list(function.__defaults__)
    defaults[index] = value
    function.__defaults__ = tuple(defaults)


def _parts_of_module(module):
    for table in ("_parameters", "_buffers", "_modules"):
        for name, part in vars(module)[table].items():
            yield f".{name}", part, functools.partial(operator.setitem, vars(module)[table], name)
    for name, part in vars(module).items():
        if not name.startswith("_"):
            yield f".{name}", part, functools.partial(operator.setitem, vars(module), name)
    if _is_users(type(module)):
        yield ".__class__", type(module), functools.partial(object.__setattr__, module, "__class__")


def _parts_of_class(cls):
    if not _is_users(cls):
        return
    for name, part in list(vars(cls).items()):
        if isinstance(part, staticmethod | classmethod):
            yield f".{name}", part.__func__, None
        elif isinstance(part, property):
            yield f".{name}", part.fget, None
        elif not name.startswith("__") or isinstance(part, types.FunctionType):
            yield f".{name}", part, functools.partial(setattr, cls, name)
    for base in cls.__bases__:
        if _is_users(base):
            yield f"({base.__name__})", base, None


def _of_objects(function, calls, module):
    for path, value, put in slots(function):
        for name, make in _others(value):
            if put is not None:
                yield f"{path}: {name}", functools.partial(_replaced, put, make, value, function, calls, module)
        for name, change in _in_place(value):
            yield f"{path}: {name}", functools.partial(_done, change, function, calls, module)


def _replaced(put, make, value, function, calls, module):
    with contextlib.suppress(Exception):  # an object that raises for another value is unchanged
        put(make(value))
    return function, calls, module


def _done(change, function, calls, module):
    with contextlib.suppress(Exception):
        change()
    return function, calls, module


def _others(value):
    """Other values that can replace a value."""
    cls = type(value)
    yield from ((name, make) for name, (kind, make) in NUMBERS.items() if kind is cls)
    if _is_plain(value):
        table = _tensor_changes()
        yield from ((name, table[name]) for name in OF_HELD_TENSORS)
    if isinstance(value, types.FunctionType):
        yield from ((f"another function, {name}", functools.partial(_with_code, code)) for name, code in _edits(value))
    if isinstance(value, type) and _is_users(value):
        yield "a subclass", lambda held: type(held)(held.__name__, (held,), {"__module__": held.__module__})
    if cls is torch.nn.ReLU or cls is torch.nn.Linear:
        yield "Tanh", lambda held: torch.nn.Tanh()


OF_HELD_TENSORS = (
    "one row more", "one dimension more", "torch.float64", "gaps between elements", "negative", "requires_grad toggled",
    "a Parameter", "of a subclass", "negative zeros",
)  # fmt: skip


def _with_code(code, function):
    made = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    vars(made).update(vars(function))
    return made


def _in_place(value):
    """Changes of an object that preserve its identity."""
    if isinstance(value, types.FunctionType) and str(value.__globals__.get("__name__")).startswith("peer_programs_"):
        yield from ((name, functools.partial(setattr, value, "__code__", code)) for name, code in _edits(value))
    if isinstance(value, torch.nn.Module):
        yield "train and eval", lambda: value.train(not value.training)
        yield "a forward hook", lambda: value.register_forward_hook(lambda module, given, result: result)
        yield "float64", value.double
        yield "frozen", lambda: value.requires_grad_(False)
    if _is_plain(value):
        yield "filled", lambda: value.detach().fill_(-0.0)
        yield "another attribute", lambda: setattr(value, "tag", 1)
    if type(value) is list:
        yield "one more", lambda: value.extend(value[-1:])
        yield "reversed in place", value.reverse
    if type(value) is dict:
        yield "a key more", lambda: value.update(another=1)
        yield "moved to the end", lambda: value.update({(key := next(iter(value))): value.pop(key)})
    if type(value) is set:
        yield "an element more", lambda: value.add("another")


# -- code ---------------------------------------------------------------------------------------------------------------

EDITS_OF_ONE = 3
NAMES = {
    one: other
    for pair in (
        ("sin", "cos"), ("relu", "abs"), ("add", "sub"), ("mul", "div"), ("sum", "mean"), ("exp", "tanh"),
        ("ones", "zeros"), ("ones_like", "zeros_like"), ("add_", "sub_"), ("amax", "amin"), ("any", "all"),
        ("max", "min"), ("append", "remove"), ("softmax", "log_softmax"), ("sigmoid", "tanh"), ("keys", "values"),
        ("floor", "ceil"), ("cumsum", "cumprod"), ("train", "eval"), ("t", "neg"), ("clone", "neg"),
    )
    for one, other in (pair, pair[::-1])
}  # fmt: skip
"""Names that are exchanged in code, on the same line and in the same column."""
ADD, SUBTRACT = 0, 10
"""Arguments of BINARY_OP."""


def _edits(function):
    """Other code with the same names, lines and columns: (description of the edit, code)."""
    code = function.__code__
    yield from itertools.islice(_edited_constants(code), EDITS_OF_ONE)
    yield from itertools.islice(_edited_names(code), EDITS_OF_ONE)
    yield from itertools.islice(_edited_operators(code), EDITS_OF_ONE)


def _edited_constants(code):
    for index, value in enumerate(code.co_consts):
        if isinstance(value, types.CodeType):
            below = itertools.chain(_edited_constants(value), _edited_names(value), _edited_operators(value))
            for name, edited in itertools.islice(below, EDITS_OF_ONE):
                yield f"{value.co_name}: {name}", _with_constant(code, index, edited)
        elif type(value) in (int, float):
            yield f"constant {value} + 1", _with_constant(code, index, value + 1)
            if value == 0:
                yield f"constant {value} as -0.0", _with_constant(code, index, -0.0)
        elif type(value) is bool:
            yield f"constant {value} flipped", _with_constant(code, index, not value)


def _with_constant(code, index, value):
    return code.replace(co_consts=(*code.co_consts[:index], value, *code.co_consts[index + 1 :]))


def _edited_names(code):
    for index, name in enumerate(code.co_names):
        if name in NAMES:
            names_now = (*code.co_names[:index], NAMES[name], *code.co_names[index + 1 :])
            yield f"{name} as {NAMES[name]}", code.replace(co_names=names_now)


def _edited_operators(code):
    for instruction in dis.get_instructions(code):
        if instruction.opname == "BINARY_OP" and instruction.arg in (ADD, SUBTRACT):
            raw = bytearray(code.co_code)
            raw[instruction.offset + 1] = SUBTRACT if instruction.arg == ADD else ADD
            yield f"operator at {instruction.offset}", code.replace(co_code=bytes(raw))


def _codes(code):
    yield code
    for nested in code.co_consts:
        if isinstance(nested, types.CodeType):
            yield from _codes(nested)
