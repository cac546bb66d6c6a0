"""Functions that another process can import, for tests of the comparison."""

import time

import torch


def f(x, y):
    z = torch.sin(x) * 2 + y
    if z.sum() > 0:
        return z.relu()
    return z.exp()


def traced(x, w):
    y = torch.relu(x @ w)
    print("half")
    return (y * 2).sum(-1)


def fails(x):
    raise ValueError("not today")


def never_ends(x):
    while True:
        time.sleep(1)


def prints(x):
    print("from the child")
    return x + 1


def net():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
