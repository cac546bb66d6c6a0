# fuzz: kind=python seed=301/python/grad_mode backend=eager dynamic=None stored=False size=1 approximate=False
import torch

from nbcompile.tools.fuzz.program import tried


def called(x, mode):
    torch.set_grad_enabled(mode)
    return x * 2


def as_a_context(x, mode):
    with torch.set_grad_enabled(mode):
        return x * 2


def caught(x, mode):
    try:
        torch.set_grad_enabled(mode)
    except TypeError as error:
        return x * 3, str(error), torch.is_grad_enabled()
    return x * 2, torch.is_grad_enabled()


def play(compiled):
    for function in (called, as_a_context, caught):
        g = compiled(function)
        for mode in (True, None, 1, False, 0, "no", 1.0):
            yield tried(g, torch.ones(2, requires_grad=True), mode)
            torch.set_grad_enabled(True)


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
