# fuzz: kind=tensor seed=1032/tensor/3/8 backend=inductor dynamic=None stored=False size=1 approximate=False
import torch

from nbcompile.tools.fuzz.layouts import make_tensor


def f(a):
    return a.clone().view(torch.int32), a.mul(1).view(torch.int16)


def play(compiled):
    g, a = compiled(f), make_tensor((2,), torch.float32)
    results = g(a)
    yield results, a
    a.add_(1)
    yield results, a


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
