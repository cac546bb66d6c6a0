"""What it costs to compile and to run, beside eager and the real torch.compile.

    python -m benchmarks            everything, some minutes
    python -m benchmarks --quick    fewer sizes and rounds, under three minutes
    python -m benchmarks kernels    some groups only

Read next: benchmarks/__main__.py
"""
