"""Every operator that torch describes, run eagerly and compiled: the same results, and the same gradients.

    python -m tests.opinfo.harness                        all operators, float32, forward and backward
    python -m tests.opinfo.harness --dtype int64 amax sum     two of them, integers, forward
    python -m tests.opinfo.harness --compiler torch --backend aot_eager    the peer in the same harness

torch's operator database (``op_db``) has sample inputs for each operator and
dtype. A case is one operator; it passes if each of its first samples, compiled
with ``fullgraph=True``, gives what eager gives. The sweep runs in worker
processes, so that a crash costs one operator and is counted.

In torch: test/inductor/test_torchinductor_opinfo.py. Read next: tests/opinfo/results.py
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import torch
import torch.utils._pytree as pytree

import nbcompile
from tests.opinfo import results
from tests.opinfo.results import Outcome

TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 4e-2, torch.complex64: 2e-3}
"""Relative and absolute; 2e-3 otherwise."""

UNDEFINED_VALUES = frozenset(
    "empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_".split()
)
"""The elements of their results mean nothing: facts are compared, values are not."""

RANDOM = (
    "bernoulli multinomial normal rand randn randint uniform cauchy exponential geometric log_normal dropout rrelu "
    "fractional_max_pool scaled_dot_product_attention.dropout svd_lowrank pca_lowrank"
).split()
"""Random numbers are the code generator's own: parts of names."""


def is_random(name: str) -> bool:
    return any(part in name for part in RANDOM)


def database() -> dict[str, Any]:
    """OpInfo by full name (``std.unbiased``), in torch's order."""
    from torch.testing._internal.common_methods_invocations import op_db  # noqa: PLC0415 - half a second

    return {full_name(each): each for each in op_db}


def full_name(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def compiler(which: str, backend: str, **options: bool) -> Callable[[Any], Any]:
    """A function that compiles with these options: with ``**WHOLE`` one graph of constant sizes, or an error."""
    compile_it: Any = nbcompile.compile if which == "nbcompile" else torch.compile
    return lambda function: compile_it(function, backend=backend, **options)


WHOLE = {"fullgraph": True, "dynamic": False}


def outcome(info: Any, dtype: torch.dtype, backward: bool, compile_it: Callable[[Any], Any], limit: int = 3) -> Outcome:
    """Run one operator's samples in eager mode and compiled."""
    count = 0
    try:
        for sample in _samples(info, dtype, backward, limit):
            found = _disagreement(info, sample, dtype, backward, compile_it)
            if found is None:
                continue
            count += 1
            if found:
                return Outcome(full_name(info), "differs", count, found)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this case's outcome
        return Outcome(full_name(info), "error", count, _short(error))
    finally:
        nbcompile.reset()
    return Outcome(full_name(info), "passed" if count else "no sample", count)


def _short(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" [{last[0].filename.rsplit('/', 2)[-1]}:{last[0].lineno}]" if last else ""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' | '.join(lines[:3])[:400]}{place}"


def _samples(info: Any, dtype: torch.dtype, backward: bool, limit: int) -> Iterator[Any]:
    torch.manual_seed(0)
    if dtype not in (info.supported_backward_dtypes("cpu") if backward else info.supported_dtypes("cpu")):
        return
    if backward and not info.supports_autograd:
        return
    yield from itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=backward), limit)


def _disagreement(
    info: Any, sample: Any, dtype: torch.dtype, backward: bool, compile_it: Callable[[Any], Any]
) -> str | None:
    """ "" if they agree, None if eager itself rejects the sample."""

    def function(*arguments: Any, **keywords: Any) -> Any:
        return operator(*arguments, **keywords)

    operator = info.get_op()
    # A separate code object: the store has few entries for each code, and operators would evict one another's.
    function.__code__ = function.__code__.replace(co_name=full_name(info), co_qualname=full_name(info))
    try:
        expected = _observed(function, sample, backward, info)
    except Exception:  # noqa: BLE001 - not a sample for this
        return None
    found = _observed(compile_it(function), sample, backward, info)
    values = not (is_random(full_name(info)) or info.name in UNDEFINED_VALUES)
    return _compared(expected, found, TOLERANCE.get(dtype, 2e-3), values)


def _observed(function: Callable[..., Any], sample: Any, backward: bool, info: Any) -> list[Any]:
    """Results, arguments afterwards, and gradients of one call."""
    arguments = pytree.tree_map(_copied, (sample.input, *sample.args))
    keywords = pytree.tree_map(_copied, dict(sample.kwargs))
    torch.manual_seed(1)
    result = function(*arguments, **keywords)
    seen = [*pytree.tree_leaves(result), *_tensors((arguments, keywords))]
    if not backward:
        return seen
    processed = sample.output_process_fn_grad(result)
    outputs = [each for each in _tensors(processed) if each.requires_grad]
    inputs = [each for each in _tensors((arguments, keywords)) if each.requires_grad]
    if outputs and inputs:
        ones = [torch.full_like(each, 0.5) for each in outputs]
        seen += torch.autograd.grad(outputs, inputs, ones, allow_unused=True)
    return seen


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [each for each in pytree.tree_leaves(tree) if isinstance(each, torch.Tensor)]


def _copied(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copy = value.detach().clone()
    if copy.stride() != value.stride() and copy.layout == torch.strided:
        copy = value.detach().as_strided(value.size(), value.stride(), value.storage_offset())
    return copy.requires_grad_(value.requires_grad)


def _compared(expected: list[Any], found: list[Any], tolerance: float, values: bool) -> str:
    if len(expected) != len(found):
        return f"{len(found)} values, not {len(expected)}"
    for place, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        if not isinstance(wanted, torch.Tensor):
            if values and wanted != got and not (wanted != wanted and got != got):
                return f"value {place}: {got!r}, not {wanted!r}"
            continue
        if not isinstance(got, torch.Tensor):
            return f"value {place}: {type(got).__name__}, not a tensor"
        facts = [(each.dtype, tuple(each.shape), each.requires_grad) for each in (wanted, got)]
        if facts[0] != facts[1]:
            return f"value {place}: {facts[1]}, not {facts[0]}"
        if values:
            with contextlib.suppress(NotImplementedError):
                try:
                    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
                except AssertionError as error:
                    return f"value {place}: {' | '.join(str(error).splitlines()[:4])}"
    return ""


# --- the sweep ---------------------------------------------------------------------------------------------------------


def sweep(names: list[str], arguments: argparse.Namespace) -> Iterator[Outcome]:
    """All outcomes, from workers that are restarted after a crash or a hang."""
    left = list(names)
    while left:
        command = [sys.executable, "-m", "tests.opinfo.harness", "--worker", *_options(arguments), *left]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as worker:
            assert worker.stdout
            for line in worker.stdout:
                if line.startswith("{"):
                    each = Outcome(**json.loads(line))
                    left.remove(each.name)
                    yield each
        if left and worker.returncode:
            yield Outcome(left.pop(0), "crash", 0, f"the worker ended with {worker.returncode}")


def _options(arguments: argparse.Namespace) -> list[str]:
    options = ["--compiler", arguments.compiler, "--backend", arguments.backend, "--dtype", arguments.dtype]
    return [*options, "--samples", str(arguments.samples), *(["--backward"] if arguments.backward else [])]


def _work(arguments: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    run(arguments, compiler(arguments.compiler, arguments.backend, **WHOLE))


def run(arguments: argparse.Namespace, compile_it: Callable[[Any], Any]) -> None:
    """Print the outcome of each operator that is named (of all, if none is), as a line of JSON."""
    infos, dtype = database(), getattr(torch, arguments.dtype)
    for name in arguments.names or infos:
        found = outcome(infos[name], dtype, arguments.backward, compile_it, arguments.samples)
        if arguments.compiler == "torch":
            torch.compiler.reset()
        print(json.dumps(asdict(found)), flush=True)


def parser(program: str, samples: int) -> argparse.ArgumentParser:
    """The options of both programs."""
    made = argparse.ArgumentParser(prog=f"python -m {program}")
    made.add_argument("names", nargs="*")
    made.add_argument("--compiler", choices=("nbcompile", "torch"), default="nbcompile")
    made.add_argument("--backend", default="inductor")
    made.add_argument("--dtype", default="float32")
    made.add_argument("--samples", type=int, default=samples)
    made.add_argument("--backward", action="store_true")
    made.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return made


def main() -> None:
    options = parser("tests.opinfo.harness", samples=3)
    options.add_argument("--record", action="store_true", help="write the outcomes into results.json")
    arguments = options.parse_args()
    if arguments.worker:
        _work(arguments)
        return
    known = list(database())
    outcomes = []
    for each in sweep(arguments.names or known, arguments):
        outcomes.append(each)
        if each.status not in results.FINE:
            print(f"{each.name}\t{each.status}\t{each.detail}", flush=True)
    if arguments.record:
        direction = "backward" if arguments.backward else "forward"
        done = f"{arguments.compiler} {arguments.backend} {arguments.dtype} {direction}"
        results.record(done, outcomes, len(known))
    counts = collections.Counter(each.status for each in outcomes)
    print(dict(counts), "of", sum(counts.values()))


if __name__ == "__main__":
    main()
