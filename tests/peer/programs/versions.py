"""Code that CPython 3.11, 3.12 and 3.13 compile to different bytecode, above all comprehensions.

In torch: torch/_dynamo/comprehension_graph_break.py. Read next: calls.py
"""

import torch
from torch import ones, zeros

from tests.peer.program import program


def broken(value):
    torch._dynamo.graph_break()
    return value


@program()
def break_in_a_nested_comprehension():
    def f(x, n):
        y = x + 1
        made = [[broken(i + j + n) for j in range(i) if j != 1] for i in range(4) if i]
        return y * 2, made

    return f, [(ones(2), 3), (ones(2), 3)]


@program()
def break_in_a_dict_comprehension():
    def f(x):
        y = x + 1
        made = {i: broken(y * i) for i in range(2)}
        return y * 2, made

    return f, [(ones(2),)]


@program()
def break_in_a_set_comprehension():
    def f(x):
        y = x + 1
        made = {broken(i) for i in range(2)}
        return y * 2, made

    return f, [(ones(2),)]


@program()
def break_in_a_comprehension_as_an_operand():
    def f(x):
        y = x + 1
        z = y * sum([broken(i) for i in range(3)], start=2)
        return z - 1

    return f, [(ones(2),)]


@program()
def break_in_two_comprehensions():
    def f(x):
        first = [broken(x * i) for i in range(2)]
        y = first[1] + 1
        second = [broken(each + y) for each in first]
        return second, y

    return f, [(ones(2),)]


@program()
def break_in_a_comprehension_under_a_mode():
    def f(x):
        with torch.no_grad():
            y = x + 1
            made = [broken(y * i) for i in range(2)]
            z = y * 2
        return z, made

    return f, [(ones(2, requires_grad=True),)]


@program()
def break_in_a_comprehension_in_try():
    def f(x):
        y = x + 1
        try:
            made = [broken(1 // i) for i in range(2)]
        except ZeroDivisionError:
            made = "caught"
        return y * 2, made

    return f, [(ones(2),)]


@program()
def break_in_a_comprehension_in_a_loop():
    def f(x):
        made = []
        for k in range(2):
            x = x + 1
            made.append([broken(i * k) for i in range(2)])
        return x, made

    return f, [(ones(2),)]


@program()
def break_in_a_comprehension_of_shared_names():
    def f(x, k):
        i = 10
        shared = lambda: (i, k)  # noqa: E731
        y = x + 1
        made = [broken(lambda: (i, k)) for i in range(2)]
        k = k + 1
        return y * k, shared(), [each() for each in made]

    return f, [(ones(2), 1)]


@program()
def break_in_a_comprehension_that_binds():
    def f(x):
        y = x + 1
        made = [last := broken(i) for i in range(3)]
        return y + last, made

    return f, [(ones(2),)]


@program()
def break_in_a_comprehension_of_a_callee():
    def callee(x):
        y = x + 1
        return [broken(y * i) for i in range(2)], y - 1

    def f(x):
        y = x * 2
        made, z = callee(y)
        return made, z + 1

    return f, [(ones(2),)]


@program()
def comprehension_reads_its_variable_outside():
    def f(x, i):
        made = [x * i for i in range(3)]
        return made, x + i, [i for i in made][0]

    return f, [(ones(2), 7)]


@program()
def truth_of_broken_comparisons():
    class Odd:
        def __init__(self, answer):
            self.answer = answer

        def __lt__(self, other):
            return broken(self.answer)

    def f(x, odd):
        y = x + 1
        if odd < 3:
            return y * 2
        return y * 3

    return f, [(ones(2), Odd([])), (ones(2), Odd("yes"))]


@program()
def slices_of_everything():
    def f(x, items, a):
        items[a:2] = [5]
        y = x.clone()
        y[a:] = 2
        y[:a] += 1
        return x[a:3] * 2, items[a:], y

    return f, [(zeros(4), [1, 2, 3], 1), (zeros(4), [1, 2, 3], 2), (zeros(5), [1, 2, 3], 2)]


@program()
def assertions_and_boolean_operators():
    def f(x, k):
        assert x.sum() >= 0, "negative"
        y = None if k is None else x
        return y * 2, k and x, k or x, not k

    return f, [(ones(1), "k"), (ones(1), "")]
