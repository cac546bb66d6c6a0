"""Stream captures of the stand-in driver, as in CUDA's driver API."""

from __future__ import annotations

import ctypes

UNSUPPORTED, INVALIDATED, WRONG = 900, 901, 905
STREAM = ctypes.c_void_p(11)


def test_a_capture_keeps_what_it_was_asked_for(here):
    """A copy in a capture does not run; each replay copies the current values."""
    others = here.driver.live_graphs()
    library, graph, executable = here.driver.library, ctypes.c_void_p(), ctypes.c_void_p()
    addresses = [ctypes.c_uint64() for _ in range(2)]
    for address in addresses:
        assert library.cuMemAlloc_v2(ctypes.byref(address), 8) == 0
    first, second = (ctypes.c_uint64.from_address(address.value) for address in addresses)
    first.value, second.value = 1, 2
    assert library.cuStreamBeginCapture_v2(STREAM, 1) == 0
    assert library.cuMemcpyDtoDAsync_v2(addresses[0], addresses[1], 8, STREAM) == 0
    assert library.cuStreamEndCapture(STREAM, ctypes.byref(graph)) == 0
    assert first.value == 1
    assert library.cuGraphLaunch(graph, None) == 400, "a graph that was not instantiated"
    assert library.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, 0) == 0
    assert library.cuGraphDestroy(graph) == 0
    for value in (5, 6):
        second.value = value
        assert library.cuGraphLaunch(executable, None) == 0
        assert first.value == value
    assert library.cuMemFree_v2(addresses[1]) == 0
    assert library.cuGraphLaunch(executable, None) == 1, "memory that is gone"
    assert library.cuGraphExecDestroy(executable) == 0
    assert library.cuMemFree_v2(addresses[0]) == 0
    assert here.driver.live_graphs() == others


def test_a_synchronisation_spoils_a_capture(here):
    """A synchronisation and the end of the capture return errors; the default stream cannot be captured."""
    others = here.driver.live_graphs()
    library, graph = here.driver.library, ctypes.c_void_p()
    assert library.cuStreamBeginCapture_v2(None, 1) == UNSUPPORTED
    assert library.cuStreamEndCapture(STREAM, ctypes.byref(graph)) == WRONG
    assert library.cuStreamBeginCapture_v2(STREAM, 1) == 0
    assert here.driver.is_capturing(11)
    assert library.cuStreamSynchronize(STREAM) == UNSUPPORTED
    assert library.cuStreamEndCapture(STREAM, ctypes.byref(graph)) == INVALIDATED
    assert graph.value is None
    assert not here.driver.is_capturing(11)
    assert here.driver.live_graphs() == others
