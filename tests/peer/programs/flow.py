"""Exceptions, context managers, generators, iterators, matching, unpacking and text in all forms."""

# ruff: noqa: B905, PLE0643, TRY, C416  (programs use what users use)

import contextlib
import itertools

import torch

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


@program()
def finally_runs_on_every_way_out():
    def inner(x, how):
        log = []
        for i in range(3):
            try:
                if how == "break" and i:
                    break
                if how == "continue":
                    continue
                if how == "return":
                    return x * 2, log
                if how == "raise":
                    raise KeyError("k")
                x = x + 1
            except KeyError:
                log.append("caught")
            else:
                log.append("else")
            finally:
                log.append(i)
        return x, log

    def f(x):
        return [inner(x, how) for how in ("break", "continue", "return", "raise", "none")]

    return f, [(ones(2),)]


@program()
def return_in_finally():
    def inner(x):
        try:
            raise ValueError("lost")
        finally:
            return x + 1  # noqa: B012

    def f(x):
        return inner(x) * 2

    return f, [(ones(2),)]


@program()
def exception_of_a_tuple_or_a_base():
    def f(x):
        for error in (KeyError("a"), IndexError("b"), ValueError("c")):
            try:
                raise error
            except (KeyError, AttributeError):
                x = x + 1
            except LookupError as caught:
                x = x * len(caught.args)
            except Exception:
                x = x - 3
        return x

    return f, [(ones(2),)]


@program()
def exception_with_a_cause():
    def f(x):
        try:
            try:
                raise KeyError("inner")
            except KeyError as error:
                raise ValueError("outer") from error
        except ValueError as error:
            return x + 1, str(error), type(error.__cause__) is KeyError, error.args

    return f, [(ones(2),)]


@program()
def exception_context_is_kept():
    def f(x):
        try:
            try:
                raise KeyError("inner")
            except KeyError:
                raise ValueError("outer")  # noqa: B904
        except ValueError as error:
            return x + 1, type(error.__context__).__name__

    return f, [(ones(2),)]


@program()
def exception_name_is_deleted():
    def f(x):
        error = 1
        try:
            raise ValueError
        except ValueError as error:  # noqa: F841
            x = x + 1
        try:
            return x, error
        except UnboundLocalError:
            return x

    return f, [(ones(2),)]


@program()
def exception_leaves_two_frames():
    def deep(n):
        if n == 0:
            raise RuntimeError("bottom")
        return deep(n - 1)

    def f(x):
        try:
            deep(3)
        except RuntimeError as error:
            x = x * 2
            text = str(error)
        return x, text, repr(ValueError("a", 1))

    return f, [(ones(2),)]


@program()
def exception_object_is_returned():
    def f(x):
        try:
            raise ValueError("kept", 3)
        except ValueError as error:
            kept = error
        return x + 1, kept.args

    return f, [(ones(2),)]


@program()
def exceptions_of_operations_are_caught():
    def f(x):
        count = 0
        attempts = (
            lambda: {}["k"], lambda: [1][5], lambda: 1 // 0, lambda: int("a"), lambda: None.missing, lambda: "a" + 1, lambda: undefined,  # noqa: F821
            lambda: [1].index(2), lambda: {1}.remove(3), lambda: next(iter(())), lambda: (1, 2)[3], lambda: [].pop(), lambda: {}.popitem(),
            lambda: len(3), lambda: [*zip([1], [1, 2], strict=True)], lambda: "abc".index("z"),
        )  # fmt: skip
        for attempt in attempts:
            try:
                attempt()
            except (LookupError, ArithmeticError, ValueError, AttributeError, TypeError, NameError, StopIteration):
                count += 1
        return x + count

    return f, [(ones(2),)]


@program()
def unpacking_errors_are_caught():
    def f(x):
        seen = []
        for values in ((1,), (1, 2, 3)):
            try:
                a, b = values
            except ValueError as error:
                seen.append(str(error))
        try:
            a, *b, c = (1,)
        except ValueError as error:
            seen.append(str(error))
        return x + len(seen), seen

    return f, [(ones(2),)]


@program()
def managers_in_every_shape():
    class Manager:
        def __init__(self, log, name, swallow=False):
            self.log, self.name, self.swallow = log, name, swallow

        def __enter__(self):
            self.log.append(self.name)
            return self

        def __exit__(self, kind, error, trace):
            self.log.append((self.name, kind.__name__ if kind else None))
            return self.swallow

    def f(x):
        log = []
        with Manager(log, "a") as a, Manager(log, "b"):
            x = x + len(a.name)
        with Manager(log, "c", swallow=True):
            x = x * 2
            raise ValueError("swallowed")
        try:
            with Manager(log, "d"):
                raise KeyError("passed on")
        except KeyError:
            x = x - 1
        for _ in range(2):
            with Manager(log, "e"):
                continue
        return x, log

    return f, [(ones(2),)]


@program()
def return_from_within_a_manager():
    class Manager:
        def __init__(self, log):
            self.log = log

        def __enter__(self):
            self.log.append("in")

        def __exit__(self, *_):
            self.log.append("out")

    def f(x, log):
        with Manager(log), torch.no_grad():
            return x * 2

    return f, [(ones(2, requires_grad=True), [])]


@program()
def manager_functions_in_every_shape():
    @contextlib.contextmanager
    def noting(log, name):
        log.append(name)
        try:
            yield len(log)
        except ValueError:
            log.append("caught")
        finally:
            log.append("end")

    def f(x):
        log = []
        with noting(log, "a") as n:
            x = x * n
        with noting(log, "b"):
            raise ValueError
        return x, log

    return f, [(ones(2),)]


@program()
def exit_stack():
    @contextlib.contextmanager
    def noting(log):
        log.append("in")
        yield 2
        log.append("out")

    def f(x):
        log = []
        with contextlib.ExitStack() as stack:
            k = stack.enter_context(noting(log))
            stack.callback(log.append, "last")
            x = x * k
        return x, log

    return f, [(ones(2),)]


@program()
def grad_mode_decorators():
    @torch.no_grad()
    def without(x):
        return x * 2, torch.is_grad_enabled()

    @torch.enable_grad()
    def with_(x):
        return x * 3

    @torch.inference_mode()
    def inferring(x):
        return x * 4

    def f(x):
        with torch.no_grad():
            y = with_(x)
        return without(x), y, inferring(x), torch.is_grad_enabled()

    return f, [(ones(2, requires_grad=True),)]


@program()
def inference_mode_in_every_shape():
    def f(x):
        with torch.inference_mode(True):
            y = x + 1
            inside = torch.is_inference_mode_enabled()
        with torch.inference_mode(False):
            z = x + 2
        return z, inside, y.is_inference(), torch.is_inference_mode_enabled()

    return f, [(ones(2),)]


@program()
def autocast_in_every_shape():
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
            a = x @ x
        with torch.amp.autocast("cpu"):
            b = x @ x
            with torch.autocast(device_type="cpu", enabled=False):
                c = b.float() @ x
        return a, b, c, torch.is_autocast_enabled("cpu")

    return f, [(ones(2, 2),)]


@program()
def manager_made_outside():
    manager = torch.no_grad()

    def f(x):
        with manager:
            y = x * 2
        return y, x * 3

    return f, [(ones(2, requires_grad=True),)]


@program()
def generators_in_every_shape():
    def counting(n):
        for i in range(n):
            got = yield i
            if got:
                yield got

    def delegating(x):
        first = yield from returning(x)
        yield first
        yield from [x, x + 1]

    def returning(x):
        yield x * 2
        return x * 3

    def cleaning(log):
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def f(x):
        log = []
        g = counting(3)
        a = next(g)
        b = g.send(x)
        rest = list(g)
        h = cleaning(log)
        c = next(h)
        h.close()
        return a, b, rest, list(delegating(x)), c, log, sum(y for y in (x, x) if y is not None)

    return f, [(ones(2),)]


@program(torch_differs="2.13 gives the generator its old value after throw()")
def generator_throws():
    def robust(x):
        while True:
            try:
                x = yield x
            except ValueError:
                x = -1

    def f(x):
        g = robust(1)
        first = next(g)
        second = g.throw(ValueError("a"))
        return x + first + second, g.send(5)

    return f, [(ones(2),)]


@program()
def generator_ends_with_an_error():
    def failing(x):
        yield x
        raise KeyError("end")

    def f(x):
        total = 0
        try:
            for each in failing(x):
                total = total + each
        except KeyError:
            total = total * 2
        return total

    return f, [(ones(2),)]


@program()
def stop_iteration_carries_a_value():
    def returning(x):
        yield 1
        return x * 2

    def f(x):
        g = returning(x)
        next(g)
        try:
            next(g)
        except StopIteration as stop:
            return stop.value + 1

    return f, [(ones(2),)]


@program()
def infinite_generators():
    def naturals():
        n = 0
        while True:
            yield n
            n += 1

    def f(x):
        firsts = list(itertools.islice(naturals(), 3))
        for n in naturals():
            if n > 2:
                break
            x = x + n
        return x, firsts, [a for a, _ in zip(naturals(), range(2))]

    return f, [(ones(2),)]


@program()
def generator_is_lazy():
    def noting(log):
        for i in range(3):
            log.append(i)
            yield i

    def f(x):
        log = []
        g = noting(log)
        before = len(log)
        next(g)
        return x + before, log, next(g), list(log), any(n > 5 for n in g), log

    return f, [(ones(2),)]


@program()
def generator_is_returned():
    def f(x):
        y = x * 2
        return (y + i for i in range(2))

    return f, [lambda compiled: list(compiled(ones(2)))]


@program()
def generator_as_an_argument():
    def f(x, g):
        total = x
        for each in g:
            total = total + each
        return total

    return f, [lambda compiled: compiled(ones(2), (i for i in range(3)))]


@program()
def iterators_as_arguments():
    def f(x, it):
        first = next(it)
        return x * first, list(it)

    return f, [
        lambda compiled: compiled(ones(2), iter([1, 2, 3])),
        lambda compiled: compiled(ones(2), iter((1, 2, 3))),
        lambda compiled: compiled(ones(2), iter(range(1, 4))),
        lambda compiled: compiled(ones(2), iter({1: 2, 3: 4})),
    ]


@program()
def iterators_of_functions_as_arguments():
    def f(x, it):
        return x + sum(it)

    return f, [
        lambda compiled: compiled(ones(2), map(abs, [1, -2])),
        lambda compiled: compiled(ones(2), filter(None, [0, 2])),
        lambda compiled: compiled(ones(2), itertools.chain([1], [2])),
        lambda compiled: compiled(ones(2), (a for a, b in zip([1], [2]))),
    ]


@program()
def iterators_are_returned():
    def f(x):
        started = iter([x, 2, 3])
        next(started)
        return (
            iter([1, x]),
            started,
            zip([1], [x]),
            enumerate([x]),
            map(str, [1]),
            reversed([1, x]),
            iter((1, x)),
            x + 1,
        )

    return f, [
        lambda compiled: [list(each) if not isinstance(each, torch.Tensor) else each for each in compiled(ones(2))]
    ]


@program()
def iterators_by_hand_of_every_kind():
    class Count:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    class Indexed:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError
            return i * 10

    def f(x):
        values = iter([3, 2, 1])
        down = list(iter(lambda: next(values), 1))
        a, *b = Count(3)
        return (
            x + sum(Count(4)),
            down,
            a,
            b,
            list(Indexed()),
            20 in Indexed(),
            list(enumerate(Count(2))),
            next(Count(0), "none"),
        )

    return f, [(ones(2),)]


@program()
def changed_while_iterated():
    def f(x):
        xs = [1, 2]
        for each in xs:
            if len(xs) < 4:
                xs.append(each)
        d = {"a": 1}
        for key in list(d):
            d[key + "b"] = x
        return xs, d

    return f, [(ones(2),)]


@program()
def for_else_and_nested_breaks():
    def f(x):
        found = []
        for i in range(4):
            for j in range(4):
                if i * j == 6:
                    found.append((i, j))
                    break
            else:
                continue
            break
        else:
            found.append("none")
        while len(found) < 3:
            found.append(0)
        else:
            x = x + 1
        return x, found

    return f, [(ones(2),)]


@program()
def unpacking_of_everything():
    def f(x, d):
        a, b = "xy"
        (c, *e), [g, h] = [1, 2, 3], (x, 4)
        i, j = d
        k, m = d.items()
        *n, o = range(3)
        p, q = {1: 2, 3: 4}.values()
        [r] = {5}
        s, t = (y * 2 for y in (x, x))
        (u, v), w = divmod(7, 2), 1
        return a, b, c, e, g, h, i, j, k, m, n, o, p, q, r, s, t, u, v, w

    return f, [(ones(2), {"one": 1, "two": 2})]


@program()
def matching_of_everything():
    class Point:
        __match_args__ = ("x", "y")

        def __init__(self, x, y):
            self.x, self.y = x, y

    def kind(value):
        match value:
            case None:
                return "none"
            case True | False:
                return "bool"
            case 1 | 2:
                return "small"
            case int(n) if n < 0:
                return "negative"
            case float() | int():
                return "number"
            case "a":
                return "a"
            case str(s):
                return s.upper()
            case Point(x=0, y=y):
                return ("on axis", y)
            case Point(x, y):
                return ("point", x, y)
            case []:
                return "empty"
            case [one]:
                return ("one", one)
            case [first, *_, last]:
                return (first, last)
            case {"k": [a, b], **rest}:
                return (a, b, rest)
            case {}:
                return "mapping"
            case _:
                return "other"

    def f(x):
        values = [
            None,
            True,
            1,
            -5,
            7,
            2.5,
            "a",
            "bc",
            Point(0, 3),
            Point(1, x),
            [],
            [x],
            (1, 2, 3),
            {"k": [1, 2], "l": x},
            {"m": 1},
            {3},
        ]
        return [kind(value) for value in values]

    return f, [(ones(2),)]


@program()
def match_on_a_tensor():
    def f(x):
        match x:
            case torch.Tensor(shape=(2,)):
                return x + 1
            case torch.Tensor():
                return x * 2

    return f, [(ones(2),), (ones(3),)]


@program()
def text_of_everything():
    def f(x, name):
        k = 3.14159
        return (
            f"{name!r:>6}|{k:.2f}|{k:8.3f}|{len(name):03d}|{name:*^7}|{name!s}|{'é'!a}|{{}}|{k=:.1f}", "%s-%d-%5.1f" % (name, 3, k),
            "{0} {1!r} {n:>4}".format(1, name, n=2), "-".join(str(i) for i in range(3)), str(x.shape), f"{x.dtype} {x.device}", repr(name), str([1, "a"]),
            f"{x.shape[0]}x{x.shape[1]}", "a" * 2 + "b", name.title(), "%(a)s" % {"a": 1}, f"{(1, 2)} {[1]} { {'a': 1} }", x + 1,
        )  # fmt: skip

    return f, [(ones(2, 3), "ab")]


@program()
def text_of_a_dynamic_size():
    def f(x):
        return x + 1, f"size {x.shape[0]}", str(x.shape[0]), "{}".format(x.size(0)), "%d" % x.shape[0]

    return f, [(ones(2),), (ones(3),), (ones(4),)]


@program()
def text_of_a_tensor():
    def f(x):
        y = x + 1
        return y, f"value {y}"

    return f, [(ones(2),)]


@program()
def text_of_a_tensor_in_an_error():
    def f(x, k):
        y = x + 1
        if k > 1:
            raise ValueError(f"bad {x.shape} {k}")
        return y

    return f, [(ones(2), 1), (ones(2), 2)]


@program()
def text_by_str_format_and_percent_of_a_tensor():
    def f(x):
        y = x + 1
        text = "%s" % y
        return y * 2, text

    return f, [(ones(2),)]


@program()
def boolean_operators_and_chains():
    def f(x, a, b):
        return (
            a and x,
            a or x,
            not a,
            a and b or x,
            1 < a < 5 if a else None,
            (a if a else b),
            x if a is not None and b is None else -x,
        )

    return f, [(ones(2), 3, None), (ones(2), 0, 1), (ones(2), None, None)]


@program()
def delete_of_everything():
    def f(x, d):
        xs = [1, 2, 3, 4]
        del xs[0], xs[-1:]
        e = {"a": 1, "b": x}
        del e["a"]
        del d["gone"]
        y = x
        del y
        return xs, e, x

    return f, [(ones(2), {"gone": 1, "kept": 2})]


@program()
def asserts_of_every_kind():
    def f(x, k):
        assert k
        assert isinstance(x, torch.Tensor), "a tensor"
        assert x.shape[0] == 2 and len(x.shape) == 1
        try:
            assert k > 5, f"small {k}"
        except AssertionError as error:
            return x + 1, str(error)
        return x

    return f, [(ones(2), 3)]


@program(torch_differs="2.13 raises what the operator raised as an error of the compiler, past the handler")
def operator_error_is_caught():
    def f(x, y):
        try:
            return x @ y
        except RuntimeError:
            return x + 1

    return f, [(ones(2, 3), ones(2, 3))]


@program(torch_differs="2.13 lets the IndexError of an operator out of the compiler, past the handler")
def index_error_of_a_tensor_is_caught():
    def f(x):
        try:
            return x[7]
        except IndexError:
            return x + 1

    return f, [(ones(3),)]


@program(torch_differs="2.13 lets the IndexError of an operator out of the compiler, past the handler")
def dimension_error_is_caught():
    def f(x):
        try:
            return x.sum(5)
        except IndexError:
            return x + 1

    return f, [(ones(3),)]


@program()
def type_error_of_an_operator_is_caught():
    def f(x):
        try:
            return torch.sin(x, x)
        except TypeError:
            return x + 1

    return f, [(ones(3),)]


@program()
def text_of_a_number_in_a_tensor():
    def f(x):
        loss = (x * x).sum()
        return loss, f"loss {loss:.2f} and {loss} {loss!r}", "{} {}".format(loss, 1), str(loss)

    return f, [(ones(2),)]


@program(torch_differs="2.13 makes the text after the graph, when the tensor has changed")
def text_of_a_tensor_that_changes():
    def f(x):
        y = x + 1
        text = f"{y}"
        y.add_(1)
        return y, text

    return f, [(ones(2),)]


@program()
def text_of_a_tensor_is_printed():
    def f(x):
        y = x + 1
        print(f"y is {y}")
        return y * 2

    return f, [(ones(2),)]
