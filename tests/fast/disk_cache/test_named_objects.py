"""Names of objects of this process."""

from __future__ import annotations

import pytest
import torch

from nbcompile.capture.literals import Unreadable
from nbcompile.fast.disk_cache import named_objects


def test_a_path_of_attributes_is_followed():
    """A path leads from a module to a method of a class; a missing attribute or module is an error."""
    assert named_objects.named("torch.nn", "Linear.forward") is torch.nn.Linear.forward
    for module, path in (("torch.nn", "Linear.backwards"), ("no.such.module", "f")):
        with pytest.raises(Unreadable, match=f"there is no {module}.{path}"):
            named_objects.named(module, path)


def test_a_missing_attribute_is_none():
    """A missing class and a missing member are both None."""
    assert named_objects.walk(torch, "nn.Linear") is torch.nn.Linear
    assert named_objects.walk(torch, "nn.No.forward") is None


def test_a_member_of_a_class_is_unbound():
    """The member of a class is the entry of its ``__dict__``, that of a module its attribute."""
    assert isinstance(named_objects.member_of(dict, "fromkeys"), type(vars(dict)["fromkeys"]))
    assert named_objects.member_of(torch, "relu") is torch.relu


def test_operators_are_found_by_name():
    """Operators are found also before their module is imported; a missing one is None."""
    assert named_objects.operator_named("aten.add.Tensor") is torch.ops.aten.add.Tensor
    assert named_objects.operator_named("aten.no_such_operator.default") is None
