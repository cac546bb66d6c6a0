# fuzz: kind=tensor seed=1019/tensor/1/4 backend=inductor dynamic=None stored=False size=1 approximate=False

import torch

from nbcompile.tools.fuzz.layouts import make_tensor


def p0(a, b):
    v0 = a.fliplr()
    v1 = v0.fliplr()
    return v1


def f(inputs):
    return [p0(*inputs[0])]


def play(compiled):
    inputs = [(make_tensor((3, 4), torch.float64), make_tensor((), torch.float64))]
    yield list(zip(compiled(f)(inputs), inputs))


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
