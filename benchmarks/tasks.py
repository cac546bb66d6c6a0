"""The measurements: each task runs in a process of its own and tells its results line by line.

A crash of one (generated code may do anything) costs that task only, and the
lines that were told before it are kept.

    python -m benchmarks.tasks '{"task": "kernel", "plan": [["softmax", [64, 1024]]], ...}'

Read next: benchmarks/__main__.py
"""

from __future__ import annotations

import functools
import importlib
import json
import logging
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch

from benchmarks import stream, timing, workloads

MARK = "RESULT "
TORCH = "torch.compile"
OURS = "nbcompile"
MODULES = {TORCH: "torch", OURS: "nbcompile"}
"""Where the ``compile`` of each is."""


def tell(group: str, name: str, compiler: str, value: float | None, unit: str, failure: str = "", **more: Any) -> None:
    """One result, as one line that the parent process reads."""
    row = {"group": group, "name": name, "compiler": compiler, "value": value, "unit": unit, "failure": failure, **more}
    print(MARK + json.dumps(row), flush=True)


def compiled(compiler: str, function: Any, **options: Any) -> Any:
    """The function as a compiler runs it. Importing the compiler is part of its first use."""
    if compiler == "eager":
        return function
    module = importlib.import_module(MODULES[compiler])
    return module.compile(function, **options)


def tried(group: str, name: str, compiler: str, unit: str, action: Callable[[], Any]) -> Any:
    """The action's value; a failure is told, and None is returned."""
    try:
        return action()
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).strip().partition("\n")[0][:160]
        tell(group, name, compiler, None, unit, f"{type(error).__name__}: {text} ({last.name}, line {last.lineno})")
        return None


def start(job: dict[str, Any]) -> None:
    """First call of a function in a fresh process, then of another new function; what a call adds to the process."""
    compiler, label, phase = job["compiler"], job["label"], job["phase"]
    now = time.perf_counter
    for index, name in enumerate(job["workloads"]):
        group = phase if index == 0 else "second new function"
        if index and phase != "cold start":
            continue
        program = workloads.fresh(workloads.PROGRAMS[name])
        own = set(sys.modules)  # torch.optim imports torch's compiler itself
        began, began_cpu = now(), _cpu_seconds()
        result = tried(group, name, label, "s", lambda: program.called(compiled(compiler, program.function))())  # noqa: B023
        took, took_cpu = now() - began, _cpu_seconds() - began_cpu
        if compiler == OURS and phase == "warm start":
            _tell_store(name, label, sys.modules.keys() - own)
        if result is None:
            continue
        tell(group, name, label, took, "s")
        tell(f"{group}, CPU time", name, label, took_cpu, "s")
        if index == 0:
            tell(f"peak memory, {phase}", name, label, _peak_megabytes(), "MB")
        _assert_close(result, workloads.fresh(workloads.PROGRAMS[name]))


def _assert_close(result: Any, twin: workloads.Program, calls: int = 1) -> None:
    """Compare with eager, after as many calls of a program's twin."""
    for _ in range(calls):
        expected = twin.called(twin.function)()
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _tell_store(name: str, label: str, imported: set[str]) -> None:
    """What a warm process is left with: nothing of the compiler is imported, and how much the store takes."""
    compiling = {"torch._dynamo", "sympy", "nbcompile.tracing.tracer", "nbcompile.lowering", "nbcompile.codegen"}
    size = importlib.import_module("nbcompile.fast.disk_cache.storage").size() / 1e3
    tell(
        "what a warm process needs",
        f"{name}, parts of the compiler that were imported",
        label,
        float(len(compiling & imported)),
        "",
    )
    tell("what a warm process needs", f"{name}, the store's size", label, size, "kB")


def _cpu_seconds() -> float:
    # With its children's: compilers of C++ are processes. Unlike the wall's, it does not grow with the machine's load.
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def kernel(job: dict[str, Any]) -> None:
    """Time of one call of the sixteen programs."""
    for name in job["workloads"]:
        _race("kernels", name, job, functools.partial(_prepared, make=workloads.PROGRAMS[name]))


def sized(job: dict[str, Any]) -> None:
    """Time of one call, by program and size."""
    for name, size in job["plan"]:
        make = functools.partial(workloads.SIZED[name].make, *size)
        label = f"{name} {'x'.join(map(str, size))}"
        _race("kernels by size", label, job, functools.partial(_prepared, make=make))


def _prepared(compiler: str, make: Callable[[], workloads.Program]) -> Callable[[], Any]:
    """A program of its own for one candidate, whose first three results are eager's."""
    program = workloads.fresh(make)
    call = program.called(compiled(compiler, program.function))
    for _ in range(2):
        call()
    if compiler != "eager":
        _assert_close(call(), workloads.fresh(make), calls=3)
    return call


def bandwidth(job: dict[str, Any]) -> None:
    """Bytes that programs on large tensors must move, against what STREAM's triad moves in the same rounds."""
    triad = stream.triad(job["threads"])
    for name, (make, moved) in workloads.BANDWIDTH.items():
        calls = {compiler: _prepared(compiler, make) for compiler in job["compilers"]}
        least = timing.best({**calls, "triad": triad}, job["rounds"])
        rate = stream.BYTES / least.pop("triad")
        for compiler, seconds in least.items():
            tell("bandwidth at 128 MiB, of STREAM triad", name, compiler, moved / seconds / rate, "")
        tell("STREAM triad beside it, GB/s", name, OURS, rate / 1e9, "")


def passes(job: dict[str, Any]) -> None:
    """Time of the compiler's own passes over a large graph: its CPU time without that of the C++ compilers."""
    compiler = job["compiler"]
    warm = workloads.fresh(workloads.PROGRAMS["10-op chain, 1e3"])
    warm.called(compiled(compiler, warm.function))()
    for count in job["counts"]:
        program = workloads.many_nodes(count)
        began, began_wall = time.process_time(), time.perf_counter()
        result = program.called(compiled(compiler, program.function))()
        took, took_wall = time.process_time() - began, time.perf_counter() - began_wall
        name = f"{count} nodes, pointwise and reductions"
        tell("own passes, CPU time without the C++ compiler", name, compiler, took, "s")
        tell("the same compiled, in all", name, compiler, took_wall, "s")
        torch.testing.assert_close(result, program.function(*program.arguments), rtol=1e-3, atol=1e-3)


def per_call(job: dict[str, Any]) -> None:
    """Time of one call of a graph too small to matter."""
    function, arguments = workloads.three_ops()
    _race("per call", "3 operators, 4 elements", job, lambda compiler: _checked(compiler, function, arguments))
    function, arguments = workloads.three_ops()
    learning = tuple(argument.requires_grad_() for argument in arguments)
    _race("per call", "the same, requires_grad", job, lambda compiler: _checked(compiler, function, learning))


def guards(job: dict[str, Any]) -> None:
    """Time of a call whose graph does nothing: guards and the residual program."""
    for count in job["counts"]:
        net, arguments = workloads.linear_layers(count)
        contestants = [each for each in job["compilers"] if each != "eager"]
        prepare = functools.partial(_without_arithmetic, net=net, arguments=arguments)
        _race("guards", f"{count} Linear layers, empty graph", {**job, "compilers": contestants}, prepare)


def _without_arithmetic(compiler: str, net: Any, arguments: Any) -> Callable[[], Any]:
    result = net(*arguments)
    graphs = []

    def nothing(module: Any, examples: Any) -> Any:
        graphs.append(module)
        return lambda *_: (result,)

    call = _called(compiled(compiler, net, backend=nothing), arguments)
    if len(graphs) != 1:
        raise RuntimeError(f"{len(graphs)} graphs were compiled in place of one")
    return call


def nested(job: dict[str, Any]) -> None:
    """One break at the bottom of a chain of calls: graphs, tracing time, time of a call.

    Graphs that run as captured take as long as eager does, whatever calls them. So a call is measured twice more: with
    the graphs left out (what they returned at first is returned again), and with the graphs compiled.
    """
    for depth in job["depths"]:
        columns: dict[str, Callable[[], Any]] = {}
        for column in job["compilers"]:
            function, arguments = workloads.nested_break(depth)
            graphs: list[Any] = []

            def count(module: Any, examples: Any, graphs: list[Any] = graphs) -> Any:
                graphs.append(module)
                return module.forward

            def first(
                column: str = column, function: Any = function, arguments: Any = arguments, count: Any = count
            ) -> Any:
                call = compiled(column, function, backend=count) if column != "eager" else function
                expected = function(*arguments)
                began = time.perf_counter()
                result = call(*arguments)
                took = time.perf_counter() - began
                torch.testing.assert_close(result, expected)
                return took, lambda: call(*arguments)

            group = f"nested break, depth {depth}"
            got = tried(group, "first call, graphs as captured", column, "s", first)
            if got is None:
                continue
            took, columns[column] = got
            if column != "eager":
                tell(group, "graphs", column, len(graphs), "")
                tell(group, "first call, graphs as captured", column, took, "s")
        for column, seconds in timing.best(columns, job["rounds"]).items():
            tell(f"nested break, depth {depth}", "per call", column, seconds, "s")
        for what, backend in (("graphs left out", replaying), ("graphs compiled", None)):
            calls = {column: _nested_call(column, depth, backend) for column in job["compilers"] if column != "eager"}
            for column, seconds in timing.best(calls, job["rounds"]).items():
                tell(f"nested break, depth {depth}", f"per call, {what}", column, seconds, "s")


def replaying(module: Any, examples: Any) -> Any:
    """A backend that computes nothing after the first call: what is left is the compiler's own part."""
    outputs = module(*examples)
    return lambda *arguments: outputs


def _nested_call(column: str, depth: int, backend: Any) -> Callable[[], Any]:
    function, arguments = workloads.nested_break(depth)
    call = compiled(column, function, **({} if backend is None else {"backend": backend}))
    call(*arguments)
    return lambda: call(*arguments)


def training(job: dict[str, Any]) -> None:
    """Forward, backward and clearing the gradients of a small network."""
    for width, batch in job["sizes"]:
        net, loss, arguments = workloads.mlp(width, batch)
        parameters = list(net.parameters())

        def step_of(compiler: str) -> Callable[[], Any]:
            call = compiled(compiler, loss)  # noqa: B023

            def step() -> Any:
                for parameter in parameters:  # noqa: B023
                    parameter.grad = None
                call(*arguments).backward()  # noqa: B023
                return parameters[0].grad  # noqa: B023

            expected, *_ = torch.autograd.grad(loss(*arguments), parameters)  # noqa: B023
            torch.testing.assert_close(step(), expected, rtol=1e-4, atol=1e-5)
            return step

        _race("training step", f"3-layer MLP, width {width}, batch {batch}", job, step_of)


def capture(job: dict[str, Any]) -> None:
    """Graphs, call nodes and seconds of capturing real models, and the error against eager."""
    models = importlib.import_module("benchmarks.models")  # and with it transformers, which the other tasks do without
    capturing = importlib.import_module("benchmarks.capture")
    compiler = job["compiler"]
    module = MODULES[compiler]
    capturing.warm_up(module)
    for name in job["models"]:
        for learning in (False, True) if name in models.LEARNING else (False,):
            label = f"{name}, forward and backward" if learning else name
            found = tried(
                "capture: to the graph", label, compiler, "s",
                lambda: capturing.capture(module, models.MODELS[name], learning=learning),  # noqa: B023
            )  # fmt: skip
            capturing.forget(module)
            if found is not None:
                nodes = found["nodes"]
                tell("capture: to the graph", label, compiler, found["to graph"], "s")
                tell("capture: with guards and program", label, compiler, found["in all"], "s")
                tell("capture: graphs", label, compiler, found["graphs"], "")
                tell("capture: call nodes", label, compiler, nodes.total(), "", detail=nodes)
                tell("capture: greatest relative error", label, compiler, found["error"], "")


def running(job: dict[str, Any]) -> None:
    """Outputs and gradients of real models against eager, the share of generated code, the time of a call."""
    sizes = importlib.import_module("benchmarks.larger").SIZES  # and with it transformers, which the others do without
    for name in job["models"]:
        for learning in (False, True):
            _run_model(job, sizes[job["size"]][name], learning)


def _run_model(job: dict[str, Any], model: Any, learning: bool) -> None:
    run = importlib.import_module("benchmarks.running")
    group, label = f"models: {'training step' if learning else 'inference'}", f"{model.kind}, {job['size']}"
    module, inputs = run.prepared(model, learning=learning)
    step = functools.partial(run.step, module=module, inputs=inputs, learning=learning)
    expected = step(module)

    def prepare(compiler: str) -> Callable[[], Any]:
        once = functools.partial(step, compiled(compiler, module))
        found, result = run.share(once)
        run.check(result, expected)
        if compiler == OURS:
            by_aten, name = found.by_aten.total(), f"{label}, {group}"
            tell("models: generated call nodes, in a hundred", name, OURS, found.percent(), "")
            tell("models: call nodes", name, OURS, found.nodes, "")
            tell("models: of these run by ATen", name, OURS, by_aten, "", operators=dict(found.by_aten))
        if compiler != "eager":
            tell("models: greatest relative error", f"{label}, {group}", compiler, run.error(result, expected), "")
        run.check(once(), expected)
        return once

    _race(group, label, job, prepare)


def _race(group: str, name: str, job: dict[str, Any], prepare: Callable[[str], Callable[[], Any]]) -> None:
    ready = {}
    for compiler in job["compilers"]:
        call = tried(group, name, compiler, "s", lambda: prepare(compiler))  # noqa: B023
        if call is not None:
            ready[compiler] = call
    for compiler, seconds in timing.best(ready, job["rounds"]).items():
        tell(group, name, compiler, seconds, "s")


def _checked(compiler: str, function: Any, arguments: Any) -> Callable[[], Any]:
    call = compiled(compiler, function)
    torch.testing.assert_close(call(*arguments), function(*arguments), rtol=1e-4, atol=1e-5)
    return _called(call, arguments)


def _called(call: Any, arguments: Any) -> Callable[[], Any]:
    call(*arguments)
    if len(arguments) == 1:  # no cost of unpacking beside the call
        (only,) = arguments
        return lambda: call(only)
    first, second = arguments
    return lambda: call(first, second)


def gpu_build(job: dict[str, Any]) -> None:
    """What it costs to build fifty kernels for a GPU; a process for each compiler, and for each start."""
    figures = importlib.import_module("benchmarks.gpu.builds").measured(job)
    for name, value in figures.items():
        unit = "" if name.startswith(("kernels", "compiled", "parts")) else "s"
        tell(f"fifty kernels for a GPU: {job['phase']}", name, job["compiler"], value, unit)


TASKS = {
    "gpu_build": gpu_build,
    "start": start,
    "kernel": kernel,
    "sized": sized,
    "bandwidth": bandwidth,
    "passes": passes,
    "per_call": per_call,
    "guards": guards,
    "nested": nested,
    "training": training,
    "capture": capture,
    "running": running,
}


def main() -> None:
    """Run the task that the command line describes."""
    job = json.loads(sys.argv[1])
    warnings.simplefilter("ignore")
    warnings.filterwarnings("error", message="nbcompile failed")  # eager's time must not pass for ours
    logging.disable(logging.WARNING)
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    if job.get("nested_graph_breaks"):
        importlib.import_module("torch._dynamo.config").nested_graph_breaks = True
    TASKS[job["task"]](job)


if __name__ == "__main__":
    main()
