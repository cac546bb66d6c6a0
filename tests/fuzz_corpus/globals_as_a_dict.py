# fuzz: kind=guards seed=1001/guards/1/36 backend=eager dynamic=None stored=False size=1 approximate=False
import torch

from nbcompile.tools.fuzz.program import tried

G = 2


def f(x, out):
    globals()["G"] = G + 1
    out.append(G)
    return x * G, out


def play(compiled):
    g = compiled(f)
    for _ in range(3):
        yield tried(g, torch.ones(2), [])
    yield G


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
