"""Libraries whose code is not compiled."""

import networkx as nx
import numpy as np
import pytest
import tqdm

from nbcompile.capture.libraries import SKIPPED_PACKAGES
from nbcompile.dispatch import skipping


@pytest.mark.parametrize("function", [nx.Graph.add_edge, np.linalg.norm, tqdm.trange], ids=lambda f: f.__module__)
def test_frames_of_these_libraries_are_skipped(function):
    """The hook leaves a function of a listed library to Python, and not a function of this file."""
    plain = getattr(function, "__wrapped__", function)
    assert plain.__module__.partition(".")[0] in SKIPPED_PACKAGES
    assert skipping.code_skip_reason(plain.__code__) is not None
    assert skipping.code_skip_reason(test_names_are_sorted.__code__) is None


def test_names_are_sorted():
    """The list is sorted and names each library once."""
    assert list(SKIPPED_PACKAGES) == sorted(set(SKIPPED_PACKAGES))
