"""Operators of torch's database that do not pass, and why: the table of the documentation.

In torch: test/inductor/test_torchinductor_opinfo.py (inductor_expected_failures).
Read next: tests/opinfo/test_operators.py
"""

SEEDED = "the database wraps it in `freeze_rng_state`, a guard in C++ that is not traced"
DATA = "its result (or its shape) is read from data: a graph break, an error under `fullgraph=True`"

KNOWN = {
    **dict.fromkeys(
        "item cauchy exponential geometric log_normal normal.in_place uniform svd_lowrank pca_lowrank randn randn_like "
        "rand_like randint randint_like empty_strided multinomial normal normal.number_mean bernoulli "
        "nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d nn.functional.rrelu "
        "nn.functional.scaled_dot_product_attention nn.functional.dropout nn.functional.dropout2d "
        "nn.functional.dropout3d nn.functional.alpha_dropout nn.functional.feature_alpha_dropout.with_train "
        "nn.functional.feature_alpha_dropout.without_train nn.functional.multi_head_attention_forward".split(),
        SEEDED,
    ),
    **dict.fromkeys(
        "allclose combinations corrcoef cov equal tensor_split nn.functional.ctc_loss nn.functional.gaussian_nll_loss linalg.lstsq "
        "linalg.lstsq.grad_oriented nn.functional.one_hot".split(),
        DATA,
    ),
    **dict.fromkeys(
        ("nn.functional.linear_cross_entropy.chunked", "nn.functional.linear_cross_entropy.chunked_none"),
        "it warns, from C++: a graph break, an error under `fullgraph=True`",
    ),
    **dict.fromkeys(("resize_", "resize_as_"), "a graph break, an error under `fullgraph=True`"),
    "masked_select": "torch promises that there are no more results than elements of the first argument, which is "
    "wrong where that is broadcast",
    "to_sparse": "sparse tensors break the graph",
}
