"""Draws of Python's random module in small programs."""

# ruff: noqa  (programs use what users use, and say it in one line)

import random

import torch

from tests.peer.program import case, program

NO_VALUE = "torch draws from the generator as it was while tracing, so that every call draws the same"


def X():
    return torch.arange(3.0) + 1


@program()
def draws_of_the_module():
    random.seed(0)

    def f(x):
        return x * random.randint(1, 9) + random.uniform(1, 2) + random.randrange(7)

    return f, [(X(),), (X(),), (X(),)]


@program()
def draws_by_keyword():
    random.seed(0)

    def f(x):
        return x + random.randint(a=1, b=4) + random.randrange(0, 10, 2) + random.randrange(5)

    return f, [(X(),), (X(),)]


@program()
def generator_made_inside():
    def f(x):
        made = random.Random(3)
        return x + made.random() + made.randint(1, 5), made.uniform(0, 1)

    return f, [(X(),), (X(),)]


@program(torch_differs=NO_VALUE)
def generator_from_outside():
    def f(x, generator):
        return x * generator.random() + generator.uniform(1, 3)

    generator = random.Random(8)
    return f, [(X(), generator), (X(), generator), (X(), generator)]


@program()
def generator_is_seeded():
    def f(x, generator):
        generator.seed(7)
        return x + generator.random()

    generator = random.Random(8)
    return f, [(X(), generator), (X(), generator)]


@program(torch_differs=NO_VALUE)
def state_is_put_back():
    def f(x, generator):
        state = generator.getstate()
        y = x + generator.random()
        generator.setstate(state)
        return y + generator.random()

    generator = random.Random(8)
    return f, [(X(), generator), (X(), generator)]


@program()
def draws_of_other_kinds_break():
    random.seed(0)

    def f(x):
        return x + random.gauss(0, 1) + random.choice([1, 2, 3])

    return f, [(X(),), (X(),)]


@program()
def seed_of_the_module_breaks():
    def f(x):
        y = x.sin()
        random.seed(3)
        return y + random.randint(1, 100)

    return f, [(X(),), (X(),)]


@program()
def random_of_the_module_breaks():
    random.seed(0)

    def f(x):
        return x.sin() + random.random()

    return f, [(X(),), (X(),)]


@program()
def draws_around_a_break():
    random.seed(0)

    def f(x):
        y = x + random.randint(1, 100)
        print(end="")
        return y + random.randint(1, 100)

    return f, [(X(),), (X(),)]


@program()
def drawn_number_decides():
    random.seed(0)

    def f(x):
        v = random.randint(0, 3)
        if v > 1:
            return x + v
        return x - v

    return f, [(X(),), (X(),), (X(),), (X(),)]


@program()
def drawn_number_is_a_size():
    random.seed(0)

    def f(x):
        return x.new_zeros(random.randint(1, 4)) + x.sum()

    return f, [(X(),), (X(),), (X(),)]


@program()
def drawn_number_is_formatted():
    random.seed(0)

    def f(x):
        n = random.randint(1, 9)
        y = x * n
        return f"{n}", y

    return f, [(X(),), (X(),)]


@program()
def drawn_numbers_are_returned():
    random.seed(0)

    def f(x):
        n = random.randint(1, 9)
        return [n, random.uniform(0, 1)], {"n": n}, x.sin()

    return f, [(X(),), (X(),)]


@program()
def drawn_number_is_not_used():
    random.seed(0)

    def f(x):
        random.randint(1, 9)
        return x.sin() + random.randint(1, 9)

    return f, [(X(),), (X(),)]


@program()
def draw_with_arguments():
    random.seed(0)

    def f(x, low, high):
        return x + random.uniform(low, high)

    return f, [(X(), 1.0, 2.0), (X(), 1.0, 2.0)]


@program(torch_differs=NO_VALUE)
def parts_of_a_state():
    def f(x, generator):
        state = generator.getstate()
        version, words, kept = state
        return x + version, words[-1], words[0] % 1000, len(state), len(words), words[:2], kept, [*state][0]

    return f, [(X(), random.Random(3)), (X(), random.Random(4)), (X(), random.Random(4))]


@program(torch_differs=NO_VALUE)
def a_word_of_a_state_is_computed_with():
    def f(x, generator):
        return x * generator.getstate()[1][0], generator.random()

    return f, [(X(), random.Random(3)), (X(), random.Random(4))]
