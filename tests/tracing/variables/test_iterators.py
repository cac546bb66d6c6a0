"""Iterators that are used after the graph or after a break have their class and their remaining items."""

import collections
import itertools
import math
import operator
import types

import pytest
import torch

import nbcompile
from tests.support.answers import check

OrderedDict = collections.OrderedDict
MADE = {
    "reversed list": lambda: reversed([1, 2, 3]),
    "reversed tuple": lambda: reversed((1, 2, 3)),
    "reversed text": lambda: reversed("abc"),
    "reversed range": lambda: reversed(range(3)),
    "reversed dict": lambda: reversed({1: 2, 3: 4}),
    "reversed keys": lambda: reversed({1: 2, 3: 4}.keys()),
    "reversed values": lambda: reversed({1: 2, 3: 4}.values()),
    "reversed items": lambda: reversed({1: 2, 3: 4}.items()),
    "reversed OrderedDict": lambda: reversed(OrderedDict({1: 2, 3: 4})),
    "reversed items of an OrderedDict": lambda: reversed(OrderedDict({1: 2, 3: 4}).items()),
    "reversed deque": lambda: reversed(collections.deque([1, 2])),
    "list": lambda: iter([1, 2, 3]),
    "tuple": lambda: iter((1, 2, 3)),
    "text": lambda: iter("abc"),
    "bytes": lambda: iter(b"abc"),
    "range": lambda: iter(range(4)),
    "dict": lambda: iter({1: 2}),
    "values": lambda: iter({1: 2}.values()),
    "OrderedDict": lambda: iter(OrderedDict({1: 2})),
    "values of an OrderedDict": lambda: iter(OrderedDict({1: 2}).values()),
    "set": lambda: iter({1}),
    "deque": lambda: iter(collections.deque([1, 2])),
    "defaultdict": lambda: iter(collections.defaultdict(list, {1: 2})),
    "mapping proxy": lambda: iter(types.MappingProxyType({1: 2})),
    "product": lambda: itertools.product([1, 2], [3, 4]),
    "product, repeated": lambda: itertools.product([1, 2], repeat=2),
    "combinations": lambda: itertools.combinations([1, 2, 3], 2),
    "combinations, named": lambda: itertools.combinations(iterable=[1, 2, 3], r=2),
    "combinations with replacement": lambda: itertools.combinations_with_replacement([1, 2], 2),
    "permutations": lambda: itertools.permutations([1, 2, 3], 2),
    "permutations of all": lambda: itertools.permutations([1, 2, 3]),
    "zip": lambda: zip([1, 2], [3, 4], strict=True),
    "map": lambda: map(abs, [1, -2]),
    "enumerate": lambda: enumerate([1, 2]),
    "filter": lambda: filter(None, [1, 0]),
    "chain": lambda: itertools.chain([1], [2]),
    "chain of an iterable": lambda: itertools.chain.from_iterable([[1], [2]]),
    "repeat": lambda: itertools.repeat(1, 3),
    "islice": lambda: itertools.islice([1, 2, 3], 1, None),
    "starmap": lambda: itertools.starmap(pow, [(1, 2)]),
    "takewhile": lambda: itertools.takewhile(bool, [1, 0]),
    "dropwhile": lambda: itertools.dropwhile(bool, [1, 0]),
    "compress": lambda: itertools.compress([1, 2], [1, 0]),
    "filterfalse": lambda: itertools.filterfalse(None, [1, 0]),
    "longest zip": lambda: itertools.zip_longest([1, 2, 3], [1]),
    "groups": lambda: itertools.groupby([]),
    "cycle of nothing": lambda: itertools.cycle([]),
    "generator": lambda: (i for i in (1, 2)),
    "accumulate": lambda: itertools.accumulate([1, 2, 3]),
    "pairwise": lambda: itertools.pairwise([1, 2, 3]),
    "calls until": lambda: iter([1, 2, 3].pop, 1),
}


class ByIndex:
    def __getitem__(self, index):
        return [1, 2, 3][index]


ASKED = MADE | {
    "by index": lambda: iter(ByIndex()),
    "a copy of tee": lambda: itertools.tee([1])[0],
    "a group": lambda: next(itertools.groupby([1]))[1],
}


@pytest.mark.parametrize("name", ASKED)
def test_what_an_iterator_has_no_attribute_for(name):
    """Missing attributes are looked up in the class of the iterator, not in its metaclass."""
    nbcompile.reset()  # all programs share one code object
    make = ASKED[name]

    def f(x):
        iterator = make()
        has = [hasattr(iterator, name) for name in ("keys", "items", "send", "close", "__next__", "__len__", "__mro__")]
        try:
            iterator.keys
        except AttributeError as error:
            return x + 1, has, getattr(iterator, "keys", "none"), str(error), type(iterator)

    compiled = nbcompile.compile(f, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2))[1:] == f(torch.ones(2))[1:]


@pytest.mark.parametrize("make", [lambda xs: xs, iter, lambda xs: map(tuple, xs), lambda xs: (each for each in xs)])
def test_an_iterator_of_pairs_fills_an_ordered_dict(make):
    """The iterator has neither ``keys`` nor ``items``, so its pairs are stored, in one graph."""

    nbcompile.reset()

    class Own(OrderedDict):
        pass

    def f(x):
        return list(Own(make([("a", x + 1), ("b", x)])))

    assert nbcompile.compile(f, backend="eager", fullgraph=True)(torch.ones(2)) == f(torch.ones(2))


def program(make, breaks, taken):
    """A function that returns an iterator after it has taken some items."""

    def f(x):
        iterator = make()
        for _ in range(taken):
            next(iterator, None)
        y = x + 1
        if breaks:
            torch._dynamo.graph_break()
        return y, iterator

    return f


@pytest.mark.parametrize("name", MADE)
def test_an_iterator_keeps_its_class(name):
    """A returned iterator has its class and its items, with and without a break, at any position."""
    for breaks, taken in itertools.product((False, True), (0, 1, 30)):
        nbcompile.reset()  # all programs share one code object
        f = program(MADE[name], breaks, taken)
        _, expected = f(torch.ones(2))
        _, found = nbcompile.compile(f, backend="eager")(torch.ones(2))
        assert type(found) is type(expected), (breaks, taken)
        assert list(found) == list(expected), (breaks, taken)


@pytest.mark.parametrize(
    "make", [itertools.product, lambda xs: itertools.combinations(xs, 1), itertools.permutations,
             lambda xs: itertools.combinations_with_replacement(xs, 1)]
)  # fmt: skip
def test_items_are_read_when_the_iterator_is_made(make):
    """Items that are appended to the list after the creation of the iterator have no effect."""

    def f(x):
        xs = [1, 2]
        iterator = make(xs)
        xs.append(9)
        return x + 1, list(iterator)

    assert nbcompile.compile(f, backend="eager", fullgraph=True)(torch.ones(2))[1] == f(torch.ones(2))[1]


@pytest.mark.parametrize("made", [dict, OrderedDict, collections.defaultdict])
@pytest.mark.parametrize("step", [iter, reversed])
def test_a_dict_that_changes_meanwhile(made, step):
    """The iterator raises the RuntimeError of its class, also for views of the dict."""

    def f(x, which):
        d = made(int) if made is collections.defaultdict else made()
        d.update({1: 2, 3: 4})
        iterator = step(d if which is None else getattr(d, which)())
        first = next(iterator)
        d[9] = 9
        try:
            next(iterator)
        except RuntimeError as error:
            return x + 1, first, str(error), type(iterator).__name__, type(d.keys()).__name__

    for which in (None, "keys", "values", "items"):
        nbcompile.reset()
        compiled = nbcompile.compile(f, backend="eager")
        assert compiled(torch.ones(2), which)[1:] == f(torch.ones(2), which)[1:]


def test_a_key_is_moved_while_an_ordered_dict_is_iterated_over():
    """The iterator raises a RuntimeError, although the size of the dict is the same."""

    def f(x):
        d = OrderedDict({1: 2, 3: 4, 5: 6})
        iterator = iter(d)
        next(iterator)
        d.move_to_end(1)
        try:
            next(iterator)
        except RuntimeError as error:
            return x + 1, str(error)

    assert nbcompile.compile(f, backend="eager", fullgraph=True)(torch.ones(2))[1] == f(torch.ones(2))[1]


def test_an_iterator_that_is_only_asked_for_items_is_traced_on_after_a_break():
    """The program cannot read the class of the iterator, so the rest is one more graph without further breaks."""

    def f(xs, x):
        iterator = iter(xs)
        x = x + next(iterator)
        torch._dynamo.graph_break()
        return x * next(iterator), list(iterator)

    view = nbcompile.explain(f)([1, 2, 3], torch.ones(2))
    assert len([broken for frame in view.record.frames for broken in frame.breaks]) == 1
    assert view.result[1] == [3]
    assert torch.equal(view.result[0], f([1, 2, 3], torch.ones(2))[0])


def test_groups_and_ends_are_compared_by_identity_first():
    """NaN does not equal itself, but its identity decides in ``groupby`` and for the sentinel of ``iter``."""

    def f(x, number):
        groups = [(key, len(list(group))) for key, group in itertools.groupby([1, 1, number, number])]
        values = [1, number, 2]
        return x + 1, groups, list(iter(lambda: values.pop(), number))

    given = float("nan")
    _, expected, until = f(torch.ones(2), given)
    _, found, found_until = nbcompile.compile(f, backend="eager", fullgraph=True)(torch.ones(2), given)
    assert repr(found) == repr(expected) == "[(1, 2), (nan, 2)]"
    assert found_until == until == [2]


def test_what_is_compared_first():
    """The sentinel and the key of the group are the left operands of the comparisons."""

    class Asked:
        def __init__(self, name):
            self.name = name

        def __eq__(self, other):
            asked.append((self.name, other.name))
            return self.name == other.name

        __hash__ = None

    asked = []

    def f(x):
        values = [Asked("c"), Asked("b")]
        return (
            x + 1,
            [each.name for each in iter(lambda: values.pop(), Asked("c"))],
            len([list(group) for _, group in itertools.groupby([Asked("a"), Asked("d")])]),
        )

    expected, order = f(torch.ones(2))[1:], [*asked]
    asked.clear()
    assert nbcompile.compile(f, backend="eager")(torch.ones(2))[1:] == expected
    assert asked == order


def answers(iterator, count=2):
    """The items of the next calls of ``next``, or their errors."""
    found = []
    for _ in range(count):
        try:
            found.append(next(iterator, "end"))
        except RuntimeError as error:
            found.append(str(error))
    return found


def values_of_a_dict(x):
    d, seen = {1: 2, 3: x}, []
    for _, value in d.items():
        d[3] = x + 5
        seen.append(value)
    for value in d.values():
        seen.append(value)
    return seen


def values_of_an_ordered_dict(x):
    d = OrderedDict({1: 2, 3: 4})
    iterator, backwards = iter(d.values()), reversed(d.items())
    next(iterator), next(backwards)
    d[1], d[3] = x + 1, x + 2
    return list(iterator), list(backwards)


def another_key_of_a_dict(x):
    d, seen = {1: 2, 3: 4, 5: 6}, []
    for key in d:
        seen.append(key)
        if key == 1:
            d[7] = d.pop(3)
    return x + 1, seen


def another_item_of_a_set(x):
    s, seen = {1, 2, 3}, []
    for item in s:
        seen.append(item)
        if item == 1:
            s.remove(2)
            s.add(8)
    return x + 1, seen


def a_queue(x):
    queue = collections.deque([1, 2, 3])
    iterator, backwards = iter(queue), reversed(queue)
    next(iterator), next(backwards)
    queue[1] = 7
    queue.reverse()
    seen = next(iterator), next(backwards)
    queue.append(4)
    queue.popleft()
    return x + 1, seen, answers(iterator), answers(backwards)


def turned(x):
    one, two = collections.deque([1]), collections.deque([1, 2])
    iterators = iter(one), iter(two), reversed(two)
    one.rotate(), two.rotate(0)
    return x + 1, [answers(iterator) for iterator in iterators]


def at_their_ends(x):
    owners = {1: 2}, {1}, OrderedDict({1: 2}), collections.deque([1])
    iterators = [iter(owner) for owner in owners]
    backwards = reversed(owners[-1])
    taken = [list(iterator) for iterator in (*iterators, backwards)]
    owners[0][3], owners[2][3] = 4, 4
    owners[1].add(3)
    owners[3].append(3)
    return x + 1, taken, [answers(iterator) for iterator in (*iterators, backwards)]


def after_a_rejection(x):
    d, o = {1: 2, 3: 4}, OrderedDict({1: 2, 3: 4})
    iterators = iter(d), iter(o)
    d[5], o[5] = 6, 6
    first = [answers(iterator, 1) for iterator in iterators]
    del d[5], o[5]
    return x + 1, first, [answers(iterator) for iterator in iterators]


@pytest.mark.parametrize(
    "f", [values_of_a_dict, values_of_an_ordered_dict, another_key_of_a_dict, another_item_of_a_set, a_queue, turned,
          at_their_ends, after_a_rejection]
)  # fmt: skip
def test_what_changes_while_it_is_iterated_over(f):
    """Values are read when they are requested; an iterator raises errors as often as Python's."""
    compiled = nbcompile.compile(f, backend="eager")
    assert str(compiled(torch.ones(2))) == str(f(torch.ones(2)))


def reject(item):
    if item == 2:
        raise ValueError("rejected")
    return item


def stop(item):
    raise StopIteration(item)


AFTER_AN_ERROR = {
    "map": lambda: map(reject, [1, 2, 3]),
    "filter": lambda: filter(reject, [1, 2, 3]),
    "starmap": lambda: itertools.starmap(reject, [(1,), (2,), (3,)]),
    "filterfalse": lambda: itertools.filterfalse(reject, [0, 2, 0]),
    "accumulate": lambda: itertools.accumulate([1, 2, 3], lambda _, item: reject(item)),
    "enumerate": lambda: enumerate(map(reject, [1, 2, 3])),
    "chain": lambda: itertools.chain(map(reject, [1, 2, 3]), [9]),
    "zip": lambda: zip(map(reject, [1, 2, 3]), [4, 5, 6]),
    "generator": lambda: (reject(item) for item in [1, 2, 3]),
}


@pytest.mark.parametrize("name", AFTER_AN_ERROR)
@pytest.mark.parametrize("is_returned", [False, True])
def test_an_iterator_goes_on_after_an_error(name, is_returned):
    """An iterator of C takes its next item; a generator is exhausted."""
    make = AFTER_AN_ERROR[name]

    def f(x):
        iterator = make()
        seen = [next(iterator)]
        try:
            next(iterator)
        except ValueError:
            seen.append(x + 1)
        return seen, (iterator if is_returned else list(iterator))

    (seen, left), (expected, others) = nbcompile.compile(f, backend="eager")(torch.ones(2)), f(torch.ones(2))
    assert str(seen) == str(expected)
    assert list(left) == list(others)


def test_a_function_that_stops_the_iterator_of_c_that_calls_it():
    """The function's StopIteration ends the iterator."""

    def f(x):
        iterator = map(stop, [1, 2])
        try:
            next(iterator)
        except StopIteration as error:
            return x + 1, error.value, list(map(stop, [3])), list(zip(filter(stop, [1]), [2], strict=False))

    assert nbcompile.compile(f, backend="eager")(torch.ones(2))[1:] == f(torch.ones(2))[1:]


class NoIterator:
    """A class whose ``__iter__`` returns an int."""

    def __iter__(self):
        return 3


class ItselfNoIterator:
    """A class whose ``__iter__`` returns an object that is not an iterator."""

    def __iter__(self):
        return self


class Rejecting:
    """A class with items that cannot be iterated over, because ``__iter__`` is None."""

    __iter__ = None

    def __getitem__(self, index):
        return index


class NextAlone:
    """An iterator without ``__iter__``."""

    def __init__(self):
        self.left = 2

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


class GivesNextAlone:
    """A class whose iterator has no ``__iter__``."""

    def __iter__(self):
        return NextAlone()


def test_iterables_that_are_ill_formed_are_rejected_at_once():
    """``enumerate``, ``zip`` and ``map`` raise the error at their creation."""
    uses = (
        "type(iter(C()))", "type(enumerate(C()))", "list(enumerate(C()))", "type(zip('a', C()))", "type(map(str, C()))",
        "type(filter(None, C()))", "list(C())", "[*C()]", "1 in C()", "sum(C())", "set(C())", "(lambda *a: a)(*C())",
        "[].extend(C())", "sorted(C())", "list(reversed(C()))", "dict(C())", "list(deque(C()))", "a, b = C()\nreturn a",
    )  # fmt: skip
    for cls in (NoIterator, ItselfNoIterator, Rejecting, GivesNextAlone):
        check(*uses, C=cls, deque=collections.deque)


def counted(end):
    yield from range(end)


@pytest.mark.parametrize("iterator", [
    "iter([3, 1, 2])", "iter((3, 1, 2))", "iter({3: 0, 1: 0, 2: 0})", "iter({3: 1, 4: 2}.values())", "iter({3, 1})",
    "reversed([3, 1, 2])", "reversed({3: 0, 1: 0})", "iter(range(3))", "enumerate([3, 1])", "zip([3, 1], [2, 4])",
    "map(abs, [-3, 1, 2])", "filter(None, [0, 3, 1, 2])", "counted(3)", "(v * 2 for v in [3, 1, 2])", "iter(ITEMS)",
    "itertools.chain([3], [1, 2])", "itertools.islice(itertools.count(), 3)", "iter(deque([3, 1, 2]))", "iter('abc')",
    "itertools.accumulate([3, 1, 2])", "iter(iter([3, 1, 2]).__next__, 2)", "reversed(Numbered())",
])  # fmt: skip
def test_in_advances_an_iterator_up_to_the_item_that_it_finds(iterator):
    """``in`` and ``not in`` compare item by item; what is behind the item that is equal stays in the iterator."""
    check(
        f"1 in {iterator}", f"7 in {iterator}", f"7 not in {iterator}", f"i = {iterator}\nreturn 1 in i, list(i)",
        f"i = {iterator}\nreturn (1, 2) in i, list(i)", f"i = {iterator}\nreturn 9 in i, list(i)",
        f"operator.contains({iterator}, 1)", itertools=itertools, counted=counted, deque=collections.deque, ITEMS=[3, 1, 2],
        Numbered=Numbered, operator=operator,
    )  # fmt: skip


class Numbered:
    """A sequence by length and index."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return index


@pytest.mark.parametrize("iterator", [
    "iter([3, 1])", "iter(ITEMS)", "counted(3)", "[300]", "['a']", "[1, -1]", "(1, 2)", "{1: 2}", "range(3)", "[1.5]",
    "map(abs, [-3])", "deque([1])", "[None]", "[True]", "ITEMS",
])  # fmt: skip
def test_bytes_of_an_iterable_reads_it_item_by_item(iterator):
    """``bytes(items)`` has the error of the first item that is no byte."""
    check(f"bytes({iterator})", counted=counted, deque=collections.deque, ITEMS=[3, 1, 2])


def test_what_a_consumer_calculates_with_is_read_from_outside():
    """``math.prod`` and ``join`` read the items of an iterator over a list from outside."""
    check("math.prod(iter(ITEMS))", "','.join(iter(TEXTS))", "''.join(iter(ITEMS))", "b','.join(iter([b'a']))",
          math=math, ITEMS=[3, 1, 2], TEXTS=["a", "b"])  # fmt: skip


def test_the_length_hint_is_that_of_the_class():
    """An iterator of an OrderedDict has no length hint, that of a dict has one."""
    check("length_hint(iter(OrderedDict(a=1)), 9)", "length_hint(iter({1: 2}), 9)", "length_hint(map(abs, [1]), 9)",
          "length_hint(1, 9)", "length_hint(iter(deque([1])), 9)", "length_hint(x for x in [1])",
          length_hint=operator.length_hint, OrderedDict=collections.OrderedDict, deque=collections.deque)  # fmt: skip


def test_a_finished_iterator_keeps_its_names_and_what_it_shows():
    """A generator at its end has its own names, and ``repeat`` its item."""

    def f(x):
        generator, repeated = counted(2), itertools.repeat(3, 2)
        return x + sum(generator) + sum(repeated), generator, repeated

    result, generator, repeated = nbcompile.compile(f, fullgraph=True)(torch.ones(2))
    assert torch.equal(result, torch.full((2,), 8.0))
    assert (generator.__name__, generator.__qualname__, list(generator)) == ("counted", "counted", [])
    assert repr(repeated) == "repeat(3, 0)"


def test_reversed_rejects_an_iterator_in_the_words_of_python():
    """The error has the name of the class as Python writes it, with the module for those in C."""
    check("reversed(itertools.chain([1]))", "reversed(counted(2))", "reversed(1)", "reversed({1})", "reversed(map(abs, []))",
          itertools=itertools, counted=counted)  # fmt: skip
