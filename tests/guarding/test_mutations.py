"""Each guard, broken: the check fails, and its reason names a guard that does not hold.

The programs of tests/peer are compiled. Whenever guards are built, the value of each
guard is changed, one after the other, and restored (see mutating.py). A value that
cannot be changed alone is counted with the reason.
"""

import collections
import contextlib
import dataclasses
import random
import types
import warnings

import pytest
import torch

import nbcompile
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.resolution import resolve
from nbcompile.capture.source import Address
from nbcompile.driver import stages
from nbcompile.guarding.encodings.ambient import shape_names
from nbcompile.guarding.encodings.sentences import shortened
from tests.guarding import encoded, mutating
from tests.guarding.mutating import Cannot
from tests.peer.program import programs


class Mutations:
    """A replacement for ``build_check`` that breaks each guard and collects the failures."""

    def __init__(self, build):
        self.build = build
        self.tried = collections.Counter()
        self.alone = collections.Counter()
        self.not_tried = collections.Counter()
        self.wrong = []
        self.unbroken = []
        self.encodings, self.frame = {}, None
        self.rejected_by = collections.Counter()
        """The number of changes that each encoding rejected, by kind."""
        self.said_in_c = self.checks = 0

    def __call__(self, guards, frame, *makers):
        check = self.build(guards, frame, *makers)
        scope = frame.scope()
        self.frame, self.encodings = frame, encoded.encode(check, guards, frame)
        for name, accepts in self.encodings.items():
            if not accepts(frame):
                self.wrong.append(f"{name}: the call that was traced is rejected")
        self.said_in_c += "instructions" in self.encodings
        self.checks += 1
        for number, each in enumerate(check.prepared):
            try:
                self.violate(check, scope, number, each)
            except Cannot as reason:
                self.not_tried[each.guard.kind, str(reason)] += 1
            if not check.holds(scope):
                self.wrong.append(f"once {each.text} is put back: {check.failure(scope, '0/0')}")
                break
        return check

    def violate(self, check, scope, number, each):
        """Break one guard, or raise Cannot if that is not possible."""
        kind = each.guard.kind
        if kind in mutating.STATES:
            for name, enter in mutating.STATES[kind].items():
                with enter():
                    self.rejects(check, scope, number, name)
        elif kind in (GuardKind.NO_TENSOR_ALIASING, GuardKind.NO_OBJECT_ALIASING):
            self.one_of(check, number, mutating.shared(each.guard.expected, scope), "things that are too unlike")
        elif kind is GuardKind.OBJECT_ALIASING:
            with mutating.parted(each.guard.expected, each.guard.source, scope) as now:
                self.rejects(check, now, number)
        elif kind is GuardKind.SHAPE_ENV:
            self.break_conditions(check, scope, number, each)
        elif kind in mutating.IN_PLACE:
            with mutating.in_place(each, resolve(each.guard.source, scope)):
                self.rejects(check, scope, number)
        else:
            strong = each.strong_guard()
            value = mutating.quietly(mutating.another, kind, resolve(strong.source, scope), strong.expected)
            with mutating.changed(strong.source, scope, value) as now:
                self.rejects(check, now, number)

    def one_of(self, check, number, scopes, otherwise):
        """Use the first change that breaks no other guard."""
        for each in scopes:
            with contextlib.suppress(Cannot), each as now:
                if [check.prepared.index(one) for one in check.failing(now)] == [number]:
                    self.rejects(check, now, number)
                    return
        raise Cannot(otherwise)

    def break_conditions(self, check, scope, number, each):
        """Each condition on sizes alone: all other conditions hold, and so do all other guards."""
        conditions = each.guard.expected
        left = set(conditions.expressions)
        together = {}
        for changes in mutating.other_sizes(conditions.sources, scope):
            if not left:
                return
            with contextlib.suppress(Cannot), mutating.resized(changes, scope) as now:
                broken = [text for text in conditions.expressions if not self.is_true(text, now)]
                if len(broken) == 1 and broken[0] in left:
                    if [check.prepared.index(one) for one in check.failing(now)] == [number]:
                        left -= set(broken)
                        self.rejects(check, now, number, shortened(broken[0]))
                together.update(dict.fromkeys(broken, changes))
        for text in left:  # conditions that others imply
            if text in together:
                with mutating.resized(together[text], scope) as now:
                    self.rejects(check, now, number)
            else:
                self.unbroken.append(f"{text}   in   {each.text}")
                self.not_tried[GuardKind.SHAPE_ENV, "no sizes were found that break it"] += 1

    def is_true(self, text, scope):
        """True if one condition holds."""
        try:
            return bool(eval(text, shape_names(scope), {"L": scope.locals}))
        except (LookupError, ArithmeticError, AttributeError):
            return False

    def rejects(self, check, now, number, named=""):
        """The check fails, with a reason."""
        each = check.prepared[number]
        if each.guard.kind is GuardKind.OBJECT_ALIASING and each not in check.failing(now):
            self.not_tried[each.guard.kind, "both addresses go through one object, and change together"] += 1
            return
        self.tried[each.guard.kind] += 1
        text = f"{each.text} {named}"
        if check.holds(now):
            self.wrong.append(f"{text} is violated, and the look-up hits")
            return
        other = dataclasses.replace(self.frame, locals=now.locals)
        for name, accepts in self.encodings.items():
            if accepts(other):
                self.wrong.append(f"{text} is violated, and accepted by {name}")
            self.rejected_by[each.guard.kind, name] += 1
        failed = check.failure(now, "0/0")
        others = [one for one in check.failing(now) if one is not each]
        failing = [f"0/0.g{check.prepared.index(one)}" for one in check.failing(now)]
        self.alone[each.guard.kind] += not others
        unrelated = [one for one in others if not same_thing(each.guard, one.guard, now)]
        if unrelated := [one.text for one in unrelated if not compared_in_python(resolve(one.guard.source, now))]:
            self.wrong.append(f"{text} is violated, and so is {unrelated}")
        if f"0/0.g{number}" not in failing:
            self.wrong.append(f"{text} is violated, and its meaning holds")
        if failed is None or not failed.reason or failed.guard not in failing:
            self.wrong.append(f"{text} is violated; the reason is {failed}")
        elif len(failing) == 1 and named not in failed.reason:
            self.wrong.append(f"{text} is violated; the reason does not say so: {failed.reason}")


def same_thing(first, second, scope):
    """True if two guards concern the same object: one source is part of the other, or both have one object."""
    below, ways = addresses(first), addresses(second)
    return bool(below & ways or {reached(each, scope) for each in below} & {reached(each, scope) for each in ways})


def compared_in_python(value):
    """True if ``==`` runs Python code, which may read the changed value: versions of torch are parsed for it."""
    return isinstance(type(value).__eq__, types.FunctionType)


def addresses(guard):
    """The sources of a guard, with all their bases."""
    mentioned = getattr(guard.expected, "sources", guard.expected)  # of relations
    found, left = set(), [guard.source, *(mentioned if isinstance(mentioned, tuple) else [mentioned])]
    while left:
        each = left.pop()
        if isinstance(each, Address):
            found.add(each)
            left.append(getattr(each, "base", None))
    return found


def reached(source, scope):
    """The identity of the object at a source, or the source itself if it has no value."""
    try:
        return id(mutating.quietly(resolve, source, scope))
    except Exception:  # noqa: BLE001 - the path passes the changed object
        return source


UNBREAKABLE = {
    "the attribute is what it is as long as its owner is": "a method's function, what a property computes, a tensor's "
    "facts: the guards of the owner are violated instead",
    "a class that is registered stays registered": "SUBCLASSES: tests/tracing/test_registered_classes.py registers new ones",
    "a class written in C stays as it is": "nothing can be put into its table",
    "a size is a part of its tensor, which is guarded": "TENSOR_MATCH and SHAPE_ENV are about it",
    "an attribute of a class written in C stays": "group.exceptions is read-only, and deleting error.strerror leaves None",
    "what the compiler holds by itself stays": "its address is a constant of the guard tree",
    "another mode on the stack is what TORCH_FUNCTION_MODE_STACK is about": "that guard rejects first",
    "things that are too unlike": "two tensors of other sizes cannot be made one without breaking TENSOR_MATCH",
    "both addresses go through one object, and change together": "OBJECT_ALIASING of a thing with itself",
    "a tuple of a class written in C has the items that it has": "sys.version_info",
    "no sizes were found that break it": "what ShapeEnv writes down though every size keeps it: size // 2 <= size",
    "a tensor subclass, or a sparse tensor, is not made again": "TENSOR_PROPERTY of a plain tensor is violated",
    "a tensor without gradient retains none": "TENSOR_MATCH promises requires_grad",
    "a tensor without gradient is a leaf": "TENSOR_MATCH promises requires_grad",
    "memory is pinned for a GPU": "this machine may have none",
    "it is so already": "torch functions were switched off while it was traced",
    "a wrapper says nothing beside its tensors, or always the same": "TwoTensor has no metadata",
}
"""Reasons why a guard cannot be broken alone, as ``mutating.Cannot`` has them, with an explanation."""


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


@pytest.mark.rotates(3)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore")
def test_every_guard_can_be_violated(family, monkeypatch):
    """A random sample of each family of programs; ``make sweep`` runs all of them."""
    mutate(random.Random(family).sample(members := of_family(family), min(SAMPLE, len(members))), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore")
def test_every_guard_of_every_program(family, monkeypatch):
    """All programs of tests/peer."""
    mutate(of_family(family), monkeypatch)


QUESTIONS = ("is_leaf", "retains_grad", "is_shared()", "_is_view()")


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "make", [torch.Tensor.requires_grad_, lambda x: x.requires_grad_() * 1], ids=["leaf", "computed"]
)
def test_properties_of_tensors(question, make, monkeypatch):
    """A tensor that differs only in the property is rejected, in C, too."""
    mutations = Mutations(stages.guarding.build_check)
    monkeypatch.setattr(stages.guarding, "build_check", mutations)
    nbcompile.compile(eval(f"lambda x: (x.detach() + 1, x.{question})"), backend="eager")(make(torch.ones(2)))
    assert not mutations.wrong, mutations.wrong
    assert mutations.alone[GuardKind.TENSOR_PROPERTY] == 1 == mutations.said_in_c, mutations.not_tried


def of_family(family):
    return [each for each in programs().values() if each.family == family]


def mutate(chosen, monkeypatch):
    mutations = Mutations(stages.guarding.build_check)
    monkeypatch.setattr(stages.guarding, "build_check", mutations)
    for program in chosen:
        nbcompile.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(program)
    nbcompile.reset()
    print(f"violated {sum(mutations.tried.values())}, of these alone {sum(mutations.alone.values())}")
    for (kind, reason), count in mutations.not_tried.most_common():
        print(f"not violated: {count} {kind}: {reason}")
    print("\n".join(mutations.unbroken))
    assert not mutations.wrong, mutations.wrong[:5]
    assert {reason for _, reason in mutations.not_tried} <= set(UNBREAKABLE)
    assert mutations.tried
