"""What many compilations leave in memory: ``python memory.py program cycles``, in a process of its own.

Prints, as JSON, how many objects and how many kilobytes each cycle leaves after a warm-up, and what the objects are.
"""

from __future__ import annotations

import gc
import json
import sys
import warnings
import weakref
from collections import Counter
from pathlib import Path

import torch

import nbcompile

SOURCE = """
def f(x, table):
    y = torch.relu(x * {number} + table["k"])
    print(end="")
    return y.sum(-1) - 1
"""
TABLE = {"k": 2.0}


def written(number: float):
    """A function of its own."""
    namespace = {"torch": torch}
    exec(SOURCE.format(number=number), namespace)
    return namespace["f"]


def compile_and_reset(number):
    """A new function, compiled, called and forgotten."""
    f = nbcompile.compile(written(number % 7), backend=BACKEND[0])
    f(torch.ones(2, 3), TABLE)
    nbcompile.reset()


def run_a_cell_again(number):
    """A cell that defines a function, compiles it and calls it; the function of the run before dies."""
    exec(CELL, NAMESPACE)
    NAMESPACE["g"] = nbcompile.compile(NAMESPACE["f"], backend=BACKEND[0])
    NAMESPACE["y"] = NAMESPACE["g"](torch.ones(2, 3), TABLE)


NAMESPACE: dict[str, object] = {"torch": torch}
CELL = SOURCE.format(number=0.5)
SHARED = nbcompile.compile(written(0.25), backend="eager")
STATIC = nbcompile.compile(written(0.75), backend="eager", dynamic=False)
BACKEND = ["eager"]


def call_with_another_shape(number):
    """One function whose sizes are symbols, and one that is compiled for eight of them and then runs eagerly."""
    for f in (SHARED, STATIC):
        f(torch.ones(2 + number % 97, 2 + number // 97), TABLE)


def train(number):
    """A module that is compiled, trained and dropped."""
    module = torch.nn.Linear(3, 2)
    f = nbcompile.compile(module, backend="aot_eager")
    f(torch.ones(2, 3)).sum().backward()
    nbcompile.reset()


def fail(number):
    """A call that raises, in the graph and after a break, with what it was given."""

    @nbcompile.compile(backend=BACKEND[0])
    def f(x):
        y = x.sin()
        print(end="")
        raise ValueError(y)

    try:
        f(torch.ones(3))
    except ValueError:
        nbcompile.reset()


PROGRAMS = {each.__name__: each for each in (compile_and_reset, run_a_cell_again, call_with_another_shape, train, fail)}


def resident() -> int:
    """Kilobytes of this process that lie in memory."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0])


def living() -> Counter[str]:
    """How many objects there are, by type."""
    gc.collect()
    gc.collect()
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())


def measure(program, cycles: int) -> dict[str, object]:
    """What each cycle leaves."""
    warm = max(10, cycles // 5)
    for number in range(warm):
        program(number)
    before, kilobytes = living(), resident()
    for number in range(warm, warm + cycles):
        program(number)
    after = living()
    more = after - before
    return {
        "objects": (after.total() - before.total()) / cycles,
        "kilobytes": (resident() - kilobytes) / cycles,
        "before": kilobytes,
        "types": more.most_common(12),
    }


def inputs_are_freed() -> None:
    """Inputs, results and closures live no longer than the program holds them: after a call, an exception, a reset."""

    class Own:
        pass

    def call(backend, raises, requires_grad):
        own, x = Own(), torch.ones(3, requires_grad=requires_grad)

        @nbcompile.compile(backend=backend)
        def f(x, own):
            y = (x * 2).sin()
            own.seen = 1
            if raises:
                raise ValueError("no")
            return y + 1

        result = None
        try:
            result = f(x, own)
        except ValueError:
            assert raises
        references = [weakref.ref(each) for each in (own, x, *([] if result is None else [result]))]
        if requires_grad and result is not None:
            result.sum().backward()
        return f, references

    for backend in ("eager", "aot_eager", "inductor"):
        for raises in (False, True):
            for requires_grad in (False, True):
                f, references = call(backend, raises, requires_grad)
                gc.collect()
                left = [each() for each in references if each() is not None]
                assert not left, (backend, raises, requires_grad, left, [gc.get_referrers(one) for one in left][:3])
                function = weakref.ref(f)
                del f
                nbcompile.reset()
                gc.collect()
                assert function() is None, gc.get_referrers(function())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "inputs":
        inputs_are_freed()
        print("{}")
    else:
        if len(sys.argv) > 3:
            BACKEND[0] = sys.argv[3]
        print(json.dumps(measure(PROGRAMS[sys.argv[1]], int(sys.argv[2]))))
