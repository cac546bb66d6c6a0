"""Sizes and numbers that change: static, automatically dynamic, dynamic from the start."""

import torch

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


def sizes(*many):
    return [(ones(*each) if isinstance(each, tuple) else ones(each),) for each in many]


@program()
def new_shape_recompiles_once_and_is_dynamic():
    def f(x):
        return x + 1

    return f, sizes((3, 3), (4, 4), (5, 5), (5, 6))


@program()
def dims_become_dynamic_one_by_one():
    def f(x):
        return x + 1

    return f, sizes((3, 3), (4, 3), (4, 5), (7, 9))


@program(dynamic=True)
def dynamic_from_the_start_shares_equal_sizes():
    def f(x):
        return x + 1

    return f, sizes((3, 3), (4, 4), (5, 6), (7, 8))


@program(dynamic=False)
def static_compiles_each_size():
    def f(x):
        return x + 1

    return f, sizes((3, 3), (4, 4), (5, 5))


@program(variants={"static": {"dynamic": False}, "automatic": {}, "dynamic": {"dynamic": True}})
def size_product():
    def f(x):
        return x * x.size()[0]

    return f, sizes(10, 20, 30, 40)


@program()
def rank_is_never_dynamic():
    def f(x):
        return x * 2

    return f, sizes(3, (3, 3), (3, 3, 3), 4, 5)


@program(dynamic=True)
def branches_on_a_dynamic_size():
    def f(x):
        if x.shape[0] == 10:
            return x * 2
        if x.shape[0] <= 30:
            return x * 200
        return x + 1

    return f, sizes(10, 20, 30, 40, 50)


@program()
def zero_and_one_are_special():
    def f(x):
        return x + 1

    return f, sizes(1, 2, 3, 0, 1)


@program()
def zero_and_one_after_dynamic():
    def f(x):
        return x + 1

    return f, sizes(4, 5, 1, 0, 6)


@program()
def integers_become_dynamic():
    def f(x, k):
        return x * k

    return f, [(ones(2), k) for k in (3, 4, 5, 1, 0)]


@program()
def floats_become_dynamic():
    def f(x, k):
        return x * k

    return f, [(ones(2), 0.5 + k) for k in range(4)]


@program(dynamic=False)
def integers_stay_static():
    def f(x, k):
        return x * k

    return f, [(ones(2), k) for k in (3, 4, 5)]


@program(dynamic=True)
def integers_are_dynamic_from_the_start():
    def f(x, k):
        return x * k, x[:k]

    return f, [(ones(9), k) for k in (3, 5, 7)]


@program(config={"specialize_float": True})
def floats_can_be_specialised():
    def f(x, k):
        return x * k

    return f, [(ones(2), 0.5 + k) for k in range(3)]


@program()
def slice_bounds_become_dynamic():
    def f(x, n):
        return x[:n] * 2

    return f, [(ones(9), n) for n in (3, 4, 5)]


@program()
def global_integers_stay_static():
    def f(x):
        return x * STEP

    def rebound(n):
        def call(compiled):
            f.__globals__["STEP"] = n
            return compiled(ones(2))

        return call

    return f, [rebound(1), rebound(2), rebound(3), rebound(1)]


STEP = 1


@program(dynamic=True)
def arithmetic_on_dynamic_sizes():
    def f(x):
        n, m = x.shape
        return x.reshape(n * m), x.view(m, -1), torch.arange(n // 2 + 1), torch.zeros(n + m), x.expand(3, n, m), n * m

    return f, sizes((4, 6), (8, 10))


@program(dynamic=True)
def dynamic_sizes_are_returned():
    def f(x):
        return x + 1, x.shape, x.shape[0] + 1, x.numel()

    return f, sizes((3, 4), (5, 6))


@program()
def two_inputs_of_changing_size():
    def f(x, y):
        return x @ y

    return f, [(ones(2, 3), ones(3, 4)), (ones(2, 5), ones(5, 4)), (ones(2, 7), ones(7, 4))]


@program()
def broadcast_with_dynamic_sizes():
    def f(x, y):
        return x + y

    return f, [(ones(4, 3), ones(3)), (ones(5, 3), ones(3)), (ones(6, 3), ones(1, 3)), (ones(1, 3), ones(3))]


@program(dynamic=True)
def loop_over_a_dynamic_size():
    def f(x):
        total = 0
        for i in range(x.shape[0]):
            total = total + x[i] * i
        return total

    return f, sizes(3, 4, 3)


@program()
def marked_dynamic():
    def f(x):
        return x * x.shape[0]

    def marked(n):
        def call(compiled):
            x = ones(n)
            torch._dynamo.mark_dynamic(x, 0)
            return compiled(x)

        return call

    return f, [marked(4), marked(5), marked(6)]


@program(dynamic=True)
def marked_static():
    def f(x):
        return x * 2

    def marked(n):
        def call(compiled):
            x = ones(n)
            torch._dynamo.mark_static(x, 0)
            return compiled(x)

        return call

    return f, [marked(4), marked(5)]


@program(config={"assume_static_by_default": False})
def not_static_by_default():
    def f(x):
        return x * 2

    return f, sizes(3, 4, 5)


@program(config={"automatic_dynamic_shapes": False})
def automatic_dynamic_switched_off():
    def f(x):
        return x * 2

    return f, sizes(3, 4, 5)


@program(dynamic=True)
def module_with_dynamic_batch():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()), sizes((2, 3), (5, 3), (6, 3))


@program()
def list_of_tensors_of_changing_size():
    def f(xs):
        return [x.sum() * x.shape[0] for x in xs]

    return f, [([ones(2), ones(3)],), ([ones(4), ones(3)],), ([ones(5), ones(6)],)]


@program()
def strides_change():
    def f(x):
        return x + 1

    return f, [(ones(3, 4),), (ones(4, 3).t(),), (ones(6, 8)[::2, ::2],)]


@program(config={"capture_scalar_outputs": True})
def item_is_captured():
    def f(x):
        return x * x.sum().item()

    return f, [(ones(2),), (ones(2) * 3,)]


@program(config={"capture_dynamic_output_shape_ops": True})
def nonzero_is_captured():
    def f(x):
        return x.nonzero() * 2

    return f, [(arange(4.0),), (ones(4),)]


@program()
def input_changes_its_shape_in_place():
    def f(x):
        x.unsqueeze_(0)
        return x + x.shape[1]

    return f, sizes(3, 4, 5)


@program(dynamic=True)
def float_arguments_from_the_start():
    def f(x, k):
        return x * k, k * 2, x + 1 if k > 1 else x - 1

    return f, [(ones(2), k) for k in (0.5, 1.5, 2.5, 0.25)]


@program(dynamic=True)
def numbers_in_containers():
    def f(x, sizes, scale):
        return x[: sizes[0]] * scale["k"] + len(sizes)

    return f, [(ones(9), [n, 2], {"k": n + 1}) for n in (3, 4, 5)]


@program()
def attributes_of_an_object_become_dynamic():
    class Settings:
        def __init__(self, k):
            self.k = k

    def f(x, settings):
        return x * settings.k

    return f, [(ones(2), Settings(k)) for k in (3, 4, 5, 6)]


@program()
def numbers_of_a_module_stay_static():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.k = 3

        def forward(self, x):
            return x * self.k

    net = Net()

    def call(k):
        def run(compiled):
            net.k = k
            return compiled(ones(2))

        return run

    return net, [call(3), call(4), call(5)]


@program(dynamic=True)
def views_as_inputs():
    def f(x):
        return x * 2

    return f, [(ones(6, 4)[1:],), (ones(8, 4)[2:],), (ones(4, 6).t(),)]


@program(dynamic=True)
def equal_sizes_that_part():
    def f(x, y):
        return x + y.sum()

    return f, [(ones(4), ones(4)), (ones(5), ones(5)), (ones(4), ones(5)), (ones(7), ones(3))]


@program(fullgraph=True)
def integers_of_a_tensor_as_a_list():
    def f(x):
        a, b = x.tolist()
        return x + a + b

    return f, [(arange(2),), (arange(2) * 3,)]


@program()
def marked_and_specialised():
    def f(x):
        return x * 2 if x.shape[0] == 5 else x

    def maybe(n):
        def call(compiled):
            x = ones(n)
            torch._dynamo.maybe_mark_dynamic(x, 0)
            return compiled(x)

        return call

    return f, [maybe(5), maybe(6), maybe(7)]


@program()
def marked_between_calls():
    def f(x):
        return x * 2

    def call(n, marks):
        def run(compiled):
            x = ones(n)
            if marks:
                torch._dynamo.mark_dynamic(x, 0, min=2, max=20)
            return compiled(x)

        return run

    return f, [call(4, False), call(4, True), call(5, True), call(5, False)]


@program()
def tensors_of_symbolic_numbers():
    def f(x, n):
        return (
            torch.tensor(n > 2),
            torch.tensor(n),
            torch.tensor(n / 2),
            torch.tensor([n > 3, n < 9]),
            x.new_tensor(n > 2),
        )

    return f, [(ones(3), n) for n in (1, 3, 4)]


@program(torch_differs="torch fails at as_tensor of a symbolic bool")
def tensors_as_of_symbolic_bools():
    def f(x, n):
        return torch.as_tensor(n > 2), torch.asarray([n, n > 3]), torch.as_tensor(n > 1, dtype=torch.float64), x + 1

    return f, [(ones(3), n) for n in (1, 3, 4)]
