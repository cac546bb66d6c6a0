"""Values that differed between calls: sizes, strides and numbers that become symbolic."""

from __future__ import annotations

import types

import pytest
import torch

import nbcompile
from nbcompile import config
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.source import AttrSource, LocalSource
from nbcompile.dispatch import cache, hook, observed_values
from tests.dispatch.test_cache import frame_of, tensor_guard

X, K = LocalSource("x"), LocalSource("k")


@pytest.fixture(autouse=True)
def clean():
    """A fixture without entries and recorded values before and after each test."""
    hook.reset()
    yield
    hook.reset()


def trace(**values):
    """The values that vary, after the recorded values of a trace were stored."""
    frame = frame_of(**values)
    observed = observed_values.observed(frame)
    guards = [
        tensor_guard(LocalSource(name), value)
        if isinstance(value, torch.Tensor)
        else Guard(LocalSource(name), GuardKind.EQUALS_MATCH, value)
        for name, value in values.items()
    ]
    observed_values.note(frame, guards)
    return observed


def test_a_size_that_changed_is_dynamic_from_the_second_compile_on():
    """(3,3),(4,4) makes both dimensions dynamic; (3,3),(4,3),(4,5) one after the other."""
    assert trace(x=torch.ones(3, 3)).dims == {}
    assert trace(x=torch.ones(4, 4)).dims == {"L['x']": frozenset({0, 1})}
    cache.reset()
    seen = [trace(x=torch.ones(size)).dims.get("L['x']", frozenset()) for size in ((3, 3), (4, 3), (4, 5))]
    assert seen == [frozenset(), frozenset({0}), frozenset({0, 1})]


def test_a_size_stays_dynamic():
    """A size that differed once is dynamic in every later compilation, also with an old value."""
    for size in (3, 4):
        trace(x=torch.ones(size))
    assert trace(x=torch.ones(3)).dims == {"L['x']": frozenset({0})}


def test_a_rank_that_changed_makes_all_dims_dynamic():
    """A change of the rank makes all dimensions dynamic, as in torch."""
    trace(x=torch.ones(3))
    assert trace(x=torch.ones(3, 4)).dims == {"L['x']": frozenset({0, 1})}


def test_strides_are_noted_only_where_no_size_differs():
    """The strides of a strided view vary; for another size, only the size does."""
    trace(x=torch.ones(3, 3))
    seen = trace(x=torch.ones(3, 3).t() * 1)
    assert seen.dims == {}
    seen = trace(x=torch.ones(3, 6)[:, ::2])
    assert seen.dims == {} and seen.strides == {"L['x']": frozenset({0, 1})}


def test_numbers_that_differ_are_dynamic():
    """The second distinct int or float is dynamic; 1 and 1.0 differ; bools and strings never vary."""
    assert trace(k=1).scalars == frozenset()
    assert trace(k=2).scalars == {"L['k']"}
    cache.reset()
    trace(k=1.5)
    assert trace(k=1.5).scalars == frozenset()
    assert trace(k=2.5).scalars == {"L['k']"}
    for first, second in ((True, False), ("a", "b")):
        cache.reset()
        trace(k=first)
        assert trace(k=second).scalars == frozenset()


def test_only_what_a_trace_looked_at_is_remembered():
    """A value that the trace did not read does not become dynamic."""
    trace(x=torch.ones(3))
    observed_values.note(frame_of(x=torch.ones(4)), ())
    assert observed_values.observed(frame_of(x=torch.ones(3))).dims == {}


def test_sources_that_lead_nowhere_are_ignored():
    """A source of an earlier call may be missing in this call."""
    holder = torch.nn.Linear(2, 2)
    source = AttrSource(K, "weight")
    observed_values.note(frame_of(k=holder), [tensor_guard(source, holder.weight)])
    assert observed_values.observed(frame_of(k=3)).dims == {}
    assert observed_values.observed(frame_of(k=torch.nn.Linear(2, 5))).dims == {"L['k'].weight": frozenset({0})}


def test_automatic_dynamic_can_be_switched_off():
    """Sizes do not become dynamic with ``automatic_dynamic_shapes=False``."""
    trace(x=torch.ones(3))
    with config.patch(automatic_dynamic_shapes=False):
        assert observed_values.observed(frame_of(x=torch.ones(4))) == observed_values.ObservedValues()


def test_a_function_defined_again_keeps_what_was_learnt():
    """The recorded values belong to the file, line and name of a function, as in torch."""
    text = "def f(x): return x"
    made = []
    for _ in range(2):
        namespace: dict[str, object] = {}
        exec(compile(text, "<cell 1>", "exec"), namespace)
        made.append(namespace["f"].__code__)
    other = compile(text, "<cell 2>", "exec").co_consts[0]
    small, large = torch.ones(3), torch.ones(4)
    observed_values.note(Frame(made[0], {"x": small}, {}, {}), [tensor_guard(X, small)])
    assert observed_values.observed(Frame(made[1], {"x": large}, {}, {})).dims
    assert not observed_values.observed(Frame(other, {"x": large}, {}, {})).dims


def test_a_closure_may_have_a_bound_method_of_c():
    """A bound method has the code of its function; a function in C has none, as ``Function.apply`` of torch 2.15."""
    last = types.MethodType(max, [1.0, 3.0])
    compiled = nbcompile.compile(lambda x: x + last(), backend="eager")
    assert compiled(torch.zeros(1)).item() == 3
