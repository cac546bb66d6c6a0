"""Lists, tuples, dicts, sets, slices, ranges, comprehensions, unpacking, and the builtins on them."""

# ruff: noqa: B905, PYI024, PLE0643  (programs use what users use)

import collections
import itertools

import torch

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


@program()
def list_is_built_and_changed():
    def f(x):
        xs = [x]
        xs.append(x + 1)
        xs.extend([x * 2, x * 3])
        xs.insert(0, x - 1)
        last = xs.pop()
        xs[0] = last
        xs.reverse()
        del xs[1]
        return xs, len(xs), xs[::-1], xs[1:] + [x], xs * 2, xs.copy()

    return f, [(ones(2),)]


@program()
def list_argument_is_appended_to():
    def f(xs, x):
        xs.append(x * 2)
        return len(xs)

    kept = [ones(2)]
    return f, [(kept, ones(2)), (kept, ones(2)), (kept, ones(2))]


@program()
def list_argument_is_changed_in_every_way():
    def f(xs, x):
        xs[0] = x + 1
        xs += [3, x]
        xs.insert(1, "one")
        xs.pop(2)
        del xs[-1]
        xs.extend((4, 5))
        xs.remove(4)
        xs.reverse()
        return x * 2

    return f, [([ones(2), 1, 2], ones(2))]


@program()
def list_is_sorted_and_searched():
    def f(x):
        sizes = [3, 1, 2]
        sizes.sort()
        names = sorted(["b", "a"], reverse=True)
        return (
            x * sizes[0],
            sizes.index(3),
            sizes.count(1),
            2 in sizes,
            9 not in sizes,
            names,
            sorted(sizes, key=lambda n: -n),
        )

    return f, [(ones(2),)]


@program()
def tuples_and_unpacking():
    def f(x):
        a, (b, c), *rest = x, (x + 1, x + 2), 3, 4
        first, *middle, last = (a, b, c, *rest)
        first, last = last, first
        return first, middle, last, (a,) + (b,), (1, 2).index(2)

    return f, [(ones(2),)]


@program()
def nested_argument():
    def f(tree):
        return {"sum": tree["a"][0] + tree["a"][1]["b"], "same": tree["c"]}

    return f, [({"a": (ones(2), {"b": ones(2)}), "c": [1, "two"]},)]


@program()
def dict_is_built_and_read():
    def f(x):
        d = {"a": x, "b": x + 1, 3: x * 2}
        d["c"] = d["a"] + d["b"]
        e = {**d, "a": 0}
        e.update(z=x)
        removed = e.pop("b")
        return d, e, d.get("no", 5), list(d.keys()), list(e.values()), "a" in d, removed, d.setdefault("new", 1), len(d)

    return f, [(ones(2),)]


@program()
def dict_argument_is_changed():
    def f(d, x):
        d["new"] = x + 1
        d["old"] = d["old"] * 2
        d.pop("gone")
        del d["gone too"]
        d.update({"more": 1})
        return list(d)

    return f, [({"old": ones(2), "gone": 1, "gone too": 2}, ones(2))]


@program()
def dict_is_iterated():
    def f(d):
        total = 0
        for key, value in d.items():
            total = total + value * len(key)
        for value in d.values():
            total = total - value
        return total, [key for key in d], max(d)

    return f, [({"a": ones(2), "bb": ones(2) * 3},), ({"bb": ones(2), "a": ones(2)},)]


@program()
def unread_key_does_not_matter():
    def f(d):
        return d["x"] + 1

    return f, [({"x": ones(2)},), ({"x": ones(2), "other": 3},)]


@program()
def sets():
    def f(x):
        s = {1, 2, 3}
        s.add(4)
        s.discard(1)
        t = s | {9}
        return x * len(s), 2 in s, t - s, s & {2}, s.issubset(t), frozenset([1]), {n % 2 for n in range(4)}

    return f, [(ones(2),)]


@program(torch_differs="2.13 answers `4 in range(...)` with 1 in place of True")
def slices_and_ranges():
    def f(x):
        r = range(10)[2:8:2]
        s = slice(1, None)
        return x[s], x[:2], x[::2], list(r), len(r), 4 in r, x[slice(None), ...], [1, 2, 3][s], sum(range(4))

    return f, [(arange(4.0),)]


@program()
def comprehensions():
    def f(xs):
        return (
            [x * i for i, x in enumerate(xs) if i],
            {i: x for i, x in enumerate(xs)},
            {len(xs) for _ in xs},
            [[y, x] for x in xs for y in range(2)],
        )

    return f, [([ones(2), ones(2) * 2],)]


@program()
def generator_expressions():
    def f(xs):
        return sum(x * 2 for x in xs), list(x + 1 for x in xs), tuple(x.sum() for x in xs), max(x.numel() for x in xs)

    return f, [([ones(2), ones(3).sum(0, keepdim=True)],)]


@program()
def zip_enumerate_map_filter():
    def f(xs, ks):
        zipped = [x * k for x, k in zip(xs, ks)]
        mapped = list(map(lambda x, k: x + k, xs, ks))
        kept = [k for k in filter(lambda k: k > 1, ks)]
        numbered = [(i, x) for i, x in enumerate(xs, start=5)]
        backwards = list(reversed(xs))
        return zipped, mapped, kept, numbered, backwards

    return f, [([ones(2), arange(2.0)], [1, 2])]


@program()
def sum_min_max_any_all():
    def f(x, ks):
        total = sum(ks) + min(ks) + max(ks, default=0) + max(1, 2, 3)
        if any(k > 2 for k in ks) and all(ks):
            return x * total
        return (
            x + total,
            divmod(7, 2),
            abs(-3),
            round(2.5),
            pow(2, 3),
            int("3"),
            float(2),
            bool([]),
            str(4),
            ord("a"),
            chr(97),
        )

    return f, [(ones(2), [1, 2]), (ones(2), [1, 2, 3])]


@program()
def itertools_functions():
    def f(xs):
        return (
            list(itertools.chain(xs, xs)),
            [a + b for a, b in itertools.product(xs, xs)],
            list(itertools.islice(itertools.count(3), 2)),
            [x for x, _ in zip(xs, itertools.repeat(1))],
            list(itertools.accumulate([1, 2, 3])),
            list(itertools.chain.from_iterable([xs, xs])),
        )

    return f, [([ones(1), ones(1) * 2],)]


@program()
def collections_of_the_library():
    Point = collections.namedtuple("Point", "x y")

    def f(x):
        d = collections.OrderedDict(a=x)
        d["b"] = x + 1
        counts = collections.defaultdict(list)
        counts["k"].append(x * 2)
        queue = collections.deque([1, 2])
        queue.appendleft(0)
        p = Point(x, y=3)
        return d, dict(counts), list(queue), p, p.x + p[1], p._replace(y=4)

    return f, [(ones(2),)]


@program()
def strings_and_f_strings():
    def f(x, name):
        label = f"{name}-{len(name):03d}-{'%s' % 5}" + "x".join(["a", "b"])
        return (
            x + len(label),
            label.upper(),
            label.startswith("ab"),
            label.split("-"),
            label[0],
            "{} {}".format(1, name),
        )

    return f, [(ones(2), "ab"), (ones(2), "ac")]


@program()
def f_string_of_a_shape():
    def f(x):
        y = x + 1
        return y, f"{tuple(y.shape)} {y.dtype}"

    return f, [(ones(2, 3),)]


@program()
def iterators_by_hand():
    def f(xs):
        it = iter(xs)
        first = next(it)
        rest = [x + first for x in it]
        return rest, next(it, None), next(iter({"k": 1}))

    return f, [([ones(2), ones(2), ones(2)],)]


@program()
def length_of_a_list_is_guarded():
    def f(xs):
        total = 0
        for x in xs:
            total = total + x
        return total

    return f, [([ones(2)] * 2,), ([ones(2)] * 3,), ([ones(2)] * 2,)]


@program()
def aliased_lists():
    def f(x):
        a = [x]
        b = a
        b.append(x + 1)
        return a, b, a is b, a == b if False else None

    return f, [(ones(2),)]


@program()
def constant_arithmetic():
    def f(x):
        n = 7
        n += 3
        n //= 2
        return x * n + (n << 2) % 5 - ~n, not n, -n, n == 5, n if n > 3 else 0, 3 < n < 9, n and 2, n or 2

    return f, [(ones(2),)]


@program()
def star_in_displays():
    def f(x, xs):
        return [*xs, x], (*xs, *xs), {*range(3)}, {**{"a": x}, "b": 1}

    return f, [(ones(2), [1, 2])]


@program()
def list_made_before_and_returned_changed():
    def f(x, xs):
        ys = xs
        ys.append(x + 1)
        return ys

    return f, [(ones(2), [])]
