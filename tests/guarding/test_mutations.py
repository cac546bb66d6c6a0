"""Each guard, violated: the look-up misses, and the printed reason names a guard that does not hold.

The programs of tests/peer are compiled; each time guards were built, what each is
about is changed in place, one after the other, and put back.
"""

import contextlib
import random
import types
import warnings

import pytest
import torch

import nbcompile
from nbcompile import driver
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, GlobalSource, ItemSource, LocalSource, Scope, resolve
from nbcompile.guarding.leaves import Leaf
from tests.peer.program import programs

NOTHING = object()


class Other:
    pass


def another(kind, value):
    """A value that a guard of this kind must refuse; NOTHING where none is known."""
    match kind, value:
        case GuardKind.TENSOR_MATCH, torch.Tensor():
            dtype = torch.float64 if value.dtype is not torch.float64 else torch.float32
            return value.detach().to(dtype) if not value.is_complex() else value.detach().real.clone()
        case GuardKind.BOOL_MATCH, bool():
            return not value
        case GuardKind.EQUALS_MATCH, int() | float():
            return value + 1
        case GuardKind.EQUALS_MATCH, str():
            return value + "x"
        case ((GuardKind.NONE_MATCH | GuardKind.ID_MATCH | GuardKind.TYPE_MATCH), _):
            return Other()
        case GuardKind.SEQUENCE_LENGTH, list() | tuple() if type(value) in (list, tuple):
            return type(value)((*value, Other()))
        case ((GuardKind.DICT_LENGTH | GuardKind.DICT_KEYS), dict()) if type(value) is dict:
            return {**value, "a key of nobody": Other()}
        case GuardKind.FUNCTION_MATCH, types.FunctionType():
            return lambda *_: None
    return NOTHING


@contextlib.contextmanager
def changed(source, scope, value):
    """A scope in which the address leads to another value, as long as the block runs; None if that cannot be done."""
    match source:
        case LocalSource(name):
            yield Scope(scope.code, {**scope.locals, name: value}, scope.globals, scope.builtins)
        case GlobalSource(name):
            before = scope.globals[name]
            scope.globals[name] = value
            try:
                yield scope
            finally:
                scope.globals[name] = before
        case AttrSource(base, name) if isinstance(resolve(base, scope), torch.nn.Module):
            owner = vars(resolve(base, scope))
            table = next(
                (each for each in (owner, *map(owner.get, ("_parameters", "_buffers", "_modules"))) if name in each),
                None,
            )
            if table is None:
                yield None
                return
            yield from put(table, name, value, scope)
        case ItemSource(base, key) if type(resolve(base, scope)) in (list, dict):
            yield from put(resolve(base, scope), key, value, scope)
        case _:
            yield None


def put(table, key, value, scope):
    before = table[key]
    table[key] = value
    try:
        yield scope
    finally:
        table[key] = before


class Mutations:
    """Stands in for ``build_check``; counts, and collects what went wrong."""

    def __init__(self, build):
        self.build = build
        self.tried = {}
        self.wrong = []

    def __call__(self, guards, frame, remember=None):
        check = self.build(guards, frame, remember)
        scope = frame.scope()
        for number, each in enumerate(check.prepared):
            if isinstance(each, Leaf):
                self.violate(check, scope, number, each)
        if not check.holds(scope):
            self.wrong.append("the check does not hold any more once everything was put back")
        return check

    def violate(self, check, scope, number, leaf):
        guard = leaf.guard
        value = another(guard.kind, resolve(guard.source, scope))
        if value is NOTHING:
            return
        with changed(guard.source, scope, value) as now:
            if now is None:
                return
            self.tried[guard.kind] = self.tried.get(guard.kind, 0) + 1
            if check.holds(now):
                self.wrong.append(f"{leaf.text} is violated, and the look-up hits")
                return
            failed = check.failure(now, "0/0")
            failing = [f"0/0.g{check.prepared.index(each)}" for each in check.failing(now)]
            if f"0/0.g{number}" not in failing:
                self.wrong.append(f"{leaf.text} is violated, and its meaning holds")
            if failed is None or not failed.reason or failed.guard not in failing:
                self.wrong.append(f"{leaf.text} is violated; the reason is {failed}")


def run(program):
    function, calls, _ = program.build()
    compiled = nbcompile.compile(function, backend="eager", **program.settings.options)
    with nbcompile.config.patch(
        {name: value for name, value in program.settings.config.items() if hasattr(nbcompile.config, name)}
    ):
        for call in calls:
            with contextlib.suppress(Exception):
                call(compiled) if callable(call) else compiled(*call)


FAMILIES = sorted({each.family for each in programs().values()})
SAMPLE = 6


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore")
def test_every_guard_can_be_violated(family, monkeypatch):
    """A sample of each family of programs; ``make sweep`` takes all."""
    mutate(random.Random(family).sample(members := of_family(family), min(SAMPLE, len(members))), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore")
def test_every_guard_of_every_program(family, monkeypatch):
    """All programs of tests/peer."""
    mutate(of_family(family), monkeypatch)


def of_family(family):
    return [each for each in programs().values() if each.family == family]


def mutate(chosen, monkeypatch):
    mutations = Mutations(driver.guarding.build_check)
    monkeypatch.setattr(driver.guarding, "build_check", mutations)
    for program in chosen:
        nbcompile.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(program)
    nbcompile.reset()
    assert not mutations.wrong, mutations.wrong[:5]
    assert mutations.tried
