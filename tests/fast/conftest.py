"""Settings of the tests of ``fast/``, which need the mechanisms that ``config.reference`` switches off."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, except those that compare both paths."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.name != "test_reference.py":
            item.add_marker(pytest.mark.fast_path)
