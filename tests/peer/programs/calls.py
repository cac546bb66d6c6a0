"""Inlined functions: all ways of passing arguments, closures, decorators, partial."""

import functools
import operator

import torch

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


def doubled(x):
    return x * 2


def weighted(x, weight=2.0, *, bias=1.0):
    return x * weight + bias


def gathered(first, *rest, **named):
    total = first
    for each in rest:
        total = total + each
    for name, value in named.items():
        total = total * value if name.startswith("times") else total - value
    return total


@program()
def call_is_inlined():
    def f(x):
        return doubled(x) + doubled(x + 1)

    return f, [(ones(3),)]


@program()
def defaults_and_keywords():
    def f(x):
        return weighted(x), weighted(x, 3.0), weighted(x, bias=0.5), weighted(bias=2, x=x, weight=4)

    return f, [(ones(3),)]


@program()
def star_arguments():
    def f(x, y):
        pair = (x, y)
        options = {"times_two": 2, "minus": y}
        return gathered(*pair), gathered(x, *[y, y], **options), gathered(x, times_x=x)

    return f, [(arange(3.0), ones(3))]


@program()
def compiled_function_takes_stars():
    def f(x, *rest, scale=1, **named):
        return sum(rest, x) * scale + named.get("shift", 0)

    return f, [
        (ones(2), ones(2), ones(2)),
        lambda compiled: compiled(ones(2), scale=3, shift=1),
        lambda compiled: compiled(ones(2), ones(2), shift=ones(2)),
    ]


@program()
def compiled_function_has_defaults():
    def f(x, k=2, *, m=3):
        return x * k + m

    return f, [
        (ones(2),),
        (ones(2), 2),
        lambda compiled: compiled(ones(2), m=3),
        lambda compiled: compiled(x=ones(2), k=2),
    ]


@program()
def missing_argument_is_a_type_error():
    def f(x, y):
        return x + y

    return f, [(ones(2),)]


@program()
def missing_argument_inside():
    def f(x):
        y = x + 1
        return weighted(y, 1, 2, 3)

    return f, [(ones(2),)]


@program()
def closure_is_read():
    scale, shift = 3, arange(2.0)

    def f(x):
        return x * scale + shift

    return f, [(ones(2),)]


@program()
def closure_is_written():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * 2

    return f, [(ones(2),), (ones(2),), (ones(2),)]


@program()
def tensor_in_a_cell_is_replaced():
    state = torch.zeros(2)

    def f(x):
        nonlocal state
        state = state + x
        return state * 2

    return f, [(ones(2),), (ones(2),)]


@program()
def inner_function_with_nonlocal():
    def f(x):
        total = x

        def add(y):
            nonlocal total
            total = total + y

        add(x)
        add(1)
        return total

    return f, [(ones(2),)]


@program()
def inner_function_is_returned():
    def f(x):
        y = x + 1

        def later(z):
            return y * z

        return later

    return f, [lambda compiled: compiled(ones(2))(ones(2) * 3)]


@program()
def closures_made_in_a_loop():
    def f(x):
        functions = []
        for i in range(3):
            functions.append(lambda y, i=i: y * i)
        late = [lambda y: y + i for i in range(3)]
        return [function(x) for function in functions], [function(x) for function in late]

    return f, [(ones(2),)]


@program()
def function_as_an_argument():
    def f(x, function):
        return function(x) + 1

    return f, [(ones(2), torch.sin), (ones(2), doubled), (ones(2), torch.cos), (ones(2), torch.sin)]


@program()
def recursion():
    def power(x, n):
        return x if n == 0 else power(x, n - 1) * x

    def f(x):
        return power(x, 3)

    return f, [(ones(2) * 2,)]


@program()
def lambdas():
    def f(x):
        twice = lambda y: y * 2  # noqa: E731
        return (lambda g, y: g(g(y)))(twice, x)

    return f, [(ones(2),)]


@program()
def compiled_lambda():
    return lambda x: x.sin() + 1, [(ones(2),)]


@program()
def partial_application():
    scaled = functools.partial(weighted, weight=5)

    def f(x):
        local = functools.partial(scaled, bias=0)
        return scaled(x) + local(x), functools.partial(torch.add, alpha=2)(x, x)

    return f, [(ones(2),)]


@program()
def decorated_with_wraps():
    def noted(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs) + 1

        return wrapper

    @noted
    def inner(x, k=2):
        return x * k

    @noted
    def f(x):
        return inner(x) + inner(x, k=3)

    return f, [(ones(2),)]


@program()
def decorator_applied_inside():
    def f(x):
        def noted(function):
            @functools.wraps(function)
            def wrapper(y):
                return function(y) * 2

            return wrapper

        @noted
        def inner(y):
            return y + 1

        return inner(x)

    return f, [(ones(2),)]


@program()
def reduce_and_operator_module():
    def f(xs):
        return (
            functools.reduce(operator.add, xs),
            operator.itemgetter(1)(xs),
            operator.mul(xs[0], 3),
            operator.neg(xs[0]),
        )

    return f, [([ones(2), ones(2), arange(2.0)],)]


@program()
def cached_function():
    @functools.lru_cache
    def size(n):
        return n * 2

    def f(x):
        return x + size(3)

    return f, [(ones(2),)]


@program()
def function_attributes():
    def helper(x):
        return x * helper.scale

    helper.scale = 4

    def f(x):
        return helper(x), helper.__name__

    def changed(compiled):
        helper.scale = 5
        return compiled(ones(2))

    return f, [(ones(2),), changed]


@program()
def bound_method_compiled():
    class Scaler:
        def __init__(self, scale):
            self.scale = scale

        def apply(self, x):
            return self.double(x) * self.scale

        def double(self, x):
            return x * 2

    return Scaler(3).apply, [(ones(2),)]


@program()
def methods_kept_in_variables():
    def f(x):
        add, items = x.add, []
        keep = items.append
        keep(add(1))
        keep(add(2))
        return items

    return f, [(ones(2),)]


@program()
def keyword_only_and_positional_only():
    def inner(a, /, b, *, c):
        return a * b + c

    def f(x):
        return inner(x, b=2, c=3)

    return f, [(ones(2),)]


@program()
def generator_consumed_inside():
    def halves(x):
        yield x / 2
        yield x / 4

    def f(x):
        total = 0
        for each in halves(x):
            total = total + each
        return total, sum(halves(x)), list(halves(x)), [*halves(x)]

    return f, [(ones(2),)]


@program(torch_differs="2.13 loses the value that `yield from` returns")
def yield_from_and_send():
    def inner(x):
        yield x
        return x * 10

    def outer(x):
        result = yield from inner(x)
        yield result

    def f(x):
        return list(outer(x))

    return f, [(ones(2),)]
