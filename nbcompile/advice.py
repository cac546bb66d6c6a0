"""What would have prevented a recompilation, tried out before it is said.

    tensor 'x' size mismatch at index 0. expected 3, actual 4     torch._dynamo.mark_dynamic(x, 0) before the first call
    G['KK'] == 1                                                  make G['KK'] a tensor: torch.tensor(1)
    tensor 'x' dtype mismatch. expected Float, actual Double      x.to(torch.float32) before the call

Advice about the call is tried on the entry that refused: would it have accepted?
Advice about the program is tried by tracing this call again, as if it had been
followed: is the value that differed still compared? No code of the user's runs.

In torch: the hints of torch/_dynamo/guards.py (get_guard_fail_reason). Read next: nbcompile/driver.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from nbcompile import config, torch_internals
from nbcompile.capture.compiled import CompiledFrame
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind, ShapeGuards
from nbcompile.capture.source import AttrSource, GlobalSource, LocalSource, Source, expression, resolve
from nbcompile.capture.trace import GraphBreak
from nbcompile.guarding.check import build_check
from nbcompile.guarding.explain import shortened
from nbcompile.options import Options
from nbcompile.record.model import Advice, FailedGuard
from nbcompile.tracing import tracer
from nbcompile.tracing.dynamism import Dynamism

_SIZE = re.compile(r"tensor '.*' (size|stride) mismatch at index (\d+)\. expected (\d+), actual (\d+)")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One entry that refused a call, and the guard by which it did."""

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
        """The same as the user writes it."""
        return shortened(expression(self.source))

    def with_tensor(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Frame | None:
        """The call with the tensor changed; neither its class nor a function mode is asked for that."""
        tensor = resolve(self.source, self.frame.scope())
        assert isinstance(tensor, torch.Tensor)
        with torch._C.DisableTorchFunction():
            changed = change(tensor)
            if torch_internals.is_overriding(tensor):
                changed = changed.as_subclass(type(tensor))
        return _with_value(self.frame, self.source, changed)

    def would_accept(self, change: Callable[[torch.Tensor], torch.Tensor]) -> bool:
        """Whether the entry accepts the call with the tensor changed."""
        changed = self.with_tensor(change)
        return changed is not None and self.entry.check.holds(changed.scope())

    def traced_again(self, frame: Frame | None, dynamism: Dynamism) -> tuple[Guard, ...]:
        """The guards of the call if the program were as advised."""
        if frame is None:
            return (self.guard,)
        trace = tracer.trace(frame, self.options, dynamism)
        if frame is not self.frame and isinstance(trace.exit, GraphBreak):
            return (self.guard,)  # a recompilation less at the price of a break is no help
        return trace.guards()


def advise(
    failed: FailedGuard, entry: CompiledFrame | None, frame: Frame, options: Options, dynamism: Dynamism
) -> FailedGuard:
    """The same with advice, where there is any."""
    if entry is None or not failed.guard:
        return failed
    guard = entry.check.guards[int(failed.guard.rpartition(".g")[2])]
    if guard.kind not in _BY_KIND:
        return failed
    refusal = Refusal(failed, guard, entry, frame, options, dynamism)
    found = _BY_KIND[guard.kind](refusal)
    if found is None:
        return failed
    text, trial = found
    return replace(failed, advice=Advice(text, _succeeds(trial)))


Trial = Callable[[], bool]
Found = tuple[str, Trial] | None


def _succeeds(trial: Trial) -> bool:
    try:
        return trial()
    except Exception:  # noqa: BLE001 - followed, the advice makes a program that does not even compile
        return False


def _never() -> bool:
    return False


def _about_a_tensor(refusal: Refusal) -> Found:
    mismatch = _SIZE.search(refusal.failed.reason)
    tensor, name = resolve(refusal.source, refusal.frame.scope()), refusal.name
    if mismatch is not None and mismatch[1] == "size":
        return _about_a_size(refusal, int(mismatch[2]), int(mismatch[3]), int(mismatch[4]))
    if not isinstance(tensor, torch.Tensor):
        return None
    wanted = _traced_like(refusal.failed.reason)
    if wanted is not None:
        return f"{name}.to({wanted}) before the call", lambda: refusal.would_accept(
            lambda tensor: tensor.detach().to(wanted)
        )
    if "requires_grad mismatch. expected requires_grad=0" in refusal.failed.reason:
        return f"{name}.detach() before the call", lambda: refusal.would_accept(torch.Tensor.detach)
    if mismatch is not None:
        return f"{name}.contiguous() before the call", lambda: refusal.would_accept(
            lambda tensor: tensor.detach().contiguous()
        )
    return None


_SCALAR_TYPES = {"Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "Long": torch.int64}
_SCALAR_TYPES |= {"Int": torch.int32, "Bool": torch.bool, "BFloat16": torch.bfloat16}


def _traced_like(reason: str) -> torch.dtype | None:
    found = re.search(r"dtype mismatch\. expected (\w+),", reason)
    return _SCALAR_TYPES.get(found[1]) if found else None


def _about_a_size(refusal: Refusal, dim: int, expected: int, actual: int) -> Found:
    special = min(expected, actual) < 2
    if refusal.options.dynamic and not special:  # it was a symbol: marked as one, it would be an error
        return (
            f"ask less of {refusal.name}.shape[{dim}]: the program compares it, so that it must be {expected}",
            _never,
        )
    mark = "torch._dynamo.decorators.mark_unbacked" if special else "torch._dynamo.mark_dynamic"
    text = f"{mark}({refusal.name}, {dim}) before the first call"

    def trial() -> bool:
        dims = {**refusal.dynamism.dims, expression(refusal.source): frozenset({dim})}
        with config.patch(automatic_dynamic_shapes_mark_as="unbacked" if special else "dynamic"):
            guards = refusal.traced_again(refusal.frame, replace(refusal.dynamism, dynamic=None, dims=dims))
        earlier = refusal.with_tensor(lambda tensor: _resized(tensor, dim, expected))
        return earlier is not None and build_check(guards, refusal.frame).holds(earlier.scope())

    return text, trial


def _resized(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    sizes = [size if each == dim else now for each, now in enumerate(tensor.shape)]
    return tensor.new_empty(sizes).requires_grad_(tensor.requires_grad)


def _about_a_number(refusal: Refusal) -> Found:
    value, source = resolve(refusal.source, refusal.frame.scope()), refusal.source
    if type(value) not in (int, float):
        return None
    owner = resolve(source.base, refusal.frame.scope()) if isinstance(source, AttrSource) else None
    if isinstance(owner, torch.nn.Module):
        text = f"config.allow_unspec_int_on_nn_module = True, or make {refusal.name} a tensor"
        return text, lambda: _is_free(refusal, refusal.frame, {"allow_unspec_int_on_nn_module": True})
    text = f"make {refusal.name} a tensor: torch.tensor({value!r})"
    return text, lambda: _is_free(refusal, _with_value(refusal.frame, source, torch.tensor(value)), {})


def _is_free(refusal: Refusal, frame: Frame | None, settings: Mapping[str, Any]) -> bool:
    """Whether the number that differed may have any value."""
    scalars = refusal.dynamism.scalars | {expression(refusal.source)}
    with config.patch(dict(settings)):
        guards = refusal.traced_again(frame, replace(refusal.dynamism, scalars=scalars))
    return not any(_compares(guard, refusal.source) for guard in guards)


def _compares(guard: Guard, source: Source) -> bool:
    if isinstance(guard.expected, ShapeGuards):
        return any(expression(source) in each for each in guard.expected.expressions)
    return guard.source == source and guard.kind in (GuardKind.EQUALS_MATCH, GuardKind.NAN_MATCH)


def _with_value(frame: Frame, source: Source, value: object) -> Frame | None:
    """The call with another value at an address; None if only the user's own objects could be changed."""
    match source:
        case LocalSource(name):
            return replace(frame, locals={**frame.locals, name: value})
        case GlobalSource(name):
            return replace(frame, globals={**frame.globals, name: value})
    return None


def _about_a_flag(refusal: Refusal) -> Found:
    return f"take {refusal.name} out of the function: one function for each value", _never


def _about_a_length(refusal: Refusal) -> Found:
    return f"keep {refusal.name} at one length, or change it outside of the compiled function", _never


def _about_the_process(refusal: Refusal) -> Found:
    what = refusal.failed.reason.partition(":")[2].strip()
    return f"call the function in the same state of the process ({what})", _never


_BY_KIND: dict[GuardKind, Callable[[Refusal], Found]] = {
    GuardKind.TENSOR_MATCH: _about_a_tensor,
    GuardKind.EQUALS_MATCH: _about_a_number,
    GuardKind.BOOL_MATCH: _about_a_flag,
    GuardKind.SEQUENCE_LENGTH: _about_a_length,
    GuardKind.DICT_LENGTH: _about_a_length,
    GuardKind.GLOBAL_STATE: _about_the_process,
}
