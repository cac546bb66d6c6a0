"""The compiled artifact of a graph: stages write to it only inside of a block."""

from __future__ import annotations

from nbcompile.ir import compiled_artifact as artifact


def test_outside_of_a_block_nothing_is_collected():
    """Outside of a block, stages may write, and nothing is collected."""
    artifact.add_program("program")
    artifact.set_role("forward")
    artifact.mark_not_storable("no reason")
    assert not artifact.is_collecting()


def test_programs_and_roles_are_collected_in_order():
    """Programs are collected with their constants; blocks may be nested, and each block has a separate artifact."""
    with artifact.collecting() as outer:
        artifact.add_program("one", constants={1: "c"})
        artifact.set_role("forward")
        with artifact.collecting() as inner:
            artifact.add_program("other")
        artifact.add_program("two")
        artifact.set_role("backward")
    assert (outer.programs, outer.roles, inner.programs) == (["one", "two"], ["forward", "backward"], ["other"])
    assert [each.constants for each in outer.constants_of_programs] == [{1: "c"}, {}]


def test_the_first_reason_is_kept():
    """The first reason is recorded: it is the one that a user can act on."""
    with artifact.collecting() as builder:
        artifact.mark_not_storable("first")
        artifact.mark_not_storable("second")
    assert builder.obstacle == "first"


def test_a_fallback_discards_what_was_compiled_before():
    """After a fallback the artifact contains only the captured graph."""
    with artifact.collecting() as builder:
        artifact.add_program("one")
        artifact.set_role("inference")
        artifact.set_wrapper("direct", "metadata")
        artifact.set_alias_check("before", "check")
        artifact.fall_back_to_eager("captured")
    assert (builder.programs, builder.roles, builder.constants_of_programs) == ([], [], [])
    assert (builder.wrapper_kind, builder.captured) == ("captured", "captured")
    assert (builder.runtime_metadata, builder.alias_check) == (None, None)


def test_callbacks_wait_for_a_background_thread():
    """The builder gets the list of callbacks that the background thread calls."""
    with artifact.collecting() as builder:
        callbacks = artifact.defer()
    assert builder.ready is callbacks
