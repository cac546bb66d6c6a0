"""The symbolic shape environment of a trace."""

from __future__ import annotations

from nbcompile.torch_internals import allow_scalar_outputs, new_shape_env, scalar_outputs


class Listener:
    def heard(self, condition):
        """Conditions are not looked at here."""


def test_scalar_outputs_are_allowed_for_a_while():
    """After the block the setting is what it was before."""
    listener = Listener()
    shape_env = new_shape_env(False, False, listener.heard)
    with scalar_outputs(shape_env):
        assert shape_env.settings.allow_scalar_outputs
    assert not shape_env.settings.allow_scalar_outputs
    assert allow_scalar_outputs(shape_env, True) is False
