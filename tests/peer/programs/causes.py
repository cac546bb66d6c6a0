"""Causes of recompilations, and changes that are no cause: one change between two calls."""

import collections
import dataclasses
import enum
import functools
import types
import typing

import torch
from torch import nn

from tests.peer.program import case, program

ones, arange = torch.ones, torch.arange
X = ones(2)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Settings:
    scale: float = 1.0
    steps: int = 2
    name: str = "a"


class Pair(typing.NamedTuple):
    first: int
    second: int


class Doubled:
    def __init__(self, value):
        self._value = value

    @property
    def value(self):
        return self._value * 2


class Looked:
    """An object whose attributes are items of a dict; a missing one raises a KeyError, not an AttributeError."""

    def __init__(self, **members):
        self.__dict__["members"] = members

    def __getattr__(self, name):
        return self.__dict__["members"][name]


class Base:
    factor = 1

    def go(self, x):
        return x + self.factor


class Derived(Base):
    factor = 2


# -- arguments ---------------------------------------------------------------------------------------------------


@case((X, Level.LOW), (X, Level.HIGH), (X, 1))
def member_of_an_int_enum(x, level):
    return x * int(level)


@case((X, Settings()), (X, Settings(scale=2.0)), (X, Settings(scale=3.0)), (X, Settings(name="b")))
def fields_that_are_read_and_not(x, settings):
    return x * settings.scale


@case((X, Pair(1, 2)), (X, Pair(2, 2)), (X, Pair(2, 2)))
def field_of_a_named_tuple_that_is_not_read(x, pair):
    return x * pair.second


@case((X, Doubled(1)), (X, Doubled(2)), (X, Doubled(3)))
def value_behind_a_property(x, doubled):
    return x + doubled.value


@case((X, Looked(k=1)), (X, Looked(k=1, j=2)))
def attributes_from_a_dict_of_its_own(x, looked):
    return x + looked.k


@case((X, types.SimpleNamespace()), (X, types.SimpleNamespace(b=1)), (X, types.SimpleNamespace(c=1)))
def attribute_that_may_be_missing(x, space):
    return x + 1 if hasattr(space, "b") else x - 1


@case((X, {"a": 1}), (X, {"a": 1, "b": 2}), (X, {"c": 1}))
def key_that_may_be_missing(x, table):
    return x + 1 if "a" in table else x - 1


@case((X, {"a": 1, "b": 2}), (X, {"b": 2, "a": 1}), (X, {"a": 1, "b": 2, "c": 3}))
def keys_in_another_order(x, table):
    for key, value in table.items():
        x = x * len(key) + value
    return x


@case((X, {1: 2.0}), (X, {1: 3.0}), (X, {2: 3.0}))
def keys_that_are_summed(x, table):
    return x * sum(table.keys())


@case((X, [1, 2, 3]), (X, [1, 2, 4]), (X, [7, 8]))
def length_and_no_item(x, items):
    return x + len(items)


@case((X, []), (X, [1]), (X, [1, 2]), (X, ()))
def truth_of_a_list(x, items):
    return x + 1 if items else x - 1


@case((X, frozenset({1})), (X, frozenset({2})))
def item_of_a_frozen_set(x, items):
    return x + 1 if 1 in items else x - 1


@case((X, collections.deque([1, 2])), (X, collections.deque([2, 2])), (X, collections.deque([1])))
def length_of_a_deque(x, items):
    return x + len(items)


@case((X, slice(0, 1)), (X, slice(0, 2)), (X, slice(None)))
def slice_as_an_argument(x, part):
    return x[part] + 1


@case((X, torch.sin), (X, torch.cos), (X, nn.functional.relu))
def operator_as_an_argument(x, act):
    return act(x)


@case((X, nn.ReLU), (X, nn.Tanh))
def class_as_an_argument(x, layer):
    return layer()(x)


@case((X, torch.device("cpu")), (X, "cpu"), (X, torch.device("meta")))
def device_as_an_argument(x, device):
    return torch.zeros(2, device=device).shape[0] + x


@case((X, 1), (X, 1.0), (X, 2), (X, 2.0), (X, 3))
def number_that_is_equal_to_one_of_another_type(x, number):
    return x * number


@case((X, 5), (X, -5), (X, 0), (X, 7))
def sign_of_a_number(x, number):
    return x + number if number > 0 else x - number


@case((X, 5), (X, 6), (X, 7), (X, 8))
def whether_a_number_is_even(x, number):
    return x + 1 if number % 2 == 0 else x - 1


@case((X, 1, "a"), (X, 2, None), (X, X, [1]))
def arguments_that_are_not_read(x, _first, _second):
    return x + 1


@case((X, 1), (X, "a"), (X, [1]))
def argument_that_is_only_returned(x, y):
    return x + 1, y


@case((X, Base()), (X, Derived()), (X, Base()))
def class_of_an_argument(x, thing):
    return thing.go(x)


@case((X, 1, 2), (X, 1, 2, 3), (X,))
def how_many_arguments(x, *more):
    return x + sum(more)


# -- changes between calls -----------------------------------------------------------------------------------------


@program()
def same_tensor_in_two_places():
    t = ones(2)

    def f(x, y):
        return x * 2 + y

    return f, [(t, t), (t, ones(2)), (t, t)]


@program()
def deterministic_algorithms_between_calls():
    def f(x):
        return x * 2

    def deterministic(compiled):
        torch.use_deterministic_algorithms(True)
        try:
            return compiled(ones(2))
        finally:
            torch.use_deterministic_algorithms(False)

    return f, [(ones(2),), deterministic, (ones(2),)]


@program()
def number_of_threads_between_calls():
    def f(x):
        return x * 2

    def another(compiled):
        before = torch.get_num_threads()
        torch.set_num_threads(before + 1)
        try:
            return compiled(ones(2))
        finally:
            torch.set_num_threads(before)

    return f, [(ones(2),), another, (ones(2),)]


@program()
def length_of_a_list_in_a_closure():
    items = [1, 2]

    def f(x):
        return x + len(items)

    def longer(compiled):
        items.append(3)
        return compiled(ones(2))

    return f, [(ones(2),), longer, (ones(2),)]


@program()
def instance_comes_to_hide_its_class():
    thing = Base()

    def f(x):
        return thing.go(x)

    def hide(compiled):
        thing.factor = 7
        return compiled(ones(2))

    def show(compiled):
        del thing.factor
        return compiled(ones(2))

    return f, [(ones(2),), hide, show]


@program()
def keyword_default_changes():
    def helper(x, *, k=1):
        return x + k

    def f(x):
        return helper(x)

    def change(compiled):
        helper.__kwdefaults__ = {"k": 5}
        return compiled(ones(2))

    return f, [(ones(2),), change]


# -- modules ---------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.act, self.sign, self.table = nn.Linear(2, 3), None, True, {"k": 1}
        with torch.no_grad():
            self.layer.weight.fill_(0.5)
            self.layer.bias.fill_(0.1)

    def forward(self, x):
        x = self.layer(x)
        if self.act is not None:
            x = self.act(x)
        return x * self.table["k"] if self.sign else -x


def changing(*changes):
    """A network, and calls that change it before they run it."""

    def after(change, net):
        def call(compiled):
            change(net)
            return compiled(ones(1, 2))

        return call

    net = Net()
    return net, [(ones(1, 2),), *(after(each, net) for each in changes)]


@program()
def module_is_evaluated_and_trained():
    return changing(nn.Module.eval, nn.Module.train)


@program()
def flag_of_a_module():
    return changing(lambda net: setattr(net, "sign", False), lambda net: setattr(net, "sign", True))


@program()
def activation_of_a_module():
    return changing(_acting(torch.relu), _acting(nn.ReLU()))


def _acting(act):
    return lambda net: setattr(net, "act", act)


@program()
def table_of_a_module():
    return changing(*(functools.partial(_into_table, **each) for each in ({"k": 2}, {"j": 5}, {"k": 3})))


def _into_table(net, **items):
    net.table.update(items)


@program()
def parameters_that_need_no_gradient():
    return changing(lambda net: net.requires_grad_(False), lambda net: net.requires_grad_(True))


@program()
def bias_is_taken_away():
    return changing(lambda net: setattr(net.layer, "bias", None))


@program()
def layer_of_another_size():
    def wider(net):
        net.layer = nn.Linear(2, 4)
        net.layer.requires_grad_(True)
        with torch.no_grad():
            net.layer.weight.fill_(0.5)
            net.layer.bias.fill_(0.1)

    return changing(wider)


@program()
def what_a_module_does_not_read():
    return changing(lambda net: setattr(net, "more", 5), lambda net: net.register_buffer("b", ones(1)))
