"""Inlining of functions of a PTX module."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.gpu import cubins
from nbcompile.gpu.ptx import parse
from nbcompile.gpu.ptx_calls import without_calls

FUNCTIONS = """
.func (.param .b64 func_retval0) twice(
	.param .b64 twice_param_0
)
{
	.reg .pred 	%p<2>;
	.reg .b64 	%rd<4>;
	.loc	2 7 1
	ld.param.b64 	%rd1, [twice_param_0];
	@%p1 bra 	$L__BB1_1;
	add.s64 	%rd2, %rd1, %rd1;
$L__BB1_1:
	st.param.b64 	[func_retval0], %rd2;
	ret;
	// -- End function
}
.func (.param .b64 func_retval0) four_times(
	.param .b64 four_times_param_0
)
{
	.reg .b64 	%rd<4>;
	ld.param.b64 	%rd1, [four_times_param_0];
	{ // callseq 4, 0
	.param .b64 	param0;
	st.param.b64 	[param0], %rd1;
	call.uni (retval0), twice, (param0);
	ld.param.b64 	%rd2, [retval0];
	} // callseq 4
	add.s64 	%rd3, %rd2, %rd2;
	st.param.b64 	[func_retval0], %rd3;
	ret;
	// -- End function
}
"""


def kernel(name: str, count: int = 1) -> str:
    """A module whose kernel calls a function some times."""
    call = """
	{ // callseq %d, 0
	.param .b64 	param0;
	.param .b64 	retval0;
	st.param.b64 	[param0], %%rd1;
	call.uni (retval0), %s, (param0);
	ld.param.b64 	%%rd2, [retval0];
	} // callseq %d"""
    calls = "".join(call % (at, name, at) for at in range(count))
    head = ".visible .entry k(\n\t.param .u64 k_param_0\n)\n.reqntid 32\n{\n\t.reg .b64 \t%rd<3>;\n\t.loc\t1 5 1"
    return f"{head}{calls}\n\tret;\n\t// -- End function\n}}\n{FUNCTIONS}"


def test_a_function_is_in_place_of_its_call():
    """Argument and result are moves, registers and labels are renamed, and all have the line of the call."""
    found = parse(kernel("twice"))
    assert [(row.name, row.operands) for row in found.instructions] == [
        ("mov.b64", ("%call0_rd1", "%rd1")), ("bra", ("$L__BB1_1_call0",)),
        ("add.s64", ("%call0_rd2", "%call0_rd1", "%call0_rd1")), ("mov.b64", ("%call0_result", "%call0_rd2")),
        ("bra", ("$L__end_call0",)), ("mov.b64", ("%rd2", "%call0_result")), ("ret", ()),
    ]  # fmt: skip
    assert found.instructions[1].predicate == "%call0_p1"
    assert found.registers == {"%rd": 64, "%call0_result": 64, "%call0_p": 1, "%call0_rd": 64}
    assert {row.line for row in found.instructions} == {5}


def test_each_call_has_registers_and_labels_of_its_own():
    """Each call has separate registers and labels: threads in different calls do not share values."""
    found = parse(kernel("twice", 2))
    assert {"%call0_rd", "%call1_rd"} <= found.registers.keys()
    assert {"$L__BB1_1_call0", "$L__BB1_1_call1"} <= found.labels.keys()


def test_a_function_that_calls_another():
    """A function that calls another one is inlined with it."""
    found = parse(kernel("four_times"))
    assert not [row for row in found.instructions if row.opcode == "call" or "param" in row.modifiers]
    assert sum(row.opcode == "add" for row in found.instructions) == 2


def test_what_the_module_does_not_define_stays_a_call():
    """The driver's function for a failed check is not in the module, and is not inlined."""
    text = kernel("__assertfail")
    body = text[text.index("{") + 1 :].partition("// -- End function")[0]
    assert without_calls(body, text) == body


@pytest.mark.parametrize("name", ["lgamma", "power"])
def test_functions_of_float64_that_libdevice_keeps_apart(name):
    """A kernel with calls of libdevice's float64 functions is simulated with eager mode's values."""
    pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
    function = {"lgamma": torch.lgamma, "power": lambda x: x**2.7}[name]
    x = torch.rand(70, dtype=torch.float64) * 20 - 4
    found = nbcompile.explain(function, options={"target": "sm_90"})(x)
    (kernel,) = found.kernels
    assert kernel.language == "triton"
    assert any("call.uni (retval0), __internal" in cubin.ptx for cubin in cubins.loaded.values())
    assert found.record.frames[0].compiled_graph.notes == ()
    torch.testing.assert_close(found.result, function(x), rtol=1e-12, atol=0, equal_nan=True)
