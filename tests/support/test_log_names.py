"""The names of ``TORCH_LOGS``."""

from __future__ import annotations

import torch

from nbcompile.support import log_names

TABLES = (log_names.PRINTED, log_names.LIVE, log_names.BY_TORCH, log_names.NOT_HERE)


def test_every_artifact_of_torch_has_its_line():
    """Each artifact of this torch is in exactly one table."""
    names = [name for table in TABLES for name in table]
    assert len(names) == len(set(names))
    registered = set(torch._logging._internal.log_registry.artifact_names)
    assert registered - set(names) == set()


def test_parts_consist_of_what_is_printed():
    """The artifacts of a component, as in ``TORCH_LOGS=+inductor``, are printed."""
    assert all(set(names) <= log_names.PRINTED.keys() for names in log_names.COMPONENTS.values())


def test_the_help_has_every_name():
    """The help has each name with its meaning, on one line."""
    lines = log_names.help_text().splitlines()
    for table in TABLES:
        for name, meaning in table.items():
            assert sum(line.split()[:1] == [name] and line.endswith(meaning) for line in lines) == 1
