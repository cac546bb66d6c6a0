"""Binding of arguments to parameters; closures, decorators, caches."""

import functools

import torch

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


@program()
def bad_calls_are_caught():
    def g(a, b=1, *, c=2):
        return a + b + c

    def f(x):
        try:
            return g(x, 1, 2)
        except TypeError as error:
            return x, str(error)

    return f, [(ones(2),)]


@program()
def keyword_given_twice():
    def g(a, b):
        return a + b

    def f(x):
        y = x + 1
        return g(y, **{"a": 1})

    return f, [(ones(2),)]


@program()
def unknown_keyword():
    def g(a):
        return a

    def f(x):
        y = x + 1
        return g(y, other=1)

    return f, [(ones(2),)]


@program()
def positional_only_given_by_name():
    def g(a, /):
        return a

    def f(x):
        y = x + 1
        return g(a=y)

    return f, [(ones(2),)]


@program()
def missing_keyword_only():
    def g(a, *, b, c):
        return a

    def f(x):
        y = x + 1
        return g(y)

    return f, [(ones(2),)]


@program()
def positional_only_name_in_the_keywords():
    def g(a, /, **named):
        return a * len(named) + named["a"]

    def f(x):
        return g(x, a=3, b=4)

    return f, [(ones(2),)]


@program()
def mutable_default():
    def g(x, seen=[]):  # noqa: B006
        seen.append(len(seen))
        return x + len(seen)

    def f(x):
        return g(x) + g(x)

    return f, [(ones(2),), (ones(2),)]


@program()
def default_is_a_tensor():
    def g(x, y=ones(2), *, z=ones(2) * 3):  # noqa: B008
        return x + y * z

    def f(x):
        return g(x)

    return f, [(ones(2),)]


@program(torch_differs="2.13 fails on __defaults__ of a function that the traced code defines")
def default_of_an_inner_function_is_early():
    def f(x):
        n = 2

        def g(y, k=n, *, m=x):
            return y * k + m

        n = 5
        return g(x), g.__defaults__, g.__name__, n

    return f, [(ones(2),)]


@program()
def stars_of_every_kind():
    def g(*args, **named):
        return args, named

    def f(x):
        more = {"k": x}
        return g(), g(1, *[x], *(2, 3), **more, **{"l": 1}), g(*"ab"), g(**dict(z=x)), g(*range(2)), g(*{"a": 1})

    return f, [(ones(2),)]


@program()
def arguments_forwarded():
    def g(a, b, *, scale):
        return a * scale + b

    def through(*args, **named):
        named.setdefault("scale", 2)
        return g(*args, **named)

    def f(x):
        return through(x, 1) + through(x, b=2, scale=3)

    return f, [(ones(2),)]


@program()
def changed_keywords_do_not_leak():
    def g(**named):
        named["x"] = 0
        return named

    def f(x):
        given = {"x": x}
        changed = g(**given)
        return given, changed

    return f, [(ones(2),)]


@program()
def nonlocal_counters():
    def make():
        count = 0

        def step(x):
            nonlocal count
            count += 1
            return x * count

        return step

    step = make()

    def f(x):
        local = make()
        return step(x) + step(x), local(x), local(x)

    return f, [(ones(2),), (ones(2),)]


@program()
def two_closures_share_a_cell():
    def f(x):
        value = x

        def get():
            return value

        def put(new):
            nonlocal value
            value = new

        put(x * 2)
        first = get()
        put(first + 1)
        return first, get(), value

    return f, [(ones(2),)]


@program()
def two_returned_closures_share_a_cell():
    def f(x):
        value = x + 1

        def get():
            return value

        def put(new):
            nonlocal value
            value = new

        return get, put

    def use(compiled):
        get, put = compiled(ones(2))
        before = get()
        put(ones(2) * 7)
        return before, get()

    return f, [use]


@program()
def closure_of_an_argument_is_changed():
    def make():
        state = [0]
        last = None

        def step(x):
            nonlocal last
            state[0] += 1
            last = x * state[0]
            return last

        return step, (lambda: (state, last))

    step, look = make()

    def f(x):
        return step(x) + 1

    return f, [(ones(2),), lambda compiled: (compiled(ones(2)), look())]


@program()
def deleted_local_and_cell():
    def f(x):
        y = x + 1

        def g():
            return y

        z = g()
        del y
        try:
            g()
        except NameError as error:
            return z, str(error)
        return z

    return f, [(ones(2),)]


@program()
def unbound_local_is_caught():
    def f(x, k):
        if k:
            y = x + 1
        try:
            return y
        except UnboundLocalError:
            return x - 1

    return f, [(ones(2), True), (ones(2), False)]


@program()
def decorator_with_arguments():
    def times(k):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(*args, **named):
                return function(*args, **named) * k

            return wrapper

        return decorate

    @times(3)
    def g(x):
        """Documented."""
        return x + 1

    def f(x):
        @times(2)
        def h(y):
            return y - 1

        return g(x), h(x), g.__name__, g.__wrapped__(x), h.__name__, g.__doc__

    return f, [(ones(2),)]


@program()
def decorator_class():
    class Counted:
        def __init__(self, function):
            self.function, self.calls = function, 0

        def __call__(self, *args):
            self.calls += 1
            return self.function(*args)

    @Counted
    def g(x):
        return x * 2

    def f(x):
        return g(x) + g(x), g.calls

    return f, [(ones(2),)]


@program(torch_differs="2.13 traces without the cache, so that the side effect happens twice")
def cached_functions_of_every_kind():
    calls = []

    @functools.lru_cache(maxsize=None)
    def size(n):
        calls.append(n)
        return n * 2

    @functools.cache
    def name(n):
        return f"<{n}>"

    def f(x):
        return x + size(3) + size(3), name(1), len(name(2))

    return f, [(ones(2),)]


@program()
def cached_function_of_a_tensor():
    @functools.lru_cache
    def double(x):
        return x * 2

    def f(x):
        return double(x) + 1

    return f, [(ones(2),)]


@program()
def cached_function_changes_what_it_made():
    class Recipe:
        def __init__(self):
            self.sizes = {}

    @functools.lru_cache(256)
    def prepare(pattern):
        recipe, order = Recipe(), []
        for name in pattern.split():
            recipe.sizes[name] = len(recipe.sizes)
            order.append(name)
        order.sort()
        recipe.order = tuple(order)
        return recipe

    def f(x):
        recipe = prepare("b c a")
        return x + recipe.sizes["c"], recipe.order

    return f, [(ones(2),)]


@program(torch_differs="2.13 traces without the cache, so that the side effect happens twice")
def cached_function_changes_an_older_object_again():
    seen = []

    @functools.cache
    def note(n):
        seen.append(n)
        return n

    def f(x):
        seen.append(0)
        return x + note(1) + note(1), list(seen)

    return f, [(ones(2),)]


@program()
def cached_property_is_computed():
    class Box:
        def __init__(self, x):
            self.x = x

        @functools.cached_property
        def twice(self):
            return self.x * 2

    box = Box(ones(2))

    def f(x):
        return box.twice + x, box.twice * 2

    return f, [(ones(2),), (ones(2),)]


@program()
def single_dispatch():
    @functools.singledispatch
    def kind(value):
        return 1

    @kind.register
    def _(value: int):
        return 2

    def f(x):
        return x * kind(3) + kind("a")

    return f, [(ones(2),)]


@program()
def partial_methods_and_partials_of_partials():
    class Scaler:
        def scale(self, x, k):
            return x * k

        triple = functools.partialmethod(scale, k=3)

    def add(a, b, c=0):
        return a + b + c

    outer = functools.partial(functools.partial(add, 1), c=5)

    def f(x):
        inner = functools.partial(outer, x)
        return Scaler().triple(x), inner(), outer(x, c=1), inner.func is add, inner.keywords, inner.args[0]

    return f, [(ones(2),)]


@program()
def partial_is_returned():
    def add(a, b):
        return a + b

    def f(x):
        return functools.partial(add, x * 2)

    return f, [lambda compiled: compiled(ones(2))(ones(2))]


@program()
def mutual_recursion():
    def even(x, n):
        return x if n == 0 else odd(x + 1, n - 1)

    def odd(x, n):
        return x * 2 if n == 0 else even(x + 2, n - 1)

    def f(x):
        return even(x, 4), odd(x, 3)

    return f, [(ones(2),)]


@program()
def lambdas_in_containers():
    def f(x, name):
        table = {"add": lambda y: y + 1, "mul": lambda y, k=3: y * k}
        return table[name](x), [g(x) for g in table.values()]

    return f, [(ones(2), "add"), (ones(2), "mul")]


@program()
def function_is_compared_and_hashed():
    def g(x):
        return x + 1

    def f(x, h):
        seen = {g: 1}
        return h(x) if h is g else x, h == g, h in seen, callable(h), h.__name__

    return f, [(ones(2), g), (ones(2), abs)]


@program()
def function_with_annotations():
    def f(x: torch.Tensor, k: int = 2) -> torch.Tensor:
        def g(y: "int", *, z: float = 1.0) -> None:
            return y * z

        return g(x) * k, sorted(g.__annotations__)

    return f, [(ones(2),)]


@program()
def class_defined_outside_is_called():
    class Linear:
        def __init__(self, w, *, b=0):
            self.w, self.b = w, b

        def __call__(self, x):
            return x * self.w + self.b

    def f(x):
        return Linear(2, b=1)(x), [layer(x) for layer in (Linear(1), Linear(3))]

    return f, [(ones(2),)]


@program()
def generated_names_of_comprehensions():
    def f(xs, k):
        return (
            [x * k for x in xs],
            {k: x for k, x in enumerate(xs)},
            [[a + b for b in xs] for a in xs],
            k,
            [(lambda: x)() for x in xs],
        )

    return f, [([ones(2), ones(2) * 2], 3)]


@program()
def builtins_as_values():
    def f(xs):
        g = len
        return (
            g(xs),
            [*map(len, [xs, [1]])],
            list(map(str, [1, 2])),
            max(xs, key=lambda x: x.numel()),
            sorted(["bb", "a"], key=len),
            [k(2) for k in (float, str, int)],
        )

    return f, [([ones(2), ones(3)],)]
