"""Each guard, violated: the look-up misses, and the printed reason names a guard that does not hold.

The programs of tests/peer are compiled; each time guards were built, what each is
about is changed, one after the other, and put back (mutating.py says how). What
cannot be changed by itself is counted with the reason.
"""

import collections
import contextlib
import random
import warnings

import pytest

import nbcompile
from nbcompile import driver
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import resolve
from nbcompile.guarding.ambient import shape_names
from tests.guarding import mutating
from tests.guarding.mutating import Cannot
from tests.peer.program import programs


class Mutations:
    """Stands in for ``build_check``; counts, and collects what went wrong."""

    def __init__(self, build):
        self.build = build
        self.tried = collections.Counter()
        self.alone = collections.Counter()
        self.not_tried = collections.Counter()
        self.wrong = []

    def __call__(self, guards, frame, *makers):
        check = self.build(guards, frame, *makers)
        scope = frame.scope()
        for number, each in enumerate(check.prepared):
            try:
                self.violate(check, scope, number, each)
            except Cannot as reason:
                self.not_tried[each.guard.kind, str(reason)] += 1
        if not check.holds(scope):
            self.wrong.append("the check does not hold any more once everything was put back")
        return check

    def violate(self, check, scope, number, each):
        """Break one guard; raise Cannot where that is not possible."""
        kind = each.guard.kind
        if kind in mutating.STATES:
            for name, enter in mutating.STATES[kind].items():
                with enter():
                    self.refuses(check, scope, number, name)
        elif kind in (GuardKind.NO_TENSOR_ALIASING, GuardKind.NO_OBJECT_ALIASING):
            self.one_of(check, number, mutating.shared(each.guard.expected, scope), "things that are too unlike")
        elif kind is GuardKind.OBJECT_ALIASING:
            with mutating.parted(each.guard.expected, each.guard.source, scope) as now:
                self.refuses(check, now, number)
        elif kind is GuardKind.SHAPE_ENV:
            self.break_conditions(check, scope, number, each)
        elif kind in mutating.IN_PLACE:
            with mutating.in_place(each, resolve(each.guard.source, scope)):
                self.refuses(check, scope, number)
        else:
            strong = each.strong_guard()
            value = mutating.another(kind, resolve(strong.source, scope), strong.expected)
            with mutating.changed(strong.source, scope, value) as now:
                self.refuses(check, now, number)

    def one_of(self, check, number, scopes, otherwise):
        """Of several ways take the first that leaves all the other guards as they are."""
        for each in scopes:
            with contextlib.suppress(Cannot), each as now:
                if [check.prepared.index(one) for one in check.failing(now)] == [number]:
                    self.refuses(check, now, number)
                    return
        raise Cannot(otherwise)

    def break_conditions(self, check, scope, number, each):
        """Each condition on sizes by itself: all the others hold, and so do all other guards."""
        conditions = each.guard.expected
        left = set(conditions.expressions)
        for changes in mutating.other_sizes(conditions.sources, scope):
            if not left:
                return
            with contextlib.suppress(Cannot), mutating.resized(changes, scope) as now:
                broken = [text for text in conditions.expressions if not self.is_true(text, now)]
                if len(broken) == 1 and broken[0] in left:
                    if [check.prepared.index(one) for one in check.failing(now)] == [number]:
                        left -= set(broken)
                        self.refuses(check, now, number, broken[0].replace("L['", "").replace("']", ""))
        self.not_tried.update((GuardKind.SHAPE_ENV, "no sizes were found that break it alone") for _ in left)

    def is_true(self, text, scope):
        """Whether one condition holds."""
        try:
            return bool(eval(text, shape_names(scope), {"L": scope.locals}))
        except (LookupError, ArithmeticError, AttributeError):
            return False

    def refuses(self, check, now, number, named=""):
        """The look-up misses, and says why."""
        each = check.prepared[number]
        if each.guard.kind is GuardKind.OBJECT_ALIASING and each not in check.failing(now):
            self.not_tried[each.guard.kind, "both addresses go through one object, and change together"] += 1
            return
        self.tried[each.guard.kind] += 1
        text = f"{each.text} {named}"
        if check.holds(now):
            self.wrong.append(f"{text} is violated, and the look-up hits")
            return
        failed = check.failure(now, "0/0")
        failing = [f"0/0.g{check.prepared.index(one)}" for one in check.failing(now)]
        self.alone[each.guard.kind] += len(failing) == 1
        if f"0/0.g{number}" not in failing:
            self.wrong.append(f"{text} is violated, and its meaning holds")
        if failed is None or not failed.reason or failed.guard not in failing:
            self.wrong.append(f"{text} is violated; the reason is {failed}")
        elif len(failing) == 1 and named not in failed.reason:
            self.wrong.append(f"{text} is violated; the reason does not say so: {failed.reason}")


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
    print(f"violated {sum(mutations.tried.values())}, of these alone {sum(mutations.alone.values())}")
    for (kind, reason), count in mutations.not_tried.most_common():
        print(f"not violated: {count} {kind}: {reason}")
    assert not mutations.wrong, mutations.wrong[:5]
    assert mutations.tried
