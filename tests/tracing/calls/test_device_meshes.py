"""Slices of a device mesh inside compiled functions, in one process."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import nbcompile
from tests.support.one_rank import one_rank  # noqa: F401 - a fixture of every test here


@pytest.fixture(scope="module")
def mesh(one_rank):  # noqa: F811
    return init_device_mesh("cpu", (1, 1, 1), mesh_dim_names=("pp", "dp", "tp"))


def compiled(program):
    return nbcompile.compile(program, backend="eager", fullgraph=True)


@pytest.mark.parametrize(
    "question",
    [
        lambda mesh: mesh["dp"].size() + mesh["dp", "tp"].ndim * 2 + mesh["pp", "dp", "tp"].ndim * 8,
        lambda mesh: len(mesh["dp", "tp"]["tp"].mesh_dim_names[0]) + mesh["dp"].get_local_rank(),
        lambda mesh: mesh["dp"].mesh.sum() + mesh["dp"].get_coordinate()[0],
        lambda mesh: 3 if mesh["dp"].get_group() is mesh.get_group("dp") else 4,
        lambda mesh: 3 if mesh["dp"] == mesh["dp"] and mesh["dp"] != mesh["tp"] else 4,
        lambda mesh: 3 if mesh["dp"] is mesh["dp"] else 4,
        lambda mesh: {mesh["dp"]: 3}[mesh["dp"]],
        lambda mesh: 3 if isinstance(mesh["dp"], DeviceMesh) else 4,
    ],
    ids=["sizes", "slice of a slice", "tensor", "group", "equal", "identical", "key", "class"],
)
def test_a_question_about_a_slice_is_answered_while_tracing(question, mesh):
    """The answer equals eager mode's, and the function is one graph."""

    def program(x):
        return x + question(mesh)

    assert compiled(program)(torch.ones(2)).tolist() == program(torch.ones(2)).tolist()


def test_a_slice_that_is_returned_is_a_new_one(mesh):
    """Each call creates a new slice, which may be returned twice; it has the attributes that the program set on it."""

    def program(x):
        part = mesh["dp"]
        part.note = "set while tracing"
        return x + 1, part, [part]

    call = compiled(program)
    (_, first, (again,)), (_, second, _) = call(torch.ones(2)), call(torch.ones(2))
    assert type(first) is DeviceMesh
    assert first == second == mesh["dp"]
    assert first is again
    assert first is not second
    assert first.note == second.note == "set while tracing"


def test_another_mesh_is_another_entry(mesh):
    """The slice belongs to the mesh of the current call."""
    other = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "other"))

    def program(x, mesh):
        return x + mesh["dp"].ndim + len(mesh["dp"]._get_root_mesh().mesh_dim_names)

    call = compiled(program)
    assert [call(torch.zeros(1), each).item() for each in (mesh, other, mesh)] == [4, 3, 4]


def test_an_unknown_name_is_eager_modes_error(mesh):
    """The program catches the KeyError; a later call finds the name if dimensions were flattened under it."""

    def program(x):
        try:
            return x + mesh["joined"].size()
        except KeyError:
            return x + 10

    call = nbcompile.compile(program, backend="eager")
    assert call(torch.zeros(1)).item() == program(torch.zeros(1)).item() == 10
    mesh["dp", "tp"]._flatten("joined")
    assert call(torch.zeros(1)).item() == program(torch.zeros(1)).item() == 1
