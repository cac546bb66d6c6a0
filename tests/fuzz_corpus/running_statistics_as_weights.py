# fuzz: kind=tensor seed=900/tensor/0/2 backend=inductor dynamic=True stored=False size=1 approximate=True

import torch

from nbcompile.tools.fuzz.layouts import make_tensor


def p0(a, b, c, d, e):
    v0 = torch.nn.functional.batch_norm(c, d, e, e, d, training=True)
    return (v0, e)


def f(inputs):
    return [p0(*inputs[0])]


def play(compiled):
    inputs = [
        (
            make_tensor((1,), torch.float64, "contiguous", 1863, False),
            make_tensor((2, 3, 4, 5), torch.int16, "transposed", 5634, False),
            make_tensor((2, 1), torch.float32, "storage offset", 9178, False),
            make_tensor((1,), torch.float32, "contiguous", 86, False),
            make_tensor((1,), torch.float32, "reversed dims", 8330, False),
        )
    ]
    yield list(zip(compiled(f)(inputs), inputs))


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
