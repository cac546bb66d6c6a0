"""Functions of torch that are evaluated while tracing.

    torch.is_grad_enabled()          the mode at this point of the trace
    torch.compiler.is_compiling()    True

In torch: torch/_dynamo/variables/torch.py. Read next: checks.py, factories.py
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.overrides

from nbcompile import torch_internals
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, ModuleSource
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.folding import fold, folds, folds_as_of_entry, folds_of_process, folds_with_guard
from nbcompile.tracing.calls.registry import handles, handles_named
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.functions import FunctionVariable
from nbcompile.tracing.variables.known_callables import BuiltinVariable, OperatorVariable, SkippedVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable


@handles(torch._C._log_api_usage_once)
def _log_usage(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return tracer.apply(torch._C._log_api_usage_once, arguments)  # torch's graphs have this node, too


# An array is a tensor in a graph already, and needs no conversion.
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
    """Raise the function's own error for other arguments."""
    values = [realise(tracer, each) for each in arguments]
    if len(values) == 1 and not keywords and isinstance(values[0], TensorVariable):
        return
    given = [_stand_in(each) for each in values]  # the message names the class of the argument
    tracer.evaluate(function, given, dict.fromkeys(keywords))


def _stand_in(value: VariableTracker) -> Any:
    if isinstance(value, TensorVariable):
        return value.example
    return value.constant() if value.is_constant() else None


@handles(torch.resize_as_)
def _resize_as(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return realise(tracer, arguments[0]).call_method(tracer, "resize_as_", list(arguments[1:]), keywords)


# Libraries call this to skip code that a compiler cannot trace (logging, checks of data).
@handles(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling)
def _true(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(True)


# They return False while torch.compile traces, too: it is neither TorchScript nor an export.
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
# MultiheadAttention calls it to choose one opaque operator for the whole module.
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
    # CUDA stays initialised: a guard on the flag causes one recompilation.
    state = AttrSource(ModuleSource("torch.cuda"), "_initialized")
    tracer.guard(state, GuardKind.EQUALS_MATCH, torch.cuda.is_initialized())
    return fold(tracer, torch.cuda.is_initialized, arguments, keywords)


# State that cannot change within a process and has no guard, but may differ in another one that loads the entry.
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
folds_as_of_entry(*torch_internals.TRANSFORM_QUESTIONS)

# State that the user can change between two calls, and that GLOBAL_STATE does not include.
folds_with_guard(
    torch.get_float32_matmul_precision,
    torch._C._get_privateuse1_backend_name,
    torch.is_anomaly_enabled,
    torch.is_anomaly_check_nan_enabled,
    torch.is_warn_always_enabled,
)

# State of the process at this point of the trace.
# These depend on modes: the tracer sets the modes that the traced code sets, so the current value is right.
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
    torch._C._are_functorch_transforms_active,
    torch._C._functorch.current_level,
    torch._C._functorch.maybe_current_level,
    torch._C._functorch.get_dynamic_layer_stack_depth,
)


def _dtype_handler(method: str) -> None:
    @handles(getattr(torch, method))
    def _handler(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        _expect_one_tensor(tracer, getattr(torch, method), arguments, keywords)
        return realise(tracer, arguments[0]).call_method(tracer, method, [], {})


@handles(torch.result_type)
def _result_type(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    examples = [_example(realise(tracer, argument)) for argument in arguments]
    named = {name: _example(realise(tracer, value)) for name, value in keywords.items()}
    return ConstantVariable(tracer.evaluate(torch.result_type, examples, named))


def _example(value: VariableTracker) -> Any:
    return value.example if isinstance(value, (TensorVariable, SymbolicVariable)) else value.constant()


def _symbolic(function: Any) -> None:
    @handles(function)
    def _handler(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
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
        """Combine conditions in the graph, for the run."""
        first, *others = (realise(tracer, each) for each in arguments)
        for other in others:
            known = first.is_constant() and other.is_constant()
            first = fold(tracer, join, [first, other], {}) if known else tracer.apply(join, [first, other])
        return first


_joined("sym_and", operator.and_)
_joined("sym_or", operator.or_)


_SIZE_FUNCTIONS = (
    "statically_known_true", "guard_or_false", "guard_or_true", "guard_size_oblivious", "has_static_value",
    "guard_scalar", "guard_int", "statically_known_false", "has_free_unbacked_symbols", "is_concrete_int",
    "is_concrete_bool", "is_concrete_float",
)  # fmt: skip


def _size_function(name: str) -> None:
    @handles_named("torch.fx.experimental.symbolic_shapes", name)
    def _handler(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """Evaluate the condition on the symbols now."""
        (value,) = (realise(tracer, each) for each in arguments)
        expression = value.example if isinstance(value, (TensorVariable, SymbolicVariable)) else value.constant()
        try:
            return ConstantVariable(getattr(torch_internals.symbolic_shapes(), name)(expression))
        except Exception as error:
            if torch_internals.is_data_dependent_guard(error):
                message = str(error)
                raise breaks.unsupported(
                    breaks.DATA_DEPENDENT_EXPRESSION, message, expression=str(expression)
                ) from error
            raise


for _name in _SIZE_FUNCTIONS:
    _size_function(_name)


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


@handles_named("nbcompile.api", "compile")
@handles(torch.compile)
def _compile(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """Return the function: inside of a compiled function everything is compiled."""
    if not arguments and "model" not in keywords:
        raise breaks.unsupported(
            breaks.SKIPPED_FUNCTION, "torch.compile without a function", name="compile", file=torch.__file__
        )
    return arguments[0] if arguments else keywords["model"]


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
    """Read a start that is a tensor first: the slice then begins at an unbacked number."""
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
