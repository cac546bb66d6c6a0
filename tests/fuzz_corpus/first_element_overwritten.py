# fuzz: kind=tensor seed=1024/tensor/0/3 backend=inductor dynamic=None stored=False size=1 approximate=False
import torch

from nbcompile.tools.fuzz.layouts import make_tensor


def f(a):
    a.mul_(a)
    a[1:] = a[:1]


def g(a):
    return a.div_(a[0] + 1)


def play(compiled):
    for function in (f, g):
        called = compiled(function)
        for shape in ((33,), (5, 7)):
            a = make_tensor(shape, torch.float64)
            called(a)
            yield a


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
