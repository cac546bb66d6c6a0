"""Python's standard library in models: it is traced like any other Python code."""

import copy
import inspect
import os
import typing

import torch

from tests.peer.program import program

ones = torch.ones


class Settings:
    def __init__(self):
        self.width = 2
        self.layers = ["full", "sliding"]
        self.nested = {"rope": (1, 2.0)}
        self.pruned = {"a", "b"}


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor


class Chunked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def part(self, x, *, scale=2.0):
        return self.linear(x) * scale

    def forward(self, x):
        parameters = inspect.signature(self.part).parameters
        if "scale" in parameters and parameters["scale"].default is not inspect.Parameter.empty:
            return self.part(x) / len(parameters)
        return x


@program(torch_differs="torch looks at os.environ once, and does not guard what it read")
def the_environment_decides():
    def f(x):
        if os.environ.get("NBCOMPILE_TEST_SWITCH", "0") == "1":
            return x + 1
        return x * len(os.getenv("NBCOMPILE_TEST_NAME", "four"))

    def switch(compiled):
        os.environ["NBCOMPILE_TEST_SWITCH"] = "1"
        try:
            return compiled(ones(2))
        finally:
            del os.environ["NBCOMPILE_TEST_SWITCH"]

    return f, [(ones(2),), switch, (ones(2),)]


@program()
def a_copied_object_is_changed():
    settings = Settings()

    def f(x):
        mine = copy.deepcopy(settings)
        mine.width = 5
        mine.layers.append("full")
        mine.pruned.add("c")
        shallow = copy.copy(settings)
        shallow.width = 7
        return (
            x * mine.width * shallow.width + len(mine.layers) + len(settings.layers) + settings.width + len(mine.pruned)
        )

    return f, [(ones(2),)]


@program()
def a_copied_object_goes_out():
    def f(x):
        mine = Settings()
        mine.me = mine
        mine.hidden = mine.nested
        twin = copy.deepcopy(mine)
        twin.width = 3
        return x + 1, twin.me is twin, twin.hidden is twin.nested, twin.width, mine.width

    return f, [(ones(2),)]


@program()
def a_copied_object_with_slots():
    def f(x):
        mine = Slotted(3)
        twin = copy.copy(mine)
        twin.factor += 1
        return x * mine.factor * twin.factor

    return f, [(ones(2),)]


@program()
def identities_as_keys():
    def f(x, y):
        settings = Settings()
        seen = {id(x): "x", id(settings): "s"}
        same = id(x) == id(x) and id(x) != id(y)
        return x + y if same and seen[id(settings)] == "s" and id(y) not in seen else x

    return f, [(ones(2), ones(2))]


@program()
def a_signature_is_asked():
    torch.manual_seed(0)
    return Chunked(), [(ones(2, 2),)]


@program()
def annotations_are_evaluated():
    def f(x):
        def flatten(nested: list[typing.Any], into: typing.Optional[dict[str, int]] = None) -> tuple[int, ...]:
            return tuple(nested)

        pairs: list[int] = []
        pairs.extend(flatten([1, 2]))
        return x + sum(pairs)

    return f, [(ones(2),)]


@program()
def paths_are_text():
    def f(x, folder):
        name = os.path.join(folder, "weights.bin")
        return x + len(os.path.basename(name)) + len(os.path.splitext(name)[1])

    return f, [(ones(2), "data")]


@torch.jit.script_if_tracing
def scripted_while_tracing(x):
    return x.sin() + 1


@program()
def function_that_is_scripted_while_torch_jit_traces():
    def f(x):
        return scripted_while_tracing(x) + 1

    return f, [(ones(3),)]


@torch.jit.script
def scripted(x):
    return x.cos() * 2


@program()
def scripted_function():
    def f(x):
        return scripted(x) + 1

    return f, [(ones(3),)]


def tripled(x):
    return x * 3


recorded = torch.jit.trace(tripled, torch.ones(3))


@program()
def function_recorded_by_torch_jit():
    def f(x):
        return recorded(x) + 1

    return f, [(ones(3),)]
