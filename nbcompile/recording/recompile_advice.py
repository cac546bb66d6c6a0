"""Advice against a recompilation, which is tested before it is given.

    tensor 'x' size mismatch at index 0. expected 3, actual 4     torch._dynamo.mark_dynamic(x, 0) before the first call
    G['KK'] == 1                                                  make G['KK'] a tensor: torch.tensor(1)
    tensor 'x' dtype mismatch. expected Float, actual Double      x.to(torch.float32) before the call
    model.training == True                                        call train() or eval() before the first call

Advice about the call is tested on the guards of the existing entry: it must accept the changed call. Advice about the
program is tested by a new trace of this call, as if the advice had been followed: no guard may compare the value that
differed. None of the user's code runs.

In torch: the hints of torch/_dynamo/guards.py (get_guard_fail_reason). Read next: nbcompile/driver/stages.py
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from nbcompile import config, torch_internals
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind, ShapeGuards
from nbcompile.capture.resolution import resolve
from nbcompile.capture.source import AttrSource, GlobalSource, LocalSource, NoArgsCallSource, Source, expression
from nbcompile.capture.trace import GraphBreak
from nbcompile.guarding.check import DELETED, build_check
from nbcompile.guarding.encodings.sentences import shortened
from nbcompile.options import Options
from nbcompile.record.model import Advice, FailedGuard
from nbcompile.tracing import tracer
from nbcompile.tracing.inputs.dynamism import Dynamism
from nbcompile.tracing.inputs.int64_bounds import limits

_SIZE = re.compile(r"tensor '.*' (size|stride) mismatch at index (\d+)\. expected (\d+), actual (\d+)")


@dataclass(frozen=True, slots=True)
class GuardFailure:
    """A cache entry that does not match a call, and its failed guard."""

    failed: FailedGuard
    guard: Guard
    entry: CompiledFrame
    frame: Frame
    options: Options
    dynamism: Dynamism

    @property
    def source(self) -> Source:
        """The address of the value that differed."""
        assert self.guard.source is not None
        return self.guard.source

    @property
    def name(self) -> str:
        """The value's source as the user writes it."""
        return shortened(expression(self.source))

    def with_tensor(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Frame | None:
        """The call with the tensor changed; neither its class nor a function mode is called for that."""
        tensor = resolve(self.source, self.frame.scope())
        assert isinstance(tensor, torch.Tensor)
        with torch._C.DisableTorchFunction():
            changed = change(tensor)
            if torch_internals.is_overriding(tensor):
                changed = changed.as_subclass(type(tensor))
        return _with_value(self.frame, self.source, changed)

    def would_accept(self, change: Callable[[torch.Tensor], torch.Tensor]) -> bool:
        """True if the entry accepts the call with the tensor changed."""
        # The advice is tested: the entry's own guards decide whether the changed call would be accepted.
        changed = self.with_tensor(change)
        return changed is not None and self.entry.check.holds(changed.scope())

    def retrace(self, frame: Frame | None, dynamism: Dynamism) -> tuple[Guard, ...]:
        """The guards of the call if the program were as advised."""
        # The value is inside of the user's objects, which must not be changed for a test.
        if frame is None:
            return (self.guard,)
        trace = tracer.trace(frame, self.options, dynamism)
        if frame is not self.frame and isinstance(trace.exit, GraphBreak):
            return (self.guard,)  # advice that replaces a recompilation by a graph break does not help
        return trace.guards()


def advise(
    failed: FailedGuard, entry: CompiledFrame | None, frame: Frame, options: Options, dynamism: Dynamism
) -> FailedGuard:
    """The failed guard with advice."""
    if entry is None or not failed.guard:
        text = _OF_DELETED if failed.actual == DELETED else _OTHER_BACKEND
        return replace(failed, advice=Advice(text, False))
    guard = entry.check.guards[int(failed.guard.rpartition(".g")[2])]
    failure = GuardFailure(failed, guard, entry, frame, options, dynamism)
    text, trial = _TRIED.get(guard.kind, _in_words)(failure) or _in_words(failure)
    return replace(failed, advice=Advice(text, _succeeds(trial)))


def with_limit(failed: FailedGuard, name: str, value: int) -> FailedGuard:
    """The failed guard, with the advice to raise the limit that forbids another entry."""
    raised = f"config.{name} = {2 * value}, if so many versions are meant"
    before = failed.advice
    return replace(failed, advice=Advice(f"{before.text}; or {raised}", before.verified) if before else Advice(raised))


_OF_DELETED = "define it once: where its definition runs again, what was created before is freed"
_OTHER_BACKEND = "one backend for one function"


Trial = Callable[[], bool]
Found = tuple[str, Trial] | None


def _succeeds(trial: Trial) -> bool:
    try:
        return trial()
    except Exception:  # noqa: BLE001 - followed, the advice makes a program that does not even compile
        return False


def _never() -> bool:
    return False


def _about_a_tensor(failure: GuardFailure) -> Found:
    mismatch = _SIZE.search(failure.failed.reason)
    tensor, name = resolve(failure.source, failure.frame.scope()), failure.name
    if mismatch is not None and mismatch[1] == "size":
        return _about_a_size(failure, int(mismatch[2]), int(mismatch[3]), int(mismatch[4]))
    if not isinstance(tensor, torch.Tensor):
        return None
    expected = _traced_like(failure.failed.reason)
    if expected is not None:
        return f"{name}.to({expected}) before the call", lambda: failure.would_accept(
            lambda tensor: tensor.detach().to(expected)
        )
    if "requires_grad mismatch. expected requires_grad=0" in failure.failed.reason:
        return f"{name}.detach() before the call", lambda: failure.would_accept(torch.Tensor.detach)
    if mismatch is not None:
        return f"{name}.contiguous() before the call", lambda: failure.would_accept(
            lambda tensor: tensor.detach().contiguous()
        )
    if "rank mismatch" in failure.failed.reason:
        return f"call it with as many dims in {name}: how many there are is never a symbol", _never
    return None


_SCALAR_TYPES = {"Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "Long": torch.int64}
_SCALAR_TYPES |= {"Int": torch.int32, "Bool": torch.bool, "BFloat16": torch.bfloat16}


def _traced_like(reason: str) -> torch.dtype | None:
    found = re.search(r"dtype mismatch\. expected (\w+),", reason)
    return _SCALAR_TYPES.get(found[1]) if found else None


def _about_a_size(failure: GuardFailure, dim: int, expected: int, actual: int) -> Found:
    # 0 and 1 are always constants, so ``mark_dynamic`` would be an error for them.
    special = min(expected, actual) < 2
    if failure.options.dynamic and not special:  # it was a symbol: marked as one, it would be an error
        return (
            f"ask less of {failure.name}.shape[{dim}]: the program compares it, so that it must be {expected}",
            _never,
        )
    mark = "torch._dynamo.decorators.mark_unbacked" if special else "torch._dynamo.mark_dynamic"
    text = f"{mark}({failure.name}, {dim}) before the first call"

    def trial() -> bool:
        dims = {**failure.dynamism.dims, expression(failure.source): frozenset({dim})}
        with config.patch(automatic_dynamic_shapes_mark_as="unbacked" if special else "dynamic"):
            # The call is traced again with the dim marked, and the new guards are evaluated on the earlier size.
            guards = failure.retrace(failure.frame, replace(failure.dynamism, dynamic=None, dims=dims))
        earlier = failure.with_tensor(lambda tensor: _resized(tensor, dim, expected))
        return earlier is not None and build_check(guards, failure.frame).holds(earlier.scope())

    return text, trial


def _resized(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    sizes = [size if each == dim else now for each, now in enumerate(tensor.shape)]
    # Without content: the guards read sizes, strides and the type, but no elements.
    return tensor.new_empty(sizes).requires_grad_(tensor.requires_grad)


def _about_a_number(failure: GuardFailure) -> Found:
    value, source = resolve(failure.source, failure.frame.scope()), failure.source
    # The result of a function about the process is no input that could be a tensor.
    if type(value) not in (int, float) or isinstance(source, NoArgsCallSource):
        return None
    # Numbers of a module are settings: torch keeps them constant unless a setting says otherwise.
    owner = resolve(source.base, failure.frame.scope()) if isinstance(source, AttrSource) else None
    if isinstance(owner, torch.nn.Module):
        text = f"config.allow_unspec_int_on_nn_module = True, or make {failure.name} a tensor"
        return text, lambda: _is_free(failure, failure.frame, {"allow_unspec_int_on_nn_module": True})
    # A length or an index has to be an int: no advice to make it a tensor.
    if type(value) is int and _is_length_or_index(_use(failure.failed)):
        return _constant(failure.failed)
    text = f"make {failure.name} a tensor: torch.tensor({value!r})"
    return text, lambda: _is_free(failure, _with_value(failure.frame, source, torch.tensor(value)), {})


def _is_free(failure: GuardFailure, frame: Frame | None, settings: Mapping[str, Any]) -> bool:
    """True if the number that differed may have any value."""
    scalars = failure.dynamism.scalars | {expression(failure.source)}
    with config.patch(dict(settings)):
        guards = failure.retrace(frame, replace(failure.dynamism, scalars=scalars))
    # The number is free if no guard of the new trace compares it.
    return not any(_compares(guard, failure.source) for guard in guards)


def _compares(guard: Guard, source: Source) -> bool:
    if isinstance(guard.expected, ShapeGuards):
        name = expression(source)
        return any(name in each and each != limits(name) for each in guard.expected.expressions)
    return guard.source == source and guard.kind in (GuardKind.EQUALS_MATCH, GuardKind.NAN_MATCH)


def _with_value(frame: Frame, source: Source, value: object) -> Frame | None:
    """The call with another value at an address; None if only the user's own objects could be changed."""
    match source:
        case LocalSource(name):
            return replace(frame, locals={**frame.locals, name: value})
        case GlobalSource(name):
            return replace(frame, globals={**frame.globals, name: value})
    return None


_ZERO_OR_ONE = re.compile(r"2 <= (.+)\.size\(\)\[(\d+)\]")
_ONE_SYMBOL = re.compile(r"(.+)\.size\(\)\[(\d+)\] == (.+)\.size\(\)\[(\d+)\]")


def _about_sizes(failure: GuardFailure) -> Found:
    """A condition on sizes that torch required (0 and 1 are special, equal sizes one symbol), or the user's code."""
    reason, because = failure.failed.reason, failure.failed.note
    if because and (found := _ZERO_OR_ONE.match(reason)):
        text = f"torch._dynamo.decorators.mark_unbacked({found[1]}, {found[2]}) before the first call"
        return text, lambda: _is_dropped(failure, "unbacked", (found[1], found[2]))
    if because and (found := _ONE_SYMBOL.fullmatch(reason)):
        dims = (found[1], found[2]), (found[3], found[4])
        text = " and ".join(f"torch._dynamo.mark_dynamic({name}, {dim})" for name, dim in dims)
        return f"{text} before the first call", lambda: _is_dropped(failure, "dynamic", *dims)
    used = _use(failure.failed)
    if re.fullmatch(r"-?\d+", failure.failed.expected) and used is not None and not _has_branch(used):
        return _constant(failure.failed)
    return None


def _constant(failed: FailedGuard) -> Found:
    return _CONSTANT.format(name=shortened(failed.source)), _never


def _use(failed: FailedGuard) -> ast.expr | None:
    """The user's expression that required the guard; None if it is unknown."""
    line = failed.stack[-1] if failed.stack else None
    try:
        return None if line is None else ast.parse(line.code[line.column : line.end_column].strip(), mode="eval").body
    except SyntaxError:
        return None


def _has_branch(used: ast.expr) -> bool:
    return any(isinstance(each, (ast.Compare, ast.BoolOp, ast.IfExp)) for each in ast.walk(used))


def _is_length_or_index(used: ast.expr | None) -> bool:
    """Return whether it is ``range(...)`` or ``parts[...]``, where a tensor would not help."""
    is_range = isinstance(used, ast.Call) and isinstance(used.func, ast.Name) and used.func.id == "range"
    return is_range or isinstance(used, ast.Subscript)


def _is_dropped(failure: GuardFailure, mark_as: str, *marked: tuple[str, str]) -> bool:
    """True if a condition is not needed any more once dims are marked."""
    assert isinstance(failure.guard.expected, ShapeGuards)
    names = {shortened(text): text for text in map(expression, failure.guard.expected.sources)}
    dims: dict[str, frozenset[int]] = dict(failure.dynamism.dims)
    for name, dim in marked:
        dims[names[name]] = dims.get(names[name], frozenset()) | {int(dim)}
    with config.patch(automatic_dynamic_shapes_mark_as=mark_as):
        guards = failure.retrace(failure.frame, replace(failure.dynamism, dynamic=None, dims=dims))
    shapes = (guard.expected for guard in guards if isinstance(guard.expected, ShapeGuards))
    facts = (guard for guard in guards if guard.kind is GuardKind.TENSOR_MATCH and guard.source is not None)
    fixed = {shortened(expression(each.source)): each.expected.sizes for each in facts}  # type: ignore[arg-type, attr-defined]
    return not any(failure.failed.reason == shortened(part) for each in shapes for part in each.expressions) and all(
        fixed[name][int(dim)] is None for name, dim in marked
    )


def _about_duplicates(failure: GuardFailure) -> Found:
    found = re.findall(r'"([^"]+)"', failure.failed.reason)
    scope = failure.frame.scope()
    named = {shortened(expression(each)): each for each in failure.guard.expected}  # type: ignore[attr-defined]
    duplicate = next((name for name in found[1:] if isinstance(resolve(named[name], scope), torch.Tensor)), None)
    if duplicate is None:
        return None
    return f"{duplicate}.clone() before the call", lambda: replace(
        failure, guard=replace(failure.guard, source=named[duplicate])
    ).would_accept(lambda tensor: tensor.detach().clone().requires_grad_(tensor.requires_grad))


def _in_words(failure: GuardFailure) -> tuple[str, Trial]:
    """Advice about a cause that only the user can change; it is not tried."""
    text = _IN_WORDS.get(failure.guard.kind, "call it with what it was compiled for in {name}")
    text = _about_a_flag(failure) if text is _ONE_EACH else text
    name = failure.name if failure.guard.source is not None else ""
    what = failure.failed.reason.partition(":")[2].strip()
    return text.format(name=name, reason=failure.failed.reason, what=what), _never


def _about_a_flag(failure: GuardFailure) -> str:
    """Advice by the source of the value: only an argument can be left out."""
    match failure.source:
        case AttrSource(base, "training") if isinstance(resolve(base, failure.frame.scope()), torch.nn.Module):
            return _ONE_MODE
        case LocalSource(name) if name not in failure.frame.code.co_freevars:
            return _ONE_EACH
    return _ONE_VALUE


_CONSTANT = (
    "do not make {name} the length of a loop, an index or a key: each of its values is compiled on its own; what "
    "depends on it can be computed outside of the function"
)
_ONE_EACH = "do not pass {name}: define one function for each value of it"
_ONE_VALUE = (
    "keep {name} at one value, or read it outside of the compiled function: each of its values is compiled anew"
)
_ONE_MODE = (
    "call train() or eval() on the model before the first call, and not between calls; where both modes are used, "
    "one version for each is normal"
)
_SAME_KEYS = "keep the keys of {name}, or read what differs outside of the compiled function"
_SAME_LENGTH = "keep {name} at one length, or change it outside of the compiled function"
_SAME_STATE = "call the function in the same state of the process"
_DEFINE_ONCE = "define {name} once: a definition that runs again makes another function"

_TRIED: dict[GuardKind, Callable[[GuardFailure], Found]] = {
    GuardKind.TENSOR_MATCH: _about_a_tensor,
    GuardKind.EQUALS_MATCH: _about_a_number,
    GuardKind.SHAPE_ENV: _about_sizes,
    GuardKind.NO_TENSOR_ALIASING: _about_duplicates,
}
_IN_WORDS: dict[GuardKind, str] = {
    GuardKind.TENSOR_MATCH: "call it with one kind of tensor in {name}",
    GuardKind.BOOL_MATCH: _ONE_EACH,
    GuardKind.EQUALS_MATCH: _ONE_EACH,
    GuardKind.NONE_MATCH: _ONE_EACH,
    GuardKind.TYPE_MATCH: "call it with one class in {name}, or one function for each class",
    GuardKind.FUNCTION_MATCH: _DEFINE_ONCE,
    GuardKind.SEQUENCE_LENGTH: _SAME_LENGTH,
    GuardKind.DICT_LENGTH: _SAME_LENGTH,
    GuardKind.DICT_KEYS: _SAME_KEYS,
    GuardKind.DICT_CONTAINS: _SAME_KEYS,
    GuardKind.SUBCLASSES: "register classes with abstract ones (``A.register(B)``) before the first call",
    GuardKind.SHAPE_ENV: "move the branch out of the function, or use torch.cond: the program compares ({reason})",
    GuardKind.TENSOR_PROPERTY: "ask {name} for it outside of the compiled function, and pass the answer",
    GuardKind.DIMENSION_MARKING: "mark {name} before the first call",
    GuardKind.NO_TENSOR_ALIASING: "pass different tensors",
    GuardKind.NO_OBJECT_ALIASING: "pass different objects",
    GuardKind.OBJECT_ALIASING: "pass one object for both arguments",
    GuardKind.GLOBAL_STATE: _SAME_STATE + " ({what})",
    GuardKind.TORCH_FUNCTION_MODE_STACK: _SAME_STATE + " (torch function modes)",
    GuardKind.DEFAULT_DEVICE: _SAME_STATE + " (the default device)",
    GuardKind.TRANSFORMS: _SAME_STATE + " (transforms of torch.func)",
    GuardKind.SAVED_TENSORS_HOOKS: _SAME_STATE + " (hooks on saved tensors)",
}
