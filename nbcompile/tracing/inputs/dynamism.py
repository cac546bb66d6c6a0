"""Dynamic inputs: the sizes and numbers of the inputs that become symbolic.

    first call                          every size is a constant
    a size differed in a later call     that dim gets its own symbol
    dynamic=True                        all dims do; equal ones share a symbol
    torch._dynamo.mark_dynamic(t, 0)    that dim does, or else it is an error

In torch: torch/_dynamo/variables/builder.py (_automatic_dynamic) and pgo.py.
Read next: nbcompile/dispatch/cache.py, which remembers what differed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch

from nbcompile import config, torch_internals
from nbcompile.capture.source import AttrSource, ItemSource, LocalSource, Source, expression, root
from nbcompile.support import users_line
from nbcompile.torch_internals import SymbolicDim
from nbcompile.tracing import breaks
from nbcompile.tracing.inputs.int64_bounds import LARGEST

if TYPE_CHECKING:
    from nbcompile.dispatch.observed_values import ObservedValues

STATIC = SymbolicDim()


@dataclass(frozen=True, slots=True)
class Dynamism:
    """The policy for one trace of one frame."""

    dynamic: bool | None = None
    dims: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Dims whose size was seen to differ between calls, by the tensor's expression."""
    strides: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Dims whose stride was, while no size was."""
    scalars: frozenset[str] = frozenset()
    """Expressions of ints and floats seen to differ."""
    floats: bool = True
    """False: the backend can do nothing with symbolic floats."""
    origins: dict[str, str] = field(default_factory=dict)
    """Reason why a size or number is symbolic, by its expression; filled in while inputs are created."""

    @classmethod
    def of_observed(cls, dynamic: bool | None, observed: ObservedValues) -> Dynamism:
        """The policy of ``compile(f, dynamic=...)``, with the values that differed between calls."""
        return cls(dynamic, observed.dims, observed.strides, observed.scalars)

    def context(self, value: torch.Tensor, source: Source) -> Any:
        """The symbolic context of a tensor input; None: all its sizes are constants."""
        _warn_of_marks_without_effect(value, expression(source))
        fixed = config.force_parameter_static_shapes and (
            isinstance(value, torch.nn.Parameter) or is_module_state(source)
        )
        return self._context(value, expression(source), fixed)

    def _context(self, value: torch.Tensor, name: str, fixed: bool) -> Any:
        if value.is_nested and value.layout is torch.strided:  # what a nested tensor of layout jagged is a view of
            raise breaks.unsupported(breaks.STRIDED_NESTED_INPUT, name)
        # As each dim has its own row, one tensor may mix constants, symbols and marks.
        dims = [self._dim(value, name, dim, fixed) for dim in range(value.dim())]
        base = value._base
        # A view is faked through its base, so that both share memory. A base with static sizes still needs a context if
        # the view has symbols.
        of_base = None if base is None else self._context(base, f"{name}._base", fixed)
        if of_base is None and all(each == STATIC for each in dims):
            return None
        if base is not None and of_base is None:
            of_base = torch_internals.symbolic_context([STATIC] * base.dim(), f"{name}._base", None)
        inside = self._inside(value, name, dims) if torch_internals.is_wrapper(value) else None
        return torch_internals.symbolic_context(dims, name, of_base, inside)

    def _inside(self, value: Any, name: str, dims: Sequence[SymbolicDim]) -> dict[str, Any]:
        """The contexts of the tensors that a wrapper holds: as the wrapper's own, where they have as many dims."""
        names, _ = value.__tensor_flatten__()
        contexts = {}
        for inner in names:
            part, below = getattr(value, inner), f"{name}.{inner}"
            rank = part.dim()
            # A jagged tensor holds values and offsets, whose dims are others than its own.
            if torch_internals.is_jagged(value):
                alike: Sequence[SymbolicDim] = [self._dim(part, below, dim, fixed=False) for dim in range(rank)]
            else:
                alike = dims if rank == len(dims) else [STATIC] * rank
            contexts[inner] = torch_internals.symbolic_context(alike, below, None)
        return contexts

    def _dim(self, value: torch.Tensor, name: str, dim: int, fixed: bool) -> SymbolicDim:
        """The first row that holds says what a dim is: the user's marks, then the settings, then what was seen."""

        def is_marked(mark: str) -> bool:
            return dim in _marks(value, f"_dynamo_{mark}_indices")

        size, differed = value.size(dim), dim in self.dims.get(name, ())
        for holds, origin, marked in (
            (is_marked("strict_unbacked"), "mark_unbacked", SymbolicDim("unbacked", marked=True)),
            (is_marked("unbacked"), "mark_unbacked", _unbacked(value, dim)),
            (is_marked("dynamic"), "mark_dynamic", _marked_dynamic(value, dim)),
            (is_marked("weak_dynamic"), "maybe_mark_dynamic", SymbolicDim("dynamic")),
            (dim in _marks(value, "_dynamo_propagated_dynamic_indices"), "ragged", SymbolicDim("dynamic")),
            (_is_listed(config.unbacked_sources, name, dim), "unbacked_sources", SymbolicDim("unbacked")),
            (_is_listed(config.dynamic_sources, name, dim), "dynamic_sources", SymbolicDim("dynamic")),
            (is_marked("static") or fixed, "", STATIC),
            (str(size) in _listed(config.dynamic_values), "dynamic_values", SymbolicDim("dynamic")),
            (differed, "automatic dynamic", SymbolicDim(_MARK_AS[config.automatic_dynamic_shapes_mark_as])),
        ):
            if holds:
                # For messages: the reason is what a user sees next to the
                # symbol, and the mark decides what it may be guarded on.
                self.origins[f"{name}.size()[{dim}]"] = origin
                return marked
        # No row held. ``dynamic=True``: a duck size, which shares its symbol with dims of equal size; else a constant.
        if self._from_the_start():
            self.origins[f"{name}.size()[{dim}]"] = "assume_static_by_default = False"
        varies = dim in self.strides.get(name, ())
        return SymbolicDim("duck" if self._from_the_start() else "static", stride_varies=varies)

    def is_symbolic_int(self, value: int, source: Source) -> bool:
        """True if an int input stays symbolic. One that is no argument, or a default, stays a constant."""
        if config.specialize_int or not isinstance(root(source), LocalSource) or _is_default(source):
            return False
        if abs(value) > LARGEST:
            return False
        return self._is_symbolic(value, expression(source))

    def is_symbolic_float(self, value: float, source: Source) -> bool:
        """True if a float input stays symbolic."""
        return self.floats and not config.specialize_float and self._is_symbolic(value, expression(source))

    def _is_symbolic(self, value: float, name: str) -> bool:
        for holds, origin in (
            (_is_listed(config.dynamic_sources, name) or _is_listed(config.unbacked_sources, name), "dynamic_sources"),
            (type(value) is int and str(value) in _listed(config.dynamic_values), "dynamic_values"),
            (name in self.scalars, "automatic dynamic"),
            (self._from_the_start(), "assume_static_by_default = False"),
        ):
            if holds:
                self.origins[name] = origin
                return True
        return False

    def _from_the_start(self) -> bool:
        return bool(self.dynamic) or (self.dynamic is None and not config.assume_static_by_default)


_MARK_AS: dict[str, Literal["dynamic", "unbacked"]] = {"dynamic": "dynamic", "unbacked": "unbacked"}


def _listed(setting: str) -> list[str]:
    return [each.strip() for each in setting.split(",") if each.strip()]


def _is_listed(setting: str, name: str, dim: int | None = None) -> bool:
    """True if a setting names an input: by its name, by a pattern, or with a dim after a colon."""
    for entry in _listed(setting):
        pattern, colon, only = entry.rpartition(":")
        if colon and only.isdecimal():
            if dim is not None and int(only) != dim:
                continue
            entry = pattern  # noqa: PLW2901
        # As in torch, an entry is a name, or a pattern for the beginning of one: ``L\['x'\]`` is
        # for its attributes, too.
        if entry == name or re.match(entry, name):
            return True
    return False


def _marked_dynamic(value: torch.Tensor, dim: int) -> SymbolicDim:
    if config.allow_ignore_mark_dynamic:
        return SymbolicDim("dynamic")
    bounds = [each for each in _marks(value, "_dynamo_dynamic_range") if each.dim == dim]  # type: ignore[attr-defined]
    least, most = (bounds[-1].min, bounds[-1].max) if bounds else (None, None)  # type: ignore[attr-defined]
    return SymbolicDim("dynamic", marked=True, least=least, most=most)


def _unbacked(value: torch.Tensor, dim: int) -> SymbolicDim:
    least, most = getattr(value, "_dynamo_unbacked_bounds", {}).get(dim, (None, None))
    shape_id = getattr(value, "_dynamo_shape_ids", {}).get(dim)
    return SymbolicDim("unbacked", least=least, most=most, shape_id=shape_id)


_EVERY_MARK = ("strict_unbacked", "unbacked", "dynamic", "weak_dynamic", "static")


def _warn_of_marks_without_effect(value: torch.Tensor, name: str) -> None:
    """Torch takes any number for a dim, and forgets those that the tensor does not have, the negative ones too."""
    for mark in _EVERY_MARK:
        for dim in _marks(value, f"_dynamo_{mark}_indices"):
            if not 0 <= dim < value.dim():  # type: ignore[operator]
                message = f"a mark on dim {dim} of {name} has no effect: its dims are 0 to {value.dim() - 1}"
                users_line.warn(message, UserWarning)


def _marks(value: torch.Tensor, name: str) -> set[object]:
    found = value.__dict__.get(name) if hasattr(value, "__dict__") else None
    return set(found) if found else set()


def is_module_state(source: Source) -> bool:
    """True if an address leads through the parameters, buffers or submodules of a module."""
    while isinstance(source, (AttrSource, ItemSource)):
        if isinstance(source, AttrSource) and source.attribute in ("_parameters", "_buffers", "_modules"):
            return True
        source = source.base
    return False


def _is_default(source: Source) -> bool:
    while isinstance(source, (AttrSource, ItemSource)):
        if isinstance(source, AttrSource) and source.attribute in ("__defaults__", "__kwdefaults__"):
            return True
        source = source.base
    return False
