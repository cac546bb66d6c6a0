"""torch._dynamo.comptime, ``__subclasses__`` of classes, filters of warnings, preserved version counters."""

import warnings

import torch
from torch._dynamo.comptime import comptime
from torch.backends.cuda import SDPAParams

from tests.peer.program import case, program

T = torch.arange(4.0) + 1
Q = torch.ones(1, 2, 4, 8)


@case(oracle="torch.compile")
def comptime_prints_values(x):
    y = x.sin()
    comptime.print(y)
    comptime.print({"a": y, 2: [x, None], "t": (y, "k")})
    return y + 1


@program(oracle="torch.compile")
def comptime_calls_a_function():
    def f(x):
        y = x * 2

        @comptime
        def _(ctx):
            ctx.print(ctx.get_local("y"))
            ctx.print_locals()

        return y + 3

    return f, [(T,)]


@program(oracle="torch.compile")
def comptime_asks_about_values():
    def look(ctx):
        y, k = ctx.get_local("y"), ctx.get_local("k")
        print(y.is_proxy(), y.python_type(), y.size(), y.size(0), y.is_dynamic(), y.is_python_constant())
        print(k.as_python_constant(), k.is_proxy(), len(ctx.graph().nodes))

    def f(x, k):
        y = x * 2
        comptime(look)
        return y + k

    return f, [(T, 3)]


@program(oracle="torch.compile")
def comptime_looks_at_the_caller():
    def g(x):
        z = [x, 1, None]
        comptime.print_locals()
        comptime.print_value_stack(stacklevel=1)
        comptime.print_locals(stacklevel=1)
        comptime.print_bt()
        return x + len(z)

    def f(x, k):
        y = x * k
        return y + g(x)

    return f, [(T, 3)]


@case(oracle="torch.compile")
def comptime_prints_the_stack_and_returns(x):
    y = x * 2
    return y + comptime.print_value_stack_and_return(x + 1)


@case((T,), (torch.ones(6),), dynamic=True)
def comptime_makes_a_size_a_constant(x):
    comptime.force_static(x.shape[0])
    return x + x.shape[0]


@case()
def comptime_breaks_the_graph(x):
    y = x * 2
    comptime.graph_break()
    return y + 3


@program()
def subclasses_of_a_class():
    class Shape:
        sides = 1

    class Square(Shape):
        sides = 4

    def f(x):
        return x * sum(cls.sides for cls in Shape.__subclasses__())

    def with_another(compiled):
        class Triangle(Shape):
            sides = 3

        f.keep += [Triangle]
        return compiled(T)

    f.keep = [Square]
    return f, [(T,), with_another, (T,)]


@case()
def warnings_are_recorded(x):
    with warnings.catch_warnings(record=True) as told:
        y = x.sin()
    return y + 1, len(told)


@case()
def warnings_are_filtered(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x.sin()
    return y + 1


@case()
def warning_inside_of_its_filter(x):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.warn("soon")
        x = x + 1
    return x, [str(each.message) for each in told]


@case()
def operator_warns_inside_of_a_filter(x):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        y = torch.nn.functional.mse_loss(x, x.unsqueeze(0))
    return y, len(told)


@case((T.clone(),))
def version_of_an_input_is_preserved(x):
    with torch.autograd._unsafe_preserve_version_counter(x):
        x.add_(1)
    return x * 2


@program()
def version_of_a_saved_tensor_is_preserved():
    def f(x):
        y = x.sin()
        z = y * 1
        with torch.autograd._unsafe_preserve_version_counter((y, z)):
            z.mul_(2)
        return (z * z).sum()

    def call(compiled):
        leaf = T.clone().requires_grad_()
        loss = compiled(leaf)
        loss.backward()
        return loss, leaf.grad

    return f, [call]


@case()
def break_while_a_version_is_preserved(x):
    y = x.clone()
    with torch.autograd._unsafe_preserve_version_counter(y):
        y.add_(1)
        print("now")
        y.add_(1)
    return y * 2


@program()
def attention_params_are_returned():
    def f(q):
        q = q * 2
        return SDPAParams(q, q, q, None, 0.0, False, False), q

    def call(compiled):
        params, q = compiled(Q)
        return params.query is q, params.dropout, params.attn_mask

    return f, [call]


@case((Q,))
def attention_params_over_a_break(q):
    params = SDPAParams(q * 2, q, q, None, 0.1, True, False)
    print("now")
    return params.query + 1, params.dropout, params.is_causal, params.enable_gqa


@program()
def attention_params_from_outside():
    def f(params, q):
        return params.query + q, params.dropout, params.attn_mask

    return f, [lambda compiled: compiled(SDPAParams(Q, Q, Q, None, 0.1, True, False), Q)]


@program(torch_differs="torch asks the metaclass, which CPython does not about an object of the class itself")
def metaclass_is_not_asked_about_its_own_instances():
    class Duck(type):
        def __instancecheck__(cls, value):
            return hasattr(value, "quack")

    class Bird(metaclass=Duck):
        pass

    class Robot:
        quack = 1

    def f(x):
        bird = Bird()
        return (
            x + 1,
            isinstance(bird, Bird),
            isinstance(bird, (Bird, Robot)),
            isinstance(Robot(), Bird),
            isinstance(x, Bird),
        )

    return f, [(T,)]
