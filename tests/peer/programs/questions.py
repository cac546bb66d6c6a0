"""Conditions that libraries check before they compute: versions, flags of the process, names matched by patterns.

In torch: constant_fold_functions of torch/_dynamo/variables/torch.py. Read next: python_library.py
"""

import datetime as dt
import decimal
import pathlib
import re
import sys

import torch
from torch import ones

from tests.peer.program import program

LAYER = re.compile(r"layer\.(\d+)\.(\w+)")
PRICE, NOTHING = decimal.Decimal("1.5"), decimal.Decimal(0)
DAY = dt.date(2020, 1, 1)


@program()
def version_of_python():
    def f(x):
        if sys.version_info >= (3, 8) and sys.version_info.major == 3 and sys.version_info[:1] == (3,):
            return x + 1
        return x - 1

    return f, [(ones(2),)]


@program()
def version_of_torch():
    def f(x):
        return x + 1 if torch.__version__ >= (2, 1) and torch.__version__ > "2.0" else x - 1

    return f, [(ones(2),)]


@program()
def flags_of_torch():
    def f(x):
        questions = (
            torch.distributed.is_available() and torch.distributed.is_initialized(),
            torch.cuda.is_initialized(),
            torch.accelerator.is_available(),
            torch.onnx.is_in_onnx_export(),
            torch.fx._symbolic_trace.is_fx_tracing(),
            torch.backends.cuda.matmul.allow_tf32,
            torch.jit.is_scripting(),
        )
        return x + sum(questions)

    return f, [(ones(2),)]


@program()
def annotations_of_torch_script():
    def f(x):
        parts = torch.jit.annotate(list[torch.Tensor], [])
        parts.append(torch.jit._unwrap_optional(x))
        return torch.cat(parts)

    return f, [(ones(2),)]


@program()
def tracing_state_is_none():
    def f(x):
        return x + 1, torch._C._get_tracing_state() is None

    return f, [(ones(2),)]


@program()
def pattern_of_the_module():
    def f(x, name):
        found = LAYER.match(name)
        if found is None:
            return x, LAYER.pattern
        return x + int(found.group(1)), found[2], found.groups(), LAYER.sub("-", name), bool(found)

    return f, [(ones(2), "layer.3.weight"), (ones(2), "head")]


@program()
def functions_of_re():
    def f(x):
        found = re.search("b+", "abbc")
        words = re.split(r"\s+", "a b  c")
        return (
            x + found.start() + len(re.compile("a|b").findall("aab")),
            words,
            re.escape("a.b"),
            re.sub("a", "b", "aa"),
        )

    return f, [(ones(2),)]


@program()
def pattern_passed_in():
    def f(x, pattern):
        return x + 1 if pattern.fullmatch("ab") else x - 1

    return f, [(ones(2), re.compile("ab")), (ones(2), re.compile("c"))]


@program()
def pure_path():
    def f(x):
        path = pathlib.PurePosixPath("/a") / "b.txt"
        return x + len(path.name), path.suffix

    return f, [(ones(2),)]


@program()
def equality_of_numbers_in_c():
    def f(x):
        return x + 1, PRICE == decimal.Decimal("1.5"), PRICE != 1, PRICE == None  # noqa: E711

    return f, [(ones(2),)]


@program()
def truth_of_numbers_in_c():
    def f(x):
        return x + 1, bool(NOTHING), PRICE and 1, NOTHING or 2, not NOTHING

    return f, [(ones(2),)]


@program()
def branch_on_a_number_in_c():
    def f(x):
        y = x + 1
        return y if NOTHING else y * 2

    return f, [(ones(2),)]


@program()
def equality_of_dates():
    def f(x):
        return x + 1, DAY == dt.date(2020, 1, 1), DAY in [1, dt.date(2020, 1, 1)]

    return f, [(ones(2),)]


@program()
def equality_of_a_text_of_data():
    def f(x):
        y = x + 1
        text = str(y)
        return y * 2, text == "tensor([2., 2.])"

    return f, [(ones(2),)]


@program()
def attributes_that_a_range_lacks():
    def f(x):
        return x + hasattr(range(3), "start") + hasattr(range(3), "nothing")

    return f, [(ones(2),)]
