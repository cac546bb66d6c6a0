"""``heapq`` and ``bisect``, which are written in C, are traced as Python, with eager mode's lists."""

from __future__ import annotations

import bisect
import heapq
import itertools
import random

import pytest
import torch

import nbcompile
from tests.support.oracle import one_graph

X = torch.arange(3.0)


class Ranked:
    """An item with only ``<``, which counts its calls."""

    asked = 0

    def __init__(self, rank):
        self.rank = rank

    def __lt__(self, other):
        Ranked.asked += 1
        return self.rank < other.rank


class Backwards(list):
    """A list whose ``__getitem__`` C code does not call."""

    def __getitem__(self, index):
        return super().__getitem__(-1 - index)


def best_paths(x, scores, width):
    """The inner loop of a beam search, with the best paths in a heap."""
    heap = []
    for score, step in zip(scores, itertools.count(), strict=False):
        entry = (score, step, x * score)
        if len(heap) < width:
            heapq.heappush(heap, entry)
        else:
            heapq.heappushpop(heap, entry)
    return torch.stack([heapq.heappop(heap)[2] for _ in range(width)])


def test_a_beam_search_is_one_graph():
    """Tensors in the entries are not compared, because the scores differ."""
    scores = [0.5, 0.1, 0.9, 0.3, 0.7]
    assert torch.equal(one_graph(best_paths, X, scores, 3), best_paths(X, scores, 3))


NUMBERS = [random.Random(seed).choices(range(9), k=size) for seed, size in enumerate((0, 1, 2, 3, 7, 12))]


def of_heap(numbers):
    made, other = list(numbers), []
    heapq.heapify(made)
    down = list(numbers)
    heapq._heapify_max(down)
    for each in numbers:
        heapq.heappush(other, each)
    log = [list(made), list(down), list(other), heapq.heappushpop(made, 4), heapq.heappushpop(other, 10)]
    if numbers:
        log += [heapq.heapreplace(made, 5), heapq.heappop(other), heapq._heapreplace_max(down, 1)]
        log += [heapq._heappop_max(down)]
    log += [made, other, down, heapq.nsmallest(3, numbers), heapq.nlargest(2, numbers, key=lambda each: -each)]
    return [*log, list(heapq.merge(sorted(numbers), [2, 5], [])), list(heapq.merge([5, 2], [3], reverse=True))]


@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
def test_each_heap_has_eagers_layout(numbers):
    """The whole list equals eager mode's, not only the items that are taken out."""
    result = one_graph(lambda x: (x + 1, of_heap(numbers)), X)
    assert result[1] == of_heap(numbers)


def test_a_list_from_outside_is_changed():
    """The argument itself is mutated once."""
    mine, eagers = [5, 3, 1], [5, 3, 1]

    def function(x, heap):
        heapq.heapify(heap)
        heapq.heappush(heap, 0)
        return x + heapq.heappop(heap), heapq.heappop(heap)

    assert one_graph(function, X, mine)[1] == function(X, eagers)[1]
    assert mine == eagers


def of_bisection(numbers, wanted):
    numbers, log = sorted(numbers), []
    for where in (bisect.bisect, bisect.bisect_left, bisect.bisect_right):
        log += [where(numbers, wanted), where(numbers, wanted, 1), where(numbers, wanted, hi=len(numbers) // 2)]
        log += [where(numbers, wanted, 0, -1), where(numbers, wanted, 0, -2), where(numbers, wanted, True)]
        log += [where(numbers[::-1], -wanted, key=lambda each: -each), where(tuple(numbers), wanted)]
    for insert in (bisect.insort, bisect.insort_left, bisect.insort_right):
        insert(numbers, wanted)
        insert(numbers, -wanted, key=lambda each: each % 5)
    return [*log, numbers]


@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
def test_bisection(numbers):
    """Each function of ``bisect`` works with each of its arguments."""
    result = one_graph(lambda x: (x + 1, of_bisection(numbers, 4)), X)
    assert result[1] == of_bisection(numbers, 4)


def comparisons(x):
    items = [Ranked(number) for number in (4, 1, 3, 1, 5, 9)]
    heapq.heapify(items)
    heapq.heappush(items, Ranked(2))
    least = heapq.heappop(items)
    bisect.insort(items, Ranked(3), 1, 3)
    return x + least.rank, [each.rank for each in items]


def test_as_many_comparisons():
    """An item's ``__lt__`` is called as often as by C, because it may have side effects."""
    Ranked.asked = 0
    wanted, asked = comparisons(X)[1], Ranked.asked
    Ranked.asked = 0
    assert one_graph(comparisons, X)[1] == wanted
    assert Ranked.asked == asked


REJECTED = {
    "a tuple is no heap": lambda: heapq.heappush((1,), 2),
    "a tuple is no heap of one argument": lambda: heapq.heapify((1,)),
    "nothing to pop": lambda: heapq.heappop([]),
    "nothing to replace": lambda: heapq.heapreplace([], 1),
    "nothing to pop from the largest": lambda: heapq._heappop_max([]),
    "nothing to replace the largest": lambda: heapq._heapreplace_max([], 1),
    "items that are not compared": lambda: heapq.heappush([1], "a"),
    "a negative start": lambda: bisect.bisect([1], 2, -1),
    "an end behind the end": lambda: bisect.bisect([1], 2, 0, 5),
    "a fraction as start": lambda: bisect.bisect_left([1, 2], 2, 1.5),
    "no length": lambda: bisect.bisect(3, 2),
    "no insert": lambda: bisect.insort((1,), 2),
}


@pytest.mark.parametrize("rejected", REJECTED)
def test_rejections_are_pythons_own(rejected):
    """The class and the text of the exception are Python's."""
    act = REJECTED[rejected]
    nbcompile.reset()

    def function(x):
        try:
            return x + 1, act()
        except Exception as error:
            return x - 1, type(error), str(error)

    assert nbcompile.compile(function, backend="eager")(X)[1:] == function(X)[1:]


def test_items_of_a_subclass_are_read_as_c_reads_them():
    """C reads the items of a list directly, without methods of its subclass."""

    def function(x):
        heap = Backwards([3, 1, 2])
        heapq.heapify(heap)
        heapq.heappush(heap, 0)
        return x + heapq.heappop(heap), list(iter(heap))

    assert nbcompile.compile(function, backend="eager")(X)[1] == function(X)[1]
