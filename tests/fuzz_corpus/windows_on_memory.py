# fuzz: kind=tensor seed=302/tensor/windows backend=inductor dynamic=None stored=False size=1 approximate=False
import torch


def in_place(x):
    v = x[:, :1]
    v.as_strided_((2,), (1,))
    v.mul_(2)
    return v


def of_a_view(x):
    v = x[:, :1].as_strided((2,), (1,))
    v.mul_(2)
    return v


def of_a_result(x):
    y = x + 1
    v = torch.as_strided(y[0], (2, 2), (2, 1))
    v += 2
    return v, y


def only_read(x):
    return x[0].as_strided((2, 2), (1, 2)) * 2


def play(compiled):
    for function in (in_place, of_a_view, of_a_result, only_read):
        x = torch.arange(4.0).view(2, 2)
        yield compiled(function)(x), x


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
