"""Kernels and programs are called only with the expected arguments."""

import gc
import sys

import pytest
import torch

from nbcompile.codegen import cpp as codegen
from nbcompile.ir.expr import Apply, Constant
from nbcompile.runtime import cpp, launcher, program
from tests.support.schedules import pointwise
from tests.support.targets import compiler
from tests.support.threads import in_threads

SOURCE = """
typedef long i64; struct Context { i64 threads, site, index, size; };
extern "C" __attribute__((visibility("default"))) i64 scale(void **p, const i64 *n, Context *c) {
  if (n[0] == 7) { c->site = 0; c->index = 9; c->size = 3; return 1; }
  for (i64 i = 0; i < 4; i++) ((float *)p[1])[i] = ((float *)p[0])[i] * n[0];
  return 0;
}
"""


def kernels():
    library = cpp.load(SOURCE, compiler())
    for lengthy in (False, True):
        entry = launcher.Entry("scale", library.address("scale"), 2, 1, lengthy, ("index {index} of {size}",))
        yield launcher.make_kernel(entry, library, compiler())
        yield launcher.PlainKernel(entry, library)


def test_the_extension_is_in_use():
    """The launcher in C is built and passes its self-test (otherwise all tests below test the fallback twice)."""
    assert not isinstance(launcher.extension_module(compiler()), launcher.NoLauncher)


@pytest.mark.parametrize(
    "kernel", list(kernels()), ids=["C", "ctypes", "C, without the lock", "ctypes, without the lock"]
)
def test_calls_and_errors(kernel):
    """Both launchers run the kernel, raise its IndexError, and reject wrong arguments."""
    x, out = torch.arange(4.0), torch.empty(4)
    assert kernel(x, out, 3) is None
    assert out.tolist() == [0, 3, 6, 9]
    with pytest.raises(IndexError, match="index 9 of 3"):
        kernel(x, out, 7)
    for wrong in ((x, out), (x, 3, 4), (x, out, "a"), (x, torch.empty(4, device="meta"), 3)):
        with pytest.raises(TypeError):
            kernel(*wrong)


def loaded(x):
    planned = pointwise([x], {"y": lambda a: Apply("add", (a, Constant(1.0, a.dtype)), a.dtype)})
    return program.load(codegen.emit(planned), compiler())


def test_a_program_takes_one_list_and_empties_it():
    """The program empties its list of inputs, which is AOTAutograd's convention."""
    x = torch.randn(3, 5)
    function, inputs = loaded(x), [x]
    assert function._boxed_call
    (y,) = function(inputs)
    assert inputs == []
    torch.testing.assert_close(y, x + 1)
    torch.testing.assert_close(function.positional(x)[0], x + 1)


def test_references_balance():
    """Ten thousand calls leak neither inputs nor outputs."""
    x = torch.randn(3, 5)
    function = loaded(x)
    function([x])
    before = sys.getrefcount(x)
    for _ in range(10_000):
        function([x])
        function.positional(x)
    gc.collect()
    assert sys.getrefcount(x) == before


def test_other_strides_are_copied_and_other_shapes_rejected():
    """A program compiled for one layout gives right results for another, and an error for another shape or dtype."""
    x = torch.randn(6, 4)
    function = loaded(x)
    other = torch.randn(4, 6).t()
    torch.testing.assert_close(function([other])[0], other + 1)
    with pytest.raises(ValueError, match="was given"):
        function([torch.randn(6, 5)])
    with pytest.raises(ValueError, match="was given"):
        function([x.double()])


def test_misaligned_and_empty_inputs():
    """Data at any alignment, and tensors without elements, give right results."""
    x = torch.randn(101)[1:]
    torch.testing.assert_close(loaded(x)([x])[0], x + 1)
    empty = torch.empty(0, 5)
    assert loaded(empty)([empty])[0].shape == (0, 5)


def test_threads_share_a_program():
    """A program has no state between calls: eight concurrent threads get separate results."""
    xs = [torch.full((50_000,), float(at)) for at in range(8)]
    function, wrong = loaded(xs[0]), []

    def work(number):
        x = xs[number]
        for _ in range(50):
            if not torch.equal(function([x])[0], x + 1):
                wrong.append(x[0])

    in_threads(work, 8)
    assert wrong == []
