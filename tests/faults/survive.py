"""Programs that once ended the process, or might: each is a function, run by ``python survive.py name ...``.

They run in a process of their own (test_survive.py), with freed memory overwritten, so that whoever reads it is seen.
"""

import faulthandler
import gc
import sys
import threading
import time
import traceback

import torch

import nbcompile
from nbcompile.dispatch import lifetimes
from nbcompile.torch_internals import eval_frame

X = torch.ones(3)
SECONDS = [3.0]


def reset_inside_a_compiled_function():
    """The code that runs is forgotten while it runs."""

    @nbcompile.compile
    def f(x):
        y = x.sin()
        nbcompile.reset()
        return y + 1

    for _ in range(5):
        torch.testing.assert_close(f(X), X.sin() + 1)


class Key:
    """A key whose comparison does something."""

    def __init__(self, value, act):
        self.value, self.act = value, act

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        self.act()
        return self is other or self.value == getattr(other, "value", other)


def reset_in_a_comparison():
    """Guards compare keys and values: their ``__eq__`` is the user's."""
    on = [False]

    def act():
        if on[0]:
            nbcompile.reset()

    class Number:
        __hash__ = None

        def __eq__(self, other):
            act()
            return True

    table = {Key("k", act): torch.ones(3), "z": 2}

    @nbcompile.compile
    def f(x, table):
        for value in table.values():
            x = x + value
        return x * table["z"]

    @nbcompile.compile
    def g(x, number):
        return x + 1 if number == 3 else x - 1

    for turn in range(12):
        on[0] = turn > 3
        assert torch.equal(f(X, table), (X + 1 + 2) * 2)
        torch.testing.assert_close(g(X, Number()), X + 1)


def reset_where_an_attribute_is_read():
    """Guards read attributes: ``__getattribute__`` and properties are the user's."""

    class Number:
        k = 2

        def __getattribute__(self, name):
            if name == "k":
                nbcompile.reset()
                gc.collect()
            return object.__getattribute__(self, name)

    number = Number()

    @nbcompile.compile
    def f(x):
        return x * number.k

    for _ in range(6):
        torch.testing.assert_close(f(X), X * 2)


def reset_where_an_object_dies():
    """``__del__`` runs wherever the last reference goes, or the garbage collector comes by."""

    class Dies:
        def __del__(self):
            nbcompile.reset()

    @nbcompile.compile
    def f(x, dying):
        return x + 1

    @nbcompile.compile
    def g(x):
        dying = Dies()
        y = x + 1
        del dying
        print(end="")
        return y * 2

    for turn in range(8):
        torch.testing.assert_close(f(X, Dies()), X + 1)
        circle = [Dies()]
        circle.append(circle)
        del circle
        if turn % 3 == 0:
            gc.collect()
        assert torch.equal(g(X), (X + 1) * 2)


def reset_in_hooks():
    """Hooks of a module, of a gradient."""
    module = torch.nn.Linear(3, 3)
    module.register_forward_hook(lambda *_: nbcompile.reset())
    module.register_forward_pre_hook(lambda *_: nbcompile.reset())
    compiled = nbcompile.compile(module)
    y = X.clone().requires_grad_()
    y.register_hook(lambda _: nbcompile.reset())
    f = nbcompile.compile(lambda x: (x * 2).sum())
    for _ in range(4):
        torch.testing.assert_close(compiled(X), torch.nn.functional.linear(X, module.weight, module.bias))
        f(y).backward()
    assert torch.equal(y.grad, torch.full((3,), 8.0))


def reset_in_a_backend():
    """While it compiles, and while its graph runs."""

    def while_compiling(module, inputs):
        nbcompile.reset()
        return module.forward

    def while_running(module, inputs):
        def run(*given):
            nbcompile.reset()
            return module.forward(*given)

        return run

    for backend in (while_compiling, while_running):
        f = nbcompile.compile(lambda x: x.sin() + 1, backend=backend)
        for size in range(2, 7):
            assert torch.equal(f(torch.ones(size)), torch.ones(size).sin() + 1)


def functions_that_die_while_they_run():
    """The function, its code, its wrapper, its entries: all but what runs."""
    namespace = {"torch": torch}

    def kill():
        namespace.pop("f", None)
        gc.collect()

    namespace["kill"] = kill
    for _ in range(3):
        exec("def f(x):\n  y = x.sin()\n  kill()\n  return y + 1\n", namespace)
        box = [nbcompile.compile(namespace["f"])]
        torch.testing.assert_close(box.pop()(X), X.sin() + 1)

    def inside(x):
        y = x + 1
        held.clear()
        gc.collect()
        nbcompile.reset()
        gc.collect()
        return y

    held = [nbcompile.compile(inside)]
    del inside
    torch.testing.assert_close(held[0](X), X + 1)


def code_that_is_replaced_while_it_runs():
    """``__code__`` is another one after the call; then that runs."""

    def other(x):
        return (x.cos() - 1, changed, other)[0]

    def changed(x):
        y = x.sin()
        changed.__code__ = other.__code__
        gc.collect()
        return (y + 1, other)[0]

    compiled = nbcompile.compile(changed)
    torch.testing.assert_close(compiled(X), X.sin() + 1)
    for _ in range(5):
        torch.testing.assert_close(compiled(X), X.cos() - 1)


def recursion_to_the_limit():
    """RecursionError as in eager; afterwards all is well."""

    @nbcompile.compile
    def f(x, n):
        if n == 0:
            return x
        print(end="")
        return f(x + 1, n - 1)

    @nbcompile.compile
    def forever(x):
        print(end="")
        return forever(x)

    def deeper(x):
        return deeper(x + 1)

    torch.testing.assert_close(f(X, 20), X + 20)
    for function in (forever, nbcompile.compile(lambda x: deeper(x))):
        for _ in range(2):
            try:
                function(X)
            except RecursionError:
                continue
            raise AssertionError("there is no end of it")
    torch.testing.assert_close(nbcompile.compile(lambda x: x + 1)(X), X + 1)


def collections_at_every_allocation():
    """The garbage collector comes by at every allocation, and resets each time."""

    class Number:
        k = 2.5

    def reset(phase, info):
        nbcompile.reset()

    @nbcompile.compile
    def f(x, number):
        return x + number.k

    f(X, Number())
    before = gc.get_threshold()
    gc.callbacks.append(reset)
    gc.set_threshold(1)
    try:
        for _ in range(10):
            number = Number()
            number.me = number
            torch.testing.assert_close(f(X, number), X + 2.5)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(reset)


def objects_that_die_while_guards_ask_for_them():
    """A guard's Python drops the function that the next guard recognises by its address."""

    class Box:
        pass

    class Number:
        @property
        def k(self):
            if dropping[0]:
                box.function = lambda x: x * 3
                gc.collect()
            return 2

    box, number, dropping = Box(), Number(), [False]
    for turn in range(4):
        box.function = (lambda by: lambda x: x * 2)(turn)

        @nbcompile.compile
        def f(x):
            return number.k + box.function(x)

        dropping[0] = False
        torch.testing.assert_close(f(X), X * 2 + 2)
        dropping[0] = True
        torch.testing.assert_close(f(X), X * 3 + 2)
        torch.testing.assert_close(f(X), X * 3 + 2)


def many_threads():
    """Threads compile, call, reset and collect, and change places every microsecond."""
    end, errors, calls, turns = time.monotonic() + SECONDS[0], [], [0], 8

    def make(number):
        namespace = {"torch": torch}
        exec(f"def f(x, k):\n  y = x * k + {number}\n  print(end='')\n  return y.sin()\n", namespace)
        return namespace["f"], nbcompile.compile(namespace["f"])

    shared = [make(number) for number in range(3)]

    def work(thread):
        turn = 0
        try:
            while time.monotonic() < end:
                turn += 1
                eager, compiled = shared[turn % 3] if turn % 17 else make(turn % 5)
                x = torch.ones(2 + turn % 4)
                torch.testing.assert_close(compiled(x, 2.0), eager(x, 2.0))
                calls[0] += 1
                if thread == 0:
                    nbcompile.reset()
                elif thread == 1 and turn % 7 == 0:
                    gc.collect()
        except BaseException:  # noqa: BLE001 - told below
            errors.append(traceback.format_exc())

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(turns)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(before)
    assert not errors, errors[0]
    print(calls[0], "calls")


def one_function_called_and_reset():
    """What ended the process, 3 times out of 3: one thread resets while others call."""

    @nbcompile.compile
    def f(x, k):
        return (x * k).sin() + 1

    end, errors = time.monotonic() + SECONDS[0], []

    def call():
        try:
            while time.monotonic() < end:
                for size in range(2, 6):
                    x = torch.ones(size)
                    torch.testing.assert_close(f(x, 2.0), (x * 2.0).sin() + 1)
        except BaseException:  # noqa: BLE001 - told below
            errors.append(traceback.format_exc())

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    resets = 0
    while time.monotonic() < end:
        nbcompile.reset()
        resets += 1
        time.sleep(0.0005)
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
    print(resets, "resets")


PROGRAMS = [
    reset_inside_a_compiled_function,
    reset_in_a_comparison,
    reset_where_an_attribute_is_read,
    reset_where_an_object_dies,
    reset_in_hooks,
    reset_in_a_backend,
    functions_that_die_while_they_run,
    code_that_is_replaced_while_it_runs,
    recursion_to_the_limit,
    collections_at_every_allocation,
    objects_that_die_while_guards_ask_for_them,
    one_function_called_and_reset,
    many_threads,
]


def main(seconds, names):
    """Run them; what is left over afterwards is an error."""
    faulthandler.enable()
    SECONDS[0] = float(seconds)
    for program in PROGRAMS:
        if not names or program.__name__ in names:
            print(program.__name__, flush=True)
            program()
            assert eval_frame.get_eval_frame_callback() is None
    gc.collect()
    assert not lifetimes.pending and not lifetimes._kept and not lifetimes._states
    print("all is well")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
