"""Units of fusion, in a topological order."""

import random

from nbcompile.scheduling.units import Unit, UnitOrder


def _reaches(unit_of: dict[str, Unit], names: set[str], target: Unit) -> bool:
    worklist, seen = [unit_of[name] for name in names], set()
    while worklist:
        unit = worklist.pop()
        if unit is target:
            return True
        if unit not in seen:
            seen.add(unit)
            worklist += [unit_of[name] for name in unit.needs - unit.names]
    return False


def _join(order: UnitOrder, unit_of: dict[str, Unit], candidate: Unit, newcomer: Unit) -> bool:
    between = order.between(newcomer.needs - candidate.names, candidate)
    assert (between is None) == _reaches(unit_of, newcomer.needs - candidate.names, candidate)
    if between is None:
        return False
    candidate.names |= newcomer.names
    candidate.needs |= newcomer.needs
    order.move_before(between, candidate)
    unit_of.update(dict.fromkeys(newcomer.names, candidate))
    return True


def _merge(order: UnitOrder, unit_of: dict[str, Unit], first: Unit, second: Unit) -> None:
    needs = second.needs - second.names - first.names
    between = order.between(needs, first)
    assert (between is None) == _reaches(unit_of, needs, first)
    if between is not None:
        second.names |= first.names
        second.needs |= first.needs
        unit_of.update(dict.fromkeys(first.names, second))
        order.move_before(between, first)
        order.replace(first, second)


def test_what_runs_between_is_found_as_by_a_walk_over_everything() -> None:
    """For random programs, fusions and merges, the order gives the answer of a search of all dependencies."""
    for seed in range(60):
        choose = random.Random(seed)
        unit_of: dict[str, Unit] = {}
        order = UnitOrder(unit_of)
        for at in range(40):
            needs = {f"b{choose.randrange(at)}" for _ in range(min(at, choose.randrange(4)))}
            unit = Unit({f"b{at}"}, None, needs)
            candidates = choose.sample(list(order), min(3, len(list(order))))
            if not any(_join(order, unit_of, candidate, unit) for candidate in candidates if choose.random() < 0.7):
                order.append(unit)
                unit_of[f"b{at}"] = unit
        for _ in range(20):
            second = choose.choice(list(order))
            producers = {unit_of[name] for name in second.needs - second.names}
            if producers:
                _merge(order, unit_of, choose.choice(sorted(producers, key=order.created)), second)


def test_only_units_behind_the_target_are_asked() -> None:
    """A unit before the target cannot depend on it, so its dependencies are not read."""
    unit_of: dict[str, Unit] = {}
    order = UnitOrder(unit_of)
    for at in range(5):
        unit_of[f"b{at}"] = Unit({f"b{at}"}, None, {f"b{at - 1}"} if at else set())
        order.append(unit_of[f"b{at}"])
    unit_of["b0"].needs = None  # type: ignore[assignment]  # to look at it would fail
    assert order.between({"b1"}, unit_of["b4"]) == set()
