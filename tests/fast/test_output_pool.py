"""The memory of large results is reused after their last reference, and not before."""

import copy
import ctypes
import pickle
import sys
import weakref

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

import nbcompile
from nbcompile.fast import output_pool
from nbcompile.runtime import launcher, toolchain
from tests.support.processes import python
from tests.support.threads import in_threads

ROWS = 512  # times 1024 floats are 2 MiB


def doubled(x):
    return x * 2 + 1


@pytest.fixture(autouse=True)
def one_launcher(monkeypatch):
    """The pool of the launcher in use only: earlier tests may have loaded the launcher from another file."""
    module = launcher.extension_module(toolchain.find())
    monkeypatch.setattr(output_pool, "_switched_on", {str(module.__file__): module})


@pytest.fixture
def compiled():
    """``doubled``, compiled for 2 MiB, with an empty pool."""
    nbcompile.reset()
    function = nbcompile.compile(doubled, dynamic=False)
    function(x())
    output_pool.clear()
    yield function
    nbcompile.reset()


def x(seed=0):
    return torch.randn(ROWS, 1024, generator=torch.Generator().manual_seed(seed))


def address(tensor):
    return tensor.data_ptr()


def test_a_result_that_is_gone_gives_its_memory_to_the_next(compiled):
    """One block serves call after call."""
    first = address(compiled(x()))
    assert address(compiled(x(1))) == first
    assert output_pool.state().blocks == 1
    assert output_pool.state().bytes == ROWS * 1024 * 4


KEEPERS = {
    "the tensor": lambda y: y,
    "a view": lambda y: y[3:],
    "a detached one": lambda y: y.detach(),
    "its data": lambda y: y.data,
    "an array": lambda y: y.numpy(),
    "its storage": lambda y: y.untyped_storage(),
    "a memory view of an array": lambda y: memoryview(y.numpy()),
    "a capsule": lambda y: torch.utils.dlpack.to_dlpack(y),
    "a parameter": lambda y: torch.nn.Parameter(y),
    "a list that a closure holds": lambda y: [lambda: y],
    "what autograd saved": lambda y: (y * torch.ones(1, requires_grad=True)).grad_fn,
    "a lazy copy": lambda y: torch._lazy_clone(y),
    "the storage of a shallow copy": lambda y: copy.copy(y).untyped_storage(),
}


@pytest.mark.parametrize("kept", KEEPERS)
def test_whoever_holds_a_result_keeps_it(compiled, kept):
    """The next result is in other memory while any reference to a result exists."""
    y = compiled(x())
    expected, where = y.clone(), address(y)
    holder = KEEPERS[kept](y)
    del y
    others = [compiled(x(seed)) for seed in range(1, 4)]
    assert where not in map(address, others)
    memory = torch.frombuffer(bytearray(ctypes.string_at(where, expected.nbytes)), dtype=torch.float32)
    assert torch.equal(memory.view_as(expected), expected)
    del holder


def test_a_weak_reference_to_a_storage_may_come_to_life(compiled):
    """A weak reference that can become a tensor again is an owner, too."""
    y = compiled(x())
    where, reference = address(y), StorageWeakRef(y.untyped_storage())
    del y
    assert address(compiled(x(1))) != where or reference.expired()


def test_a_storage_that_was_asked_for_belongs_to_its_user(compiled):
    """Attributes of a storage's Python object do not appear at the next result, and its memory is not reused."""
    y = compiled(x())
    y.untyped_storage().mine = 1
    del y
    assert not hasattr(compiled(x(1)).untyped_storage(), "mine")
    assert output_pool.state().blocks <= 2


CHANGES = {
    "resized to nothing": lambda y: y.untyped_storage().resize_(0),
    "resized": lambda y: y.resize_(10_000_000),
    "made smaller": lambda y: y.untyped_storage().resize_(64),
    "shared with other processes": lambda y: y.share_memory_(),
    "given other data": lambda y: y.set_(torch.ones(3)),
    "moved": lambda y: y.untyped_storage().resize_(64).resize_(ROWS * 1024 * 3),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_storage_that_was_changed_is_not_used_again(compiled, change):
    """A resized or moved storage belongs to the user; the next results have the right values and sizes."""
    for seed in range(4):
        y = compiled(x(seed))
        assert torch.equal(y, doubled(x(seed)))
        assert y.untyped_storage().nbytes() == ROWS * 1024 * 4
        assert not y.is_shared()
        CHANGES[change](y)
        del y


def test_results_are_ordinary_tensors(compiled):
    """Results are leaves and not views; they can be mutated, pickled and copied, and have their own version."""
    y = compiled(x())
    del y
    y = compiled(x())
    assert y.is_leaf
    assert y._base is None
    assert y._version == 0
    y.add_(1)
    assert torch.equal(pickle.loads(pickle.dumps(y)), copy.deepcopy(y))
    y.resize_(ROWS * 1024 * 2)
    assert y.shape == (ROWS * 1024 * 2,)


def test_inference_mode_has_blocks_of_its_own(compiled):
    """An inference tensor never shares memory with an ordinary tensor."""
    for _ in range(2):
        with torch.inference_mode():
            y = compiled(x())
            assert y.is_inference()
        del y
        y = compiled(x())
        assert not y.is_inference()
        assert (y * torch.ones(1, requires_grad=True)).sum().backward() is None
        del y


def test_the_limit_holds(compiled):
    """The pool never exceeds its limit; the oldest idle block is freed first."""
    with nbcompile.config.patch(output_pool_megabytes=5):
        alive = [compiled(x()) for _ in range(6)]
        assert output_pool.state().bytes <= 5 << 20
        del alive
        assert output_pool.state().bytes <= 5 << 20
        larger = nbcompile.compile(lambda a: a + 1, dynamic=False)
        larger(torch.ones(1 << 20))  # 4 MiB: other blocks are freed for it
        assert output_pool.state().bytes <= 5 << 20
        assert output_pool.state().idle == output_pool.state().blocks


def test_it_can_be_switched_off(compiled):
    """With a limit of 0 every result has new memory, at once."""
    with nbcompile.config.patch(output_pool_megabytes=0):
        compiled(x())
        assert output_pool.state().blocks == 0


@pytest.mark.parametrize("megabytes", [2**43, 2**80, -1, -(2**80)])
def test_any_whole_number_is_a_limit(compiled, megabytes):
    """A huge limit is no limit, and a negative one disables the pool."""
    with nbcompile.config.patch(output_pool_megabytes=megabytes):
        assert torch.equal(compiled(x()), doubled(x()))
        assert output_pool.state().blocks == (megabytes > 0)


def test_reset_gives_everything_back(compiled):
    """``nbcompile.reset`` empties the pool; a result in use is unchanged."""
    y = compiled(x())
    nbcompile.reset()
    assert output_pool.state().bytes == 0
    assert torch.equal(y, doubled(x()))


def test_small_results_are_left_to_the_allocator():
    """Results below one mebibyte use the C library's allocator."""
    nbcompile.reset()
    nbcompile.compile(doubled)(torch.ones(1000))
    assert output_pool.state().blocks == 0


def test_a_result_lets_go_of_what_refers_to_it(compiled):
    """Weak references to a result become invalid with it, although its memory is reused."""
    y = compiled(x())
    reference = weakref.ref(y)
    del y
    assert reference() is None


def test_a_launcher_that_is_switched_on_again_has_one_pool(compiled):
    """A launcher that is loaded twice has one pool, which is counted once."""
    compiled(x())
    before = output_pool.state()
    for extension in list(output_pool._switched_on.values()):
        assert not output_pool.switch_on(extension)
    assert output_pool.state() == before


def test_several_threads(compiled):
    """Threads that run at the same time have separate results."""
    wrong = []

    def work(seed):
        mine = x(seed)
        expected = doubled(mine)
        for _ in range(50):
            y = compiled(mine)
            if not torch.equal(y, expected):
                wrong.append(seed)

    in_threads(work)
    assert not wrong


def test_a_training_step_uses_its_memory_again():
    """Tensors that the forward saves are in use until the backward, and their memory is reused by the next step."""
    nbcompile.reset()

    def loss(a, weight):
        return torch.nn.functional.gelu(a * weight).tanh().sum()

    step = nbcompile.compile(loss, dynamic=False)
    a = x()
    weight = torch.ones(1024, requires_grad=True)
    wanted = torch.autograd.grad(loss(a, weight), weight)[0]
    states = []
    for _ in range(5):
        (found,) = torch.autograd.grad(step(a, weight), weight)
        torch.testing.assert_close(found, wanted)
        states.append(output_pool.state().blocks)
    assert states[-1] == states[1]
    nbcompile.reset()


def test_symbolic_sizes():
    """A wrapper in Python takes its memory from the pool, too."""
    nbcompile.reset()
    function = nbcompile.compile(doubled, dynamic=True)
    for rows in (ROWS, 2 * ROWS, ROWS):
        for _ in range(2):
            given = torch.randn(rows, 1024)
            assert torch.equal(function(given), doubled(given))
    assert output_pool.state().blocks == 2
    assert output_pool.state().hits > 0
    nbcompile.reset()


FAULTS = """
import ctypes, resource
import torch, nbcompile

class Told(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_int) for name in names.split()]

libc = ctypes.CDLL(None)
libc.mallinfo.restype, libc.malloc.restype, libc.free.argtypes = Told, ctypes.c_void_p, (ctypes.c_void_p,)

@torch.library.custom_op("nbcompile_tests::spread", mutates_args=())
def spread(x: torch.Tensor) -> torch.Tensor:
    return x.new_zeros(512, 2048) + 1

@spread.register_fake
def _(x):
    return x.new_empty(512, 2048)

@nbcompile.compile
def f(x):
    return sum(spread(x * n).sum() for n in range(4))

with torch.no_grad():
    for _ in range(5):
        f(torch.ones(4))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        f(torch.ones(4))
    faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 20

mapped = libc.mallinfo().hblks
block = libc.malloc(31 << 20)
print(faults, libc.mallinfo().hblks - mapped)
libc.free(block)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="about glibc")
def test_what_operators_free_is_not_given_back_to_the_system():
    """A block of 31 MiB is not a separate mapping, which would be returned to the system, unless the pool is off.

    The 8,192 pages of eight results of 4 MiB cause few new page faults. (Some systems do not count page faults.)
    """
    printed = [python(FAULTS, **more) for more in ({}, {"NBCOMPILE_OUTPUT_POOL_MEGABYTES": "0"})]
    (faults, mapped), (_, mapped_without) = (map(int, text.split()) for text in printed)
    assert (mapped, mapped_without) == (0, 1)
    assert faults < 8192 // 4
