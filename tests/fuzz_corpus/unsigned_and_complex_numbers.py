# fuzz: kind=tensor seed=1031/tensor/3/3 backend=inductor dynamic=None stored=False size=1 approximate=False

import torch

from nbcompile.tools.fuzz.layouts import make_tensor


def p0(a, b):
    v0 = a + b
    return v0


def f(inputs):
    return p0(*inputs[0])


def play(compiled):
    g = compiled(f)
    given = [
        [(make_tensor((), torch.complex64), make_tensor((0,), torch.uint32))],
        [(make_tensor((), torch.complex64), make_tensor((3,), torch.uint64))],
    ]
    for inputs in given:
        yield g(inputs)


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
