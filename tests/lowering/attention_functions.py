"""Masks and score functions that tests of flex attention share."""

from __future__ import annotations

import torch


def causal(b, h, i, j):
    return i >= j


def window(b, h, i, j):
    return (i >= j) & (i - j < 20)


def nothing_for_some(b, h, i, j):
    return (i > 5) & (j % 3 != 0)


def relative(s, b, h, i, j):
    return s + (i - j) * 0.1


def soft_cap(s, b, h, i, j):
    return torch.tanh(s / 2.0) * 2.0


def by_case(s, b, h, i, j):
    return torch.where((i // 4) % 2 == j % 2, s * 2, torch.maximum(s, -s) - h)
