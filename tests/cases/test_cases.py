"""Each page in this folder says what the compiler does: the graph, the loops, the kernels."""

from __future__ import annotations

import pytest
import torch

from nbcompile import config
from nbcompile.codegen import cpp
from nbcompile.codegen.triton import NoTriton
from tests.cases.cases import CASES, WRITTEN_OTHERWISE_BY_AOTAUTOGRAD, expected_and_head, made
from tests.codegen import steps_shown
from tests.support import targets


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="graphs as torch 2.13 writes them")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path, request):
    """The page is what the compiler would write now, and the compiled program computes what eager computes.

    The wrapper's text lists the steps of the plan that the launcher in C runs: all of them, in order, over the same tensors.
    """
    expected, head = expected_and_head(path)
    page = made(path)
    for program in map(cpp.emit, page.plans):
        assert program.plan is not None, program.no_plan
        steps_shown.compare(program.wrapper, program.plan)
    found = head + page.text()
    if request.config.getoption("--update"):
        path.write_text(found)
        return
    if config.reference and path.stem in WRITTEN_OTHERWISE_BY_AOTAUTOGRAD:
        assert found != expected, "no difference any more"
        return
    assert found == expected, f"{path.name} is not what the compiler does now; pytest tests/cases --update rewrites it"


def test_there_are_cases_of_every_kind():
    """At least forty."""
    assert len(CASES) >= 40


def compiles_for_a_gpu(path):
    """Every kernel of a case as machine code of an sm_90; the number of kernels."""
    count = 0
    for planned in made(path).plans:
        try:
            count += targets.compile_triton(planned)
        except NoTriton as reason:
            assert "# none" in path.read_text(), f"{path.name}: {reason}"  # the page says so
    return count


@pytest.mark.skipif(not targets.HAS_TRITON, reason="Triton is an extra (nbcompile[cuda])")
@pytest.mark.parametrize("name", ["softmax", "layer_norm_backward"])
def test_kernels_compile_for_a_gpu(name):
    """Triton's compiler takes what is generated, without a GPU."""
    assert compiles_for_a_gpu(next(path for path in CASES if path.stem == name)) > 0


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.skipif(not targets.HAS_TRITON, reason="Triton is an extra (nbcompile[cuda])")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_all_kernels_compile_for_a_gpu(path):
    """Of every case."""
    compiles_for_a_gpu(path)
