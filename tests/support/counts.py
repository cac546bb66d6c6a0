"""The number of compiles of a function, call by call, and the reasons: for tests of guards and dynamic shapes."""

import copy

import torch

import nbcompile
from nbcompile.support import wrappers
from tests.support.watched import same, watch


def counts(function, calls, **options):
    """The number of graphs after each call; each result is compared with eager's.

    A call is a tuple of arguments, or one argument that is no tuple.
    """
    nbcompile.reset()
    watched = watch(function, **options)
    return counted(watched, calls)


def counted(watched, calls):
    """The number of graphs after each call of a function that is watched already."""
    found = []
    for call in calls:
        arguments = call if isinstance(call, tuple) else (call,)
        same(watched(*arguments), plain(watched)(*copied(arguments)))
        found.append(len(watched.backend))
    return found


def plain(watched):
    return wrappers.original(watched.function) or watched.function._orig_mod


def copied(arguments):
    memo = {}
    return tuple(each if isinstance(each, torch.Tensor) else copy.deepcopy(each, memo) for each in arguments)


def reasons(watched):
    """The reasons of the entries that rejected, newest entry first, for each recompile."""
    return [[each.reason for each in frame.failed_guards] for frame in watched.record.frames if frame.failed_guards]


def guards(watched, index=-1):
    """The guards of one compiled frame in order, without those on the process state."""
    return [each.condition for each in watched.frames[index].guards if each.source or "L[" in each.condition]


def kinds(watched, index=-1):
    return [each.kind for each in watched.frames[index].guards]


def ones(*sizes):
    """Arguments with one call for each size."""
    return [torch.ones(each) for each in sizes]
