"""Loops, branches, exceptions and context managers on Python values, without a graph break."""

# ruff: noqa: B905, PYI024, PLE0643  (programs use what users use)

import contextlib

import torch

from tests.peer.program import program

ones, arange = torch.ones, torch.arange
FLAG = True


@program()
def for_loop_is_unrolled():
    def f(x):
        for i in range(3):
            x = x * 2 + i
        return x

    return f, [(ones(2),)]


@program()
def while_loop_break_continue_else():
    def f(x):
        i = 0
        while True:
            i += 1
            if i == 2:
                continue
            if i > 4:
                break
            x = x + i
        for _ in ():
            pass
        else:
            x = x - 1
        while i:
            i -= 1
        return x, i

    return f, [(ones(2),)]


@program()
def branch_on_an_argument():
    def f(x, flag):
        if flag:
            return x + 1
        elif x.shape[0] > 2:
            return x - 1
        return x * 2

    return f, [(ones(2), True), (ones(2), False), (ones(3), False), (ones(2), True)]


@program()
def branch_on_a_shape():
    def f(x):
        return x.sum(0) if x.ndim == 2 and x.shape[1] == 3 else x * 2

    return f, [(ones(2, 3),), (ones(3),), (ones(2, 4),)]


@program()
def branch_on_none():
    def f(x, y=None):
        if y is None:
            y = x
        return x + y if y is not None else x

    return f, [(ones(2),), (ones(2), ones(2)), (ones(2), None)]


@program()
def branch_on_a_string():
    def f(x, mode):
        match mode:
            case "add":
                return x + 1
            case "sub" | "minus":
                return x - 1
            case _:
                return x

    return f, [(ones(2), "add"), (ones(2), "minus"), (ones(2), "other")]


@program()
def match_on_structure():
    def f(x, value):
        match value:
            case [a, b]:
                return x * a + b
            case {"k": k, **rest}:
                return x * k + len(rest)
            case int(n) if n > 3:
                return x + n
            case _:
                return x

    return f, [(ones(2), [2, 3]), (ones(2), {"k": 2, "l": 3}), (ones(2), 5), (ones(2), 1)]


@program()
def conditional_expression_and_walrus():
    def f(x):
        if (n := x.shape[0]) > 1:
            return x * n
        return x

    return f, [(ones(3),)]


@program()
def global_flag():
    def f(x):
        return x + 1 if FLAG else x - 1

    return f, [(ones(2),)]


@program()
def exception_raised_and_caught():
    def f(x, k):
        try:
            if k > 1:
                raise ValueError("too big")
            x = x + 1
        except ValueError as error:
            x = x * 2 if "big" in str(error) else x
        except (TypeError, KeyError):
            x = x * 3
        else:
            x = x - 5
        finally:
            x = x + 10
        return x

    return f, [(ones(2), 1), (ones(2), 2)]


@program()
def exception_raised_by_a_callee():
    def check(n):
        if n:
            raise KeyError(n)
        return n

    def f(x):
        try:
            check(3)
        except KeyError as error:
            return x * error.args[0]
        return x

    return f, [(ones(2),)]


@program(torch_differs="2.13 drops the look-up of an attribute that a tensor has not, and so its exception")
def exceptions_of_python_are_caught():
    def f(x, d):
        try:
            d["missing"]
        except KeyError:
            x = x + 1
        try:
            x.no_such_attribute
        except AttributeError:
            x = x + 2
        try:
            [][1]
        except IndexError:
            x = x + 3
        try:
            next(iter([]))
        except StopIteration:
            x = x + 4
        return x

    return f, [(ones(2), {})]


@program()
def exception_leaves_the_function():
    def f(x, k):
        y = x + 1
        if k:
            raise ValueError(f"no {k}")
        return y

    return f, [(ones(2), 0), (ones(2), 3)]


@program()
def own_exception_class():
    class Wrong(Exception):
        def __init__(self, code):
            super().__init__(f"code {code}")
            self.code = code

    def f(x):
        try:
            raise Wrong(3)
        except Wrong as wrong:
            return x + wrong.code

    return f, [(ones(2),)]


@program()
def nested_try_and_reraise():
    def f(x):
        try:
            try:
                raise ValueError("inner")
            except ValueError:
                x = x + 1
                raise
        except ValueError:
            x = x * 2
        return x

    return f, [(ones(2),)]


@program()
def assert_on_python_values():
    def f(x, k):
        assert k > 0, "k must be positive"
        return x * k

    return f, [(ones(2), 1), (ones(2), 0)]


@program()
def assert_on_a_tensor():
    def f(x):
        assert x.sum() > 0, "sum must be positive"
        return x * 2

    return f, [(ones(2),)]


@program()
def no_grad_region():
    def f(x):
        y = x * 2
        with torch.no_grad():
            z = y * 3
        return y, z, torch.is_grad_enabled()

    return f, [(ones(2, requires_grad=True),)]


@program()
def grad_modes_nested():
    def f(x):
        with torch.no_grad():
            a = x + 1
            with torch.enable_grad():
                b = x + 2
            with torch.set_grad_enabled(False):
                c = x + 3
        return a, b, c

    return f, [(ones(2, requires_grad=True),)]


@program()
def grad_mode_set_and_left():
    def f(x):
        torch.set_grad_enabled(False)
        y = x * 2
        torch.set_grad_enabled(True)
        return y, x * 3

    return f, [(ones(2, requires_grad=True),)]


@program()
def no_grad_as_a_decorator():
    @torch.no_grad()
    def inner(x):
        return x * 2

    def f(x):
        return inner(x), x * 3

    return f, [(ones(2, requires_grad=True),)]


@program()
def inference_mode_region():
    def f(x):
        with torch.inference_mode():
            y = x * 2
        return y

    return f, [(ones(2),)]


@program()
def autocast_region():
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
        return y, x @ x

    return f, [(ones(2, 2),)]


@program()
def grad_mode_is_guarded():
    def f(x):
        return x * 2

    def without(compiled):
        with torch.no_grad():
            return compiled(ones(2, requires_grad=True))

    return f, [(ones(2, requires_grad=True),), without, without]


@program()
def null_context():
    def f(x, off):
        with contextlib.nullcontext() if off else torch.no_grad():
            return x * 2

    return f, [(ones(2, requires_grad=True), True), (ones(2, requires_grad=True), False)]


@program()
def own_context_manager_class():
    class Doubling:
        def __init__(self, log):
            self.log = log

        def __enter__(self):
            self.log.append("in")
            return 2

        def __exit__(self, *_):
            self.log.append("out")

    def f(x, log):
        with Doubling(log) as k:
            y = x * k
        return y

    return f, [(ones(2), [])]


@program()
def own_context_manager_function():
    @contextlib.contextmanager
    def scaled(k):
        yield k * 2

    def f(x):
        with scaled(3) as k, scaled(1):
            return x * k

    return f, [(ones(2),)]


@program()
def exception_suppressed_by_a_manager():
    def f(x):
        with contextlib.suppress(ValueError):
            x = x + 1
            raise ValueError
        return x * 2

    return f, [(ones(2),)]


@program(oracle="torch.compile")
def compiling_is_known():
    def f(x):
        if torch.compiler.is_compiling():
            return x + 0
        return x

    return f, [(ones(2),)]


@program()
def data_dependent_choice_with_where():
    def f(x):
        return torch.where(x.sum() > 0, x + 1, x - 1)

    return f, [(ones(2),), (-ones(2),)]


@program()
def cond_operator():
    def f(x):
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))

    return f, [(ones(2),), (-ones(2),)]
