"""Python programs: control flow, closures, classes, containers, exceptions, graph breaks, side effects.

    def f(x, n, items, table, thing, flag, s):
        for i in range(n):
            items.append(x * i)
            if x.sum() > 3: break
        ...
        return x, n, items, ...

A program is drawn from ``tables/python.txt`` and is called with several sets of arguments; each time its result, the
arguments afterwards, the globals and the objects are observed. Graphs run in eager mode, without a C++ compiler. Half
of the files hold a batch of small programs, each called once from one compiled function. Programs that raise, break the
graph, or are called again with other arguments are in files of their own.

In torch: nothing. Read next: nbcompile/tools/fuzz/guards.py
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import warnings
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nbcompile.tools.fuzz import batches, grammar, preludes
from nbcompile.tools.fuzz.program import Program, load

PRELUDE = (grammar.TABLES / "python_prelude.txt").read_text(encoding="utf-8")
"""Classes and functions that the programs use."""
GRAMMAR = grammar.Grammar(grammar.read("python.txt"))
START = """\
    y, z, i, j = x, x * 2, 1, n
    out = []
"""
OBJECTS = {
    "other": ("[n]", "other"),
    "named": ('{"n": n}', "named"),
    "mate": ("Thing(2)", "mate"),
    "step": ("counter(n)", "step(0)"),
    "amount": ("Amount(n)", "amount"),
    "child": ("Child(n, 1)", "child.__dict__"),
    "queue": ("collections.deque([n], maxlen=3)", "queue"),
    "groups": ("collections.defaultdict(list)", "groups"),
    "tags": ("{n}", "sorted(tags, key=str)"),
    "numbers": ("iter([4, 5])", "list(numbers)"),
    "slotted": ("Slotted(n)", "slotted"),
    "described": ("Described()", "described"),
    "meta": ("Meta()", "meta"),
}
"""Initial value of each object that statements use, and the expression that is returned for it, if it is used."""
RUN = """
def play(compiled):
    g = compiled(f)
    thing, items, table = Thing(1), [1], {"a": 1}

    def call(*arguments):
        return [tried(g, *arguments), arguments, G, G2, SEEN, REGISTRY, Thing.step, Child.made, Meta.kinds, vars(net)]

"""
CALLS = grammar.Grammar(grammar.read("calls.txt"))
BATCH = 24
BATCHED = 0.5
"""Probability of a batch."""
SMALL = 4
"""Maximum number of statements of a program in a batch."""
BREAKING = 0.02
"""Probability that a program with graph breaks stays in a batch: each splits the frame that calls all of them."""
BREAKS = re.compile(r"\b(class|random|globals|manual_seed|tolist|data_ptr|warn\w*|slow|lazy|equal)\b")
"""Words of statements that break the graph."""
STATE = "G, G2, SEEN, REGISTRY, Thing.step, Child.made, Meta.kinds, vars(net)"


def generate(seed: str, size: int = 14) -> Program:
    """Generate the program of a seed, or its batch."""
    rng = random.Random(seed)
    return batch(seed, rng) if rng.random() < BATCHED else single(seed, rng, size)


def batch(seed: str, rng: random.Random, size: int = BATCH) -> Program:
    """A batch of programs that raise no exception in eager mode, which would end the batch."""
    functions: list[tuple[str, str]] = []
    scope = load(PRELUDE)
    while len(functions) < size:
        text = "\n".join(body(rng, SMALL))
        text = f"def p(x, n, items, table, thing, flag, s):\n{function(text)}"
        call = CALLS.draw(rng, "<CALL>")
        for name, value in (("thing", "Thing(1)"), ("items", "[1]"), ("table", '{"a": 1}')):
            call = re.sub(rf"\b{name}\b", value, call)
        if _runs(text, f"({call})", scope, may_break=rng.random() < BREAKING):
            functions.append((text, f"[({call})]"))
    afterwards = f"    yield [{STATE}]\n"
    used = preludes.used(PRELUDE, " ".join([STATE, "Thing", *(part for pair in functions for part in pair)]))
    return Program("python", seed, batches.module(functions, used, afterwards), size=size)


def _runs(text: str, call: str, scope: dict[str, Any], may_break: bool) -> bool:
    dtype, grad, printed = torch.get_default_dtype(), torch.is_grad_enabled(), io.StringIO()
    counter = _BreakCounter()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
            warnings.simplefilter("ignore")
            exec(text, scope)
            scope["graph_break"] = counter.count
            with counter:
                scope["p"](*eval(call, scope))
    except Exception:  # noqa: BLE001 - another one, then
        return False
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)
    return may_break or not (counter.times or printed.getvalue() or BREAKS.search(text))


class _BreakCounter(TorchDispatchMode):
    """Counter of graph breaks: calls of ``graph_break``, and numbers that Python reads from tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0

    def count(self, *_: object) -> None:
        """Count a call that breaks the graph."""
        self.times += 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.times += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def single(seed: str, rng: random.Random, size: int) -> Program:
    """One program, called with several sets of arguments."""
    calls = [f"    yield call({CALLS.draw(rng, '<CALL>')})" for _ in range(rng.randint(2, 4))]
    return Program("python", seed, source(body(rng, size), calls))


def body(rng: random.Random, size: int) -> list[str]:
    """Statements that Python can parse: up to 3.11, it cannot parse nested quotes of an f-string."""
    while True:
        lines = GRAMMAR.block(rng, rng.randint(3, size))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile("def f():\n    i, y = 1, 2\n" + "\n".join(lines), "<fuzz>", "exec")
        except SyntaxError:
            continue
        return lines


def source(lines: list[str], calls: list[str], prelude: str = PRELUDE) -> str:
    """A module: the function, and the calls."""
    text = "\n".join(lines)
    done = "\n".join(calls)
    rest = f"\n\ndef f(x, n, items, table, thing, flag, s):\n{function(text)}\n{RUN}{done}\n"
    return preludes.used(prelude, rest) + rest


def function(text: str) -> str:
    """The body of a function: the objects that its statements use, the statements, and the ``return``."""
    used = [name for name in OBJECTS if re.search(rf"\b{name}\b", text)]
    start = START + "".join(f"    {name} = {OBJECTS[name][0]}\n" for name in used)
    returned = "x, y, z, n, i, j, items, table, thing, out, s"
    returned = ", ".join([returned, *(OBJECTS[name][1] for name in used)])
    return f"{start}{text}\n    return ({returned})\n"
