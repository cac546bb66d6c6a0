"""The compiled artifact of a graph: collected while compiling, by nobody outside of a block."""

from __future__ import annotations

from nbcompile.ir import compiled_artifact as artifact


def test_outside_of_a_block_nothing_is_collected():
    """Stages may write at any time."""
    artifact.add_program("program")
    artifact.set_role("forward")
    artifact.refuse("no reason")
    assert not artifact.is_collecting()


def test_programs_and_roles_are_collected_in_order():
    """With the constants of each; blocks may be nested, and each has its own."""
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
    """It is the one that a reader can do something about."""
    with artifact.collecting() as builder:
        artifact.refuse("first")
        artifact.refuse("second")
    assert builder.obstacle == "first"


def test_a_fallback_discards_what_was_compiled_before():
    """The captured graph is all of the artifact then."""
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
    """The builder has the list that the thread will call."""
    with artifact.collecting() as builder:
        callbacks = artifact.defer()
    assert builder.ready is callbacks
