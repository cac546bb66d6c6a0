"""Names lead to objects of this process, whatever these are."""

from __future__ import annotations

import pytest
import torch

from nbcompile.capture.literals import Unreadable
from nbcompile.fast.disk_cache import named_objects


def test_a_path_of_attributes_is_followed():
    """From a module to a method of a class; a path that ends early is refused, and so is a module that is not there."""
    assert named_objects.named("torch.nn", "Linear.forward") is torch.nn.Linear.forward
    for module, path in (("torch.nn", "Linear.backwards"), ("no.such.module", "f")):
        with pytest.raises(Unreadable, match=f"there is no {module}.{path}"):
            named_objects.named(module, path)


def test_a_missing_attribute_is_none():
    """So the caller need not tell a missing class from a missing member."""
    assert named_objects.walk(torch, "nn.Linear") is torch.nn.Linear
    assert named_objects.walk(torch, "nn.No.forward") is None


def test_a_member_of_a_class_is_unbound():
    """As the class has it, not as an instance would get it; of a module, its attribute."""
    assert isinstance(named_objects.member_of(dict, "fromkeys"), type(vars(dict)["fromkeys"]))
    assert named_objects.member_of(torch, "relu") is torch.relu


def test_operators_are_found_by_name():
    """Also those whose module nobody has imported yet; one that does not exist is None."""
    assert named_objects.operator_named("aten.add.Tensor") is torch.ops.aten.add.Tensor
    assert named_objects.operator_named("aten.no_such_operator.default") is None
