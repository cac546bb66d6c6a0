"""NumPy in a graph: arrays are tensors there, and NumPy's functions their counterparts in ``torch._numpy``.

    np.sin(a) + 1      wrapped_sin(a), wrapped_add(.., 1)     nodes on tensors
    a.sum()            wrapped_sum(a)
    the result         to_array(graph_out_0)                  in the residual program

Each node's target is a small object that calls the counterpart on tensors and returns tensors, so that the graph has
only tensors.

In torch: torch/_dynamo/utils.py (numpy_to_tensor_wrapper, numpy_method_wrapper,
numpy_operator_wrapper). Read next: nbcompile/tracing/variables/ndarray.py
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import BuiltinMethodType, MethodType, ModuleType
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.support.real_class import is_instance

NAMESPACES = ("", ".fft", ".linalg", ".random")


def numpy() -> ModuleType | None:
    """NumPy, if the program has imported it: otherwise there are no arrays."""
    # The compiler itself does not import NumPy, which takes a while.
    return sys.modules.get("numpy")


def is_array(value: object) -> bool:
    """True if it is an array or one of NumPy's scalars."""
    known = numpy()
    return known is not None and is_instance(value, (known.ndarray, known.generic))


def is_scalar(value: object) -> bool:
    """True if it is one of NumPy's scalars."""
    return not isinstance(value, numpy().ndarray)  # type: ignore[union-attr]


def is_type_info(value: object) -> bool:
    """True if it is a dtype of NumPy's, or describes one: np.finfo(np.float32)."""
    known = numpy()
    return known is not None and is_instance(value, (known.dtype, known.finfo, known.iinfo))


def is_dtype(value: object) -> bool:
    """True if it is a dtype of NumPy's."""
    known = numpy()
    return known is not None and isinstance(value, known.dtype)


def is_type_info_class(cls: type) -> bool:
    """True if it is the class of a dtype or of its description: np.dtype, np.finfo."""
    known = numpy()
    return known is not None and cls in (known.dtype, known.finfo, known.iinfo)


def is_scalar_class(cls: type) -> bool:
    """True if it is a class of NumPy's scalars: np.float32."""
    known = numpy()
    return (
        known is not None and issubclass(cls, known.generic) and hasattr(torch_internals.torch_numpy(""), cls.__name__)
    )


def torch_scalar_type(cls: type) -> Callable[..., object]:
    """The class of ``torch._numpy`` that makes this class of NumPy's scalars of tensors."""
    scalar_type: Callable[..., object] = getattr(torch_internals.torch_numpy(""), cls.__name__)
    return scalar_type


@functools.cache
def _counterparts() -> dict[int, tuple[object, Callable[..., object]]]:
    """The functions that ``torch._numpy`` has, by the identity of NumPy's own."""
    found: dict[int, tuple[object, Callable[..., object]]] = {}
    for namespace in NAMESPACES:
        theirs: Any = sys.modules.get(f"numpy{namespace}")
        ours = torch_internals.torch_numpy(namespace)
        for name, torch_function in vars(ours).items():
            original = getattr(theirs, name, None)
            if (
                callable(torch_function)
                and not isinstance(torch_function, type)
                and callable(original)
                and not isinstance(original, type)
            ):
                found[id(original)] = (original, torch_function)  # if two names have one function, the last name
    return found


def torch_function(function: object) -> Callable[..., object] | None:
    """The function that computes one of NumPy's on tensors; None if there is none."""
    if numpy() is None:
        return None
    found = _counterparts().get(id(function))
    # np.random.rand is a new object at each look-up: the bound method of one generator.
    # Bound methods are equal if function and object are.
    if found is None and is_instance(function, BuiltinMethodType | MethodType) and _is_of_numpy(function):
        found = next((each for each in _counterparts().values() if each[0] == function), None)
    return None if found is None else found[1]


def _is_of_numpy(method: BuiltinMethodType | MethodType) -> bool:
    return type(method.__self__).__module__.partition(".")[0] == "numpy"


@dataclass(frozen=True, slots=True)
class ArrayFunction:
    """A function of NumPy (or of ``operator``) as a node's target."""

    function: Callable[..., Any]
    name: str
    operands_are_arrays: bool = False
    """True if tensors are to be arrays before the call: for operators, which dispatch on them."""
    dtype: torch.dtype | None = None
    """The dtype of NumPy's result, if the variant's would differ: ``int64 / int64`` is float64, not float32."""

    @property
    def __name__(self) -> str:
        return f"wrapped_{self.name}"

    def __call__(self, *arguments: object, **keywords: object) -> object:
        # torch._numpy divides integers into the default dtype of torch; NumPy into float64.
        if self.dtype is not None and self.dtype.is_floating_point:
            arguments = tuple(each.to(self.dtype) if isinstance(each, torch.Tensor) else each for each in arguments)
        if self.operands_are_arrays:
            arguments = tuple(_array(each) for each in arguments)
        result: Any = _tensors(self.function(*arguments, **keywords))
        return result if self.dtype is None else result.to(self.dtype)


@dataclass(frozen=True, slots=True)
class ArrayMethod:
    """A method of arrays as a node's target."""

    name: str

    @property
    def __name__(self) -> str:
        return f"wrapped_{self.name}"

    def __call__(self, array: object, *arguments: object, **keywords: object) -> object:
        return _tensors(getattr(_array(array), self.name)(*arguments, **keywords))


# What FX prints before the name of a target. Set last: a dataclass looks its annotations up in the module of its
# class, and NumPy may not be there.
ArrayFunction.__module__ = ArrayMethod.__module__ = "numpy"


def array_attribute(array: object, name: str) -> object:
    """An attribute of an array, as a node: ``a.T``."""
    return _tensors(getattr(_array(array), name))


array_attribute.__name__ = "numpy_attr_wrapper"  # as torch's graphs call it


def _array(value: object) -> object:
    return torch_internals.torch_numpy("").ndarray(value) if isinstance(value, torch.Tensor) else value


def _tensors(value: Any) -> Any:
    if isinstance(value, torch_internals.torch_numpy("").ndarray):
        return value.tensor
    if isinstance(value, (tuple, list)):
        return type(value)(_tensors(each) for each in value)
    return value


def numpy_result(function: Callable[..., object], arguments: Sequence[object], keywords: Mapping[str, object]) -> Any:
    """NumPy's own result for arrays of ones: an array of the right dtype and rank; None if it rejects them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arguments, **keywords)
        except Exception:  # noqa: BLE001 whatever it has against ones, other values may be right
            return None


def ones(sizes: Sequence[int], dtype: torch.dtype) -> object:
    """An array of ones, for a call of NumPy's function."""
    return torch.ones(tuple(sizes), dtype=dtype).numpy()


def torch_dtype(array: Any) -> torch.dtype:
    """The dtype of the tensor that represents an array."""
    return from_array(array.ravel()[:0].copy()).dtype


def to_array(tensor: torch.Tensor) -> object:
    """A graph's output as the array that the program expects."""
    return tensor.numpy(force=True)


def to_scalar(tensor: torch.Tensor) -> object:
    """A graph's output as a NumPy scalar, such as the sum of an array or one of its items."""
    array: Any = to_array(tensor)
    return array[()]


def to_number(tensor: torch.Tensor) -> object:
    """A graph's output as a number of Python's: ``a.item()``."""
    array: Any = to_array(tensor)
    return array.item()


def from_array(array: Any) -> torch.Tensor:
    """An array as an input of a graph: the same memory, unless the array is read-only."""
    # A read-only array is copied: the tensor would share its memory, and may be written to.
    flags = getattr(array, "flags", None)
    return torch.as_tensor(array if flags is None or flags.writeable else array.copy())
