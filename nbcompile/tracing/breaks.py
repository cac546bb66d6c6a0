"""Graph breaks: the reasons why a graph must end, one row of data for each kind.

A handler that cannot trace an instruction raises :class:`Unsupported` with
one of these rows; the translator decides whether the frame can continue after it
(a graph break), or must run uncompiled (a skipped frame).

    raise Unsupported(DATA_DEPENDENT_JUMP, context="TensorVariable()")

In torch: torch/_dynamo/graph_break_registry.json and exc.py
(``unimplemented``). Read next: nbcompile/tracing/frame/translator.py
"""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import torch

from nbcompile.capture.guard import Guard
from nbcompile.capture.trace import Assumptions
from nbcompile.record.model import Operand, StackLine

FUNDAMENTAL = (
    "This graph break is fundamental: it is unlikely that it can ever be traced through. Consider finding a workaround."
)
SUPPORTABLE = (
    "It may be possible to write tracing rules for this code. Please report an issue if you encounter this often."
)
USER_ERROR = (
    "The same code may be an error in eager mode too. Run it without the compiler, for instance by removing the "
    'compile call or with `torch.compiler.set_stance("force_eager")`.'
)
EARLIER_BREAK = "This may be the consequence of an earlier graph break: look at the first break of the function first."


@dataclass(frozen=True, slots=True)
class BreakKind:
    """One row: a title free of context, an explanation with placeholders, hints."""

    id: str
    title: str
    explanation: str
    hints: tuple[str, ...] = ()
    gb_id: str = ""
    warns: bool = False
    """Most users do not read reports of breaks: a break of this kind is warned of, once."""


KINDS: dict[str, BreakKind] = {}


def _kind(id: str, gb_id: str, title: str, explanation: str, *hints: str, warns: bool = False) -> BreakKind:
    assert id not in KINDS, f"two kinds of break are called {id}"
    KINDS[id] = BreakKind(id, title, explanation, hints, gb_id, warns)
    return KINDS[id]


GRAPH_BREAK = _kind(
    "NB0001",
    "GB0025",
    "Call to `torch._dynamo.graph_break()`",
    "User-inserted graph break. Message: {message}",
    "Remove the `torch._dynamo.graph_break()` call.",
)
SKIPPED_FUNCTION = _kind(
    "NB0002",
    "GB0007",
    "Attempted to call function marked as skipped",
    "The function `{name}` in file `{file}` is on the list of functions that are not traced.",
    "Avoid calling the function `{name}`.",
    "Apply `@torch._dynamo.dont_skip_tracing` to the function `{name}` to force tracing into it. "
    "More graph breaks may occur as a result.",
)
BUILTIN_FUNCTION = _kind(
    "NB0003",
    "GB0007",
    "Attempted to call function marked as skipped",
    "The builtin `{name}` cannot be traced: it is a Python builtin or comes from a C/C++ extension.",
    "If it is a builtin of Python or of torch, please report that it cannot be traced.",
    "If it is a function of your own extension, wrap it into a custom operator (torch.library.custom_op) or, "
    "if it is traceable, use `torch.compiler.allow_in_graph`.",
    warns=True,
)
BUILTIN_OPERATOR = _kind(
    "NB0004",
    "GB0059",
    "Failed to trace builtin operator",
    "The builtin `{name}` cannot be traced with argument types {types}.",
    "Avoid calling builtin `{name}` with argument types {types}. Consider a polyfill through "
    "`torch.compiler.substitute_in_graph`.",
    "If it only logs, add it to `config.reorderable_logging_functions`.",
)
DATA_DEPENDENT_JUMP = _kind(
    "NB0005",
    "GB0170",
    "Data-dependent branching",
    "Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Which way it goes is only known when the "
    "program runs. The condition is computed{computed}.",
    "Where the branch only corrects values, apply the correction always: `torch.where`, `torch.clamp` and "
    "`torch.nan_to_num` leave good values as they are.",
    FUNDAMENTAL,
    "Use `torch.cond` to express dynamic control flow.",
)
SYMBOLIC_JUMP = _kind(
    "NB0084",
    "GB0170",
    "Data-dependent branching",
    "Could not guard on data-dependent expression {expression}: which way the branch goes is only known when the "
    "program runs.",
    "Use `torch._check*()` to tell the compiler which way it always goes.",
    "Use `torch.cond` to express dynamic control flow, or compute both sides and choose with `torch.where`.",
)
TENSOR_ITEM = _kind(
    "NB0006",
    "GB0124",
    "Unsupported Tensor.item() call with capture_scalar_outputs=False",
    "`Tensor.item()` turns data into a Python number, which is only known when the program runs.",
    "Set `config.capture_scalar_outputs = True` or TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1 to capture it in the graph.",
    warns=True,
)
DATA_DEPENDENT_OPERATOR = _kind(
    "NB0007",
    "GB0033",
    "Data dependent operator",
    "Operator `{name}` has a non-Tensor output whose value depends on data.",
    "Consider using a tensor operation instead.",
    "Set `config.capture_scalar_outputs = True`.",
)
DYNAMIC_SHAPE_OPERATOR = _kind(
    "NB0008",
    "GB0036",
    "Dynamic shape operator",
    "Operator `{name}`'s output shape depends on input Tensor data.",
    "Set `config.capture_dynamic_output_shape_ops = True` to capture it in the graph.",
)
SPARSE_INPUT = _kind(
    "NB0095",
    "GB0015",
    "Attempted to wrap sparse Tensor",
    "Sparse tensors are not traced.",
    "Move the making and the use of sparse tensors out of the compiled function.",
)
STRIDED_NESTED_INPUT = _kind(
    "NB0100",
    "GB0016",
    "Attempted to wrap strided NestedTensor",
    "A nested tensor of layout `torch.strided` has no size along its irregular dimension.",
    "Make it with `layout=torch.jagged`, or pad it.",
)
SPARSE_RESULT = _kind(
    "NB0096",
    "GB0277",
    "Attempted to wrap sparse Tensor with VariableTracker",
    "Sparse tensors are not traced: `{name}` makes one.",
    "Move the making and the use of sparse tensors out of the compiled function.",
)
DISABLED_FUNCTION = _kind(
    "NB0009",
    "GB0098",
    "Skip calling `torch.compiler.disable()`d function",
    "Skip calling function `{name}` since it was wrapped with `torch.compiler.disable` (reason: {reason})",
    "Remove the `torch.compiler.disable` call",
)
DISABLED_INLINE = _kind(
    "NB0010",
    "GB0099",
    "Skip inlining `torch.compiler.disable()`d function",
    "Skip inlining function {name} since it was wrapped with `torch.compiler.disable` (reason: {reason})",
    "Remove the `torch.compiler.disable` call",
)
FAKE_TYPE_ERROR = _kind(
    "NB0011",
    "GB0112",
    "TypeError when making fake tensor call",
    "{error}",
    USER_ERROR,
)
FAKE_NOT_IMPLEMENTED = _kind(
    "NB0120", "GB0087", "NotImplementedError/UnsupportedFakeTensorException when running FX node",
    "`{name}` does not do this, or not with fake tensors: {error}",
    "Call it in eager mode with the same arguments: if it fails there too, the call is wrong.",
)  # fmt: skip
NO_FAKE_TENSOR = _kind(
    "NB0129", "GB0064", "Fake tensor propagation exception",
    "torch cannot make a fake tensor for the input `{name}`: {error}.",
    "Make such tensors outside of the compiled function, and pass it ordinary ones (`dequantize()`, `int_repr()`).",
)  # fmt: skip
NO_FAKE_KERNEL = _kind(
    "NB0121", "GB0090", "Operator does not support running with fake tensors",
    "Operator `{name}` cannot say what its result looks like without its data.",
    "Give it a fake implementation (`torch.library.register_fake`).",
)  # fmt: skip
LOOP = _kind(
    "NB0012",
    "GB7000",
    "graph break in loop",
    "Nothing can be resumed in the middle of a loop: with a graph break in a `for` or `while` loop, the function is "
    "not compiled.",
    "Move what breaks out of the loop, or put the loop's body into a function of its own.",
)
CONTEXT = _kind(
    "NB0013",
    "GB0066",
    "Graph break under GenericContextWrappingVariable",
    "Attempted to graph break in an active context manager that cannot be re-entered after the break.",
    "Move the offending context manager(s) to outside the compiled region.",
    EARLIER_BREAK,
)
UNSUPPORTED_CONTEXT = _kind(
    "NB0014",
    "GB0142",
    "Unsupported context manager",
    "It is not known how to enter a `{name}` context manager.",
    "Avoid using the unsupported context manager.",
    SUPPORTABLE,
)
OBSERVED_EXCEPTION = _kind(
    "NB0015",
    "GB0088",
    "Observed exception",
    "The traced code raised {name}{arguments}, and no handler in the frame catches it.",
    USER_ERROR,
)
ITERATOR_INPUT = _kind(
    "NB0016",
    "GB4347",
    "Missing tp_iternext",
    "`next` of a `{name}` that was created outside of the traced code is not traced.",
    "Make the iterator inside the compiled function: pass the container itself.",
)
UNSUPPORTED_CALL = _kind(
    "NB0017",
    "GB0147",
    "Unsupported function call",
    "It is not known how to trace a call of {name}.",
    SUPPORTABLE,
)
UNSUPPORTED_METHOD = _kind(
    "NB0018",
    "GB0156",
    "Unsupported method call",
    "It is not known how to trace method `{name}` of class `{type}`.",
    SUPPORTABLE,
)
BACKWARD = _kind(
    "NB0019",
    "GB0123",
    "Unsupported Tensor.backward() call",
    "Tensor.backward() is not traced while `config.trace_autograd_ops` is False.",
    "Compile the forward pass only, and call `backward()` outside of the compiled function: its backward graph is "
    "compiled all the same.",
    "Set `config.trace_autograd_ops = True` to trace it.",
)
REQUIRES_GRAD = _kind(
    "NB0020",
    "GB0125",
    "Unsupported Tensor.requires_grad_() call",
    "Changes of `requires_grad` are not traced.",
    "Set requires_grad before calling the compiled function.",
)
SET_REQUIRES_GRAD = _kind(
    "NB0110", "GB0206", "setattr() on Tensor.requires_grad",
    "A tensor would become a leaf, or stop being one, in the middle of the graph.",
    "Set requires_grad before calling the compiled function.",
)  # fmt: skip
LEAF_LEAKS = _kind(
    "NB0111", "GB8985", "requires_grad_() intermediate leaked as output",
    "A result whose `requires_grad_()` is called, or what is computed from it, is returned with its gradient.",
    "Return it detached, or call `requires_grad_()` outside of the compiled function.",
)  # fmt: skip
DATA_OF_RESULT = _kind(
    "NB0112", "GB0056", "Failed to mutate tensor data attribute",
    "`.data` can be set of tensors that were created outside of the compiled function, to a tensor.",
    "Do not set `.data` of this tensor, or do it outside of the compiled function.",
)  # fmt: skip
DATA_OF_OTHER_DTYPE = _kind(
    "NB0113", "GB0220", "Failed to mutate tensor data attribute to different dtype",
    "`.data` can be set to a tensor of the same dtype, and this one is {expected}.",
    "Do not set `.data` of this tensor, or do it outside of the compiled function.",
)  # fmt: skip
TENSOR_ATTRIBUTE = _kind(
    "NB0114", "GB0058", "Failed to set tensor attribute",
    "Setting the attribute `{name}` of a tensor is not traced.",
    "Do not set the attribute `{name}` of tensors, or do it outside of the compiled function.",
)  # fmt: skip
PARAMETER = _kind(
    "NB0115", "GB0264", "Attempted to use `torch.nn.Parameter()` constructor with Dynamo",
    "A parameter is not created in a graph.",
    "Make the parameter outside of the compiled function.",
)  # fmt: skip
CREATED_LEAF = _kind(
    "NB0116", "GB0225", "Attempted to use tensor creation function with requires_grad=True",
    "A leaf is not created in a graph.",
    "Create the tensor outside of the compiled function, or without `requires_grad=True`.",
)  # fmt: skip
LOGGER = _kind(
    "NB0021",
    "GB0291",
    "logging.Logger method not supported for non-export cases",
    "logging.Logger methods are not traced.",
    "Add the logging method to `config.ignore_logging_functions`.",
)
UNSUPPORTED_OPERATOR = _kind(
    "NB0022",
    "GB0056",
    "Unsupported operator",
    "`{symbol}` is not traced for operands of types {types}.",
    SUPPORTABLE,
)
UNSUPPORTED_INSTRUCTION = _kind(
    "NB0023",
    "GB0085",
    "Missing bytecode handler",
    "The bytecode instruction {name} is not traced.",
    "Do not use code that produces it in a compiled function.",
    SUPPORTABLE,
)
SKIP_FRAME = _kind(
    "NB0024",
    "GB4297",
    "Call to `torch._dynamo.skip_frame()`",
    "User-inserted skip of the frame. Message: {message}",
    "Remove the `torch._dynamo.skip_frame()` call.",
)
STEP_UNSUPPORTED = _kind(
    "NB0025",
    "GB4636",
    "Call to `torch._dynamo.step_unsupported()`",
    "User-inserted step_unsupported. Message: {message}",
    "Remove the `torch._dynamo.step_unsupported()` call.",
)
TENSOR_SUBCLASS = _kind(
    "NB0026",
    "",
    "Tensor subclass as an input",
    "A tensor of class `{name}` is not traced yet.",
    SUPPORTABLE,
)
UNSUPPORTED_VALUE = _kind(
    "NB0027",
    "GB0092",
    "Reconstruction failure",
    "A {name} created by the traced code would have to outlive the graph, and it is not known how to reconstruct it.",
    SUPPORTABLE,
)
NOT_ITERABLE = _kind(
    "NB0102",
    "GB0811",
    "missing tp_iter",
    "It is not known how to iterate over a {name} that the compiled function was given.",
    "Pass a list or a tuple of its items.",
    SUPPORTABLE,
)
PROFILER_ESCAPES = _kind(
    "NB0128",
    "GB0212",
    "torch.profiler object escaped from compiled region",
    "A `{name}` that the traced code created measures nothing, and would have to outlive the graph.",
    "Make the profiler outside of the compiled function, around its call.",
    SUPPORTABLE,
)
GENERATOR_RECIPE = _kind(
    "NB0101",
    "GB8335",
    "Generator reconstruction with mutations",
    "The generator `{name}`, which waits at a `yield`, would have to outlive the graph: what it still yields may "
    "depend on what happens until then.",
    "Ask for all that it yields before the break: `items = list(...)`.",
    SUPPORTABLE,
)
UNSUPPORTED_ATTRIBUTE = _kind(
    "NB0028",
    "",
    "Unsupported attribute",
    "Attribute `{attribute}` of a {name} is not traced.",
    SUPPORTABLE,
)
UNSUPPORTED_MUTATION = _kind(
    "NB0029",
    "",
    "Unsupported mutation",
    "A change of a {name} is not traced.",
    SUPPORTABLE,
)
DATA_DEPENDENT_EXPRESSION = _kind(
    "NB0030",
    "",
    "Data-dependent expression",
    "The size expression {expression} is only known when the program runs.",
    "Use `torch._check*()` to tell the compiler what always holds.",
)
RNN = _kind(
    "NB0031",
    "GB0014",
    "Attempted to wrap RNN, GRU, or LSTM",
    "RNN, GRU and LSTM modules are not traced.",
    "Set `config.allow_rnn = True` to trace them all the same.",
)
BACKWARD_HOOKS = _kind(
    "NB0123",
    "",
    "Call of a module with backward hooks",
    "A backward hook is given the gradients of one module's inputs and outputs, which a compiled backward graph does "
    "not make one module at a time. {name} runs eagerly, hooks included; what it calls may be compiled.",
    "Remove the hook where it is not needed: `handle.remove()`.",
)
UNINITIALISED_MODULE = _kind(
    "NB0122", "GB0119", "Uninitialized nn.Module", "`super().__init__()` of a {name} was not called yet.", USER_ERROR,
)  # fmt: skip
RECURSION = _kind(
    "NB0033",
    "",
    "Calls nested too deeply",
    "Tracing through a call takes frames of Python's own stack, and no more than {limit} of these may be active.",
    "Write a loop instead of the recursion.",
    "Allow more of them: `sys.setrecursionlimit`.",
)
GENERATOR = _kind(
    "NB0034",
    "GB0003",
    "Attempt to trace generator",
    "A generator (or coroutine) itself is not compiled, only what calls it.",
    "Call the generator inside a compiled function.",
    "Compile the functions that a coroutine calls.",
)  # fmt: skip
ARGUMENTS = _kind(
    "NB0044", "GB7312", "failed to bind arguments when attempting to inline",
    "The arguments of the call do not fit the parameters of `{name}`: {error}.", USER_ERROR,
)  # fmt: skip
AUTOGRAD_GRAD = _kind(
    "NB0045", "GB9186", "using `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops=False`",
    "`torch.autograd.grad` is not traced while `config.trace_autograd_ops` is False.",
    "Set `config.trace_autograd_ops = True` to trace it.", "Call it outside of the compiled function.",
)  # fmt: skip
BACKWARD_UNTRACED = _kind(
    "NB0124", "", "Unsupported use of autograd inside of the compiled function",
    "A derivative {problem} is not traced.", "Call it outside of the compiled function.",
)  # fmt: skip
GRADIENT_RETURNED = _kind(
    "NB0125", "GB4927", "autograd.grad consumed returned tensor's grad_fn",
    "The derivative frees what autograd saved for a tensor that the compiled function returns, or that is used after "
    "a later graph break: nobody could differentiate it again.",
    "Return `loss.detach()` instead of `loss`.", "Pass `retain_graph=True`.",
)  # fmt: skip
GRADIENT_OF_OUTSIDE = _kind(
    "NB0126", "GB0372", "autograd.grad with external grad_fn",
    "The derivative goes through a tensor that was computed outside of the compiled function: what it was computed "
    "from is not known while tracing.",
    "Detach it if nothing before it is to be differentiated: `x.detach().requires_grad_()`.",
    "Call `backward` or `torch.autograd.grad` outside of the compiled function.",
)  # fmt: skip
GRADIENT_TWICE = _kind(
    "NB0127", "GB1381", "autograd.grad with already consumed grad_fn",
    "An earlier derivative has freed what autograd saved for this one.",
    "Pass `retain_graph=True` to the first of them.",
)  # fmt: skip
INFERENCE_MODE = _kind(
    "NB0047", "GB8927", "Encountered torch.is_inference_mode_enabled during tracing",
    "Whether inference mode is active may differ between tracing and the runs of the graph.", FUNDAMENTAL,
)  # fmt: skip
IS_INFERENCE = _kind(
    "NB0048", "GB8928", "Encountered tensor.is_inference() during tracing",
    "Whether a tensor was created in inference mode may differ between tracing and the runs of the graph.", FUNDAMENTAL,
)  # fmt: skip
GRAD_FN = _kind(
    "NB0049", "GB0104", "Tensor with grad_fn()", "A graph cannot read a tensor's `grad_fn` or its `grad`.",
)  # fmt: skip
SUPER_ATTRIBUTE = _kind(
    "NB0046", "GB0006", "Attempted to call a super() attribute that is not a function or method",
    "`super().{name}` is found in the built-in class `{type}`: it is not a Python function, so it cannot be traced.",
    SUPPORTABLE,
)  # fmt: skip
TOLIST = _kind(
    "NB0036", "GB0109", "Tensor.tolist() with non-integer tensor",
    "`tolist()` of a tensor that holds no integers is not traced.",
    "Call `tolist()` on tensors of int8, int16, int32 or int64.",
)  # fmt: skip
BODY_EFFECT = _kind(
    "NB0050", "GB0170", "HOP: Unsafe side effect",
    "A function that is given to {name} changes what exists outside of it ({changed}). It may run once, several "
    "times or not at all, so that such a change cannot be in the graph.",
    "Return the value from the function instead, and change the object outside.",
)  # fmt: skip
BODY_LEAK = _kind(
    "NB0051", "", "Value of a closed body",
    "The value `{name}` was created inside of a function given to an operator, and is used outside of it.",
    "Return the value from the function.",
)  # fmt: skip
BODY_WRITES = _kind(
    "NB0052", "GB0239", "Encountered input mutation during higher order op tracing",
    "The functions that are given to {name} must not write to their inputs.",
    "Use an operator that makes a new tensor.",
)  # fmt: skip
BODY_ALIAS = _kind(
    "NB0053", "GB0040", "Encountered aliasing during higher order op tracing",
    "What the functions given to {name} take and return must not share memory.",
    "Return `input.clone()` instead of `input`.",
)  # fmt: skip
BODY_MISUSE = _kind(
    "NB0054", "", "Improper use of a higher order operator", "{name}: {problem}", USER_ERROR,
)  # fmt: skip
AUTOGRAD_FUNCTION = _kind(
    "NB0055", "", "Unsupported torch.autograd.Function", "{problem}", SUPPORTABLE,
)  # fmt: skip
DEEPCOPY = _kind(
    "NB0035",
    "GB4198",
    "Attempted to copy.deepcopy a tensor",
    "copy.deepcopy of a tensor is not traced.",
    "Use `tensor.clone()`.",
)

IMPORT = _kind(
    "NB0068", "GB0069", "Import failure", "`import {name}` failed while tracing: {error}", USER_ERROR,
)  # fmt: skip
EXCEPTION_ATTRIBUTE = _kind(
    "NB0069", "GB0135", "Unsupported attribute assignment on Exception object",
    "The attribute `{attribute}` of an exception is stored by Python, not traced.",
    "Pass what is to be known to the exception's constructor.", SUPPORTABLE,
)  # fmt: skip
SORT_KEYS = _kind(
    "NB0070", "GB0207", "sort with non-constant keys",
    "A list is sorted by keys that are not known while tracing: {types}.", "Sort by numbers or texts.", SUPPORTABLE,
)  # fmt: skip
BUILD_CLASS = _kind(
    "NB0067", "GB8977", "Invalid call to __build_class__",
    "A `class` statement makes a new class each time it runs: it is left to Python.",
    "Move the class out of the compiled function.",
)  # fmt: skip
NUMPY_FUNCTION = _kind(
    "NB0060", "GB0294", "attempted to trace numpy function unsupported by PyTorch",
    "`torch._numpy` has no `{name}`, so that it cannot be computed on tensors.",
    "Use a function of torch, or one that `torch._numpy` has.", SUPPORTABLE,
)  # fmt: skip
NUMPY_METHOD = _kind(
    "NB0066", "GB0295", "attempted to trace numpy.* function as a method",
    "`{name}` of a function of NumPy (`np.add.reduce`) is not in `torch._numpy`.",
    "Use the function itself (`np.sum`).",
)  # fmt: skip
NDARRAY_ATTRIBUTE = _kind(
    "NB0061", "GB0157", "Unsupported ndarray attribute access",
    "`ndarray.{name}` has no meaning for the tensor that stands for the array.",
    "Read it outside of the compiled region.",
)  # fmt: skip
NDARRAY_METHOD = _kind(
    "NB0062", "GB0158", "Unsupported ndarray method call", "`ndarray.{name}()` is not in `torch._numpy`.",
    "Call it outside of the compiled region.",
)  # fmt: skip
NDARRAY_OBJECTS = _kind(
    "NB0063", "GB0250", "ndarray.astype(object)", "A tensor cannot hold objects.", FUNDAMENTAL,
)  # fmt: skip
NDARRAY_CONVERSION = _kind(
    "NB0064", "GB0185", "failed to convert numpy.ndarray to Tensor",
    "An array of dtype {dtype} has no tensor that could stand for it.", "Use an array of numbers or of booleans.",
)  # fmt: skip
NDARRAY_IN_TORCH = _kind(
    "NB0065", "", "NumPy array as an argument of an operator of torch",
    "`{name}` takes tensors; eager mode may reject the array, too.",
    "Make a tensor of it with `torch.from_numpy`.", USER_ERROR,
)  # fmt: skip


RESIZE = _kind(
    "NB0097", "GB0126", "Unsupported Tensor.resize_() call",
    "`{name}` gives a tensor other memory, which a graph of tensors cannot say.",
    "Make a new tensor of the new size.",
)  # fmt: skip
OUT_SIZE = _kind(
    "NB0098", "GB0247", "Shape mismatch with out= tensor variant",
    "`{name}` is called with `out=` a tensor of shape {given}, and would resize it to {resized}.",
    "Pass a tensor of the result's shape, or none.",
)  # fmt: skip
OUT_STRIDES = _kind(
    "NB0099", "GB0242", "Attempted to call op with non-contiguous `out=` tensor",
    "`{name}` is called with `out=` a tensor that is not contiguous.",
    "Pass a contiguous tensor, or copy the result into it with `copy_`.",
)  # fmt: skip
NOT_REORDERABLE = _kind(
    "NB0090", "GB0296", "attempted to reorder a debugging function that can't actually be reordered",
    "A function of `config.reorderable_logging_functions` is called with a {name}: only tensors, constants and strings "
    "of them are known to be the same after the graph.",
    "Avoid calling the function with such an argument inside of the compiled function.",
)  # fmt: skip
NONSTRICT_INPUT = _kind(
    "NB0091", "GB0236", "Invalid input type for nonstrict_trace-ed function",
    "A function that is one node of the graph (`nonstrict_trace`, `leaf_function`) is called with a `{name}`, which "
    "cannot be taken apart into tensors.",
    "Register the class: `torch.utils._pytree.register_constant` if it holds no tensors, else "
    "`torch.utils._pytree.register_dataclass` or `torch.utils._pytree.register_pytree_node`.",
)  # fmt: skip
NONSTRICT_OUTPUT = _kind(
    "NB0092", "GB0251", "Unsupported output type for nonstrict_trace-ed function",
    "A function that is one node of the graph (`nonstrict_trace`, `leaf_function`) returned a `{name}`, which cannot "
    "be taken apart into tensors.",
    "Register the class with `torch.utils._pytree.register_pytree_node`, or return tensors and plain containers.",
)  # fmt: skip
NONSTRICT_NESTED = _kind(
    "NB0093", "GB0078", "Limitation of `nonstrict_trace",
    "A function that the compiled function itself defines cannot be marked with `nonstrict_trace` in there.",
    "Define and mark `{name}` outside of the compiled function.",
)  # fmt: skip
NOT_A_GRAPH_VALUE = _kind(
    "NB0094", "GB0055", "Failed to convert args/kwargs to proxy",
    "An operator of the graph would be called with a {name}: a graph holds tensors, numbers and containers of them.",
    "Pass the tensors in it instead.",
)  # fmt: skip


PRINT_HINT = "Print outside of the compiled function: return the value, and print it where the function is called."
REMOVABLE = (GRAPH_BREAK, SKIP_FRAME, STEP_UNSUPPORTED)
"""Calls whose purpose is a graph break."""
_TORCH = str(Path(torch.__file__).parent) + os.sep


@dataclass
class Unsupported(Exception):
    """The traced code did something that cannot be in a graph."""

    kind: BreakKind
    context: str = ""
    details: dict[str, object] = field(default_factory=dict)
    stack: tuple[StackLine, ...] = ()
    """The user's stack, outermost first."""
    forbids_resume: bool = False
    """True if nothing can continue after it: the frame runs uncompiled."""
    needs_frame: bool = False
    """True if the whole function that contains it must run eagerly: the graph breaks at the call of that function."""
    is_final: bool = False
    """True if the break is an error for the user: none is allowed here."""
    cause: Unsupported | None = None
    """The break that was encountered first, where this one only says why nothing can resume after it."""
    operands: tuple[Operand, ...] = ()
    """Values on the operand stack of the frame in which the graph ends."""
    callee: str = ""
    """Name of the function that the broken line calls, as the user wrote it."""
    traced: tuple[str, ...] = ()
    """The last instructions, where the compiler's own view is requested (config.verbose)."""

    def __str__(self) -> str:
        return f"{self.kind.id} {self.kind.title} ({self.context})"

    def explanation(self) -> str:
        """The row's text with its placeholders filled."""
        return self.kind.explanation.format_map(_UnknownKeys(self.details))

    def hints(self) -> tuple[str, ...]:
        """The row's hints, filled likewise; of a call in torch's own code, what a user can do about it."""
        if self.kind in REMOVABLE and self.stack and self.stack[-1].file.startswith(_TORCH):
            own = next((each for each in reversed(self.stack) if not each.file.startswith(_TORCH)), None)
            called = f" (line {own.line}: `{own.code}`)" if own is not None else ""
            message = f"The call is in torch's own code, in `{self.stack[-1].function}`: it cannot be removed. "
            return (f"{message}Make the call that leads there{called} outside of the compiled function.",)
        hints = (PRINT_HINT, *self.kind.hints[1:]) if self.is_print() else self.kind.hints
        return tuple(hint.format_map(_UnknownKeys(self.details)) for hint in hints)

    def is_print(self) -> bool:
        """True for a call of ``print``, the first break of most users."""
        return self.kind is BUILTIN_OPERATOR and self.details.get("name") == "print"

    def forget_values(self) -> None:
        """Drop the tracebacks: the frames in them know the call's arguments, which are to live no longer than it."""
        error: BaseException | None = self
        while error is not None:
            trace, error.__traceback__ = error.__traceback__, None
            traceback.clear_frames(trace)
            error = error.__context__


def unsupported(kind: BreakKind, context: str = "", **details: object) -> Unsupported:
    """The exception for a row, with the values its texts name."""
    assert KINDS.get(kind.id) is kind, f"{kind.id} is not registered"
    return Unsupported(kind, context, details)


class RestartAnalysis(Exception):
    """Signal to begin the trace again: a real object is now as the trace has to find it."""


class SkipFrame(Exception):
    """The frame has nothing to compile; it runs eagerly, in this call and later ones."""

    def __init__(
        self, reason: str, guards: tuple[Guard, ...] | None = None, assumed: Assumptions | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.guards = guards
        """Guards under which another process finds nothing to compile in it, either; None: not known."""
        self.assumed = assumed


class _UnknownKeys(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"
