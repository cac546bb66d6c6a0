"""Functions of torch that are answered while tracing, and torch's annotations.

    torch.is_grad_enabled()          the mode at this point of the trace
    torch.compiler.is_compiling()    True
    torch._dynamo.graph_break()      a break, as its name says

In torch: torch/_dynamo/variables/torch.py. Read next: library.py
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
import torch.overrides

from nbcompile import annotations as marks, torch_internals
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, ModuleSource
from nbcompile.tracing import breaks
from nbcompile.tracing.calls import comparisons
from nbcompile.tracing.calls.folding import fold, folds, folds_as_of_entry, folds_of_process, folds_with_guard
from nbcompile.tracing.calls.registry import handles, handles_named
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import context_table, contexts
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.functions import (
    BaseFunctionVariable,
    BuiltinVariable,
    FunctionVariable,
    OperatorVariable,
    SkippedVariable,
)
from nbcompile.tracing.variables.sequences import SequenceVariable
from nbcompile.tracing.variables.subclasses import made_of
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

DYNAMO = "torch._dynamo.decorators"
OURS = "nbcompile.annotations"


@handles(torch._C._log_api_usage_once)
def _log_usage(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return tracer.apply(torch._C._log_api_usage_once, arguments)  # a node, as in torch's graphs


# An array is a tensor in a graph already, so that there is nothing left to convert.
@handles(torch.from_numpy)
def _from_numpy(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return tracer.apply(torch.as_tensor, arguments)


@handles(torch.is_tensor)
def _is_tensor(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(isinstance(realise(tracer, arguments[0]), TensorVariable))


@handles(torch.numel)
def _numel(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    _expect_one_tensor(tracer, torch.numel, arguments, keywords)
    return realise(tracer, arguments[0]).call_method(tracer, "numel", [], {})


def _expect_one_tensor(tracer: Tracer, function: Any, arguments: Arguments, keywords: Keywords) -> None:
    """Refuse other arguments as the function itself does."""
    values = [realise(tracer, each) for each in arguments]
    if len(values) == 1 and not keywords and isinstance(values[0], TensorVariable):
        return
    given = [_stand_in(each) for each in values]  # the message names the class of what was given
    tracer.evaluate(function, given, dict.fromkeys(keywords))


def _stand_in(value: VariableTracker) -> Any:
    if isinstance(value, TensorVariable):
        return value.example
    return value.constant() if value.is_constant() else None


@handles(torch.resize_as_)
def _resize_as(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return realise(tracer, arguments[0]).call_method(tracer, "resize_as_", list(arguments[1:]), keywords)


# Libraries ask this to leave out what a compiler cannot trace (logging, checks of data).
@handles(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling)
def _true(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(True)


# Their answer is False while torch.compile traces, too: neither is TorchScript nor an export.
JIT: Any = torch.jit


@handles(
    torch.compiler.is_exporting,
    JIT.is_scripting,
    JIT.is_tracing,
    torch._C._is_tracing,
)
@handles_named("torch.onnx", "is_in_onnx_export")
@handles_named("torch.fx._symbolic_trace", "is_fx_tracing", "is_fx_symbolic_tracing")
def _false(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(False)


@handles_named("torch._utils_internal", "is_compiling")
@handles_named("torch._dynamo.external_utils", "is_compiling")
@handles_named("torch._utils", "is_compiling")
# MultiheadAttention asks it whether to call one operator for all of itself, which no compiler sees into.
@handles_named("torch.nn.modules.activation", "_is_make_fx_tracing")
def _compiling(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(True)


@handles(torch._C._get_tracing_state)
def _nothing(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(None)


@handles(JIT.annotate)
def _annotated(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return [*arguments, *keywords.values()][1]


@handles(JIT._unwrap_optional)
def _unwrapped(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    if arguments[0].is_constant() and arguments[0].constant() is None:
        tracer.raise_exception(AssertionError, "Unwrapping null optional")
    return arguments[0]


@handles(torch.cuda.is_initialized)
def _cuda_is_initialized(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    # Once CUDA is initialised it stays so: a guard on the flag makes one recompilation.
    state = AttrSource(ModuleSource("torch.cuda"), "_initialized")
    tracer.guard(state, GuardKind.EQUALS_MATCH, torch.cuda.is_initialized())
    return fold(tracer, torch.cuda.is_initialized, arguments, keywords)


SAVED_HOOKS_ERROR: Any = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message


# Questions about the process that no guard is about. Two processes of a distributed program have two ranks.
# Answers that cannot change within a process, but may in another one that loads the entry.
folds_of_process(
    torch.cuda.is_available,
    torch.cuda.get_device_properties,
    torch._C._get_cublas_allow_tf32,
    torch.accelerator.is_available,
    torch.accelerator.current_accelerator,
    torch.distributed.is_available,
    torch.backends.mps.is_available,
    torch.amp.is_autocast_available,
)
folds_as_of_entry(SAVED_HOOKS_ERROR, lambda tracer: tracer.output.hooks_error)

# Answers that the user can change between two calls, and that GLOBAL_STATE does not tell apart.
folds_with_guard(torch.get_float32_matmul_precision, torch._C._get_privateuse1_backend_name)

# Questions about the state of the process, answered as of this point of the trace.
# These depend on modes: the tracer sets the modes that the traced code sets, so asking now gives the right answer.
folds(
    torch.is_grad_enabled,
    torch.get_default_dtype,
    torch.is_autocast_enabled,
    torch.is_autocast_cache_enabled,
    torch.promote_types,
    torch.can_cast,
    torch.get_num_threads,
    torch.is_autocast_cpu_enabled,
    torch._C._is_any_autocast_enabled,
    torch.are_deterministic_algorithms_enabled,
    torch.is_deterministic_algorithms_warn_only_enabled,
    torch.finfo,
    torch.iinfo,
    torch.device,
    torch._C._is_fwd_grad_enabled,
    torch._C._are_functorch_transforms_active,
    torch._C._functorch.get_inplace_requires_grad_allowed,
    torch._C._functorch.current_level,
    torch._C._functorch.maybe_current_level,
    torch._C._functorch.get_dynamic_layer_stack_depth,
)


def _dtype_handler(method: str) -> None:
    @handles(getattr(torch, method))
    def _answer(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        _expect_one_tensor(tracer, getattr(torch, method), arguments, keywords)
        return realise(tracer, arguments[0]).call_method(tracer, method, [], {})


@handles(torch.result_type)
def _result_type(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    examples = [
        argument.example if isinstance(argument, (TensorVariable, SymbolicVariable)) else argument.constant()
        for argument in (realise(tracer, a) for a in arguments)
    ]
    return ConstantVariable(tracer.evaluate(torch.result_type, examples))


def _symbolic(function: Any) -> None:
    @handles(function)
    def _answer(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        values = [realise(tracer, each) for each in arguments]
        if all(each.is_constant() for each in values):
            return fold(tracer, function, values, keywords)
        return tracer.apply(function, values, keywords)


for _symbolic_function in (
    torch.sym_int, torch.sym_float, torch.sym_max, torch.sym_min, torch.sym_ite, torch.sym_sqrt, torch.sym_not,
    torch.sym_sum,
):  # fmt: skip
    _symbolic(_symbolic_function)


def _joined(name: str, join: Callable[[Any, Any], Any]) -> None:
    @handles_named("torch.fx.experimental.symbolic_shapes", name)
    def _join(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """Joined in the graph: whether the whole holds is for the run to say."""
        first, *others = (realise(tracer, each) for each in arguments)
        for other in others:
            known = first.is_constant() and other.is_constant()
            first = fold(tracer, join, [first, other], {}) if known else tracer.apply(join, [first, other])
        return first


_joined("sym_and", operator.and_)
_joined("sym_or", operator.or_)


_SIZE_QUESTIONS = (
    "statically_known_true", "guard_or_false", "guard_or_true", "guard_size_oblivious", "has_static_value",
    "guard_scalar", "guard_int", "statically_known_false", "has_free_unbacked_symbols", "is_concrete_int",
    "is_concrete_bool", "is_concrete_float",
)  # fmt: skip


def _size_question(name: str) -> None:
    @handles_named("torch.fx.experimental.symbolic_shapes", name)
    def _answer(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """Asked of the symbols themselves, now."""
        (value,) = (realise(tracer, each) for each in arguments)
        asked = value.example if isinstance(value, (TensorVariable, SymbolicVariable)) else value.constant()
        try:
            return ConstantVariable(getattr(torch_internals.symbolic_shapes(), name)(asked))
        except Exception as error:
            if torch_internals.is_data_dependent_guard(error):
                message = str(error)
                raise breaks.unsupported(breaks.DATA_DEPENDENT_EXPRESSION, message, expression=str(asked)) from error
            raise


for _name in _SIZE_QUESTIONS:
    _size_question(_name)


@handles(torch._check_is_size)
def _check_is_size(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    size = realise(tracer, arguments[0])
    if isinstance(size, SymbolicVariable):
        return tracer.apply(torch._check_is_size, [size])
    return _check(torch._check, tracer, [comparisons.compare(tracer, ">=", size, ConstantVariable(0))], {})


@handles(torch._constrain_as_size)
def _constrain_as_size(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    size = realise(tracer, arguments[0])
    bounds = {**dict(zip(("min", "max"), arguments[1:], strict=False)), **keywords}
    return tracer.apply(
        torch.sym_constrain_range_for_size, [size], {key: realise(tracer, bounds[key]) for key in bounds}
    )


def _constant_message(tracer: Tracer, messages: Arguments) -> list[VariableTracker]:
    """``lambda: "too large"`` as the text that the run raises with; [] for one that is computed."""
    for message in messages:
        code = getattr(realise(tracer, message), "code", None)
        if isinstance(code, CodeType) and not (code.co_freevars or code.co_names or code.co_argcount):
            said = realise(tracer, tracer.call(message, []))
            return [said] if said.is_constant() and isinstance(said.constant(), str) else []
    return []


CHECKS: dict[Any, type[Exception]] = {
    torch._check: RuntimeError,
    torch._check_value: ValueError,
    torch._check_index: IndexError,
    torch._check_type: TypeError,
    torch._check_not_implemented: NotImplementedError,
}
"""Exception that each check raises if its condition does not hold."""


def _check(check: Any, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    condition = realise(tracer, arguments[0])
    if isinstance(condition, SymbolicVariable):
        # A condition on symbols is a guard, or an assertion at run time if only the run knows it.
        messages = _constant_message(tracer, [*arguments[1:], *keywords.values()])
        if messages:  # what torch._check becomes in the end, when it can say what the user wrote
            return tracer.apply(torch._assert_scalar, [condition, *messages])
        return tracer.apply(torch._check, [condition])
    # The condition is known to be false: the program raises here, and may catch it.
    if condition.is_constant() and condition.constant() is False:
        said = [realise(tracer, tracer.call(each, [])) for each in (*arguments[1:], *keywords.values())]
        known = [str(each.constant()) for each in said if each.is_constant()]
        tracer.raise_exception(CHECKS[check], *(known or [_own_message(check)]))
    return ConstantVariable(None)


def _own_message(check: Any) -> str:
    """The text of a check that is given none."""
    try:
        check(False)
    except CHECKS[check] as error:
        return str(error)
    return ""


for _function in CHECKS:
    handles(_function)(functools.partial(_check, _function))


@handles(torch._assert)
def _assert(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    condition = realise(tracer, arguments[0])
    if isinstance(condition, TensorVariable):
        return tracer.apply(torch._assert_async, arguments)
    if not condition.truth(tracer):
        message = realise(tracer, arguments[1]) if len(arguments) > 1 else ConstantVariable("")
        tracer.raise_exception(AssertionError, message.constant() if message.is_constant() else "")
    return ConstantVariable(None)


@handles(torch.manual_seed, torch.seed, torch.get_rng_state, torch.set_rng_state, torch.random.fork_rng)
def _seed(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    raise breaks.unsupported(
        breaks.SKIPPED_FUNCTION,
        "module: torch.random, skip reason: it changes the state of the process",
        name="manual_seed",
        file=torch.random.__file__,
    )


@handles(torch.utils.dlpack.from_dlpack)
def _of_an_address(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    raise breaks.unsupported(
        breaks.SKIPPED_FUNCTION,
        "module: torch.utils.dlpack, skip reason: it reads the address of data, and fake tensors have none",
        name="from_dlpack",
        file=torch.utils.dlpack.__file__,
    )


def _maker(function: object) -> None:
    @handles(function)
    def _answer(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        data = realise(tracer, arguments[0]) if arguments else realise(tracer, keywords["data"])
        OperatorVariable.refuse_leaf(tracer, function, keywords)
        if _reads_numbers(tracer, function, data):
            # It reads the data of a list with tensors, and accepts no symbolic bool: stacked in the graph instead.
            return tracer.apply(torch._refs.tensor, arguments, keywords)
        return tracer.apply(function, arguments, keywords)


@handles_named("nbcompile.api", "compile")
@handles(torch.compile)
def _compile(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """Inside of a compiled function everything is."""
    if not arguments and "model" not in keywords:
        raise breaks.unsupported(
            breaks.SKIPPED_FUNCTION, "torch.compile without a function", name="compile", file=torch.__file__
        )
    return arguments[0] if arguments else keywords["model"]


@handles(torch.full)
def _full(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    # ``torch.full`` reads its number on the host. For one in a tensor, memory is made and filled in the graph.
    number = realise(tracer, arguments[1]) if len(arguments) == 2 else None
    if not isinstance(number, TensorVariable):
        return OperatorVariable(torch.full).call(tracer, arguments, keywords)
    return tracer.apply(torch.empty, arguments[:1], keywords).call_method(tracer, "fill_", [number], {})


@handles(torch.nn.Parameter)
def _parameter(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    raise breaks.unsupported(breaks.PARAMETER, "")


@handles(torch.Tensor._make_subclass)
def _make_subclass(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """``torch.Tensor._make_subclass(cls, data)``: what a class without operators of its own makes its tensors with."""
    cls, data = (realise(tracer, each) for each in arguments[:2])
    value = getattr(cls, "value", None)
    wanted = [realise(tracer, each) for each in (*arguments[2:], *keywords.values())]
    known = all(each.is_constant() for each in wanted) and not any(each.constant() for each in wanted)
    # Parameters, buffers and wrappers have rules of their own.
    special = value in (torch.nn.Parameter, torch.nn.Buffer) or torch_internals.is_wrapper(value)
    if not isinstance(data, TensorVariable) or not known or special:
        raise breaks.unsupported(breaks.TENSOR_SUBCLASS, "torch.Tensor._make_subclass", name=cls.describe())
    detached = data.call_method(tracer, "detach", [], {})
    assert isinstance(detached, TensorVariable)
    return made_of(detached, value)


def _legacy(cls: type) -> None:
    """``torch.Tensor([1.0])``, ``torch.FloatTensor(2, 3)``: the old constructors."""

    @handles(cls)
    def _make(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return tracer.apply(cls, arguments, keywords)


def _reads_numbers(tracer: Tracer, function: object, data: VariableTracker) -> bool:
    """True if torch's own definition must replace a factory function: it would read numbers that only a run knows.

    Those are symbolic numbers and tensors of one number, alone or in a list; a list with larger tensors is an error
    in eager mode. Only ``torch.tensor`` reads them all: ``as_tensor`` accepts all but symbolic bools.
    """
    if isinstance(data, TensorVariable) or function is torch.scalar_tensor:
        return False
    leaves = list(_leaves(tracer, data))
    tensors = [each for each in leaves if isinstance(each, TensorVariable)]
    symbols = [each for each in leaves if isinstance(each, SymbolicVariable)]
    if any(each.example.numel() != 1 for each in tensors):
        return False
    return bool(tensors or symbols) if function is torch.tensor else any(each.python_type() is bool for each in symbols)


def _leaves(tracer: Tracer, data: VariableTracker) -> Iterator[VariableTracker]:
    if isinstance(data, SequenceVariable):
        for item in data.unpack(tracer):
            yield from _leaves(tracer, item)
    else:
        yield data


# -- torch's annotations, by name ------------------------------------------------------------


def _text(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> str:
    values = [realise(tracer, each) for each in (*arguments, *keywords.values())]
    return (
        f"with args `{[each.constant() for each in values[: len(arguments)] if each.is_constant()]}`, kwargs `{ {} }`"
    )


@handles_named(DYNAMO, "graph_break")
@handles_named(OURS, "graph_break")
def _graph_break(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    context = f"Called `torch._dynamo.graph_break()` {_text(tracer, arguments, keywords)}"
    raise breaks.unsupported(breaks.GRAPH_BREAK, context, message=None)


@handles_named(DYNAMO, "skip_frame")
@handles_named(OURS, "skip_frame")
def _skip_frame(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    code = tracer.output.frame.code
    context = (
        f"Called `torch._dynamo.skip_frame()` {_text(tracer, arguments, keywords)}. "
        f"Skipping frame {code.co_name} ({code.co_filename} line {code.co_firstlineno})."
    )
    error = breaks.unsupported(breaks.SKIP_FRAME, context, message=None)
    # The whole function runs as Python: a break in the middle would not be what was asked for.
    error.needs_frame = True
    raise error


@handles_named(DYNAMO, "step_unsupported")
@handles_named(OURS, "step_unsupported")
def _step_unsupported(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    context = f"Called `torch._dynamo.step_unsupported()` {_text(tracer, arguments, keywords)}"
    raise breaks.unsupported(breaks.STEP_UNSUPPORTED, context, message=None)


def _setting(module: str, name: str) -> None:
    @handles_named(module, name)
    def _make(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """Made now, as it decides how the rest is traced."""
        values = [realise(tracer, each) for each in arguments]
        named = {key: realise(tracer, each) for key, each in keywords.items()}
        make = getattr(sys.modules[module], name)
        if len(values) == 1 and isinstance(values[0], BaseFunctionVariable):  # the bare name as a decorator
            region = context_table.from_object(make(), None)
            assert region is not None
            return contexts.DecoratedVariable(region, values[0])
        if not all(each.is_constant() for each in (*values, *named.values())):
            raise breaks.unsupported(breaks.UNSUPPORTED_CONTEXT, name, name=name)
        given = {key: each.constant() for key, each in named.items()}
        return tracer.wrap(tracer.evaluate(make, [each.constant() for each in values], given), None)


for _name in ("error_on_graph_break", "patch_dynamo_config", "dont_skip_tracing", "disable_nested_graph_breaks"):
    _setting(DYNAMO, _name)
    _setting(OURS, _name)


@handles_named(DYNAMO, "nonstrict_trace")
@handles_named(OURS, "nonstrict_trace")
def _nonstrict_trace(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    function = realise(tracer, (*arguments, *keywords.values())[0])
    if not isinstance(function, FunctionVariable):
        raise breaks.unsupported(breaks.NONSTRICT_NESTED, function.describe(), name=getattr(function, "name", "it"))
    marked = marks.nonstrict_trace(function.function)
    return tracer.wrap(marked, tracer.keep(marked, function.name))


def _annotating(value: Callable[..., object]) -> None:
    @handles(value)
    def _annotate(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """A mark holds for the process, and is left to Python."""
        name, file = value.__name__, value.__code__.co_filename
        context = f"module: {value.__module__}, qualname: {name}, skip reason: it annotates a function"
        raise breaks.unsupported(breaks.SKIPPED_FUNCTION, context, name=name, file=file)


for _function in (
    marks.allow_in_graph, marks.disallow_in_graph, marks.forbid_in_graph, marks.assume_constant_result,
    marks.substitute_in_graph, marks.leaf_function,
):  # fmt: skip
    _annotating(_function)


@handles_named(DYNAMO, "mark_static")
def _mark_static(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """Inside of what is compiled: the sizes are constants from now on."""
    tensor = realise(tracer, arguments[0])
    if isinstance(tensor, TensorVariable):
        dims = arguments[1:] or list(keywords.values())
        sizes = tensor.call_method(tracer, "size", dims, {})
        for size in [sizes] if dims else sizes.unpack(tracer):
            if isinstance(size, SymbolicVariable):
                size.specialise()
    return ConstantVariable(None)


@handles(torch.is_inference_mode_enabled)
def _is_inference_mode_enabled(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    raise breaks.unsupported(breaks.INFERENCE_MODE, "")


PAD: Any = torch.nn.functional.pad


@handles(torch.nn.functional.pad)
def _pad(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return tracer.call(FunctionVariable(PAD), arguments, keywords)  # traced: its operator is inside


def _dropout(function: Callable[..., Any], tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """Dropout, whose result is the input itself if nothing is dropped; torch copies it if sizes are symbols."""
    result = tracer.apply(function, arguments, keywords)
    given = {name: realise(tracer, each) for name, each in (*zip(_DROPOUT, arguments, strict=False), *keywords.items())}
    training = given.get("training", given.get("train", ConstantVariable(True)))
    drops_nothing = any(each.is_constant() and not each.constant() for each in (training, given.get("p", training)))
    # Eager mode returns the input itself if nothing is dropped: the result has the same fake tensor, and so ``is`` and
    # in-place changes agree.
    if drops_nothing and isinstance(result, TensorVariable) and isinstance(given["input"], TensorVariable):
        result.node.meta["example_value"] = given["input"].example
    return result


_DROPOUT = ("input", "p", "training", "inplace")
for _function in (torch.nn.functional.dropout, torch.dropout):
    handles(_function)(functools.partial(_dropout, _function))


@handles(torch.narrow)
def _narrow(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """A start that is a tensor is read first: the slice then begins at a number that only the run knows."""
    plain, named = list(arguments), dict(keywords)
    start = realise(tracer, plain[2] if len(plain) > 2 else named["start"])
    # ``item`` first: an unbacked number, which ``narrow`` takes as the start.
    if isinstance(start, TensorVariable):
        number = start.call_method(tracer, "item", [], {})
        plain, named = (
            ([*plain[:2], number, *plain[3:]], named) if len(plain) > 2 else (plain, {**named, "start": number})
        )
    return tracer.apply(torch.narrow, plain, named)


@handles_named("torch.autograd.grad_mode", "set_multithreading_enabled")
def _threads(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    raise breaks.unsupported(breaks.UNSUPPORTED_CALL, "set_multithreading_enabled", name="set_multithreading_enabled")


@handles_named("torch._ops", "OpOverloadPacket.__call__")
def _packet(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    packet = realise(tracer, arguments[0])
    assert isinstance(packet, (OperatorVariable, BuiltinVariable, SkippedVariable))
    return tracer.apply(packet.value, arguments[1:], keywords)


for _name in ("is_floating_point", "is_complex"):
    _dtype_handler(_name)
for _maker_function in (torch.tensor, torch.as_tensor, torch.asarray, torch.scalar_tensor):
    _maker(_maker_function)
for _class in (
    torch.Tensor, torch.FloatTensor, torch.DoubleTensor, torch.HalfTensor, torch.BFloat16Tensor, torch.ByteTensor,
    torch.CharTensor, torch.ShortTensor, torch.IntTensor, torch.LongTensor, torch.BoolTensor,
):  # fmt: skip
    _legacy(_class)
