"""Changes that cause a recompilation, and changes that do not."""

import torch

from tests.peer.program import program

ones, arange = torch.ones, torch.arange
FACTOR = 2


def helper(x):
    return x + 1


@program()
def dtype_changes():
    def f(x):
        return x + 1

    return f, [(ones(2),), (ones(2).double(),), (ones(2, dtype=torch.int64),), (ones(2),)]


@program()
def requires_grad_changes():
    def f(x):
        return x + 1

    return f, [(ones(2),), (ones(2, requires_grad=True),), (ones(2),)]


@program()
def constants_of_each_type_change():
    def f(x, c):
        return x + 1 if c else x - 1

    return f, [(ones(2), each) for each in (True, False, None, "s", 3, 3, 2.5, (1, 2), (1, 3), torch.float32)]


@program()
def tensor_becomes_none():
    def f(x, y):
        return x if y is None else x + y

    return f, [(ones(2), ones(2)), (ones(2), None), (ones(2), ones(2))]


@program()
def tensor_becomes_a_number():
    def f(x, y):
        return x + y

    return f, [(ones(2), ones(2)), (ones(2), 1)]


@program()
def global_is_rebound():
    def f(x):
        return x * FACTOR

    def rebound(compiled):
        f.__globals__["FACTOR"] = 5
        return compiled(ones(2))

    return f, [(ones(2),), rebound, (ones(2),)]


@program()
def function_is_redefined():
    def f(x):
        return helper(x) * 2

    def redefined(compiled):
        f.__globals__["helper"] = lambda x: x - 1
        return compiled(ones(2))

    return f, [(ones(2),), redefined, (ones(2),)]


@program()
def closure_value_changes():
    k = 2

    def change():
        nonlocal k
        k = 7

    def f(x):
        return x * k

    def changed(compiled):
        change()
        return compiled(ones(2))

    return f, [(ones(2),), changed, (ones(2),)]


@program()
def attribute_value_changes():
    class Holder:
        k = 1

    holder = Holder()
    holder.k = 2

    def f(x):
        return x * holder.k

    def changed(to):
        def call(compiled):
            holder.k = to
            return compiled(ones(2))

        return call

    return f, [(ones(2),), changed(3), changed(4), changed(2)]


@program()
def container_type_changes():
    def f(xs):
        return xs[0] + xs[1]

    return f, [([ones(2), ones(2)],), ((ones(2), ones(2)),), ({0: ones(2), 1: ones(2)},)]


@program()
def dict_keys_change():
    def f(d):
        return sum(d.values())

    return f, [({"a": ones(2)},), ({"b": ones(2)},), ({"a": ones(2), "b": ones(2)},), ({"a": ones(2)},)]


@program()
def list_item_changes():
    def f(x, xs):
        return x * xs[0] + xs[1]

    return f, [(ones(2), [1, 2]), (ones(2), [1, 3]), (ones(2), [1, 4])]


@program()
def default_dtype_changes():
    def f(x):
        return x + torch.ones(2)

    def doubled(compiled):
        torch.set_default_dtype(torch.float64)
        try:
            return compiled(ones(2, dtype=torch.float32))
        finally:
            torch.set_default_dtype(torch.float32)

    return f, [(ones(2),), doubled]


@program()
def autocast_around_the_call():
    def f(x):
        return x @ x

    def under_autocast(compiled):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return compiled(ones(2, 2))

    return f, [(ones(2, 2),), under_autocast]


@program()
def inference_mode_around_the_call():
    def f(x):
        return x * 2

    def under_inference(compiled):
        with torch.inference_mode():
            return compiled(ones(2))

    return f, [(ones(2),), under_inference]


@program()
def parameter_instead_of_tensor():
    def f(x):
        return x * 2

    return f, [(ones(2),), (torch.nn.Parameter(ones(2)),)]


@program(dynamic=False)
def recompile_limit_is_reached():
    def f(x):
        return x + 1

    return f, [(ones(n),) for n in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 5)]


@program()
def two_closures_of_one_code():
    def make(k):
        def inner(x):
            return x * k

        return inner

    twice, thrice = make(2), make(3)

    def f(x, which):
        return (twice if which else thrice)(x)

    return f, [(ones(2), True), (ones(2), False), (ones(2), True)]


@program()
def resume_function_recompiles_alone():
    def f(x, k):
        y = x + 1
        torch._dynamo.graph_break()
        return y * k

    return f, [(ones(2), 2), (ones(2), 3), (ones(2), 4)]


@program()
def integer_reaches_only_the_resume_function():
    def f(x, flag):
        y = x + 1
        torch._dynamo.graph_break()
        if flag:
            return y * 2
        return y

    return f, [(ones(2), True), (ones(2), False)]


@program()
def loop_count_from_item():
    def f(t):
        total = t + 1
        for _ in range(t.sum().item()):
            total = total * 2
        return total

    return f, [(torch.tensor([3]),), (torch.tensor([6]),), (torch.tensor([3]),)]


@program()
def set_argument_changes():
    def f(x, names):
        return x + 1 if "a" in names else x - 1

    return f, [(ones(2), {"a"}), (ones(2), {"b"}), (ones(2), {"a", "b"})]


@program()
def class_attribute_changes():
    class Base:
        k = 2

    class Child(Base):
        pass

    child = Child()

    def f(x):
        return x * child.k

    def changed(compiled):
        Base.k = 5
        return compiled(ones(2))

    return f, [(ones(2),), changed]


@program(torch_differs="2.13 does not guard the methods of a class")
def method_is_replaced():
    class Holder:
        def run(self, x):
            return x + 1

    holder = Holder()

    def f(x):
        return holder.run(x)

    def replaced(compiled):
        Holder.run = lambda self, x: x - 1
        return compiled(ones(2))

    return f, [(ones(2),), replaced]


@program()
def default_argument_changes():
    def inner(x, k=2):
        return x * k

    def f(x):
        return inner(x)

    def changed(compiled):
        inner.__defaults__ = (9,)
        return compiled(ones(2))

    return f, [(ones(2),), changed]
