"""Every choice a user can make for one ``nbcompile.compile`` call.

In torch: the arguments of torch.compile. Process-wide settings with torch's
names live in nbcompile/config.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OWN_BACKENDS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
"""Names of the backends of backends/builtin.py, for modules that must not import them."""
OWN_NAME = "nbcompile"
"""Our name where torch.compile's backends are listed; in our own ``compile`` it is the last of the ladder."""


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of one ``compile`` call, normalised."""

    fullgraph: bool = False
    """The whole function must be one graph; the first break is an error."""
    dynamic: bool | None = None
    """None: a size that changed becomes symbolic; True: all sizes are; False: none."""
    backend: str | Callable[..., Callable[..., Any]] = "inductor"
    """A name (backends/builtin.py) or ``(GraphModule, example_inputs) -> callable``."""
    mode: str | None = None
    backend_options: Mapping[str, object] = field(default_factory=dict)
    recompile_limit: int | None = None
    """None: ``config.recompile_limit``."""
    name: str | None = None
    isolate_recompiles: bool = False
    """Its cache entries are its own, and counted apart."""
    guard_filter: Callable[[Sequence[Any]], Sequence[bool]] | None = None
    """Given a description of each guard, says which are kept (``options={"guard_filter_fn": ...}``)."""
