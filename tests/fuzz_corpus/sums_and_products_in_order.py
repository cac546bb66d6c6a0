# fuzz: kind=tensor seed=1021/tensor/0 backend=inductor dynamic=None stored=False size=2 approximate=False

import torch

from nbcompile.tools.fuzz.layouts import make_tensor


def p0(b):
    return b.cumprod(-1), b.cumsum(-1)


def p1(b):
    return b.cumprod(0), b.cumsum(0)


def f(inputs):
    return [p0(*inputs[0]), p1(*inputs[1])]


def play(compiled):
    g, given = (
        compiled(f),
        [
            [
                (make_tensor((2, 3, 4), torch.float64, "transposed", 6513, True),),
                (make_tensor((2, 3, 4), torch.float64, "transposed", 7, True),),
            ],
            [
                (make_tensor((33, 3), torch.float64, "strided", 5, True),),
                (make_tensor((33, 3), torch.float64, "strided", 6, True),),
            ],
        ],
    )
    for inputs in map(list, zip(*given)):
        yield list(zip(g(inputs), inputs))


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
