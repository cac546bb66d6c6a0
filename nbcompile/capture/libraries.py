"""Libraries whose code is neither compiled as a frame of its own nor traced through.

In torch: THIRDPARTY_SKIPLIST of torch/_dynamo/trace_rules.py. Read next:
nbcompile/dispatch/skipping.py, nbcompile/tracing/rules.py
"""

SKIPPED_PACKAGES = (
    "hypothesis", "networkx", "numpy", "onnx", "onnxruntime", "pandas", "sklearn", "tabulate",
    "tensorflow", "tensorrt", "tqdm", "tree", "tvm", "xarray",
)  # fmt: skip
"""Names, so that the check does not import them."""
