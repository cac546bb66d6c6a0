"""The real torch.compile, with a record of the same form as ours.

The only package that may import ``torch._dynamo`` and ``torch._inductor``:
the compiler itself never does.

In torch: all of it. Read next: nbcompile/peer/observe.py
"""
