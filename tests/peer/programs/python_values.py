"""Python's built-in values in small programs: all methods of containers, strings, numbers and slices."""

# ruff: noqa  (programs use what users use, and say it in one line)

import torch
import collections

from tests.peer.program import case

ones, arange = torch.ones, torch.arange


def X():
    return torch.arange(4.0) + 1


@case()
def list_methods(x):
    l = [3, 1, 2]
    l.append(x)
    l.pop()
    l.insert(1, 9)
    l.extend((4, 5))
    l.remove(9)
    l.sort(reverse=True)
    l.reverse()
    m = l.copy()
    m.clear()
    return x + 1, l, m, l.index(3), l.count(1), l[::-1], l[1:3], l * 2, [0] + l, l == [1, 2, 3, 4, 5], l < [2], 3 in l


@case()
def list_slices(x):
    l = list(range(6))
    l[1:3] = [7]
    del l[::2]
    l[0] = x
    m = [1, 2, 3]
    m[::2] = [8, 9]
    m *= 2
    return l, m, min(m), max(m), sum(m), sorted(m, key=lambda v: -v), list(reversed(m))


@case(torch_differs="texts of errors are others")
def list_errors(x):
    out = []
    for f in (
        lambda: [1].remove(2),
        lambda: [1].index(2),
        lambda: [][0],
        lambda: [1, 2].pop(5),
        lambda: [1] + (1,),
        lambda: list((1,))["a"],
        lambda: {}["k"],
        lambda: (1,)[3],
        lambda: {1}.remove(2),
        lambda: [].pop(),
        lambda: set().pop(),
        lambda: {}.popitem(),
        lambda: next(iter([])),
    ):
        try:
            f()
        except Exception as e:
            out.append((type(e).__name__, str(e)))
    return x + 1, out


@case()
def tuple_methods(x):
    t = (1, 2, 2)
    return (
        x + t.count(2) + t.index(2),
        t + (3,),
        t * 2,
        t < (1, 3),
        t[1:],
        (1, x)[0],
        hash(t) == hash((1, 2, 2)),
        t.__class__ is tuple,
    )


@case()
def dict_methods(x):
    d = {"a": 1, "b": x}
    d.setdefault("c", 3)
    d.update({"d": 4}, e=5)
    v = d.pop("a")
    w = d.pop("zz", 8)
    it = d.popitem()
    e = d.copy()
    e.clear()
    f = dict([("q", 1)], r=2)
    g = dict.fromkeys("ab", 0)
    h = {**f, "s": 3}
    k = f | g
    f |= {"q": 9}
    return (
        d,
        v,
        w,
        it,
        e,
        f,
        g,
        h,
        k,
        list(d),
        list(d.keys()),
        list(f.items()),
        "b" in d,
        len(d),
        list(reversed(f)),
        d.get("b"),
        d.get("n"),
    )


@case()
def dict_views_out(x):
    d = {"a": x + 1}
    return d.keys(), d.values(), d.items()


@case()
def dict_key_kinds(x):
    d = {
        1: "i",
        1.0: "f",
        True: "t",
        (1, 2): "tup",
        None: "n",
        int: "ty",
        torch.float32: "dt",
        frozenset([1]): "fs",
        "s": 1,
        len: "fn",
    }
    return x + 1, d[1], d[(1, 2)], d[None], d[int], d[torch.float32], d[frozenset([1])], len(d), d[len]


@case()
def dict_iter_mutate(x):
    d = {"a": 1, "b": 2}
    try:
        for k in d:
            d[k + "x"] = 1
    except RuntimeError as e:
        return x + 1, str(e)


@case()
def set_methods(x):
    s = {1, 2, 3}
    t = {3, 4}
    s.add(5)
    s.discard(9)
    s.remove(1)
    u = s | t
    i = s & t
    d = s - t
    y = s ^ t
    s.update([7], {8})
    s.intersection_update({2, 3, 7})
    s.difference_update({7})
    s.symmetric_difference_update({3, 10})
    return (
        x + len(s),
        s,
        u,
        i,
        d,
        y,
        s.issubset({1, 2, 10}),
        s.issuperset({2}),
        s.isdisjoint({4}),
        s < {1, 2, 10},
        s <= s,
        s == {2, 10},
        s.copy(),
        sorted(s),
        s.union([1], [2]),
        frozenset(s),
        frozenset([1]) | {2},
    )


@case()
def set_ops2(x):
    s = {1}
    t = s
    s |= {2}
    s -= {1}
    s &= {2, 3}
    s ^= {9}
    return x + 1, s, t is s, {*s, 4}, set("hello") == {"h", "e", "l", "o"}, len({1, True, 1.0}), {(1, 2), (1, 2)}


@case(([1, {"a": [2]}], X()))
def nested_arg_mutate(l, x):
    l[1]["a"].append(x + 1)
    l[1]["b"] = 3
    l.append(l[0])
    return l[1]["a"][0] + x


@case()
def deque_more(x):
    d = collections.deque()
    d.append(x)
    d.insert(0, 3)
    d.remove(3)
    d.reverse()
    e = d + collections.deque([1])
    d.clear()
    return (
        e,
        bool(d),
        collections.deque("abc") == collections.deque("abc"),
        collections.deque([1, 2]) < collections.deque([3]),
    )


@case()
def ordered_dict(x):
    d = collections.OrderedDict(a=1, b=2)
    d.move_to_end("a")
    d["c"] = x
    d.move_to_end("c", last=False)
    k = d.popitem(last=False)
    return k, d, list(d), d == {"a": 1, "b": 2}, d == collections.OrderedDict(a=1, b=2), list(reversed(d))


@case()
def default_dict(x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    d["b"].append(1)
    e = collections.defaultdict(int)
    e["q"] += 3
    f = collections.defaultdict(lambda: 7)
    return d, e, f["z"], d.default_factory is list, "n" in d, e.get("n"), dict(e)


@case((collections.defaultdict(int, a=2), X()))
def default_dict_arg(d, x):
    d["b"] += 4
    return x + d["a"] + d["c"], len(d)


@case()
def chain_map(x):
    a = {"a": 1}
    b = {"b": 2, "a": 3}
    c = collections.ChainMap(a, b)
    d = c.new_child({"z": 9})
    c["n"] = 5
    return x + c["a"] + c["b"], a, "b" in c, len(c), sorted(c), d["z"], c.maps[1], c.get("none", 4), d.parents["a"]


NP = collections.namedtuple("NP", ["a", "b"], defaults=[5])


@case((NP(1, X()),))
def named_tuple_arg(p):
    q = p._replace(a=4)
    a, b = q
    return (
        b + a,
        p._fields,
        NP(3),
        q.a,
        p == p,
        NP(1, 2) == (1, 2),
        NP(1, 2) < NP(1, 3),
        repr(NP(1, 2)),
        NP(1, 2)._asdict(),
        NP._make([5, 6]),
        max(NP(1, 2)),
        NP(b=1, a=2),
    )


@case()
def user_containers(x):
    d = collections.UserDict(a=1)
    d["b"] = 2
    l = collections.UserList([1])
    l.append(3)
    s = collections.UserString("ab")
    return x + d["b"] + l[1], len(d), s.upper() == "AB"


@case()
def slice_objects(x):
    s = slice(1, 3)
    t = slice(None, None, 2)
    return x[s], x[t], s.start, t.step, s.indices(10), s == slice(1, 3), [1, 2, 3, 4][s], x[slice(None),], repr(s)


@case(torch_differs="`4 in range` is 1")
def ranges(x):
    r = range(1, 10, 3)
    return (
        x + sum(r),
        len(r),
        r[1],
        r[-1],
        4 in r,
        list(reversed(r)),
        r.start,
        r.stop,
        r.step,
        r[1:],
        r == range(1, 10, 3),
        r.index(4),
        r.count(7),
        list(r),
        bool(range(0)),
        max(r),
        hash(r) == hash(range(1, 10, 3)),
        r,
    )


@case()
def complexes(x):
    z = 1 + 2j
    w = complex(3, 4)
    return (
        x * z,
        z + w,
        z * w,
        abs(w),
        z.real,
        w.imag,
        z.conjugate(),
        z == 1 + 2j,
        -z,
        z**2,
        complex("1+1j"),
        z / w,
        x.to(torch.complex64) + w,
    )


@case(torch_differs="texts of errors are others")
def unpack_errors(x):
    out = []

    def a():
        p, q = (1, 2, 3)

    def b():
        p, q = [1]

    def c():
        p, *q, r = [1]

    def d():
        p, q = 3

    for f in (a, b, c, d):
        try:
            f()
        except Exception as e:
            out.append((type(e).__name__, str(e)))
    return x + 1, out


@case()
def container_equality(x):
    return (
        x + 1,
        [1, (2,)] == [1, (2,)],
        [1] == (1,),
        {"a": [1]} == {"a": [1]},
        {1: 2} != {1: 3},
        (1, 2) == (1, 2),
        [1, 2] > [1],
        {1} == frozenset([1]),
        collections.OrderedDict(a=1) == {"a": 1},
        None == 0,
        [] == [],
        "a" == "a",
        1 == 1.0,
        [float("nan")] == [float("nan")],
    )


@case()
def list_of_tensors_ops(x):
    l = [x, x + 1]
    return l.index(x), torch.stack(l).sum(), sum(l), l[::-1], l * 2, [*l, x], tuple(l), len(l)


@case(([X(), X()],))
def cyclic_list(l):
    l2 = [1]
    l2.append(l2)
    return l[0] + 1, l2[1] is l2, len(l2)


@case(torch_differs="an iterator of a list comes back as one of a tuple")
def iter_out(x):
    return iter([x + 1, 2]), x + 2
