"""Operators of torch's database that do not pass, in which sweeps, and why: the table of the documentation.

    KNOWN["int64 forward"]["equal"]  ->  "its result (or its shape) is read from data: ..."

A sweep in which an operator is not named is one in which it passes, or has no sample.

In torch: test/inductor/test_torchinductor_opinfo.py (inductor_expected_failures).
Read next: tests/opinfo/test_operators.py
"""

from __future__ import annotations

from dataclasses import dataclass

SEEDED = "the database wraps it in `freeze_rng_state`, a guard in C++ that is not traced"
DATA = "its result (or its shape) is read from data: a graph break, an error under `fullgraph=True`"
RESIZED = "a graph break, an error under `fullgraph=True`"
WARNS = "it warns, from C++: a graph break, an error under `fullgraph=True`"
SPARSE = "sparse tensors break the graph"
MASKED = (
    "torch promises that there are no more results than elements of the first argument, which is wrong where that is "
    "broadcast"
)

FLOATING = ("float32 forward", "float64 forward", "bfloat16 forward")
NUMBERS = (*FLOATING, "int64 forward")
FORWARD = (*NUMBERS, "bool forward")
BACKWARD = "float32 backward"
LINEAR_ALGEBRA = ("float32 forward", BACKWARD, "float64 forward")
"""It has no kernels for 16 bits."""


@dataclass(frozen=True, slots=True)
class Row:
    """Operators that do not pass, for one reason, in the same sweeps."""

    why: str
    sweeps: tuple[str, ...]
    names: str


ROWS = (
    Row(
        SEEDED, FLOATING,
        "cauchy exponential log_normal multinomial normal.in_place rand_like randn randn_like uniform",
    ),
    Row(
        SEEDED, (*FLOATING, BACKWARD),
        "bernoulli normal normal.number_mean nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d "
        "nn.functional.dropout3d nn.functional.feature_alpha_dropout.with_train nn.functional.fractional_max_pool2d "
        "nn.functional.fractional_max_pool3d nn.functional.multi_head_attention_forward nn.functional.rrelu "
        "nn.functional.scaled_dot_product_attention",
    ),
    Row(SEEDED, NUMBERS, "geometric randint randint_like"),
    Row(SEEDED, FORWARD, "empty_strided item"),
    Row(SEEDED, (*FORWARD, BACKWARD), "nn.functional.feature_alpha_dropout.without_train"),
    Row(SEEDED, LINEAR_ALGEBRA, "pca_lowrank svd_lowrank"),
    Row(DATA, FLOATING, "allclose"),
    Row(DATA, (*FLOATING, BACKWARD), "nn.functional.gaussian_nll_loss"),
    Row(DATA, (*NUMBERS, BACKWARD), "corrcoef cov"),
    Row(DATA, FORWARD, "equal"),
    Row(DATA, (*FORWARD, BACKWARD), "combinations tensor_split"),
    Row(DATA, LINEAR_ALGEBRA, "linalg.lstsq linalg.lstsq.grad_oriented nn.functional.ctc_loss"),
    Row(DATA, ("int64 forward",), "nn.functional.one_hot"),
    Row(
        WARNS, (*FLOATING, BACKWARD),
        "nn.functional.linear_cross_entropy.chunked nn.functional.linear_cross_entropy.chunked_none",
    ),
    Row(RESIZED, FORWARD, "resize_ resize_as_"),
    Row(MASKED, (*FORWARD, BACKWARD), "masked_select"),
    Row(SPARSE, (*FORWARD, BACKWARD), "to_sparse"),
)  # fmt: skip

KNOWN: dict[str, dict[str, str]] = {
    sweep: {name: row.why for row in ROWS if sweep in row.sweeps for name in row.names.split()}
    for sweep in (*FORWARD, BACKWARD)
}
"""Sweep -> operator -> why."""
