"""The stand-in device, in a separate process: once a device is registered with torch, it cannot be removed.

tests/gpu/test_standin.py starts the process. By hand: NBCOMPILE_STANDIN=1 pytest tests/gpu/standin
"""

from __future__ import annotations

import gc
import os

import pytest

collect_ignore_glob = [] if os.environ.get("NBCOMPILE_STANDIN") else ["*"]

if os.environ.get("NBCOMPILE_STANDIN"):
    import torch

    import nbcompile
    from nbcompile.gpu.standin import device

    @pytest.fixture(scope="session", autouse=True)
    def collections_pass_over_modules():
        """The garbage collector runs after some tests; a freeze excludes the imported modules of a first compile."""
        # The autograd engine creates one queue per device at the first backward pass of a process.
        with device.standin(devices=2):
            torch.ones(2, device="cuda:1", requires_grad=True).sum().backward()
        with device.standin():
            nbcompile.compile(torch.sin)(torch.randn(8, device="cuda"))
        nbcompile.reset()
        gc.collect()
        gc.freeze()
        yield
        gc.unfreeze()  # at the end of the process they are garbage, too

    @pytest.fixture(autouse=True)
    def here():
        """One GPU, and no cached sizes of other tests."""
        nbcompile.reset()
        with device.standin() as found:
            found.executor.reasons.clear()
            found.calls.reasons.clear()
            found.driver.clear_log()
            yield found
            found.driver.set_capacity()
            assert not found.driver.library.standin_fault_is_pending(), "a fault was set up, and nothing ran into it"

    @pytest.fixture
    def nothing_is_left(here):
        """No graph and no pool outlives the compiled function, and no address was wrong."""
        gc.collect()
        before = here.driver.live_graphs()  # test_driver_results.py has graphs whose destruction fails
        yield
        nbcompile.reset()
        gc.collect()
        assert here.executor.reasons == []
        assert here.calls.reasons == []
        assert here.driver.live_graphs() <= before
        assert here.module.pool_count() == 0
