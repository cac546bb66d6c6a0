"""The tests of ``fast/`` ask for what ``config.reference`` switches off."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder is about a mechanism of ``fast/``, but for those that compare both paths."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.name != "test_reference.py":
            item.add_marker(pytest.mark.fast_path)
