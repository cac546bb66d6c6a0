"""NumPy in a compiled function: arrays are traced as tensors, as torch does with torch._numpy."""

import numpy as np
import torch

from tests.peer.program import program

WEIGHTS = np.arange(6.0).reshape(2, 3)
SCALARS = "2.13 returns arrays in place of numpy scalars"


def counted(kind=float):
    return np.arange(4).astype(kind) + 1


@program()
def array_arithmetic():
    def f(a):
        return a * 2 + 1, 2 - a, a**2, -a, a // 2, a % 2, a > 1, a == 2, 1 / a

    return f, [(counted(),)]


@program(torch_differs=SCALARS)
def array_methods_and_reductions():
    def f(a):
        return (
            a.sum(),
            a.mean(0),
            a.reshape(2, 2).T,
            a.astype(np.float32),
            a.argmax(),
            a.copy(),
            a.cumsum(),
            a.clip(1, 2),
        )

    return f, [(counted(),)]


@program(torch_differs=SCALARS)
def array_functions():
    def f(a):
        grid = a.reshape(2, 2)
        return (
            np.exp(a), np.maximum(a, 2), np.where(a > 2, a, 0), np.concatenate([a, a]), np.stack([a, a]), np.mean(a),
            np.dot(a, a), np.clip(a, 1, 2), np.outer(a, a), np.einsum("ij,jk->ik", grid, grid), np.linalg.norm(a),
        )  # fmt: skip

    return f, [(counted(),)]


@program()
def arrays_and_tensors_meet():
    def f(a, x):
        t = torch.from_numpy(a) + torch.as_tensor(a) + torch.tensor(a)
        return t + x, np.sin(a), (x + 1).numpy() * 2, np.asarray(x) + 1

    return f, [(counted(), torch.ones(4))]


@program(torch_differs=SCALARS)
def array_is_indexed():
    def f(a):
        return a[0], a[1:], a[None].shape, a[[0, 1]], a[..., 0], len(a), [item * 2 for item in a]

    return f, [(counted(),)]


@program()
def array_changes_in_place():
    def f(a, b):
        a[0] = 5
        a += 1
        np.add(a, b, out=b)
        torch.from_numpy(b).add_(1)
        return a * 2

    return f, [(counted(), counted())]


@program()
def arrays_are_made_inside():
    def f(x):
        made = np.zeros(3), np.ones((2, 2)), np.arange(4), np.eye(2), np.array([1.0, 2.0]), np.linspace(0, 1, 3)
        return made, np.full((2,), 7) * np.pi, x + 1

    return f, [(torch.ones(2),)]


@program()
def array_sizes_differ():
    def f(a):
        return a * 2

    return f, [(np.arange(4.0),), (np.arange(5.0),), (np.arange(6.0),)]


@program(torch_differs="int64 / int64 is float32 in torch._numpy")
def array_of_integers():
    def f(a):
        return a + 1, a / 2, np.sqrt(a), a * 1.5, np.square(a)

    return f, [(counted(int),)]


@program()
def array_survives_a_break():
    def f(a):
        b = a + 1
        print("between")
        return b * 2, isinstance(a, np.ndarray), type(b) is np.ndarray

    return f, [(counted(),)]


@program()
def array_outside_of_the_function():
    def f(a):
        return WEIGHTS + a, np.sort(a), np.flip(a), np.roll(a, 1), np.repeat(a, 2), np.vstack([a, a])

    return f, [(np.arange(6.0).reshape(2, 3),)]


@program()
def numpy_function_without_a_twin():
    def f(a):
        return np.unique(a), np.add.reduceat(a, [0]), a + 1

    return f, [(counted(),)]


@program()
def array_of_truth_values():
    def f(a):
        return a & True, ~a, a | a, np.logical_not(a)

    return f, [(np.array([True, False]),)]


@program(torch_differs="2.13 returns an array where NumPy gives the tensor's own class")
def numpy_function_of_a_tensor():
    def f(x):
        return np.add(x, 1) * 2

    return f, [(torch.ones(3),)]


@program(torch_differs="the median is an array with one item in torch._numpy")
def median_is_left_to_numpy():
    def f(a):
        return np.median(a), a + 1

    return f, [(counted(),)]


@program()
def what_numpy_knows_of_a_dtype():
    def f(a):
        return a + np.finfo(a.dtype).eps, np.iinfo(np.int32).max, np.finfo(np.float32).min

    return f, [(np.arange(4.0, dtype=np.float32),)]


@program()
def dtypes_that_are_made():
    def f(a):
        kind = np.dtype(np.float64)
        return a.astype(kind), kind.itemsize, kind.name, kind == np.float64, kind.kind, a.dtype == np.float32

    return f, [(np.arange(4.0, dtype=np.float32),)]


@program()
def dtype_of_an_argument_decides():
    def f(a):
        return a + 1 if a.dtype == np.dtype("float32") else a + 2

    return f, [(np.arange(4.0, dtype=np.float32),), (np.arange(4.0),)]


@program()
def dtype_is_an_argument():
    def f(a, kind):
        return a.astype(kind) + 1

    return f, [(np.arange(4.0), np.dtype("float32")), (np.arange(4.0), np.dtype("float64"))]


@program()
def arrays_made_with_a_dtype():
    def f(a):
        return np.zeros(4, dtype=np.dtype("int64")) + a, np.ones_like(a, dtype=np.dtype(np.int32))

    return f, [(np.arange(4.0),)]


@program()
def scalar_of_numpy_is_an_argument():
    def f(x, k):
        return x * k

    return f, [(torch.ones(3), np.float32(2.0)), (torch.ones(3), np.float32(3.0))]
