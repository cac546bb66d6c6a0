"""Records written by hand, one for each situation that a view must show well.

They say what the compiler says of these very programs, shortened, and alike on
every machine; the views are tested on them without compiling anything. That they
say so is tested by a compile (test_sample_records.py). Texts of graph breaks are
the compiler's own (``break_of``), so that they stay what users read.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from nbcompile.record.model import (
    EAGER,
    Break,
    Buffer,
    CarriedValue,
    CompiledFrame,
    CompiledGraph,
    Environment,
    FailedGuard,
    FusionDecision,
    Graph,
    Guard,
    Instruction,
    Kernel,
    KernelLine,
    Mutation,
    Node,
    Record,
    ResumeFunction,
    StackLine,
    Timing,
)
from nbcompile.tracing import breaks

FILE = "/tmp/ipykernel_1/cell_3.py"
ENVIRONMENT = Environment("3.11.9", "2.13.0", "0.1.0", "cpu", "g++ 12.2.0")


def dedent(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def line(number: int, function: str, code: str, mark: str = "", offset: int = -1) -> StackLine:
    """A stack line whose caret range is where ``mark`` stands in the code."""
    start = code.find(mark) if mark else -1
    return StackLine(FILE, number, function, code, start, start + len(mark) if start >= 0 else -1, offset)


def instructions(listing: str) -> tuple[Instruction, ...]:
    """``line offset opcode argument`` in each line of a text."""
    rows = (row.split(maxsplit=3) for row in listing.strip().split("\n"))
    return tuple(Instruction(int(row[1]), row[2], row[3] if len(row) > 3 else "", int(row[0])) for row in rows)


def node(
    graph: str,
    index: int,
    name: str,
    op: str,
    target: str,
    arguments: str,
    reads: Sequence[int] = (),
    *,
    shape: tuple[str, ...] | None = ("8",),
    source: str = "",
    stack: tuple[StackLine, ...] = (),
    made_from: tuple[str, ...] = (),
) -> Node:
    stride = None if shape is None else tuple("1" for _ in shape)
    return Node(
        f"{graph}.n{index}",
        name,
        op,
        target,
        arguments,
        tuple(f"{graph}.n{each}" for each in reads),
        shape,
        stride,
        "float32" if shape is not None else "",
        "cpu" if shape is not None else "",
        source,
        stack,
        made_from,
    )


def tensor_guard(compile_id: str, index: int, name: str, shape: str, stack: tuple[StackLine, ...]) -> Guard:
    condition = (
        f"check_tensor(L['{name}'], Tensor, float32, device=cpu, requires_grad=False, size=[{shape}], stride=[1])"
    )
    words = f"{name} is a tensor of the same kind with sizes ({shape})"
    return Guard(f"{compile_id}.g{index}", "TENSOR_MATCH", f"L['{name}']", condition, words, stack)


def global_guards(compile_id: str, first: int) -> tuple[Guard, ...]:
    words = "grad mode, autocast, default dtype, threads, ... are as they were"
    return (
        Guard(f"{compile_id}.g{first}", "GLOBAL_STATE", "", "___check_global_state()", words),
        Guard(
            f"{compile_id}.g{first + 1}",
            "TORCH_FUNCTION_MODE_STACK",
            "",
            "___check_torch_function_mode_stack()",
            "the same torch function modes are active",
        ),
    )


# --- one graph, down to its kernel ----------------------------------------------------------------------------------

SIMPLE_SOURCE = dedent(
    """
    def f(x, scale):
        y = torch.sin(x) * scale
        z = torch.relu(y) + x
        return z.sum()
    """
)

SIMPLE_KERNEL = dedent(
    """
    #include "nbvec.h"

    extern "C" void kernel0(const float* in0, float* out0, long n0) {
        float acc = 0.0f;
        for (long x0 = 0; x0 < n0; x0 += 8) {
            auto tmp0 = load(in0 + x0);        // x
            auto tmp1 = sin(tmp0);
            auto tmp2 = tmp1 * splat(2.0f);
            auto tmp3 = max(tmp2, splat(0.0f));
            auto tmp4 = tmp3 + tmp0;
            acc += reduce_add(tmp4);
        }
        out0[0] = acc;
    }
    """
)


def simple_frame() -> CompiledFrame:
    two = line(2, "f", "y = torch.sin(x) * scale", "torch.sin(x)", 22)
    times = line(2, "f", "y = torch.sin(x) * scale", "torch.sin(x) * scale", 32)
    three = line(3, "f", "z = torch.relu(y) + x", "torch.relu(y)", 58)
    plus = line(3, "f", "z = torch.relu(y) + x", "torch.relu(y) + x", 68)
    four = line(4, "f", "return z.sum()", "z.sum()", 96)
    g, a = "0/0", "0/0.inference"
    captured = Graph(
        "0/0.captured",
        "captured",
        (
            node(g, 0, "l_x_", "placeholder", "L_x_", "()", source="L['x']", shape=("1024",), stack=(two,)),
            node(g, 1, "sin", "call_function", "torch.sin", "(l_x_)", (0,), shape=("1024",), stack=(two,)),
            node(g, 2, "mul", "call_function", "operator.mul", "(sin, 2.0)", (1,), shape=("1024",), stack=(times,)),
            node(g, 3, "relu", "call_function", "torch.relu", "(mul)", (2,), shape=("1024",), stack=(three,)),
            node(g, 4, "add", "call_function", "operator.add", "(relu, l_x_)", (3, 0), shape=("1024",), stack=(plus,)),
            node(g, 5, "sum_1", "call_method", "sum", "(add)", (4,), shape=(), stack=(four,)),
            node(g, 6, "output", "output", "output", "((sum_1,),)", (5,), shape=None, stack=(four,)),
        ),
        dedent(
            """
        def forward(self, L_x_: "f32[1024]"):
            l_x_ = L_x_
            sin: "f32[1024]" = torch.sin(l_x_)
            mul: "f32[1024]" = sin * 2.0;  sin = None
            relu: "f32[1024]" = torch.relu(mul);  mul = None
            add: "f32[1024]" = relu + l_x_;  relu = l_x_ = None
            sum_1: "f32[]" = add.sum();  add = None
            return (sum_1,)
        """
        ),
    )
    inference = Graph(
        "0/0.inference",
        "inference",
        (
            node(a, 0, "arg0_1", "placeholder", "arg0_1", "()", shape=("1024",), made_from=(f"{g}.n0",)),
            node(
                a,
                1,
                "sin",
                "call_function",
                "aten.sin.default",
                "(arg0_1)",
                (0,),
                shape=("1024",),
                made_from=(f"{g}.n1",),
            ),
            node(
                a,
                2,
                "mul",
                "call_function",
                "aten.mul.Tensor",
                "(sin, 2.0)",
                (1,),
                shape=("1024",),
                made_from=(f"{g}.n2",),
            ),
            node(
                a,
                3,
                "relu",
                "call_function",
                "aten.relu.default",
                "(mul)",
                (2,),
                shape=("1024",),
                made_from=(f"{g}.n3",),
            ),
            node(
                a,
                4,
                "add",
                "call_function",
                "aten.add.Tensor",
                "(relu, arg0_1)",
                (3, 0),
                shape=("1024",),
                made_from=(f"{g}.n4",),
            ),
            node(a, 5, "sum_1", "call_function", "aten.sum.default", "(add)", (4,), shape=(), made_from=(f"{g}.n5",)),
            node(a, 6, "output", "output", "output", "((sum_1,),)", (5,), shape=None),
        ),
        dedent(
            """
        def forward(self, arg0_1):
            sin = torch.ops.aten.sin.default(arg0_1)
            mul = torch.ops.aten.mul.Tensor(sin, 2.0);  sin = None
            relu = torch.ops.aten.relu.default(mul);  mul = None
            add = torch.ops.aten.add.Tensor(relu, arg0_1);  relu = arg0_1 = None
            sum_1 = torch.ops.aten.sum.default(add);  add = None
            return (sum_1,)
        """
        ),
    )
    compiled = CompiledGraph(
        "inductor",
        (inference,),
        (
            Buffer(
                "0/0.b0",
                "buf0",
                "pointwise",
                ("1024",),
                "float32",
                "for x0 in 1024:\n  buf0[x0] = relu(sin(arg0_1[x0]) * 2.0) + arg0_1[x0]",
                tuple(f"{a}.n{each}" for each in (1, 2, 3, 4)),
            ),
            Buffer("0/0.b1", "buf1", "reduction", (), "float32", "for r0 in 1024:\n  buf1[] += buf0[r0]", (f"{a}.n5",)),
        ),
        (FusionDecision("buf0", "buf1", True, "buf1 reads buf0 in the same order: one loop, buf0 is never stored"),),
        (
            Kernel(
                "0/0.k0",
                "kernel0",
                "cpp",
                SIMPLE_KERNEL,
                ("buf0", "buf1"),
                tuple(f"{a}.n{each}" for each in range(1, 6)),
                (
                    KernelLine(6, (f"{a}.n0",)),
                    KernelLine(7, (f"{a}.n1",)),
                    KernelLine(8, (f"{a}.n2",)),
                    KernelLine(9, (f"{a}.n3",)),
                    KernelLine(10, (f"{a}.n4",)),
                    KernelLine(11, (f"{a}.n5",)),
                    KernelLine(13, (f"{a}.n5",)),
                ),
            ),
        ),
        dedent(
            """
            def call(arg0_1):
                buf1 = empty((), float32)
                kernel0(arg0_1, buf1, 1024)
                return (buf1,)
            """
        ),
    )
    guards = (
        tensor_guard("0/0", 0, "x", "1024", (two,)),
        Guard("0/0.g1", "EQUALS_MATCH", "L['scale']", "L['scale'] == 2.0", "scale equals 2.0", (two,)),
        Guard(
            "0/0.g2",
            "ID_MATCH",
            "G['torch'].sin",
            "___check_obj_id(G['torch'].sin, ..), type=<class 'builtin_function_or_method'>",
            "torch.sin is the very object <built-in method sin of type object>",
            (two,),
        ),
        *global_guards("0/0", 3),
    )
    return CompiledFrame(
        "0/0",
        "f",
        FILE,
        1,
        SIMPLE_SOURCE,
        "compiled",
        "first call",
        graph=captured,
        compiled_graph=compiled,
        guards=guards,
        residual=dedent(
            """
            def f(x, scale):
                graph_out_0 = __compiled_fn_0(x)
                return graph_out_0[0]
            """
        ),
        instructions=instructions(SIMPLE_BYTECODE),
        residual_instructions=instructions(SIMPLE_RESIDUAL),
    )


SIMPLE_BYTECODE = """
1 0 RESUME 0
2 2 LOAD_GLOBAL torch
2 14 LOAD_ATTR sin
2 20 LOAD_FAST x
2 22 CALL 1
2 30 LOAD_FAST scale
2 32 BINARY_OP *
2 36 STORE_FAST y
3 38 LOAD_GLOBAL torch
3 50 LOAD_ATTR relu
3 56 LOAD_FAST y
3 58 CALL 1
3 66 LOAD_FAST x
3 68 BINARY_OP +
3 72 STORE_FAST z
4 74 LOAD_FAST z
4 76 LOAD_METHOD sum
4 96 CALL 0
4 104 RETURN_VALUE
"""
SIMPLE_RESIDUAL = """
1 0 RESUME 0
1 2 PUSH_NULL
1 4 LOAD_CONST __compiled_fn_0
1 6 LOAD_FAST x
1 8 CALL 1
1 16 STORE_FAST graph_out_0
1 18 LOAD_FAST graph_out_0
1 20 LOAD_CONST 0
1 22 BINARY_SUBSCR
1 32 RETURN_VALUE
"""


def simple() -> Record:
    """One function, one graph, one kernel."""
    timings = (
        Timing("0/0", "trace", 0.0041),
        Timing("0/0", "aot", 0.0187),
        Timing("0/0", "lower", 0.0031),
        Timing("0/0", "schedule", 0.0009),
        Timing("0/0", "codegen", 0.0012),
        Timing("0/0", "build", 0.2210),
    )
    return Record("f", ENVIRONMENT, (simple_frame(),), timings)


# --- a graph break with a resume function ----------------------------------------------------------------------------

SAVE_SOURCE = dedent(
    """
    def f(x):
        y = x ** 2 / 2
        torch.save(y, "foo.pt")
        z = y ** 3 / 6
        return z
    """
)


def break_of(
    id: str,
    kind: breaks.BreakKind,
    context: str,
    stack: tuple[StackLine, ...],
    reason: str,
    first_seen: str = "",
    **details: str,
) -> Break:
    """A graph break in the words of its kind."""
    broken = breaks.unsupported(kind, context, **details)
    texts = kind.title, broken.explanation(), broken.hints()
    return Break(id, kind.id, *texts, context, stack, reason, kind.gb_id, first_seen)


def save_break() -> Record:
    """``torch.save`` in the middle: two graphs, one break, one resume function."""
    two, three, four = (
        line(2, "f", "y = x ** 2 / 2"),
        line(3, "f", 'torch.save(y, "foo.pt")', 'torch.save(y, "foo.pt")'),
        line(4, "f", "z = y ** 3 / 6"),
    )
    breaking = break_of(
        "0/0.b0",
        breaks.SKIPPED_FUNCTION,
        "module: torch.serialization, qualname: save, skip reason: file I/O",
        (three,),
        "when attempting to trace CALL: a function call",
        name="save",
        file="torch/serialization.py",
    )
    resume = ResumeFunction(
        "torch_dynamo_resume_in_f_at_3",
        3,
        (
            CarriedValue("y", "graph_out_0[0]", "tensor"),
            CarriedValue("___stack0", 'torch.save(y, "foo.pt")', "result of the call"),
        ),
        dedent(
            """
            def torch_dynamo_resume_in_f_at_3(___stack0, y):
                z = y ** 3 / 6
                return z
            """
        ),
    )

    def graph(prefix: str, names: tuple[str, str], argument: str, powers: tuple[int, int], at: StackLine) -> Graph:
        return Graph(
            f"{prefix}.captured",
            "captured",
            (
                node(
                    prefix,
                    0,
                    f"l_{argument}_",
                    "placeholder",
                    f"L_{argument}_",
                    "()",
                    source=f"L['{argument}']",
                    stack=(at,),
                ),
                node(
                    prefix,
                    1,
                    names[0],
                    "call_function",
                    "operator.pow",
                    f"(l_{argument}_, {powers[0]})",
                    (0,),
                    stack=(at,),
                ),
                node(
                    prefix,
                    2,
                    names[1],
                    "call_function",
                    "operator.truediv",
                    f"({names[0]}, {powers[1]})",
                    (1,),
                    stack=(at,),
                ),
                node(prefix, 3, "output", "output", "output", f"(({names[1]},),)", (2,), shape=None),
            ),
            f"def forward(self, L_{argument}_):\n    {names[0]} = L_{argument}_ ** {powers[0]}\n"
            f"    {names[1]} = {names[0]} / {powers[1]}\n    return ({names[1]},)\n",
        )

    first = CompiledFrame(
        "0/0",
        "f",
        FILE,
        1,
        SAVE_SOURCE,
        "compiled",
        "first call",
        graph=graph("0/0", ("pow_1", "truediv"), "x", (2, 2), two),
        guards=(tensor_guard("0/0", 0, "x", "8", (two,)), *global_guards("0/0", 1)),
        breaks=(breaking,),
        resume_functions=(resume,),
        residual=dedent(
            """
            def f(x):
                graph_out_0 = __compiled_fn_0(x)
                y = graph_out_0[0]
                ___stack0 = torch.save(y, "foo.pt")
                return __resume_at_3(___stack0, y)
            """
        ),
    )
    second = CompiledFrame(
        "1/0",
        resume.name,
        FILE,
        1,
        SAVE_SOURCE,
        "compiled",
        "resumed",
        called_from="0/0",
        resumes="0/0",
        graph=graph("1/0", ("pow_1", "truediv"), "y", (3, 6), four),
        guards=(tensor_guard("1/0", 0, "y", "8", (four,)),),
        residual="def torch_dynamo_resume_in_f_at_3(___stack0, y):\n"
        "    graph_out_0 = __compiled_fn_1(y)\n    return graph_out_0[0]\n",
    )
    return Record("f", ENVIRONMENT, (first, second))


# --- a nested break: one cause, six frames ---------------------------------------------------------------------------

NESTED_SOURCES = {
    "inner1": (1, "def inner1(x):\n    x = x + 1\n    torch._dynamo.graph_break()\n    return x + 2\n"),
    "inner2": (6, "def inner2(x):\n    x = x + 4\n    x = inner1(x)\n    return x + 8\n"),
    "f": (11, "def f(x):\n    x = x + 16\n    x = inner2(x)\n    return x + 32\n"),
}


def nested() -> Record:
    """``f -> inner2 -> inner1``, and a break in ``inner1``."""
    calls = {
        "f": line(13, "f", "x = inner2(x)", "inner2(x)"),
        "inner2": line(8, "inner2", "x = inner1(x)", "inner1(x)"),
        "inner1": line(3, "inner1", "torch._dynamo.graph_break()", "torch._dynamo.graph_break()"),
    }
    order = ("f", "inner2", "inner1")
    frames: list[CompiledFrame] = []
    amounts = {"f": (16, 32), "inner2": (4, 8), "inner1": (1, 2)}

    def one_add(prefix: str, amount: int, at: StackLine, argument: str = "x") -> Graph:
        name = argument.strip("_")
        return Graph(
            f"{prefix}.captured",
            "captured",
            (
                node(
                    prefix, 0, f"l_{name}_", "placeholder", f"L_{name}_", "()", source=f"L[{argument!r}]", stack=(at,)
                ),
                node(prefix, 1, "add", "call_function", "operator.add", f"(l_{name}_, {amount})", (0,), stack=(at,)),
                node(prefix, 2, "output", "output", "output", "((add,),)", (1,), shape=None),
            ),
            f"def forward(self, L_{name}_):\n    add = L_{name}_ + {amount}\n    return (add,)\n",
        )

    for depth, function in enumerate(order):
        first_line, source = NESTED_SOURCES[function]
        prefix = f"{depth}/0"
        at = line(first_line + 1, function, source.splitlines()[1].strip())
        breaking = break_of(
            f"{prefix}.b0",
            breaks.GRAPH_BREAK,
            "called with msg=None",
            tuple(calls[each] for each in order[depth:]),
            "when attempting to trace CALL: a function call",
            first_seen="" if depth == 0 else "0/0.b0",
            message="None",
        )
        name = f"torch_dynamo_resume_in_{function}_at_{calls[function].line}"
        frames.append(
            CompiledFrame(
                prefix,
                function,
                FILE,
                first_line,
                source,
                "compiled",
                "first call",
                called_from=f"{depth - 1}/0" if depth else "",
                graph=one_add(prefix, amounts[function][0], at),
                guards=(tensor_guard(prefix, 0, "x", "8", (at,)),),
                breaks=(breaking,),
                resume_functions=(
                    ResumeFunction(
                        name,
                        calls[function].line,
                        (CarriedValue("___stack0", calls[function].code.split("= ")[-1], "result of the call"),),
                        f"def {name}(___stack0):\n    x = ___stack0\n    {source.splitlines()[3].strip()}\n",
                    ),
                ),
                residual=f"def {function}(x):\n    graph_out_0 = __compiled_fn_{depth}(x)\n    x = graph_out_0[0]\n"
                f"    ___stack0 = {calls[function].code.split('= ')[-1]}\n"
                f"    return __resume_at_{calls[function].line}(___stack0)\n",
                inlined=tuple(f"{each} ({FILE}:{NESTED_SOURCES[each][0]})" for each in order[depth + 1 :]),
            )
        )
    for index, function in enumerate(reversed(order), 3):
        first_line, source = NESTED_SOURCES[function]
        prefix, parent = f"{index}/0", f"{5 - index}/0"
        at = line(first_line + 3, function, source.splitlines()[3].strip())
        name = f"torch_dynamo_resume_in_{function}_at_{calls[function].line}"
        frames.append(
            CompiledFrame(
                prefix,
                name,
                FILE,
                first_line,
                source,
                "compiled",
                "resumed",
                called_from=parent,
                resumes=parent,
                graph=one_add(prefix, amounts[function][1], at, "x" if index == 3 else "___stack0"),
                guards=(tensor_guard(prefix, 0, "x" if index == 3 else "___stack0", "8", (at,)),),
                residual=f"def {name}(___stack0):\n"
                f"    graph_out_0 = __compiled_fn_{index}(___stack0)\n    return graph_out_0[0]\n",
            )
        )
    return Record("f", ENVIRONMENT, tuple(frames))


# --- recompiles, skips, failures --------------------------------------------------------------------------------------


def recompiled() -> Record:
    """A second shape, then a third: static, then dynamic, then a flag that changed."""
    first = simple_frame()
    stack = (line(2, "f", "y = torch.sin(x) * scale", "torch.sin(x)"),)

    def retag(frame: CompiledFrame, compile_id: str, scale_is_input: bool) -> CompiledFrame:
        assert frame.graph is not None
        x, sin, *others = (
            replace(each, shape=None if each.shape is None else tuple("s77" for _ in each.shape))
            for each in frame.graph.nodes
        )
        symbol = node(compile_id, 0, "s77", "placeholder", "s77", "()", shape=None, stack=x.stack)
        nodes = [symbol, x, sin, *others]
        if scale_is_input:
            scale = node(compile_id, 0, "l_scale_", "placeholder", "L_scale_", "()", shape=(), stack=x.stack)
            item = node(compile_id, 0, "item", "call_method", "item", "(l_scale_)", shape=None, stack=sin.stack)
            mul, *rest = others
            mul = replace(mul, arguments="(sin, item)", inputs=(*mul.inputs, item.name))
            nodes = [symbol, x, scale, sin, replace(item, inputs=(scale.name,)), mul, *rest]
        names = {each.id: each.name for each in frame.graph.nodes}
        ids = {each.name: f"{compile_id}.n{index}" for index, each in enumerate(nodes)}
        numbered = tuple(
            replace(each, id=ids[each.name], inputs=tuple(ids[names.get(source, source)] for source in each.inputs))
            for each in nodes
        )
        graph = replace(frame.graph, id=f"{compile_id}.captured", nodes=numbered)
        guards = tuple(replace(each, id=each.id.replace("0/0", compile_id)) for each in frame.guards)
        passed = "(x.size(0), x, __as_tensor(scale))" if scale_is_input else "(x.size(0), x)"
        residual = frame.residual.replace("(x)\n", f"{passed}\n")
        return replace(
            frame, id=compile_id, graph=graph, guards=guards, residual=residual, compiled_graph=None, cause="recompiled"
        )

    second = replace(
        retag(first, "0/1", scale_is_input=False),
        failed_guards=(
            FailedGuard("0/0", "tensor 'x' size mismatch at index 0. expected 1024, actual 2048", "0/0.g0", stack),
        ),
    )
    third = replace(
        retag(first, "0/2", scale_is_input=True),
        failed_guards=(
            FailedGuard("0/1", "scale == 2.0", "0/1.g1", stack, "2.0", "3.0"),
            FailedGuard("0/0", "tensor 'x' size mismatch at index 0. expected 1024, actual 2048", "0/0.g0", stack),
        ),
    )
    return Record("f", ENVIRONMENT, (first, second, third))


LOOP_SOURCE = "def loop(x):\n    for step in range(3):\n        print(x.sum().item())\n    return x\n"


def skipped() -> Record:
    """A frame that runs eagerly as a whole, and one whose compilation failed."""
    at = line(3, "loop", "print(x.sum().item())", "x.sum().item()")
    breaking = break_of(
        "0/0.b0",
        breaks.LOOP,
        "frame skipped: loop (cell_3.py line 1)",
        (at,),
        "when attempting to trace CALL: a function call",
    )
    return Record(
        "loop",
        ENVIRONMENT,
        (
            CompiledFrame(
                "0/0",
                "loop",
                FILE,
                1,
                LOOP_SOURCE,
                "skipped",
                "first call",
                breaks=(breaking,),
                skip_reason="graph break: graph break in loop",
                instead=EAGER,
            ),
            CompiledFrame(
                "1/0",
                "helper",
                FILE,
                6,
                "def helper(x):\n    return x.frobnicate()\n",
                "failed",
                "first call",
                called_from="0/0",
                skip_reason="internal error of nbcompile: RuntimeError: no lowering for prims.frobnicate",
                instead=EAGER,
            ),
        ),
    )


STEP_SOURCE = "def step(self, x):\n    self.count += 1\n    return x @ self.weight\n"


def mutating() -> Record:
    """Side effects that are replayed, and graphs that run through ATen."""
    two, three = line(2, "step", "self.count += 1"), line(3, "step", "return x @ self.weight")
    graph = Graph(
        "0/0.captured",
        "captured",
        (
            node("0/0", 0, "l_x_", "placeholder", "L_x_", "()", source="L['x']", shape=("4", "8"), stack=(three,)),
            node(
                "0/0",
                1,
                "l_self_weight",
                "placeholder",
                "L_self_weight",
                "()",
                source="L['self'].weight",
                shape=("8", "2"),
                stack=(three,),
            ),
            node(
                "0/0",
                2,
                "matmul",
                "call_function",
                "operator.matmul",
                "(l_x_, l_self_weight)",
                (0, 1),
                shape=("4", "2"),
                stack=(three,),
            ),
            node("0/0", 3, "output", "output", "output", "((matmul,),)", (2,), shape=None),
        ),
        "def forward(self, L_x_, L_self_weight):\n    return (L_x_ @ L_self_weight,)\n",
    )
    frame = CompiledFrame(
        "0/0",
        "step",
        FILE,
        1,
        STEP_SOURCE,
        "compiled",
        "first call",
        graph=graph,
        compiled_graph=CompiledGraph(
            "inductor",
            kernels=(
                Kernel(
                    "0/0.k0", "aten.mm", "aten", "", (), ("0/0.n2",), (), "a matrix product: ATen's is the faster one"
                ),
            ),
            notes=("no C++ compiler was found: the graph runs through ATen",),
        ),
        guards=(
            Guard("0/0.g0", "EQUALS_MATCH", "L['self'].count", "L['self'].count == 0", "self.count equals 0", (two,)),
        ),
        mutations=(Mutation("SetAttribute", "self", "self.count = 1", (two,)),),
        residual="def step(self, x):\n"
        "    graph_out_0 = __compiled_fn_0(x, self.weight)\n    self.count = 1\n    return graph_out_0[0]\n",
    )
    return Record("step", ENVIRONMENT, (frame,))


def empty() -> Record:
    """Nothing was compiled."""
    return Record("f")


def long_chain(length: int) -> Record:
    """A graph of many operators over few lines, as a model in a loop gives."""
    source = "def chain(x):\n    for block in blocks:\n        x = x + 1\n        x = torch.relu(x)\n    return x\n"
    lines = (line(3, "chain", "x = x + 1"), line(4, "chain", "x = torch.relu(x)"))
    nodes = [node("0/0", 0, "l_x_", "placeholder", "L_x_", "()", source="L['x']", stack=(lines[0],))]
    nodes += [
        node(
            "0/0",
            index,
            f"x_{index}",
            "call_function",
            ("torch.relu", "operator.add")[index % 2],
            f"(x_{index - 1})",
            (index - 1,),
            stack=(lines[1 - index % 2],),
        )
        for index in range(1, length)
    ]
    nodes.append(node("0/0", length, "output", "output", "output", f"((x_{length - 1},),)", (length - 1,), shape=None))
    code = "def forward(self, L_x_):\n" + "".join(f"    x_{index} = op(x_{index - 1})\n" for index in range(1, length))
    graph = Graph("0/0.captured", "captured", tuple(nodes), code)
    guards = tuple(tensor_guard("0/0", index, f"blocks[{index}]", "8", lines[:1]) for index in range(length // 10))
    return Record(
        "chain",
        ENVIRONMENT,
        (CompiledFrame("0/0", "chain", FILE, 1, source, "compiled", "first call", graph=graph, guards=guards),),
    )


ALL = {
    "simple": simple,
    "save_break": save_break,
    "nested": nested,
    "recompiled": recompiled,
    "skipped": skipped,
    "mutating": mutating,
    "empty": empty,
}
