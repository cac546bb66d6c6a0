"""Wrong uses of escape hatches: the error is torch's, with the names of either library.

Each row is a misuse. It runs with torch's names under torch.compile, with torch's names under
nbcompile.compile, and with nbcompile's names; the errors must be of one class. ``OURS`` lists
the intended differences, with reasons.
"""

import binascii
import itertools
import types

import pytest
import torch
from torch._dynamo import decorators

import nbcompile

x = torch.ones(3)
NAMES = {
    "torch.compiler": ("allow_in_graph", "assume_constant_result", "disable", "set_stance", "substitute_in_graph"),
    "torch._dynamo": (
        "nonstrict_trace", "disallow_in_graph", "forbid_in_graph", "error_on_graph_break", "skip_frame",
        "step_unsupported", "graph_break", "dont_skip_tracing", "patch_dynamo_config", "disable_nested_graph_breaks",
        "run", "mark_dynamic", "maybe_mark_dynamic", "mark_static", "mark_static_address",
    ),
    "torch._dynamo.decorators": ("leaf_function", "mark_unbacked"),
    "torch.library": ("custom_op", "triton_op"),
    "torch": ("compile",),
}  # fmt: skip
PLACES = {"torch.compiler": torch.compiler, "torch._dynamo": torch._dynamo, "torch.library": torch.library}
PLACES |= {"torch._dynamo.decorators": decorators, "torch": torch}
TORCHS = types.SimpleNamespace(**{name: getattr(PLACES[at], name) for at, names in NAMES.items() for name in names})
OURS_FIRST = types.SimpleNamespace(
    **{name: getattr(nbcompile, name, torchs) for name, torchs in vars(TORCHS).items()}, config=nbcompile.config
)
TORCHS_UNDER_OURS = types.SimpleNamespace(**{**vars(TORCHS), "compile": nbcompile.compile}, config=nbcompile.config)
TORCHS.config = torch._dynamo.config
_numbers = itertools.count()


class Plain:
    """A class that is not registered with pytrees."""

    scale = 2.0


def g(x):
    return x * 2


def typed(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def inside(program, *arguments):
    """A program that is compiled as one graph."""
    return lambda h: h.compile(lambda *given: program(h, *given), backend="eager", fullgraph=True)(*(arguments or (x,)))


def entering(name, *arguments, **keywords):
    """A program that enters a region of that name inside a compiled function."""

    def program(h, x):
        with getattr(h, name)(*arguments, **keywords):
            return x * 2

    return inside(program)


def inner_nonstrict(h, x):
    def inner(y):
        return y * 3

    return h.nonstrict_trace(inner)(x)


def without_fake(h):
    leaf = h.leaf_function(lambda x: (x * 2,))
    return h.compile(lambda x: leaf(x)[0], backend="eager", fullgraph=True)(x)


def with_fake(h):
    leaf = h.leaf_function(lambda settings, x: (x * settings.scale,))
    leaf.register_fake(lambda settings, x: (x * 1,))
    return h.compile(lambda p, x: leaf(p, x)[0], backend="eager", fullgraph=True)(Plain(), x)


def marked(mark, function, *arguments):
    """A call of a function with a mark."""

    def run(h):
        known = getattr(h, mark)(function)
        return h.compile(lambda *given: known(*given), backend="eager", fullgraph=True)(*arguments)

    return run


def twice(h):
    name = f"misuse::twice{next(_numbers)}"
    h.custom_op(name, mutates_args=())(typed)
    return h.custom_op(name, mutates_args=())(typed)


def substituted_twice(h):
    for _ in range(2):
        h.substitute_in_graph(binascii.b2a_uu, skip_signature_check=True)(lambda *arguments: 3)


def no_fake(h):
    known = h.custom_op(f"misuse::op{next(_numbers)}", mutates_args=())(typed)
    return h.compile(lambda x: known(x) + 1, backend="eager", fullgraph=True)(x)


def wrong_arity(h):
    known = h.custom_op(f"misuse::op{next(_numbers)}", mutates_args=())(typed)
    return h.compile(lambda x: known(x, x), backend="eager", fullgraph=True)(x)


MISUSES = {
    # inside a region
    "nonstrict_trace of a function from outside": inside(lambda h, x: h.nonstrict_trace(g)(x)),
    "nonstrict_trace of an inner function": inside(inner_nonstrict),
    "allow_in_graph inside": inside(lambda h, x: h.allow_in_graph(g)(x)),
    "disallow_in_graph inside": inside(lambda h, x: h.disallow_in_graph(torch.copysign)),
    "forbid_in_graph inside": inside(lambda h, x: h.forbid_in_graph(typed)),
    "assume_constant_result inside": inside(lambda h, x: x * h.assume_constant_result(lambda: 3)()),
    "leaf_function inside": inside(lambda h, x: h.leaf_function(g)(x)),
    "disable inside": inside(lambda h, x: h.disable(g)(x)),
    "disable as a region": entering("disable"),
    "set_stance inside": inside(lambda h, x: h.set_stance("force_eager")),
    "set_stance as a region": entering("set_stance", "force_eager"),
    "substitute_in_graph inside": inside(lambda h, x: h.substitute_in_graph(binascii.b2a_uu)(lambda *a: 3)),
    "error_on_graph_break as a region": entering("error_on_graph_break", True),
    "dont_skip_tracing as a region": entering("dont_skip_tracing"),
    "disable_nested_graph_breaks as a region": entering("disable_nested_graph_breaks"),
    "patch_dynamo_config as a region": entering("patch_dynamo_config", verbose=True),
    "patch_dynamo_config of another name": entering("patch_dynamo_config", recompile_limit=3),
    "run inside": inside(lambda h, x: h.run(g)(x)),
    "compile inside": inside(lambda h, x: h.compile(g, backend="eager")(x)),
    "custom_op inside": inside(lambda h, x: h.custom_op("misuse::inside", g, mutates_args=())),
    "skip_frame": inside(lambda h, x: h.skip_frame("why")),
    "step_unsupported": inside(lambda h, x: h.step_unsupported("why")),
    "graph_break": inside(lambda h, x: h.graph_break("why")),
    "graph_break of two": inside(lambda h, x: h.graph_break("why", "not")),
    **{
        f"{name} inside": inside(lambda h, x, name=name: getattr(h, name)(x, 0))
        for name in ("mark_dynamic", "maybe_mark_dynamic", "mark_unbacked")
    },
    "mark_static inside": inside(lambda h, x: (h.mark_static(x, 0), x + 1)[1]),
    "mark_static_address inside": inside(lambda h, x: h.mark_static_address(x)),
    # on values that are not functions
    **{
        f"{name} of a number": lambda h, name=name: getattr(h, name)(3)
        for name in (
            "nonstrict_trace",
            "allow_in_graph",
            "disallow_in_graph",
            "forbid_in_graph",
            "assume_constant_result",
            "leaf_function",
            "disable",
            "run",
            "compile",
            "substitute_in_graph",
            "mark_static_address",
        )
    },
    **{
        f"{name} of a number's dim": lambda h, name=name: getattr(h, name)(3, 0)
        for name in ("mark_dynamic", "maybe_mark_dynamic", "mark_unbacked", "mark_static")
    },
    "error_on_graph_break on a number": lambda h: h.error_on_graph_break(True)(3)(),
    "dont_skip_tracing on a number": lambda h: h.dont_skip_tracing(3)(),
    "disable_nested_graph_breaks on a number": lambda h: h.disable_nested_graph_breaks(3)(),
    "allow_in_graph of a list of numbers": lambda h: h.allow_in_graph([3]),
    "substitute_in_graph by a number": lambda h: h.substitute_in_graph(binascii.b2a_uu)(3),
    "substitute_in_graph with other parameters": lambda h: h.substitute_in_graph(g)(lambda a, b: 3),
    "disallow_in_graph of a user's function": lambda h: h.disallow_in_graph(lambda x: x),
    "custom_op of a number": lambda h: h.custom_op(f"misuse::n{next(_numbers)}", mutates_args=())(3),
    "custom_op without a namespace": lambda h: h.custom_op("misuse", mutates_args=())(typed),
    "custom_op without annotations": lambda h: h.custom_op(f"misuse::a{next(_numbers)}", mutates_args=())(lambda x: x),
    "custom_op that changes nobody": lambda h: h.custom_op(f"misuse::m{next(_numbers)}", mutates_args={"y"})(typed),
    "triton_op without annotations": lambda h: h.triton_op(f"misuse::t{next(_numbers)}", mutates_args=())(lambda x: x),
    # types that are not registered as pytrees
    "nonstrict_trace with a strange input": marked("nonstrict_trace", lambda p, x: x * p.scale, Plain(), x),
    "nonstrict_trace with a strange output": marked("nonstrict_trace", lambda x: Plain(), x),
    "allow_in_graph with a strange input": marked("allow_in_graph", lambda p, x: x * p.scale, Plain(), x),
    "leaf_function with a strange input": with_fake,
    "assume_constant_result with a strange output": marked("assume_constant_result", lambda: Plain()),
    "assume_constant_result with a tensor": marked("assume_constant_result", lambda x: 3, x),
    "assume_constant_result with a list": marked("assume_constant_result", lambda x: 3, [1, 2]),
    "forbid_in_graph of a function that is called": marked("forbid_in_graph", lambda x: x, x),
    "forbid_in_graph of a class that is called": marked("forbid_in_graph", type("Forbidden", (), {})),
    # two registrations, or an incomplete one
    "custom_op twice": twice,
    "custom_op without a fake": no_fake,
    "custom_op with too many arguments": wrong_arity,
    "substitute_in_graph twice": substituted_twice,
    "leaf_function without a fake": without_fake,
    "leaf_function that changes nobody": lambda h: h.leaf_function(mutates_args={"y"})(typed),
    "nonstrict_trace of a leaf_function": lambda h: h.nonstrict_trace(h.leaf_function(lambda x: (x,))),
    # names that do not exist
    "unknown backend": lambda h: h.compile(g, backend="nonsense"),
    "unknown mode": lambda h: h.compile(g, mode="nonsense"),
    "unknown option": lambda h: h.compile(g, options={"nonsense": 1}),
    "mode and options": lambda h: h.compile(g, mode="default", options={"max_autotune": True}),
    "unknown argument": lambda h: h.compile(g, nonsense=1),
    "a stance with a backend": lambda h: h.set_stance("force_eager", force_backend="eager"),
    "unknown setting": lambda h: setattr(h.config, "nonsense", 1),
    "unknown setting, read": lambda h: h.config.nonsense,
    "unknown setting, patched": lambda h: h.config.patch(nonsense=1).__enter__(),
    "unknown setting, patched by name": lambda h: h.config.patch("nonsense", 1).__enter__(),
}
OURS = {
    "patch_dynamo_config of another name": ("Unsupported", "torch has an internal error about the same ValueError"),
    "leaf_function of a number": ("NotCallable", "torch finds out when it is called"),
    "assume_constant_result of a number": ("NotCallable", "torch's AttributeError tells nothing"),
    "leaf_function with a strange input": ("Unsupported", "torch has an internal error"),
    "leaf_function without a fake": ("TorchRuntimeError", "torch wraps the same ValueError in an internal error"),
}  # fmt: skip


def outcome(program, names):
    """The names of the exception's classes, or "no error"."""
    try:
        program(names)
    except Exception as error:
        return [each.__name__ for each in type(error).__mro__]
    return ["no error"]


@pytest.fixture(autouse=True)
def forgotten():
    """A fixture that removes the code that was compiled under a mark."""
    yield
    torch._dynamo.reset()
    nbcompile.reset()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MISUSES)
def test_misuse(name):
    """The class of the error is torch's or a subclass; each exception to that has a reason."""
    program = MISUSES[name]
    torchs = outcome(program, TORCHS)[0]
    same_names, own_names = outcome(program, TORCHS_UNDER_OURS), outcome(program, OURS_FIRST)
    if name in OURS:
        assert OURS[name][0] == own_names[0]
        assert torchs not in own_names, "no difference any more"
        assert own_names[0] == same_names[0] or same_names[0] == torchs
    else:
        assert torchs in same_names
        assert torchs in own_names


def test_an_unknown_name_is_an_error_at_once_and_names_the_others():
    """A backend, mode, option, stance or setting that does not exist: the message lists the valid ones."""
    with pytest.raises(nbcompile.exc.InvalidBackend, match="aot_eager, "):
        nbcompile.compile(g, backend="aot_eagre")
    with pytest.raises(nbcompile.exc.InvalidMode, match="default, "):
        nbcompile.compile(g, mode="defualt")
    with pytest.raises(nbcompile.exc.InvalidBackendOption, match="fallback_random"):
        nbcompile.compile(g, options={"nonsense": 1})
    with pytest.raises(ValueError, match="default, force_eager"):
        nbcompile.set_stance("nonsense")
    with pytest.raises(AttributeError, match="recompile_limit"):
        nbcompile.config.recompile_limits = 3
    with pytest.raises(TypeError, match="a name or a callable"):
        nbcompile.compile(g, backend=3)
