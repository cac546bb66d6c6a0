"""The run of one operator on fake tensors, when its node is added, and what its failure means.

    x @ w, of sizes that do not fit      the program's own error, as eager mode raises it
    x.nonzero(), x.item()                the result depends on data: the graph breaks
    an operator without a fake kernel    the graph breaks, and Python runs the operator

A fake tensor has a size, a dtype and a device, and no data. Warnings of the operators are
collected, and shown when the graph is finished.

In torch: torch/_dynamo/utils.py (get_fake_value, run_node). Read next: nbcompile/tracing/graph/real_run.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree

from nbcompile import errors, torch_internals
from nbcompile.capture import operator_warnings, symbolic_numbers
from nbcompile.capture.node_meta import EXAMPLE, STACK
from nbcompile.record.model import StackLine
from nbcompile.torch_internals import interrupts
from nbcompile.tracing import breaks
from nbcompile.tracing.graph import dtypes, real_run
from nbcompile.tracing.graph.purity import Purity
from nbcompile.tracing.inputs.graph_inputs import GraphInputs


class FakeRun:
    """Runs operators of one graph on fake tensors."""

    def __init__(self, inputs: GraphInputs, purity: Purity, warnings: list[operator_warnings.OperatorWarning]) -> None:
        self.inputs, self.purity, self.warnings = inputs, purity, warnings

    def run(
        self, node: torch.fx.Node, arguments: Sequence[Any], keywords: Mapping[str, Any], in_python: bool = False
    ) -> object:
        """Run the operator of a node on the fake values of its arguments.

        ``in_python``: composite operators run by their definitions in Python.

        Raises:
            Unsupported: the fake run lacks data or a kernel, so that Python must run the operator.
            TorchRuntimeError: the operator fails on these inputs.
        """
        target = node.target
        # A transform differentiates here. For other tensors, the backend does it, which may not need a derivative.
        if symbolic_numbers.has_exponent(node) and torch_internals.in_transform():
            symbolic_numbers.specialise_operands(node)
            arguments, keywords = node.args, node.kwargs
        fake_arguments = torch.fx.map_arg(tuple(arguments), lambda node: node.meta[EXAMPLE])
        fake_keywords = torch.fx.map_arg(dict(keywords), lambda node: node.meta[EXAMPLE])
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        try:
            if name in ("_unpack_dual", "_exit_dual_level"):
                _check_no_outer_level(name, node.graph)
            # The contexts, outermost first: warnings of the operator are collected; a KeyboardInterrupt is delayed,
            # since C++ may call Python that must not raise; tensors are fake; each ATen operator inside is tried on
            # real tensors of its dtypes; sizes stay symbolic.
            with (
                operator_warnings.collected(self.warnings, __file__, node.meta[STACK]),
                interrupts.deferred(),
                self.inputs.fake_mode,
                dtypes.DtypeTrial(self.purity.see),
                self._dispatch(in_python),
                torch_internals.wrapper_overrides_enabled((*fake_arguments, *fake_keywords.values())),
            ):
                if "out" in fake_keywords and callable(target):
                    _check_out_size(target, fake_arguments, fake_keywords)
                if node.op == "call_method":
                    assert isinstance(target, str)
                    result = getattr(fake_arguments[0], target)(*fake_arguments[1:], **fake_keywords)
                else:
                    assert callable(target)
                    result = target(*fake_arguments, **fake_keywords)
                _check_is_fake(result)
                return result
        except RecursionError:  # the tracer's frames fill the stack, too
            raise
        except Exception as error:
            if torch_internals.is_limit_of_symbols(error) and symbolic_numbers.specialise_operands(node):
                return self.run(node, node.args, node.kwargs, in_python)
            # The definition in Python omits the checks of data in C++ (istft: of its window); aot/checks.py has them.
            if not in_python and _reads_data_in_cpp(error, target):
                return self.run(node, arguments, keywords, in_python=True)
            # No local variable refers to the exception: its traceback refers to this frame, and the frame to the
            # arguments.
            raise _failure(error, name, node, fake_arguments, fake_keywords) from error

    def _dispatch(self, in_python: bool) -> AbstractContextManager[object]:
        # Composite operators in C++ would specialise symbolic sizes; the definitions in Python do not.
        return torch._C._EnablePythonDispatcher() if in_python or self.inputs.shape_env.var_to_range else nullcontext()


def _failure(error: Exception, name: str, node: torch.fx.Node, arguments: Any, keywords: Any) -> Exception:
    """The exception for an operator that fails on fake tensors."""
    explained = _explain(error, name, node.meta[STACK])
    if isinstance(explained, errors.TorchRuntimeError) and real_run.runs_on_data(node.target, arguments, keywords):
        # For example an index of uint8: Python runs it.
        return breaks.unsupported(breaks.FAKE_NOT_IMPLEMENTED, str(error), name=name, error=error)
    return explained


def _reads_data_in_cpp(error: Exception, target: str | Callable[..., object]) -> bool:
    """Return whether an operator of torch failed as it reads data; a function of the user is not called twice."""
    data_dependent = torch_internals.fake_tensor().DataDependentOutputException
    return isinstance(error, data_dependent) and real_run.is_of_torch(target)


def _explain(error: Exception, name: str, stack: tuple[StackLine, ...]) -> Exception:
    """Tell a graph break from an error of the program."""
    fakes = torch_internals.fake_tensor()
    # Some errors break the graph; others are the program's own. The order matters: many are RuntimeErrors, too.
    #     the fake run lacks data or a kernel      break: Python runs the operator
    #     NotImplementedError, TypeError, ...      break: the fake tensors may be the cause, the real call decides
    #     RuntimeError, ValueError, AssertionError the operator fails on these inputs
    match error:
        case fakes.DataDependentOutputException():
            return breaks.unsupported(breaks.DATA_DEPENDENT_OPERATOR, str(error.func), name=error.func)
        case fakes.DynamicOutputShapeException():
            return breaks.unsupported(breaks.DYNAMIC_SHAPE_OPERATOR, str(error.func), name=error.func)
        case fakes.UnsupportedOperatorException():
            return breaks.unsupported(breaks.NO_FAKE_KERNEL, f"unsupported operator: {error.func}", name=error.func)
        # For example the result is a quantized tensor: torch has no fake tensors of this kind.
        case fakes.UnsupportedFakeTensorException():
            return breaks.unsupported(breaks.FAKE_NOT_IMPLEMENTED, str(error.reason), name=name, error=error.reason)
        # OverflowError: the number is too large for an operator. Warning: the program's filter raises warnings.
        case NotImplementedError() | OverflowError() | Warning():
            return breaks.unsupported(breaks.FAKE_NOT_IMPLEMENTED, str(error), name=name, error=error)
        # The forward-mode derivative of a norm creates tensors that are not fake: no error in eager mode.
        case AssertionError() if str(error).startswith("Please convert all Tensors to FakeTensors first"):
            return breaks.unsupported(breaks.FAKE_NOT_IMPLEMENTED, str(error), name=name, error=error)
        # A write to a view of a tensor whose strides changed in place: autograd makes the view again, by other calls
        # than in eager mode.
        case ValueError() if name.endswith("_") and str(error).startswith("Cannot view a tensor with shape"):
            return breaks.unsupported(breaks.FAKE_NOT_IMPLEMENTED, str(error), name=name, error=error)
        case TypeError():
            return breaks.unsupported(breaks.FAKE_TYPE_ERROR, f"TypeError {error}", error=error)
        case breaks.Unsupported():
            return error
    if torch_internals.is_data_dependent_guard(error):
        return breaks.unsupported(
            breaks.DATA_DEPENDENT_EXPRESSION, str(error), expression=str(error).partition("\n")[0]
        )
    if torch_internals.needs_data(error):
        return breaks.unsupported(breaks.DATA_DEPENDENT_OPERATOR, name, name=name)
    if isinstance(error, (RuntimeError, ValueError, AssertionError)):
        return errors.TorchRuntimeError(name, error, stack)
    return error


def _check_no_outer_level(name: str, graph: torch.fx.Graph) -> None:
    """Reject operators that read or end the tangents of a forward-mode AD level which the program entered earlier."""
    entered = torch_internals.entered_forward_levels(graph)
    if name == "_exit_dual_level" and entered < 0:
        raise NotImplementedError("the program's own tensors would lose their tangents in the trace")
    if name == "_unpack_dual" and not entered and not torch_internals.in_transform():
        raise NotImplementedError("fakes of tensors with a tangent have none")


def _check_is_fake(result: object) -> None:
    """Reject a tensor that is not fake, for example one created from the address of a fake tensor's data.

    A later operator would read its data, but fake tensors have no data: the process would crash.
    """
    for value in (result,) if isinstance(result, torch.Tensor) else pytree.tree_leaves(result):
        if type(value) in (torch.Tensor, torch.nn.Parameter) and not torch_internals.in_transform():
            raise NotImplementedError("it returns a tensor that is no fake tensor")


def _check_out_size(function: Callable[..., object], arguments: Any, keywords: dict[str, Any]) -> None:
    """Reject an ``out=`` of another size: the call would resize it, which the graph and its guards cannot express."""
    trial = pytree.tree_map_only(torch.Tensor, torch.empty_like, keywords["out"])
    function(*arguments, **{**keywords, "out": trial})
    name = getattr(function, "__name__", str(function))
    for before, after in zip(pytree.tree_leaves(keywords["out"]), pytree.tree_leaves(trial), strict=True):
        if before is None:
            continue
        if before.shape != after.shape:
            sizes = {"given": list(before.shape), "resized": list(after.shape)}
            raise breaks.unsupported(breaks.OUT_SIZE, f"fn={name}", name=name, **sizes)
        if not before.is_contiguous():
            raise breaks.unsupported(breaks.OUT_STRIDES, f"fn={name}", name=name)
