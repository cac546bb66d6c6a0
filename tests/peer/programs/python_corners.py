"""Special cases of Python's own types: errors, equality, attributes of frames."""

# ruff: noqa: PLR0124, PLR0133, F632, PYI024, SIM300, RUF100  (programs use what users use)

import collections
import dataclasses
import functools
import inspect
import typing

import torch

from tests.peer.program import case, program

ones, arange = torch.ones, torch.arange


@case(torch_differs="the text of an error")
def deque_that_is_full(x):
    full = collections.deque([1, 2], 2)
    told = []
    for attempt in (
        lambda: full.insert(0, 3),
        lambda: full.remove(9),
    ):
        try:
            attempt()
        except (IndexError, ValueError) as error:
            told.append(str(error))
    return x + len(told), told, full


@case(torch_differs="the text of an error")
def mappings_that_reject(x):
    told = []
    ordered = collections.OrderedDict(a=1, b=2)
    for attempt in (
        lambda: ordered.move_to_end("c"),
        lambda: dict([(1, 2, 3)]),
        lambda: dict([1]),
        lambda: {[]: 1},
        lambda: {(1, [])},
        lambda: hash({}),
    ):
        try:
            attempt()
        except (KeyError, ValueError, TypeError) as error:
            told.append(str(error))
    return x + len(told), told


Pair = collections.namedtuple("Pair", "left right", defaults=[0])


class Both(Pair):
    __slots__ = ()

    def __new__(cls, both):
        return super().__new__(cls, both, both)

    def __add__(self, other):
        return Both(self.left + other.left)


@case()
def named_tuple_with_its_own_new(x):
    both = Both(x) + Both(1)
    told = []
    for attempt in (lambda: setattr(both, "left", 2), lambda: Pair(), lambda: Pair(1)._replace(middle=2)):
        try:
            attempt()
        except (AttributeError, TypeError, ValueError) as error:
            told.append(str(error))
    return both, repr(Both(2)), told


class Key:
    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        return isinstance(other, Key) and self.number == other.number

    def __repr__(self):
        return f"Key({self.number})"


@case()
def objects_with_their_own_hash(x):
    table = {Key(1): x, Key("a"): x + 1, (Key(2), 3): 5}
    table[Key(1)] = x * 3
    members = {Key(1), Key(2), Key(1)}
    members.discard(Key(1))
    return (
        table[Key(1)] + table[Key("a")] + table[Key(2), 3],
        len(table),
        len(members),
        members == {Key(2)},
        Key(9) in table,
        [Key(1), Key(2)].index(Key(2)),
        table.pop(Key("a")),
    )


@program(torch_differs="an equal key is taken for another one")
def keys_with_their_own_hash_as_arguments():
    def f(table, key, x):
        table[key] = x * 2
        return x * len(table), Key(3) in table

    return f, [({Key(1): 1, Key(3): 5}, Key(1), ones(2)), ({}, Key(1), ones(2)), ({Key(2): 4}, Key(1), ones(2))]


@dataclasses.dataclass(frozen=True)
class Setting:
    width: int


@program()
def data_classes_as_keys():
    def f(table, x):
        return x * table[Setting(1)] + len(table), Setting(5) in table

    first = {Setting(1): 2, Setting(5): 3}
    return f, [(first, ones(2)), (dict(first), ones(2)), ({Setting(1): 2, Setting(6): 3}, ones(2))]


@program()
def key_of_a_tuple_of_arguments():
    kept = {}

    def f(n, name, x):
        if (n, name) not in kept:
            kept[n, name] = n * 2
        return x * kept[n, name]

    return f, [(2, "a", ones(2)), (2, "a", ones(2)), (2, "b", ones(2))]


@case()
def value_of_a_generator_that_ends(x):
    def inner():
        received = yield 1
        return received, 2

    def outer():
        return (yield from inner()), "outer"

    told = []
    for make, sent in ((inner, None), (outer, "s")):
        running = make()
        next(running)
        try:
            running.send(sent)
        except StopIteration as stop:
            told.append(stop.value)
        told.append(next(running, "nothing"))
    return x + 1, told


@case()
def value_of_an_iterator_that_ends(x):
    class Ends:
        def __iter__(self):
            return self

        def __next__(self):
            raise StopIteration(7)

    def delegate():
        return (yield from Ends())

    try:
        next(delegate())
    except StopIteration as stop:
        return x + stop.value
    return x


@case()
def more_cells_than_locals(x):
    table = {key: (doubled := key * 2) for key in range(2)}
    found = any((hit := each) > 1 for each in [1, 2, 3])
    return x + doubled, hit, found and table


@case((arange(4.0), 3, "s"), torch_differs="an exception leaves the compiler")
def str_format_field_by_field(x, n, s):
    told = []
    for template in ("{0} {1[0]} {2.shape} {k!r:>4}", "{:>{}} {}", "{1} {0}", "{{}} {} {k}"):
        told.append(template.format(n, [7], x.sum(), k=s) if ".shape" in template else template.format(n, 6, s, k=None))
    for wrong in ("{4}", "{z}"):
        try:
            wrong.format(n, None)
        except (IndexError, KeyError) as error:
            told.append(str(error))
    return x + 1, told


@program()
def slices_of_constants_by_symbols():
    def f(x, n):
        part = slice(n, None)
        return x[n:] + 1, "abcdefgh"[n:], (1, 2, 3, 4)[part][0], part == slice(n, None), b"abcdefgh"[n]

    return f, [(arange(8.0), 2), (arange(8.0), 3), (arange(8.0), 2)]


@case((ones(2), bytearray(b"ab"), b"ab"))
def bytes_and_what_equals_them(x, changeable, fixed):
    return x + 1, changeable == fixed, fixed == changeable


class Guessing:
    @property
    def broken(self):
        return self.nothing

    def __getattr__(self, name):
        if name == "nothing":
            raise AttributeError(name)
        return len(name)


class GuessingModule(torch.nn.Module):
    @property
    def broken(self):
        return self.nothing


@program()
def property_that_raises_attribute_error():
    def f(guess, module, x):
        try:
            module.broken
        except AttributeError as error:
            told = str(error)
        return x * guess.broken, told, getattr(module, "broken", 3), hasattr(guess, "nothing")

    return f, [(Guessing(), GuessingModule(), ones(2))]


@program()
def module_that_answers_for_its_members():
    class Answers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.ReLU()

        def __getattr__(self, name):
            return "mine" if name == "inner" else super().__getattr__(name)

    def f(module, x):
        return x + 1, module.inner, module._modules["inner"](x)

    return f, [(Answers(), ones(2))]


@program()
def arguments_bound_by_a_kept_signature():
    def bound(function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*arguments, **keywords):
            given = signature.bind(*arguments, **keywords)
            given.apply_defaults()
            return function(**given.arguments)

        return call

    @bound
    def scaled(x, factor=2, *, shift=3):
        return x * factor + shift

    def f(x):
        try:
            scaled()
        except TypeError as error:
            told = str(error)
        return scaled(x), scaled(x, shift=1), told

    return f, [(ones(2),)]


@program(torch_differs="the metaclass is passed over")
def metaclass_that_makes_one():
    class Single(type):
        made = {}

        def __call__(cls, *arguments):
            if cls not in Single.made:
                Single.made[cls] = super().__call__(*arguments)
            return Single.made[cls]

    class Only(metaclass=Single):
        def __init__(self, number):
            self.number = number

    def f(x):
        first, second = Only(3), Only(4)
        return x * first.number, first is second

    return f, [(ones(2),)]


@case((ones(2), (1, 2)), (ones(2), (1, 2)), torch_differs="the identity of tuples")
def tuples_that_are_the_same(x, pair):
    return x + 1, pair[:] is pair, tuple(pair) is pair, pair + () is pair, x.shape + (1,)


UserId = typing.NewType("UserId", int)


class Options(typing.TypedDict, total=False):
    width: int


Item = typing.TypeVar("Item")


class Box(typing.Generic[Item]):
    def __init__(self, item: Item):
        self.item = item


@case(torch_differs="what it copied of the class")
def typing_at_run_time(x):
    box = Box[int](3)
    return x + UserId(2) + box.item, Options(width=2), box.__orig_class__


@program()
def state_of_a_module_inside():
    module = torch.nn.Linear(2, 2)

    def f(x):
        state = module.state_dict()
        return module(x), list(state), state["weight"] + 1

    return f, [(ones(2),)]


@case((ones(2), 3), torch_differs="cells are left out")
def locals_of_a_function(x, n):
    def inner(a, b=2):
        return "{a} {b}".format(**locals())

    seen = sorted(locals())
    if n > 2:
        later = n
    return x + later, seen, sorted(vars()), inner(1), dir()


@program()
def builtin_as_a_class_attribute():
    class Layer:
        activation = torch.relu

    def f(layer, x):
        return layer.activation(x - 1)

    return f, [(Layer(), ones(2))]


class Row(tuple):
    __slots__ = ()


@case((ones(3), Row((1, 2))), (ones(3), Row((1, 3))))
def hash_of_a_tuple_of_a_subclass(x, row):
    return x + (hash(row) == hash((1, 2))), {row: 3}, row[:]


@case()
def forms_of_types_are_compared(x):
    same = (list[int] == list[int]) + (typing.Optional[int] == typing.Optional[int])
    return x + same, (int | str) == (str | int), {list[int]: 2}[list[int]]


@case((ones(3), ExceptionGroup("m", [ValueError(1), TypeError(2)])))
def exception_group_is_an_argument(x, error):
    return x + len(error.exceptions), error.message, error.args[0]


@case((ones(3), OSError(2, "no")), (ones(3), OSError(3, "no")))
def exception_is_an_argument(x, error):
    return x + error.errno, error.strerror, error.args, {error: 1}, isinstance(error, OSError)


@case((ones(3), ValueError(ones(3))))
def exception_holds_a_tensor(x, error):
    return x + error.args[0]


@case()
def exception_group_outlives_a_break(x):
    try:
        raise ExceptionGroup("m", [ValueError(3), KeyError(4)])
    except ExceptionGroup as error:
        caught = error
    print("caught")
    return x + len(caught.exceptions), caught.message, caught.exceptions[0].args


@case()
def function_under_a_cache_outlives_a_break(x):
    cached = functools.cache(lambda number: x + number)
    return cached(1) + cached(2)
