"""Functions that change the state of the process."""

import types

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import nbcompile


@pytest.fixture(autouse=True)
def as_before():
    """A fixture that restores the default dtype, the default device and the determinism setting."""
    dtype = torch.get_default_dtype()
    yield
    torch.set_default_dtype(dtype)
    torch.set_default_device(None)
    torch.use_deterministic_algorithms(False)


def state():
    return (
        torch.get_default_dtype(), torch.get_default_device(), torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(), torch.is_grad_enabled(),
    )  # fmt: skip


def both(function):
    """The results of eager mode and of compiled code, each with the state of the process afterwards."""
    seen = []
    for called in (function, nbcompile.compile(function, backend="eager", fullgraph=True)):
        for _ in range(2):
            torch.set_default_dtype(torch.float32)
            torch.set_default_device(None)
            torch.use_deterministic_algorithms(False)
            with torch.enable_grad():
                result = called(torch.ones(2))
                seen.append((str(result), state()))
    return seen


def default_dtype(x):
    torch.set_default_dtype(torch.float64)
    return x + 1, torch.ones(1), torch.get_default_dtype()


def default_device(x):
    torch.set_default_device("meta")
    return x + 1, torch.ones(1).device, torch.get_default_device()


def no_default_device(x):
    torch.set_default_device("meta")
    torch.set_default_device(None)
    return x + 1, torch.ones(1).device, torch.get_default_device()


def deterministic(x):
    torch.use_deterministic_algorithms(True, warn_only=True)
    return x + 1


def grad_mode(x):
    torch._C._set_grad_enabled(False)
    return x + 1, torch.is_grad_enabled()


@pytest.mark.parametrize("function", [default_dtype, default_device, no_default_device, deterministic, grad_mode])
def test_results_and_state_are_eagers(function):
    """One graph serves both calls, and code after the change sees the new state."""
    first, second, compiled, again = both(function)
    assert compiled == first
    assert again == second


def test_attention_backends_are_those_of_the_block():
    """The setting is active inside the block; afterwards all backends are allowed as before."""

    def f(q):
        with sdpa_kernel(SDPBackend.MATH):
            inside = torch.nn.attention._cur_sdpa_kernel_backends()
            y = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        return y, inside

    q = torch.randn(1, 2, 4, 8)
    before = torch.nn.attention._cur_sdpa_kernel_backends()
    found, inside = nbcompile.compile(f, backend="eager", fullgraph=True)(q)
    torch.testing.assert_close(found, f(q)[0])
    assert inside == [SDPBackend.MATH]
    assert torch.nn.attention._cur_sdpa_kernel_backends() == before


FLAGS: dict[str, tuple[str, str, str]] = {
    # The statement in the function, what asks for the state, and what puts it back.
    "denormals": ("torch.set_flush_denormal(True)", "(TINY * 1).item() == 0", "torch.set_flush_denormal(False)"),
    "benchmark": ("backends.cudnn.benchmark = True", "backends.cudnn.benchmark", "backends.cudnn.benchmark = False"),
    "cudnn": ("backends.cudnn.enabled = False", "backends.cudnn.enabled", "backends.cudnn.enabled = True"),
    "deterministic": (
        "backends.cudnn.deterministic = True", "backends.cudnn.deterministic", "backends.cudnn.deterministic = False",
    ),
    "mkldnn": ("backends.mkldnn.enabled = False", "backends.mkldnn.enabled", "backends.mkldnn.enabled = True"),
    "memory": (
        "deterministic.fill_uninitialized_memory = False", "deterministic.fill_uninitialized_memory",
        "deterministic.fill_uninitialized_memory = True",
    ),
    "autocast dtype": (
        "torch.set_autocast_dtype('cpu', torch.float16)", "torch.get_autocast_dtype('cpu')",
        "torch.set_autocast_dtype('cpu', torch.bfloat16)",
    ),
    "autocast dtype of CPU": (
        "torch.set_autocast_cpu_dtype(torch.float16)", "torch.get_autocast_dtype('cpu')",
        "torch.set_autocast_dtype('cpu', torch.bfloat16)",
    ),
    "autocast dtype of CUDA": (
        "torch.set_autocast_gpu_dtype(torch.bfloat16)", "torch.get_autocast_dtype('cuda')",
        "torch.set_autocast_dtype('cuda', torch.float16)",
    ),
    "autocast cache": (
        "torch.set_autocast_cache_enabled(False)", "torch.is_autocast_cache_enabled()",
        "torch.set_autocast_cache_enabled(True)",
    ),
    "autocast": (
        "torch.set_autocast_cpu_enabled(True)", "torch.is_autocast_enabled('cpu')",
        "torch.set_autocast_enabled('cpu', False)",
    ),
    "autocast that is entered": (
        "torch.autocast('cpu').__enter__()", "torch.is_autocast_enabled('cpu')",
        "torch.set_autocast_enabled('cpu', False); torch.clear_autocast_cache()",
    ),
    "precision": (
        "torch.set_float32_matmul_precision('high')", "torch.get_float32_matmul_precision()",
        "torch.set_float32_matmul_precision('highest')",
    ),
}  # fmt: skip


BACKENDS = torch.backends.flags_frozen.__globals__  # `torch.backends` is an object in front of this module


@pytest.fixture
def writable_flags(monkeypatch):
    """Let statements set flags of `torch.backends`, which an import of `torch.testing` forbids for the whole process."""
    monkeypatch.setitem(BACKENDS, "__allow_nonbracketed_mutation_flag", True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("writable_flags")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", FLAGS)
def test_every_run_sets_a_flag_of_the_process(name, backend):
    """The state is eager mode's inside the function and after it, at the first call and at later ones."""
    change, ask, restore = FLAGS[name]
    scope = {
        "torch": torch, "backends": torch.backends, "deterministic": torch.utils.deterministic, "TINY": torch.tensor([1e-40]),
    }  # fmt: skip
    asked = "0" if "TINY" in ask else ask  # an operator of the graph, which runs before the statement
    exec(f"def f(x):\n    y = x + 1\n    {change}\n    return y * 2, {asked}\n", scope)
    states = []
    for function in (scope["f"], nbcompile.compile(scope["f"], backend=backend)):
        try:
            states.append([(exec(restore, scope), function(torch.ones(1))[1], eval(ask, scope)) for _ in range(3)])
        finally:
            exec(restore, scope)
    assert states[0] == states[1]


@pytest.mark.usefixtures("writable_flags")
@pytest.mark.parametrize("compiled_before", [False, True])
@pytest.mark.parametrize("flag", ["cudnn.benchmark", "cudnn.enabled", "cudnn.deterministic", "mkldnn.enabled"])
def test_a_flag_that_is_frozen_raises(flag, compiled_before, monkeypatch):
    """After `torch.backends.disable_global_flags()` the statement raises eager's error, in earlier code as well."""
    scope = {"torch": torch}
    exec(f"def f(x):\n    y = x + 1\n    torch.backends.{flag} = torch.backends.{flag}\n    return y * 2\n", scope)
    compiled = nbcompile.compile(scope["f"])
    if compiled_before:
        compiled(torch.ones(1))
    monkeypatch.setitem(BACKENDS, "__allow_nonbracketed_mutation_flag", False)
    for function in (scope["f"], compiled, compiled):
        with pytest.raises(RuntimeError, match="not allowed to set .* flags after disable_global_flags"):
            function(torch.ones(1))


class Flags(types.ModuleType):
    """A module with a property."""

    stored = 0

    @property
    def doubled(self):
        return self.stored

    @doubled.setter
    def doubled(self, value):
        self.stored = 2 * value


def test_a_property_of_a_module_is_set_by_its_setter():
    """The setter runs in the trace: what it stores is read after it."""
    flags = Flags("flags")

    def f(x, n):
        flags.doubled = n
        return x + flags.doubled

    compiled = nbcompile.compile(f, backend="eager", fullgraph=True)
    assert [(compiled(torch.zeros(1), n).item(), flags.doubled, "doubled" in vars(flags)) for n in (1, 2)] == [
        (2, 2, False), (4, 4, False),
    ]  # fmt: skip
