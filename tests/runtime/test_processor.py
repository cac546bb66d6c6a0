"""Settings that depend on the processor, and their effect."""

import warnings

import pytest
import torch

import nbcompile
from nbcompile import config
from nbcompile.fast.disk_cache import keys
from nbcompile.runtime import compiler_processes, cpp, processor, toolchain
from tests.support.processes import python
from tests.support.targets import compiler

SIZES = {
    "avx512_bf16": 64, "avx512": 64, "avx2": 32, "avx": 32, "sse2": 16, "generic": 16,
}  # fmt: skip
"""Bytes of a vector."""


def test_settings_and_table_have_the_same_words():
    """The setting's choices are the instruction sets of the table, and the processor's own."""
    assert set(config.CHOICES["instruction_set"]) == {processor.NATIVE, *processor.INSTRUCTION_SETS}


@pytest.mark.parametrize("name", processor.INSTRUCTION_SETS)
def test_kernels_are_compiled_for_the_instruction_set(name):
    """The compiler reports the vector width and fused multiply-add of the chosen instruction set."""
    chosen = toolchain.for_kernels(compiler(), name)
    macros = compiler_processes.run((*chosen.command, *chosen.flags, "-dM", "-E", "-x", "c++", "-"), "")[1]
    wide = 64 if "__AVX512F__" in macros else 32 if "__AVX__" in macros else 16
    assert wide == SIZES[name]
    assert ("__FMA__" in macros) == (name.startswith("avx512") or name == "avx2")
    assert ("__AVX512BF16__" in macros) == (name == "avx512_bf16")


def test_the_setting_chooses_kernels_alone():
    """Kernels for another instruction set are other entries of the store; the launcher is built once."""
    source = 'extern "C" __attribute__((visibility("default"))) int answer() { return __SSE2__ + 41; }'
    own = cpp.load(source, compiler()).path
    with config.patch(instruction_set="sse2"):
        assert cpp.load(source, compiler()).path != own
        assert toolchain.find() == compiler()


def test_choices_are_part_of_the_key(monkeypatch):
    """Code for one choice is not loaded under another one, of ATen's choices either."""

    def f(x):
        return x + 1

    options = nbcompile.options.Options()
    seen = set()
    for changes in ({}, {"instruction_set": "sse2"}, {"products": "aten"}, {"products": "onednn"}):
        with config.patch({"instruction_set": processor.NATIVE, "products": "", **changes}):
            seen.add(keys.key(f.__code__, options))
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    seen.add(keys.key(f.__code__, options))
    assert len(seen) == 5


def test_instructions_that_the_processor_lacks_are_not_run(monkeypatch):
    """A graph for missing instructions runs through ATen, with a warning."""
    monkeypatch.setattr(processor, "features", lambda: frozenset({"sse2"}))
    nbcompile.reset()
    x = torch.randn(9)
    with config.patch(instruction_set="avx2"), pytest.warns(Warning, match="instruction_set is 'avx2'.*has no avx2"):
        assert torch.equal(nbcompile.compile(lambda x: x + 1)(x), x + 1)


@pytest.mark.parametrize("variable", ["NBCOMPILE_INSTRUCTION_SET", "NBCOMPILE_PRODUCTS"])
def test_a_word_that_is_no_choice_warns(variable, monkeypatch):
    """An unknown choice warns, and the default is used."""
    monkeypatch.setenv(variable, "mmx")
    with pytest.warns(UserWarning, match=rf"\${variable}: expected one of .*(onednn|sse2).*, got 'mmx'"):
        assert config._word(variable, "native") == "native"


def test_variables_are_read():
    """A new process reads the environment variables."""
    choices = {"NBCOMPILE_INSTRUCTION_SET": "sse2", "NBCOMPILE_PRODUCTS": "aten", "NBCOMPILE_COMPILE_THREADS": "3"}
    program = "from nbcompile import config as c; print(c.instruction_set, c.products, c.compile_threads)"
    assert python(program, **choices).split() == ["sse2", "aten", "3"]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_any_number_of_compilers_makes_the_same(count, monkeypatch, tmp_path):
    """A long unit is split among the compilers; the results do not depend on their number."""
    asked = []
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cpp, "PIECE", 200)
    monkeypatch.setattr(cpp, "split", lambda source, cores, own=cpp.split: asked.append(cores) or own(source, cores))
    nbcompile.reset()

    def f(x):
        return [(x * number).sum(number % 2) for number in range(4)]

    x = torch.randn(8, 9)
    with config.patch(compile_threads=count), warnings.catch_warnings():
        warnings.simplefilter("error")
        for found, wanted in zip(nbcompile.compile(f)(x), f(x), strict=True):
            torch.testing.assert_close(found, wanted)
    assert asked == [count]


PRODUCTS = {
    "linear": lambda x, w, b: torch.nn.functional.linear(x, w, b),
    "mm": lambda x, w, b: x @ w.t() * 2,
    "bmm": lambda x, w, b: torch.bmm(x[None].expand(2, -1, -1), w.t()[None].expand(2, -1, -1)) + b,
    "transposed": lambda x, w, b: (w @ x.t()).t() + b,
}


@pytest.mark.parametrize("products", config.CHOICES["products"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_each_library_multiplies_as_eager(name, products):
    """Large products with bias, batches and transposed factors, with gradients and under no_grad; no result needs a
    gradient that eager's does not."""
    torch.manual_seed(0)
    x, w, b = torch.randn(300, 256), torch.randn(320, 256), torch.randn(320)
    f = PRODUCTS[name]
    with config.patch(products=products):
        nbcompile.reset()
        compiled = nbcompile.compile(f)
        for needs in (False, True):
            given = [each.clone().requires_grad_(needs) for each in (x, w, b)]
            twins = [each.clone().requires_grad_(needs) for each in (x, w, b)]
            found, wanted = compiled(*given), f(*twins)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
            assert found.requires_grad == wanted.requires_grad
            if needs:
                found.sum().backward()
                wanted.sum().backward()
                torch.testing.assert_close(given[1].grad, twins[1].grad, rtol=1e-4, atol=1e-3)
                assert not compiled(*(each.detach() for each in given)).requires_grad
                with torch.no_grad():
                    assert not compiled(*given).requires_grad
                nbcompile.reset()
                detached = nbcompile.compile(lambda *factors: f(*factors).detach())(*given)
                assert not detached.requires_grad
                assert detached.is_leaf


def test_settings_of_the_cache_are_no_part_of_the_key(monkeypatch):
    """The cache's settings are not part of the key: a program loads its entries under another limit, too."""

    def f(x):
        return x + 1

    options = nbcompile.options.Options()
    before = keys.key(f.__code__, options)
    with config.patch(warm_start_megabytes=1, kernel_store_megabytes=1):
        assert keys.key(f.__code__, options) == before
    for name in ("WARM_START_MEGABYTES", "KERNEL_STORE_MEGABYTES", "BACKGROUND"):
        monkeypatch.setenv(f"NBCOMPILE_{name}", "1")
    assert keys.key(f.__code__, options) == before
