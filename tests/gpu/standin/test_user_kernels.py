"""A program's own Triton kernels on the stand-in driver, launched by our launcher."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

import nbcompile


@triton.jit
def scale(count, source, factor, target, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    tl.store(target + places, tl.load(source + places, mask=inside) * factor, mask=inside)


def scaled(x, factor=-0.5):
    out = torch.empty_like(x)
    blocks = triton.cdiv(x.numel(), 128)
    scale[(blocks,)](x.numel(), x, factor, out, BLOCK=128, num_warps=2)
    return out


def launches(log) -> list[str]:
    return [line for line in log if line.startswith("launch ")]


def test_a_kernel_of_the_programs_own_is_launched(here):
    """The launch has the kernel's parameters in order, its grid and its warps, and the result is right."""
    x = torch.arange(300.0, device="cuda")
    compiled = nbcompile.compile(lambda x: scaled(x + 1) * 2, fullgraph=True)
    assert torch.equal(compiled(x).cpu(), -(x.cpu() + 1))
    here.driver.clear_log()
    compiled(x)
    log = here.driver.log()
    users = [line for line in launches(log) if " scale " in line]
    assert [line.partition("device")[2] for line in users] == [" 0 stream 0 grid 3 block 64 shared 0"]
    assert len(launches(log)) == 3
    assert here.executor.reasons == []


def test_an_input_is_written_in_place(here):
    """The kernel mutates the argument on the device, without a copy."""

    def halve(x):
        scale[(3,)](x.numel(), x, 0.5, x, BLOCK=128)

    x = torch.arange(300.0, device="cuda")
    compiled = nbcompile.compile(halve, fullgraph=True)
    compiled(x)
    here.driver.clear_log()
    compiled(x)
    assert torch.equal(x.cpu(), torch.arange(300.0) * 0.25)
    assert len(launches(here.driver.log())) == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_written_by_way_of_a_view_is_in_its_base(dynamic, here):
    """A write through a view reaches the base, also through a view of another dtype, which is a call of ATen."""

    def changed(x):
        y = x + 1
        scale[(1,)](50, y, 10.0, y[60:110], BLOCK=64)
        scale[(1,)](70, y.view(torch.int32)[1:], 0.0, y.view(torch.int32)[1:], BLOCK=128)
        return y

    x = torch.arange(300.0, device="cuda")
    expected = x.cpu() + 1
    expected[60:110] = expected[:50] * 10
    expected[1:71] = 0
    assert torch.equal(nbcompile.compile(changed, fullgraph=True, dynamic=dynamic)(x).cpu(), expected)
    assert here.executor.reasons == []


def test_other_pointers_and_sizes_get_code_of_their_own(here):
    """An argument that is no multiple of 16 has other code, without that specialisation."""
    base = torch.arange(400.0, device="cuda")
    compiled = nbcompile.compile(scaled, dynamic=True)
    for x in (base[:304], base[1:300], base[4:5]):
        assert torch.equal(compiled(x).cpu(), x.cpu() * -0.5)
    assert here.executor.reasons == []


@triton.jit
def number(target, WIDTH: tl.constexpr, HEIGHT: tl.constexpr):
    place = (tl.program_id(2) * HEIGHT + tl.program_id(1)) * WIDTH + tl.program_id(0)
    tl.store(target + place, 100 * tl.program_id(2) + 10 * tl.program_id(1) + tl.program_id(0))


@pytest.mark.parametrize("grid", [(5,), (3, 2), (2, 3, 4)])
def test_a_grid_has_up_to_three_dimensions(here, grid):
    """A grid with one to three dimensions is launched with all of them."""
    width, height, depth = (*grid, 1, 1)[:3]

    def numbered(x):
        out = torch.empty(depth, height, width, dtype=torch.int32, device=x.device)
        number[grid](out, WIDTH=width, HEIGHT=height)
        return out + x

    x = torch.zeros(width, dtype=torch.int32, device="cuda")
    expected = torch.tensor(
        [[[100 * k + 10 * j + i for i in range(width)] for j in range(height)] for k in range(depth)]
    )
    assert torch.equal(nbcompile.compile(numbered, fullgraph=True)(x).cpu(), expected.int())
    (line,) = (line for line in launches(here.driver.log()) if " number " in line)
    shown = "5" if len(grid) == 1 else f"{width}x{height}x{depth}"
    assert f" grid {shown} " in line
    assert here.executor.reasons == []


def test_what_the_launcher_has_no_form_for_goes_to_triton(here):
    """An autotuned kernel is launched by Triton, which finds no driver here, as in eager mode."""
    tuned = triton.autotune(configs=[triton.Config({"BLOCK": size}) for size in (64, 128)], key=[])(scale)

    def by_triton(x):
        tuned[(3,)](x.numel(), x, 2.0, x)

    with pytest.raises(RuntimeError, match="active drivers"):
        nbcompile.compile(by_triton)(torch.ones(300, device="cuda"))
