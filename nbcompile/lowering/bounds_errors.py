"""Errors of indices out of bounds: class and text are eager's, which are those of the function that was called.

    x.gather(1, ids)       RuntimeError: index 9 is out of bounds for dimension 1 with size 4
    x[:, ids]              IndexError: index 9 is out of bounds for dimension 1 with size 4
    F.embedding(ids, x)    IndexError: index out of range in self
    F.nll_loss(x, ids)     IndexError: Target 9 is out of bounds.

ATen's graph has a gather for the first and for the last, so the name of the captured call decides.

In torch: nothing; generated code raises a RuntimeError that names its own file. Read next:
nbcompile/runtime/launcher.py
"""

from __future__ import annotations

import torch.fx

from nbcompile.capture.node_meta import CALLED

_WITHOUT_DIMENSION = "index {index} is out of bounds for dimension with size {size}"
_WITH_DIMENSION = "index {{index}} is out of bounds for dimension {dim} with size {{size}}"
_TARGET = "Target {{index}} is out of bounds."
_IN_SELF = "index out of range in self"
_TEXTS = {
    **dict.fromkeys(
        ("gather", "scatter", "scatter_add", "scatter_reduce", "index_add"),
        f"RuntimeError: {_WITH_DIMENSION}",
    ),
    **dict.fromkeys(("getitem", "setitem", "index_put", "index_fill"), _WITH_DIMENSION),
    **dict.fromkeys(("nll_loss", "nll_loss_nd", "cross_entropy", "cross_entropy_loss"), _TARGET),
    # Its check is an index into a table of one element (aot/checks.py).
    "binary_cross_entropy": "RuntimeError: all elements of input and target should be between 0 and 1",
    "index_copy": f"index_copy_(): {_WITH_DIMENSION}",
    "take": "out of range: tried to access index {{index}} on a tensor of {{size}} elements.",
    "embedding": _IN_SELF,
    "index_select": _IN_SELF,
}
"""Texts of eager mode, by the name of the function."""
_OUT_OF_DATA = "RuntimeError: INDICES element is out of DATA bounds, id={{index}} axis_dim={{size}}"
_TEXTS_OF_COLUMNS = {"index_select": _OUT_OF_DATA}
"""Texts for the second dimension, where they are others."""
_TEXTS_OF_VECTORS = {"index_add": _IN_SELF}
"""Texts for a tensor of one dimension, which has no ``dim`` here."""


def bounds_error(node: torch.fx.Node | None, dim: int | None) -> str:
    """The error of an index into a dimension, with fields for ``index`` and ``size``.

    Args:
        node: the operator, which knows the function that the program called.
        dim: the dimension as eager counts it; None where it does not say which.
    """
    called = str(node.meta.get(CALLED, "")) if node is not None else ""
    name = called.partition(".")[0].removesuffix("_")
    if dim is None:
        return _TEXTS_OF_VECTORS.get(name, _WITHOUT_DIMENSION)
    text = (_TEXTS_OF_COLUMNS.get(name) if dim == 1 else None) or _TEXTS.get(name)
    return _WITHOUT_DIMENSION if text is None else text.format(dim=dim)
