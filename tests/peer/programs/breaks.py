"""Graph breaks: the end of the graph, the resume function, skipped functions."""

import contextlib
import io
import threading
import warnings

import torch
import torch._dynamo

from tests.peer.program import case, program

ones, arange = torch.ones, torch.arange


def broken(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


def inner1(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x + 2


def inner2(x):
    x = x + 3
    x = inner1(x)
    return x + 4


@torch.compiler.disable
def disabled(x):
    return x * 5


@program()
def explicit_break():
    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    return f, [(ones(2),), (ones(2),)]


@program()
def two_breaks():
    def f(x):
        x = x + 1
        torch._dynamo.graph_break()
        x = x * 2
        torch._dynamo.graph_break()
        return x - 3

    return f, [(ones(2),)]


@program()
def live_values_are_carried():
    def f(x, k):
        xs, d, n = [x, x + 1], {"k": k}, k + 1
        unused = x * 100
        torch._dynamo.graph_break()
        xs.append(x * n)
        return xs, d["k"], n

    return f, [(ones(2), 3)]


@program()
def break_with_operands_on_the_stack():
    def f(x):
        return x + 1, [x * 2, disabled(x + 3), x - 1], {"k": disabled(x)}

    return f, [(ones(2),)]


@program()
def saving_a_tensor():
    def f(x, buffer):
        y = x**2 / 2
        torch.save(y, buffer)
        return y**3 / 6

    return f, [lambda compiled: compiled(ones(2), io.BytesIO()), lambda compiled: compiled(ones(2), io.BytesIO())]


@program()
def printing():
    def f(x):
        x += 1
        print("half way")
        return torch.sin(x)

    return f, [(ones(2),)]


@program()
def printing_a_tensor():
    def f(x):
        y = x + 1
        print("value", y)
        return y * 2

    return f, [(ones(2),)]


@program()
def branch_on_data():
    def f(x):
        y = x.sum()
        if y > 0:
            return x + 1
        return x - 1

    return f, [(ones(2),), (ones(2),), (-ones(2),)]


@program()
def branch_on_data_with_item():
    def f(x):
        y = x.sum()
        if y > 0:
            return x + y.item()
        return x - y.item()

    return f, [(ones(2),), (ones(2) * 2,), (-ones(2),)]


@program()
def branch_on_data_in_the_middle():
    def f(x):
        y = x * 2
        if not y.sum() > 0:
            y = -y
        z = y + 1
        return z * x

    return f, [(ones(2),), (-ones(2),)]


@program()
def data_dependent_and_or():
    def f(x, y):
        if x.sum() > 0 and y.sum() > 0:
            return x + y
        return (x.sum() or y) * 2

    return f, [(ones(2), ones(2)), (ones(2), -ones(2))]


@program()
def data_dependent_while():
    def f(x):
        x = x + 1
        while x.sum() < 10:
            x = x * 2
        return x

    return f, [(ones(2),)]


@program()
def item():
    def f(x):
        y = x * 2
        k = y.sum().item()
        return y + k

    return f, [(ones(2),), (ones(2) * 2,), (ones(2) * 3,)]


@program()
def tolist():
    def f(x):
        y = x * 2
        return y + sum(y.tolist())

    return f, [(ones(2),)]


@program()
def nonzero_and_masks():
    def f(x):
        y = x * 2
        z = y.nonzero()
        return z + 1, y[y > 1] * 3

    return f, [(arange(3.0),)]


@program()
def conversion_to_python_numbers():
    def f(x):
        y = x * 2
        return y * int(y.sum()) + float(y[0]) + bool(y[0] > 0)

    return f, [(ones(2),)]


@program()
def break_in_a_callee():
    def f(x):
        return broken(x * 3) - 1

    return f, [(ones(2),), (ones(2),)]


@program()
def nested_breaks():
    def f(x):
        x = x + 5
        x = inner2(x)
        return x + 6

    return f, [(ones(2),), (ones(2),)]


@program()
def callee_with_locals_around_the_break():
    def f(x):
        kept = [x * 2]
        y = broken(x)
        z = broken(y)
        kept.append(z + y)
        return kept

    return f, [(ones(2),)]


@program()
def break_in_a_loop_skips_the_frame():
    def f(x):
        for _ in range(3):
            x = x + 1
            torch._dynamo.graph_break()
        return x * 2

    return f, [(ones(2),)]


@program()
def break_before_a_loop():
    def f(x):
        x = x + 1
        torch._dynamo.graph_break()
        for i in range(3):
            x = x + i
        return x

    return f, [(ones(2),)]


@program()
def callee_breaks_in_a_loop():
    def f(x):
        for _ in range(3):
            x = broken(x)
        return x - 1

    return f, [(ones(2),)]


@program()
def break_in_a_try():
    def f(x):
        try:
            x = x + 1
            torch._dynamo.graph_break()
            x = x * 2
        except ValueError:
            x = x - 1
        return x

    return f, [(ones(2),)]


@program()
def break_between_tries():
    def f(x):
        try:
            x = x + 1
        finally:
            x = x * 2
        torch._dynamo.graph_break()
        try:
            x = x + 3
        except ValueError:
            x = x - 1
        return x

    return f, [(ones(2),)]


@program()
def break_in_no_grad():
    def f(x):
        with torch.no_grad():
            x = x + 1
            torch._dynamo.graph_break()
            x = x * 2
        return x - 1

    return f, [(ones(2, requires_grad=True),)]


@program()
def break_before_and_after_with():
    def f(x):
        x = x + 1
        torch._dynamo.graph_break()
        with torch.no_grad():
            y = x * 2
        torch._dynamo.graph_break()
        return x - y

    return f, [(ones(2, requires_grad=True),)]


@program()
def break_in_nested_managers():
    def f(x):
        with contextlib.nullcontext(), torch.no_grad():
            x = x + 1
            torch._dynamo.graph_break()
            return x * 2

    return f, [(ones(2, requires_grad=True),)]


@program()
def break_in_own_manager():
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    def f(x):
        with Manager():
            x = x + 1
            torch._dynamo.graph_break()
            x = x * 2
        return x

    return f, [(ones(2),)]


@program()
def lock_as_a_manager():
    lock = threading.Lock()

    def f(x):
        x = x + 1
        with lock:
            x = x * 2
        return x

    return f, [(ones(2),)]


@program()
def disabled_function():
    def f(x):
        y = x + 1
        z = disabled(y)
        return z - 1

    return f, [(ones(2),)]


@program()
def non_recursively_disabled_function():
    @torch.compiler.disable(recursive=False)
    def outer(x):
        return doubled(x + 1)

    def doubled(x):
        return x * 2

    def f(x):
        return outer(x - 1) + 3

    return f, [(ones(2),)]


@program()
def break_in_a_generator():
    def numbers(x):
        yield x + 1
        torch._dynamo.graph_break()
        yield x * 2

    def f(x):
        y = x - 1
        return sum(numbers(y))

    return f, [(ones(2),)]


@program()
def break_in_a_comprehension():
    def f(x):
        y = x + 1
        return [disabled(y) * i for i in range(2)]

    return f, [(ones(2),)]


@program()
def break_in_a_method():
    class Holder:
        def __init__(self):
            self.k = 2

        def run(self, x):
            y = x * self.k
            torch._dynamo.graph_break()
            self.k = 3
            return y * self.k

    return Holder().run, [(ones(2),)]


@program()
def break_in_a_module():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(2, 2)
            self.b = torch.nn.Linear(2, 2)

        def forward(self, x):
            x = self.a(x)
            torch._dynamo.graph_break()
            return self.b(x)

    return Net(), [(ones(2),)]


@program()
def break_with_a_closure():
    count, scale = 0, 3

    def f(x):
        nonlocal count
        count += 1
        y = x * scale
        torch._dynamo.graph_break()
        count += 1
        return y + count

    return f, [(ones(2),), (ones(2),)]


@program()
def break_with_own_cells():
    def f(x):
        total = x + 1

        def add(y):
            nonlocal total
            total = total + y

        add(x)
        torch._dynamo.graph_break()
        add(x * 2)
        return total

    return f, [(ones(2),)]


@program()
def break_with_globals_changed_on_both_sides():
    def f(x):
        STATE["n"] += 1
        y = x * STATE["n"]
        torch._dynamo.graph_break()
        STATE["n"] += 1
        return y * STATE["n"]

    return f, [(ones(2),)]


STATE = {"n": 1}


@program()
def break_with_objects_made_before():
    class Box:
        def __init__(self, value):
            self.value = value

    def f(x):
        box = Box(x + 1)
        pair = (box, [box])
        torch._dynamo.graph_break()
        box.value = box.value * 2
        return pair[1][0].value, pair[0] is box

    return f, [(ones(2),)]


@program()
def break_with_a_view_and_its_base():
    def f(x):
        y = x.view(-1)
        y.add_(1)
        torch._dynamo.graph_break()
        y.mul_(2)
        return x, y

    return f, [(ones(2, 2),)]


@program()
def break_with_keywords_and_stars():
    def f(x, *rest, k=1, **named):
        y = x * k
        torch._dynamo.graph_break()
        return y + len(rest) + named["m"]

    return f, [lambda compiled: compiled(ones(2), 1, 2, k=3, m=4)]


@program()
def break_while_iterating_by_hand():
    def f(xs):
        it = iter(xs)
        first = next(it) + 1
        torch._dynamo.graph_break()
        return first * next(it), list(it)

    return f, [([ones(2), ones(2), ones(2)],)]


@program()
def break_in_a_conditional_expression():
    def f(x):
        return (x + 1 if disabled(x).sum() > 0 else x - 1) * 2

    return f, [(ones(2),), (-ones(2),)]


@program()
def warning_is_issued():
    def f(x):
        y = x + 1
        warnings.warn("careful", stacklevel=1)
        return y * 2

    return f, [(ones(2),)]


@program()
def break_inside_an_exception_handler():
    def f(x):
        try:
            raise ValueError
        except ValueError:
            x = x + 1
            torch._dynamo.graph_break()
        return x * 2

    return f, [(ones(2),)]


@program()
def exception_from_a_broken_callee():
    def failing(x):
        torch._dynamo.graph_break()
        raise ValueError("late")

    def f(x):
        y = x + 1
        failing(y)
        return y

    return f, [(ones(2),)]


@program()
def gradients_across_a_break():
    def f(x):
        y = x * x
        torch._dynamo.graph_break()
        return (y * 3).sum()

    def step(compiled):
        x = arange(2.0).requires_grad_()
        compiled(x).backward()
        return x

    return f, [step]


@program()
def backward_inside():
    def f(x):
        loss = (x * x).sum()
        loss.backward()
        return x.grad * 2

    return f, [(arange(2.0).requires_grad_(),)]


@program()
def input_from_a_previous_iterator():
    def f(it):
        return next(it) + 1

    return f, [lambda compiled: compiled(iter([ones(2), ones(2)]))]


@program(fullgraph=True)
def fullgraph_raises_on_a_break():
    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y

    return f, [(ones(2),)]


@program(fullgraph=True)
def fullgraph_raises_on_a_nested_break():
    def f(x):
        return broken(x) + 1

    return f, [(ones(2),)]


@program(fullgraph=True)
def fullgraph_raises_on_data_dependent_branching():
    def f(x):
        return x + 1 if x.sum() > 0 else x

    return f, [(ones(2),)]


@program(fullgraph=True)
def fullgraph_without_a_break():
    def f(x):
        return torch.relu(x) + 1

    return f, [(ones(2),)]


@program(fullgraph=True)
def fullgraph_captures_item():
    def f(x):
        return x + x.sum().item()

    return f, [(ones(2),)]


@program(fullgraph=True)
def fullgraph_of_no_tensors():
    def f(n):
        return n + 1

    return f, [(3,)]


@program(config={"nested_graph_breaks": True})
def nested_breaks_the_new_way():
    def f(x):
        x = x + 5
        x = inner2(x)
        return x + 6

    return f, [(ones(2),), (ones(2),)]


@program()
def skipped_frame():
    def add_one(x):
        return x + 1

    def f(x):
        y = add_one(x)
        torch._dynamo.skip_frame()
        return add_one(y) * 2

    return f, [(ones(2),)]


@program()
def operators_before_a_try_that_breaks():
    def f(x):
        x = x + 1
        x = x * 2
        try:
            x = x + 3
            torch._dynamo.graph_break()
            x = x * 4
        except ValueError:
            x = x - 1
        return x

    return f, [(ones(2),), (ones(2),)]


@program()
def operators_before_a_manager_that_breaks():
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    def f(x):
        x = x + 1
        x = x * 2
        with Manager():
            x = x + 3
            torch._dynamo.graph_break()
        return x

    return f, [(ones(2),)]


@program()
def operators_before_a_loop_that_breaks():
    def f(x):
        x = x + 1
        x = x * 2
        for _ in range(2):
            x = x + 3
            torch._dynamo.graph_break()
        return x

    return f, [(ones(2),)]


@program()
def step_unsupported():
    def f(x):
        x = x + 1
        x = x * 2
        torch._dynamo.step_unsupported()
        x = x + 3
        return x

    return f, [(ones(2),), (ones(2),)]


@program()
def allowed_in_the_graph():
    @torch._dynamo.allow_in_graph
    def both(x, k=2):
        return x * k, x + k

    def f(x):
        return both(x - 1, k=3)[1] * 2

    return f, [(ones(2),)]


@program()
def disallowed_in_the_graph():
    def function(x):
        return x + 1

    torch._dynamo.disallow_in_graph(torch._dynamo.allow_in_graph(function))

    def f(x):
        y = function(x * 2)
        return y - 1

    return f, [(ones(2),)]


@program(torch_differs="it leaves the constant behind, as a global of the module")
def assumed_constant():
    class Holder:
        def __init__(self):
            self.n = 4

        @torch._dynamo.assume_constant_result
        def size(self):
            return self.n

    holder = Holder()

    def f(x):
        return x * holder.size()

    return f, [(ones(2),), (ones(2),)]


@program()
def errors_on_breaks_in_a_block():
    def f(x):
        x = x + 1
        with torch._dynamo.error_on_graph_break(True):
            x = x * 2
        torch._dynamo.graph_break()
        return x * 2

    return f, [(ones(2),)]


@program()
def break_in_a_block_that_forbids_it():
    def f(x):
        x = x + 1
        with torch._dynamo.error_on_graph_break(True):
            x = x * 2
            torch._dynamo.graph_break()
        return x * 2

    return f, [(ones(2),)]


@program()
def break_in_autocast():
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            torch._dynamo.graph_break()
            y = y @ x
        return y * 2

    return f, [(ones(2, 2),)]


@program(torch_differs="what is left of the list is carried as a tuple, which does not change with it")
def list_changes_under_its_iterator():
    def f(x, xs):
        it = iter(xs)
        y = x + next(it)
        torch._dynamo.graph_break()
        xs.append(9)
        return y + sum(it)

    return f, [(ones(2), [1, 2])]


@program()
def iterators_as_inputs():
    def f(x, it):
        y = x + next(it)
        torch._dynamo.graph_break()
        return y * next(it)

    return f, [
        lambda compiled: compiled(ones(2), iter((1, 2, 3))),
        lambda compiled: compiled(ones(2), iter(range(2, 5))),
    ]


@program()
def break_in_a_while_loop_with_a_counter():
    def f(x):
        n = 0
        while n < 3:
            x = x + n
            torch._dynamo.graph_break()
            n += 1
        return x

    return f, [(ones(2),)]


@program()
def break_while_a_global_iterates():
    def f(x):
        for part in (x, x + 1):
            x = x + disabled(part)
        return x

    return f, [(ones(2),)]


class _Measured:
    def __init__(self, x):
        self.x = x

    @property
    def doubled(self):
        y = self.x + 1
        torch._dynamo.graph_break()
        return y * 2

    def __getitem__(self, index):
        y = self.x - index
        torch._dynamo.graph_break()
        return y * 2


@case((torch.arange(4.0),), config={"nested_graph_breaks": True})
def nested_break_in_a_property_and_in_getitem(x):
    each = _Measured(x)
    return each.doubled + 3 + each[2] * 5


def _without_grad(x):
    with torch.no_grad():
        x = x + 1
        torch._dynamo.graph_break()
        x = x * 2
    return x - 1


@case((torch.arange(4.0),), config={"nested_graph_breaks": True})
def nested_break_under_a_context_of_the_callee(x):
    return _without_grad(x + 1) * 3


@case((torch.arange(4.0),), config={"nested_graph_breaks": True})
def nested_break_under_contexts_of_both(x):
    with torch.enable_grad():
        y = _without_grad(x + 1) * 3
    return y + 1


@case((torch.arange(4.0),), config={"nested_graph_breaks": True})
def nested_break_in_a_try_of_the_callee(x):
    return _trying(x - 2) * 3 + 1


def _trying(x):
    x = x + 1
    x = x * 4
    try:
        torch._dynamo.graph_break()
    except ValueError:
        pass
    return x * 2


@case((torch.arange(4.0),), config={"nested_graph_breaks": True})
def nested_step_in_the_callee(x):
    with torch.no_grad():
        y = _stepping(x - 2) + 1
    return y * 3


def _stepping(x):
    x = x + 1
    x = x * 4
    torch._dynamo.step_unsupported()
    return x * 2


@case((torch.arange(4.0),))
def skip_frame_in_the_callee(x):
    return _skipping(x - 2) + 1


def _skipping(x):
    x = x + 1
    torch._dynamo.skip_frame()
    return x * 2


@case((torch.arange(4.0),), config={"nested_graph_breaks": True})
def nested_skip_frame_in_the_callee(x):
    return _skipping(x - 2) + 1


@case((torch.arange(4.0),), config={"nested_graph_breaks": True})
def nested_look_at_the_locals_of_the_callee(x):
    return _looking(x - 2) + 1


def _looking(x):
    y = x + 1
    return y * len(locals())


@case((torch.arange(3.0),))
def several_breaks_in_one_context(x):
    with torch.no_grad():
        y = x.sin()
        torch._dynamo.graph_break()
        y = (y**3).sum()
        torch._dynamo.graph_break()
        y = y + x
    return y * 2


@case((torch.arange(3.0),))
def several_breaks_in_contexts_of_several_depths(x):
    with torch.enable_grad():
        y = x.sin() + 1
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            torch._dynamo.graph_break()
            y = y * 3
            torch._dynamo.graph_break()
            y = y + x
        torch._dynamo.graph_break()
        y = y - 2
    return y * 2


@case((torch.arange(3.0),))
def breaks_in_a_context_and_an_exception_behind_them(x):
    try:
        with torch.no_grad():
            y = x.sin()
            torch._dynamo.graph_break()
            y = y * 3
            torch._dynamo.graph_break()
            raise ValueError("later")
    except ValueError as error:
        return x + 1, str(error), torch.is_grad_enabled()


@torch._dynamo.disable
def _rejecting(x):
    raise ValueError("rejected")


@case((torch.arange(3.0),))
def a_broken_call_in_a_context_raises_for_the_handler_around_it(x):
    y = x + 1
    try:
        with torch.no_grad():
            y = y.sin()
            _rejecting(y)
    except ValueError as error:
        return y + 1, str(error), torch.is_grad_enabled()
    return y


@case((torch.arange(3.0),))
def a_break_before_a_broken_call_in_a_context(x):
    try:
        with torch.no_grad():
            y = x.sin()
            torch._dynamo.graph_break()
            y = y.cos()
            _rejecting(y)
    except ValueError as error:
        return x + 1, str(error), torch.is_grad_enabled()
    return y


@program()
def a_method_of_a_tensor_waits_for_its_arguments():
    def f(x, mask):
        y = x + 1
        y = y.masked_scatter(mask, torch.sin(y.masked_select(mask))) * 2
        return y.masked_scatter(mask, torch.cos(y.masked_select(mask)))

    mask = torch.tensor([True, False])
    return f, [(ones(2), mask), (ones(2) + 1, mask), (ones(2) + 2, mask)]


@program()
def disabled_module_inside():
    class Block(torch.nn.Module):
        def forward(self, x):
            return x.sin()

    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = torch.compiler.disable(Block())

        def forward(self, x):
            return self.block(x + 1) * 2

    return Holder(), [(ones(3),)]
