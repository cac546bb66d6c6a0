# fuzz: kind=tensor seed=301/tensor/0/0 backend=inductor dynamic=None stored=False size=1 approximate=True
import torch

from nbcompile.tools.fuzz.layouts import make_tensor

COMPLEX = torch.complex64


def of_complex_numbers(a, square):
    index = torch.zeros(2, 3, dtype=torch.int64)
    return [
        square.tril(),
        square.triu(1),
        torch.nn.functional.pad(a, (1, 2)),
        torch.nn.functional.pad(a, (-1, 1), value=2.0),
        a.scatter_add(0, index, a),
        a.scatter(1, index, 3),
        a.index_add(0, torch.tensor([0]), a[:1]),
        a.masked_fill(a == a, 2),
        torch.full_like(a, 3),
        a.nan_to_num(),
        a.nan_to_num(1.0, 2.0, 3.0),
        torch.einsum("...i,...i->...", a, a),
        torch.diag_embed(a),
        torch.block_diag(a, a),
    ]


def of_no_elements(a, b):
    index = torch.zeros(2, 0, dtype=torch.int64)
    return [
        a.tile(2),
        a.repeat(3, 2, 2),
        a.roll(1, 1),
        a.flip(1),
        a.reshape(0, 5),
        a.reshape(2, 0, 3).permute(2, 0, 1).reshape(-1),
        b.tril(),
        b.scatter_add(-2, index, b),
        a.scatter_add(-2, index, a),
        torch.nn.functional.pad(b, (1, 1)),
        a.repeat_interleave(2, 1),
        torch.nn.functional.pad(a, (2, 1), value=1.0),
    ]


def play(compiled):
    a = make_tensor((2, 3), COMPLEX, "transposed", 3)
    yield compiled(of_complex_numbers)(a, make_tensor((3, 3), torch.complex128, "contiguous", 4))
    yield compiled(of_no_elements)(torch.ones(2, 0), torch.ones(2, 0, dtype=COMPLEX))


if __name__ == "__main__":
    from nbcompile.tools.fuzz import oracle, program

    oracle.replay(program.Program.read(__file__))
