"""Registries that grow with imports: an entry depends only on the classes that its program uses."""

import dataclasses

import pytest
import torch
from torch.utils import _pytree as pytree

PROGRAMS = {
    "tree_map": "return tree_map(lambda t: t * 2, {'a': [x, (x + 1, 2)], 'b': 3})['a']",
    "tree_flatten": "leaves, spec = tree_flatten([x, {'k': (x, box)}])\n    return tree_unflatten([leaves[0] + 1, *leaves[1:]], spec)[0]",
    "tree_leaves": "return sum(t for t in tree_leaves([x, {'k': (x, box)}]) if isinstance(t, torch.Tensor))",
    "vmap": "return torch.vmap(lambda t, o: t * 2 + o['k'])(x, {'k': x})",
}
SOURCE = """
import dataclasses, torch
from torch.utils._pytree import tree_map, tree_flatten, tree_unflatten, tree_leaves

@dataclasses.dataclass
class Box:
    t: object = 3

box = Box()

def f(x):
    {body}
"""


def register(cls):
    """Register a data class as another library does; return a function that undoes it."""
    pytree.register_pytree_node(
        cls,
        lambda box: ([box.t], None),
        lambda parts, _: cls(*parts),
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
    )
    return lambda: pytree._deregister_pytree_node(cls)


def other_library():
    """A class of a library that the program does not use."""

    @dataclasses.dataclass
    class ModelOutput:
        t: object = None

    return ModelOutput


@pytest.mark.parametrize("body", PROGRAMS.values(), ids=list(PROGRAMS))
def test_entries_are_loaded_where_another_library_registered_classes(process, body):
    """A process with another number of classes in the pytree registry loads the entry."""
    source, x = SOURCE.format(body=body), torch.arange(6.0).view(2, 3)
    wanted = process(source).call("f", x)
    undo = register(other_library())
    try:
        later = process(source)
        found = later.call("f", x)
        assert later.loaded == [True], later.reasons
        assert pytree.tree_leaves(found)[0].equal(pytree.tree_leaves(wanted)[0])
    finally:
        undo()


def test_a_class_that_a_program_met_and_that_is_registered_later_is_noticed(process):
    """Instances that were leaves are nodes after the registration, in a later and in the same process."""
    source, x = (
        SOURCE.format(
            body="return len(tree_leaves([x, box])), [type(t).__name__ for t in tree_leaves([x, box])], x + 1"
        ),
        torch.ones(2),
    )
    first = process(source)
    assert first.call("f", x)[:2] == (2, ["Tensor", "Box"])
    later = process(source)
    undo = register(later.module.Box)
    try:
        assert later.call("f", x)[:2] == (2, ["Tensor", "int"])
        assert later.loaded == [False]
    finally:
        undo()
    assert later.call("f", x)[:2] == (2, ["Tensor", "Box"])
    again = process(source)
    assert again.call("f", x)[:2] == (2, ["Tensor", "Box"])
    assert again.loaded == [True]
    undo = register(again.module.Box)
    try:
        assert again.call("f", x)[:2] == (2, ["Tensor", "int"])
    finally:
        undo()
