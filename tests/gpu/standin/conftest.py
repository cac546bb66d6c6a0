"""The stand-in device, in a process of its own: once registered with torch, a device stays.

tests/gpu/test_standin.py starts the process. By hand: NBCOMPILE_STANDIN=1 pytest tests/gpu/standin
"""

from __future__ import annotations

import os

import pytest

collect_ignore_glob = [] if os.environ.get("NBCOMPILE_STANDIN") else ["*"]

if os.environ.get("NBCOMPILE_STANDIN"):
    import nbcompile
    from nbcompile.gpu.standin import device

    @pytest.fixture(autouse=True)
    def here():
        """One GPU; no test makes the sizes of another one symbolic."""
        nbcompile.reset()
        with device.standin() as found:
            found.executor.reasons.clear()
            found.driver.clear_log()
            yield found
            found.driver.set_capacity()
            assert not found.driver.library.standin_fault_is_pending(), "a fault was set up, and nothing ran into it"
