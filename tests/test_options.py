"""Options of our backend."""

from __future__ import annotations

import pytest

from nbcompile import errors
from nbcompile.options import MODES, BackendOptions, read_settings


@pytest.mark.parametrize("mode", [None, *MODES])
def test_every_mode_of_torch_is_known(mode):
    """Each mode of torch is accepted; on a GPU some tune kernels, and two replay graphs."""
    tuned, replayed = (mode or "").startswith("max-autotune"), mode in ("reduce-overhead", "max-autotune")
    assert read_settings(mode, {}) == BackendOptions(max_autotune=tuned, cuda_graphs=replayed)


@pytest.mark.parametrize(("options", "backends"), [
    ({}, ("ATEN",)), ({"max_autotune": True}, ("ATEN", "TRITON")), ({"max_autotune_gemm": True}, ("ATEN", "TRITON")),
    ({"max_autotune": True, "max_autotune_gemm_backends": "triton, cutlass"}, ("TRITON",)),
    ({"max_autotune_gemm_backends": "TRITON"}, ("ATEN",)),
])  # fmt: skip
def test_candidates_of_a_matrix_product(options, backends):
    """Candidates have torch's option names; without tuning only ATen's product is one."""
    assert read_settings(None, options).product_backends == backends


def test_options_are_fields():
    """Options set fields, others keep their defaults; a name of torch's sets ours."""
    assert read_settings(None, {"triton.cudagraphs": True}) == BackendOptions(cuda_graphs=True)
    assert read_settings(None, {"verify": True, "target": "sm_90"}) == BackendOptions(verify=True, target="sm_90")


def test_unknown_names_are_errors():
    """An unknown name is an error, with near names."""
    with pytest.raises(errors.InvalidMode, match="'fast'"):
        read_settings("fast", {})
    with pytest.raises(errors.InvalidBackendOption, match="Did you mean 'fallback_random'"):
        read_settings(None, {"fallback_randon": True})
