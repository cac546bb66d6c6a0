"""Operators by their methods, and their names in error messages."""

from __future__ import annotations

import torch

import nbcompile


def test_the_error_of_an_operator_in_place_names_it():
    """The error of ``None += 1`` names ``+=``, not ``+``."""

    def function(x):
        value = None
        try:
            value += 1
        except TypeError as error:
            return x + 1, str(error)

    x = torch.ones(2)
    assert nbcompile.compile(function)(x)[1] == function(x)[1]
